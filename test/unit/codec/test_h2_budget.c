#include <criterion/criterion.h>

#include "base/time.h"
#include "codec/h2_budget.h"

static unsigned spend(struct wr_h2_bucket *bucket, const struct wr_h2_budget *budget, uint64_t now,
                      unsigned count)
{
    unsigned spent = 0;
    for (unsigned i = 0; i < count; i++)
        spent += wr_h2_bucket_spend(bucket, budget, now);
    return spent;
}

Test(h2_budget, a_new_bucket_is_full)
{
    struct wr_h2_budget budget = {5, 2};
    struct wr_h2_bucket bucket = {0};
    cr_expect_eq(spend(&bucket, &budget, 1000 * WR_SEC, 9), 5);
}

Test(h2_budget, it_fills_with_time_and_no_further)
{
    struct wr_h2_budget budget = {5, 2};
    struct wr_h2_bucket bucket = {0};
    uint64_t now = 1000 * WR_SEC;
    cr_expect_eq(spend(&bucket, &budget, now, 9), 5);
    cr_expect_eq(spend(&bucket, &budget, now + 499 * WR_MSEC, 9), 0);
    cr_expect_eq(spend(&bucket, &budget, now + 500 * WR_MSEC, 9), 1);
    cr_expect_eq(spend(&bucket, &budget, now + 2000 * WR_MSEC, 9), 3);
    cr_expect_eq(spend(&bucket, &budget, now + 1000 * WR_SEC, 9), 5);
}

Test(h2_budget, a_rate_is_held_for_long)
{
    struct wr_h2_budget budget = {10, 7};
    struct wr_h2_bucket bucket = {0};
    unsigned spent = 0;
    for (uint64_t now = 0; now < 100 * WR_SEC; now += 10 * WR_MSEC)
        spent += spend(&bucket, &budget, now, 3);
    cr_expect_geq(spent, 7 * 99 + 10);
    cr_expect_leq(spent, 7 * 100 + 10);
}

Test(h2_budget, without_a_rate_it_never_fills)
{
    struct wr_h2_budget budget = {3, 0};
    struct wr_h2_bucket bucket = {0};
    cr_expect_eq(spend(&bucket, &budget, 1, 9), 3);
    cr_expect_eq(spend(&bucket, &budget, WR_NEVER - 1, 9), 0);
}

Test(h2_budget, the_largest_numbers)
{
    struct wr_h2_budget budget = {UINT32_MAX, UINT32_MAX};
    struct wr_h2_bucket bucket = {0};
    cr_expect_eq(spend(&bucket, &budget, 0, 1000), 1000);
    cr_expect_eq(spend(&bucket, &budget, WR_NEVER - 1, 1000), 1000);
}

Test(h2_budget, a_clock_that_steps_back_gives_nothing)
{
    struct wr_h2_budget budget = {2, 1};
    struct wr_h2_bucket bucket = {0};
    cr_expect_eq(spend(&bucket, &budget, 100 * WR_SEC, 9), 2);
    cr_expect_eq(spend(&bucket, &budget, 50 * WR_SEC, 9), 0);
    cr_expect_eq(spend(&bucket, &budget, 101 * WR_SEC, 9), 1);
}

Test(h2_budget, refunds)
{
    struct wr_h2_budget budget = {4, 0};
    struct wr_h2_bucket bucket = {0};
    cr_expect_eq(spend(&bucket, &budget, 1, 9), 4);
    wr_h2_bucket_refund(&bucket, 2);
    cr_expect_eq(spend(&bucket, &budget, 1, 9), 2);
    wr_h2_bucket_refund(&bucket, 100);
    cr_expect_eq(spend(&bucket, &budget, 1, 9), 4, "no more than full");
}
