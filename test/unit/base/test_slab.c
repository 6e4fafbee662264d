/* Objects of one size, in crowds. */
#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>

#include "base/slab.h"

#define MANY 1000
#define SIZE 500

static void *objects[MANY];

static void take_all(struct wr_slab *slab)
{
    for (size_t i = 0; i < MANY; i++) {
        objects[i] = wr_slab_take(slab);
        for (size_t at = 0; at < SIZE; at++)
            cr_assert_eq(((char *)objects[i])[at], 0);
        memset(objects[i], (int)(i % 255) + 1, SIZE);
    }
}

Test(slab, objects_are_cleared_aligned_and_their_own)
{
    struct wr_slab slab;
    wr_slab_init(&slab, SIZE);
    for (int round = 0; round < 3; round++) {
        take_all(&slab);
        cr_assert_eq(slab.count, MANY);
        cr_assert_geq(wr_slab_bytes(&slab), MANY * (size_t)SIZE);
        for (size_t i = 0; i < MANY; i++) {
            cr_assert_eq((uintptr_t)objects[i] % 16, 0);
            for (size_t at = 0; at < SIZE; at++)
                cr_assert_eq(((unsigned char *)objects[i])[at], i % 255 + 1);
        }
        for (size_t i = 0; i < MANY; i++)
            wr_slab_give(&slab, objects[(i * 7) % MANY]); /* 7 and MANY have no divisor in common */
        cr_assert_eq(slab.count, 0);
    }
    wr_slab_give(&slab, NULL);
    wr_slab_clear(&slab);
    wr_slab_clear(&slab);
}

Test(slab, what_is_empty_goes_back)
{
    struct wr_slab slab;
    wr_slab_init(&slab, SIZE);
    void *lone = wr_slab_take(&slab);
    size_t least = wr_slab_bytes(&slab);
    wr_slab_give(&slab, lone);
    take_all(&slab);
    size_t most = wr_slab_bytes(&slab);
    cr_assert_geq(most, MANY * (size_t)SIZE);
    for (size_t i = 1; i < MANY; i++)
        wr_slab_give(&slab, objects[i]);
    cr_assert_leq(wr_slab_bytes(&slab), 2 * least); /* the one in use, and one to spare */
    wr_slab_give(&slab, objects[0]);
    cr_assert_leq(wr_slab_bytes(&slab), 2 * least);
    wr_slab_clear(&slab);
    cr_assert_eq(wr_slab_bytes(&slab), 0);
}
