/* A peer that allows no exchange for now (MAX_CONCURRENT_STREAMS 0): who asks for it waits, and no other connection is made to it. What
 * retries may be is a share of first tries; they are served first. */
#include "scripted.h"

TestSuite(multiplexing_none, .init = setup, .fini = teardown);

static void with_two_endpoints(void)
{
    wr_cluster_free(cluster);
    wr_loop_turn(loop, 0);
    options.endpoint_count = 2;
    cluster = wr_cluster_new(host, &options, metrics);
}

/* One connection, idle or with wishes[0] on it, whose peer has just said so. */
static void barred(bool idle)
{
    ask(&wishes[0]);
    until_made(1);
    if (idle)
        fake_end(fakes[0], 0, true);
    tell_limit(fakes[0], 0);
    settle();
}

static void expect_waiting(unsigned count)
{
    settle();
    cr_expect_eq(fake_count, 1, "%u connections", fake_count);
    cr_expect_eq(wr_metric_get(&metrics->upstream_pending), count);
}

Test(multiplexing_none, who_asks_waits)
{
    barred(true);
    ask_many(1, 3);
    ask_as(&wishes[4], true); /* a retry */
    expect_waiting(4);
    tell_limit(fakes[0], 3);
    settle();
    cr_expect_eq(fakes[0]->count, 3);
    until_made(2); /* a retry gets a new one */
    cr_expect(wishes[4].attached);
}

Test(multiplexing_none, as_long_as_one_says_so)
{
    barred(false);
    ask_many(1, 3);
    expect_waiting(3);
    tell_limit(fakes[0], 0);
    expect_waiting(3);
    fake_end(fakes[0], 0, true);
    expect_waiting(3);
    fakes[0]->events->broken(fakes[0]->owner, WR_ERR_UPSTREAM_CLOSED);
    until_made(2);
    cr_expect_eq(fakes[1]->count, 3);
}

Test(multiplexing_none, until_it_goes_with_its_last)
{
    barred(false);
    ask(&wishes[1]);
    expect_waiting(1);
    leave(fakes[0]);
    until_made(2);
    cr_expect(wishes[1].attached);
    cr_expect_eq(fakes[0]->count, 1);
}

Test(multiplexing_none, another_endpoint_is_asked)
{
    with_two_endpoints();
    barred(true);
    ask_many(1, 6);
    until_made(2);
    cr_expect_eq(fakes[1]->count, 6);
    cr_expect_eq(fakes[0]->count, 0);
}

Test(multiplexing_none, no_more_wait_than_may)
{
    options.max_pending = 2;
    barred(true);
    ask_many(1, 3);
    expect_waiting(2);
    cr_expect_eq(wishes[3].failed, WR_ERR_POOL_FULL);
}

/* ---- the budget of retries ---- */

Test(multiplexing_none, retries_are_a_share_of_first_tries)
{
    unsigned allowed = 0;

    options.retry_budget_percent = 50;
    options.max_pending = MOST;
    for (unsigned i = 0; i < 60; i++) {
        wr_upstream_request_init(&wishes[i].request, &wish_events, &wishes[i].exchange);
        wishes[i].request.again = i >= 20;
        wr_cluster_request(cluster, &wishes[i].request);
    }
    for (unsigned i = 0; i < 60; i++)
        allowed += wr_cluster_allow_retry(cluster, false);
    cr_expect_eq(allowed, 10, "%u", allowed);
}

/* What a peer has not looked at has waited before. */
Test(multiplexing_none, retries_are_served_first)
{
    first_limit = 2;
    options.max_connections = 1;
    ask(&wishes[0]);
    until_made(1);
    tell_limit(fakes[0], 1);
    ask_many(1, 2);
    for (unsigned i = 3; i < 5; i++) {
        wr_upstream_request_init(&wishes[i].request, &wish_events, &wishes[i].exchange);
        wishes[i].request.again = true;
        wr_cluster_request(cluster, &wishes[i].request);
    }
    static const unsigned order[] = {3, 4, 1, 2};
    for (unsigned i = 0; i < 4; i++) {
        fake_end(fakes[0], 0, true);
        settle();
        cr_expect(wishes[order[i]].attached, "%u", order[i]);
        cr_expect_eq(attached_count(), 2 + i);
    }
}
