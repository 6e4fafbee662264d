/* HTTP/2 towards clients: ends of the connection, drain, deadlines. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "support/h2_rig.h"

#define GET ":method: GET\n:scheme: http\n:path: /\n:authority: a.test\n"
#define POST ":method: POST\n:scheme: http\n:path: /\n:authority: a.test\n"

static struct h2_rig *started(void)
{
    struct h2_rig *rig = h2_rig_new(false);
    rig->on_exchange = h2_rig_wait;
    h2_rig_start(rig);
    h2_rig_forget(rig);
    return rig;
}

static void feed(struct h2_call *call, size_t n)
{
    char *content = wr_new_bytes(n);
    memset(content, 'x', n);
    wr_message_put(&call->exchange->response, content, n);
    free(content);
}

/* ---- ends of the connection ---- */

Test(h2_server_ends, a_client_that_half_closes_is_still_answered)
{
    struct h2_rig *rig = started();
    h2_rig_get(rig, 1, "");
    h2_put_headers(&rig->out, 3, 0, POST);
    h2_rig_send(rig);
    h2_rig_peer_ends(rig);
    cr_expect_eq(rig->calls[1].ended, WR_ERR_CLIENT_CLOSED);
    h2_rig_answer(&rig->calls[0], 200, "late");
    h2_rig_settle(rig);
    cr_expect(h2_rig_heard(rig, "DATA/1+ES[late] "), "%s", rig->frames.p);
    cr_expect(h2_rig_told(rig, "done:ok "), "%s", rig->events.p);
    cr_expect(rig->heard_end);
    h2_rig_free(rig);
}

Test(h2_server_ends, a_client_that_is_gone)
{
    struct h2_rig *rig = started();
    h2_put_headers(&rig->out, 1, 0, POST);
    h2_rig_send(rig);
    h2_rig_answer_head(&rig->calls[0], 200, WR_LENGTH_UNKNOWN, "", 0);
    h2_rig_peer_closes(rig);
    cr_expect_eq(rig->finished, 1);
    cr_expect_neq(rig->calls[0].ended, WR_OK);
    h2_rig_free(rig);
}

Test(h2_server_ends, a_client_says_goodbye)
{
    struct h2_rig *rig = started();
    h2_rig_get(rig, 1, "");
    h2_put_goaway(&rig->out, 0, 0);
    h2_rig_send(rig);
    cr_expect_not(h2_rig_told(rig, "done:"));
    h2_rig_answer(&rig->calls[0], 200, "bye");
    h2_rig_settle(rig);
    cr_expect(h2_rig_heard(rig, "DATA/1+ES[bye] "));
    cr_expect(h2_rig_told(rig, "done:ok "), "%s", rig->events.p);
    h2_rig_free(rig);
}

Test(h2_server_ends, closing_in_the_middle_says_goaway)
{
    struct h2_rig *rig = started();
    h2_rig_get(rig, 1, "");
    rig->server->ops->close(rig->server, WR_ERR_DRAINING);
    rig->server->ops->close(rig->server, WR_ERR_DRAINING);
    rig->server = NULL;
    cr_expect_eq(rig->calls[0].ended, WR_ERR_DRAINING);
    wr_transport_flush(rig->transport);
    wr_transport_close(rig->transport);
    rig->transport = NULL;
    h2_rig_settle(rig);
    cr_expect(h2_rig_heard(rig, "GOAWAY[1,0] "), "%s", rig->frames.p);
    h2_rig_free(rig);
}

/* ---- drain ---- */

Test(h2_server_ends, drain_takes_a_round_trip_and_lets_streams_finish)
{
    struct h2_rig *rig = started();
    h2_rig_get(rig, 1, "");
    rig->server->ops->drain(rig->server);
    rig->server->ops->drain(rig->server);
    h2_rig_settle(rig);
    cr_expect_str_eq(rig->frames.p, "GOAWAY[2147483647,0] PING[weirlast] ");
    h2_rig_get(rig, 3, ""); /* was on its way */
    h2_put_ping(&rig->out, H2_ACK, "weirlast");
    h2_rig_send(rig);
    cr_expect(h2_rig_heard(rig, "GOAWAY[3,0] "), "%s", rig->frames.p);
    h2_rig_get(rig, 5, "");
    cr_expect_eq(rig->count, 2, "too late");
    h2_rig_answer(&rig->calls[0], 200, "one");
    h2_rig_answer(&rig->calls[1], 200, "two");
    h2_rig_settle(rig);
    cr_expect(h2_rig_heard(rig, "DATA/3+ES[two] "), "%s", rig->frames.p);
    cr_expect(h2_rig_told(rig, "done:ok "), "%s", rig->events.p);
    cr_expect(rig->heard_end);
    h2_rig_free(rig);
}

Test(h2_server_ends, drain_does_not_wait_for_a_client_that_does_not_answer)
{
    struct h2_rig *rig = started();
    rig->server->ops->drain(rig->server);
    h2_rig_settle(rig);
    wr_loop_advance(rig->loop, 2 * WR_SEC);
    h2_rig_settle(rig);
    cr_expect(h2_rig_heard(rig, "GOAWAY[0,0] "), "%s", rig->frames.p);
    cr_expect(h2_rig_told(rig, "done:ok "));
    h2_rig_free(rig);
}

Test(h2_server_ends, the_last_of_max_requests_drains)
{
    struct h2_rig *rig = h2_rig_new(false);
    rig->server_options.max_requests = 2;
    h2_rig_start(rig);
    h2_rig_get(rig, 1, "");
    cr_expect_not(h2_rig_heard(rig, "GOAWAY"));
    h2_rig_get(rig, 3, "");
    cr_expect(h2_rig_heard(rig, "GOAWAY[2147483647,0] "), "%s", rig->frames.p);
    h2_put_ping(&rig->out, H2_ACK, "weirlast");
    h2_rig_send(rig);
    cr_expect(h2_rig_told(rig, "done:ok "));
    cr_expect_eq(rig->finished, 2);
    h2_rig_free(rig);
}

Test(h2_server_ends, the_last_stream_ids_drain)
{
    static const uint32_t ids[] = {0x7ffff001, 0x7ffffffd, 0x7fffffff};
    struct h2_rig *rig = started();
    h2_rig_get(rig, ids[0], "");
    cr_expect_not(h2_rig_heard(rig, "GOAWAY"));
    h2_rig_get(rig, ids[1], "");
    cr_expect(h2_rig_heard(rig, "GOAWAY[2147483647,0] "), "%s", rig->frames.p);
    h2_put_headers(&rig->out, ids[2], 0, POST);
    h2_put_ping(&rig->out, H2_ACK, "weirlast");
    h2_rig_send(rig);
    cr_assert_eq(rig->count, 3, "%s", rig->frames.p);
    h2_put_data(&rig->out, ids[2], H2_END_STREAM, "content");
    h2_rig_send(rig);
    cr_expect_str_eq(rig->calls[2].collector.content.p, "content");
    for (unsigned i = 0; i < 3; i++)
        h2_rig_answer(&rig->calls[i], 200, "ok");
    h2_rig_settle(rig);
    cr_expect(h2_rig_heard(rig, "DATA/2147479553+ES[ok] "), "%s", rig->frames.p);
    cr_expect(h2_rig_heard(rig, "DATA/2147483645+ES[ok] "), "%s", rig->frames.p);
    cr_expect(h2_rig_heard(rig, "DATA/2147483647+ES[ok] "), "%s", rig->frames.p);
    cr_expect_not(h2_rig_heard(rig, "RST"));
    cr_expect(h2_rig_told(rig, "done:ok "), "%s", rig->events.p);
    cr_expect(rig->heard_end);
    h2_rig_free(rig);
}

/* ---- deadlines ---- */

Test(h2_server_ends, an_idle_connection_times_out_with_goaway)
{
    struct h2_rig *rig = started();
    rig->server->ops->timed_out(rig->server, WR_ERR_KEEP_ALIVE_TIMEOUT);
    h2_rig_settle(rig);
    cr_expect_str_eq(rig->frames.p, "GOAWAY[0,0] ");
    cr_expect_str_eq(rig->events.p, "done:ok ");
    cr_expect(rig->heard_end);
    h2_rig_free(rig);
}

Test(h2_server_ends, a_head_that_does_not_come_whole_times_out)
{
    struct h2_rig *rig = started();
    h2_put_frame(&rig->out, H2_HEADERS, 0, 1, "\x82", 1);
    h2_rig_send(rig);
    cr_expect_str_eq(rig->events.p, "begun ");
    rig->server->ops->timed_out(rig->server, WR_ERR_REQUEST_HEADER_TIMEOUT);
    h2_rig_settle(rig);
    cr_expect(h2_rig_heard(rig, "GOAWAY[1,0] "), "%s", rig->frames.p);
    cr_expect(h2_rig_told(rig, "done:ok "), "%s", rig->events.p);
    cr_expect_eq(
        wr_metric_get(&rig->listener_metrics.requests_failed[WR_ERR_REQUEST_HEADER_TIMEOUT]), 1);
    h2_rig_free(rig);
}

Test(h2_server_ends, a_preface_is_a_head_too)
{
    struct h2_rig *rig = h2_rig_new(false);
    h2_rig_start_silent(rig);
    h2_rig_settle(rig);
    cr_expect_str_eq(rig->events.p, "", "silence is idleness");
    text_say(&rig->out, "PRI * HTTP/2.0\r\n");
    h2_rig_send(rig);
    cr_expect_str_eq(rig->events.p, "begun ");
    text_add(&rig->out, "\r\nSM\r\n\r\n", 8);
    static const uint32_t nothing[] = {0};
    h2_put_settings(&rig->out, nothing);
    h2_rig_send(rig);
    cr_expect_str_eq(rig->events.p, "begun idle ");
    h2_rig_free(rig);
}

Test(h2_server_ends, a_client_that_takes_not_even_goaway_is_reset)
{
    struct h2_rig *rig = started();
    h2_put_window(&rig->out, 0, 0x7fff0000 - 65535);
    h2_put_headers(&rig->out, 1, H2_END_STREAM, GET);
    h2_put_window(&rig->out, 1, 0x7fff0000 - 65535);
    h2_rig_send(rig);
    rig->deaf = true;
    struct h2_call *call = &rig->calls[0];
    h2_rig_answer_head(call, 200, WR_LENGTH_UNKNOWN, "", 0);
    for (unsigned i = 0; i < 1000 && wr_message_room(&call->exchange->response) > 0; i++) {
        feed(call, wr_message_room(&call->exchange->response));
        h2_rig_settle(rig);
    }
    h2_put_reset(&rig->out, 1, 8);
    h2_rig_send(rig);
    cr_expect_eq(call->ended, WR_ERR_CLIENT_RESET);
    rig->server->ops->timed_out(rig->server, WR_ERR_KEEP_ALIVE_TIMEOUT);
    h2_rig_settle(rig);
    cr_expect_not(h2_rig_told(rig, "done:"));
    rig->server->ops->timed_out(rig->server, WR_ERR_KEEP_ALIVE_TIMEOUT);
    cr_expect(h2_rig_told(rig, "done:keep_alive_timeout "));
    h2_rig_free(rig);
}

Test(h2_server_ends, stalls_are_the_exchanges_and_reset_the_stream)
{
    struct h2_rig *rig = h2_rig_new(false);
    rig->on_exchange = h2_rig_wait;
    rig->host.inactivity_timeout = 10 * WR_SEC;
    h2_rig_start_silent(rig);
    static const uint32_t window[] = {4, 0, 0};
    text_add(&rig->out, H2_PREFACE, sizeof(H2_PREFACE) - 1);
    h2_put_settings(&rig->out, window);
    h2_put_headers(&rig->out, 1, H2_END_STREAM, GET);
    h2_rig_send(rig);
    h2_rig_answer(&rig->calls[0], 200, "never taken");
    h2_rig_settle(rig);
    wr_loop_advance(rig->loop, 11 * WR_SEC);
    h2_rig_settle(rig);
    cr_expect(h2_rig_told(rig, "expired:client_read_timeout "), "%s", rig->events.p);
    cr_expect(h2_rig_heard(rig, "RST/1[8] "), "%s", rig->frames.p);
    cr_expect_eq(rig->calls[0].ended, WR_ERR_CLIENT_READ_TIMEOUT);
    h2_rig_free(rig);
}

Test(h2_server_ends, a_head_that_never_becomes_whole_beside_other_streams)
{
    struct h2_rig *rig = h2_rig_new(false);
    rig->on_exchange = h2_rig_wait;
    rig->host.inactivity_timeout = 100 * WR_SEC;
    h2_rig_start(rig);
    h2_rig_get(rig, 1, "");
    h2_put_frame(&rig->out, H2_HEADERS, 0, 3, "\x82", 1);
    h2_rig_send(rig);
    wr_loop_advance(rig->loop, 9 * WR_SEC);
    h2_put_frame(&rig->out, H2_CONTINUATION, 0, 3, "\x86", 1); /* no reprieve */
    h2_rig_send(rig);
    cr_expect_eq(rig->worker_metrics.exchanges_active, 2);
    wr_loop_advance(rig->loop, 2 * WR_SEC);
    h2_rig_settle(rig);
    cr_expect(h2_rig_heard(rig, "RST/3[8] "), "%s", rig->frames.p);
    cr_expect_eq(
        wr_metric_get(&rig->listener_metrics.requests_failed[WR_ERR_REQUEST_HEADER_TIMEOUT]), 1);
    h2_rig_answer(&rig->calls[0], 200, "ok");
    h2_rig_settle(rig);
    cr_expect(h2_rig_heard(rig, "DATA/1+ES[ok] "), "%s", rig->frames.p);
    h2_rig_free(rig);
}
