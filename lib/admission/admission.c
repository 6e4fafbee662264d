#include "admission/admission.h"

#include <stdlib.h>

#include "admission/rules.h"
#include "base/assert.h"
#include "base/compiler.h"
#include "base/mem.h"

static const struct wr_admission_decision taken = {.refused = false};

static struct wr_admission_decision refused(enum wr_refusal reason, enum wr_refusal_cause cause)
{
    return (struct wr_admission_decision){.refused = true, .reason = reason, .cause = cause};
}

/* ---- life ---- */

struct wr_admission *wr_admission_new(const struct wr_admission_options *options,
                                      const struct wr_admission_events *events, void *owner)
{
    struct wr_admission *admission = WR_NEW(struct wr_admission);
    admission->options = *options;
    admission->events = events;
    admission->owner = owner;
    wr_list_init(&admission->silent);
    for (size_t i = 0; i < WR_LANE__COUNT; i++)
        wr_list_init(&admission->lanes[i]);
    wr_budget_init(&admission->budget, options->turn_budget, options->min_share);
    wr_delay_init(&admission->delay, options->max_delay);
    wr_adaptive_init(&admission->adaptive, options->max_pending_handshakes, options->max_delay);
    admission->sources = wr_sources_new(options->max_pending_handshakes, options->seed);
    return admission;
}

void wr_admission_free(struct wr_admission *admission)
{
    if (admission == NULL)
        return;
    WR_ASSERT(admission->silent_count + wr_admission_pending(admission) == 0);
    wr_sources_free(admission->sources);
    free(admission);
}

void wr_ticket_init(struct wr_ticket *ticket)
{
    *ticket = (struct wr_ticket){.state = WR_TICKET_NONE};
    wr_list_init(&ticket->link);
}

/* ---- states: a change is a move between lists ---- */

static bool is_pending(enum wr_ticket_state state)
{
    return state == WR_TICKET_WAITING || state == WR_TICKET_HANDSHAKING;
}

static void enter(struct wr_admission *admission, struct wr_ticket *ticket)
{
    enum wr_lane lane = wr_rules_lane(admission, ticket->class);
    switch (ticket->state) {
    case WR_TICKET_NONE:
        return;
    case WR_TICKET_SILENT:
        admission->silent_count++;
        wr_list_push_back(&admission->silent, &ticket->link);
        return;
    case WR_TICKET_WAITING:
        admission->waiting_count++;
        admission->lane_count[lane]++;
        wr_list_push_back(&admission->lanes[lane], &ticket->link);
        return;
    case WR_TICKET_HANDSHAKING:
        admission->handshaking_count++;
        return;
    }
}

static void exit_from(struct wr_admission *admission, struct wr_ticket *ticket)
{
    wr_list_remove(&ticket->link);
    switch (ticket->state) {
    case WR_TICKET_NONE:
        return;
    case WR_TICKET_SILENT:
        admission->silent_count--;
        return;
    case WR_TICKET_WAITING:
        admission->waiting_count--;
        admission->lane_count[wr_rules_lane(admission, ticket->class)]--;
        return;
    case WR_TICKET_HANDSHAKING:
        admission->handshaking_count--;
        return;
    }
}

/* A slot of the backlog is taken or given back, in the account of its source too. */
static void account(struct wr_admission *admission, struct wr_ticket *ticket, bool pending)
{
    if (pending)
        ticket->counted = wr_sources_add(admission->sources, ticket->source.key);
    else if (ticket->counted)
        wr_sources_drop(admission->sources, ticket->source.key);
    if (!pending)
        ticket->counted = false;
    if (!ticket->source.trusted)
        admission->untrusted_pending += pending ? 1 : UINT32_MAX;
}

static void set_state(struct wr_admission *admission, struct wr_ticket *ticket,
                      enum wr_ticket_state state)
{
    bool before = is_pending(ticket->state);
    bool after = is_pending(state);
    exit_from(admission, ticket);
    ticket->state = state;
    enter(admission, ticket);
    if (before != after)
        account(admission, ticket, after);
    if (wr_admission_pending(admission) > admission->pending_peak)
        admission->pending_peak = wr_admission_pending(admission);
}

/* With nobody pending nobody waits, and no turn of the controller would notice. */
static void note_rest(struct wr_admission *admission, uint64_t now)
{
    if (wr_admission_pending(admission) == 0)
        wr_delay_observe(&admission->delay, 0, now);
}

/* ---- gate 0 and 1 ---- */

bool wr_admission_is_full(const struct wr_admission *admission)
{
    return wr_rules_is_full(admission, false);
}

bool wr_admission_is_pressed(const struct wr_admission *admission)
{
    return wr_admission_pending(admission) >= wr_rules_limit(admission) / 2;
}

bool wr_admission_has_waiters(const struct wr_admission *admission)
{
    return admission->waiting_count > 0;
}

/* One whose class is not known yet might be one for whom another gives way: its ClientHello will tell. */
static bool may_displace(const struct wr_admission *admission, enum wr_handshake_class class)
{
    enum wr_handshake_class hoped = class == WR_CLASS_UNKNOWN ? WR_CLASS_RESUME : class;
    return wr_rules_giving_way(admission, hoped) != NULL;
}

static struct wr_admission_decision judge(struct wr_admission *admission,
                                          const struct wr_admission_source *source,
                                          enum wr_handshake_class class)
{
    if (wr_rules_is_full(admission, source->trusted) && !may_displace(admission, class)) {
        wr_adaptive_refused(&admission->adaptive);
        return refused(WR_REFUSAL_TOO_MANY_HANDSHAKES, wr_rules_cause_of_full(admission));
    }
    if (wr_rules_holds_its_share(admission, source))
        return refused(WR_REFUSAL_TOO_MANY_HANDSHAKES, WR_CAUSE_SHARE);
    return taken;
}

struct wr_admission_decision wr_admission_ask(struct wr_admission *admission,
                                              const struct wr_admission_source *source,
                                              enum wr_handshake_class claimed, uint64_t now)
{
    note_rest(admission, now);
    return judge(admission, source, wr_rules_class(admission, source, claimed, now));
}

/* Rule 9. */
struct wr_admission_decision wr_admission_arrive(struct wr_admission *admission,
                                                 struct wr_ticket *ticket,
                                                 const struct wr_admission_source *source)
{
    struct wr_admission_decision crowded = refused(WR_REFUSAL_TOO_MANY_CONNECTIONS, WR_CAUSE_NONE);
    WR_ASSERT(ticket->state == WR_TICKET_NONE);
    if (admission->options.max_silent == 0)
        return crowded;
    if (admission->silent_count >= admission->options.max_silent) {
        struct wr_ticket *oldest = WR_CONTAINER_OF(admission->silent.next, struct wr_ticket, link);
        admission->events->refuse(admission->owner, oldest, crowded);
        WR_ASSERT(admission->silent_count < admission->options.max_silent);
    }
    ticket->source = *source;
    set_state(admission, ticket, WR_TICKET_SILENT);
    return taken;
}

struct wr_admission_decision wr_admission_hello(struct wr_admission *admission,
                                                struct wr_ticket *ticket,
                                                enum wr_handshake_class claimed, uint64_t now)
{
    const struct wr_admission_source *source = &ticket->source;
    WR_ASSERT(ticket->state == WR_TICKET_SILENT);
    if (claimed == WR_CLASS_UNKNOWN)
        claimed = WR_CLASS_FULL;
    note_rest(admission, now);
    enum wr_handshake_class class = wr_rules_class(admission, source, claimed, now);
    struct wr_admission_decision decision = judge(admission, source, class);
    if (decision.refused)
        return decision;
    if (wr_rules_is_full(admission, source->trusted))
        admission->events->refuse(admission->owner, wr_rules_giving_way(admission, class),
                                  refused(WR_REFUSAL_TOO_MANY_HANDSHAKES, WR_CAUSE_RESUMPTION));
    if (wr_admission_pending(admission) == 0)
        admission->busy_since = now;
    ticket->class = class;
    ticket->queued = now;
    set_state(admission, ticket, WR_TICKET_WAITING);
    return taken;
}

/* ---- gate 2: whose turn it is ---- */

static void let_go(struct wr_admission *admission, struct wr_ticket *ticket, uint64_t now)
{
    uint64_t waited = wr_time_since(ticket->queued, now);
    ticket->waited = waited < UINT32_MAX ? (uint32_t)waited : UINT32_MAX;
    ticket->charged = wr_budget_cost(&admission->budget, ticket->class);
    wr_budget_charge(&admission->budget, ticket->charged);
    set_state(admission, ticket, WR_TICKET_HANDSHAKING);
    wr_rules_settle_lanes(admission, ticket, ticket->charged);
    wr_delay_note_served(&admission->delay);
    admission->events->grant(admission->owner, ticket);
}

static void refuse_expired(struct wr_admission *admission, uint64_t now)
{
    struct wr_admission_decision why = refused(WR_REFUSAL_TOO_MANY_HANDSHAKES, WR_CAUSE_DELAY);
    struct wr_ticket *ticket;
    while ((ticket = wr_rules_expired(admission, now)) != NULL)
        admission->events->refuse(admission->owner, ticket, why);
}

bool wr_admission_run(struct wr_admission *admission, uint64_t other, uint64_t now)
{
    uint64_t wait = wr_rules_oldest_wait(admission, now);
    wr_adaptive_observe(&admission->adaptive, wait, now);
    wr_delay_observe(&admission->delay, wait, now);
    refuse_expired(admission, now);
    wr_budget_renew(&admission->budget, other);

    struct wr_ticket *ticket = wr_rules_next(admission);
    for (bool first = true;
         ticket != NULL && (first || wr_budget_allows(&admission->budget, ticket->class));
         first = false) {
        let_go(admission, ticket, now);
        ticket = wr_rules_next(admission);
    }
    return ticket != NULL;
}

void wr_admission_leave(struct wr_admission *admission, struct wr_ticket *ticket,
                        enum wr_handshake_outcome outcome, bool resumed, uint64_t cost,
                        uint64_t now)
{
    if (ticket->state == WR_TICKET_NONE)
        return;
    if (ticket->state == WR_TICKET_HANDSHAKING)
        wr_budget_settle(&admission->budget, ticket->charged, cost);
    /* What failed half-way says nothing about what a handshake costs. */
    if (outcome == WR_HANDSHAKE_DONE) {
        enum wr_handshake_class truly = resumed ? WR_CLASS_RESUME : WR_CLASS_FULL;
        if (ticket->class == WR_CLASS_RESUME && !resumed)
            wr_sources_note_false_claim(admission->sources, ticket->source.key, now);
        if (cost > 0)
            wr_budget_learn(&admission->budget, ticket->source.trusted ? WR_CLASS_TRUSTED : truly,
                            cost);
    }
    set_state(admission, ticket, WR_TICKET_NONE);
    note_rest(admission, now);
}

struct wr_admission_gauges wr_admission_gauges(struct wr_admission *admission, uint64_t now)
{
    note_rest(admission, now);
    bool busy = wr_admission_pending(admission) > 0;
    struct wr_admission_gauges gauges = {
        .silent = admission->silent_count,
        .waiting = admission->waiting_count,
        .handshaking = admission->handshaking_count,
        .pending_peak = admission->pending_peak,
        .limit = wr_rules_limit(admission),
        .oldest_wait = wr_rules_oldest_wait(admission, now),
        .busy = busy ? wr_time_since(admission->busy_since, now) : 0,
        .delayed = admission->delay.exceeded,
    };
    for (enum wr_handshake_class class = 0; class < WR_CLASS__COUNT; class ++) {
        gauges.cost[class] = wr_budget_cost(&admission->budget, class);
        gauges.measured[class] = wr_budget_is_measured(&admission->budget, class);
    }
    return gauges;
}
