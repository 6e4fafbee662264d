#include "admission/requests.h"

#include <stdlib.h>

#include "admission/gradient.h"
#include "base/assert.h"
#include "base/compiler.h"
#include "base/mem.h"

struct wr_requests {
    struct wr_requests_options options;
    const struct wr_requests_events *events;
    void *owner;
    struct wr_list running;                   /* in flight */
    struct wr_list lanes[WR_PRIORITY__COUNT]; /* those who wait, oldest first */
    uint32_t in_flight;
    uint32_t waiting;
    struct wr_gradient gradient;
};

/* ---- life ---- */

struct wr_requests *wr_requests_new(const struct wr_requests_options *options,
                                    const struct wr_requests_events *events, void *owner)
{
    struct wr_requests *requests = WR_NEW(struct wr_requests);
    requests->options = *options;
    requests->events = events;
    requests->owner = owner;
    wr_list_init(&requests->running);
    for (size_t i = 0; i < WR_PRIORITY__COUNT; i++)
        wr_list_init(&requests->lanes[i]);
    wr_gradient_init(&requests->gradient, options->max > 0 ? options->max : UINT32_MAX);
    return requests;
}

void wr_request_ticket_init(struct wr_request_ticket *ticket)
{
    *ticket = (struct wr_request_ticket){.state = WR_REQUEST_NONE};
    wr_list_init(&ticket->link);
}

/* ---- states: a change is a move between lists ---- */

static void exit_from(struct wr_requests *requests, struct wr_request_ticket *ticket)
{
    wr_list_remove(&ticket->link);
    if (ticket->state == WR_REQUEST_WAITING)
        requests->waiting--;
    else if (ticket->state == WR_REQUEST_IN_FLIGHT)
        requests->in_flight--;
}

static void set_state(struct wr_requests *requests, struct wr_request_ticket *ticket,
                      enum wr_request_state state)
{
    exit_from(requests, ticket);
    ticket->state = state;
    if (state == WR_REQUEST_WAITING) {
        requests->waiting++;
        wr_list_push_back(&requests->lanes[ticket->priority], &ticket->link);
    } else if (state == WR_REQUEST_IN_FLIGHT) {
        requests->in_flight++;
        wr_list_push_back(&requests->running, &ticket->link);
    }
}

static struct wr_request_ticket *front(const struct wr_list *list)
{
    return wr_list_empty(list) ? NULL : WR_CONTAINER_OF(list->next, struct wr_request_ticket, link);
}

static struct wr_request_ticket *back(const struct wr_list *list)
{
    return wr_list_empty(list) ? NULL : WR_CONTAINER_OF(list->prev, struct wr_request_ticket, link);
}

static void refuse(struct wr_requests *requests, struct wr_request_ticket *ticket,
                   enum wr_shed cause, uint64_t now)
{
    ticket->waited = wr_time_since(ticket->arrived, now);
    set_state(requests, ticket, WR_REQUEST_NONE);
    requests->events->refuse(requests->owner, ticket, cause);
}

/* ---- the rules ---- */

static bool is_adaptive(const struct wr_requests *requests)
{
    return requests->options.mode == WR_REQUESTS_ADAPTIVE;
}

/* 0: none. */
static uint32_t limit_of(const struct wr_requests *requests)
{
    return is_adaptive(requests) ? wr_gradient_limit(&requests->gradient) : requests->options.max;
}

/* What requests of PRIORITY may bring the number in flight to. Rounded up, so that a small limit is no refusal of all. */
static uint64_t share_of(const struct wr_requests *requests, enum wr_priority priority)
{
    uint64_t per_cent = priority == WR_PRIORITY_CRITICAL ? 100 : requests->options.share[priority];
    return (limit_of(requests) * per_cent + 99) / 100;
}

static bool has_room(const struct wr_requests *requests, enum wr_priority priority)
{
    return limit_of(requests) == 0 || requests->in_flight < share_of(requests, priority);
}

static bool may_wait(const struct wr_requests *requests)
{
    return requests->options.max_wait > 0 && requests->options.max_waiting > 0;
}

/* Whose turn it is: the highest priority that has room, of that who came first. */
static struct wr_request_ticket *next(const struct wr_requests *requests)
{
    for (enum wr_priority i = 0; i < WR_PRIORITY__COUNT; i++) {
        struct wr_request_ticket *first = front(&requests->lanes[i]);
        if (first != NULL && has_room(requests, i))
            return first;
    }
    return NULL;
}

/* Who gives way to one of PRIORITY when no more may wait: of the lowest priority below it who would be served last. */
static struct wr_request_ticket *giving_way(const struct wr_requests *requests,
                                            enum wr_priority priority)
{
    for (enum wr_priority i = WR_PRIORITY__COUNT - 1; i > priority; i--) {
        struct wr_request_ticket *last = back(&requests->lanes[i]);
        if (last != NULL)
            return last;
    }
    return NULL;
}

static uint64_t expiry_of(const struct wr_requests *requests,
                          const struct wr_request_ticket *ticket)
{
    return wr_time_add(ticket->arrived, requests->options.max_wait);
}

/* ---- slots ---- */

static void begin(struct wr_requests *requests, struct wr_request_ticket *ticket, uint64_t now)
{
    ticket->began = now;
    ticket->waited = wr_time_since(ticket->arrived, now);
    set_state(requests, ticket, WR_REQUEST_IN_FLIGHT);
    wr_gradient_note(&requests->gradient, requests->in_flight);
}

/* Free slots go to those who wait. The limit may have moved as well. */
static void serve(struct wr_requests *requests, uint64_t now)
{
    struct wr_request_ticket *ticket;
    if (is_adaptive(requests))
        wr_gradient_turn(&requests->gradient, requests->in_flight, now);
    while (requests->waiting > 0 && (ticket = next(requests)) != NULL) {
        begin(requests, ticket, now);
        requests->events->grant(requests->owner, ticket);
    }
}

/* There is no slot: it waits, or it is told why not. */
static void queue(struct wr_requests *requests, struct wr_request_ticket *ticket, uint64_t now,
                  enum wr_shed *cause)
{
    *cause = WR_SHED_LIMIT;
    if (!may_wait(requests))
        return;
    if (requests->waiting >= requests->options.max_waiting) {
        struct wr_request_ticket *other = giving_way(requests, ticket->priority);
        *cause = WR_SHED_QUEUE;
        if (other == NULL)
            return;
        refuse(requests, other, WR_SHED_PRIORITY, now);
    }
    set_state(requests, ticket, WR_REQUEST_WAITING);
}

void wr_requests_arrive(struct wr_requests *requests, struct wr_request_ticket *ticket,
                        enum wr_priority priority, uint64_t now, enum wr_shed *cause)
{
    WR_ASSERT(ticket->state == WR_REQUEST_NONE);
    serve(requests, now);
    ticket->priority = priority;
    ticket->arrived = now;
    ticket->waited = 0;
    if (has_room(requests, priority))
        begin(requests, ticket, now);
    else
        queue(requests, ticket, now, cause);
}

void wr_requests_leave(struct wr_requests *requests, struct wr_request_ticket *ticket, uint64_t now)
{
    if (ticket->state == WR_REQUEST_NONE)
        return;
    set_state(requests, ticket, WR_REQUEST_NONE);
    serve(requests, now);
}

void wr_requests_observe(struct wr_requests *requests, const struct wr_request_ticket *ticket,
                         uint64_t latency, bool answered, uint64_t now)
{
    if (!is_adaptive(requests) || ticket->state != WR_REQUEST_IN_FLIGHT)
        return;
    wr_gradient_observe(&requests->gradient, latency, answered, ticket->began, now);
    serve(requests, now);
}

/* ---- who waits too long ---- */

/* The limit may have moved by time alone: who has a place by now is not refused for having waited. */
void wr_requests_expire(struct wr_requests *requests, uint64_t now)
{
    serve(requests, now);
    for (enum wr_priority i = 0; i < WR_PRIORITY__COUNT; i++) {
        struct wr_request_ticket *first;
        while ((first = front(&requests->lanes[i])) != NULL && expiry_of(requests, first) <= now)
            refuse(requests, first, WR_SHED_WAIT, now);
    }
}

uint64_t wr_requests_next_expiry(const struct wr_requests *requests)
{
    if (requests->waiting == 0)
        return WR_NEVER;
    uint64_t earliest =
        is_adaptive(requests) ? wr_gradient_look_ends(&requests->gradient) : WR_NEVER;
    for (enum wr_priority i = 0; i < WR_PRIORITY__COUNT; i++) {
        const struct wr_request_ticket *first = front(&requests->lanes[i]);
        if (first != NULL && expiry_of(requests, first) < earliest)
            earliest = expiry_of(requests, first);
    }
    return earliest;
}

void wr_requests_free(struct wr_requests *requests)
{
    struct wr_request_ticket *ticket;
    if (requests == NULL)
        return;
    for (size_t i = 0; i < WR_PRIORITY__COUNT; i++)
        while ((ticket = front(&requests->lanes[i])) != NULL)
            refuse(requests, ticket, WR_SHED_CLOSED, ticket->arrived);
    while ((ticket = front(&requests->running)) != NULL)
        set_state(requests, ticket, WR_REQUEST_NONE);
    free(requests);
}

struct wr_requests_gauges wr_requests_gauges(const struct wr_requests *requests)
{
    return (struct wr_requests_gauges){
        .in_flight = requests->in_flight,
        .waiting = requests->waiting,
        .limit = limit_of(requests),
    };
}
