/* Time is a uint64_t of microseconds on the monotonic clock. Everything that needs it gets it as an argument or from
 * its loop (io/loop.h), so that tests own the clock. */
#ifndef WR_BASE_TIME_H
#define WR_BASE_TIME_H

#include <stdint.h>

#define WR_USEC UINT64_C(1)
#define WR_MSEC UINT64_C(1000)
#define WR_SEC UINT64_C(1000000)

/* A duration that never passes, a point in time that never comes. */
#define WR_NEVER UINT64_MAX

/* T + D, where either may be WR_NEVER. */
static inline uint64_t wr_time_add(uint64_t t, uint64_t d)
{
    return d > WR_NEVER - t ? WR_NEVER : t + d;
}

/* How long ago THEN was; 0 when it is still to come: a clock may step back, a duration never does. */
static inline uint64_t wr_time_since(uint64_t then, uint64_t now)
{
    return now > then ? now - then : 0;
}

uint64_t wr_time_monotonic(void); /* microseconds */
uint64_t wr_time_wall(void);      /* microseconds since the epoch */

#endif
