/* HTTP/2 towards clients: requests answered before they are whole, whose rest must still be able to come, or is not waited for; and
 * responses that no window will come for. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "support/h2_rig.h"

#define GET ":method: GET\n:scheme: http\n:path: /\n:authority: a.test\n"
#define POST ":method: POST\n:scheme: http\n:path: /\n:authority: a.test\n"
#define EXTENDED \
    ":method: CONNECT\n:protocol: websocket\n:scheme: http\n:path: /\n:authority: a.test\n"
#define WINDOW 65536

static void put_much(struct text *out, uint32_t id, size_t n)
{
    char *content = wr_new_zero(1, n);
    for (; n > 0; n -= n < 16384 ? n : 16384)
        h2_put_frame(out, H2_DATA, 0, id, content, n < 16384 ? n : 16384);
    free(content);
}

static uint64_t window_given(const struct h2_rig *rig, const char *start)
{
    uint64_t sum = 0;
    for (const char *at = rig->frames.p; (at = strstr(at, start)) != NULL;) {
        at += strlen(start);
        sum += strtoull(at, NULL, 10);
    }
    return sum;
}

/* ---- the window is full when the answer comes: behaviour row 22 ---- */

/* Stream 1 has used its window up, and nobody has taken any of it. */
static struct h2_rig *filled(const char *fields)
{
    struct h2_rig *rig = h2_rig_new(false);
    rig->on_exchange = h2_rig_wait;
    rig->holds = true;
    rig->host.inactivity_timeout = 10 * WR_SEC;
    h2_rig_start(rig);
    h2_put_headers(&rig->out, 1, 0, fields);
    put_much(&rig->out, 1, WINDOW);
    h2_rig_forget(rig);
    h2_rig_send(rig);
    cr_assert_eq(window_given(rig, "WINDOW/1["), 0);
    return rig;
}

static void stop_and_answer(struct h2_rig *rig)
{
    struct h2_call *call = &rig->calls[0];
    wr_message_stop(&call->exchange->request, WR_ERR_CANCELLED);
    call->collector.message = NULL;
    h2_rig_answer(call, 413, "big");
    h2_rig_settle(rig);
    cr_expect(h2_rig_heard(rig, "DATA/1+ES[big] "), "%s", rig->frames.p);
}

static void expect_rest_comes(struct h2_rig *rig, size_t rest)
{
    cr_assert_geq(window_given(rig, "WINDOW/1["), rest, "%s", rig->frames.p);
    cr_expect_eq(rig->finished, 0);
    put_much(&rig->out, 1, rest);
    h2_put_data(&rig->out, 1, H2_END_STREAM, "");
    h2_rig_send(rig);
    cr_expect_not(h2_rig_heard(rig, "RST"), "%s", rig->frames.p);
    cr_expect_eq(rig->finished, 1);
    cr_expect_eq(rig->calls[0].ended, WR_OK);
    h2_rig_free(rig);
}

Test(h2_server_early, the_rest_can_come_when_the_window_was_full)
{
    struct h2_rig *rig = filled(POST);
    stop_and_answer(rig);
    expect_rest_comes(rig, 4096);
    rig = filled(POST "content-length: 69632\n");
    stop_and_answer(rig);
    expect_rest_comes(rig, 4096);
}

Test(h2_server_early, more_than_is_thrown_away_ends_it_when_the_window_was_full)
{
    struct h2_rig *rig = filled(POST);
    stop_and_answer(rig);
    put_much(&rig->out, 1, 4097);
    h2_rig_send(rig);
    cr_expect(h2_rig_heard(rig, "RST/1[0] "), "%s", rig->frames.p);
    cr_expect_eq(rig->calls[0].ended, WR_OK);
    h2_rig_free(rig);
}

/* The sink lets go long before the answer comes, so the client is not to think that it must wait. */
Test(h2_server_early, the_rest_can_come_before_the_answer)
{
    struct h2_rig *rig = filled(POST "content-length: 69632\n");
    struct h2_call *call = &rig->calls[0];
    wr_message_stop(&call->exchange->request, WR_ERR_CANCELLED);
    call->collector.message = NULL;
    h2_rig_settle(rig);
    cr_assert_geq(window_given(rig, "WINDOW/1["), 4096, "%s", rig->frames.p);
    put_much(&rig->out, 1, 4096);
    h2_put_data(&rig->out, 1, H2_END_STREAM, "");
    h2_rig_send(rig);
    h2_rig_answer(call, 413, "big");
    h2_rig_settle(rig);
    cr_expect_not(h2_rig_heard(rig, "RST"), "%s", rig->frames.p);
    cr_expect_eq(call->ended, WR_OK);
    h2_rig_free(rig);
}

/* A part was taken, which is not worth an update. */
Test(h2_server_early, what_was_taken_is_given_back_once)
{
    struct h2_rig *rig = filled(POST);
    struct h2_call *call = &rig->calls[0];
    collector_take(&call->collector, 20000);
    stop_and_answer(rig);
    cr_expect_eq(window_given(rig, "WINDOW/1["), WINDOW, "%s", rig->frames.p);
    put_much(&rig->out, 1, 4097);
    h2_rig_send(rig);
    cr_expect(h2_rig_heard(rig, "RST/1[0] "), "%s", rig->frames.p);
    h2_rig_free(rig);
}

Test(h2_server_early, a_declined_tunnel_that_was_talked_into)
{
    struct h2_rig *rig = filled(EXTENDED);
    h2_rig_answer(&rig->calls[0], 403, "no");
    h2_rig_settle(rig);
    cr_expect(h2_rig_heard(rig, "DATA/1+ES[no] "), "%s", rig->frames.p);
    expect_rest_comes(rig, 4096);
}

Test(h2_server_early, a_request_for_a_tunnel_that_is_stopped)
{
    struct h2_rig *rig = filled(EXTENDED);
    stop_and_answer(rig);
    expect_rest_comes(rig, 4096);
}

/* ---- the rest has its time in all, however busily it dribbles ---- */

Test(h2_server_early, a_rest_that_dribbles_is_given_up)
{
    struct h2_rig *rig = h2_rig_new(false);
    rig->on_exchange = h2_rig_wait;
    rig->host.inactivity_timeout = 10 * WR_SEC;
    h2_rig_start(rig);
    h2_put_headers(&rig->out, 1, 0, POST);
    h2_rig_send(rig);
    stop_and_answer(rig);
    for (unsigned i = 0; i < 4; i++) {
        cr_expect_eq(rig->finished, 0);
        wr_loop_advance(rig->loop, 3 * WR_SEC);
        h2_put_data(&rig->out, 1, 0, "x");
        h2_rig_send(rig);
    }
    cr_expect(h2_rig_heard(rig, "RST/1[0] "), "%s", rig->frames.p);
    cr_expect_eq(rig->calls[0].ended, WR_ERR_CLIENT_READ_TIMEOUT);
    h2_rig_free(rig);
}

/* Before the answer it is progress as any other. */
Test(h2_server_early, a_request_thrown_away_while_the_answer_is_made_may_take_its_time)
{
    struct h2_rig *rig = h2_rig_new(false);
    rig->on_exchange = h2_rig_wait;
    rig->host.inactivity_timeout = 10 * WR_SEC;
    h2_rig_start(rig);
    h2_put_headers(&rig->out, 1, 0, POST);
    h2_rig_send(rig);
    struct h2_call *call = &rig->calls[0];
    h2_rig_answer_head(call, 200, WR_LENGTH_UNKNOWN, "", 0);
    wr_message_stop(&call->exchange->request, WR_ERR_CANCELLED);
    call->collector.message = NULL;
    for (unsigned i = 0; i < 6; i++) {
        wr_loop_advance(rig->loop, 5 * WR_SEC);
        h2_put_data(&rig->out, 1, 0, "x");
        h2_rig_send(rig);
    }
    cr_expect_eq(rig->finished, 0);
    h2_rig_free(rig);
}

/* ---- no window any more: the client has ended ---- */

static struct h2_rig *windowless(uint32_t window)
{
    struct h2_rig *rig = h2_rig_new(false);
    const uint32_t settings[] = {4, window, 0};
    rig->on_exchange = h2_rig_wait;
    h2_rig_start_silent(rig);
    text_add(&rig->out, H2_PREFACE, sizeof(H2_PREFACE) - 1);
    h2_put_settings(&rig->out, settings);
    h2_put_headers(&rig->out, 1, H2_END_STREAM, GET);
    h2_put_headers(&rig->out, 3, H2_END_STREAM, GET);
    h2_rig_send(rig);
    return rig;
}

static void expect_gone(struct h2_rig *rig, unsigned index)
{
    cr_expect_eq(rig->calls[index].ended, WR_ERR_CLIENT_CLOSED);
    cr_expect(rig->calls[index].feeder.stopped, "the upstream need not go on");
}

Test(h2_server_early, a_client_that_ends_without_window_is_given_up)
{
    struct h2_rig *rig = windowless(0);
    h2_rig_answer_head(&rig->calls[0], 200, WR_LENGTH_UNKNOWN, "", 0);
    wr_message_put(&rig->calls[0].exchange->response, "content", 7);
    h2_rig_settle(rig);
    cr_expect_eq(rig->finished, 0, "it may still give some");
    h2_rig_peer_ends(rig);
    expect_gone(rig, 0);
    cr_expect_not(h2_rig_told(rig, "done:"));
    h2_rig_answer_head(&rig->calls[1], 200, WR_LENGTH_UNKNOWN, "", 0);
    h2_rig_settle(rig);
    cr_expect_eq(rig->finished, 1, "so far there is nothing to say");
    wr_message_put(&rig->calls[1].exchange->response, "content", 7);
    h2_rig_settle(rig);
    expect_gone(rig, 1);
    cr_expect(h2_rig_told(rig, "done:ok "), "%s", rig->events.p);
    cr_expect_eq(wr_metric_get(&rig->listener_metrics.requests_failed[WR_ERR_CLIENT_CLOSED]), 2);
    cr_expect_eq(wr_metric_get(&rig->listener_metrics.h2_floods[WR_FLOOD_RESET]), 0);
    h2_rig_free(rig);
}

Test(h2_server_early, a_client_that_ends_is_answered_as_far_as_its_window_goes)
{
    struct h2_rig *rig = windowless(5);
    h2_rig_peer_ends(rig);
    h2_rig_answer(&rig->calls[0], 200, "1234");
    wr_message_set_source(&rig->calls[1].exchange->response, &feeder_ops, &rig->calls[1].feeder);
    h2_rig_answer_head(&rig->calls[1], 200, WR_LENGTH_UNKNOWN, "", 0);
    wr_message_put(&rig->calls[1].exchange->response, "123456", 6);
    h2_rig_settle(rig);
    cr_expect(h2_rig_heard(rig, "DATA/1+ES[1234] "), "%s", rig->frames.p);
    cr_expect_eq(rig->calls[0].ended, WR_OK);
    cr_expect(h2_rig_heard(rig, "DATA/3[12345] "), "%s", rig->frames.p);
    expect_gone(rig, 1);
    cr_expect(h2_rig_told(rig, "done:ok "), "%s", rig->events.p);
    h2_rig_free(rig);
}

/* Nothing of it needs a window. */
Test(h2_server_early, a_client_that_ends_without_window_gets_heads)
{
    struct h2_rig *rig = windowless(0);
    h2_rig_peer_ends(rig);
    h2_rig_answer(&rig->calls[0], 204, "");
    h2_rig_answer(&rig->calls[1], 200, "");
    h2_rig_settle(rig);
    cr_expect(h2_rig_heard(rig, "HEADERS/1+ES[:status=204;"), "%s", rig->frames.p);
    cr_expect(h2_rig_heard(rig, "HEADERS/3+ES[:status=200;"), "%s", rig->frames.p);
    cr_expect_eq(rig->calls[1].ended, WR_OK);
    h2_rig_free(rig);
}

Test(h2_server_early, the_connections_window_counts_too)
{
    struct h2_rig *rig = windowless(1000000);
    static const char content[16384];
    h2_rig_answer_head(&rig->calls[0], 200, WR_LENGTH_UNKNOWN, "", 0);
    for (unsigned i = 0; i < 4; i++)
        wr_message_put(&rig->calls[0].exchange->response, content, sizeof(content));
    h2_rig_settle(rig);
    cr_expect_eq(h2_reader_data(rig->reader), 65535);
    h2_rig_peer_ends(rig);
    expect_gone(rig, 0);
    h2_rig_free(rig);
}
