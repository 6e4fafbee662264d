/* Every rule of the controller, the time an argument. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "admission/admission.h"

#define MAX 64

struct owner {
    struct wr_admission *admission;
    struct wr_ticket *granted[MAX];
    unsigned grants;
    struct wr_ticket *evicted[MAX];
    unsigned evictions;
    bool abandon_next; /* the next one granted has gone */
    uint64_t now;
};

static void on_grant(void *arg, struct wr_ticket *ticket)
{
    struct owner *owner = arg;
    cr_assert_eq(ticket->state, WR_TICKET_HANDSHAKING);
    if (owner->abandon_next) {
        owner->abandon_next = false;
        wr_admission_leave(owner->admission, ticket, WR_HANDSHAKE_GONE, false, 0, owner->now);
        return;
    }
    owner->granted[owner->grants++] = ticket;
}

static void on_evict(void *arg, struct wr_ticket *ticket)
{
    struct owner *owner = arg;
    owner->evicted[owner->evictions++] = ticket;
    wr_admission_leave(owner->admission, ticket, WR_HANDSHAKE_FAILED, false, 0, owner->now);
}

static const struct wr_admission_events events = {.grant = on_grant, .evict = on_evict};
static const struct wr_admission_source anyone = {.key = 1};

static struct owner owner;
static struct wr_ticket tickets[MAX];

static void start(uint32_t limit, uint32_t max_silent, uint64_t budget)
{
    struct wr_admission_options options = {
        .max_pending_handshakes = limit, .max_silent = max_silent, .turn_budget = budget};
    owner = (struct owner){.now = 1000};
    owner.admission = wr_admission_new(&options, &events, &owner);
    for (unsigned i = 0; i < MAX; i++)
        wr_ticket_init(&tickets[i]);
}

static void stop(void)
{
    for (unsigned i = 0; i < MAX; i++)
        wr_admission_leave(owner.admission, &tickets[i], WR_HANDSHAKE_GONE, false, 0, owner.now);
    struct wr_admission_gauges gauges = wr_admission_gauges(owner.admission, owner.now);
    cr_assert_eq(gauges.silent + gauges.waiting + gauges.handshaking, 0);
    wr_admission_free(owner.admission);
}

static struct wr_admission_decision arrive(unsigned i)
{
    return wr_admission_arrive(owner.admission, &tickets[i], anyone, owner.now);
}

static struct wr_admission_decision hello(unsigned i, enum wr_handshake_class claimed)
{
    return wr_admission_hello(owner.admission, &tickets[i], claimed, owner.now);
}

static void leave(unsigned i, enum wr_handshake_outcome outcome, bool resumed, uint64_t cost)
{
    wr_admission_leave(owner.admission, &tickets[i], outcome, resumed, cost, owner.now);
}

static void come(unsigned first, unsigned end)
{
    for (unsigned i = first; i < end; i++)
        cr_assert_eq(arrive(i).verdict, WR_ADMIT);
}

static struct wr_admission_gauges gauges(void)
{
    return wr_admission_gauges(owner.admission, owner.now);
}

Test(admission, a_limit_of_n_lets_exactly_n_be_pending)
{
    start(3, MAX, WR_NEVER);
    come(0, 5);
    for (unsigned i = 0; i < 3; i++)
        cr_assert_eq(hello(i, WR_CLASS_FULL).verdict, WR_ADMIT);
    struct wr_admission_decision decision = hello(3, WR_CLASS_FULL);
    cr_assert_eq(decision.verdict, WR_REFUSE);
    cr_assert_eq(decision.reason, WR_REFUSAL_TOO_MANY_HANDSHAKES);
    cr_assert_eq(decision.cause, WR_CAUSE_BACKLOG);
    cr_assert_eq(gauges().handshaking, 3);

    /* Gate 0 says so too, and one that is done makes room for one. */
    cr_assert_eq(arrive(5).verdict, WR_REFUSE);
    cr_assert_eq(arrive(5).cause, WR_CAUSE_BACKLOG);
    leave(0, WR_HANDSHAKE_DONE, false, 300);
    cr_assert_eq(arrive(5).verdict, WR_ADMIT);
    cr_assert_eq(hello(4, WR_CLASS_FULL).verdict, WR_ADMIT);
    cr_assert_eq(hello(5, WR_CLASS_FULL).verdict, WR_REFUSE);
    cr_assert_eq(gauges().pending_peak, 3);
    stop();
}

Test(admission, waiters_count_as_pending)
{
    start(2, MAX, 0);
    come(0, 3);
    cr_assert_eq(hello(0, WR_CLASS_FULL).verdict, WR_WAIT);
    cr_assert_eq(hello(1, WR_CLASS_FULL).verdict, WR_WAIT);
    cr_assert_eq(hello(2, WR_CLASS_FULL).verdict, WR_REFUSE);
    cr_assert_eq(gauges().waiting, 2);
    stop();
}

Test(admission, a_limit_of_zero_refuses_all)
{
    start(0, MAX, WR_NEVER);
    for (unsigned i = 0; i < MAX; i++) {
        struct wr_admission_decision decision = arrive(i);
        cr_assert_eq(decision.verdict, WR_REFUSE);
        cr_assert_eq(decision.reason, WR_REFUSAL_TOO_MANY_HANDSHAKES);
    }
    stop();
}

Test(admission, no_limit_never_refuses)
{
    start(WR_ADMISSION_NO_LIMIT, MAX, WR_NEVER);
    come(0, MAX);
    for (unsigned i = 0; i < MAX; i++)
        cr_assert_eq(hello(i, WR_CLASS_FULL).verdict, WR_ADMIT);
    cr_assert_eq(gauges().pending_peak, MAX);
    stop();
}

Test(admission, silent_ones_hold_no_slot)
{
    start(1, MAX, WR_NEVER);
    come(0, MAX);
    cr_assert_eq(gauges().silent, MAX);
    cr_assert_eq(hello(MAX - 1, WR_CLASS_FULL).verdict, WR_ADMIT);
    stop();
}

Test(admission, the_oldest_silent_one_goes_first)
{
    start(WR_ADMISSION_NO_LIMIT, 3, WR_NEVER);
    come(0, 3);
    cr_assert_eq(owner.evictions, 0);
    cr_assert_eq(arrive(3).verdict, WR_ADMIT);
    cr_assert_eq(owner.evictions, 1);
    cr_assert_eq(owner.evicted[0], &tickets[0]);
    cr_assert_eq(gauges().silent, 3);
    /* One that has spoken is not silent. */
    cr_assert_eq(hello(1, WR_CLASS_FULL).verdict, WR_ADMIT);
    cr_assert_eq(arrive(4).verdict, WR_ADMIT);
    cr_assert_eq(owner.evictions, 1);
    cr_assert_eq(arrive(5).verdict, WR_ADMIT);
    cr_assert_eq(owner.evicted[1], &tickets[2]);
    stop();
}

Test(admission, no_silent_ones_at_all)
{
    start(WR_ADMISSION_NO_LIMIT, 0, WR_NEVER);
    cr_assert_eq(arrive(0).verdict, WR_REFUSE);
    cr_assert_eq(arrive(0).reason, WR_REFUSAL_TOO_MANY_CONNECTIONS);
    cr_assert_eq(owner.evictions, 0);
    stop();
}

Test(admission, a_turn_lasts_as_long_as_its_budget)
{
    uint64_t full = 350; /* the first guess */
    start(WR_ADMISSION_NO_LIMIT, MAX, 3 * full);
    come(0, 10);
    for (unsigned i = 0; i < 3; i++)
        cr_assert_eq(hello(i, WR_CLASS_FULL).verdict, WR_ADMIT);
    for (unsigned i = 3; i < 10; i++)
        cr_assert_eq(hello(i, WR_CLASS_FULL).verdict, WR_WAIT);

    cr_assert(wr_admission_run(owner.admission, owner.now));
    cr_assert_eq(owner.grants, 3);
    cr_assert(wr_admission_run(owner.admission, owner.now));
    cr_assert_not(wr_admission_run(owner.admission, owner.now));
    cr_assert_eq(owner.grants, 7);
    for (unsigned i = 0; i < 7; i++)
        cr_assert_eq(owner.granted[i], &tickets[3 + i], "first come, first served");
    stop();
}

Test(admission, nobody_overtakes_a_waiter)
{
    start(WR_ADMISSION_NO_LIMIT, MAX, 400);
    come(0, 4);
    cr_assert_eq(hello(0, WR_CLASS_FULL).verdict, WR_ADMIT);
    cr_assert_eq(hello(1, WR_CLASS_FULL).verdict, WR_WAIT);
    cr_assert_eq(hello(2, WR_CLASS_RESUME).verdict, WR_WAIT);
    /* Budget or not: someone waits. */
    leave(0, WR_HANDSHAKE_DONE, false, 10);
    cr_assert_eq(hello(3, WR_CLASS_RESUME).verdict, WR_WAIT);
    stop();
}

Test(admission, one_at_least_is_granted_a_turn)
{
    start(WR_ADMISSION_NO_LIMIT, MAX, 1);
    come(0, 3);
    for (unsigned i = 0; i < 3; i++)
        cr_assert_eq(hello(i, WR_CLASS_FULL).verdict, WR_WAIT);
    for (unsigned turn = 1; turn <= 3; turn++) {
        cr_assert_eq(wr_admission_run(owner.admission, owner.now), turn < 3);
        cr_assert_eq(owner.grants, turn);
    }
    stop();
}

Test(admission, resuming_ones_cost_less)
{
    start(WR_ADMISSION_NO_LIMIT, MAX, 1200);
    come(0, 11);
    for (unsigned i = 0; i < 10; i++)
        cr_assert_eq(hello(i, WR_CLASS_RESUME).verdict, WR_ADMIT);
    cr_assert_eq(hello(10, WR_CLASS_RESUME).verdict, WR_WAIT);
    stop();
}

Test(admission, a_false_claim_is_settled_as_full)
{
    start(WR_ADMISSION_NO_LIMIT, MAX, 1000);
    come(0, 4);
    cr_assert_eq(hello(0, WR_CLASS_RESUME).verdict, WR_ADMIT); /* 1000 - 120 */
    leave(0, WR_HANDSHAKE_DONE, false, 900);                   /* 1000 - 900 */
    cr_assert_eq(hello(1, WR_CLASS_RESUME).verdict, WR_WAIT);
    /* It taught what full ones cost, not resuming ones. */
    cr_assert_eq(gauges().cost[WR_CLASS_RESUME], 120);
    cr_assert_gt(gauges().cost[WR_CLASS_FULL], 350);
    stop();
}

Test(admission, debt_is_paid_by_the_next_turn)
{
    start(WR_ADMISSION_NO_LIMIT, MAX, 1000);
    come(0, 8);
    cr_assert_eq(hello(0, WR_CLASS_FULL).verdict, WR_ADMIT);
    leave(0, WR_HANDSHAKE_FAILED, false, 1800); /* 800 over */
    for (unsigned i = 1; i < 8; i++)
        cr_assert_eq(hello(i, WR_CLASS_FULL).verdict, WR_WAIT);
    cr_assert(wr_admission_run(owner.admission, owner.now));
    cr_assert_eq(owner.grants, 1, "200 are left: one at least");
    cr_assert(wr_admission_run(owner.admission, owner.now));
    cr_assert_eq(owner.grants, 3, "850 are left");
    stop();
}

Test(admission, what_was_not_spent_comes_back)
{
    start(WR_ADMISSION_NO_LIMIT, MAX, 350);
    come(0, 3);
    cr_assert_eq(hello(0, WR_CLASS_FULL).verdict, WR_ADMIT);
    leave(0, WR_HANDSHAKE_GONE, false, 0);
    cr_assert_eq(hello(1, WR_CLASS_FULL).verdict, WR_ADMIT);
    cr_assert_eq(hello(2, WR_CLASS_FULL).verdict, WR_WAIT);
    stop();
}

Test(admission, a_waiter_that_has_gone_costs_nothing)
{
    start(WR_ADMISSION_NO_LIMIT, MAX, 350);
    come(0, 4);
    for (unsigned i = 0; i < 4; i++)
        (void)hello(i, WR_CLASS_FULL);
    owner.abandon_next = true;
    cr_assert(wr_admission_run(owner.admission, owner.now));
    cr_assert_eq(owner.grants, 1);
    cr_assert_eq(owner.granted[0], &tickets[2]);
    cr_assert_eq(tickets[1].state, WR_TICKET_NONE);
    stop();
}

Test(admission, means_follow_what_is_measured)
{
    start(WR_ADMISSION_NO_LIMIT, MAX, WR_NEVER);
    for (unsigned i = 0; i < 400; i++) {
        come(0, 2);
        (void)hello(0, WR_CLASS_FULL);
        (void)hello(1, WR_CLASS_RESUME);
        leave(0, WR_HANDSHAKE_DONE, false, 801);
        leave(1, WR_HANDSHAKE_DONE, true, 41);
    }
    cr_assert_geq(gauges().cost[WR_CLASS_FULL], 800);
    cr_assert_leq(gauges().cost[WR_CLASS_FULL], 801);
    cr_assert_geq(gauges().cost[WR_CLASS_RESUME], 40);
    cr_assert_leq(gauges().cost[WR_CLASS_RESUME], 41);
    stop();
}

Test(admission, failures_and_absurd_costs_do_not_mislead)
{
    start(WR_ADMISSION_NO_LIMIT, MAX, WR_NEVER);
    come(0, 2);
    (void)hello(0, WR_CLASS_FULL);
    leave(0, WR_HANDSHAKE_FAILED, false, 5);
    cr_assert_eq(gauges().cost[WR_CLASS_FULL], 350);
    (void)hello(1, WR_CLASS_FULL);
    leave(1, WR_HANDSHAKE_DONE, false, WR_NEVER);
    cr_assert_leq(gauges().cost[WR_CLASS_FULL], 350 + WR_SEC / 16);
    stop();
}

Test(admission, trusted_peers_are_a_class_of_their_own)
{
    start(WR_ADMISSION_NO_LIMIT, MAX, WR_NEVER);
    struct wr_admission_source trusted = {.key = 7, .trusted = true};
    cr_assert_eq(wr_admission_arrive(owner.admission, &tickets[0], trusted, owner.now).verdict,
                 WR_ADMIT);
    (void)hello(0, WR_CLASS_RESUME);
    cr_assert_eq(tickets[0].class, WR_CLASS_TRUSTED);
    leave(0, WR_HANDSHAKE_DONE, true, 1000);
    cr_assert_gt(gauges().cost[WR_CLASS_TRUSTED], 350);
    cr_assert_eq(gauges().cost[WR_CLASS_RESUME], 120);
    stop();
}

Test(admission, waiting_is_measured_on_any_clock)
{
    start(WR_ADMISSION_NO_LIMIT, MAX, 0);
    come(0, 2);
    (void)hello(0, WR_CLASS_FULL);
    owner.now += 500;
    (void)hello(1, WR_CLASS_FULL);
    owner.now += 250;
    cr_assert_eq(gauges().oldest_wait, 750);
    (void)wr_admission_run(owner.admission, owner.now);
    cr_assert_eq(tickets[0].waited, 750);
    owner.now = 0; /* the clock steps back */
    cr_assert_eq(gauges().oldest_wait, 0);
    (void)wr_admission_run(owner.admission, owner.now);
    cr_assert_eq(tickets[1].waited, 0);
    cr_assert_eq(gauges().oldest_wait, 0);
    stop();
}

Test(admission, one_that_waits_may_leave)
{
    start(2, MAX, 0);
    come(0, 3);
    (void)hello(0, WR_CLASS_FULL);
    (void)hello(1, WR_CLASS_FULL);
    leave(0, WR_HANDSHAKE_GONE, false, 0);
    leave(0, WR_HANDSHAKE_GONE, false, 0); /* twice is fine */
    cr_assert_eq(gauges().waiting, 1);
    cr_assert_eq(hello(2, WR_CLASS_FULL).verdict, WR_WAIT);
    (void)wr_admission_run(owner.admission, owner.now);
    cr_assert_eq(owner.granted[0], &tickets[1]);
    stop();
}

Test(admission, free_of_nothing)
{
    wr_admission_free(NULL);
}
