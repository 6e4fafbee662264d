/* Every phase and its timeout. */
#include "exchange_sides.h"

TestSuite(exchange_deadline, .init = set_up, .fini = tear_down);

/* Nothing for almost ABOUT, then WHY. */
static void expect_expiry(uint64_t about, enum wr_err why)
{
    handler_heard = WR_OK;
    wr_loop_advance(loop, about - WR_MSEC);
    cr_assert_eq(handler_heard, WR_OK, "too early: %s", wr_err_text(handler_heard));
    wr_loop_advance(loop, 5 * WR_MSEC);
    cr_assert_eq(handler_heard, why, "%s", wr_err_text(handler_heard));
}

Test(exchange_deadline, request_content_that_stalls)
{
    send_request(0);
    cr_assert_eq(wr_exchange_phase(exchange), WR_PHASE_REQUEST);
    wr_loop_advance(loop, INACTIVITY - WR_MSEC);
    wr_message_put(&exchange->request, "x", 1);
    expect_expiry(INACTIVITY, WR_ERR_REQUEST_CONTENT_TIMEOUT);
    cr_assert_eq(exchange->ended, WR_ERR_REQUEST_CONTENT_TIMEOUT);
}

Test(exchange_deadline, request_content_the_upstream_does_not_take_is_not_the_clients_doing)
{
    static const char bytes[LIMIT];
    upstream_takes = false;
    send_request(0);
    wr_message_put(&exchange->request, bytes, LIMIT);
    cr_assert_eq(wr_exchange_phase(exchange), WR_PHASE_REQUEST);
    expect_expiry(INACTIVITY, WR_ERR_RESPONSE_TIMEOUT);
}

/* Whatever the inactivity timeout: content that trickles is 408 once it is five seconds behind its rate. */
Test(exchange_deadline, request_content_that_trickles)
{
    static const char bytes[LIMIT];
    host.request_rate = 10;
    send_request(0);
    wr_message_put(&exchange->request, "x", 1);
    for (int i = 0; i < 20; i++) {
        wr_loop_advance(loop, INACTIVITY / 2);
        wr_message_put(&exchange->request, bytes, (size_t)(10 * INACTIVITY / 2 / WR_SEC) + 1);
    }
    cr_assert_eq(expired_count, 0, "as fast as it owes");
    for (int i = 0; i < 100 && expired_count == 0; i++) {
        wr_loop_advance(loop, INACTIVITY / 4);
        wr_message_put(&exchange->request, "x", 1);
    }
    cr_assert_eq(handler_heard, WR_ERR_REQUEST_CONTENT_TIMEOUT, "%s", wr_err_text(handler_heard));
}

Test(exchange_deadline, a_client_that_is_held_up_owes_nothing)
{
    static const char bytes[LIMIT];
    host.request_rate = 1000;
    upstream_takes = false;
    send_request(0);
    wr_message_put(&exchange->request, bytes, LIMIT);
    wr_loop_advance(loop, INACTIVITY - WR_MSEC);
    cr_assert_eq(expired_count, 0);
}

static void take_some(size_t n)
{
    wr_message_taken(&exchange->request, wr_message_take(&exchange->request, &upstream_got, n));
}

/* A codec that has stopped to read goes on when half of the room is free: until then its client cannot send. */
Test(exchange_deadline, a_little_room_does_not_make_a_client_owe_anything)
{
    static const char bytes[LIMIT];
    host.request_rate = 1000;
    upstream_takes = false;
    send_request(0);
    wr_message_put(&exchange->request, bytes, LIMIT);
    take_some(LIMIT / 2 - 1);
    expect_expiry(INACTIVITY, WR_ERR_RESPONSE_TIMEOUT);
    take_some(1);
    expect_expiry(5 * WR_SEC, WR_ERR_REQUEST_CONTENT_TIMEOUT);
}

Test(exchange_deadline, a_whole_request_no_upstream_takes)
{
    wr_message_head(&exchange->request, &request_head, WR_HEAD_LAST);
    expect_expiry(INACTIVITY, WR_ERR_RESPONSE_TIMEOUT);
}

Test(exchange_deadline, no_response_head)
{
    send_request(WR_HEAD_LAST);
    cr_assert_eq(wr_exchange_phase(exchange), WR_PHASE_WAITING);
    expect_expiry(RESPONSE, WR_ERR_RESPONSE_TIMEOUT);
    wr_loop_advance(loop, 100 * RESPONSE);
    cr_assert_eq(expired_count, 1, "once");
}

Test(exchange_deadline, waiting_begins_when_the_request_was_taken_whole)
{
    send_request(0);
    wr_loop_advance(loop, INACTIVITY / 2);
    wr_message_put(&exchange->request, "x", 1);
    wr_message_end(&exchange->request, NULL);
    cr_assert_eq(exchange->waiting_since, wr_loop_now(loop));
    expect_expiry(RESPONSE, WR_ERR_RESPONSE_TIMEOUT);
}

Test(exchange_deadline, inactivity_does_not_count_while_waiting)
{
    exchange->response_timeout = 5 * INACTIVITY; /* before any phase: no rearm needed */
    send_request(WR_HEAD_LAST);
    expect_expiry(5 * INACTIVITY, WR_ERR_RESPONSE_TIMEOUT);
}

Test(exchange_deadline, response_timeout_may_be_infinite)
{
    exchange->response_timeout = WR_NEVER;
    send_request(WR_HEAD_LAST);
    wr_loop_advance(loop, 1000 * INACTIVITY);
    cr_assert_eq(expired_count, 0);
}

Test(exchange_deadline, a_response_timeout_changed_while_waiting_needs_a_rearm)
{
    send_request(WR_HEAD_LAST);
    exchange->response_timeout = WR_SEC;
    wr_exchange_rearm(exchange);
    expect_expiry(WR_SEC, WR_ERR_RESPONSE_TIMEOUT);
}

Test(exchange_deadline, a_retry_waits_anew)
{
    send_request(WR_HEAD_LAST);
    wr_loop_advance(loop, RESPONSE - 10 * WR_MSEC);
    wr_message_drop_source(&exchange->response, WR_ERR_UPSTREAM_CLOSED);
    response_stopped = WR_OK;
    wr_message_rewind(&exchange->request);
    cr_assert_eq(wr_exchange_phase(exchange), WR_PHASE_REQUEST);
    wr_loop_advance(loop, RESPONSE);
    cr_assert_eq(expired_count, 0);
    reach_upstream();
    expect_expiry(RESPONSE, WR_ERR_RESPONSE_TIMEOUT);
}

Test(exchange_deadline, response_content_that_stalls)
{
    send_request(WR_HEAD_LAST);
    answer(0);
    cr_assert_eq(wr_exchange_phase(exchange), WR_PHASE_RESPONSE);
    wr_loop_advance(loop, INACTIVITY - WR_MSEC);
    wr_message_put(&exchange->response, "x", 1);
    expect_expiry(INACTIVITY, WR_ERR_RESPONSE_CONTENT_TIMEOUT);
    expect_expiry(INACTIVITY - 4 * WR_MSEC, WR_ERR_RESPONSE_CONTENT_TIMEOUT); /* again */
    cr_assert_eq(expired_count, 2);
}

Test(exchange_deadline, a_client_that_does_not_read)
{
    client_takes = false;
    send_request(WR_HEAD_LAST);
    answer(0);
    wr_message_put(&exchange->response, "x", 1);
    wr_message_end(&exchange->response, NULL);
    expect_expiry(INACTIVITY, WR_ERR_CLIENT_READ_TIMEOUT);
}

Test(exchange_deadline, content_taken_and_not_passed_on_is_the_clients_doing)
{
    client_takes = false;
    send_request(WR_HEAD_LAST);
    answer(0);
    wr_message_put(&exchange->response, "x", 1);
    cr_assert_eq(wr_message_take(&exchange->response, &client_got, 1), 1);
    expect_expiry(INACTIVITY, WR_ERR_CLIENT_READ_TIMEOUT);
}

Test(exchange_deadline, progress_in_either_direction_counts_in_an_early_response)
{
    send_request(0);
    answer(0);
    for (int i = 0; i < 5; i++) {
        wr_loop_advance(loop, INACTIVITY - WR_MSEC);
        wr_message_put(i % 2 == 0 ? &exchange->request : &exchange->response, "x", 1);
    }
    cr_assert_eq(expired_count, 0);
    expect_expiry(INACTIVITY, WR_ERR_RESPONSE_CONTENT_TIMEOUT);
}

Test(exchange_deadline, the_whole_takes_too_long_despite_progress)
{
    host.request_timeout = 3 * INACTIVITY;
    wr_exchange_rearm(exchange);
    send_request(0);
    for (int i = 0; i < 29; i++) {
        wr_loop_advance(loop, INACTIVITY / 10);
        wr_message_put(&exchange->request, "x", 1);
    }
    cr_assert_eq(expired_count, 0);
    expect_expiry(INACTIVITY / 10, WR_ERR_REQUEST_TIMEOUT);
    answer(0); /* told once; what answers it has inactivity alone */
    expect_expiry(INACTIVITY, WR_ERR_RESPONSE_CONTENT_TIMEOUT);
}

Test(exchange_deadline, the_whole_counts_in_every_phase)
{
    host.request_timeout = RESPONSE / 2;
    send_request(WR_HEAD_LAST); /* a change of phase: rearms */
    expect_expiry(RESPONSE / 2, WR_ERR_REQUEST_TIMEOUT);
    finish(WR_OK);
    open_exchange();
    send_request(WR_HEAD_LAST);
    answer(0);
    expect_expiry(RESPONSE / 2, WR_ERR_REQUEST_TIMEOUT);
}

Test(exchange_deadline, when_the_response_is_over_the_owner_is_told)
{
    exchange->owner_ops = &owner_ops;
    send_request(WR_HEAD_LAST);
    answer(WR_HEAD_LAST); /* but the client does not read */
    wr_loop_advance(loop, INACTIVITY - WR_MSEC);
    wr_exchange_progress(exchange); /* some of it left */
    wr_loop_advance(loop, INACTIVITY - WR_MSEC);
    cr_assert_eq(owner_heard, WR_OK);
    wr_loop_advance(loop, 5 * WR_MSEC);
    cr_assert_eq(owner_heard, WR_ERR_CLIENT_READ_TIMEOUT);
    cr_assert_eq(expired_count, 0);
}

Test(exchange_deadline, the_rest_of_a_request_answered_early)
{
    exchange->owner_ops = &owner_ops;
    send_request(0);
    answer(WR_HEAD_LAST);
    wr_loop_advance(loop, INACTIVITY + 5 * WR_MSEC);
    cr_assert_eq(owner_heard, WR_ERR_REQUEST_CONTENT_TIMEOUT);
}

Test(exchange_deadline, without_a_handler_both_messages_are_cancelled)
{
    wr_exchange_set_handler(exchange, NULL, NULL);
    send_request(WR_HEAD_LAST);
    wr_loop_advance(loop, RESPONSE + 5 * WR_MSEC);
    cr_assert_eq(response_stopped, WR_ERR_RESPONSE_TIMEOUT);
    cr_assert_eq(response_aborted, WR_ERR_RESPONSE_TIMEOUT);
    finish(WR_ERR_CLIENT_CLOSED);
    cr_assert_eq(wr_metric_get(&host.metrics->requests_failed[WR_ERR_RESPONSE_TIMEOUT]), 1);
    cr_assert_eq(wr_metric_get(&host.metrics->requests_failed[WR_ERR_CLIENT_CLOSED]), 0);
}

/* ---- tunnels ---- */

static void ask_for_tunnel(void)
{
    host.tunnel_timeout = 100 * INACTIVITY;
    request_head.tunnel = WR_TUNNEL_UPGRADE;
    response_head.tunnel = WR_TUNNEL_UPGRADE;
    send_request(0);
}

Test(exchange_deadline, a_tunnel_that_is_asked_for_waits_for_the_response)
{
    ask_for_tunnel();
    cr_assert(wr_exchange_awaits_tunnel(exchange));
    cr_assert_eq(wr_exchange_phase(exchange), WR_PHASE_WAITING);
    expect_expiry(RESPONSE, WR_ERR_RESPONSE_TIMEOUT);
}

Test(exchange_deadline, a_tunnel_no_upstream_takes_is_not_the_clients_doing)
{
    request_head.tunnel = WR_TUNNEL_UPGRADE;
    wr_message_head(&exchange->request, &request_head, 0);
    expect_expiry(INACTIVITY, WR_ERR_RESPONSE_TIMEOUT);
}

Test(exchange_deadline, a_tunnel_has_its_own_timeout)
{
    ask_for_tunnel();
    answer(0);
    cr_assert_not(wr_exchange_awaits_tunnel(exchange));
    cr_assert_eq(wr_exchange_phase(exchange), WR_PHASE_TUNNEL);
    wr_loop_advance(loop, 100 * INACTIVITY - WR_SEC);
    wr_message_put(&exchange->request, "x", 1);
    wr_loop_advance(loop, 100 * INACTIVITY - WR_SEC);
    wr_message_put(&exchange->response, "x", 1);
    expect_expiry(100 * INACTIVITY, WR_ERR_TUNNEL_TIMEOUT);
}

Test(exchange_deadline, a_tunnel_that_is_declined_is_a_response)
{
    ask_for_tunnel();
    response_head.tunnel = WR_TUNNEL_NONE;
    answer(0);
    cr_assert_eq(wr_exchange_phase(exchange), WR_PHASE_RESPONSE);
}

Test(exchange_deadline, the_time_of_a_request_does_not_run_in_a_tunnel)
{
    host.request_timeout = 2 * INACTIVITY;
    ask_for_tunnel();
    answer(0);
    wr_loop_advance(loop, 50 * INACTIVITY);
    cr_assert_eq(expired_count, 0);
}
