/* Does a queue stand? (rule 2 of the README, after CoDel, RFC 8289 section 4.) A queue that forms and drains is a good queue, it takes
 * up a burst. One in which the wait stays above the target for a whole interval only makes everyone late. */
#ifndef WR_ADMISSION_DELAY_H
#define WR_ADMISSION_DELAY_H

#include <stdbool.h>
#include <stdint.h>

struct wr_delay {
    uint64_t target;   /* microseconds of waiting; WR_NEVER: any is fine */
    uint64_t interval; /* how long it must last before it counts, either way */
    uint64_t since;    /* the wait has been on the other side since; WR_NEVER: it is not */
    bool exceeded;
};

void wr_delay_init(struct wr_delay *delay, uint64_t target);
/* WAIT: how long the one that came first has waited, 0 = nobody waits. Returns whether the target is exceeded: from an interval above it
 * until an interval below half of it. */
bool wr_delay_observe(struct wr_delay *delay, uint64_t wait, uint64_t now);

#endif
