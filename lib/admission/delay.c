#include "admission/delay.h"

#include "base/time.h"

/* Longer than a round trip of nearly all clients, so that a lull between two of their waves is not taken for the end (RFC 8289
 * section 4.4). */
#define INTERVAL (100 * WR_MSEC)
/* A turn that was long must not close the door. */
#define ROOM_LEAST 8

void wr_delay_init(struct wr_delay *delay, uint64_t target)
{
    *delay = (struct wr_delay){.target = target, .since = WR_NEVER};
}

static void count_windows(struct wr_delay *delay, uint64_t now)
{
    bool in_window =
        now < delay->window_ends && wr_time_add(now, delay->target) >= delay->window_ends;
    if (in_window)
        return;
    delay->served_last = delay->served;
    delay->served = 0;
    delay->window_ends = wr_time_add(now, delay->target);
}

void wr_delay_observe(struct wr_delay *delay, uint64_t wait, uint64_t now)
{
    if (delay->target == WR_NEVER)
        return;
    count_windows(delay, now);
    if (wait >= delay->target)
        delay->exceeded = true;
    if (!delay->exceeded || wait >= delay->target / 2)
        delay->since = WR_NEVER;
    else if (delay->since > now)
        delay->since = now;
    else if (now - delay->since >= INTERVAL)
        delay->exceeded = false;
}

void wr_delay_note_served(struct wr_delay *delay)
{
    delay->served++;
}

uint32_t wr_delay_room(const struct wr_delay *delay)
{
    uint32_t served = delay->served > delay->served_last ? delay->served : delay->served_last;
    return served > ROOM_LEAST ? served : ROOM_LEAST;
}
