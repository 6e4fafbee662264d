/* Admission control of requests: which may be in flight now, which waits, which is refused.
 *
 * Pure policy, rule by rule as in README.md: no I/O and no clock of its own; the time is an argument. One controller a worker and listener,
 * one a worker and cluster. Not for threads.
 *
 *   arrive --> in flight --leave--> (gone)
 *      `-----> waiting --grant--> in flight
 *                 `--refuse--> (gone)
 *
 * Slots are handed on within the call that freed them: nobody waits for whom there is room, so nobody can be overtaken. */
#ifndef WR_ADMISSION_REQUESTS_H
#define WR_ADMISSION_REQUESTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/shed.h"
#include "base/time.h"

/* In order: the first goes first, the last is shed first. */
enum wr_priority {
    WR_PRIORITY_CRITICAL,
    WR_PRIORITY_NORMAL,
    WR_PRIORITY_SHEDDABLE,
    WR_PRIORITY__COUNT
};

/* ADAPTIVE: the limit follows the measured latency (gradient.h), `max` is its ceiling. */
enum wr_requests_mode { WR_REQUESTS_FIXED, WR_REQUESTS_ADAPTIVE };

/* All zero: no limit. */
struct wr_requests_options {
    enum wr_requests_mode mode;
    uint32_t max;         /* in flight; 0: any number */
    uint64_t max_wait;    /* microseconds; 0: nobody waits */
    uint32_t max_waiting; /* requests; 0: nobody waits */
    /* Per cent of the limit that requests of a priority may bring what is in flight to; rounded up. Not more than that of the
     * priority before it; that of CRITICAL is 100. */
    uint32_t share[WR_PRIORITY__COUNT];
};

enum wr_request_state { WR_REQUEST_NONE, WR_REQUEST_WAITING, WR_REQUEST_IN_FLIGHT };

/* One request's place in a controller. Embedded in the request; touched by the controller only. */
struct wr_request_ticket {
    struct wr_list link;
    enum wr_request_state state;
    enum wr_priority priority;
    uint64_t arrived;
    uint64_t began;  /* in flight since */
    uint64_t waited; /* microseconds, known when it was granted or refused */
};

/* Both are called from within calls to the controller, which must not be called from within them: the owner notes what became of
 * the ticket and acts on it later. The ticket's state has changed already. */
struct wr_requests_events {
    void (*grant)(void *owner, struct wr_request_ticket *ticket);
    void (*refuse)(void *owner, struct wr_request_ticket *ticket, enum wr_shed cause);
};

struct wr_requests;

/* Owner: the caller. OPTIONS is copied. */
struct wr_requests *wr_requests_new(const struct wr_requests_options *options,
                                    const struct wr_requests_events *events, void *owner);
/* Who waits is refused (CLOSED); who is in flight has left, and its leave() does nothing any more. NULL is fine. */
void wr_requests_free(struct wr_requests *requests);

void wr_request_ticket_init(struct wr_request_ticket *ticket);

/* A request is here. The state of TICKET is the answer: IN_FLIGHT; WAITING: grant() or refuse() follows, unless it leaves before;
 * NONE: refused, and *CAUSE says why. */
void wr_requests_arrive(struct wr_requests *requests, struct wr_request_ticket *ticket,
                        enum wr_priority priority, uint64_t now, enum wr_shed *cause);
/* The request is over, or has given up waiting. A ticket that has no place is left alone. */
void wr_requests_leave(struct wr_requests *requests, struct wr_request_ticket *ticket,
                       uint64_t now);
/* The response head of one in flight came LATENCY microseconds after it was sent; ANSWERED as in gradient.h. */
void wr_requests_observe(struct wr_requests *requests, const struct wr_request_ticket *ticket,
                         uint64_t latency, bool answered, uint64_t now);
/* Who has waited too long is refused, and who has a place since a look of an adaptive limit is over is granted it: to be called when the
 * time of wr_requests_next_expiry() has come. */
void wr_requests_expire(struct wr_requests *requests, uint64_t now);
uint64_t wr_requests_next_expiry(const struct wr_requests *requests); /* WR_NEVER: nobody waits */

struct wr_requests_gauges {
    uint32_t in_flight;
    uint32_t waiting;
    uint32_t limit; /* as of now; 0: none */
};
struct wr_requests_gauges wr_requests_gauges(const struct wr_requests *requests);

#endif
