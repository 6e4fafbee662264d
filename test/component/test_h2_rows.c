/* Rows 28 to 40 of the behaviour table, with raw frames: what must never reach anybody, and what it costs to send it often. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "support/h2_rig.h"

#define GET ":method: GET\n:scheme: http\n:path: /\n:authority: a.test\n"
#define POST ":method: POST\n:scheme: http\n:path: /\n:authority: a.test\n"

static struct h2_rig *started(void)
{
    struct h2_rig *rig = h2_rig_new(false);
    h2_rig_start(rig);
    h2_rig_forget(rig);
    return rig;
}

/* ---- rows 28, 29, 31, 32: heads ---- */

struct head_case {
    const char *name;
    const char *fields;
    size_t raw; /* of these bytes, with what h2_put_block() cannot write in place of "@" */
    char byte;
};

static void expect_refused_head(const struct head_case *c)
{
    struct h2_rig *rig = started();
    struct text block = {0};
    h2_put_block(&block, c->fields);
    for (size_t i = 0; c->raw > 0 && i < block.n; i++) {
        if (block.p[i] == '@')
            block.p[i] = c->byte;
    }
    h2_put_frame(&rig->out, H2_HEADERS, H2_END_HEADERS | H2_END_STREAM, 1, block.p, block.n);
    text_free(&block);
    h2_rig_send(rig);
    bool reset = h2_rig_heard(rig, "RST/1[1] ");
    bool told = h2_rig_heard(rig, "HEADERS/1+ES[:status=400;");
    cr_expect(reset != told, "%s: %s", c->name, rig->frames.p);
    cr_expect_str_eq(rig->requests.p, "", "%s went through: %s", c->name, rig->requests.p);
    cr_expect_eq(wr_metric_get(&rig->listener_metrics.requests_failed[WR_ERR_BAD_REQUEST]),
                 reset ? 1 : 0, "%s", c->name);
    h2_rig_get(rig, 3, "");
    cr_expect(h2_rig_heard(rig, "HEADERS/3+ES[:status=200;"), "%s: %s", c->name, rig->frames.p);
    h2_rig_free(rig);
}

#define TARGET ":method: GET\n:scheme: http\n:authority: a.test\n"
static const struct head_case head_cases[] = {
    {"upper-case name", GET "Accept: x\n", 0, 0},
    {"space in a name", GET "a b: x\n", 0, 0},
    {"colon in a name", GET "a@b: x\n", 1, ':'},
    {"control byte in a name", GET "a@: x\n", 1, 1},
    {"LF in a value", GET "a: x@y\n", 1, '\n'},
    {"CR in a value", GET "a: x@y\n", 1, '\r'},
    {"NUL in a value", GET "a: x@y\n", 1, 0},
    {"leading space", GET "a:  x\n", 0, 0},
    {"trailing space", GET "a: x \n", 0, 0},
    {"trailing tab", GET "a: x\t\n", 0, 0},
    {"connection", GET "connection: close\n", 0, 0},
    {"keep-alive", GET "keep-alive: 1\n", 0, 0},
    {"proxy-connection", GET "proxy-connection: keep-alive\n", 0, 0},
    {"transfer-encoding", GET "transfer-encoding: chunked\n", 0, 0},
    {"upgrade", GET "upgrade: h2c\n", 0, 0},
    {"http2-settings", GET "http2-settings: x\n", 0, 0},
    {"te gzip", GET "te: gzip\n", 0, 0},
    {"te trailers and more", GET "te: trailers, gzip\n", 0, 0},
    {"no method", ":scheme: http\n:path: /\n:authority: a.test\n", 0, 0},
    {"no scheme", ":method: GET\n:path: /\n:authority: a.test\n", 0, 0},
    {"no path", TARGET, 0, 0},
    {"empty path", TARGET ":path: \n", 0, 0},
    {"path without a slash", TARGET ":path: x\n", 0, 0},
    {"asterisk for GET", TARGET ":path: *\n", 0, 0},
    {"path with a fragment", TARGET ":path: /#f\n", 0, 0},
    {"path with NUL encoded", TARGET ":path: /%00\n", 0, 0},
    {"path with a space", TARGET ":path: /a b\n", 0, 0},
    {"path with a byte above 0x7e", TARGET ":path: /@\n", 1, (char)0xc3},
    {"path twice", GET ":path: /b\n", 0, 0},
    {"method twice", GET ":method: GET\n", 0, 0},
    {"authority twice", GET ":authority: a.test\n", 0, 0},
    {"pseudo field after a regular one", TARGET "a: b\n:path: /\n", 0, 0},
    {"unknown pseudo field", GET ":fun: 1\n", 0, 0},
    {"pseudo field of responses", GET ":status: 200\n", 0, 0},
    {":protocol without CONNECT", GET ":protocol: websocket\n", 0, 0},
    {"unknown scheme", ":method: GET\n:scheme: gopher\n:path: /\n:authority: a.test\n", 0, 0},
    {"CONNECT with a path", ":method: CONNECT\n:path: /\n:authority: a.test:1\n", 0, 0},
    {"CONNECT with a scheme", ":method: CONNECT\n:scheme: http\n:authority: a.test:1\n", 0, 0},
    {"CONNECT without authority", ":method: CONNECT\n", 0, 0},
    {"method that is no token", ":method: G(T\n:scheme: http\n:path: /\n:authority: a.test\n", 0,
     0},
    {"no authority and no host", ":method: GET\n:scheme: http\n:path: /\n", 0, 0},
    {"authority with a path", ":method: GET\n:scheme: http\n:path: /\n:authority: a.test/x\n", 0,
     0},
    {"userinfo", ":method: GET\n:scheme: http\n:path: /\n:authority: u@a.test\n", 0, 0},
    {"authority with a query", ":method: GET\n:scheme: http\n:path: /\n:authority: a.test?x\n", 0,
     0},
    {"authority with a fragment", ":method: GET\n:scheme: http\n:path: /\n:authority: a.test#x\n",
     0, 0},
    {"host differs", GET "host: b.test\n", 0, 0},
    {"host twice", GET "host: a.test\nhost: a.test\n", 0, 0},
    {"empty host", GET "host: \n", 0, 0},
    {"content-length twice", GET "content-length: 0\ncontent-length: 0\n", 0, 0},
    {"content-length signed", GET "content-length: +0\n", 0, 0},
    {"content-length empty", GET "content-length: \n", 0, 0},
    {"content-length of more than there is", GET "content-length: 1\n", 0, 0},
    {"content-length too large", GET "content-length: 99999999999999999999\n", 0, 0},
};

Test(h2_rows, heads_that_break_the_rules_reach_nobody)
{
    for (size_t i = 0; i < WR_COUNT_OF(head_cases); i++)
        expect_refused_head(&head_cases[i]);
}

/* ---- row 30: lengths ---- */

static void expect_cut(const char *first, const char *second, unsigned flags)
{
    struct h2_rig *rig = started();
    h2_put_headers(&rig->out, 1, 0, POST "content-length: 5\n");
    h2_put_data(&rig->out, 1, 0, first);
    h2_put_data(&rig->out, 1, flags, second);
    h2_rig_send(rig);
    cr_expect(h2_rig_heard(rig, "RST/1[1] "), "%s", rig->frames.p);
    cr_expect_str_eq(rig->requests.p, "");
    cr_expect(rig->calls[0].collector.aborted);
    cr_expect_eq(rig->calls[0].ended, WR_ERR_BAD_REQUEST);
    h2_rig_free(rig);
}

Test(h2_rows, content_that_is_not_as_long_as_announced)
{
    expect_cut("hel", "lo!", 0);
    expect_cut("hel", "lo!", H2_END_STREAM);
    expect_cut("hel", "", H2_END_STREAM);
}

Test(h2_rows, trailers_with_pseudo_fields_or_without_end)
{
    struct h2_rig *rig = started();
    h2_put_headers(&rig->out, 1, 0, POST);
    h2_put_headers(&rig->out, 1, H2_END_STREAM, ":path: /\n");
    h2_put_headers(&rig->out, 3, 0, POST);
    h2_put_headers(&rig->out, 3, 0, "a: b\n");
    h2_rig_send(rig);
    cr_expect(h2_rig_heard(rig, "RST/1[1] "), "%s", rig->frames.p);
    cr_expect(h2_rig_heard(rig, "RST/3[1] "), "%s", rig->frames.p);
    cr_expect_str_eq(rig->requests.p, "");
    h2_rig_free(rig);
}

Test(h2_rows, methods_that_are_not_served)
{
    struct h2_rig *rig = started();
    h2_put_headers(&rig->out, 1, H2_END_STREAM,
                   ":method: TRACE\n:scheme: http\n:path: /\n:authority: a.test\n");
    h2_rig_send(rig);
    cr_expect(h2_rig_heard(rig, "HEADERS/1+ES[:status=405;"), "%s", rig->frames.p);
    h2_rig_free(rig);
}

Test(h2_rows, asterisk_for_options)
{
    struct h2_rig *rig = started();
    h2_put_headers(&rig->out, 1, H2_END_STREAM,
                   ":method: OPTIONS\n:scheme: http\n:path: *\n:authority: a.test\n");
    h2_rig_send(rig);
    cr_expect_str_eq(rig->requests.p, "OPTIONS a.test * [] \n");
    h2_rig_free(rig);
}

/* ---- what ends the connection ---- */

static void expect_goaway(struct h2_rig *rig, const char *what, unsigned code)
{
    char frame[40];
    h2_rig_send(rig);
    snprintf(frame, sizeof(frame), ",%u] ", code);
    const char *goaway = strstr(rig->frames.p, "GOAWAY[");
    cr_expect(goaway != NULL && strstr(goaway, frame) != NULL, "%s: %s", what, rig->frames.p);
    cr_expect(h2_rig_told(rig, "done:ok "), "%s: %s", what, rig->events.p);
    cr_expect(rig->heard_end, "%s", what);
    cr_expect_eq(rig->worker_metrics.exchanges_active, 0, "%s", what);
    h2_rig_free(rig);
}

#define PROTOCOL_ERROR 1
#define FLOW_CONTROL_ERROR 3
#define STREAM_CLOSED 5
#define FRAME_SIZE_ERROR 6
#define COMPRESSION_ERROR 9
#define ENHANCE_YOUR_CALM 11

Test(h2_rows, connection_errors_are_told_before_the_end)
{
    struct h2_rig *rig = started();
    h2_put_data(&rig->out, 1, 0, "data on an idle stream");
    expect_goaway(rig, "DATA on idle", PROTOCOL_ERROR);

    rig = started();
    h2_put_headers(&rig->out, 2, H2_END_STREAM, GET);
    expect_goaway(rig, "even stream", PROTOCOL_ERROR);

    rig = started();
    h2_put_frame(&rig->out, H2_PRIORITY, 0, 1, "abcd", 4);
    expect_goaway(rig, "PRIORITY of 4 bytes", FRAME_SIZE_ERROR);

    rig = started();
    h2_put_window(&rig->out, 0, 0);
    expect_goaway(rig, "WINDOW_UPDATE 0", PROTOCOL_ERROR);

    rig = started();
    h2_put_window(&rig->out, 0, 0x7fffffff);
    expect_goaway(rig, "WINDOW_UPDATE overflow", FLOW_CONTROL_ERROR);

    rig = started();
    h2_put_frame(&rig->out, H2_CONTINUATION, H2_END_HEADERS, 1, "", 0);
    expect_goaway(rig, "CONTINUATION alone", PROTOCOL_ERROR);

    rig = started();
    h2_put_frame(&rig->out, H2_PUSH_PROMISE, H2_END_HEADERS, 1, "\0\0\0\2", 4);
    expect_goaway(rig, "PUSH_PROMISE from a client", PROTOCOL_ERROR);
}

Test(h2_rows, data_after_end_stream)
{
    struct h2_rig *rig = started();
    rig->on_exchange = h2_rig_wait;
    h2_put_headers(&rig->out, 1, H2_END_STREAM, GET);
    h2_put_data(&rig->out, 1, 0, "more");
    expect_goaway(rig, "DATA on half-closed", STREAM_CLOSED);
}

Test(h2_rows, what_is_no_http2_at_all)
{
    struct h2_rig *rig = h2_rig_new(false);
    h2_rig_start_silent(rig);
    text_say(&rig->out, "GET / HTTP/1.1\r\nhost: a.test\r\n\r\n");
    expect_goaway(rig, "HTTP/1.1", PROTOCOL_ERROR);

    rig = h2_rig_new(false);
    h2_rig_start_silent(rig);
    text_add(&rig->out, H2_PREFACE, sizeof(H2_PREFACE) - 1);
    h2_put_ping(&rig->out, 0, "abcdefgh");
    expect_goaway(rig, "no SETTINGS first", PROTOCOL_ERROR);
}

/* Row 40. */
Test(h2_rows, header_compression_errors)
{
    struct h2_rig *rig = started();
    h2_put_frame(&rig->out, H2_HEADERS, H2_END_HEADERS | H2_END_STREAM, 1, "\xff\xff\xff\xff\x0f",
                 5);
    expect_goaway(rig, "index out of range", COMPRESSION_ERROR);

    rig = started(); /* a size update behind a field: RFC 7541 section 4.2 */
    h2_put_frame(&rig->out, H2_HEADERS, H2_END_HEADERS | H2_END_STREAM, 1, "\x82\x20", 2);
    expect_goaway(rig, "size update misplaced", COMPRESSION_ERROR);

    rig = started(); /* ":path" as Huffman with padding of 0 bits: section 5.2 */
    h2_put_frame(&rig->out, H2_HEADERS, H2_END_HEADERS | H2_END_STREAM, 1, "\x04\x81\x00", 3);
    expect_goaway(rig, "Huffman padding", COMPRESSION_ERROR);
}

Test(h2_rows, streams_above_the_limit)
{
    struct h2_rig *rig = h2_rig_new(false);
    rig->server_options.h2.max_concurrent_streams = 2;
    rig->on_exchange = h2_rig_wait;
    h2_rig_start(rig);
    h2_put_headers(&rig->out, 1, H2_END_STREAM, GET);
    h2_put_headers(&rig->out, 3, H2_END_STREAM, GET);
    h2_rig_send(rig);
    cr_expect_eq(rig->count, 2);
    h2_put_headers(&rig->out, 5, H2_END_STREAM, GET);
    expect_goaway(rig, "third stream", PROTOCOL_ERROR);
}

/* ---- rows 34 to 37: floods ---- */

static uint64_t floods(const struct h2_rig *rig, enum wr_flood kind)
{
    return wr_metric_get(&rig->listener_metrics.h2_floods[kind]);
}

/* COUNT is above the budget of 100. */
static void expect_flood(struct h2_rig *rig, enum wr_flood kind)
{
    h2_rig_send(rig);
    cr_expect_eq(floods(rig, kind), 1, "%s: %s", wr_flood_label(kind), rig->frames.p);
    for (unsigned i = 0; i < rig->count; i++)
        cr_expect_null(rig->calls[i].exchange, "%s: the work is cancelled", wr_flood_label(kind));
    expect_goaway(rig, wr_flood_label(kind), ENHANCE_YOUR_CALM);
}

Test(h2_rows, rapid_reset)
{
    struct h2_rig *rig = started();
    rig->on_exchange = h2_rig_wait;
    for (unsigned i = 0; i < 120; i++) {
        h2_put_headers(&rig->out, 2 * i + 1, H2_END_STREAM, GET);
        h2_put_reset(&rig->out, 2 * i + 1, 8);
    }
    expect_flood(rig, WR_FLOOD_RESET);
}

Test(h2_rows, resets_at_a_rate_a_user_may_have_are_no_flood)
{
    struct h2_rig *rig = started();
    rig->on_exchange = h2_rig_wait;
    for (unsigned i = 0; i < 200; i++) {
        h2_put_headers(&rig->out, 2 * i + 1, H2_END_STREAM, GET);
        h2_put_reset(&rig->out, 2 * i + 1, 8);
        h2_rig_send(rig);
        wr_loop_advance(rig->loop, 100 * WR_MSEC);
    }
    cr_expect_eq(floods(rig, WR_FLOOD_RESET), 0);
    cr_expect_eq(rig->finished, 200);
    cr_expect_eq(rig->calls[199].ended, WR_ERR_CLIENT_RESET);
    h2_rig_free(rig);
}

Test(h2_rows, resets_after_the_response_are_not_held_against_anybody)
{
    struct h2_rig *rig = started();
    for (unsigned i = 0; i < 200; i++) {
        h2_rig_get(rig, 2 * i + 1, "");
        h2_put_reset(&rig->out, 2 * i + 1, 8);
        h2_rig_send(rig);
    }
    cr_expect_eq(floods(rig, WR_FLOOD_RESET), 0);
    cr_expect_eq(rig->finished, 200);
    h2_rig_free(rig);
}

/* Row 35: the client makes the server reset. */
Test(h2_rows, made_you_reset_by_window_overflow)
{
    struct h2_rig *rig = started();
    rig->on_exchange = h2_rig_wait;
    for (unsigned i = 0; i < 120; i++) {
        h2_put_headers(&rig->out, 2 * i + 1, H2_END_STREAM, GET);
        h2_put_window(&rig->out, 2 * i + 1, 0x7fffffff);
    }
    expect_flood(rig, WR_FLOOD_RESET);
}

Test(h2_rows, made_you_reset_by_content_length)
{
    struct h2_rig *rig = started();
    for (unsigned i = 0; i < 120; i++) {
        h2_put_headers(&rig->out, 2 * i + 1, 0, POST "content-length: 1\n");
        h2_put_data(&rig->out, 2 * i + 1, 0, "xy");
        h2_rig_send(rig);
    }
    expect_flood(rig, WR_FLOOD_RESET);
}

Test(h2_rows, made_you_reset_by_malformed_heads)
{
    struct h2_rig *rig = started();
    for (unsigned i = 0; i < 120; i++)
        h2_put_headers(&rig->out, 2 * i + 1, H2_END_STREAM, GET "connection: close\n");
    expect_flood(rig, WR_FLOOD_RESET);
}

/* Row 36. */
Test(h2_rows, continuation_flood)
{
    struct h2_rig *rig = started();
    h2_put_frame(&rig->out, H2_HEADERS, H2_END_STREAM, 1, "", 0);
    for (unsigned i = 0; i < 20; i++)
        h2_put_frame(&rig->out, H2_CONTINUATION, 0, 1, "", 0);
    expect_flood(rig, WR_FLOOD_CONTINUATION);
}

Test(h2_rows, continuations_of_a_large_head_are_fine)
{
    struct h2_rig *rig = started();
    struct text block = {0};
    h2_put_block(&block, GET "a: b\nc: d\n");
    h2_put_frame(&rig->out, H2_HEADERS, H2_END_STREAM, 1, block.p, 10);
    h2_put_frame(&rig->out, H2_CONTINUATION, 0, 1, block.p + 10, 10);
    h2_put_frame(&rig->out, H2_CONTINUATION, H2_END_HEADERS, 1, block.p + 20, block.n - 20);
    text_free(&block);
    h2_rig_send(rig);
    cr_expect_str_eq(rig->requests.p, "GET a.test / [] a=b;c=d;\n");
    h2_rig_free(rig);
}

/* Row 37. */
Test(h2_rows, ping_flood)
{
    struct h2_rig *rig = started();
    for (unsigned i = 0; i < 120; i++)
        h2_put_ping(&rig->out, 0, "abcdefgh");
    expect_flood(rig, WR_FLOOD_PING);
}

Test(h2_rows, settings_flood)
{
    static const uint32_t nothing[] = {0};
    struct h2_rig *rig = started();
    for (unsigned i = 0; i < 120; i++)
        h2_put_settings(&rig->out, nothing);
    expect_flood(rig, WR_FLOOD_SETTINGS);
}

Test(h2_rows, priority_flood)
{
    struct h2_rig *rig = started();
    for (unsigned i = 0; i < 60; i++) {
        h2_put_frame(&rig->out, H2_PRIORITY, 0, 3, "\0\0\0\0\x10", 5);
        h2_put_frame(&rig->out, H2_PRIORITY_UPDATE, 0, 0, "\0\0\0\1u=1", 7);
    }
    expect_flood(rig, WR_FLOOD_PRIORITY);
}

Test(h2_rows, flood_of_empty_data)
{
    struct h2_rig *rig = started();
    h2_put_headers(&rig->out, 1, 0, POST);
    for (unsigned i = 0; i < 60; i++) {
        h2_put_data(&rig->out, 1, 0, "");
        h2_put_frame(&rig->out, H2_DATA, H2_PADDED, 1, "\3\0\0\0", 4);
    }
    expect_flood(rig, WR_FLOOD_EMPTY);
}

Test(h2_rows, flood_of_tiny_window_updates)
{
    struct h2_rig *rig = started();
    for (unsigned i = 0; i < 120; i++)
        h2_put_window(&rig->out, 0, 1);
    expect_flood(rig, WR_FLOOD_WINDOW);
}

Test(h2_rows, window_updates_for_tiny_frames_are_no_flood)
{
    struct h2_rig *rig = started();
    rig->on_exchange = h2_rig_wait;
    h2_rig_get(rig, 1, "");
    h2_rig_answer_head(&rig->calls[0], 200, WR_LENGTH_UNKNOWN, "", 0);
    for (unsigned i = 0; i < 500; i++) {
        wr_message_put(&rig->calls[0].exchange->response, "tick", 4);
        h2_rig_settle(rig);
        h2_put_window(&rig->out, 0, 4);
        h2_put_window(&rig->out, 1, 4);
        h2_rig_send(rig);
    }
    cr_expect_eq(floods(rig, WR_FLOOD_WINDOW), 0);
    cr_expect_eq(h2_reader_data(rig->reader), 2000);
    h2_rig_free(rig);
}

Test(h2_rows, a_flooder_that_does_not_read_holds_little)
{
    struct h2_rig *rig = started();
    rig->deaf = true;
    for (unsigned i = 0; i < 90; i++)
        h2_put_ping(&rig->out, 0, "abcdefgh");
    h2_rig_send(rig);
    cr_expect_leq(rig->host.chunks->used_count, 10);
    rig->deaf = false;
    h2_rig_free(rig);
}

/* Row 39: one entry of the table, again and again. */
Test(h2_rows, hpack_bomb_is_counted_decoded)
{
    struct h2_rig *rig = started();
    struct text block = {0};
    h2_put_block(&block, GET);
    text_add(&block, "\x40\x01x", 3);    /* into the table */
    text_add(&block, "\x7f\x81\x1e", 3); /* 4000 bytes */
    for (unsigned i = 0; i < 4000; i++)
        text_add(&block, "v", 1);
    for (unsigned i = 0; i < 4000; i++)
        text_add(&block, "\xbe", 1); /* index 62 */
    h2_put_frame(&rig->out, H2_HEADERS, H2_END_HEADERS | H2_END_STREAM, 1, block.p, block.n);
    text_free(&block);
    h2_rig_send(rig);
    cr_expect(h2_rig_heard(rig, "HEADERS/1+ES[:status=431;"), "%s", rig->frames.p);
    cr_expect_eq(rig->calls[0].refused, WR_ERR_FIELDS_TOO_LARGE);
    h2_rig_free(rig);
}

/* Row 43. */
Test(h2_rows, resets_and_goaway_leave_nothing)
{
    for (unsigned round = 0; round < 100; round++) {
        struct h2_rig *rig = started();
        rig->on_exchange = h2_rig_wait;
        for (unsigned i = 0; i < 50; i++) {
            h2_put_headers(&rig->out, 2 * i + 1, H2_END_STREAM, GET);
            h2_put_reset(&rig->out, 2 * i + 1, 8);
        }
        h2_put_goaway(&rig->out, 0, 0);
        h2_rig_send(rig);
        cr_expect_eq(rig->finished, 50);
        cr_expect(h2_rig_told(rig, "done:ok "), "%s", rig->events.p);
        h2_rig_free(rig);
    }
}
