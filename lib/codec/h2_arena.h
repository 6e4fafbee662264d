/* The memory of one session, in one piece at one address (h2_slots.h): while nothing uses it, it can be compressed and given back, and
 * comes back to where it was, so pointers into it stay good and nghttp2 need not know. What does not fit is malloc'ed, and stays as it is. */
#ifndef WR_CODEC_H2_ARENA_H
#define WR_CODEC_H2_ARENA_H

#include <stdbool.h>
#include <stddef.h>

struct wr_h2_arena {
    unsigned char *slot; /* NULL: there was none, all is malloc'ed */
    void *packed;        /* what the slot holds, while it sleeps; else NULL */
    unsigned packed_size;
    unsigned packed_used; /* bytes of the slot */
    unsigned common;      /* words that were taken out, see wr_h2_arena_learn() */
    unsigned spilled;     /* blocks that are malloc'ed */
    size_t held;          /* bytes of all blocks there are */
};

void wr_h2_arena_init(struct wr_h2_arena *arena);
/* All blocks have been freed, or it sleeps and nothing is spilled. */
void wr_h2_arena_clear(struct wr_h2_arena *arena);

/* As those of the standard library, but for NULL where there is no memory. It is awake. */
void *wr_h2_arena_alloc(struct wr_h2_arena *arena, size_t n); /* not cleared */
void *wr_h2_arena_resize(struct wr_h2_arena *arena, void *p, size_t n);
void wr_h2_arena_free(struct wr_h2_arena *arena, void *p);

/* What it holds now, as it is or nearly, is in most arenas there will be: none of it is a peer's. The first time counts. */
void wr_h2_arena_learn(const struct wr_h2_arena *arena);
/* No block is touched until wr_h2_arena_wake(). False: nothing was done, it has no slot. */
bool wr_h2_arena_sleep(struct wr_h2_arena *arena);
void wr_h2_arena_wake(struct wr_h2_arena *arena);
static inline bool wr_h2_arena_sleeps(const struct wr_h2_arena *arena)
{
    return arena->packed != NULL;
}

#endif
