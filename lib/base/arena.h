/* Memory that is freed all at once: everything with the lifetime of an exchange.
 * Owner: whoever embeds it. Not for threads. */
#ifndef WR_BASE_ARENA_H
#define WR_BASE_ARENA_H

#include <stddef.h>

#include "base/compiler.h"
#include "base/str.h"

struct wr_arena_block;

struct wr_arena {
    struct wr_arena_block *blocks; /* newest first */
    char *at;
    char *end;
    size_t held; /* bytes of all blocks */
};

void wr_arena_init(struct wr_arena *arena);
/* Can be called twice. */
void wr_arena_free(struct wr_arena *arena);

/* N bytes aligned for any type, not cleared; never NULL: without memory the process aborts (see lib/base/README.md). */
void *wr_arena_alloc(struct wr_arena *arena, size_t n);
void *wr_arena_alloc_zero(struct wr_arena *arena, size_t n);

/* A copy of S that lives as long as the arena, with a NUL behind it that is not counted. */
struct wr_str wr_arena_copy(struct wr_arena *arena, struct wr_str s);
struct wr_str wr_arena_printf(struct wr_arena *arena, const char *format, ...) WR_PRINTF(2, 3);

#endif
