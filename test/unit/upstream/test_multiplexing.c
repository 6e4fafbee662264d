/* Several exchanges a connection: what the pool does with what the codec says of its capacity. */
#include "scripted.h"

TestSuite(multiplexing, .init = setup, .fini = teardown);

/* ---- sharing ---- */

Test(multiplexing, those_who_wait_share_what_is_being_made)
{
    ask_many(0, 10);
    cr_assert_eq(attached_count(), 0);
    until_made(1);
    cr_assert_eq(attached_count(), 10);
    cr_assert_eq(fakes[0]->count, 10);
    cr_assert_not(wishes[0].reused);
    cr_assert(wishes[1].reused, "has another on it");
    cr_assert_eq(wr_metric_get(&metrics->upstream_active), 1);
    cr_assert_eq(wr_metric_get(&metrics->upstream_requests), 10);
}

Test(multiplexing, a_connection_with_room_takes_one_more_at_once)
{
    ask(&wishes[0]);
    until_made(1);
    ask_many(1, 9);
    cr_assert_eq(attached_count(), 10, "without a turn");
    cr_assert_eq(fakes[0]->count, 10);
}

Test(multiplexing, one_more_than_fits_gets_a_new_connection)
{
    ask_many(0, 10);
    until_made(1);
    ask(&wishes[10]);
    until_made(2);
    cr_assert_eq(attached_count(), 11);
    cr_assert_eq(fakes[1]->count, 1);
    ask(&wishes[11]);
    cr_assert_eq(fakes[1]->count, 2);
}

Test(multiplexing, more_than_one_can_carry_are_spread_while_connecting)
{
    ask_many(0, 25);
    until_made(3);
    cr_assert_eq(attached_count(), 25);
    cr_assert_eq(fakes[0]->count + fakes[1]->count + fakes[2]->count, 25);
}

Test(multiplexing, the_limit_is_the_one_configured_too)
{
    options.codec.h2.max_concurrent_streams = 4; /* of which the real codec takes account */
    first_limit = 4;
    ask_many(0, 8);
    until_made(2);
    cr_assert_eq(attached_count(), 8);
}

Test(multiplexing, a_free_place_goes_to_who_waits)
{
    options.max_connections = 1;
    ask_many(0, 12);
    until_made(1);
    cr_assert_eq(attached_count(), 10);
    fake_end(fakes[0], 3, true);
    settle();
    cr_assert(wishes[10].attached);
    cr_assert_not(wishes[11].attached);
    tell_limit(fakes[0], 20);
    settle();
    cr_assert(wishes[11].attached);
    cr_assert_eq(fakes[0]->count, 11);
}

Test(multiplexing, endpoints_take_turns)
{
    options.endpoint_count = 2;
    wr_cluster_free(cluster);
    cluster = wr_cluster_new(host, &options, metrics);
    ask_many(0, 8);
    until_made(2);
    cr_assert_eq(fakes[0]->count, 4);
    cr_assert_eq(fakes[1]->count, 4);
    ask_many(8, 4);
    cr_assert_eq(fakes[0]->count, 6);
    cr_assert_eq(fakes[1]->count, 6);
}

/* ---- what the peer says of its limit ---- */

Test(multiplexing, a_limit_that_is_told_is_expected_of_the_next_connection)
{
    ask(&wishes[0]);
    until_made(1);
    tell_limit(fakes[0], 2);
    ask_many(1, 5);
    cr_assert_eq(fakes[0]->count, 2);
    until_made(3); /* two each, before they have said a word */
    cr_assert_eq(attached_count(), 6);
    cr_assert_eq(fakes[1]->count, 2);
    cr_assert_eq(fakes[2]->count, 2);
}

/* One connection is told a limit that another one, which has not heard yet and was thought to have room, exceeds already. */
Test(multiplexing, a_limit_told_to_another_connection)
{
    ask_many(0, 10);
    until_made(1);
    ask(&wishes[10]);
    until_connected(2);
    ask_many(11, 3);
    cr_assert_eq(fakes[1]->count, 4);
    for (unsigned i = 8; i > 0; i--)
        fake_end(fakes[0], i - 1, true);
    tell_limit(fakes[0], 3);
    ask_many(14, 3);
    settle();
    cr_assert_eq(fakes[0]->count, 3);
    cr_assert_eq(fakes[1]->count, 4, "it takes no more than the other was told");
}

/* Nine of ten that are out are refused, and tried again. */
Test(multiplexing, a_limit_that_is_exceeded_already)
{
    ask_many(0, 10);
    until_made(1);
    tell_limit(fakes[0], 1);
    for (unsigned i = 0; i < 9; i++) {
        ask_as(&wishes[10 + i], true);
        fake_end(fakes[0], 0, true);
    }
    for (unsigned i = 0; i < 1000 && attached_count() < 17; i++)
        wr_loop_turn(loop, WR_MSEC);
    /* Seven more connections, one exchange each, and none beyond its limit; two wait. */
    cr_assert_eq(fake_count, 8);
    cr_assert_eq(attached_count(), 17);
    for (unsigned i = 0; i < fake_count; i++)
        cr_assert_eq(fakes[i]->count, 1);
    fake_end(fakes[0], 0, true);
    settle();
    cr_assert_eq(attached_count(), 18);
}

Test(multiplexing, no_limit_at_all_for_a_while)
{
    ask(&wishes[0]);
    until_made(1);
    tell_limit(fakes[0], 0);
    options.max_connections = 1;
    ask(&wishes[1]);
    settle();
    cr_assert_not(wishes[1].attached);
    tell_limit(fakes[0], 5);
    settle();
    cr_assert(wishes[1].attached);
}

/* An idle connection makes room for another at the limit, but not for one more to a peer that allows nothing. */
Test(multiplexing, no_limit_at_all_and_idle)
{
    options.max_connections = 1;
    ask(&wishes[0]);
    until_made(1);
    tell_limit(fakes[0], 0);
    fake_end(fakes[0], 0, true);
    ask(&wishes[1]);
    ask_as(&wishes[2], true);
    until_made(1);
    cr_assert_not(fakes[0]->closed);
    tell_limit(fakes[0], 5);
    settle();
    cr_assert_eq(fakes[0]->count, 2);
}

/* ---- retries ---- */

Test(multiplexing, a_retry_gets_a_new_connection_while_there_may_be_one)
{
    ask(&wishes[0]);
    until_made(1);
    ask_as(&wishes[1], true);
    until_made(2);
    cr_assert_eq(fakes[1]->count, 1);
    cr_assert_not(wishes[1].reused);
}

Test(multiplexing, at_the_limit_a_retry_takes_what_there_is)
{
    options.max_connections = 1;
    ask(&wishes[0]);
    until_made(1);
    ask_as(&wishes[1], true);
    cr_assert(wishes[1].attached);
    cr_assert_eq(fakes[0]->count, 2);
}

/* ---- connections that cannot be made ---- */

Test(multiplexing, all_who_wait_for_one_hear_of_it)
{
    close(listening[0]);
    ask_many(0, 6);
    settle();
    for (unsigned i = 0; i < 6; i++)
        cr_assert_eq(wishes[i].failed, WR_ERR_CONNECT_REFUSED);
    cr_assert_eq(wr_metric_get(&metrics->upstream_connect_failed[WR_ERR_CONNECT_REFUSED]), 1);
    listen_on(0);
}

Test(multiplexing, and_may_ask_again_from_within)
{
    options.endpoint_count = 2;
    wr_cluster_free(cluster);
    cluster = wr_cluster_new(host, &options, metrics);
    close(listening[0]);
    for (unsigned i = 0; i < 6; i++)
        wishes[i].then = &wishes[10 + i];
    ask_many(0, 6);
    until_made(1);
    cr_assert_eq(fakes[0]->count, 6);
    cr_assert_eq(attached_count(), 6);
    listen_on(0);
}

Test(multiplexing, those_who_leave_make_room_for_others)
{
    ask_many(0, 10);
    for (unsigned i = 0; i < 5; i++)
        wr_upstream_request_cancel(&wishes[i].request);
    ask_many(10, 5);
    until_made(1);
    cr_assert_eq(attached_count(), 10);
    for (unsigned i = 0; i < 5; i++)
        cr_assert_not(wishes[i].attached);
}

Test(multiplexing, a_connection_nobody_waits_for_any_more_is_idle)
{
    ask_many(0, 3);
    for (unsigned i = 0; i < 3; i++)
        wr_upstream_request_cancel(&wishes[i].request);
    until_made(1);
    cr_assert_eq(wr_metric_get(&metrics->upstream_idle), 1);
    ask(&wishes[3]);
    cr_assert(wishes[3].attached);
    cr_assert(wishes[3].reused, "it has waited in the pool");
}
