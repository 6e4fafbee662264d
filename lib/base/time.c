#include "base/time.h"

#include <time.h>

static uint64_t read_clock(clockid_t clock)
{
    struct timespec t;
    (void)clock_gettime(clock, &t); /* cannot fail: both clocks always exist */
    return (uint64_t)t.tv_sec * WR_SEC + (uint64_t)t.tv_nsec / 1000;
}

uint64_t wr_time_monotonic(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

uint64_t wr_time_wall(void)
{
    return read_clock(CLOCK_REALTIME);
}
