#include <criterion/criterion.h>

#include "base/time.h"
#include "upstream/budget.h"

static struct wr_retry_budget budget;

static void requests(unsigned n, uint64_t now)
{
    while (n-- > 0)
        wr_retry_budget_request(&budget, now);
}

static unsigned retries(unsigned asked, uint32_t percent, uint64_t now)
{
    unsigned allowed = 0;
    while (asked-- > 0)
        allowed += wr_retry_budget_take(&budget, percent, now) ? 1u : 0u;
    return allowed;
}

Test(budget, a_few_a_second_are_always_allowed)
{
    cr_assert_eq(retries(10, 1, 5 * WR_SEC), WR_RETRY_BUDGET_FREE);
    cr_assert_eq(retries(10, 1, 6 * WR_SEC), WR_RETRY_BUDGET_FREE);
    cr_assert_eq(retries(10, 20, 6 * WR_SEC + 999999), 0);
}

Test(budget, none_at_all_for_a_share_of_nothing)
{
    requests(1000, 100 * WR_SEC);
    cr_assert_eq(retries(10, 0, 100 * WR_SEC), 0);
}

Test(budget, a_share_of_the_requests)
{
    requests(1000, 100 * WR_SEC);
    cr_assert_eq(retries(1000, 20, 100 * WR_SEC), 200);
}

Test(budget, free_ones_count_towards_the_share)
{
    requests(100, 100 * WR_SEC);
    cr_assert_eq(retries(WR_RETRY_BUDGET_FREE, 20, 100 * WR_SEC), WR_RETRY_BUDGET_FREE);
    cr_assert_eq(retries(100, 20, 100 * WR_SEC), 20 - WR_RETRY_BUDGET_FREE);
}

Test(budget, requests_leave_the_window_after_ten_seconds)
{
    requests(1000, 100 * WR_SEC);
    cr_assert_eq(retries(300, 20, 109 * WR_SEC), 200);
    cr_assert_eq(retries(300, 20, 110 * WR_SEC), WR_RETRY_BUDGET_FREE);
}

Test(budget, retries_leave_the_window_too)
{
    requests(100, 100 * WR_SEC);
    cr_assert_eq(retries(100, 20, 100 * WR_SEC), 20);
    requests(100, 112 * WR_SEC);
    cr_assert_eq(retries(100, 20, 112 * WR_SEC), 20);
}

Test(budget, the_share_follows_requests_second_by_second)
{
    uint64_t all_requests = 0;
    uint64_t all_retries = 0;
    for (uint64_t second = 1000; second < 1100; second++) {
        requests(50, second * WR_SEC);
        all_requests += 50;
        all_retries += retries(50, 10, second * WR_SEC + 500);
    }
    cr_assert_leq(all_retries * 10, all_requests);
    cr_assert_geq(all_retries * 10, all_requests * 9 / 10);
}

Test(budget, a_long_silence_and_a_clock_that_steps_back_do_no_harm)
{
    requests(10, 50 * WR_SEC);
    requests(10, 49 * WR_SEC);
    cr_assert_eq(budget.request_sum, 20);
    requests(1, 100000 * WR_SEC);
    cr_assert_eq(budget.request_sum, 1);
}
