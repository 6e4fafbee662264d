#include "base/arena.h"

#include <stdalign.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"

#define ALIGNMENT alignof(max_align_t)
#define FIRST_BLOCK 2048 /* a small exchange fits in one */
#define LAST_BLOCK 65536 /* blocks double up to this */

struct wr_arena_block {
    struct wr_arena_block *next;
    alignas(max_align_t) char bytes[];
};

void wr_arena_init(struct wr_arena *arena)
{
    *arena = (struct wr_arena){0};
}

void wr_arena_free(struct wr_arena *arena)
{
    struct wr_arena_block *block = arena->blocks;
    while (block != NULL) {
        struct wr_arena_block *next = block->next;
        free(block);
        block = next;
    }
    wr_arena_init(arena);
}

static size_t round_up(size_t n)
{
    WR_ASSERT(n <= SIZE_MAX / 2);
    return (n + ALIGNMENT - 1) & ~(ALIGNMENT - 1);
}

/* A new block of SIZE bytes, header and all. */
static struct wr_arena_block *add_block(struct wr_arena *arena, size_t size)
{
    struct wr_arena_block *block = wr_new_bytes(size);
    block->next = arena->blocks;
    arena->blocks = block;
    arena->held += size;
    return block;
}

/* As large as all before it, so that what is held doubles. */
static size_t next_block_size(const struct wr_arena *arena)
{
    if (arena->held <= FIRST_BLOCK)
        return FIRST_BLOCK;
    return arena->held < LAST_BLOCK ? arena->held : LAST_BLOCK;
}

WR_RARE static void *alloc_slow(struct wr_arena *arena, size_t n)
{
    size_t header = sizeof(struct wr_arena_block);
    size_t size = next_block_size(arena);
    /* What would waste much of a block gets its own, and the current one goes on being filled. */
    if (n > size / 4)
        return add_block(arena, header + n)->bytes;

    struct wr_arena_block *block = add_block(arena, size);
    arena->at = block->bytes + n;
    arena->end = (char *)block + size;
    return block->bytes;
}

void *wr_arena_alloc(struct wr_arena *arena, size_t n)
{
    n = round_up(n);
    if (arena->at == NULL || n > (size_t)(arena->end - arena->at))
        return alloc_slow(arena, n);
    void *p = arena->at;
    arena->at += n;
    return p;
}

void *wr_arena_alloc_zero(struct wr_arena *arena, size_t n)
{
    return memset(wr_arena_alloc(arena, n), 0, n);
}

struct wr_str wr_arena_copy(struct wr_arena *arena, struct wr_str s)
{
    if (s.n == 0)
        return WR_STR_EMPTY;
    char *copy = wr_arena_alloc(arena, s.n + 1);
    memcpy(copy, s.p, s.n);
    copy[s.n] = '\0';
    return wr_str(copy, s.n);
}

struct wr_str wr_arena_printf(struct wr_arena *arena, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int measured = vsnprintf(NULL, 0, format, args);
    va_end(args);
    WR_ASSERT(measured >= 0);

    size_t size = (size_t)measured + 1;
    char *text = wr_arena_alloc(arena, size);
    va_start(args, format);
    int printed = vsnprintf(text, size, format, args);
    va_end(args);
    WR_ASSERT(printed == measured);
    return wr_str(text, (size_t)measured);
}
