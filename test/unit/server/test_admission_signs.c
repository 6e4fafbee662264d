/* Each conclusion: the facts that allow it, and those next to them that do not. */
#include <criterion/criterion.h>

#include "base/time.h"
#include "server/admission_signs.h"

static struct wr_downstream_options options;
static struct wr_admission_view view;

/* Two workers on four cores, a listener at rest for ten seconds. */
static void start(void)
{
    options = (struct wr_downstream_options){
        .name = "edge",
        .max_connections = 1000,
        .refusal_share = 5,
        .admission = {.mode = WR_ADMISSION_FIXED,
                      .max_pending_handshakes = 100,
                      .max_silent = 200,
                      .max_delay = 50 * WR_MSEC,
                      .max_source_share = 25},
        .access = {.source_bits_ipv4 = 32, .source_bits_ipv6 = 64},
    };
    view = (struct wr_admission_view){
        .name = "edge",
        .options = &options,
        .workers = 2,
        .cores = 4,
        .tls = true,
        .tickets = true,
        .calm = WR_NEVER,
        .last = {.usec = WR_SEC},
        .ten = {.usec = 10 * WR_SEC},
        .total = {.usec = 3600 * WR_SEC},
    };
}

TestSuite(signs, .init = start);

/* N finish in the last second and in each before, each TOOK. */
static void finish(uint64_t full, uint64_t resumed, uint64_t took)
{
    view.last.full = full;
    view.last.resumed = resumed;
    view.last.took_usec = (full + resumed) * took;
    view.ten.full = 10 * full;
    view.ten.resumed = 10 * resumed;
    view.ten.took_usec = 10 * view.last.took_usec;
}

static void refuse(enum wr_refusal_cause cause, uint64_t n)
{
    view.last.refused[WR_REFUSAL_TOO_MANY_HANDSHAKES] = n;
    view.last.by_cause[cause] = n;
    view.ten.refused[WR_REFUSAL_TOO_MANY_HANDSHAKES] = 10 * n;
    view.ten.by_cause[cause] = 10 * n;
}

Test(signs, state)
{
    cr_expect_eq(wr_signs_state(&view), WR_ADMISSION_IDLE);
    view.ten.accepted = 1;
    cr_expect_eq(wr_signs_state(&view), WR_ADMISSION_SERVING);
    view.ten.refused[WR_REFUSAL_ABANDONED] = view.last.refused[WR_REFUSAL_ABANDONED] = 1;
    cr_expect_eq(wr_signs_state(&view), WR_ADMISSION_SERVING, "not weir's doing");
    view.ten.dropped = 1;
    cr_expect_eq(wr_signs_state(&view), WR_ADMISSION_UNCOUNTED);
    view.ten.refused[WR_REFUSAL_DENIED] = 1;
    cr_expect_eq(wr_signs_state(&view), WR_ADMISSION_REFUSED);
    view.last.refused[WR_REFUSAL_DENIED] = 1;
    cr_expect_eq(wr_signs_state(&view), WR_ADMISSION_REFUSING);
    view.draining = true;
    cr_expect_eq(wr_signs_state(&view), WR_ADMISSION_DRAINING);
}

Test(signs, numbers)
{
    cr_expect_eq(wr_signs_cost(&view), 0, "of nothing nothing is known");
    cr_expect_eq(wr_signs_capacity(&view), 0);
    cr_expect_eq(wr_signs_mean_duration(&view), 0);
    cr_expect_eq(wr_signs_slots_needed(&view), 0);
    finish(1000, 3000, 20 * WR_MSEC);
    view.now.cost_full_most = 500;
    cr_expect_eq(wr_signs_cost(&view), 0, "half of it is not known");
    view.now.cost_resumed_most = 100;
    cr_expect_eq(wr_signs_cost(&view), 200);
    cr_expect_eq(wr_signs_capacity(&view), 5000);
    cr_expect_eq(wr_signs_demand(&view, &view.ten), 2000, "a worker");
    refuse(WR_CAUSE_BACKLOG, 4000);
    view.ten.failed = 20000;
    cr_expect_eq(wr_signs_demand(&view, &view.ten), 5000);
    cr_expect_eq(wr_signs_mean_duration(&view), 20 * WR_MSEC);
    cr_expect_eq(wr_signs_slots_needed(&view), 80, "4,000 a second for 20 ms");
    view.last.usec = view.ten.usec = 0;
    cr_expect_eq(wr_signs_demand(&view, &view.ten), 0);
    cr_expect_eq(wr_signs_slots_needed(&view), 0);
}

Test(signs, limit)
{
    cr_expect(wr_signs_limit_is_number(&view));
    cr_expect_not(wr_signs_limit_is_zero(&view));
    cr_expect_not(wr_signs_is_adaptive(&view));
    options.admission.mode = WR_ADMISSION_ADAPTIVE;
    cr_expect(wr_signs_is_adaptive(&view));
    options.admission.max_pending_handshakes = 0;
    cr_expect(wr_signs_limit_is_zero(&view));
    cr_expect_not(wr_signs_limit_is_number(&view));
    cr_expect_not(wr_signs_is_adaptive(&view), "there is nothing to adapt");
    options.admission.max_pending_handshakes = WR_ADMISSION_NO_LIMIT;
    cr_expect_not(wr_signs_limit_is_number(&view));
    cr_expect_not(wr_signs_limit_is_zero(&view));
}

Test(signs, reserve_and_share)
{
    cr_expect_not(wr_signs_has_reserve(&view));
    options.admission.trusted_reserve = 10;
    cr_expect_eq(wr_signs_reserve(&view), 10);
    options.admission.trusted_reserve = 80;
    cr_expect_eq(wr_signs_reserve(&view), 50, "half of the limit at most");
    cr_expect_eq(wr_signs_share_slots(&view), 25);
    cr_expect_not(wr_signs_share_is_small(&view));
    options.admission.max_pending_handshakes = 12;
    cr_expect(wr_signs_share_is_small(&view));
    options.admission.max_pending_handshakes = 2;
    cr_expect_eq(wr_signs_share_slots(&view), 1, "one at least");
    options.admission.mode = WR_ADMISSION_ADAPTIVE;
    cr_expect_not(wr_signs_share_is_small(&view), "nobody knows of what");
    cr_expect_not(wr_signs_has_reserve(&view));
    options.admission.max_pending_handshakes = WR_ADMISSION_NO_LIMIT;
    cr_expect_not(wr_signs_share_is_small(&view));
    cr_expect_not(wr_signs_groups_addresses(&view));
    options.access.source_bits_ipv4 = 24;
    cr_expect(wr_signs_groups_addresses(&view));
}

Test(signs, lists_and_log)
{
    cr_expect_not(wr_signs_denies(&view));
    cr_expect_not(wr_signs_allows(&view));
    cr_expect_not(wr_signs_is_logged(&view));
    options.access.deny_count = 1;
    options.access.allow_count = 1;
    view.access_log = true;
    cr_expect(wr_signs_denies(&view));
    cr_expect(wr_signs_allows(&view));
    cr_expect(wr_signs_is_logged(&view));
}

Test(signs, waits)
{
    cr_expect(wr_signs_waits_are_short(&view), "of nobody");
    view.last.waits[5] = 9; /* up to 2.5 ms */
    view.last.waits[10] = 1;
    cr_expect(wr_signs_waits_are_short(&view));
    view.last.waits[10] = 2;
    cr_expect_not(wr_signs_waits_are_short(&view), "every fifth up to 100 ms");
    view.last.waits[10] = 0;
    view.now.wait_most = 25 * WR_MSEC;
    cr_expect_not(wr_signs_waits_are_short(&view));
    cr_expect(wr_signs_queue_is_over(&view));
    view.now.wait_most = 50 * WR_MSEC;
    cr_expect_not(wr_signs_queue_is_over(&view), "the controller has not seen it yet");
    options.admission.max_delay = WR_NEVER;
    cr_expect_not(wr_signs_waits_are_short(&view), "held against what is usual");
    view.now.wait_most = 49 * WR_MSEC;
    cr_expect(wr_signs_waits_are_short(&view));
    view.last.by_cause[WR_CAUSE_DELAY] = 1;
    cr_expect_not(wr_signs_waits_are_short(&view));
    view.last.by_cause[WR_CAUSE_DELAY] = 0;
    view.now.delayed = 1;
    cr_expect_not(wr_signs_waits_are_short(&view));
    cr_expect(wr_signs_queue_stands(&view));
    cr_expect_not(wr_signs_queue_is_over(&view));
}

Test(signs, demand)
{
    finish(1000, 0, WR_MSEC);
    refuse(WR_CAUSE_DELAY, 3000);
    cr_expect_not(wr_signs_demand_exceeds(&view), "nobody knows");
    view.now.cost_full_most = 500;
    cr_expect_not(wr_signs_demand_exceeds(&view), "2,000 are asked for, and 2,000 can be done");
    refuse(WR_CAUSE_DELAY, 3002);
    cr_expect(wr_signs_demand_exceeds(&view));
    cr_expect(wr_signs_processor_is_short(&view));
    cr_expect(wr_signs_time_goes_elsewhere(&view), "500 are done");
    finish(2000, 0, WR_MSEC);
    cr_expect_not(wr_signs_time_goes_elsewhere(&view), "1,000 are");
    finish(1000, 0, WR_MSEC);
    refuse(WR_CAUSE_BACKLOG, 0);
    refuse(WR_CAUSE_DELAY, 0);
    cr_expect_not(wr_signs_processor_is_short(&view));
    view.now.delayed = 1;
    cr_expect(wr_signs_processor_is_short(&view));
}

Test(signs, other_work)
{
    finish(1000, 0, WR_MSEC);
    view.now.cost_full_most = 500;
    view.now.delayed = 1;
    cr_expect_not(wr_signs_other_work_holds_up(&view), "it may be a burst");
    view.now.busy_most = 3 * WR_SEC;
    cr_expect(wr_signs_other_work_holds_up(&view), "500 of 2,000");
    refuse(WR_CAUSE_DELAY, 1800);
    cr_expect_not(wr_signs_other_work_holds_up(&view), "1,400 are seven tenths");
    refuse(WR_CAUSE_DELAY, 0);
    view.now.delayed = 0;
    cr_expect_not(wr_signs_other_work_holds_up(&view), "nobody waits");
    view.now.delayed = 1;
    view.now.cost_full_most = 0;
    cr_expect_not(wr_signs_other_work_holds_up(&view));
}

Test(signs, clients_that_stall)
{
    cr_expect_not(wr_signs_clients_stall(&view), "there are none");
    view.now.running = 100;
    view.now.busy_most = 3 * WR_SEC;
    cr_expect(wr_signs_clients_stall(&view));
    cr_expect_not(wr_signs_clients_are_far(&view));
    view.now.busy_most = 2 * WR_SEC;
    cr_expect_not(wr_signs_clients_stall(&view), "they may have come just now");
    view.now.busy_most = 3 * WR_SEC;
    finish(1000, 0, 49 * WR_MSEC);
    cr_expect(wr_signs_clients_stall(&view), "49 are explained");
    finish(1000, 0, 50 * WR_MSEC);
    cr_expect_not(wr_signs_clients_stall(&view));
    finish(0, 0, 0);
    view.now.waiting = 51;
    cr_expect_not(wr_signs_clients_stall(&view), "they wait for us");
    view.now.waiting = 0;
    view.now.delayed = 1;
    cr_expect_not(wr_signs_clients_stall(&view));
    view.now.delayed = 0;
    view.last.usec = WR_SEC / 2;
    cr_expect_not(wr_signs_clients_stall(&view), "there is no second to judge by");
}

Test(signs, clients_that_are_far)
{
    view.now.running = 200;
    finish(1000, 0, 200 * WR_MSEC);
    cr_expect_not(wr_signs_clients_are_far(&view), "100 slots a worker suffice");
    refuse(WR_CAUSE_BACKLOG, 200);
    cr_expect(wr_signs_clients_are_far(&view));
    cr_expect_eq(wr_signs_slots_needed(&view), 120);
    cr_expect_not(wr_signs_clients_stall(&view));
    view.now.cost_full_most = 2000;
    cr_expect_not(wr_signs_clients_are_far(&view), "600 are asked for, and 500 can be done");
    view.now.cost_full_most = 1000;
    cr_expect(wr_signs_clients_are_far(&view));
    view.last.waits[10] = 1000;
    cr_expect_not(wr_signs_clients_are_far(&view), "it is the processor");
    view.last.waits[10] = 0;
    options.admission.max_pending_handshakes = WR_ADMISSION_NO_LIMIT;
    cr_expect_not(wr_signs_clients_are_far(&view));
}

Test(signs, cores)
{
    cr_expect(wr_signs_has_cores_left(&view));
    view.workers = 4;
    cr_expect_not(wr_signs_has_cores_left(&view));
}

Test(signs, rsa)
{
    finish(1000, 0, WR_MSEC);
    view.now.cost_full_most = 500;
    cr_expect_not(wr_signs_is_rsa(&view));
    view.rsa = true;
    cr_expect(wr_signs_is_rsa(&view));
    view.signers = true;
    cr_expect_not(wr_signs_is_rsa(&view), "the workers do not sign");
    view.signers = false;
    finish(100, 1000, WR_MSEC);
    view.now.cost_resumed_most = 100;
    cr_expect_not(wr_signs_is_rsa(&view), "that is not what costs");
    view.now.cost_full_most = 0;
    cr_expect_not(wr_signs_is_rsa(&view));
}

Test(signs, tickets)
{
    cr_expect_not(wr_signs_tickets_are_off(&view));
    cr_expect_not(wr_signs_few_resume(&view), "too few to tell");
    finish(100, 11, WR_MSEC);
    cr_expect(wr_signs_few_resume(&view));
    finish(99, 11, WR_MSEC);
    cr_expect_not(wr_signs_few_resume(&view));
    finish(100, 0, WR_MSEC);
    view.ten.false_claims = 500;
    cr_expect(wr_signs_few_resume(&view));
    cr_expect_not(wr_signs_claims_are_false(&view), "half of them");
    view.ten.false_claims = 501;
    cr_expect(wr_signs_claims_are_false(&view));
    cr_expect_not(wr_signs_few_resume(&view), "they would");
    view.tickets = false;
    cr_expect(wr_signs_tickets_are_off(&view));
    view.ten.false_claims = 0;
    cr_expect_not(wr_signs_few_resume(&view));
    view.tls = false;
    cr_expect_not(wr_signs_tickets_are_off(&view));
}

Test(signs, connections)
{
    cr_expect(wr_signs_neither_is_full(&view));
    view.now.open_most = 900;
    cr_expect(wr_signs_connections_are_full(&view));
    cr_expect_not(wr_signs_neither_is_full(&view));
    cr_expect_not(wr_signs_most_are_idle(&view));
    view.now.served = 1700;
    view.now.idle = 900;
    cr_expect(wr_signs_most_are_idle(&view));
    view.now.silent = 100;
    cr_expect_not(wr_signs_most_are_idle(&view));
    view.now.open_most = 899;
    cr_expect_not(wr_signs_connections_are_full(&view));
    view.now.silent_most = 180;
    cr_expect(wr_signs_silent_are_full(&view));
    cr_expect_not(wr_signs_neither_is_full(&view));
    view.tls = false;
    cr_expect_not(wr_signs_silent_are_full(&view));
    options.admission.max_silent = WR_ADMISSION_NO_LIMIT;
    view.tls = true;
    cr_expect_not(wr_signs_silent_are_full(&view));
}

Test(signs, accepting)
{
    cr_expect_not(wr_signs_accepting_paused(&view));
    view.ten.paused = 1;
    cr_expect(wr_signs_accepting_paused(&view));
    cr_expect(wr_signs_refusing_does_not_rest(&view));
    refuse(WR_CAUSE_DELAY, 1);
    cr_expect(wr_signs_refusing_rests(&view));
    options.refusal_share = 100;
    cr_expect_not(wr_signs_refusing_rests(&view));
    options.refusal_share = 5;
    view.tls = false;
    cr_expect_not(wr_signs_refusing_rests(&view));
}
