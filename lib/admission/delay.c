#include "admission/delay.h"

#include "base/time.h"

/* Longer than a round trip of nearly all clients, so that a burst answered at once is over by then (RFC 8289 section 4.4). */
#define INTERVAL (100 * WR_MSEC)

void wr_delay_init(struct wr_delay *delay, uint64_t target)
{
    *delay = (struct wr_delay){.target = target, .interval = INTERVAL, .since = WR_NEVER};
}

/* Between the two marks nothing changes. */
static bool is_on_the_other_side(const struct wr_delay *delay, uint64_t wait)
{
    return delay->exceeded ? wait < delay->target / 2 : wait >= delay->target;
}

bool wr_delay_observe(struct wr_delay *delay, uint64_t wait, uint64_t now)
{
    if (delay->target == WR_NEVER)
        return false;
    if (!is_on_the_other_side(delay, wait)) {
        delay->since = WR_NEVER;
    } else if (delay->since > now) {
        delay->since = now;
    } else if (now - delay->since >= delay->interval) {
        delay->exceeded = !delay->exceeded;
        delay->since = WR_NEVER;
    }
    return delay->exceeded;
}
