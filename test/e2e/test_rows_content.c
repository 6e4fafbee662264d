/* Rows 6, 7, 14 and 15 of the table of hostile input: content of requests. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "support/stage.h"

#define COUNT(cases) (sizeof(cases) / sizeof((cases)[0]))
#define HOST "Host: localhost\r\n"
#define SMUGGLED "GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n" /* 43 bytes */
#define CHUNKED "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"

Test(row_06, chunk_sizes)
{
    static const struct stage_case cases[] = {
        STAGE_CASE("no digit", 400, "g\r\nhello\r\n0\r\n\r\n"),
        STAGE_CASE("empty", 400, "\r\nhello\r\n0\r\n\r\n"),
        STAGE_CASE("plus", 400, "+5\r\nhello\r\n0\r\n\r\n"),
        STAGE_CASE("minus", 400, "-5\r\nhello\r\n0\r\n\r\n"),
        STAGE_CASE("0x", 400, "0x5\r\nhello\r\n0\r\n\r\n"),
        STAGE_CASE("0x0", 400, "0x0\r\n\r\n"),
        STAGE_CASE("underscore", 400, "0_5\r\nhello\r\n0\r\n\r\n"),
        STAGE_CASE("leading space", 400, " 5\r\nhello\r\n0\r\n\r\n"),
        STAGE_CASE("space behind", 400, "5 \r\nhello\r\n0\r\n\r\n"),
        STAGE_CASE("tab behind", 400, "5\t\r\nhello\r\n0\r\n\r\n"),
        STAGE_CASE("junk behind", 400, "5 x\r\nhello\r\n0\r\n\r\n"),
        STAGE_CASE("comma", 400, "5,5\r\nhello\r\n0\r\n\r\n"),
        STAGE_CASE("2^63", 400, "8000000000000000\r\nhello\r\n0\r\n\r\n"),
        STAGE_CASE("2^64 and 5", 400, "10000000000000005\r\nhello\r\n0\r\n\r\n"),
        STAGE_CASE("many digits", 400, "fffffffffffffffffffffff\r\nhello\r\n0\r\n\r\n"),
        STAGE_CASE("LF alone", 400, "5\nhello\r\n0\r\n\r\n"),
        STAGE_CASE("CR alone", 400, "5\rhello\r\n0\r\n\r\n"),
        STAGE_CASE("NUL", 400, "5\0\r\nhello\r\n0\r\n\r\n"),
        STAGE_CASE("more data than said", 400, "3\r\nhello\r\n0\r\n\r\n"),
        STAGE_CASE("less data than said", 400, "6\r\nhello\r\n0\r\n\r\n"),
        STAGE_CASE("LF after data", 400, "5\r\nhello\n0\r\n\r\n"),
        STAGE_CASE("nothing after data", 400, "5\r\nhello0\r\n\r\n"),
        STAGE_CASE("LF after the last size", 400, "0\n\r\n"),
        STAGE_CASE("LF for the end", 400, "0\r\n\n"),
        STAGE_CASE("CR in a trailer", 400, "0\r\nA: b\rc\r\n\r\n"),
        STAGE_CASE("folded trailer", 400, "0\r\nA: b\r\n c\r\n\r\n"),
        STAGE_CASE("trailer without colon", 400, "0\r\n" SMUGGLED),
        STAGE_CASE("space before the colon of a trailer", 400, "0\r\nA : b\r\n\r\n"),
    };
    struct stage *stage = stage_start(NULL);

    stage_expect_content_refused(stage, cases, COUNT(cases));
    stage_stop(stage);
}

Test(row_06, nothing_whole_goes_upstream_when_it_comes_at_once)
{
    struct stage *stage = stage_start(NULL);
    struct peer *peer = stage_connect(stage, false);
    struct reply reply = stage_ask(peer, CHUNKED "5\r\nhello\r\n0x0\r\n\r\n" SMUGGLED, 0);

    cr_expect_eq(reply.status, 400);
    cr_expect(stage_is_over(peer));
    reply_free(&reply);
    peer_free(peer);
    cr_assert(script_wait_ended(stage->script, origin_connections(stage->origin)));
    for (unsigned i = 0; i < script_requests(stage->script); i++)
        cr_expect(!script_request(stage->script, i)->whole);
    stage_fence(stage);
    stage_stop(stage);
}

/* COUNT chunks of one byte, each with an extension of SIZE bytes, and the end. Owner: the caller. */
static char *extended(size_t count, size_t size)
{
    char *text = malloc(count * (size + 16) + 64);
    size_t at = 0;

    for (size_t i = 0; i < count; i++) {
        memcpy(text + at, "1;", 2);
        at += 2;
        memset(text + at, 'e', size);
        at += size;
        memcpy(text + at, "\r\nx\r\n", 5);
        at += 5;
    }
    memcpy(text + at, "0\r\n\r\n", 6);
    return text;
}

Test(row_07, extensions_are_limited)
{
    char *many = extended(400, 100);
    char *large = extended(1, 40000);
    struct stage_case cases[] = {
        STAGE_CASE("LF inside", 400, "5;a\nb\r\nhello\r\n0\r\n\r\n"),
        STAGE_CASE("LF behind", 400, "5;a\nhello\r\n0\r\n\r\n"),
        STAGE_CASE("CR inside", 400, "5;a\rb\r\nhello\r\n0\r\n\r\n"),
        STAGE_CASE("NUL inside", 400, "5;a\0b\r\nhello\r\n0\r\n\r\n"),
        STAGE_CASE("LF in that of the last", 400, "0;a\n\r\n"),
        {"many", many, strlen(many), 400},
        {"a large one", large, strlen(large), 400},
    };
    struct stage *stage = stage_start(NULL);

    stage_expect_content_refused(stage, cases, COUNT(cases));
    stage_stop(stage);
    free(many);
    free(large);
}

Test(row_07, extensions_are_not_passed_on)
{
    struct stage *stage = stage_start(NULL);

    cr_expect_eq(
        stage_status(stage, CHUNKED "5;name=value\r\nhello\r\n3;q=\"a;b\"\r\nyou\r\n0;x\r\n\r\n"),
        200);
    cr_assert(script_wait_whole(stage->script, 1));
    cr_expect_str_eq(script_request(stage->script, 0)->content, "helloyou");
    cr_expect(!strchr(script_request(stage->script, 0)->raw, ';'), "%s",
              script_request(stage->script, 0)->raw);
    stage_stop(stage);
}

/* ---- row 14 ---- */

static const struct stage_options local = {
    .listener = "limits: {request_body: 100KiB}",
    .routes = "{match: {path: /local}, respond: {status: 200, body: local}}, "
              "{match: {path: /gone}, respond: {status: 404}}",
};

/* Either the content is read off and the next request of the connection is answered, or the connection is closed; never is
 * content taken for a request. */
static void expect_drained(struct stage *stage, const char *line, const char *framing,
                           const char *content, int status)
{
    char request[1024];
    bool tls = false;

    do {
        struct peer *peer = stage_connect(stage, tls);
        (void)snprintf(request, sizeof(request),
                       "%s HTTP/1.1\r\nHost: localhost\r\n%s\r\n%s"
                       "GET /gone HTTP/1.1\r\nHost: localhost\r\n\r\n",
                       line, framing, content);
        struct reply reply = stage_ask(peer, request, 0);
        cr_expect_eq(reply.status, status, "%s %s: %d", line, framing, reply.status);
        bool closes = strcasecmp(reply_field(&reply, "connection"), "close") == 0;
        reply_free(&reply);
        if (!closes) {
            reply = peer_reply(peer, false);
            cr_expect_eq(reply.status, 404, "%s %s: then %d", line, framing, reply.status);
            reply_free(&reply);
            peer_half_close(peer);
        }
        cr_expect(stage_is_over(peer), "%s %s: one answer more", line, framing);
        peer_free(peer);
        tls = !tls;
    } while (tls);
}

Test(row_14, content_of_a_local_answer_is_no_request)
{
    struct stage *stage = stage_start(&local);

    expect_drained(stage, "POST /local", "Content-Length: 43\r\n", SMUGGLED, 200);
    expect_drained(stage, "GET /local", "Content-Length: 43\r\n", SMUGGLED, 200);
    expect_drained(stage, "DELETE /gone", "Content-Length: 43\r\n", SMUGGLED, 404);
    expect_drained(stage, "POST /local", "Transfer-Encoding: chunked\r\n",
                   "2b\r\n" SMUGGLED "\r\n0\r\n\r\n", 200);
    expect_drained(stage, "POST /local", "Content-Length: 43\r\nExpect: 100-continue\r\n", SMUGGLED,
                   200);
    expect_drained(stage, "POST /%00", "Content-Length: 43\r\n", SMUGGLED, 400);
    expect_drained(stage, "TRACE /", "Content-Length: 43\r\n", SMUGGLED, 405);
    expect_drained(stage, "POST /", "Content-Length: 200000\r\n", SMUGGLED, 413);
    cr_expect_eq(script_requests(stage->script), 0);
    stage_fence(stage);
    stage_stop(stage);
}

Test(row_14, small_content_is_read_off_and_the_connection_kept)
{
    struct stage *stage = stage_start(&local);
    struct peer *peer = stage_connect(stage, false);

    for (int i = 0; i < 3; i++) {
        struct reply reply = stage_ask(
            peer, "POST /local HTTP/1.1\r\nHost: localhost\r\nContent-Length: 43\r\n\r\n", 0);
        cr_expect_eq(reply.status, 200);
        cr_expect_str_eq(reply.body, "local");
        cr_expect_str_eq(reply_field(&reply, "connection"), "");
        reply_free(&reply);
        cr_assert(peer_say(peer, SMUGGLED)); /* after the answer */
    }
    peer_half_close(peer);
    cr_expect(stage_is_over(peer));
    peer_free(peer);
    stage_stop(stage);
}

Test(row_14, large_content_ends_the_connection)
{
    struct stage *stage = stage_start(&local);
    struct peer *peer = stage_connect(stage, false);
    struct reply reply = stage_ask(
        peer, "POST /local HTTP/1.1\r\nHost: localhost\r\nContent-Length: 90000\r\n\r\n" SMUGGLED,
        0);

    cr_expect_eq(reply.status, 200);
    cr_expect_str_eq(reply_field(&reply, "connection"), "close");
    cr_expect(stage_is_over(peer));
    reply_free(&reply);
    peer_free(peer);
    stage_stop(stage);
}

/* A client that asked whether to send its content need not send it after a final answer: what it says next might be taken for
 * it. */
Test(row_14, content_that_may_not_come_ends_the_connection)
{
    struct stage *stage = stage_start(&local);
    struct peer *peer = stage_connect(stage, false);
    struct reply reply = stage_ask(
        peer, "POST /local HTTP/1.1\r\n" HOST "Content-Length: 43\r\nExpect: 100-continue\r\n\r\n",
        0);

    cr_expect_eq(reply.status, 200);
    cr_expect_str_eq(reply_field(&reply, "connection"), "close");
    cr_expect(stage_is_over(peer));
    reply_free(&reply);
    peer_free(peer);
    stage_stop(stage);
}

/* ---- row 15 ---- */

static void expect_forwarded(struct stage *stage, const char *method, const char *framing,
                             const char *content, unsigned index)
{
    char request[512];
    struct peer *peer = stage_connect(stage, index % 2 == 1);

    (void)snprintf(request, sizeof(request), "%s /x HTTP/1.1\r\n" HOST "%s\r\n%s", method, framing,
                   content);
    struct reply reply = stage_ask(peer, request, 0);
    cr_expect_eq(reply.status, 200, "%s: %d", method, reply.status);
    reply_free(&reply);
    cr_assert(script_wait_whole(stage->script, index + 1));
    const struct script_request *seen = script_request(stage->script, index);
    cr_expect(strncmp(seen->head, method, strlen(method)) == 0, "%s", seen->head);
    cr_expect_str_eq(seen->content, "hello", "%s: the origin got \"%s\"", method, seen->content);
    cr_expect_eq(script_fields(stage->script, index, "content-length") +
                     script_fields(stage->script, index, "transfer-encoding"),
                 1);
    peer_free(peer);
}

Test(row_15, content_goes_with_any_method)
{
    static const char *const methods[] = {"GET", "HEAD", "DELETE", "OPTIONS", "POST"};
    static const struct script_answer empty = {.bytes =
                                                   "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"};
    struct stage *stage = stage_start(NULL);
    unsigned index = 0;

    script_set(stage->script, &empty, 1);
    for (size_t i = 0; i < COUNT(methods); i++) {
        for (int again = 0; again < 2; again++)
            expect_forwarded(stage, methods[i], "Content-Length: 5\r\n", "hello", index++);
        for (int again = 0; again < 2; again++)
            expect_forwarded(stage, methods[i], "Transfer-Encoding: chunked\r\n",
                             "2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n", index++);
    }
    cr_expect_eq(origin_connections(stage->origin), 1, "all of it over one connection, not %u",
                 origin_connections(stage->origin));
    stage_stop(stage);
}
