/* The backlog, silent connections, the budget of a turn, costs: the time an argument. */
#include <criterion/criterion.h>

#include "support/admission_rig.h"

static struct admission_rig rig;

static void start(uint32_t limit, uint64_t budget)
{
    struct wr_admission_options options = controller_options(limit);
    options.turn_budget = budget;
    controller_start(&rig, &options);
}

Test(admission, a_limit_of_n_lets_exactly_n_be_pending)
{
    start(3, WR_NEVER);
    controller_come(&rig, 0, 5);
    for (unsigned i = 0; i < 3; i++)
        cr_assert_not(controller_hello(&rig, i, WR_CLASS_FULL).refused);
    cr_assert(wr_admission_is_full(rig.admission));
    struct wr_admission_decision decision = controller_hello(&rig, 3, WR_CLASS_FULL);
    cr_assert(decision.refused);
    cr_assert_eq(decision.reason, WR_REFUSAL_TOO_MANY_HANDSHAKES);
    cr_assert_eq(decision.cause, WR_CAUSE_BACKLOG);
    cr_assert_eq(controller_gauges(&rig).waiting, 3);

    /* Gate 0 says so too, waiting or running, and one that is done makes room for one. */
    (void)controller_run(&rig);
    cr_assert_eq(controller_gauges(&rig).handshaking, 3);
    cr_assert_eq(controller_ask(&rig, 5, WR_CLASS_UNKNOWN).cause, WR_CAUSE_BACKLOG);
    controller_leave(&rig, 0, WR_HANDSHAKE_DONE, false, 300);
    cr_assert_not(controller_ask(&rig, 5, WR_CLASS_UNKNOWN).refused);
    cr_assert_not(controller_hello(&rig, 4, WR_CLASS_FULL).refused);
    cr_assert(controller_hello(&rig, 3, WR_CLASS_FULL).refused);
    cr_assert_eq(controller_gauges(&rig).pending_peak, 3);
    controller_stop(&rig);
}

Test(admission, a_limit_of_zero_refuses_all)
{
    static const enum wr_handshake_class classes[] = {WR_CLASS_UNKNOWN, WR_CLASS_FULL,
                                                      WR_CLASS_RESUME};
    struct wr_admission_options options = controller_options(0);
    options.resumption_first = true;
    options.trusted_reserve = 10;
    controller_start(&rig, &options);
    for (unsigned i = 0; i < 3; i++)
        cr_assert_eq(controller_ask(&rig, i, classes[i]).reason, WR_REFUSAL_TOO_MANY_HANDSHAKES);
    struct wr_admission_source trusted = {.trusted = true};
    cr_assert(wr_admission_ask(rig.admission, &trusted, WR_CLASS_UNKNOWN, rig.now).refused);
    controller_stop(&rig);
}

Test(admission, no_limit_never_refuses)
{
    start(WR_ADMISSION_NO_LIMIT, WR_NEVER);
    controller_queue(&rig, 0, RIG_TICKETS, WR_CLASS_FULL);
    cr_assert_not(wr_admission_is_full(rig.admission));
    cr_assert_eq(controller_gauges(&rig).pending_peak, RIG_TICKETS);
    controller_stop(&rig);
}

Test(admission, silent_ones_hold_no_slot)
{
    start(1, WR_NEVER);
    controller_come(&rig, 0, RIG_TICKETS);
    cr_assert_eq(controller_gauges(&rig).silent, RIG_TICKETS);
    cr_assert_not(controller_hello(&rig, RIG_TICKETS - 1, WR_CLASS_FULL).refused);
    controller_stop(&rig);
}

Test(admission, the_oldest_silent_one_goes_first)
{
    struct wr_admission_options options = controller_options(WR_ADMISSION_NO_LIMIT);
    options.max_silent = 3;
    controller_start(&rig, &options);
    controller_come(&rig, 0, 3);
    cr_assert_eq(rig.refusals, 0);
    controller_come(&rig, 3, 4);
    cr_assert_eq(rig.refusals, 1);
    cr_assert_eq(rig.refused[0], 0);
    cr_assert_eq(rig.why[0].reason, WR_REFUSAL_TOO_MANY_CONNECTIONS);
    cr_assert_eq(controller_gauges(&rig).silent, 3);
    /* One that has spoken is not silent. */
    cr_assert_not(controller_hello(&rig, 1, WR_CLASS_FULL).refused);
    controller_come(&rig, 4, 5);
    cr_assert_eq(rig.refusals, 1);
    controller_come(&rig, 5, 6);
    cr_assert_eq(rig.refused[1], 2);
    controller_stop(&rig);
}

Test(admission, no_silent_ones_at_all)
{
    struct wr_admission_options options = controller_options(WR_ADMISSION_NO_LIMIT);
    options.max_silent = 0;
    controller_start(&rig, &options);
    struct wr_admission_decision decision =
        controller_arrive(&rig, 0, (struct wr_admission_source){0});
    cr_assert(decision.refused);
    cr_assert_eq(decision.reason, WR_REFUSAL_TOO_MANY_CONNECTIONS);
    cr_assert_eq(rig.refusals, 0);
    controller_stop(&rig);
}

Test(admission, a_turn_lasts_as_long_as_its_budget)
{
    start(WR_ADMISSION_NO_LIMIT, 3 * 350); /* 350: the first guess */
    controller_queue(&rig, 0, 10, WR_CLASS_FULL);
    cr_assert_eq(rig.grants, 0, "nothing is granted but by a run");
    for (unsigned turn = 1; turn <= 3; turn++) {
        cr_assert(controller_run(&rig));
        cr_assert_eq(rig.grants, 3 * turn);
    }
    cr_assert_not(controller_run(&rig));
    for (unsigned i = 0; i < 10; i++)
        cr_assert_eq(rig.granted[i], i, "first come, first served");
    controller_stop(&rig);
}

Test(admission, one_at_least_is_granted_a_turn)
{
    start(WR_ADMISSION_NO_LIMIT, 0);
    controller_queue(&rig, 0, 3, WR_CLASS_FULL);
    for (unsigned turn = 1; turn <= 3; turn++) {
        cr_assert_eq(controller_run(&rig), turn < 3);
        cr_assert_eq(rig.grants, turn);
    }
    controller_stop(&rig);
}

Test(admission, beside_other_work_handshakes_have_their_share)
{
    struct wr_admission_options options = controller_options(WR_ADMISSION_NO_LIMIT);
    options.turn_budget = 350;
    options.min_share = 20;
    controller_start(&rig, &options);
    controller_queue(&rig, 0, 100, WR_CLASS_FULL);
    (void)wr_admission_run(rig.admission, 100, rig.now);
    cr_assert_eq(rig.grants, 1, "the budget of a turn is the least there is");
    (void)wr_admission_run(rig.admission, 14000, rig.now);
    cr_assert_eq(rig.grants, 11, "3500 of 17500 microseconds");
    (void)wr_admission_run(rig.admission, WR_NEVER, rig.now);
    cr_assert_eq(rig.grants, 11 + 71, "a turn that was held up counts for 100 ms");
    controller_stop(&rig);
}

Test(admission, resuming_ones_cost_less)
{
    start(WR_ADMISSION_NO_LIMIT, 1200);
    controller_queue(&rig, 0, 11, WR_CLASS_RESUME);
    cr_assert(controller_run(&rig));
    cr_assert_eq(rig.grants, 10);
    controller_stop(&rig);
}

Test(admission, a_false_claim_is_settled_as_full)
{
    start(WR_ADMISSION_NO_LIMIT, 1000);
    controller_queue(&rig, 0, 1, WR_CLASS_RESUME);
    (void)controller_run(&rig); /* 1000 - 120 */
    controller_leave(&rig, 0, WR_HANDSHAKE_DONE, false, 1900);
    /* It taught what full ones cost, not resuming ones. */
    cr_assert_eq(controller_gauges(&rig).cost[WR_CLASS_RESUME], 120);
    cr_assert_gt(controller_gauges(&rig).cost[WR_CLASS_FULL], 350);
    controller_queue(&rig, 1, 3, WR_CLASS_RESUME);
    cr_assert(controller_run(&rig));
    cr_assert_eq(rig.grants, 2, "900 are owed, so the turn has room for no second one");
    controller_stop(&rig);
}

Test(admission, debt_is_paid_by_the_next_turn_and_then_forgiven)
{
    start(WR_ADMISSION_NO_LIMIT, 1000);
    controller_queue(&rig, 0, 1, WR_CLASS_FULL);
    (void)controller_run(&rig);
    controller_leave(&rig, 0, WR_HANDSHAKE_FAILED, false, 10000);
    controller_queue(&rig, 1, 8, WR_CLASS_FULL);
    cr_assert(controller_run(&rig));
    cr_assert_eq(rig.grants, 2, "nothing is left: one at least");
    cr_assert(controller_run(&rig));
    cr_assert_eq(rig.grants, 3, "650 are left, 350 were owed by the one before");
    controller_stop(&rig);
}

Test(admission, what_was_not_spent_comes_back)
{
    start(WR_ADMISSION_NO_LIMIT, 700);
    controller_queue(&rig, 0, 4, WR_CLASS_FULL);
    rig.abandon_next = true;
    cr_assert(controller_run(&rig));
    cr_assert_eq(rig.grants, 2);
    cr_assert_eq(rig.granted[0], 1);
    cr_assert_eq(rig.granted[1], 2);
    cr_assert_eq(rig.tickets[0].state, WR_TICKET_NONE);
    controller_stop(&rig);
}

Test(admission, means_follow_what_is_measured)
{
    start(WR_ADMISSION_NO_LIMIT, WR_NEVER);
    for (unsigned i = 0; i < 400; i++) {
        controller_queue(&rig, 0, 1, WR_CLASS_FULL);
        controller_queue(&rig, 1, 2, WR_CLASS_RESUME);
        (void)controller_run(&rig);
        controller_leave(&rig, 0, WR_HANDSHAKE_DONE, false, 801);
        controller_leave(&rig, 1, WR_HANDSHAKE_DONE, true, 41);
    }
    cr_assert_geq(controller_gauges(&rig).cost[WR_CLASS_FULL], 800);
    cr_assert_leq(controller_gauges(&rig).cost[WR_CLASS_FULL], 801);
    cr_assert_geq(controller_gauges(&rig).cost[WR_CLASS_RESUME], 40);
    cr_assert_leq(controller_gauges(&rig).cost[WR_CLASS_RESUME], 41);
    controller_stop(&rig);
}

Test(admission, a_guess_is_not_called_a_measurement)
{
    start(WR_ADMISSION_NO_LIMIT, WR_NEVER);
    for (unsigned i = 0; i < 64; i++) {
        cr_assert_not(controller_gauges(&rig).measured[WR_CLASS_FULL], "after %u", i);
        controller_queue(&rig, 0, 1, WR_CLASS_FULL);
        (void)controller_run(&rig);
        controller_leave(&rig, 0, WR_HANDSHAKE_DONE, false, 100);
    }
    cr_assert(controller_gauges(&rig).measured[WR_CLASS_FULL]);
    cr_assert_leq(controller_gauges(&rig).cost[WR_CLASS_FULL], 105);
    cr_assert_not(controller_gauges(&rig).measured[WR_CLASS_RESUME]);
    controller_stop(&rig);
}

Test(admission, failures_and_absurd_costs_do_not_mislead)
{
    start(WR_ADMISSION_NO_LIMIT, WR_NEVER);
    controller_queue(&rig, 0, 2, WR_CLASS_FULL);
    (void)controller_run(&rig);
    controller_leave(&rig, 0, WR_HANDSHAKE_FAILED, false, 5);
    cr_assert_eq(controller_gauges(&rig).cost[WR_CLASS_FULL], 350);
    controller_leave(&rig, 1, WR_HANDSHAKE_DONE, false, WR_NEVER);
    cr_assert_leq(controller_gauges(&rig).cost[WR_CLASS_FULL], 350 + WR_SEC / 16);
    controller_stop(&rig);
}

Test(admission, waiting_is_measured_on_any_clock)
{
    start(WR_ADMISSION_NO_LIMIT, 0);
    controller_queue(&rig, 0, 1, WR_CLASS_FULL);
    rig.now += 500;
    controller_queue(&rig, 1, 2, WR_CLASS_FULL);
    rig.now += 250;
    cr_assert_eq(controller_gauges(&rig).oldest_wait, 750);
    cr_assert_eq(controller_gauges(&rig).busy, 750);
    (void)controller_run(&rig);
    cr_assert_eq(rig.tickets[0].waited, 750);
    rig.now = 0; /* the clock steps back */
    cr_assert_eq(controller_gauges(&rig).oldest_wait, 0);
    cr_assert_eq(controller_gauges(&rig).busy, 0);
    (void)controller_run(&rig);
    cr_assert_eq(rig.tickets[1].waited, 0);
    controller_stop(&rig);
}

Test(admission, busy_is_since_the_backlog_was_empty)
{
    start(WR_ADMISSION_NO_LIMIT, WR_NEVER);
    controller_queue(&rig, 0, 2, WR_CLASS_FULL);
    (void)controller_run(&rig);
    rig.now += 1000;
    cr_assert_eq(controller_gauges(&rig).busy, 1000, "running counts as much as waiting");
    controller_leave(&rig, 0, WR_HANDSHAKE_DONE, false, 300);
    controller_leave(&rig, 1, WR_HANDSHAKE_DONE, false, 300);
    cr_assert_eq(controller_gauges(&rig).busy, 0);
    rig.now += 1000;
    controller_queue(&rig, 2, 3, WR_CLASS_FULL);
    rig.now += 10;
    cr_assert_eq(controller_gauges(&rig).busy, 10);
    controller_stop(&rig);
}

Test(admission, one_that_waits_may_leave)
{
    start(2, 0);
    controller_queue(&rig, 0, 2, WR_CLASS_FULL);
    controller_leave(&rig, 0, WR_HANDSHAKE_GONE, false, 0);
    controller_leave(&rig, 0, WR_HANDSHAKE_GONE, false, 0); /* twice is fine */
    cr_assert_eq(controller_gauges(&rig).waiting, 1);
    controller_queue(&rig, 2, 3, WR_CLASS_FULL);
    (void)controller_run(&rig);
    cr_assert_eq(rig.granted[0], 1);
    controller_stop(&rig);
}

Test(admission, free_of_nothing)
{
    wr_admission_free(NULL);
}
