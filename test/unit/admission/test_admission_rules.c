/* Order, delay, resumption, fairness, the trusted, the limit that finds itself. */
#include <criterion/criterion.h>

#include "support/admission_rig.h"

static struct admission_rig rig;

#define TARGET (50 * WR_MSEC)
#define INTERVAL (100 * WR_MSEC)

/* ---- delay and order ---- */

static void start_delay(bool newest_first)
{
    struct wr_admission_options options = controller_options(WR_ADMISSION_NO_LIMIT);
    options.turn_budget = 0; /* one a turn */
    options.max_delay = TARGET;
    options.newest_first = newest_first;
    controller_start(&rig, &options);
}

/* From no delay to one that is exceeded: 0 waits from the begin, and is the only one granted. */
static void let_it_stand(void)
{
    controller_queue(&rig, 0, 4, WR_CLASS_FULL);
    rig.now += TARGET / 2;
    cr_assert(controller_run(&rig));
    cr_assert_not(controller_gauges(&rig).delayed);
    rig.now += TARGET / 2 + 1;
}

Test(delay, a_queue_that_stands_is_cut)
{
    start_delay(true);
    let_it_stand();
    controller_queue(&rig, 4, 6, WR_CLASS_FULL);
    (void)controller_run(&rig);
    cr_assert(controller_gauges(&rig).delayed);
    cr_assert_eq(rig.refusals, 3, "those that have waited for too long");
    for (unsigned i = 0; i < 3; i++) {
        cr_assert_eq(rig.refused[i], 1 + i, "the oldest first");
        cr_assert_eq(rig.why[i].reason, WR_REFUSAL_TOO_MANY_HANDSHAKES);
        cr_assert_eq(rig.why[i].cause, WR_CAUSE_DELAY);
    }
    cr_assert_eq(rig.granted[1], 5, "the newest first");
    controller_stop(&rig);
}

Test(delay, a_burst_that_drains_is_served_whole)
{
    start_delay(true);
    controller_queue(&rig, 0, 50, WR_CLASS_FULL); /* the last one waits for not quite the target */
    for (unsigned i = 0; i < 50; i++) {
        rig.now += WR_MSEC - 1;
        (void)controller_run(&rig);
        cr_assert_eq(rig.granted[i], i);
    }
    cr_assert_eq(rig.refusals, 0);
    cr_assert_not(controller_gauges(&rig).delayed);
    controller_stop(&rig);
}

Test(delay, it_is_over_after_an_interval_below_half)
{
    start_delay(true);
    let_it_stand();
    (void)controller_run(&rig);
    cr_assert(controller_gauges(&rig).delayed);
    controller_queue(&rig, 10, 12, WR_CLASS_FULL);
    (void)controller_run(&rig); /* an interval begins */
    rig.now += TARGET / 2 - 1;
    (void)controller_run(&rig);
    cr_assert(controller_gauges(&rig).delayed);
    controller_queue(&rig, 12, 13, WR_CLASS_FULL);
    rig.now += TARGET / 2;
    (void)controller_run(&rig); /* half of the target again: the interval begins anew */
    rig.now += INTERVAL - 1;
    (void)controller_run(&rig);
    (void)controller_run(&rig);
    cr_assert(controller_gauges(&rig).delayed);
    rig.now += INTERVAL;
    (void)controller_run(&rig);
    cr_assert_not(controller_gauges(&rig).delayed);
    unsigned before = rig.grants;
    controller_queue(&rig, 20, 22, WR_CLASS_FULL);
    (void)controller_run(&rig);
    cr_assert_eq(rig.granted[before], 20, "first come, first served again");
    controller_stop(&rig);
}

Test(delay, nobody_is_let_in_who_could_not_be_served_in_time)
{
    start_delay(true);
    controller_queue(&rig, 0, 200, WR_CLASS_FULL);
    for (unsigned i = 0; i < 26; i++) { /* 25 in the time of the target */
        rig.now += 2 * WR_MSEC;
        (void)controller_run(&rig);
    }
    cr_assert(controller_gauges(&rig).delayed);
    cr_assert_eq(controller_gauges(&rig).waiting, 0, "all have waited for too long");
    unsigned in = 0;
    while (!controller_ask(&rig, 200 + in, WR_CLASS_FULL).refused) {
        controller_queue(&rig, 200 + in, 201 + in, WR_CLASS_FULL);
        in++;
    }
    cr_assert_geq(in, 23);
    cr_assert_leq(in, 27);
    cr_assert_eq(controller_ask(&rig, 300, WR_CLASS_FULL).cause, WR_CAUSE_DELAY);
    cr_assert_eq(controller_gauges(&rig).limit, controller_gauges(&rig).handshaking + in);
    controller_stop(&rig);
}

Test(delay, order_is_a_rule_of_its_own)
{
    start_delay(false);
    let_it_stand();
    controller_queue(&rig, 4, 6, WR_CLASS_FULL);
    (void)controller_run(&rig);
    cr_assert_eq(rig.refusals, 3);
    cr_assert_eq(rig.granted[1], 4, "the oldest of those that are left");
    controller_stop(&rig);
}

Test(delay, infinity_is_none)
{
    struct wr_admission_options options = controller_options(WR_ADMISSION_NO_LIMIT);
    options.turn_budget = 0;
    options.newest_first = true;
    controller_start(&rig, &options);
    controller_queue(&rig, 0, 3, WR_CLASS_FULL);
    for (unsigned i = 0; i < 3; i++) {
        rig.now += 1000 * WR_SEC;
        (void)controller_run(&rig);
        cr_assert_eq(rig.granted[i], i);
    }
    cr_assert_eq(rig.refusals, 0);
    controller_stop(&rig);
}

/* ---- resumption first ---- */

static void start_resumption(uint32_t limit, bool first)
{
    struct wr_admission_options options = controller_options(limit);
    options.turn_budget = 0;
    options.resumption_first = first;
    controller_start(&rig, &options);
}

Test(resumption, goes_before_full_ones_which_keep_their_floor)
{
    start_resumption(WR_ADMISSION_NO_LIMIT, true);
    controller_queue(&rig, 0, 20, WR_CLASS_FULL);
    controller_queue(&rig, 100, 200, WR_CLASS_RESUME);
    for (unsigned i = 0; i < 80; i++)
        (void)controller_run(&rig);
    unsigned full = 0;
    for (unsigned i = 0; i < 80; i++)
        full += rig.granted[i] < 100;
    cr_assert_geq(rig.granted[0], 100);
    /* A quarter of the time: three times 120 for each 350 of the others, so 8.75 to one. */
    cr_assert_geq(full, 7);
    cr_assert_leq(full, 9);
    controller_stop(&rig);
}

Test(resumption, no_debt_is_saved_up_while_no_full_one_waits)
{
    start_resumption(WR_ADMISSION_NO_LIMIT, true);
    controller_queue(&rig, 100, 150, WR_CLASS_RESUME);
    for (unsigned i = 0; i < 45; i++)
        (void)controller_run(&rig);
    controller_queue(&rig, 0, 3, WR_CLASS_FULL);
    for (unsigned i = 0; i < 5; i++)
        (void)controller_run(&rig);
    for (unsigned i = 0; i < 50; i++)
        cr_assert_geq(rig.granted[i], 100);
    controller_stop(&rig);
}

Test(resumption, off_all_are_served_as_they_came)
{
    start_resumption(WR_ADMISSION_NO_LIMIT, false);
    controller_queue(&rig, 0, 2, WR_CLASS_FULL);
    controller_queue(&rig, 2, 4, WR_CLASS_RESUME);
    for (unsigned i = 0; i < 4; i++) {
        (void)controller_run(&rig);
        cr_assert_eq(rig.granted[i], i);
    }
    controller_stop(&rig);
}

Test(resumption, a_full_waiter_gives_way_down_to_the_floor)
{
    start_resumption(8, true);
    controller_queue(&rig, 0, 8, WR_CLASS_FULL);
    cr_assert(controller_ask(&rig, 1, WR_CLASS_FULL).refused);
    cr_assert_not(controller_ask(&rig, 1, WR_CLASS_RESUME).refused);
    cr_assert_not(controller_ask(&rig, 1, WR_CLASS_UNKNOWN).refused, "its ClientHello will tell");
    controller_queue(&rig, 10, 16, WR_CLASS_RESUME);
    cr_assert_eq(rig.refusals, 6);
    for (unsigned i = 0; i < 6; i++) {
        cr_assert_eq(rig.refused[i], 7 - i, "the one that would be served last");
        cr_assert_eq(rig.why[i].cause, WR_CAUSE_RESUMPTION);
    }
    cr_assert_eq(controller_gauges(&rig).waiting, 8);
    /* A quarter of eight is theirs. */
    cr_assert_eq(controller_ask(&rig, 1, WR_CLASS_RESUME).cause, WR_CAUSE_BACKLOG);
    cr_assert(controller_ask(&rig, 1, WR_CLASS_UNKNOWN).refused);
    controller_come(&rig, 20, 21);
    cr_assert(controller_hello(&rig, 20, WR_CLASS_RESUME).refused);
    cr_assert_eq(rig.refusals, 6);
    controller_stop(&rig);
}

Test(resumption, one_whose_cryptography_runs_gives_way_to_nobody)
{
    struct wr_admission_options options = controller_options(4);
    options.resumption_first = true;
    controller_start(&rig, &options);
    controller_queue(&rig, 0, 4, WR_CLASS_FULL);
    (void)controller_run(&rig);
    cr_assert(controller_ask(&rig, 1, WR_CLASS_RESUME).refused);
    cr_assert(controller_ask(&rig, 1, WR_CLASS_UNKNOWN).refused);
    controller_stop(&rig);
}

Test(resumption, who_claimed_falsely_is_not_believed_for_a_minute)
{
    struct wr_admission_options options = controller_options(WR_ADMISSION_NO_LIMIT);
    options.resumption_first = true;
    controller_start(&rig, &options);
    struct wr_admission_source liar = {.key = 77};
    for (unsigned i = 0; i < 3; i++)
        cr_assert_not(controller_arrive(&rig, i, liar).refused);
    (void)controller_hello(&rig, 0, WR_CLASS_RESUME);
    cr_assert_eq(rig.tickets[0].class, WR_CLASS_RESUME);
    (void)controller_run(&rig);
    controller_leave(&rig, 0, WR_HANDSHAKE_DONE, false, 300);
    (void)controller_hello(&rig, 1, WR_CLASS_RESUME);
    cr_assert_eq(rig.tickets[1].class, WR_CLASS_FULL);
    controller_queue(&rig, 10, 11, WR_CLASS_RESUME);
    cr_assert_eq(rig.tickets[10].class, WR_CLASS_RESUME, "another source");
    rig.now += 60 * WR_SEC;
    (void)controller_hello(&rig, 2, WR_CLASS_RESUME);
    cr_assert_eq(rig.tickets[2].class, WR_CLASS_RESUME);
    controller_stop(&rig);
}

/* ---- fairness ---- */

static void start_share(uint32_t limit, uint32_t share)
{
    struct wr_admission_options options = controller_options(limit);
    options.max_source_share = share;
    controller_start(&rig, &options);
}

/* How many of COUNT from SOURCE get in, tickets from FIRST on. */
static unsigned crowd(unsigned first, unsigned count, uint64_t source)
{
    unsigned in = 0;
    for (unsigned i = first; i < first + count; i++) {
        cr_assert_not(
            controller_arrive(&rig, i, (struct wr_admission_source){.key = source}).refused);
        struct wr_admission_decision decision = controller_hello(&rig, i, WR_CLASS_FULL);
        in += !decision.refused;
        if (decision.refused && !wr_admission_is_full(rig.admission))
            cr_assert_eq(decision.cause, WR_CAUSE_SHARE);
    }
    return in;
}

Test(share, the_first_half_is_free_then_each_has_its_share)
{
    start_share(100, 25);
    cr_assert_eq(crowd(0, 60, 1), 50, "one source alone");
    cr_assert_eq(controller_ask(&rig, 1, WR_CLASS_UNKNOWN).cause, WR_CAUSE_SHARE);
    cr_assert_eq(crowd(60, 40, 2), 25);
    cr_assert_eq(crowd(100, 30, 3), 25);
    cr_assert(controller_ask(&rig, 4, WR_CLASS_FULL).refused);
    cr_assert_eq(controller_ask(&rig, 4, WR_CLASS_FULL).cause, WR_CAUSE_BACKLOG);
    controller_stop(&rig);
}

Test(share, what_ends_is_given_back)
{
    start_share(100, 25);
    (void)crowd(0, 50, 1);
    cr_assert(controller_ask(&rig, 1, WR_CLASS_FULL).refused);
    (void)controller_run(&rig);
    cr_assert(controller_ask(&rig, 1, WR_CLASS_FULL).refused, "running counts too");
    controller_leave(&rig, 0, WR_HANDSHAKE_DONE, false, 300);
    cr_assert_not(controller_ask(&rig, 1, WR_CLASS_FULL).refused, "less than half is taken");
    controller_stop(&rig);
}

Test(share, a_small_limit_leaves_one_each)
{
    start_share(2, 25);
    cr_assert_eq(crowd(0, 5, 1), 1);
    cr_assert_eq(crowd(5, 5, 2), 1);
    controller_stop(&rig);
}

Test(share, the_whole_is_no_rule)
{
    start_share(10, 100);
    cr_assert_eq(crowd(0, 10, 1), 10);
    controller_stop(&rig);
}

Test(share, the_trusted_have_none)
{
    start_share(100, 25);
    for (unsigned i = 0; i < 100; i++) {
        struct wr_admission_source trusted = {.key = 1, .trusted = true};
        cr_assert_not(controller_arrive(&rig, i, trusted).refused);
        cr_assert_not(controller_hello(&rig, i, WR_CLASS_FULL).refused);
    }
    controller_stop(&rig);
}

/* ---- the trusted ---- */

static const struct wr_admission_source trusted = {.key = 7, .trusted = true};

static void start_reserve(uint32_t limit, uint32_t reserve)
{
    struct wr_admission_options options = controller_options(limit);
    options.trusted_reserve = reserve;
    options.turn_budget = 0;
    controller_start(&rig, &options);
}

static unsigned trusted_fit(unsigned first)
{
    unsigned in = 0;
    while (!wr_admission_ask(rig.admission, &trusted, WR_CLASS_UNKNOWN, rig.now).refused) {
        cr_assert_not(controller_arrive(&rig, first + in, trusted).refused);
        cr_assert_not(controller_hello(&rig, first + in, WR_CLASS_RESUME).refused);
        cr_assert_eq(rig.tickets[first + in].class, WR_CLASS_TRUSTED);
        in++;
    }
    return in;
}

Test(trusted, have_slots_that_nobody_else_gets)
{
    start_reserve(20, 5);
    controller_queue(&rig, 0, 15, WR_CLASS_FULL);
    cr_assert_eq(controller_ask(&rig, 1, WR_CLASS_FULL).cause, WR_CAUSE_BACKLOG);
    cr_assert_eq(trusted_fit(100), 5);
    controller_stop(&rig);
}

Test(trusted, may_have_all_the_others_too)
{
    start_reserve(20, 5);
    cr_assert_eq(trusted_fit(100), 20);
    cr_assert(controller_ask(&rig, 1, WR_CLASS_FULL).refused);
    controller_stop(&rig);
}

Test(trusted, the_reserve_is_half_at_most)
{
    start_reserve(4, 1000);
    controller_queue(&rig, 0, 2, WR_CLASS_FULL);
    cr_assert(controller_ask(&rig, 1, WR_CLASS_FULL).refused);
    cr_assert_eq(trusted_fit(100), 2);
    controller_stop(&rig);
}

Test(trusted, go_first_and_are_measured_apart)
{
    start_reserve(100, 10);
    controller_queue(&rig, 0, 3, WR_CLASS_FULL);
    cr_assert_not(controller_arrive(&rig, 100, trusted).refused);
    (void)controller_hello(&rig, 100, WR_CLASS_FULL);
    (void)controller_run(&rig);
    cr_assert_eq(rig.granted[0], 100);
    controller_leave(&rig, 100, WR_HANDSHAKE_DONE, true, 1000);
    cr_assert_gt(controller_gauges(&rig).cost[WR_CLASS_TRUSTED], 350);
    cr_assert_eq(controller_gauges(&rig).cost[WR_CLASS_RESUME], 120);
    controller_stop(&rig);
}

/* ---- the limit that finds itself ---- */

/* The delay rule is off: the target is 50 ms then. */
static void start_adaptive(uint32_t ceiling)
{
    struct wr_admission_options options = controller_options(ceiling);
    options.mode = WR_ADMISSION_ADAPTIVE;
    controller_start(&rig, &options);
}

/* A window in which the oldest has waited for WAIT when its turn came. */
static void window(uint64_t wait)
{
    controller_queue(&rig, 0, 1, WR_CLASS_FULL);
    rig.now += wait;
    (void)controller_run(&rig);
    controller_leave(&rig, 0, WR_HANDSHAKE_DONE, false, 300);
    rig.now += INTERVAL;
}

Test(adaptive, begins_at_its_ceiling_or_a_thousand)
{
    start_adaptive(100);
    cr_assert_eq(controller_gauges(&rig).limit, 100);
    controller_stop(&rig);
    start_adaptive(WR_ADMISSION_NO_LIMIT);
    cr_assert_eq(controller_gauges(&rig).limit, 1000);
    controller_stop(&rig);
}

Test(adaptive, long_waits_take_it_down_in_proportion_but_not_to_nothing)
{
    start_adaptive(1000);
    window(0);
    window(TARGET * 5 / 4);
    cr_assert_eq(controller_gauges(&rig).limit, 800);
    for (unsigned i = 0; i < 40; i++)
        window(WR_SEC);
    cr_assert_eq(controller_gauges(&rig).limit, 8);
    controller_stop(&rig);
}

Test(adaptive, it_comes_back_by_itself_in_peace)
{
    start_adaptive(1000);
    for (unsigned i = 0; i < 40; i++)
        window(WR_SEC);
    window(0);
    window(0);
    uint32_t before = controller_gauges(&rig).limit;
    window(0);
    cr_assert_gt(controller_gauges(&rig).limit, before);
    rig.now += 10 * WR_SEC; /* nobody comes: windows pass all the same */
    window(0);
    cr_assert_eq(controller_gauges(&rig).limit, 1000);
    controller_stop(&rig);
}

Test(adaptive, it_goes_up_when_it_refuses_although_waits_are_short)
{
    start_adaptive(4000);
    window(0);
    for (unsigned i = 0; i < 40; i++)
        window(WR_SEC);
    cr_assert_eq(controller_gauges(&rig).limit, 8);
    uint32_t limit = 8;
    for (unsigned step = 0; step < 6; step++) {
        unsigned n = 100;
        while (!controller_ask(&rig, n, WR_CLASS_FULL).refused)
            controller_queue(&rig, n, n + 1, WR_CLASS_FULL), n++;
        (void)controller_run(&rig);
        rig.now += INTERVAL;
        (void)controller_run(&rig);
        if (step > 0) { /* the first window has seen the long waits before */
            cr_assert_eq(controller_gauges(&rig).limit, limit + limit / 4 + 1);
            limit = controller_gauges(&rig).limit;
        } else {
            limit = controller_gauges(&rig).limit;
        }
        while (n-- > 100)
            controller_leave(&rig, n, WR_HANDSHAKE_DONE, false, 300);
    }
    controller_stop(&rig);
}

Test(adaptive, never_above_the_ceiling_and_zero_stays_zero)
{
    start_adaptive(0);
    for (unsigned i = 0; i < 5; i++) {
        cr_assert(controller_ask(&rig, i, WR_CLASS_FULL).refused);
        (void)controller_run(&rig);
        rig.now += INTERVAL;
    }
    cr_assert_eq(controller_gauges(&rig).limit, 0);
    controller_stop(&rig);
}
