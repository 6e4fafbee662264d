/* Rows 28 to 32 and 40 of the behaviour table, with raw frames: what must never reach anybody, and what ends the connection. */
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
    {"CONNECT without a port", ":method: CONNECT\n:authority: a.test\n", 0, 0},
    {"CONNECT with an empty port", ":method: CONNECT\n:authority: a.test:\n", 0, 0},
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

/* Row 21. What breaks the rules of HTTP/2, or contradicts what came before, is a stream error; what only has no place there is left out. */
struct trailer_case {
    const char *fields;
    bool reset;
};

static void expect_trailers(const struct trailer_case *c)
{
    char fields[128];
    struct h2_rig *rig = started();
    (void)snprintf(fields, sizeof(fields), "x-sum: 7\n%s", c->fields);
    h2_put_headers(&rig->out, 1, 0, POST);
    h2_put_data(&rig->out, 1, 0, "hello");
    h2_put_headers(&rig->out, 1, H2_END_STREAM, fields);
    h2_rig_send(rig);
    if (c->reset) {
        cr_expect(h2_rig_heard(rig, "RST/1[1] "), "%s: %s", c->fields, rig->frames.p);
        cr_expect_str_eq(rig->requests.p, "", "%s: %s", c->fields, rig->requests.p);
        cr_expect(rig->calls[0].collector.aborted, "%s", c->fields);
    } else {
        cr_expect_not(h2_rig_heard(rig, "RST/"), "%s: %s", c->fields, rig->frames.p);
        cr_expect_str_eq(rig->requests.p, "POST a.test / [hello]  +x-sum=7;\n", "%s: %s", c->fields,
                         rig->requests.p);
    }
    h2_rig_get(rig, 3, "");
    cr_expect(h2_rig_heard(rig, "HEADERS/3+ES[:status=200;"), "%s", c->fields);
    h2_rig_free(rig);
}

Test(h2_rows, trailers_that_do_not_belong_there)
{
    static const struct trailer_case cases[] = {
        {"", false},
        {":path: /\n", true},
        {":authority: b.test\n", true},
        {":status: 200\n", true},
        {":fun: 1\n", true},
        {"connection: close\n", true},
        {"transfer-encoding: chunked\n", true},
        {"upgrade: h2c\n", true},
        {"te: gzip\n", true},
        {"Upper: x\n", true},
        {"content-length: 6\n", true},
        {"content-length: 5\n", false},
        {"host: b.test\n", false},
        {"te: trailers\n", false},
        {"expect: 100-continue\n", false},
        {"authorization: x\n", false},
        {"cookie: a=b\n", false},
        {"x-forwarded-for: 6.6.6.6\n", false},
    };
    for (size_t i = 0; i < WR_COUNT_OF(cases); i++)
        expect_trailers(&cases[i]);
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

/* ---- RFC 9113 section 5.1.2 ---- */

static struct h2_rig *full_rig(void)
{
    struct h2_rig *rig = h2_rig_new(false);
    rig->server_options.h2.max_concurrent_streams = 2;
    rig->on_exchange = h2_rig_wait;
    return rig;
}

Test(h2_rows, a_stream_above_the_limit_is_refused_and_no_other)
{
    struct h2_rig *rig = full_rig();
    h2_rig_start(rig);
    cr_expect(h2_rig_heard(rig, ",3=2,"), "the client is told: %s", rig->frames.p);
    for (uint32_t id = 1; id <= 5; id += 2)
        h2_put_headers(&rig->out, id, id == 5 ? 0 : H2_END_STREAM, POST);
    h2_put_data(&rig->out, 5, H2_END_STREAM, "for nobody");
    h2_rig_send(rig);
    cr_expect(h2_rig_heard(rig, "RST/5[7] "), "%s", rig->frames.p);
    cr_expect_eq(rig->count, 2);
    h2_rig_answer(&rig->calls[0], 200, "one");
    h2_rig_answer(&rig->calls[1], 200, "two");
    h2_rig_settle(rig);
    cr_expect(h2_rig_heard(rig, "DATA/1+ES[one] "), "%s", rig->frames.p);
    cr_expect(h2_rig_heard(rig, "DATA/3+ES[two] "), "%s", rig->frames.p);
    h2_rig_get(rig, 7, "");
    cr_expect_eq(rig->count, 3, "there is room again");
    cr_expect_not(h2_rig_heard(rig, "GOAWAY"), "%s", rig->frames.p);
    h2_rig_free(rig);
}

Test(h2_rows, streams_above_the_limit_before_the_client_knows_it)
{
    struct h2_rig *rig = full_rig();
    static const uint32_t nothing[] = {0};
    h2_rig_start_silent(rig);
    text_add(&rig->out, H2_PREFACE, sizeof(H2_PREFACE) - 1);
    h2_put_settings(&rig->out, nothing);
    for (uint32_t id = 1; id <= 5; id += 2)
        h2_put_headers(&rig->out, id, H2_END_STREAM, GET);
    h2_rig_send(rig);
    cr_expect(h2_rig_heard(rig, "RST/5[7] "), "%s", rig->frames.p);
    cr_expect_eq(rig->count, 2);
    h2_rig_free(rig);
}

/* What is refused is still decompressed. */
Test(h2_rows, the_fields_of_a_refused_stream_are_in_the_table)
{
    struct h2_rig *rig = full_rig();
    struct text block = {0};
    h2_rig_start(rig);
    h2_put_headers(&rig->out, 1, H2_END_STREAM, GET);
    h2_put_headers(&rig->out, 3, H2_END_STREAM, GET);
    h2_put_block(&block, GET);
    text_add(&block, "\x40\1a\1b", 5); /* "a: b", to be remembered */
    h2_put_frame(&rig->out, H2_HEADERS, H2_END_HEADERS | H2_END_STREAM, 5, block.p, block.n);
    h2_rig_send(rig);
    h2_rig_answer(&rig->calls[0], 200, "one");
    h2_rig_settle(rig);
    text_free(&block);
    h2_put_block(&block, GET);
    text_add(&block, "\xbe", 1); /* the newest entry */
    h2_put_frame(&rig->out, H2_HEADERS, H2_END_HEADERS | H2_END_STREAM, 7, block.p, block.n);
    h2_rig_send(rig);
    text_free(&block);
    cr_assert_eq(rig->count, 3, "%s", rig->frames.p);
    cr_expect_not_null(
        wr_fields_find_name(&rig->calls[2].exchange->request.head->fields, WR_STR("a")));
    h2_rig_free(rig);
}

Test(h2_rows, whoever_goes_on_above_the_limit_is_ended)
{
    struct h2_rig *rig = full_rig();
    h2_rig_start(rig);
    for (uint32_t id = 1; id < 2 * 110; id += 2)
        h2_put_headers(&rig->out, id, H2_END_STREAM, GET);
    expect_goaway(rig, "108 refused streams, of which 100 are free", ENHANCE_YOUR_CALM);
}

/* The budget comes back with time, the room for what nobody reads does not. */
Test(h2_rows, refused_streams_that_are_not_read_are_bounded)
{
    struct h2_rig *rig = full_rig();
    char content[1000] = {0};
    h2_rig_start(rig);
    h2_put_window(&rig->out, 0, 0x7fff0000 - 65535);
    h2_put_headers(&rig->out, 1, H2_END_STREAM, GET);
    h2_put_window(&rig->out, 1, 0x7fff0000 - 65535);
    h2_put_headers(&rig->out, 3, H2_END_STREAM, GET);
    h2_rig_send(rig);
    rig->deaf = true;
    struct wr_message *response = &rig->calls[0].exchange->response;
    h2_rig_answer_head(&rig->calls[0], 200, WR_LENGTH_UNKNOWN, "", 0);
    for (; wr_message_room(response) > 0; h2_rig_settle(rig)) {
        while (wr_message_room(response) > 0)
            wr_message_put(response, content, sizeof(content));
    }
    for (uint32_t id = 5; id < 5 + 2 * 110; id += 2) {
        h2_put_headers(&rig->out, id, H2_END_STREAM, GET);
        h2_rig_send(rig);
        wr_loop_advance(rig->loop, WR_SEC / 2);
    }
    rig->deaf = false;
    expect_goaway(rig, "110 streams", PROTOCOL_ERROR);
}
