/* The limit that finds itself (mode `adaptive`): it follows the wait that handshakes really had, so there is no number to tune.
 * Once a window: too long a wait takes the limit down in proportion, a limit that refused although waits were short goes up by a
 * quarter, and in peace it creeps back to where it began. */
#ifndef WR_ADMISSION_ADAPTIVE_H
#define WR_ADMISSION_ADAPTIVE_H

#include <stdbool.h>
#include <stdint.h>

struct wr_adaptive_limit {
    uint32_t limit;
    uint32_t ceiling;     /* never more */
    uint32_t start;       /* where it begins, and returns to in peace */
    uint64_t target;      /* microseconds of waiting */
    uint64_t window_ends; /* 0: none has begun */
    uint64_t worst_wait;  /* of this window */
    bool bound;           /* somebody was refused by it in this window */
};

void wr_adaptive_init(struct wr_adaptive_limit *adaptive, uint32_t ceiling, uint64_t target);
/* WAIT: how long the one that came first has waited. Moves the limit when a window is over. */
void wr_adaptive_observe(struct wr_adaptive_limit *adaptive, uint64_t wait, uint64_t now);
void wr_adaptive_refused(struct wr_adaptive_limit *adaptive);

#endif
