#include <criterion/criterion.h>

#include <time.h>

#include "base/time.h"

Test(time, never_stays_never)
{
    cr_assert_eq(wr_time_add(5, 7), 12);
    cr_assert_eq(wr_time_add(WR_NEVER, 0), WR_NEVER);
    cr_assert_eq(wr_time_add(WR_NEVER, WR_SEC), WR_NEVER);
    cr_assert_eq(wr_time_add(0, WR_NEVER), WR_NEVER);
    cr_assert_eq(wr_time_add(WR_NEVER, WR_NEVER), WR_NEVER);
    cr_assert_eq(wr_time_add(WR_NEVER - 1, 2), WR_NEVER);
    cr_assert_eq(wr_time_add(WR_NEVER - 2, 1), WR_NEVER - 1);
}

Test(time, clocks_tell_microseconds)
{
    struct timespec pause = {.tv_nsec = 5000000};
    uint64_t before = wr_time_monotonic();
    uint64_t wall = wr_time_wall();
    nanosleep(&pause, NULL);
    uint64_t took = wr_time_monotonic() - before;
    cr_assert_geq(took, 5 * WR_MSEC);
    cr_assert_lt(took, 30 * WR_SEC);
    cr_assert_lt(wall / WR_SEC - (uint64_t)time(NULL) + 30, 60);
}
