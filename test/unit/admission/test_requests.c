/* The rules of request admission, each by itself. */
#include <criterion/criterion.h>

#include "admission/requests.h"
#include "base/compiler.h"

#define TICKETS 64

struct request {
    struct wr_request_ticket ticket;
    unsigned granted;
    unsigned refused;
    enum wr_shed cause;
};

static struct wr_requests *requests;
static struct request all[TICKETS];

static struct request *request_of(struct wr_request_ticket *ticket)
{
    return WR_CONTAINER_OF(ticket, struct request, ticket);
}

static void on_grant(void *owner, struct wr_request_ticket *ticket)
{
    (void)owner;
    request_of(ticket)->granted++;
}

static void on_refuse(void *owner, struct wr_request_ticket *ticket, enum wr_shed cause)
{
    (void)owner;
    request_of(ticket)->refused++;
    request_of(ticket)->cause = cause;
}

static const struct wr_requests_events events = {.grant = on_grant, .refuse = on_refuse};

static void begin(struct wr_requests_options options)
{
    requests = wr_requests_new(&options, &events, NULL);
    for (size_t i = 0; i < TICKETS; i++) {
        all[i] = (struct request){.granted = 0};
        wr_request_ticket_init(&all[i].ticket);
    }
}

static void end(void)
{
    wr_requests_free(requests);
}

/* Request I; the answer. */
static enum wr_request_state come(size_t i, enum wr_priority priority, uint64_t now)
{
    wr_requests_arrive(requests, &all[i].ticket, priority, now, &all[i].cause);
    return all[i].ticket.state;
}

static void go(size_t i, uint64_t now)
{
    wr_requests_leave(requests, &all[i].ticket, now);
}

static struct wr_requests_options fixed(uint32_t max, uint64_t max_wait, uint32_t max_waiting)
{
    return (struct wr_requests_options){
        .max = max, .max_wait = max_wait, .max_waiting = max_waiting, .share = {100, 90, 70}};
}

Test(requests, all_zero_is_no_limit)
{
    begin((struct wr_requests_options){.max = 0});
    for (size_t i = 0; i < TICKETS; i++)
        cr_expect_eq(come(i, WR_PRIORITY_SHEDDABLE, i), WR_REQUEST_IN_FLIGHT);
    struct wr_requests_gauges gauges = wr_requests_gauges(requests);
    cr_expect_eq(gauges.in_flight, TICKETS);
    cr_expect_eq(gauges.limit, 0);
    for (size_t i = 0; i < TICKETS; i++)
        go(i, TICKETS);
    cr_expect_eq(wr_requests_gauges(requests).in_flight, 0);
    end();
}

Test(requests, above_the_limit_it_is_refused_when_nobody_waits)
{
    begin(fixed(2, 0, 10));
    cr_expect_eq(come(0, WR_PRIORITY_NORMAL, 1), WR_REQUEST_IN_FLIGHT);
    cr_expect_eq(come(1, WR_PRIORITY_NORMAL, 1), WR_REQUEST_IN_FLIGHT);
    cr_expect_eq(come(2, WR_PRIORITY_CRITICAL, 1), WR_REQUEST_NONE);
    cr_expect_eq(all[2].cause, WR_SHED_LIMIT);
    cr_expect_eq(all[2].refused, 0, "told by the call itself");
    go(0, 2);
    cr_expect_eq(come(3, WR_PRIORITY_NORMAL, 2), WR_REQUEST_IN_FLIGHT);
    end();
}

Test(requests, a_slot_that_becomes_free_goes_to_who_came_first)
{
    begin(fixed(1, WR_SEC, 10));
    cr_expect_eq(come(0, WR_PRIORITY_NORMAL, 10), WR_REQUEST_IN_FLIGHT);
    cr_expect_eq(come(1, WR_PRIORITY_NORMAL, 20), WR_REQUEST_WAITING);
    cr_expect_eq(come(2, WR_PRIORITY_NORMAL, 30), WR_REQUEST_WAITING);
    cr_expect_eq(wr_requests_gauges(requests).waiting, 2);
    go(0, 120);
    cr_expect_eq(all[1].granted, 1);
    cr_expect_eq(all[1].ticket.waited, 100);
    cr_expect_eq(all[2].granted, 0);
    cr_expect_eq(wr_requests_gauges(requests).in_flight, 1);
    go(1, 130);
    cr_expect_eq(all[2].granted, 1);
    go(2, 140);
    cr_expect_eq(wr_requests_gauges(requests).in_flight, 0);
    end();
}

Test(requests, a_waiter_that_leaves_is_passed_over)
{
    begin(fixed(1, WR_SEC, 10));
    for (size_t i = 0; i < 3; i++)
        come(i, WR_PRIORITY_NORMAL, 1);
    go(1, 2);
    cr_expect_eq(wr_requests_gauges(requests).waiting, 1);
    go(1, 3); /* once more does nothing */
    cr_expect_eq(wr_requests_gauges(requests).waiting, 1);
    go(0, 4);
    cr_expect_eq(all[1].granted, 0);
    cr_expect_eq(all[2].granted, 1);
    end();
}

Test(requests, priority_goes_before_arrival)
{
    begin(fixed(1, WR_SEC, 10));
    come(0, WR_PRIORITY_NORMAL, 1);
    come(1, WR_PRIORITY_SHEDDABLE, 2);
    come(2, WR_PRIORITY_NORMAL, 3);
    come(3, WR_PRIORITY_CRITICAL, 4);
    static const size_t order[] = {0, 3, 2, 1};
    for (size_t i = 0; i + 1 < WR_COUNT_OF(order); i++) {
        go(order[i], 5);
        cr_expect_eq(all[order[i + 1]].granted, 1, "%zu", order[i + 1]);
        cr_expect_eq(wr_requests_gauges(requests).in_flight, 1);
    }
    end();
}

/* Of ten slots: 7 for sheddable ones, 9 for normal ones, and the last for critical ones alone. */
Test(requests, lower_priorities_may_use_a_part_of_the_limit)
{
    begin(fixed(10, 0, 0));
    for (size_t i = 0; i < 7; i++)
        cr_expect_eq(come(i, WR_PRIORITY_SHEDDABLE, 1), WR_REQUEST_IN_FLIGHT);
    cr_expect_eq(come(7, WR_PRIORITY_SHEDDABLE, 1), WR_REQUEST_NONE);
    cr_expect_eq(come(8, WR_PRIORITY_NORMAL, 1), WR_REQUEST_IN_FLIGHT);
    cr_expect_eq(come(9, WR_PRIORITY_NORMAL, 1), WR_REQUEST_IN_FLIGHT);
    cr_expect_eq(come(10, WR_PRIORITY_NORMAL, 1), WR_REQUEST_NONE);
    cr_expect_eq(come(11, WR_PRIORITY_CRITICAL, 1), WR_REQUEST_IN_FLIGHT);
    cr_expect_eq(come(12, WR_PRIORITY_CRITICAL, 1), WR_REQUEST_NONE);
    end();
}

Test(requests, a_small_limit_is_not_rounded_away)
{
    begin(fixed(1, 0, 0));
    cr_expect_eq(come(0, WR_PRIORITY_SHEDDABLE, 1), WR_REQUEST_IN_FLIGHT);
    go(0, 2);
    cr_expect_eq(come(1, WR_PRIORITY_NORMAL, 2), WR_REQUEST_IN_FLIGHT);
    end();
}

/* A slot that only a critical one may have goes to none of those who wait. */
Test(requests, a_free_slot_passes_those_who_may_not_have_it)
{
    begin(fixed(10, WR_SEC, 10));
    for (size_t i = 0; i < 9; i++)
        come(i, WR_PRIORITY_NORMAL, 1);
    cr_expect_eq(come(9, WR_PRIORITY_CRITICAL, 1), WR_REQUEST_IN_FLIGHT);
    cr_expect_eq(come(10, WR_PRIORITY_SHEDDABLE, 1), WR_REQUEST_WAITING);
    cr_expect_eq(come(11, WR_PRIORITY_NORMAL, 1), WR_REQUEST_WAITING);
    go(9, 2);
    cr_expect_eq(all[10].granted + all[11].granted, 0);
    go(8, 2);
    cr_expect_eq(all[11].granted, 1);
    for (size_t i = 5; i < 8; i++)
        go(i, 3);
    cr_expect_eq(all[10].granted, 1);
    end();
}

Test(requests, when_the_queue_is_full_the_last_of_the_lowest_priority_gives_way)
{
    begin(fixed(1, WR_SEC, 3));
    come(0, WR_PRIORITY_NORMAL, 1);
    come(1, WR_PRIORITY_SHEDDABLE, 2);
    come(2, WR_PRIORITY_SHEDDABLE, 3);
    come(3, WR_PRIORITY_NORMAL, 4);
    cr_expect_eq(come(4, WR_PRIORITY_SHEDDABLE, 5), WR_REQUEST_NONE);
    cr_expect_eq(all[4].cause, WR_SHED_QUEUE);
    cr_expect_eq(come(5, WR_PRIORITY_NORMAL, 6), WR_REQUEST_WAITING);
    cr_expect_eq(all[2].refused, 1);
    cr_expect_eq(all[2].cause, WR_SHED_PRIORITY);
    cr_expect_eq(come(6, WR_PRIORITY_CRITICAL, 7), WR_REQUEST_WAITING);
    cr_expect_eq(all[1].refused, 1);
    cr_expect_eq(come(7, WR_PRIORITY_CRITICAL, 8), WR_REQUEST_WAITING);
    cr_expect_eq(all[5].refused, 1, "the later of the two normal ones");
    cr_expect_eq(all[3].refused, 0);
    cr_expect_eq(come(8, WR_PRIORITY_NORMAL, 9), WR_REQUEST_NONE);
    cr_expect_eq(wr_requests_gauges(requests).waiting, 3);
    end();
}

Test(requests, who_has_waited_too_long_is_refused)
{
    begin(fixed(1, 1000, 10));
    come(0, WR_PRIORITY_NORMAL, 1);
    cr_expect_eq(wr_requests_next_expiry(requests), WR_NEVER);
    come(1, WR_PRIORITY_NORMAL, 100);
    come(2, WR_PRIORITY_CRITICAL, 200);
    cr_expect_eq(wr_requests_next_expiry(requests), 1100);
    wr_requests_expire(requests, 1099);
    cr_expect_eq(all[1].refused, 0);
    wr_requests_expire(requests, 1100);
    cr_expect_eq(all[1].refused, 1);
    cr_expect_eq(all[1].cause, WR_SHED_WAIT);
    cr_expect_eq(all[1].ticket.waited, 1000);
    cr_expect_eq(wr_requests_next_expiry(requests), 1200);
    wr_requests_expire(requests, 5000);
    cr_expect_eq(all[2].refused, 1);
    cr_expect_eq(wr_requests_gauges(requests).waiting, 0);
    cr_expect_eq(all[0].ticket.state, WR_REQUEST_IN_FLIGHT);
    end();
}

Test(requests, no_places_to_wait_is_no_waiting)
{
    begin(fixed(1, WR_SEC, 0));
    come(0, WR_PRIORITY_NORMAL, 1);
    cr_expect_eq(come(1, WR_PRIORITY_CRITICAL, 1), WR_REQUEST_NONE);
    cr_expect_eq(all[1].cause, WR_SHED_LIMIT);
    end();
}

Test(requests, when_the_controller_goes_nobody_is_left_behind)
{
    begin(fixed(1, WR_SEC, 10));
    come(0, WR_PRIORITY_NORMAL, 1);
    come(1, WR_PRIORITY_NORMAL, 1);
    wr_requests_free(requests);
    cr_expect_eq(all[0].ticket.state, WR_REQUEST_NONE);
    cr_expect_eq(all[0].refused, 0);
    cr_expect_eq(all[1].refused, 1);
    cr_expect_eq(all[1].cause, WR_SHED_CLOSED);
    wr_requests_leave(NULL, &all[0].ticket, 2); /* there is no controller to look at */
}

/* A clock that steps back makes nobody wait for longer than max_wait from then on, and no wait negative. */
Test(requests, a_clock_that_steps_back_does_no_harm)
{
    begin(fixed(1, 1000, 10));
    come(0, WR_PRIORITY_NORMAL, 1000000);
    come(1, WR_PRIORITY_NORMAL, 1000000);
    go(0, 10);
    cr_expect_eq(all[1].granted, 1);
    cr_expect_eq(all[1].ticket.waited, 0);
    end();
}
