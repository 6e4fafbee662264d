/* Token buckets, one and many. */
#include <criterion/criterion.h>

#include "admission/rate.h"
#include "base/time.h"

static unsigned take_all(struct wr_bucket *bucket, const struct wr_rate *rate, uint64_t now)
{
    unsigned n = 0;
    while (n < 100000 && wr_bucket_take(bucket, rate, now))
        n++;
    return n;
}

Test(rate, a_burst_at_once_then_so_many_a_second)
{
    struct wr_rate rate = {.per_second = 10, .burst = 5};
    struct wr_bucket bucket = {0};
    uint64_t now = WR_SEC;

    cr_assert_eq(take_all(&bucket, &rate, now), 5);
    cr_assert_eq(wr_bucket_wait(&bucket, &rate, now), 100 * WR_MSEC);
    cr_assert_eq(take_all(&bucket, &rate, now + 99 * WR_MSEC), 0);
    cr_assert_eq(take_all(&bucket, &rate, now + 100 * WR_MSEC), 1);
    cr_assert_eq(take_all(&bucket, &rate, now + 350 * WR_MSEC), 2);
    cr_assert_eq(take_all(&bucket, &rate, now + 100 * WR_SEC), 5, "no more is saved up");
    unsigned taken = 0;
    for (uint64_t t = 0; t < 10 * WR_SEC; t += WR_MSEC)
        taken += wr_bucket_take(&bucket, &rate, now + 200 * WR_SEC + t);
    cr_assert_eq(taken, 5 + 99);
}

Test(rate, no_limit)
{
    struct wr_rate none = {0};
    struct wr_bucket bucket = {0};
    cr_assert_eq(take_all(&bucket, &none, 5), 100000);
    cr_assert_eq(wr_bucket_wait(&bucket, &none, 5), 0);
    cr_assert_null(wr_rate_table_new(&none, 100, 1));
    cr_assert(wr_rate_table_take(NULL, 1, 5));
    cr_assert_eq(wr_rate_table_wait(NULL, 1, 5), 0);
    wr_rate_table_free(NULL);
}

Test(rate, extremes)
{
    struct wr_rate fast = {.per_second = UINT64_MAX, .burst = 1};
    struct wr_bucket bucket = {0};
    cr_assert_eq(take_all(&bucket, &fast, 7), 1);
    cr_assert_eq(take_all(&bucket, &fast, 8), 1);
    struct wr_rate wide = {.per_second = 1, .burst = UINT64_MAX};
    bucket = (struct wr_bucket){0};
    cr_assert_eq(take_all(&bucket, &wide, 7), 100000);
    struct wr_rate nothing_at_once = {.per_second = 1, .burst = 0};
    bucket = (struct wr_bucket){0};
    cr_assert_eq(take_all(&bucket, &nothing_at_once, 7), 1);
}

Test(rate, a_clock_that_steps_back_locks_nobody_out)
{
    struct wr_rate rate = {.per_second = 10, .burst = 5};
    struct wr_bucket bucket = {0};
    (void)take_all(&bucket, &rate, 1000 * WR_SEC);
    cr_assert_eq(wr_bucket_wait(&bucket, &rate, WR_SEC), 100 * WR_MSEC);
    cr_assert_eq(take_all(&bucket, &rate, WR_SEC), 0);
    cr_assert_eq(take_all(&bucket, &rate, WR_SEC + 100 * WR_MSEC), 1);
}

Test(rate, each_key_has_a_bucket)
{
    struct wr_rate rate = {.per_second = 1, .burst = 2};
    struct wr_rate_table *table = wr_rate_table_new(&rate, WR_RATE_KEYS, 99);
    for (uint64_t key = 0; key < 1000; key++) {
        cr_assert(wr_rate_table_take(table, key, WR_SEC));
        cr_assert(wr_rate_table_take(table, key, WR_SEC));
    }
    for (uint64_t key = 0; key < 1000; key++) {
        cr_assert_not(wr_rate_table_take(table, key, WR_SEC));
        cr_assert_eq(wr_rate_table_wait(table, key, WR_SEC), WR_SEC);
    }
    cr_assert_eq(wr_rate_table_wait(table, 5000, WR_SEC), 0);
    wr_rate_table_free(table);
}

/* Many more keys than cells: one that stays busy is not forgotten for those that come once. */
Test(rate, a_crowd_does_not_wash_out_the_busy)
{
    struct wr_rate rate = {.per_second = 10, .burst = 100};
    struct wr_rate_table *table = wr_rate_table_new(&rate, WR_RATE_KEYS, 7);
    uint64_t now = WR_SEC;
    unsigned taken = 0;
    for (uint64_t i = 0; i < 200000; i++) {
        (void)wr_rate_table_take(table, 1000 + i, now);
        taken += wr_rate_table_take(table, 1, now);
    }
    cr_assert_eq(taken, 100);
    wr_rate_table_free(table);
}

/* As small as it gets it is a table still: what it has no room for begins anew, what is busy stays. */
Test(rate, a_small_table)
{
    struct wr_rate rate = {.per_second = 1, .burst = 2};
    for (uint32_t keys = 0; keys < 20; keys++) {
        struct wr_rate_table *table = wr_rate_table_new(&rate, keys, 3);
        cr_assert(wr_rate_table_take(table, 1, WR_SEC));
        cr_assert(wr_rate_table_take(table, 1, WR_SEC));
        for (uint64_t other = 2; other < 1000; other++)
            (void)wr_rate_table_take(table, other, WR_SEC);
        cr_assert_not(wr_rate_table_take(table, 1, WR_SEC));
        wr_rate_table_free(table);
    }
}
