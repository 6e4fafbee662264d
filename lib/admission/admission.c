#include "admission/admission.h"

#include <stdlib.h>

#include "base/assert.h"
#include "base/compiler.h"
#include "base/mem.h"

/* A mean of the last 16 or so, in sixteenths of a microsecond so that small differences are not lost to rounding. */
#define MEAN_SPAN 16
/* One measurement counts for no more: a handshake that was held up must not stop all others. */
#define COST_MOST (1 * WR_SEC)
/* "No budget" without an overflow when it is added to. */
#define BUDGET_MOST (INT64_MAX / 2)

/* Before anything was measured: RSA-2048 or P-256 on a slow core. */
static const uint32_t first_guess[WR_CLASS__COUNT] = {
    [WR_CLASS_FULL] = 350,
    [WR_CLASS_RESUME] = 120,
    [WR_CLASS_TRUSTED] = 350,
};

struct wr_admission {
    struct wr_admission_options options;
    const struct wr_admission_events *events;
    void *owner;
    struct wr_list silent; /* oldest first */
    struct wr_list waiting;
    uint32_t silent_count;
    uint32_t waiting_count;
    uint32_t handshaking_count;
    uint32_t pending_peak;
    int64_t turn_budget;
    int64_t
        budget; /* left of this turn; below 0: more was spent than expected, the next turn pays */
    uint64_t mean_cost[WR_CLASS__COUNT]; /* times MEAN_SPAN */
};

static const struct wr_admission_decision admitted = {.verdict = WR_ADMIT};
static const struct wr_admission_decision must_wait = {.verdict = WR_WAIT};

static struct wr_admission_decision refused(enum wr_refusal reason, enum wr_refusal_cause cause)
{
    return (struct wr_admission_decision){WR_REFUSE, reason, cause};
}

/* ---- the rules: everything that decides is here ---- */

/* Rule 1. A limit of N lets N handshakes be pending. */
static bool backlog_is_full(const struct wr_admission *admission)
{
    uint32_t limit = admission->options.max_pending_handshakes;
    return limit != WR_ADMISSION_NO_LIMIT &&
           admission->waiting_count + admission->handshaking_count >= limit;
}

/* Rule 4. What this handshake will cost, as far as anyone can know. */
static uint32_t expected_cost(const struct wr_admission *admission, const struct wr_ticket *ticket)
{
    return (uint32_t)(admission->mean_cost[ticket->class] / MEAN_SPAN);
}

static bool budget_allows(const struct wr_admission *admission, const struct wr_ticket *ticket)
{
    return (int64_t)expected_cost(admission, ticket) <= admission->budget;
}

/* Rule 3. Who goes next: first come, first served. NULL: nobody waits. */
static struct wr_ticket *next_waiter(const struct wr_admission *admission)
{
    if (wr_list_empty(&admission->waiting))
        return NULL;
    return WR_CONTAINER_OF(admission->waiting.next, struct wr_ticket, link);
}

/* Rule 7. A trusted peer has a class of its own, whatever it claims. */
static enum wr_handshake_class class_of(const struct wr_ticket *ticket,
                                        enum wr_handshake_class claimed)
{
    return ticket->source.trusted ? WR_CLASS_TRUSTED : claimed;
}

/* ---- states: a change is a move between lists ---- */

static void set_state(struct wr_admission *admission, struct wr_ticket *ticket,
                      enum wr_ticket_state state)
{
    uint32_t *const counts[] = {
        [WR_TICKET_NONE] = NULL,
        [WR_TICKET_SILENT] = &admission->silent_count,
        [WR_TICKET_WAITING] = &admission->waiting_count,
        [WR_TICKET_HANDSHAKING] = &admission->handshaking_count,
    };
    wr_list_remove(&ticket->link);
    if (counts[ticket->state] != NULL)
        --*counts[ticket->state];
    ticket->state = state;
    if (counts[state] != NULL)
        ++*counts[state];
    if (state == WR_TICKET_SILENT)
        wr_list_push_back(&admission->silent, &ticket->link);
    else if (state == WR_TICKET_WAITING)
        wr_list_push_back(&admission->waiting, &ticket->link);

    uint32_t pending = admission->waiting_count + admission->handshaking_count;
    if (pending > admission->pending_peak)
        admission->pending_peak = pending;
}

/* The clock of a caller may step back; a duration never does. */
static uint64_t since(uint64_t then, uint64_t now)
{
    return now > then ? now - then : 0;
}

static void let_go(struct wr_admission *admission, struct wr_ticket *ticket, uint64_t now)
{
    uint64_t waited = since(ticket->queued, now);
    ticket->waited = waited < UINT32_MAX ? (uint32_t)waited : UINT32_MAX;
    ticket->charged = expected_cost(admission, ticket);
    admission->budget -= ticket->charged;
    set_state(admission, ticket, WR_TICKET_HANDSHAKING);
}

/* ---- costs ---- */

static void learn_cost(struct wr_admission *admission, enum wr_handshake_class class, uint64_t cost)
{
    uint64_t *mean = &admission->mean_cost[class];
    *mean = *mean - *mean / MEAN_SPAN + cost;
}

/* The budget gets back what was charged and pays what was spent: a claim to resume that was false costs as full. */
static void settle(struct wr_admission *admission, const struct wr_ticket *ticket, uint64_t cost)
{
    admission->budget += (int64_t)ticket->charged - (int64_t)cost;
    if (admission->budget > admission->turn_budget)
        admission->budget = admission->turn_budget;
}

/* Debt is paid from the next turn's budget, and what that does not cover is forgiven. */
static void renew_budget(struct wr_admission *admission)
{
    int64_t debt = admission->budget < 0 ? -admission->budget : 0;
    admission->budget = debt < admission->turn_budget ? admission->turn_budget - debt : 0;
}

/* ---- the interface ---- */

struct wr_admission *wr_admission_new(const struct wr_admission_options *options,
                                      const struct wr_admission_events *events, void *owner)
{
    struct wr_admission *admission = WR_NEW(struct wr_admission);
    admission->options = *options;
    admission->events = events;
    admission->owner = owner;
    wr_list_init(&admission->silent);
    wr_list_init(&admission->waiting);
    admission->turn_budget =
        options->turn_budget < BUDGET_MOST ? (int64_t)options->turn_budget : BUDGET_MOST;
    admission->budget = admission->turn_budget;
    for (unsigned i = 0; i < WR_CLASS__COUNT; i++)
        admission->mean_cost[i] = (uint64_t)first_guess[i] * MEAN_SPAN;
    return admission;
}

void wr_admission_free(struct wr_admission *admission)
{
    if (admission == NULL)
        return;
    WR_ASSERT(admission->silent_count + admission->waiting_count + admission->handshaking_count ==
              0);
    free(admission);
}

void wr_ticket_init(struct wr_ticket *ticket)
{
    *ticket = (struct wr_ticket){.state = WR_TICKET_NONE};
    wr_list_init(&ticket->link);
}

struct wr_admission_decision wr_admission_arrive(struct wr_admission *admission,
                                                 struct wr_ticket *ticket,
                                                 struct wr_admission_source source, uint64_t now)
{
    WR_ASSERT(ticket->state == WR_TICKET_NONE);
    if (backlog_is_full(admission))
        return refused(WR_REFUSAL_TOO_MANY_HANDSHAKES, WR_CAUSE_BACKLOG);
    if (admission->options.max_silent == 0)
        return refused(WR_REFUSAL_TOO_MANY_CONNECTIONS, WR_CAUSE_NONE);
    if (admission->silent_count >= admission->options.max_silent) {
        struct wr_ticket *oldest = WR_CONTAINER_OF(admission->silent.next, struct wr_ticket, link);
        admission->events->evict(admission->owner, oldest);
        WR_ASSERT(admission->silent_count < admission->options.max_silent);
    }
    ticket->source = source;
    ticket->arrived = now;
    set_state(admission, ticket, WR_TICKET_SILENT);
    return admitted;
}

struct wr_admission_decision wr_admission_hello(struct wr_admission *admission,
                                                struct wr_ticket *ticket,
                                                enum wr_handshake_class claimed, uint64_t now)
{
    WR_ASSERT(ticket->state == WR_TICKET_SILENT);
    if (backlog_is_full(admission))
        return refused(WR_REFUSAL_TOO_MANY_HANDSHAKES, WR_CAUSE_BACKLOG);
    ticket->class = class_of(ticket, claimed);
    ticket->queued = now;
    if (next_waiter(admission) == NULL && budget_allows(admission, ticket)) {
        let_go(admission, ticket, now);
        return admitted;
    }
    set_state(admission, ticket, WR_TICKET_WAITING);
    return must_wait;
}

void wr_admission_leave(struct wr_admission *admission, struct wr_ticket *ticket,
                        enum wr_handshake_outcome outcome, bool resumed, uint64_t cost,
                        uint64_t now)
{
    (void)now; /* for the rules to come: how long things take is what they go by */
    if (ticket->state == WR_TICKET_NONE)
        return;
    if (cost > COST_MOST)
        cost = COST_MOST;
    if (ticket->state == WR_TICKET_HANDSHAKING)
        settle(admission, ticket, cost);
    /* What failed half-way says nothing about what a handshake costs. */
    if (outcome == WR_HANDSHAKE_DONE && cost > 0) {
        enum wr_handshake_class truly = resumed ? WR_CLASS_RESUME : WR_CLASS_FULL;
        learn_cost(admission, class_of(ticket, truly), cost);
    }
    set_state(admission, ticket, WR_TICKET_NONE);
}

bool wr_admission_run(struct wr_admission *admission, uint64_t now)
{
    renew_budget(admission);
    struct wr_ticket *ticket = next_waiter(admission);
    bool first = true;
    while (ticket != NULL && (first || budget_allows(admission, ticket))) {
        first = false;
        let_go(admission, ticket, now);
        admission->events->grant(admission->owner, ticket);
        ticket = next_waiter(admission);
    }
    return ticket != NULL;
}

struct wr_admission_gauges wr_admission_gauges(const struct wr_admission *admission, uint64_t now)
{
    struct wr_admission_gauges gauges = {
        .silent = admission->silent_count,
        .waiting = admission->waiting_count,
        .handshaking = admission->handshaking_count,
        .pending_peak = admission->pending_peak,
    };
    for (unsigned i = 0; i < WR_CLASS__COUNT; i++)
        gauges.cost[i] = admission->mean_cost[i] / MEAN_SPAN;
    const struct wr_ticket *oldest = next_waiter(admission);
    if (oldest != NULL)
        gauges.oldest_wait = since(oldest->queued, now);
    return gauges;
}
