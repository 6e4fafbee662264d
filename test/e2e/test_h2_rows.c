/* Rows 28 to 33, 36, 39 and 40 of the behaviour table, with raw frames: what never reaches an origin, and what ends a connection. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "support/h2_frames.h"
#include "support/stage.h"

#define PSEUDO ":method: GET\n:scheme: https\n:path: /poison\n:authority: localhost\n"
#define NO_PATH ":method: GET\n:scheme: https\n:authority: localhost\n"
#define NO_AUTHORITY ":method: GET\n:scheme: https\n:path: /poison\n"

static struct h2_peer *open_peer(const struct stage *stage, bool tls)
{
    return h2_peer_open(tls ? stage->tls : stage->plain, tls, NULL);
}

static void expect_asked(struct stage *stage, unsigned index, const char *line, const char *name)
{
    cr_assert(script_wait_requests(stage->script, index + 1), "%s: no %s", name, line);
    const char *head = script_request(stage->script, index)->head;
    cr_expect(strncmp(head, line, strlen(line)) == 0, "%s: the origin got %s", name, head);
}

/* ---- rows 28, 29, 31, 32: heads ---- */

struct head_case {
    const char *name;
    const char *fields;
    int byte; /* stands in place of each "@"; NO_BYTE: none does */
};
#define NO_BYTE (-1)

static void put_case(struct text *out, uint32_t id, const struct head_case *c)
{
    struct text block = {0};

    h2_put_block(&block, c->fields);
    for (size_t i = 0; c->byte != NO_BYTE && i < block.n; i++) {
        if (block.p[i] == '@')
            block.p[i] = (char)c->byte;
    }
    h2_put_frame(out, H2_HEADERS, H2_END_HEADERS | H2_END_STREAM, id, block.p, block.n);
    text_free(&block);
}

/* Between two requests that are served: one has begun before, the other comes after. */
static void expect_refused_head(struct stage *stage, const struct head_case *c, bool tls)
{
    unsigned before = script_requests(stage->script);
    struct h2_peer *h2 = open_peer(stage, tls);

    h2_peer_ask(h2, 1, 0, "POST", "/begun", "");
    h2_put_data(&h2->out, 1, 0, "con");
    h2_peer_send(h2);
    cr_assert(script_wait_requests(stage->script, before + 1), "%s", c->name);
    put_case(&h2->out, 3, c);
    cr_expect(h2_peer_settles(h2), "%s: %s", c->name, h2_peer_log(h2));
    bool reset = strstr(h2_peer_log(h2), "RST/3[1] ") != NULL;
    bool told = strstr(h2_peer_log(h2), "HEADERS/3[:status=400;") != NULL ||
                strstr(h2_peer_log(h2), "HEADERS/3+ES[:status=400;") != NULL;
    cr_expect(reset != told, "%s: %s", c->name, h2_peer_log(h2));
    h2_put_data(&h2->out, 1, H2_END_STREAM, "tent");
    cr_expect(h2_peer_hears(h2, "HEADERS/1[:status=200;"), "%s: %s", c->name, h2_peer_log(h2));
    h2_peer_get(h2, 5, "/after");
    cr_expect(h2_peer_hears(h2, "HEADERS/5[:status=200;"), "%s: %s", c->name, h2_peer_log(h2));
    expect_asked(stage, before, "POST /begun ", c->name);
    expect_asked(stage, before + 1, "GET /after ", c->name);
    cr_expect_str_eq(script_request(stage->script, before)->content, "content", "%s", c->name);
    cr_expect_eq(script_requests(stage->script), before + 2, "%s", c->name);
    h2_peer_free(h2);
}

static void expect_refused_heads(const struct head_case *cases, size_t count)
{
    struct stage *stage = stage_start(NULL);

    for (size_t i = 0; i < count; i++) {
        expect_refused_head(stage, &cases[i], false);
        expect_refused_head(stage, &cases[i], true);
    }
    stage_fence(stage);
    stage_stop(stage);
}

Test(h2_rows, row_28_names_and_values)
{
    static const struct head_case cases[] = {
        {"upper-case name", PSEUDO "Accept: x\n", NO_BYTE},
        {"space in a name", PSEUDO "a b: x\n", NO_BYTE},
        {"space at the end of a name", PSEUDO "a : x\n", NO_BYTE},
        {"colon in a name", PSEUDO "a@b: x\n", ':'},
        {"LF in a name", PSEUDO "a@b: x\n", '\n'},
        {"CR in a name", PSEUDO "a@b: x\n", '\r'},
        {"NUL in a name", PSEUDO "a@b: x\n", 0},
        {"DEL in a name", PSEUDO "a@b: x\n", 0x7f},
        {"byte above 0x7f in a name", PSEUDO "a@b: x\n", 0xe4},
        {"LF in a value", PSEUDO "a: x@smuggled: 1\n", '\n'},
        {"CR in a value", PSEUDO "a: x@smuggled: 1\n", '\r'},
        {"NUL in a value", PSEUDO "a: x@y\n", 0},
        {"leading space", PSEUDO "a:  x\n", NO_BYTE},
        {"trailing space", PSEUDO "a: x \n", NO_BYTE},
        {"leading tab", PSEUDO "a: @x\n", '\t'},
        {"trailing tab", PSEUDO "a: x@\n", '\t'},
        {"LF in the path", NO_PATH ":path: /@poison\n", '\n'},
        {"LF in the method", ":method: GET@\n:scheme: https\n:path: /\n:authority: localhost\n",
         '\n'},
        {"LF in the authority", NO_AUTHORITY ":authority: localhost@x\n", '\n'},
        {"CR in the scheme", ":method: GET\n:scheme: http@\n:path: /\n:authority: localhost\n",
         '\r'},
    };
    expect_refused_heads(cases, WR_COUNT_OF(cases));
}

Test(h2_rows, row_28_empty_name)
{
    struct stage *stage = stage_start(NULL);
    struct h2_peer *h2 = open_peer(stage, true);
    struct text block = {0};

    h2_put_block(&block, PSEUDO);
    text_add(&block, "\0\0\1x", 4);
    h2_put_frame(&h2->out, H2_HEADERS, H2_END_HEADERS | H2_END_STREAM, 1, block.p, block.n);
    text_free(&block);
    cr_expect(h2_peer_settles(h2), "%s", h2_peer_log(h2));
    cr_expect(strstr(h2_peer_log(h2), "RST/1[1] ") ||
                  strstr(h2_peer_log(h2), "HEADERS/1[:status=400;"),
              "%s", h2_peer_log(h2));
    cr_expect_eq(script_requests(stage->script), 0);
    h2_peer_free(h2);
    stage_fence(stage);
    stage_stop(stage);
}

Test(h2_rows, row_29_connection_specific_fields)
{
    static const struct head_case cases[] = {
        {"connection", PSEUDO "connection: close\n", NO_BYTE},
        {"keep-alive", PSEUDO "keep-alive: 1\n", NO_BYTE},
        {"proxy-connection", PSEUDO "proxy-connection: keep-alive\n", NO_BYTE},
        {"transfer-encoding", PSEUDO "transfer-encoding: chunked\n", NO_BYTE},
        {"transfer-encoding, identity", PSEUDO "transfer-encoding: identity\n", NO_BYTE},
        {"upgrade", PSEUDO "upgrade: h2c\n", NO_BYTE},
        {"http2-settings", PSEUDO "http2-settings: x\n", NO_BYTE},
        {"te gzip", PSEUDO "te: gzip\n", NO_BYTE},
        {"te trailers and more", PSEUDO "te: trailers, gzip\n", NO_BYTE},
    };
    expect_refused_heads(cases, WR_COUNT_OF(cases));
}

Test(h2_rows, row_30_lengths_that_are_none)
{
    static const struct head_case cases[] = {
        {"twice", PSEUDO "content-length: 0\ncontent-length: 0\n", NO_BYTE},
        {"signed", PSEUDO "content-length: +0\n", NO_BYTE},
        {"empty", PSEUDO "content-length: \n", NO_BYTE},
        {"list", PSEUDO "content-length: 0, 0\n", NO_BYTE},
        {"of content that does not come", PSEUDO "content-length: 1\n", NO_BYTE},
        {"beyond 2^63", PSEUDO "content-length: 99999999999999999999\n", NO_BYTE},
    };
    expect_refused_heads(cases, WR_COUNT_OF(cases));
}

Test(h2_rows, row_31_pseudo_fields)
{
    static const struct head_case cases[] = {
        {"no method", ":scheme: https\n:path: /poison\n:authority: localhost\n", NO_BYTE},
        {"no scheme", ":method: GET\n:path: /poison\n:authority: localhost\n", NO_BYTE},
        {"no path", NO_PATH, NO_BYTE},
        {"empty path", NO_PATH ":path: \n", NO_BYTE},
        {"path without a slash", NO_PATH ":path: poison\n", NO_BYTE},
        {"path of another form", NO_PATH ":path: http://localhost/poison\n", NO_BYTE},
        {"asterisk for GET", NO_PATH ":path: *\n", NO_BYTE},
        {"path with a fragment", NO_PATH ":path: /poison#f\n", NO_BYTE},
        {"path with NUL encoded", NO_PATH ":path: /poison%00\n", NO_BYTE},
        {"path with a space", NO_PATH ":path: /poison HTTP/1.1\n", NO_BYTE},
        {"path with a byte above 0x7e", NO_PATH ":path: /poison@\n", 0xc3},
        {"path twice", PSEUDO ":path: /b\n", NO_BYTE},
        {"method twice", PSEUDO ":method: GET\n", NO_BYTE},
        {"scheme twice", PSEUDO ":scheme: https\n", NO_BYTE},
        {"authority twice", PSEUDO ":authority: localhost\n", NO_BYTE},
        {"after a regular field", NO_PATH "a: b\n:path: /poison\n", NO_BYTE},
        {"unknown", PSEUDO ":fun: 1\n", NO_BYTE},
        {"of responses", PSEUDO ":status: 200\n", NO_BYTE},
        {":protocol without CONNECT", PSEUDO ":protocol: websocket\n", NO_BYTE},
        {"method that is no token",
         ":method: GET /x HTTP/1.1\n:scheme: https\n:path: /\n:authority: localhost\n", NO_BYTE},
        {"CONNECT with a path", ":method: CONNECT\n:path: /\n:authority: localhost:1\n", NO_BYTE},
        {"CONNECT without authority", ":method: CONNECT\n", NO_BYTE},
    };
    expect_refused_heads(cases, WR_COUNT_OF(cases));
}

Test(h2_rows, row_32_authority)
{
    static const struct head_case cases[] = {
        {"none and no host", NO_AUTHORITY, NO_BYTE},
        {"empty", NO_AUTHORITY ":authority: \n", NO_BYTE},
        {"with a path", NO_AUTHORITY ":authority: localhost/x\n", NO_BYTE},
        {"with userinfo", NO_AUTHORITY ":authority: u@localhost\n", NO_BYTE},
        {"with a query", NO_AUTHORITY ":authority: localhost?x\n", NO_BYTE},
        {"with a fragment", NO_AUTHORITY ":authority: localhost#x\n", NO_BYTE},
        {"with a space", NO_AUTHORITY ":authority: localhost x\n", NO_BYTE},
        {"host differs", PSEUDO "host: other.test\n", NO_BYTE},
        {"host twice", PSEUDO "host: localhost\nhost: localhost\n", NO_BYTE},
        {"empty host", PSEUDO "host: \n", NO_BYTE},
    };
    expect_refused_heads(cases, WR_COUNT_OF(cases));
}

/* ---- rows 32, 33: what is served ---- */

Test(h2_rows, rows_32_and_33_host_and_cookie_once)
{
    struct stage *stage = stage_start(NULL);
    struct h2_peer *h2 = open_peer(stage, true);

    h2_peer_ask(h2, 1, H2_END_STREAM, "GET", "/", "cookie: a=1\nx: y\ncookie: b=2\ncookie: c=3\n");
    cr_assert(h2_peer_hears(h2, "HEADERS/1[:status=200;"), "%s", h2_peer_log(h2));
    cr_expect_str_eq(script_field(stage->script, 0, "cookie"), "a=1; b=2; c=3");
    cr_expect_eq(script_fields(stage->script, 0, "cookie"), 1);
    h2_peer_ask(h2, 3, H2_END_STREAM, "GET", "/", "host: LOCALHOST\n");
    cr_assert(h2_peer_hears(h2, "HEADERS/3[:status=200;"), "%s", h2_peer_log(h2));
    h2_put_headers(&h2->out, 5, H2_END_STREAM, NO_AUTHORITY "host: localhost\n");
    cr_assert(h2_peer_hears(h2, "HEADERS/5[:status=200;"), "%s", h2_peer_log(h2));
    for (unsigned i = 0; i < 3; i++) {
        cr_expect_str_eq(script_field(stage->script, i, "host"), "localhost");
        cr_expect_eq(script_fields(stage->script, i, "host"), 1);
        cr_expect_eq(script_fields(stage->script, i, "te"), 0);
    }
    h2_peer_free(h2);
    stage_stop(stage);
}

/* ---- row 30: content of another length than was said ---- */

static void expect_content_refused(struct stage *stage, const char *rest, unsigned flags, bool tls)
{
    unsigned before = script_requests(stage->script);
    unsigned ended = script_ended(stage->script);
    struct h2_peer *h2 = open_peer(stage, tls);

    h2_peer_ask(h2, 1, 0, "POST", "/", "content-length: 5\n");
    h2_put_data(&h2->out, 1, 0, "hel");
    h2_peer_send(h2);
    cr_assert(script_wait_requests(stage->script, before + 1));
    h2_put_data(&h2->out, 1, flags, rest);
    cr_expect(h2_peer_settles(h2), "%s", h2_peer_log(h2));
    cr_expect(strstr(h2_peer_log(h2), "RST/1[1] "), "\"%s\": %s", rest, h2_peer_log(h2));
    cr_assert(script_wait_ended(stage->script, ended + 1), "its connection is used again");
    cr_expect(!script_request(stage->script, before)->whole, "\"%s\": whole at the origin", rest);
    h2_peer_get(h2, 3, "/after");
    cr_expect(h2_peer_hears(h2, "HEADERS/3[:status=200;"), "%s", h2_peer_log(h2));
    expect_asked(stage, before + 1, "GET /after ", rest);
    h2_peer_free(h2);
    stage_fence(stage);
}

Test(h2_rows, row_30_content_of_another_length)
{
    struct stage *stage = stage_start(NULL);

    for (int tls = 0; tls < 2; tls++) {
        expect_content_refused(stage, "lo!", 0, tls);
        expect_content_refused(stage, "lo!", H2_END_STREAM, tls);
        expect_content_refused(stage, "l", H2_END_STREAM, tls);
        expect_content_refused(stage, "", H2_END_STREAM, tls);
    }
    stage_stop(stage);
}
