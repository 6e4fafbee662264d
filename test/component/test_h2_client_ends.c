/* HTTP/2 towards upstreams: exchanges taken away, failures and what may be sent again, GOAWAY, limits, windows, PING. */
#include <criterion/criterion.h>
#include <string.h>
#include <sys/socket.h>

#include "support/h2_rig.h"

static struct h2_rig *started(void)
{
    struct h2_rig *rig = h2_rig_new(true);
    h2_rig_start(rig);
    h2_rig_forget(rig);
    return rig;
}

static void answer(struct h2_rig *rig, uint32_t id, unsigned flags, const char *fields)
{
    h2_put_headers(&rig->out, id, flags, fields);
    h2_rig_send(rig);
}

/* ---- exchanges taken away ---- */

Test(h2_client_ends, a_response_nobody_wants_is_cancelled)
{
    struct h2_rig *rig = started();
    struct h2_call *call = h2_rig_open(rig, "POST", 1000, "");
    h2_rig_settle(rig);
    answer(rig, 1, 0, ":status: 200\n");
    wr_message_stop(&call->exchange->response, WR_ERR_CLIENT_RESET);
    h2_rig_settle(rig);
    cr_expect(h2_rig_heard(rig, "RST/1[8] "), "%s", rig->frames.p);
    cr_expect(call->feeder.stopped);
    cr_expect_str_eq(rig->events.p, "closed:reusable ", "the others go on: %s", rig->events.p);
    h2_put_data(&rig->out, 1, H2_END_STREAM, "late");
    h2_rig_send(rig);
    cr_expect_str_eq(rig->events.p, "closed:reusable ");
    h2_rig_free(rig);
}

Test(h2_client_ends, an_exchange_that_finishes_first_is_cancelled)
{
    struct h2_rig *rig = started();
    struct h2_call *call = h2_rig_open(rig, "POST", 1000, "");
    h2_rig_settle(rig);
    h2_rig_finish(call, WR_ERR_CLIENT_RESET);
    h2_rig_settle(rig);
    cr_expect(h2_rig_heard(rig, "RST/1[8] "), "%s", rig->frames.p);
    cr_expect_str_eq(rig->events.p, "closed:reusable ");
    h2_rig_free(rig);
}

Test(h2_client_ends, cancelled_before_it_was_sent_is_never_sent)
{
    struct h2_rig *rig = started();
    struct h2_call *call = h2_rig_open(rig, "GET", 0, "");
    h2_rig_finish(call, WR_ERR_CLIENT_RESET);
    h2_rig_settle(rig);
    cr_expect_not(h2_rig_heard(rig, "HEADERS"), "%s", rig->frames.p);
    cr_expect_str_eq(rig->events.p, "closed:reusable ");
    struct h2_call *next = h2_rig_open(rig, "GET", 0, "");
    h2_rig_settle(rig);
    cr_expect(h2_rig_heard(rig, "HEADERS/3+ES["), "%s", rig->frames.p);
    answer(rig, 3, H2_END_STREAM, ":status: 200\n");
    cr_expect(next->collector.ended);
    h2_rig_free(rig);
}

Test(h2_client_ends, a_request_that_breaks_off_is_reset)
{
    struct h2_rig *rig = started();
    struct h2_call *call = h2_rig_open(rig, "POST", 1000, "");
    h2_rig_settle(rig);
    wr_message_abort(&call->exchange->request, WR_ERR_CLIENT_RESET);
    h2_rig_settle(rig);
    cr_expect(h2_rig_heard(rig, "RST/1[8] "), "%s", rig->frames.p);
    cr_expect_eq(call->collector.why, WR_ERR_CLIENT_RESET);
    h2_rig_free(rig);
}

/* ---- failures: behaviour rows 20, 24, 42 ---- */

Test(h2_client_ends, refused_streams_are_safe_to_send_again)
{
    struct h2_rig *rig = started();
    struct h2_call *call = h2_rig_open(rig, "POST", 1000, "");
    h2_rig_settle(rig);
    h2_put_reset(&rig->out, 1, 7);
    h2_rig_send(rig);
    cr_expect_eq(call->collector.why, WR_ERR_UPSTREAM_CLOSED);
    cr_expect(call->unsent);
    cr_expect_str_eq(rig->events.p, "closed:reusable ");
    h2_rig_free(rig);
}

Test(h2_client_ends, other_resets_are_not)
{
    struct h2_rig *rig = started();
    struct h2_call *a = h2_rig_open(rig, "POST", 1000, "");
    struct h2_call *b = h2_rig_open(rig, "GET", 0, "");
    struct h2_call *c = h2_rig_open(rig, "GET", 0, "");
    h2_rig_settle(rig);
    h2_put_reset(&rig->out, 1, 2);
    h2_put_headers(&rig->out, 3, 0, ":status: 200\n");
    h2_put_reset(&rig->out, 3, 2);
    h2_put_headers(&rig->out, 5, 0, ":status: 200\n");
    h2_put_reset(&rig->out, 5, 0);
    h2_rig_send(rig);
    cr_expect_eq(a->collector.why, WR_ERR_UPSTREAM_RESET);
    cr_expect_not(a->unsent);
    cr_expect_eq(b->collector.why, WR_ERR_RESPONSE_INCOMPLETE);
    cr_expect_eq(c->collector.why, WR_ERR_RESPONSE_INCOMPLETE, "NO_ERROR without an end is no end");
    h2_rig_free(rig);
}

Test(h2_client_ends, goaway_lets_the_others_finish)
{
    struct h2_rig *rig = started();
    struct h2_call *a = h2_rig_open(rig, "GET", 0, "");
    struct h2_call *b = h2_rig_open(rig, "POST", 10, "");
    h2_rig_settle(rig);
    h2_put_goaway(&rig->out, 1, 0);
    h2_rig_send(rig);
    cr_expect_eq(b->collector.why, WR_ERR_UPSTREAM_CLOSED);
    cr_expect(b->unsent);
    cr_expect(h2_rig_told(rig, "limit:0 "));
    cr_expect(h2_rig_told(rig, "closed:spent "));
    cr_expect_not(h2_rig_told(rig, "broken"));
    answer(rig, 1, H2_END_STREAM, ":status: 200\n");
    cr_expect(a->collector.ended);
    h2_rig_free(rig);
}

Test(h2_client_ends, a_first_goaway_of_a_drain)
{
    struct h2_rig *rig = started();
    struct h2_call *a = h2_rig_open(rig, "GET", 0, "");
    h2_rig_settle(rig);
    h2_put_goaway(&rig->out, 0x7fffffff, 0);
    h2_rig_send(rig);
    cr_expect_eq(rig->client->ops->capacity(rig->client), 0);
    h2_put_goaway(&rig->out, 1, 0);
    answer(rig, 1, H2_END_STREAM, ":status: 200\n");
    cr_expect(a->collector.ended);
    cr_expect(h2_rig_told(rig, "closed:spent "));
    h2_rig_free(rig);
}

Test(h2_client_ends, goaway_while_idle_is_the_end)
{
    struct h2_rig *rig = started();
    h2_put_goaway(&rig->out, 0, 0);
    h2_rig_send(rig);
    cr_expect(h2_rig_told(rig, "broken:upstream_closed "), "%s", rig->events.p);
    h2_rig_free(rig);
}

Test(h2_client_ends, a_connection_that_ends)
{
    struct h2_rig *rig = started();
    struct h2_call *a = h2_rig_open(rig, "POST", 10, "");
    struct h2_call *b = h2_rig_open(rig, "GET", 0, "");
    h2_rig_settle(rig);
    answer(rig, 3, 0, ":status: 200\n");
    h2_rig_peer_closes(rig);
    cr_expect_eq(a->collector.why, WR_ERR_UPSTREAM_CLOSED);
    cr_expect_not(a->unsent);
    cr_expect_eq(b->collector.why, WR_ERR_RESPONSE_INCOMPLETE);
    cr_expect_str_eq(rig->events.p, "closed:spent closed:spent ");
    h2_rig_free(rig);
}

Test(h2_client_ends, a_connection_that_ends_before_anything_was_sent)
{
    struct h2_rig *rig = started();
    h2_rig_peer_closes(rig);
    cr_expect(h2_rig_told(rig, "broken:upstream_closed "), "%s", rig->events.p);
    h2_rig_free(rig);

    rig = started();
    struct h2_call *call = h2_rig_open(rig, "POST", 10, "");
    shutdown(rig->peer, SHUT_RDWR);
    h2_rig_settle(rig);
    cr_expect(call->collector.aborted);
    h2_rig_free(rig);
}

/* ---- behaviour row 23 ---- */

static void expect_broken(struct h2_rig *rig, const char *what)
{
    h2_rig_send(rig);
    cr_expect(h2_rig_told(rig, "broken:bad_response "), "%s: %s", what, rig->events.p);
    cr_expect(h2_rig_heard(rig, "GOAWAY[0,1] "), "%s: %s", what, rig->frames.p);
    h2_rig_free(rig);
}

Test(h2_client_ends, what_comes_unasked)
{
    struct h2_rig *rig = started();
    h2_put_headers(&rig->out, 1, H2_END_STREAM, ":status: 200\n");
    expect_broken(rig, "response to nothing");

    rig = started();
    h2_put_data(&rig->out, 1, 0, "x");
    expect_broken(rig, "DATA to nothing");

    rig = started();
    h2_put_frame(&rig->out, H2_PUSH_PROMISE, H2_END_HEADERS, 1, "\0\0\0\2", 4);
    expect_broken(rig, "push");

    rig = started();
    text_say(&rig->out, "HTTP/1.1 200 OK\r\n\r\n");
    h2_rig_send(rig);
    cr_expect(h2_rig_told(rig, "broken:bad_response "), "%s", rig->events.p);
    h2_rig_free(rig);
}

Test(h2_client_ends, a_connection_error_fails_all_with_goaway)
{
    struct h2_rig *rig = started();
    struct h2_call *call = h2_rig_open(rig, "GET", 0, "");
    h2_rig_settle(rig);
    h2_put_window(&rig->out, 0, 0);
    h2_rig_send(rig);
    cr_expect_eq(call->collector.why, WR_ERR_BAD_RESPONSE);
    cr_expect(h2_rig_heard(rig, "GOAWAY[0,1] "), "%s", rig->frames.p);
    cr_expect_str_eq(rig->events.p, "closed:spent ");
    h2_rig_free(rig);
}

Test(h2_client_ends, pings_and_settings_while_idle_are_fine)
{
    static const uint32_t streams[] = {3, 5, 0};
    struct h2_rig *rig = started();
    h2_put_ping(&rig->out, 0, "abcdefgh");
    h2_put_settings(&rig->out, streams);
    h2_rig_send(rig);
    cr_expect(h2_rig_heard(rig, "PING+ACK[abcdefgh] "));
    cr_expect_str_eq(rig->events.p, "limit:5 ");
    h2_rig_free(rig);
}

/* ---- row 42: limits of the peer ---- */

/* One is on the wire when a limit of one comes, and another is not: that one need not wait for the first to end. */
Test(h2_client_ends, what_may_not_go_any_more_goes_elsewhere)
{
    static const uint32_t one[] = {3, 1, 0};
    struct h2_rig *rig = started();
    struct h2_call *a = h2_rig_open(rig, "GET", 0, "");
    h2_rig_settle(rig);
    h2_put_settings(&rig->out, one);
    cr_assert_eq(send(rig->peer, rig->out.p, rig->out.n, 0), (ssize_t)rig->out.n);
    text_free(&rig->out);
    struct h2_call *b = h2_rig_open(rig, "POST", 10, "");
    h2_rig_settle(rig);
    cr_expect_eq(b->collector.why, WR_ERR_UPSTREAM_CLOSED);
    cr_expect(b->unsent);
    cr_expect_str_eq(rig->events.p, "limit:1 closed:reusable ");
    answer(rig, 1, H2_END_STREAM, ":status: 200\n");
    cr_expect(a->collector.ended);
    struct h2_call *c = h2_rig_open(rig, "GET", 0, "");
    h2_rig_settle(rig);
    cr_expect_not(h2_rig_heard(rig, "HEADERS/3"), "%s", rig->frames.p);
    answer(rig, 5, H2_END_STREAM, ":status: 200\n");
    cr_expect(c->collector.ended);
    h2_rig_free(rig);
}

Test(h2_client_ends, no_streams_allowed_for_now)
{
    static const uint32_t none[] = {3, 0, 0};
    static const uint32_t one[] = {3, 1, 0};
    struct h2_rig *rig = started();
    h2_put_settings(&rig->out, none);
    h2_rig_send(rig);
    cr_expect_eq(rig->client->ops->capacity(rig->client), 0);
    struct h2_call *call = h2_rig_open(rig, "GET", 0, ""); /* was on its way */
    h2_rig_settle(rig);
    cr_expect_not(h2_rig_heard(rig, "HEADERS"));
    h2_put_settings(&rig->out, one);
    h2_rig_send(rig);
    cr_expect(h2_rig_heard(rig, "HEADERS/1+ES["), "%s", rig->frames.p);
    answer(rig, 1, H2_END_STREAM, ":status: 200\n");
    cr_expect(call->collector.ended);
    h2_rig_free(rig);
}

/* ---- windows ---- */

Test(h2_client_ends, a_stalled_response_holds_its_window_alone)
{
    struct h2_rig *rig = h2_rig_new(true);
    rig->client_options.h2.connection_window = 65535;
    rig->holds = true;
    h2_rig_start(rig);
    h2_rig_forget(rig);
    struct h2_call *slow = h2_rig_open(rig, "GET", 0, "");
    struct h2_call *fast = h2_rig_open(rig, "GET", 0, "");
    h2_rig_settle(rig);
    static char content[16384];
    h2_put_headers(&rig->out, 1, 0, ":status: 200\n");
    h2_put_headers(&rig->out, 3, 0, ":status: 200\n");
    for (unsigned i = 0; i < 3; i++)
        h2_put_frame(&rig->out, H2_DATA, 0, 1, content, sizeof(content));
    h2_rig_send(rig);
    cr_expect_not(h2_rig_heard(rig, "WINDOW/1["), "%s", rig->frames.p);
    cr_expect(h2_rig_heard(rig, "WINDOW/0["), "%s", rig->frames.p);
    for (unsigned i = 0; i < 4; i++) {
        h2_put_frame(&rig->out, H2_DATA, 0, 3, content, 10000);
        h2_rig_send(rig);
        collector_take(&fast->collector, SIZE_MAX);
        h2_rig_settle(rig);
    }
    cr_expect(h2_rig_heard(rig, "WINDOW/3[40000] "), "%s", rig->frames.p);
    cr_expect_eq(slow->exchange->response.put_bytes, 3 * 16384);
    h2_rig_free(rig);
}

/* ---- whether the peer is there ---- */

Test(h2_client_ends, silence_is_asked_about_and_then_the_end)
{
    struct h2_rig *rig = h2_rig_new(true);
    rig->client_options.h2.ping_interval = 10 * WR_SEC;
    rig->client_options.h2.ping_timeout = 2 * WR_SEC;
    h2_rig_start(rig);
    h2_rig_forget(rig);
    wr_loop_advance(rig->loop, 11 * WR_SEC);
    h2_rig_settle(rig);
    cr_expect_str_eq(rig->frames.p, "PING[weirping] ");
    h2_put_ping(&rig->out, H2_ACK, "weirping");
    h2_rig_send(rig);
    wr_loop_advance(rig->loop, 9 * WR_SEC);
    h2_rig_settle(rig);
    cr_expect_str_eq(rig->frames.p, "PING[weirping] ");
    wr_loop_advance(rig->loop, 2 * WR_SEC);
    h2_rig_settle(rig);
    cr_expect_str_eq(rig->frames.p, "PING[weirping] PING[weirping] ");
    cr_expect_str_eq(rig->events.p, "");
    wr_loop_advance(rig->loop, 3 * WR_SEC);
    h2_rig_settle(rig);
    cr_expect_str_eq(rig->events.p, "broken:upstream_closed ");
    h2_rig_free(rig);
}

/* Nobody has asked anything on it yet. */
Test(h2_client_ends, a_spare_one_greets_before_it_asks)
{
    struct h2_rig *rig = h2_rig_new(true);
    rig->client_options.h2.ping_interval = 10 * WR_SEC;
    h2_rig_start_silent(rig);
    wr_loop_advance(rig->loop, 11 * WR_SEC);
    h2_rig_settle(rig);
    cr_expect_eq(strncmp(rig->frames.p, "SETTINGS[", 9), 0, "%s", rig->frames.p);
    cr_expect(h2_rig_heard(rig, "] PING[weirping] "), "%s", rig->frames.p);
    h2_rig_free(rig);
}

/* The owner closes within stream_closed() or right after it; room or not. */
static void cancelled_and_closed(bool full)
{
    static const struct wr_transport_events nothing = {0};
    static char content[100000];
    struct h2_rig *rig = started();
    struct h2_call *call = h2_rig_open(rig, "POST", WR_LENGTH_UNKNOWN, "");
    h2_rig_settle(rig);
    const uint32_t wide[] = {4, 1u << 30, 0};
    h2_put_settings(&rig->out, wide);
    h2_put_window(&rig->out, 0, 1u << 30);
    h2_rig_send(rig);
    rig->deaf = true;
    for (unsigned i = 0; i < 200 && full && wr_transport_output_room(rig->transport) > 0; i++) {
        wr_message_put(&call->exchange->request, content, sizeof(content));
        h2_rig_settle(rig);
    }
    cr_assert_eq(wr_transport_output_room(rig->transport) == 0, full);
    wr_message_stop(&call->exchange->response, WR_ERR_CLIENT_RESET);
    rig->client->ops->close(rig->client, WR_ERR_CANCELLED);
    rig->client = NULL;
    wr_transport_set_events(rig->transport, &nothing, NULL);
    rig->deaf = false;
    for (unsigned i = 0; i < 100 && !h2_rig_heard(rig, "GOAWAY"); i++)
        h2_rig_settle(rig);
    cr_expect(h2_rig_heard(rig, "RST/1[8] GOAWAY[0,0] "), "%s", rig->frames.p);
    wr_transport_close(rig->transport);
    rig->transport = NULL;
    h2_rig_free(rig);
}

Test(h2_client_ends, closing_says_first_what_was_cancelled)
{
    cancelled_and_closed(false);
    cancelled_and_closed(true);
}

Test(h2_client_ends, closing_says_goaway)
{
    struct h2_rig *rig = started();
    struct h2_call *call = h2_rig_open(rig, "GET", 0, "");
    h2_rig_settle(rig);
    rig->client->ops->close(rig->client, WR_ERR_CANCELLED);
    rig->client->ops->close(rig->client, WR_ERR_CANCELLED);
    rig->client = NULL;
    cr_expect_eq(call->collector.why, WR_ERR_CANCELLED);
    wr_transport_flush(rig->transport);
    wr_transport_close(rig->transport);
    rig->transport = NULL;
    h2_rig_settle(rig);
    cr_expect(h2_rig_heard(rig, "GOAWAY[0,0] "), "%s", rig->frames.p);
    h2_rig_free(rig);
}
