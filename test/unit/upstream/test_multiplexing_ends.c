/* How connections that carry several exchanges end. */
#include "scripted.h"

TestSuite(multiplexing_ends, .init = setup, .fini = teardown);

/* GOAWAY: no capacity any more, and each exchange ends without leaving a reusable connection. */
Test(multiplexing_ends, a_connection_that_goes_away_finishes_what_it_has)
{
    ask_many(0, 3);
    until_made(1);
    leave(fakes[0]);
    fake_end(fakes[0], 0, false);
    cr_assert_not(fakes[0]->closed);
    ask(&wishes[3]);
    until_made(2);
    cr_assert_eq(fakes[1]->count, 1);
    fake_end(fakes[0], 0, false);
    cr_assert_not(is_over(fakes[0]));
    fake_end(fakes[0], 0, false);
    cr_assert_not(fakes[0]->closed, "the codec is in its call, and has more to say");
    cr_assert(is_over(fakes[0]));
    settle();
    cr_assert_eq(wr_metric_get(&metrics->upstream_active), 1);
}

Test(multiplexing_ends, what_goes_away_says_nothing_of_the_next)
{
    ask_many(0, 5);
    until_made(1);
    tell_limit(fakes[0], 10);
    leave(fakes[0]);
    for (unsigned i = 0; i < 5; i++) {
        ask_as(&wishes[5 + i], true);
        fake_end(fakes[0], 0, false);
    }
    until_made(2);
    cr_assert_eq(fakes[1]->count, 5, "one connection for all");
}

Test(multiplexing_ends, one_without_exchanges_is_idle_and_ends_in_time)
{
    ask_many(0, 2);
    until_made(1);
    fake_end(fakes[0], 0, true);
    cr_assert_eq(wr_metric_get(&metrics->upstream_active), 1);
    fake_end(fakes[0], 0, true);
    cr_assert_eq(wr_metric_get(&metrics->upstream_active), 0);
    cr_assert_eq(wr_metric_get(&metrics->upstream_idle), 1);
    ask(&wishes[2]);
    cr_assert(wishes[2].reused);
    fake_end(fakes[0], 0, true);
    wr_loop_advance(loop, 29 * WR_SEC);
    cr_assert_not(fakes[0]->closed);
    wr_loop_advance(loop, 2 * WR_SEC);
    cr_assert(is_over(fakes[0]));
}

Test(multiplexing_ends, one_too_old_takes_no_more_and_goes_with_its_last)
{
    options.max_connection_age = 10 * WR_SEC;
    ask_many(0, 2);
    until_made(1);
    wr_loop_advance(loop, 11 * WR_SEC);
    ask(&wishes[2]);
    until_made(2);
    cr_assert_eq(fakes[0]->count, 2);
    fake_end(fakes[0], 0, true);
    cr_assert_not(fakes[0]->closed);
    fake_end(fakes[0], 0, true);
    cr_assert(is_over(fakes[0]));
}

Test(multiplexing_ends, one_that_has_served_enough)
{
    options.max_requests_per_connection = 3;
    ask_many(0, 5);
    until_made(2);
    cr_assert_eq(fakes[0]->count, 3);
    cr_assert_eq(fakes[1]->count, 2);
    for (unsigned i = 0; i < 3; i++)
        fake_end(fakes[0], 0, true);
    cr_assert(is_over(fakes[0]));
}

Test(multiplexing_ends, a_drained_cluster_keeps_nothing)
{
    ask_many(0, 2);
    until_made(1);
    wr_cluster_drain(cluster);
    ask(&wishes[2]);
    until_made(2);
    fake_end(fakes[1], 0, true);
    cr_assert(is_over(fakes[1]));
    fake_end(fakes[0], 0, true);
    fake_end(fakes[0], 0, true);
    cr_assert(is_over(fakes[0]));
}

Test(multiplexing_ends, an_exchange_may_fail_while_it_is_opened)
{
    ask(&wishes[0]);
    until_made(1);
    fakes[0]->refuses = true;
    ask_many(1, 3);
    cr_assert_eq(fakes[0]->count, 1);
    fakes[0]->refuses = false;
    ask_many(4, 9);
    cr_assert_eq(fakes[0]->count, 10);
}

Test(multiplexing_ends, a_connection_that_breaks_when_idle)
{
    ask(&wishes[0]);
    until_made(1);
    fake_end(fakes[0], 0, true);
    fakes[0]->events->broken(fakes[0]->owner, WR_ERR_UPSTREAM_CLOSED);
    cr_assert(is_over(fakes[0]));
    ask(&wishes[1]);
    until_made(2);
    cr_assert_not(wishes[1].reused);
}
