/* What is handed out on a connection before its peer has told how many exchanges it takes, and who waits for that. */
#include "scripted.h"

TestSuite(multiplexing_settings, .init = setup, .fini = teardown);

static void with_two_endpoints(void)
{
    options.endpoint_count = 2;
    wr_cluster_free(cluster);
    cluster = wr_cluster_new(host, &options, metrics);
}

static double settle_failures(void)
{
    return (double)wr_metric_get(&metrics->upstream_connect_failed[WR_ERR_CONNECT_TIMEOUT]);
}

Test(multiplexing_settings, one_goes_and_the_others_wait)
{
    ask_many(0, 10);
    until_connected(1);
    cr_assert_eq(attached_count(), 1);
    cr_assert(wishes[0].attached);
    cr_assert_eq(wr_metric_get(&metrics->upstream_pending), 9);
    tell_limit(fakes[0], 10);
    settle();
    cr_assert_eq(attached_count(), 10);
    cr_assert_eq(fake_count, 1);
}

Test(multiplexing_settings, those_who_come_meanwhile_wait_with_them)
{
    ask_many(0, 3);
    until_connected(1);
    ask_many(3, 7);
    until_connected(1);
    cr_assert_eq(attached_count(), 1);
    ask(&wishes[10]); /* more than ours allow on one */
    until_connected(2);
    tell_limit(fakes[0], 10);
    settle();
    cr_assert_eq(fakes[0]->count, 10);
    cr_assert_eq(fakes[1]->count, 1);
}

Test(multiplexing_settings, a_low_limit_is_never_exceeded)
{
    ask_many(0, 7);
    until_connected(1);
    tell_limit(fakes[0], 2);
    first_limit = 2;
    until_made(4);
    cr_assert_eq(attached_count(), 7);
    for (unsigned i = 0; i < 4; i++)
        cr_assert_eq(fakes[i]->count, i < 3 ? 2 : 1);
}

Test(multiplexing_settings, nobody_overtakes_those_who_wait)
{
    ask_many(0, 4);
    until_connected(1);
    tell_limit(fakes[0], 4);
    ask(&wishes[4]);
    cr_assert_not(wishes[4].attached);
    until_made(2);
    for (unsigned i = 0; i < 4; i++)
        cr_assert(wishes[i].attached);
    cr_assert_eq(fakes[0]->count, 4);
    cr_assert_eq(fakes[1]->count, 1);
}

/* However early the first of them speaks, and has a place free again. */
Test(multiplexing_settings, those_who_wait_for_another_endpoint_are_left_to_it)
{
    with_two_endpoints();
    ask_many(0, 8);
    until_connected(2);
    cr_assert_eq(attached_count(), 2);
    tell_limit(fakes[0], 10);
    settle();
    cr_assert_eq(fakes[0]->count, 4);
    fake_end(fakes[0], 0, true);
    settle();
    cr_assert_eq(fakes[0]->count, 3);
    cr_assert_eq(fakes[1]->count, 1);
    tell_limit(fakes[1], 10);
    settle();
    cr_assert_eq(fakes[1]->count, 4);
}

Test(multiplexing_settings, none_at_all_for_a_while)
{
    options.max_connections = 1;
    ask_many(0, 3);
    until_connected(1);
    tell_limit(fakes[0], 0);
    settle();
    cr_assert_eq(attached_count(), 1);
    tell_limit(fakes[0], 3);
    settle();
    cr_assert_eq(attached_count(), 3);
}

/* It may come from the connection that waits to be served with what it has just told. */
Test(multiplexing_settings, a_retry_does_not_wait_for_what_is_there)
{
    ask_many(0, 3);
    until_connected(1);
    tell_limit(fakes[0], 10);
    ask_as(&wishes[3], true);
    fake_end(fakes[0], 0, true);
    until_made(2);
    cr_assert_eq(fakes[0]->count, 2);
    cr_assert_eq(fakes[1]->count, 1);
}

Test(multiplexing_settings, a_retry_waits_for_what_is_there_when_there_may_be_no_other)
{
    options.max_connections = 1;
    ask_many(0, 3);
    until_connected(1);
    ask_as(&wishes[3], true);
    fake_end(fakes[0], 0, true);
    until_made(1);
    cr_assert_eq(fakes[0]->count, 3);
}

/* ---- it ends before that ---- */

Test(multiplexing_settings, one_that_breaks_leaves_them_to_the_next)
{
    ask_many(0, 4);
    until_connected(1);
    fake_end(fakes[0], 0, false);
    cr_assert(is_over(fakes[0]));
    until_connected(2);
    cr_assert_eq(fakes[1]->count, 1);
    tell_limit(fakes[1], 10);
    settle();
    cr_assert_eq(attached_count(), 4);
    cr_assert_eq(fakes[1]->count, 3);
}

Test(multiplexing_settings, one_that_goes_away_at_once_leaves_them_to_the_next)
{
    ask_many(0, 4);
    until_connected(1);
    tell_limit(fakes[0], 10);
    leave(fakes[0]);
    until_made(2);
    cr_assert_eq(fakes[0]->count, 1);
    cr_assert_eq(fakes[1]->count, 3);
}

Test(multiplexing_settings, a_request_that_is_taken_back_makes_room_for_one_of_them)
{
    ask_many(0, 4);
    until_connected(1);
    fake_end(fakes[0], 0, true);
    settle();
    cr_assert(wishes[1].attached);
    cr_assert_eq(fakes[0]->count, 1);
    cr_assert_eq(fake_count, 1);
    fake_end(fakes[0], 0, true);
    fakes[0]->events->broken(fakes[0]->owner, WR_ERR_UPSTREAM_CLOSED);
    until_made(2);
    cr_assert_eq(fakes[1]->count, 2);
}

/* Idle, it has nobody to say anything to, so nothing may wait for what its peer would say. */
Test(multiplexing_settings, an_idle_one_is_waited_for_by_nobody)
{
    with_two_endpoints();
    ask(&wishes[0]);
    wr_upstream_request_cancel(&wishes[0].request);
    until_connected(1);
    ask(&wishes[1]); /* of the other endpoint */
    until_connected(2);
    cr_assert(wishes[1].attached);
    ask(&wishes[2]);
    cr_assert(wishes[2].attached);
    cr_assert(wishes[2].reused);
    cr_assert_eq(fakes[0]->count, 1);
}

/* ---- it does not come ---- */

Test(multiplexing_settings, who_waits_too_long_hears_that_there_is_no_connection)
{
    ask_many(0, 4);
    until_connected(1);
    wr_loop_advance(loop, options.connect_timeout / 2);
    cr_assert_eq(settle_failures(), 0);
    wr_loop_advance(loop, options.connect_timeout);
    for (unsigned i = 1; i < 4; i++)
        cr_assert_eq(wishes[i].failed, WR_ERR_CONNECT_TIMEOUT);
    cr_assert_eq(settle_failures(), 1);
    cr_assert_eq(fakes[0]->count, 1, "the one that has begun goes on");
    ask(&wishes[4]);
    until_made(2);
    cr_assert_eq(fakes[1]->count, 1);
    fake_end(fakes[0], 0, true);
    cr_assert(is_over(fakes[0]));
}

Test(multiplexing_settings, and_may_ask_again_from_within)
{
    ask_many(0, 3);
    wishes[1].then = &wishes[10];
    wishes[2].then = &wishes[11];
    until_connected(1);
    wr_loop_advance(loop, 2 * options.connect_timeout);
    until_made(2);
    cr_assert_eq(fakes[0]->count, 1);
    cr_assert_eq(fakes[1]->count, 2);
}

Test(multiplexing_settings, settled_it_has_no_deadline)
{
    ask_many(0, 3);
    until_made(1);
    wr_loop_advance(loop, 100 * options.connect_timeout);
    cr_assert_eq(settle_failures(), 0);
    ask(&wishes[3]);
    cr_assert_eq(fakes[0]->count, 4);
}
