/* HTTP/2 towards clients: windows, fairness, early responses, failures. */
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

static void put_much(struct text *out, uint32_t id, size_t n)
{
    char *content = wr_new_zero(1, n);
    h2_put_frame(out, H2_DATA, 0, id, content, n);
    free(content);
}

static void feed(struct h2_call *call, size_t n)
{
    char *content = wr_new_bytes(n);
    memset(content, 'x', n);
    wr_message_put(&call->exchange->response, content, n);
    free(content);
}

/* ---- windows: behaviour rows 38 and 41 ---- */

Test(h2_server_flow, a_stalled_stream_holds_its_window_and_nothing_of_the_connection)
{
    struct h2_rig *rig = h2_rig_new(false);
    rig->on_exchange = h2_rig_wait;
    rig->holds = true;
    rig->server_options.h2.connection_window = 65535;
    h2_rig_start(rig);
    h2_rig_forget(rig);
    h2_put_headers(&rig->out, 1, 0, POST);
    for (unsigned i = 0; i < 4; i++)
        put_much(&rig->out, 1, 16384);
    h2_rig_send(rig);
    cr_expect_not(h2_rig_heard(rig, "WINDOW/1["), "nothing was taken: %s", rig->frames.p);
    cr_expect(h2_rig_heard(rig, "WINDOW/0["), "%s", rig->frames.p);

    h2_rig_forget(rig);
    h2_put_headers(&rig->out, 3, 0, POST);
    for (unsigned i = 0; i < 3; i++)
        put_much(&rig->out, 3, 16384);
    h2_rig_send(rig);
    cr_expect_eq(rig->calls[1].exchange->request.put_bytes, 3 * 16384, "the other goes on");

    h2_rig_forget(rig);
    collector_take(&rig->calls[0].collector, 40000);
    h2_rig_settle(rig);
    cr_expect(h2_rig_heard(rig, "WINDOW/1[40000] "), "%s", rig->frames.p);
    h2_rig_free(rig);
}

Test(h2_server_flow, more_than_the_window_is_a_stream_error)
{
    struct h2_rig *rig = h2_rig_new(false);
    rig->on_exchange = h2_rig_wait;
    rig->holds = true;
    h2_rig_start(rig);
    h2_put_headers(&rig->out, 1, 0, POST);
    for (unsigned i = 0; i < 5; i++)
        put_much(&rig->out, 1, 16384);
    h2_rig_send(rig);
    cr_expect(h2_rig_heard(rig, "RST/1[3] "), "%s", rig->frames.p);
    cr_expect_eq(rig->calls[0].ended, WR_ERR_BAD_REQUEST);
    h2_rig_free(rig);
}

Test(h2_server_flow, padding_is_no_content_and_given_back)
{
    struct h2_rig *rig = started();
    h2_put_headers(&rig->out, 1, 0, POST);
    h2_put_frame(&rig->out, H2_DATA, H2_PADDED | H2_END_STREAM, 1, "\4abc\0\0\0\0", 8);
    h2_rig_send(rig);
    cr_expect_str_eq(rig->requests.p, "POST a.test / [abc] \n");
    h2_rig_free(rig);
}

Test(h2_server_flow, the_clients_window_holds_the_response_and_memory)
{
    struct h2_rig *rig = h2_rig_new(false);
    rig->on_exchange = h2_rig_wait;
    h2_rig_start_silent(rig);
    static const uint32_t window[] = {4, 10, 0};
    text_add(&rig->out, H2_PREFACE, sizeof(H2_PREFACE) - 1);
    h2_put_settings(&rig->out, window);
    h2_put_headers(&rig->out, 1, H2_END_STREAM, GET);
    h2_rig_send(rig);
    struct h2_call *call = &rig->calls[0];
    h2_rig_answer_head(call, 200, 30, "", 0);
    wr_message_put(&call->exchange->response, "0123456789abcdefghijklmnopqrst", 30);
    wr_message_end(&call->exchange->response, NULL);
    h2_rig_settle(rig);
    cr_expect(h2_rig_heard(rig, "DATA/1[0123456789] "), "%s", rig->frames.p);
    cr_expect_eq(call->exchange->response.passed_bytes, 10);
    h2_put_window(&rig->out, 1, 1);
    h2_rig_send(rig);
    cr_expect(h2_rig_heard(rig, "DATA/1[a] "), "%s", rig->frames.p);
    h2_put_window(&rig->out, 1, 100);
    h2_rig_send(rig);
    cr_expect(h2_rig_heard(rig, "DATA/1+ES[bcdefghijklmnopqrst] "), "%s", rig->frames.p);
    cr_expect_eq(call->ended, WR_OK);
    h2_rig_free(rig);
}

Test(h2_server_flow, a_client_that_does_not_read_stops_the_source)
{
    struct h2_rig *rig = started();
    h2_put_window(&rig->out, 0, 0x7fff0000 - 65535);
    h2_put_headers(&rig->out, 1, H2_END_STREAM, GET);
    h2_put_window(&rig->out, 1, 0x7fff0000 - 65535);
    h2_rig_send(rig);
    struct h2_call *call = &rig->calls[0];
    h2_rig_answer_head(call, 200, WR_LENGTH_UNKNOWN, "", 0);
    rig->deaf = true;
    uint64_t put = 0;
    for (unsigned i = 0; i < 1000 && wr_message_room(&call->exchange->response) > 0; i++) {
        size_t n = wr_message_room(&call->exchange->response);
        feed(call, n);
        put += n;
        h2_rig_settle(rig);
    }
    cr_expect_eq(wr_message_room(&call->exchange->response), 0);
    cr_expect_lt(put, 4u * 1024 * 1024, "socket, transport and message");
    cr_expect_leq(rig->host.chunks->used_count * WR_CHUNK_SIZE, 600u * 1024);
    rig->deaf = false;
    h2_rig_settle(rig);
    wr_message_end(&call->exchange->response, NULL);
    h2_rig_settle(rig);
    cr_expect_eq(h2_reader_data(rig->reader), put);
    cr_expect_eq(call->ended, WR_OK);
    h2_rig_free(rig);
}

Test(h2_server_flow, streams_take_turns)
{
    struct h2_rig *rig = started();
    h2_put_window(&rig->out, 0, 1000000);
    h2_put_headers(&rig->out, 1, H2_END_STREAM, GET);
    h2_put_headers(&rig->out, 3, H2_END_STREAM, GET);
    h2_rig_send(rig);
    for (unsigned i = 0; i < 2; i++) {
        h2_rig_answer_head(&rig->calls[i], 200, WR_LENGTH_UNKNOWN, "", 0);
        feed(&rig->calls[i], 65000);
    }
    h2_rig_forget(rig);
    h2_rig_settle(rig);
    const char *first_3 = strstr(rig->frames.p, "DATA/3[");
    const char *last_1 = NULL;
    for (const char *p = rig->frames.p; (p = strstr(p, "DATA/1[")) != NULL; p++)
        last_1 = p;
    cr_expect(first_3 != NULL && last_1 != NULL && first_3 < last_1, "%s", rig->frames.p);
    h2_rig_free(rig);
}

/* RFC 9218: UPDATE is said before the requests, UPDATE_LATER after them; streams 1 and 3 have PRIORITY_1 and PRIORITY_3 as well. */
static void expect_3_first(const char *update, const char *priority_1, const char *priority_3,
                           const char *update_later)
{
    struct h2_rig *rig = started();
    h2_put_window(&rig->out, 0, 1000000);
    if (update != NULL)
        h2_put_frame(&rig->out, H2_PRIORITY_UPDATE, 0, 0, update, 4 + strlen(update + 4));
    h2_put_headers(&rig->out, 1, H2_END_STREAM, priority_1);
    h2_put_headers(&rig->out, 3, H2_END_STREAM, priority_3);
    if (update_later != NULL)
        h2_put_frame(&rig->out, H2_PRIORITY_UPDATE, 0, 0, update_later,
                     4 + strlen(update_later + 4));
    h2_rig_send(rig);
    for (unsigned i = 0; i < 2; i++) {
        h2_rig_answer_head(&rig->calls[i], 200, WR_LENGTH_UNKNOWN, "", 0);
        feed(&rig->calls[i], 65000);
    }
    h2_rig_forget(rig);
    h2_rig_settle(rig);
    const char *first_1 = strstr(rig->frames.p, "DATA/1[");
    const char *last_3 = NULL;
    for (const char *p = rig->frames.p; (p = strstr(p, "DATA/3[")) != NULL; p++)
        last_3 = p;
    cr_expect(first_1 != NULL && last_3 != NULL && last_3 < first_1, "%s, %s: %s", priority_1,
              priority_3, rig->frames.p);
    h2_rig_free(rig);
}

Test(h2_server_flow, urgent_streams_go_first)
{
    expect_3_first(NULL, GET "priority: u=5\n", GET "priority: u=1\n", NULL);
    expect_3_first(NULL, GET, GET, "\0\0\0\3u=0");
    expect_3_first("\0\0\0\3u=0", GET, GET, NULL);
    expect_3_first("\0\0\0\3u=0, i", GET, GET, NULL);
    expect_3_first("\0\0\0\1u=5", GET, GET, NULL);
    expect_3_first("\0\0\0\3u=5", GET, GET, "\0\0\0\3u=1");
}

Test(h2_server_flow, a_window_that_shrinks_below_zero_recovers)
{
    static const uint32_t none[] = {4, 0, 0};
    static const uint32_t some[] = {4, 65535, 0};
    struct h2_rig *rig = started();
    h2_put_headers(&rig->out, 1, H2_END_STREAM, GET);
    h2_rig_send(rig);
    h2_rig_answer_head(&rig->calls[0], 200, WR_LENGTH_UNKNOWN, "", 0);
    feed(&rig->calls[0], 1000);
    h2_rig_settle(rig);
    h2_put_settings(&rig->out, none);
    h2_rig_send(rig);
    feed(&rig->calls[0], 1000);
    h2_rig_settle(rig);
    cr_expect_eq(h2_reader_data(rig->reader), 1000);
    h2_put_settings(&rig->out, some);
    h2_rig_send(rig);
    cr_expect_eq(h2_reader_data(rig->reader), 2000);
    h2_rig_free(rig);
}

/* ---- early responses, resets: behaviour rows 20 and 22 ---- */

Test(h2_server_flow, an_early_response_ends_with_no_error)
{
    struct h2_rig *rig = started();
    h2_put_headers(&rig->out, 1, 0, POST "content-length: 100000\n");
    put_much(&rig->out, 1, 1000);
    h2_rig_send(rig);
    struct h2_call *call = &rig->calls[0];
    wr_message_stop(&call->exchange->request, WR_ERR_CANCELLED);
    call->collector.message = NULL;
    put_much(&rig->out, 1, 16384);
    h2_rig_send(rig);
    cr_expect_eq(call->exchange->request.put_bytes, 1000, "what nobody wants is thrown away");
    h2_rig_answer(call, 413, "too much");
    h2_rig_settle(rig);
    cr_expect(h2_rig_heard(rig, "DATA/1+ES[too much] RST/1[0] "), "%s", rig->frames.p);
    cr_expect_eq(call->ended, WR_OK);
    put_much(&rig->out, 1, 16384);
    h2_put_data(&rig->out, 1, H2_END_STREAM, "");
    h2_rig_send(rig);
    h2_rig_get(rig, 3, "");
    cr_expect_eq(rig->count, 2, "the connection goes on");
    h2_rig_free(rig);
}

Test(h2_server_flow, a_small_rest_of_an_answered_request_is_thrown_away)
{
    struct h2_rig *rig = started();
    h2_put_headers(&rig->out, 1, 0, POST "content-length: 3000\n");
    put_much(&rig->out, 1, 1000);
    h2_rig_send(rig);
    struct h2_call *call = &rig->calls[0];
    wr_message_stop(&call->exchange->request, WR_ERR_CANCELLED);
    h2_rig_answer(call, 200, "early");
    h2_rig_settle(rig);
    cr_expect(h2_rig_heard(rig, "DATA/1+ES[early] "), "%s", rig->frames.p);
    put_much(&rig->out, 1, 1000);
    h2_rig_send(rig);
    cr_expect_eq(rig->finished, 0);
    cr_expect_not(h2_rig_told(rig, "idle "));
    put_much(&rig->out, 1, 1000);
    h2_put_data(&rig->out, 1, H2_END_STREAM, "");
    h2_rig_send(rig);
    cr_expect_not(h2_rig_heard(rig, "RST"), "%s", rig->frames.p);
    cr_expect_eq(call->ended, WR_OK);
    cr_expect(h2_rig_told(rig, "idle "));
    h2_rig_free(rig);
}

/* Who takes the request decides: an upstream is reused only when it got all of it. */
Test(h2_server_flow, a_small_rest_of_an_answered_request_goes_to_who_wants_it)
{
    struct h2_rig *rig = started();
    h2_put_headers(&rig->out, 1, 0, POST "content-length: 3000\n");
    put_much(&rig->out, 1, 1000);
    h2_rig_send(rig);
    struct h2_call *call = &rig->calls[0];
    h2_rig_answer(call, 200, "early");
    h2_rig_settle(rig);
    cr_expect(h2_rig_heard(rig, "DATA/1+ES[early] "), "%s", rig->frames.p);
    put_much(&rig->out, 1, 1000);
    h2_rig_send(rig);
    cr_expect_eq(call->collector.content.n, 2000);
    cr_expect_eq(rig->finished, 0);
    put_much(&rig->out, 1, 1000);
    h2_put_data(&rig->out, 1, H2_END_STREAM, "");
    h2_rig_send(rig);
    cr_expect_eq(call->collector.content.n, 3000);
    cr_expect(call->collector.ended);
    cr_expect_not(h2_rig_heard(rig, "RST"), "%s", rig->frames.p);
    cr_expect_eq(call->ended, WR_OK);
    cr_expect(h2_rig_told(rig, "idle "));
    h2_rig_free(rig);
}

Test(h2_server_flow, a_rest_of_unknown_length_is_thrown_away_to_a_limit_and_in_time)
{
    struct h2_rig *rig = h2_rig_new(false);
    rig->on_exchange = h2_rig_wait;
    rig->host.inactivity_timeout = 10 * WR_SEC;
    h2_rig_start(rig);
    for (uint32_t id = 1; id <= 5; id += 2)
        h2_put_headers(&rig->out, id, 0, POST);
    h2_rig_send(rig);
    for (unsigned i = 0; i < 3; i++) {
        wr_message_stop(&rig->calls[i].exchange->request, WR_ERR_CANCELLED);
        h2_rig_answer(&rig->calls[i], 200, "early");
    }
    h2_rig_settle(rig);
    cr_expect_not(h2_rig_heard(rig, "RST"), "%s", rig->frames.p);
    put_much(&rig->out, 1, 4000);
    put_much(&rig->out, 1, 200);
    h2_put_reset(&rig->out, 3, 8);
    h2_rig_send(rig);
    cr_expect(h2_rig_heard(rig, "RST/1[0] "), "%s", rig->frames.p);
    cr_expect_eq(rig->calls[0].ended, WR_OK);
    cr_expect_eq(rig->calls[1].ended, WR_OK, "taken back by the client");
    wr_loop_advance(rig->loop, 11 * WR_SEC);
    h2_rig_settle(rig);
    cr_expect(h2_rig_heard(rig, "RST/5[0] "), "%s", rig->frames.p);
    cr_expect_eq(rig->calls[2].ended, WR_ERR_CLIENT_READ_TIMEOUT);
    h2_rig_free(rig);
}

Test(h2_server_flow, a_response_that_fails_is_reset_and_not_ended)
{
    struct h2_rig *rig = started();
    h2_rig_get(rig, 1, "");
    h2_rig_get(rig, 3, "");
    h2_rig_answer_head(&rig->calls[0], 200, 100, "", 0);
    feed(&rig->calls[0], 10);
    h2_rig_settle(rig);
    wr_message_abort(&rig->calls[0].exchange->response, WR_ERR_RESPONSE_INCOMPLETE);
    wr_message_set_source(&rig->calls[1].exchange->response, &feeder_ops, &rig->calls[1].feeder);
    wr_message_abort(&rig->calls[1].exchange->response, WR_ERR_CANCELLED);
    h2_rig_settle(rig);
    cr_expect(h2_rig_heard(rig, "RST/1[2] "), "%s", rig->frames.p);
    cr_expect(h2_rig_heard(rig, "RST/3[8] "), "%s", rig->frames.p);
    cr_expect_not(h2_rig_heard(rig, "+ES"));
    cr_expect_eq(rig->calls[0].ended, WR_ERR_RESPONSE_INCOMPLETE);
    cr_expect(h2_rig_told(rig, "idle "));
    h2_rig_free(rig);
}

/* What the access log says the client was told. */
Test(h2_server_flow, a_head_goes_out_before_the_failure_of_the_same_turn)
{
    struct h2_rig *rig = started();
    for (uint32_t id = 1; id <= 5; id += 2)
        h2_put_headers(&rig->out, id, H2_END_STREAM, GET);
    h2_rig_send(rig);
    h2_rig_answer_head(&rig->calls[0], 200, 100, "", 0);
    feed(&rig->calls[0], 10);
    wr_message_abort(&rig->calls[0].exchange->response, WR_ERR_RESPONSE_INCOMPLETE);
    h2_rig_answer_head(&rig->calls[1], 103, 0, "a: b\n", WR_HEAD_INTERIM);
    h2_rig_settle(rig);
    h2_rig_answer_head(&rig->calls[1], 200, WR_LENGTH_UNKNOWN, "", 0);
    wr_message_abort(&rig->calls[1].exchange->response, WR_ERR_BAD_RESPONSE);
    h2_rig_answer_head(&rig->calls[2], 200, WR_LENGTH_UNKNOWN, "", 0);
    wr_message_abort(&rig->calls[2].exchange->response, WR_ERR_BAD_RESPONSE);
    h2_put_reset(&rig->out, 5, 8); /* whoever was first */
    h2_rig_send(rig);
    cr_expect(h2_rig_heard(rig, "HEADERS/1[:status=200;"), "%s", rig->frames.p);
    cr_expect(h2_rig_heard(rig, "RST/1[2] "), "%s", rig->frames.p);
    cr_expect(h2_rig_heard(rig, "HEADERS/3[:status=200;"), "%s", rig->frames.p);
    cr_expect(h2_rig_heard(rig, "RST/3[2] "), "%s", rig->frames.p);
    cr_expect_not(h2_rig_heard(rig, "+ES"));
    cr_expect_eq(rig->calls[0].ended, WR_ERR_RESPONSE_INCOMPLETE);
    cr_expect_eq(rig->calls[1].ended, WR_ERR_BAD_RESPONSE);
    cr_expect_eq(rig->finished, 3);
    cr_expect(h2_rig_told(rig, "idle "));
    h2_rig_free(rig);
}

Test(h2_server_flow, a_head_nobody_reads_does_not_hold_up_the_failure)
{
    struct h2_rig *rig = started();
    h2_put_window(&rig->out, 0, 0x7fff0000 - 65535);
    h2_put_headers(&rig->out, 1, H2_END_STREAM, GET);
    h2_put_window(&rig->out, 1, 0x7fff0000 - 65535);
    h2_put_headers(&rig->out, 3, H2_END_STREAM, GET);
    h2_rig_send(rig);
    rig->deaf = true;
    struct wr_message *response = &rig->calls[0].exchange->response;
    h2_rig_answer_head(&rig->calls[0], 200, WR_LENGTH_UNKNOWN, "", 0);
    for (unsigned i = 0; i < 1000 && wr_message_room(response) > 0; i++) {
        feed(&rig->calls[0], wr_message_room(response));
        h2_rig_settle(rig);
    }
    h2_rig_answer_head(&rig->calls[1], 200, WR_LENGTH_UNKNOWN, "", 0);
    wr_message_abort(&rig->calls[1].exchange->response, WR_ERR_BAD_RESPONSE);
    h2_rig_settle(rig);
    cr_expect_eq(rig->calls[1].ended, WR_ERR_BAD_RESPONSE);
    rig->deaf = false;
    wr_message_abort(response, WR_ERR_RESPONSE_INCOMPLETE);
    h2_rig_settle(rig);
    cr_expect(h2_rig_heard(rig, "RST/3[2] "), "%s", rig->frames.p);
    cr_expect(h2_rig_heard(rig, "RST/1[2] "));
    h2_rig_free(rig);
}

Test(h2_server_flow, a_response_that_does_not_fit_its_length_is_reset)
{
    struct h2_rig *rig = started();
    h2_rig_get(rig, 1, "");
    h2_rig_answer_head(&rig->calls[0], 200, 5, "", 0);
    wr_message_put(&rig->calls[0].exchange->response, "123456", 6);
    h2_rig_settle(rig);
    cr_expect(h2_rig_heard(rig, "RST/1[2] "), "%s", rig->frames.p);
    cr_expect_eq(rig->calls[0].ended, WR_ERR_RESPONSE_INCOMPLETE);
    h2_rig_get(rig, 3, "");
    h2_rig_answer_head(&rig->calls[1], 200, 5, "", 0);
    wr_message_put(&rig->calls[1].exchange->response, "1234", 4);
    wr_message_end(&rig->calls[1].exchange->response, NULL);
    h2_rig_settle(rig);
    cr_expect(h2_rig_heard(rig, "RST/3[2] "), "%s", rig->frames.p);
    cr_expect_eq(rig->calls[1].ended, WR_ERR_RESPONSE_INCOMPLETE);
    h2_rig_free(rig);
}

Test(h2_server_flow, a_client_that_resets_stops_both_messages)
{
    struct h2_rig *rig = started();
    h2_put_headers(&rig->out, 1, 0, POST);
    h2_rig_send(rig);
    struct h2_call *call = &rig->calls[0];
    h2_rig_answer_head(call, 200, WR_LENGTH_UNKNOWN, "", 0);
    h2_put_reset(&rig->out, 1, 8);
    h2_rig_send(rig);
    cr_expect(call->collector.aborted);
    cr_expect_eq(call->collector.why, WR_ERR_CLIENT_RESET);
    cr_expect(call->feeder.stopped);
    cr_expect_eq(call->ended, WR_ERR_CLIENT_RESET);
    h2_rig_free(rig);
}
