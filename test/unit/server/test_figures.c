#include <criterion/criterion.h>

#include "base/time.h"
#include "server/figures.h"

Test(figures, counts_have_groups_of_three)
{
    cr_expect_str_eq(wr_figure_count(0).text, "0");
    cr_expect_str_eq(wr_figure_count(999).text, "999");
    cr_expect_str_eq(wr_figure_count(4312).text, "4,312");
    cr_expect_str_eq(wr_figure_count(1234567).text, "1,234,567");
    cr_expect_str_eq(wr_figure_count(UINT64_MAX).text, "18,446,744,073,709,551,615");
}

Test(figures, rates_have_a_decimal_when_small)
{
    cr_expect_str_eq(wr_figure_rate(0, WR_SEC).text, "0");
    cr_expect_str_eq(wr_figure_rate(0, 0).text, "0");
    cr_expect_str_eq(wr_figure_rate(3, 10 * WR_SEC).text, "0.3");
    cr_expect_str_eq(wr_figure_rate(1, 100 * WR_SEC).text, "<0.1");
    cr_expect_str_eq(wr_figure_rate(15, 2 * WR_SEC).text, "7.5");
    cr_expect_str_eq(wr_figure_rate(20, 2 * WR_SEC).text, "10");
    cr_expect_str_eq(wr_figure_rate(59000, 10 * WR_SEC).text, "5,900");
    cr_expect_str_eq(wr_figure_rate(5, 0).text, "?", "no time has passed");
}

Test(figures, durations_in_the_unit_that_fits)
{
    cr_expect_str_eq(wr_figure_duration(0).text, "0 us");
    cr_expect_str_eq(wr_figure_duration(545).text, "545 us");
    cr_expect_str_eq(wr_figure_duration(2500).text, "2.5 ms");
    cr_expect_str_eq(wr_figure_duration(50 * WR_MSEC).text, "50 ms");
    cr_expect_str_eq(wr_figure_duration(10 * WR_SEC).text, "10 s");
    cr_expect_str_eq(wr_figure_duration(150 * WR_SEC).text, "150 s");
    cr_expect_str_eq(wr_figure_duration(180 * WR_SEC).text, "3 min");
    cr_expect_str_eq(wr_figure_duration(5 * 3600 * WR_SEC).text, "5 h");
    cr_expect_str_eq(wr_figure_duration(WR_NEVER).text, "infinity");
}
