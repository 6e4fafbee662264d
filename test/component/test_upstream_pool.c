/* Connections of a cluster: reuse, limits, the queue, age. */
#include "support/pool_asks.h"

/* ---- reuse ---- */

Test(upstream_pool, a_connection_serves_one_request_after_another)
{
    rig = px_new();
    start();
    for (size_t i = 0; i < 5; i++) {
        ask(i);
        expect_asked(px_accepted(upstream, 0), i);
        cr_assert_eq(active(), 1);
        answer(upstream->peers[0], i);
        px_settle(rig);
        cr_assert_eq(active(), 0);
        cr_assert_eq(idle(), 1);
    }
    cr_assert_eq(upstream->count, 1);
    cr_assert_eq(wr_metric_get(&rig->cluster_metrics->upstream_connects), 1);
    cr_assert_eq(wr_metric_get(&rig->cluster_metrics->upstream_requests), 5);
    cr_assert_eq(wr_metric_get(&rig->cluster_metrics->upstream_reused), 4);
    px_end(rig);
}

Test(upstream_pool, the_last_one_used_is_taken_first)
{
    rig = px_new();
    start();
    fill_pool(3);
    ask(3);
    expect_asked(upstream->peers[2], 3);
    answer(upstream->peers[2], 3);
    px_end(rig);
}

Test(upstream_pool, the_one_idle_longest_goes_when_there_are_too_many)
{
    rig = px_new();
    rig->cluster_options.max_idle = 2;
    start();
    fill_pool(4);
    PX_UNTIL(rig, ended_peers() == 2);
    cr_assert(upstream->peers[0]->ended && upstream->peers[1]->ended);
    cr_assert_eq(idle(), 2);
    px_end(rig);
}

Test(upstream_pool, nothing_is_kept_when_nothing_may_be_idle)
{
    rig = px_new();
    rig->cluster_options.max_idle = 0;
    start();
    fill_pool(1);
    PX_UNTIL(rig, ended_peers() == 1);
    px_end(rig);
}

Test(upstream_pool, an_idle_connection_ends_after_its_timeout)
{
    rig = px_new();
    start();
    fill_pool(1);
    px_pass(rig, 29 * WR_SEC);
    cr_assert_eq(idle(), 1);
    px_pass(rig, 2 * WR_SEC);
    PX_UNTIL(rig, ended_peers() == 1);
    px_end(rig);
}

Test(upstream_pool, the_timeout_starts_again_with_each_request)
{
    rig = px_new();
    start();
    fill_pool(1);
    for (size_t i = 0; i < 4; i++) {
        px_pass(rig, 20 * WR_SEC);
        ask(0);
        expect_asked(upstream->peers[0], 0);
        answer(upstream->peers[0], 0);
        px_settle(rig);
    }
    cr_assert_eq(upstream->count, 1);
    px_end(rig);
}

Test(upstream_pool, a_connection_that_is_too_old_is_not_kept)
{
    rig = px_new();
    rig->cluster_options.max_connection_age = 50 * WR_SEC;
    start();
    fill_pool(1);
    px_pass(rig, 20 * WR_SEC);
    ask(0);
    expect_asked(upstream->peers[0], 0);
    px_pass(rig, 24 * WR_SEC);
    answer(upstream->peers[0], 0);
    px_settle(rig);
    cr_assert_eq(idle(), 1);
    px_pass(rig, 7 * WR_SEC);
    PX_UNTIL(rig, ended_peers() == 1);
    px_end(rig);
}

/* Spread over the last tenth of their time. */
Test(upstream_pool, connections_made_together_need_not_all_go_together)
{
    rig = px_new();
    rig->cluster_options.max_connection_age = 20 * WR_SEC;
    start();
    fill_pool(8);
    px_pass(rig, 17 * WR_SEC);
    cr_assert_eq(ended_peers(), 0);
    cr_assert_eq(idle(), 8);
    px_pass(rig, 4 * WR_SEC);
    PX_UNTIL(rig, ended_peers() == 8);
    px_end(rig);
}

Test(upstream_pool, a_connection_that_became_too_old_in_use_ends_after_its_exchange)
{
    rig = px_new();
    rig->cluster_options.max_connection_age = 10 * WR_SEC;
    start();
    ask(0);
    expect_asked(px_accepted(upstream, 0), 0);
    px_pass(rig, 20 * WR_SEC);
    answer(upstream->peers[0], 0);
    PX_UNTIL(rig, ended_peers() == 1);
    px_end(rig);
}

Test(upstream_pool, a_connection_ends_after_as_many_requests_as_it_may_serve)
{
    rig = px_new();
    rig->cluster_options.max_requests_per_connection = 2;
    start();
    fill_pool(1);
    ask(0);
    expect_asked(upstream->peers[0], 0);
    answer(upstream->peers[0], 0);
    PX_UNTIL(rig, ended_peers() == 1);
    px_end(rig);
}

Test(upstream_pool, an_upstream_that_says_close_is_believed)
{
    rig = px_new();
    start();
    ask(0);
    expect_asked(px_accepted(upstream, 0), 0);
    px_say(upstream->peers[0],
           "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok");
    px_hear(clients[0], "\r\n\r\nok");
    cr_assert_not(px_heard(clients[0], "connection: close"));
    PX_UNTIL(rig, ended_peers() == 1);
    cr_assert_eq(idle(), 0);
    px_end(rig);
}

/* ---- bytes nobody asked for (behaviour row 23) ---- */

Test(upstream_pool, bytes_on_an_idle_connection_close_it)
{
    rig = px_new();
    start();
    fill_pool(1);
    px_say(upstream->peers[0], "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison");
    PX_UNTIL(rig, idle() == 0);
    cr_assert_eq(wr_metric_get(&rig->cluster_metrics->upstream_stray_bytes), 1);
    px_exchange(clients[0], upstream, 1);
    cr_assert_not(px_heard(clients[0], "poison"));
    px_end(rig);
}

Test(upstream_pool, bytes_that_came_just_before_the_request_are_not_its_answer)
{
    rig = px_new();
    start();
    fill_pool(1);
    px_say(upstream->peers[0], "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison");
    ask(0); /* no turn in between */
    expect_asked(px_accepted(upstream, 1), 0);
    answer(upstream->peers[1], 0);
    cr_assert_not(px_heard(clients[0], "poison"));
    px_end(rig);
}

Test(upstream_pool, bytes_behind_a_response_are_not_the_next_answer)
{
    rig = px_new();
    start();
    ask(0);
    expect_asked(px_accepted(upstream, 0), 0);
    px_say(upstream->peers[0], PX_OK "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison");
    px_hear(clients[0], "\r\n\r\nok");
    px_settle(rig);
    cr_assert_eq(idle(), 0);
    px_exchange(clients[0], upstream, 1);
    px_end(rig);
}

/* ---- limits and the queue ---- */

Test(upstream_pool, requests_wait_in_order_for_a_connection)
{
    rig = px_new();
    rig->cluster_options.max_connections = 1;
    start();
    for (size_t i = 0; i < 4; i++) {
        ask(i);
        px_settle(rig);
    }
    cr_assert_eq(pending(), 3);
    for (size_t i = 0; i < 4; i++) {
        expect_asked(px_accepted(upstream, 0), i);
        answer(upstream->peers[0], i);
    }
    px_settle(rig);
    cr_assert_eq(upstream->count, 1);
    cr_assert_eq(pending(), 0);
    px_end(rig);
}

Test(upstream_pool, a_queue_that_is_full_refuses)
{
    rig = px_new();
    rig->cluster_options.max_connections = 1;
    rig->cluster_options.max_pending = 2;
    start();
    for (size_t i = 0; i < 4; i++) {
        ask(i);
        px_settle(rig);
    }
    px_hear(clients[3], "503 Service Unavailable");
    cr_assert(px_heard(clients[3], "proxy-status: weir; error=connection_limit_reached;"));
    cr_assert(px_heard(clients[3], "retry-after: 1\r\n"));
    for (size_t i = 0; i < 3; i++) {
        expect_asked(px_accepted(upstream, 0), i);
        answer(upstream->peers[0], i);
    }
    px_end(rig);
}

Test(upstream_pool, one_that_leaves_the_queue_is_passed_over)
{
    rig = px_new();
    rig->cluster_options.max_connections = 1;
    start();
    for (size_t i = 0; i < 3; i++) {
        ask(i);
        px_settle(rig);
    }
    px_reset(clients[1]);
    px_settle(rig);
    cr_assert_eq(pending(), 1);
    expect_asked(px_accepted(upstream, 0), 0);
    answer(upstream->peers[0], 0);
    expect_asked(upstream->peers[0], 2);
    answer(upstream->peers[0], 2);
    px_end(rig);
}

Test(upstream_pool, a_queued_request_gets_a_new_connection_when_the_old_one_breaks)
{
    rig = px_new();
    rig->cluster_options.max_connections = 1;
    start();
    ask(0);
    expect_asked(px_accepted(upstream, 0), 0);
    ask(1);
    px_settle(rig);
    cr_assert_eq(pending(), 1);
    px_close(upstream->peers[0]);
    px_hear(clients[0], "502 Bad Gateway");
    expect_asked(px_accepted(upstream, 1), 1);
    answer(upstream->peers[1], 1);
    px_end(rig);
}

Test(upstream_pool, a_request_that_waits_too_long_is_told_why)
{
    rig = px_new();
    rig->cluster_options.max_connections = 1;
    rig->cluster_options.response_timeout = 200 * WR_SEC;
    start();
    ask(0);
    expect_asked(px_accepted(upstream, 0), 0);
    ask(1);
    px_settle(rig);
    px_pass(rig, 61 * WR_SEC);
    px_hear(clients[1], "503 Service Unavailable");
    cr_assert(px_heard(clients[1], "error=connection_limit_reached"));
    cr_assert_eq(pending(), 0);
    answer(upstream->peers[0], 0);
    px_end(rig);
}

/* Connections that are accepted but not established yet: TLS that waits for the upstream. */
static void start_slow_tls(void)
{
    rig = px_new();
    upstream = px_upstream(rig);
    px_use_tls(rig, false);
    px_start(rig);
}

Test(upstream_pool, a_connection_that_gets_free_serves_before_the_one_being_made)
{
    start_slow_tls();
    fill_pool(1);
    ask(1);
    expect_asked(upstream->peers[0], 1);
    upstream->tls = false; /* from now on nobody answers the handshake */
    ask(2);
    px_accepted(upstream, 1);
    px_settle(rig);
    cr_assert_eq(pending(), 1);
    answer(upstream->peers[0], 1);
    expect_asked(upstream->peers[0], 2);
    answer(upstream->peers[0], 2);
    cr_assert_eq(pending(), 0);
    /* Nobody is hurt when the one being made comes to nothing. */
    px_close(upstream->peers[1]);
    px_settle(rig);
    cr_assert_eq(wr_metric_get(&rig->cluster_metrics->upstream_retries), 0);
    px_end(rig);
}

Test(upstream_pool, a_connection_nobody_waits_for_any_more_goes_to_the_pool)
{
    start_slow_tls();
    ask(0);
    PX_UNTIL(rig, pending() == 1);
    px_reset(clients[0]);
    PX_UNTIL(rig, idle() == 1);
    cr_assert_eq(upstream->count, 1);
    ask(1);
    expect_asked(upstream->peers[0], 1);
    answer(upstream->peers[0], 1);
    cr_assert_eq(upstream->count, 1);
    px_end(rig);
}

Test(upstream_pool, a_connection_being_made_for_nobody_serves_who_comes_next)
{
    start_slow_tls();
    ask(0);
    PX_UNTIL(rig, pending() == 1);
    cr_assert_eq(idle() + active(), 0);
    px_reset(clients[0]);
    PX_UNTIL(rig, pending() == 0);
    ask(1);
    expect_asked(px_accepted(upstream, 0), 1);
    answer(upstream->peers[0], 1);
    px_settle(rig);
    cr_assert_eq(upstream->count, 1);
    px_end(rig);
}

/* ---- drain ---- */

Test(upstream_pool, draining_closes_what_is_idle_and_still_serves)
{
    rig = px_new();
    start();
    fill_pool(2);
    ask(0);
    PX_UNTIL(rig, active() == 1);
    wr_cluster_drain(rig->cluster);
    PX_UNTIL(rig, ended_peers() == 1);
    cr_assert_eq(idle(), 0);
    struct px_peer *busy = upstream->peers[upstream->peers[0]->ended ? 1 : 0];
    px_say(busy, PX_OK);
    px_hear(clients[0], "200 OK");
    PX_UNTIL(rig, ended_peers() == 2);
    ask(1);
    expect_asked(px_accepted(upstream, 2), 1);
    px_say(upstream->peers[2], PX_OK);
    px_hear(clients[1], "200 OK");
    PX_UNTIL(rig, ended_peers() == 3);
    px_end(rig);
}
