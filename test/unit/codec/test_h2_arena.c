/* The memory of HTTP/2 sessions: blocks, sleep and waking. */
#include <criterion/criterion.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "codec/h2_arena.h"
#include "codec/h2_slots.h"

#define MOST 600
#define ROUNDS 20000

struct block {
    unsigned char *p;
    size_t n;
    unsigned char filler;
};

struct keep {
    struct wr_h2_arena arena;
    struct block blocks[MOST];
    unsigned seed;
};

static unsigned any(struct keep *keep, unsigned below)
{
    return (unsigned)rand_r(&keep->seed) % below;
}

static bool is_inside(const struct wr_h2_arena *arena, const void *p)
{
    uintptr_t slot = (uintptr_t)arena->slot;
    return (uintptr_t)p >= slot && (uintptr_t)p < slot + WR_H2_SLOT;
}

static void check(const struct block *block, size_t n)
{
    cr_assert_eq((uintptr_t)block->p % 16, 0);
    for (size_t i = 0; i < n; i++)
        cr_assert_eq(block->p[i], block->filler, "byte %zu of %zu", i, n);
}

static void fill(struct keep *keep, struct block *block)
{
    block->filler = (unsigned char)any(keep, 256);
    memset(block->p, block->filler, block->n);
}

/* Sizes as nghttp2's: most of them small. */
static size_t any_size(struct keep *keep)
{
    size_t most = any(keep, 20) == 0 ? 20000 : any(keep, 4) == 0 ? 1500 : 250;
    return any(keep, (unsigned)most) + 1;
}

static void step(struct keep *keep)
{
    struct block *block = &keep->blocks[any(keep, MOST)];
    if (block->p == NULL) {
        block->n = any_size(keep);
        block->p = wr_h2_arena_alloc(&keep->arena, block->n);
        fill(keep, block);
        return;
    }
    check(block, block->n);
    if (any(keep, 4) == 0) {
        size_t n = any_size(keep);
        block->p = wr_h2_arena_resize(&keep->arena, block->p, n);
        check(block, n < block->n ? n : block->n);
        block->n = n;
        fill(keep, block);
    } else {
        wr_h2_arena_free(&keep->arena, block->p);
        block->p = NULL;
    }
}

static void free_all(struct keep *keep)
{
    for (unsigned i = 0; i < MOST; i++)
        wr_h2_arena_free(&keep->arena, keep->blocks[i].p);
    cr_expect_eq(keep->arena.held, 0);
    cr_expect_eq(keep->arena.spilled, 0);
    wr_h2_arena_clear(&keep->arena);
}

/* More than fits, so some are spilled. */
Test(h2_arena, blocks_are_what_they_were_after_sleep)
{
    struct keep *keep = calloc(1, sizeof(*keep));
    bool spilled = false;
    keep->seed = 7;
    wr_h2_arena_init(&keep->arena);
    for (unsigned i = 0; i < ROUNDS; i++) {
        step(keep);
        spilled |= keep->arena.spilled > 0;
        if (i % 50 != 0)
            continue;
        size_t held = keep->arena.held;
        cr_assert(wr_h2_arena_sleep(&keep->arena));
        cr_assert(wr_h2_arena_sleeps(&keep->arena));
        wr_h2_arena_wake(&keep->arena);
        cr_assert(!wr_h2_arena_sleeps(&keep->arena));
        cr_assert_eq(keep->arena.held, held);
        for (unsigned k = 0; k < MOST; k++)
            check(&keep->blocks[k], keep->blocks[k].p != NULL ? keep->blocks[k].n : 0);
    }
    cr_expect(spilled);
    free_all(keep);
    free(keep);
}

Test(h2_arena, blocks_do_not_overlap)
{
    struct wr_h2_arena arena;
    unsigned char *last = NULL;
    wr_h2_arena_init(&arena);
    for (size_t n = 1; n < 300; n++) {
        unsigned char *p = wr_h2_arena_alloc(&arena, n);
        cr_expect(is_inside(&arena, p));
        cr_expect(last == NULL || p >= last + n - 1, "%zu", n);
        last = p;
    }
    for (unsigned i = 0; i < 2; i++) { /* the same again, from the free ones */
        unsigned char *p = wr_h2_arena_alloc(&arena, 100);
        wr_h2_arena_free(&arena, p);
        cr_expect_eq(wr_h2_arena_alloc(&arena, 101), p);
        wr_h2_arena_free(&arena, p);
    }
    /* It sleeps, so what is in it goes with it. */
    cr_assert(wr_h2_arena_sleep(&arena));
    wr_h2_arena_clear(&arena);
}

Test(h2_arena, what_does_not_fit_is_malloced)
{
    struct wr_h2_arena arena;
    enum { COUNT = 100 };
    void *blocks[COUNT];
    wr_h2_arena_init(&arena);
    void *large = wr_h2_arena_alloc(&arena, WR_H2_SLOT / 2);
    cr_expect(!is_inside(&arena, large));
    cr_expect_eq(arena.spilled, 1);
    for (unsigned i = 0; i < COUNT; i++) {
        blocks[i] = wr_h2_arena_alloc(&arena, 1000);
        memset(blocks[i], (int)i, 1000);
    }
    cr_expect_gt(arena.spilled, 30);
    cr_expect_lt(arena.spilled, 50);
    cr_expect(is_inside(&arena, blocks[0]) && !is_inside(&arena, blocks[COUNT - 1]));
    cr_assert(wr_h2_arena_sleep(&arena));
    cr_expect_eq(((unsigned char *)blocks[COUNT - 1])[999], COUNT - 1, "it is not asleep");
    wr_h2_arena_wake(&arena);
    cr_expect_eq(((unsigned char *)blocks[1])[999], 1);
    /* A smaller one goes into a free one that is larger, now that there is nothing else. */
    void *rest = wr_h2_arena_alloc(&arena, 800);
    cr_expect(is_inside(&arena, rest));
    wr_h2_arena_free(&arena, blocks[0]);
    cr_expect_eq(wr_h2_arena_alloc(&arena, 600), blocks[0]);
    wr_h2_arena_free(&arena, rest);
    wr_h2_arena_free(&arena, large);
    for (unsigned i = 0; i < COUNT; i++)
        wr_h2_arena_free(&arena, blocks[i]);
    wr_h2_arena_clear(&arena);
}

Test(h2_arena, what_was_freed_costs_nothing_asleep)
{
    struct wr_h2_arena arena;
    enum { COUNT = 50 };
    unsigned char *blocks[COUNT];
    unsigned seed = 3;
    wr_h2_arena_init(&arena);
    for (unsigned i = 0; i < COUNT; i++) {
        blocks[i] = wr_h2_arena_alloc(&arena, 1000);
        for (unsigned k = 0; k < 1000; k++)
            blocks[i][k] = (unsigned char)rand_r(&seed);
    }
    cr_assert(wr_h2_arena_sleep(&arena));
    cr_expect_gt(arena.packed_size, 49000);
    wr_h2_arena_wake(&arena);
    for (unsigned i = 0; i < COUNT; i++)
        wr_h2_arena_free(&arena, blocks[i]);
    cr_assert(wr_h2_arena_sleep(&arena));
    cr_expect_lt(arena.packed_size, 1200);
    wr_h2_arena_wake(&arena);
    cr_expect_eq(wr_h2_arena_alloc(&arena, 1000), blocks[COUNT - 1]);
    wr_h2_arena_free(&arena, blocks[COUNT - 1]);
    wr_h2_arena_clear(&arena);
}

/* More than are kept warm, and more than one reservation has. */
Test(h2_arena, slots_are_used_again)
{
    enum { COUNT = 1100 };
    static struct wr_h2_arena arenas[COUNT];
    wr_h2_arena_init(&arenas[0]);
    void *slot = arenas[0].slot;
    cr_assert_not_null(slot);
    wr_h2_arena_clear(&arenas[0]);
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < COUNT; i++) {
            wr_h2_arena_init(&arenas[i]);
            cr_expect(i > 0 || round > 0 || arenas[i].slot == slot);
            memset(wr_h2_arena_alloc(&arenas[i], 9000), 1, 9000);
        }
        for (unsigned i = 0; i < COUNT; i++) {
            cr_assert(i == 0 || arenas[i].slot != arenas[i - 1].slot);
            cr_assert(wr_h2_arena_sleep(&arenas[i]));
            wr_h2_arena_clear(&arenas[i]);
        }
    }
}
