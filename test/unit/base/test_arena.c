#include <criterion/criterion.h>

#include <signal.h>
#include <stdint.h>
#include <string.h>

#include "base/arena.h"

Test(arena, what_it_gives_is_aligned_and_disjoint)
{
    struct wr_arena arena;
    unsigned char *given[400];
    wr_arena_init(&arena);
    for (size_t i = 0; i < 400; i++) {
        size_t n = i * 7 % 131;
        given[i] = wr_arena_alloc(&arena, n);
        cr_assert_not_null(given[i]);
        cr_assert_eq((uintptr_t)given[i] % 16, 0);
        memset(given[i], (int)(i & 0xff), n);
    }
    for (size_t i = 0; i < 400; i++) {
        for (size_t k = 0; k < i * 7 % 131; k++)
            if (given[i][k] != (i & 0xff))
                cr_assert_fail("object %zu was written over", i);
    }
    wr_arena_free(&arena);
}

Test(arena, a_small_use_takes_one_small_block)
{
    struct wr_arena arena;
    wr_arena_init(&arena);
    cr_assert_eq(arena.held, 0);
    for (int i = 0; i < 20; i++)
        (void)wr_arena_alloc(&arena, 64);
    cr_assert_eq(arena.held, 2048);
    wr_arena_free(&arena);
    cr_assert_eq(arena.held, 0);
    wr_arena_free(&arena);
    (void)wr_arena_alloc(&arena, 1); /* is as new */
    wr_arena_free(&arena);
}

Test(arena, a_large_object_leaves_the_current_block_in_use)
{
    struct wr_arena arena;
    wr_arena_init(&arena);
    char *before = wr_arena_alloc(&arena, 16);
    char *large = wr_arena_alloc(&arena, 1 << 20);
    memset(large, 'x', 1 << 20);
    char *after = wr_arena_alloc(&arena, 16);
    cr_assert_eq(after, before + 16);
    cr_assert_lt(arena.held, (1 << 20) + 4096);
    wr_arena_free(&arena);
}

Test(arena, blocks_grow_so_that_much_takes_few_of_them)
{
    struct wr_arena arena;
    wr_arena_init(&arena);
    size_t used = 0;
    size_t blocks = 0;
    size_t held = 0;
    while (used < 1 << 20) {
        (void)wr_arena_alloc(&arena, 128);
        used += 128;
        blocks += arena.held != held;
        held = arena.held;
    }
    cr_assert_leq(blocks, 24);
    cr_assert_lt(held, used + 2 * 65536);
    wr_arena_free(&arena);
}

Test(arena, copies_and_texts)
{
    struct wr_arena arena;
    wr_arena_init(&arena);
    char source[] = "a\0b";
    struct wr_str copy = wr_arena_copy(&arena, wr_str(source, 3));
    memset(source, 'z', 3);
    cr_assert(wr_str_eq(copy, WR_STR("a\0b")));
    cr_assert_eq(wr_arena_copy(&arena, wr_str(NULL, 0)).n, 0);

    struct wr_str text = wr_arena_printf(&arena, "%s-%d", "x", 42);
    cr_assert(wr_str_eq(text, WR_STR("x-42")));
    struct wr_str wide = wr_arena_printf(&arena, "%5000d|", 1);
    cr_assert_eq(wide.n, 5001);
    cr_assert_eq(wide.p[5000], '|');

    unsigned char *zero = wr_arena_alloc_zero(&arena, 3000);
    for (size_t i = 0; i < 3000; i++)
        if (zero[i] != 0)
            cr_assert_fail("byte %zu is not cleared", i);
    wr_arena_free(&arena);
}

Test(arena, an_absurd_size_ends_the_process, .signal = SIGABRT)
{
    struct wr_arena arena;
    wr_arena_init(&arena);
    (void)wr_arena_alloc(&arena, SIZE_MAX - 7);
}

Test(arena, copies_are_terminated)
{
    struct wr_arena arena;
    wr_arena_init(&arena);
    char *dirty = wr_arena_alloc(&arena, 64);
    memset(dirty, 'x', 64);
    for (size_t n = 0; n <= 40; n++) {
        struct wr_str copy = wr_arena_copy(&arena, wr_str(dirty, n));
        cr_expect_eq(copy.n, n);
        cr_expect_eq(copy.p[n], '\0');
        memset(wr_arena_alloc(&arena, 8), 'y', 8);
        cr_expect_eq(copy.p[n], '\0');
    }
    wr_arena_free(&arena);
}
