/* Does a queue stand? (rule 2 of the README, after CoDel, RFC 8289 section 4.) A queue that forms and drains before anyone has waited for
 * too long is a good queue, it takes up a burst. One that stands only makes everyone late. */
#ifndef WR_ADMISSION_DELAY_H
#define WR_ADMISSION_DELAY_H

#include <stdbool.h>
#include <stdint.h>

struct wr_delay {
    uint64_t target; /* microseconds of waiting; WR_NEVER: any is fine */
    uint64_t since;  /* while exceeded: the wait has been below half since; WR_NEVER: it is not */
    uint64_t window_ends; /* of the count below: one target long */
    uint32_t served;      /* in this window */
    uint32_t served_last; /* in the one before */
    bool exceeded;
};

void wr_delay_init(struct wr_delay *delay, uint64_t target);
/* WAIT: how long the one that came first has waited, 0 = nobody waits. The target is exceeded from the moment that it reaches it,
 * until it has been below half of it for an interval of 100 ms. */
void wr_delay_observe(struct wr_delay *delay, uint64_t wait, uint64_t now);
/* One waiter's turn has come. */
void wr_delay_note_served(struct wr_delay *delay);
/* While the target is exceeded: how many may wait, since that many were served in the time that they may. */
uint32_t wr_delay_room(const struct wr_delay *delay);

#endif
