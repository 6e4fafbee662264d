/* The limit on requests in flight that finds itself: a service that takes longer than it does when it is not pressed has more in flight
 * than it can work on.
 *
 * Latency now, the mean of a short window, is held against latency unhurried, as last seen when there was little in flight. As long as
 * the two are near, the limit goes up; it falls in proportion when they are not. A long-term mean alone would not do: under pressure that
 * lasts it becomes the latency of the pressure. So now and then a look is taken: for one window half as many are let in, and what
 * latency is then is what it is unhurried. No clock: the time is an argument. */
#ifndef WR_ADMISSION_GRADIENT_H
#define WR_ADMISSION_GRADIENT_H

#include <stdbool.h>
#include <stdint.h>

enum wr_gradient_look {
    WR_LOOK_NONE,
    WR_LOOK_EBBING,    /* the limit is halved; more than that are still in flight */
    WR_LOOK_MEASURING, /* those that began since count */
};

struct wr_gradient {
    double limit;
    double ceiling;
    double unhurried; /* microseconds; 0: not known yet */

    /* the window: what was seen in it */
    uint64_t opened;  /* with its first sample */
    double sum;       /* microseconds */
    uint32_t samples; /* 0: it is not open */
    uint32_t busiest; /* most in flight */

    enum wr_gradient_look look;
    double look_limit;    /* while it is taken */
    uint64_t look_began;  /* or its measuring */
    uint64_t look_due;    /* the next one */
    uint64_t look_every;  /* from one to the next */
    double limit_at_look; /* the last one */
};

/* CEILING: never more. */
void wr_gradient_init(struct wr_gradient *gradient, uint32_t ceiling);
/* In flight at most, as of now. */
uint32_t wr_gradient_limit(const struct wr_gradient *gradient);
/* So many are in flight: to be told when they have become more. */
void wr_gradient_note(struct wr_gradient *gradient, uint32_t in_flight);
/* Before the limit is asked at NOW: moves it when a window is over. */
void wr_gradient_turn(struct wr_gradient *gradient, uint32_t in_flight, uint64_t now);
/* When the limit moves by time alone, to be asked again: this part of a look is over; WR_NEVER: none is taken. */
uint64_t wr_gradient_look_ends(const struct wr_gradient *gradient);
/* A request that began at BEGAN had its response head after LATENCY microseconds. ANSWERED false: it had none by then, or one that
 * says no more than that the service cannot: that counts when it is longer than usual, for what hangs is slow, and what fails
 * at once is not fast. */
void wr_gradient_observe(struct wr_gradient *gradient, uint64_t latency, bool answered,
                         uint64_t began, uint64_t now);

#endif
