/* Rows 58 and 59 of the table of hostile input: fields that are for one hop, and fields that claim something. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "support/stage.h"

#define COUNT(cases) (sizeof(cases) / sizeof((cases)[0]))
#define HOST "Host: localhost\r\n"
#define GET "GET / HTTP/1.1\r\n" HOST

/* Asks REQUEST, which must reach the origin as the first. */
static struct stage *ask(const struct stage_options *options, const char *request)
{
    struct stage *stage = stage_start(options);
    int status = stage_status(stage, request);

    cr_assert_eq(status, 200, "%d", status);
    cr_assert(script_wait_requests(stage->script, 1));
    return stage;
}

static void expect_field(struct stage *stage, const char *name, const char *value)
{
    const char *seen = script_field(stage->script, 0, name);

    cr_expect_str_eq(seen, value, "%s: %s", name, seen);
    cr_expect_eq(script_fields(stage->script, 0, name), *value != '\0', "%u of %s",
                 script_fields(stage->script, 0, name), name);
}

/* ---- row 58 ---- */

Test(row_58, requests)
{
    struct stage *stage = ask(
        NULL, GET "Connection: keep-alive, X-One , ,X-Two\r\nX-One: 1\r\nx-two: 2\r\nX-Three: 3\r\n"
                  "Connection: x-four\r\nX-Four: 4\r\nKeep-Alive: timeout=5\r\n"
                  "Proxy-Connection: keep-alive\r\nTE: trailers\r\nUpgrade: cow\r\n\r\n");

    expect_field(stage, "connection", "");
    expect_field(stage, "keep-alive", "");
    expect_field(stage, "proxy-connection", "");
    expect_field(stage, "te", "");
    expect_field(stage, "upgrade", "");
    expect_field(stage, "x-one", "");
    expect_field(stage, "x-two", "");
    expect_field(stage, "x-three", "3");
    expect_field(stage, "x-four", "");
    stage_stop(stage);
}

Test(row_58, nominations_that_have_no_effect)
{
    struct stage *stage = ask(
        NULL,
        "POST / HTTP/1.1\r\n" HOST
        "Connection: Host, Content-Length, Authorization, Cookie, X-Forwarded-For, X-Real-IP\r\n"
        "Connection: x-forwarded-proto, x-forwarded-host, x-forwarded-anything, x-request-id, "
        "via\r\n"
        "Connection: content-type, transfer-encoding\r\n"
        "Authorization: Basic eA==\r\nCookie: a=b\r\nContent-Type: text/plain\r\n"
        "Content-Length: 5\r\n\r\nhello");

    expect_field(stage, "host", "localhost");
    expect_field(stage, "authorization", "Basic eA==");
    expect_field(stage, "cookie", "a=b");
    expect_field(stage, "content-type", "text/plain");
    expect_field(stage, "content-length", "5");
    expect_field(stage, "x-forwarded-for", "127.0.0.1");
    expect_field(stage, "x-forwarded-proto", "http");
    expect_field(stage, "x-forwarded-host", "localhost");
    expect_field(stage, "via", "1.1 weir");
    cr_expect_eq(script_fields(stage->script, 0, "x-request-id"), 1);
    cr_assert(script_wait_whole(stage->script, 1));
    cr_expect_str_eq(script_request(stage->script, 0)->content, "hello");
    stage_stop(stage);
}

/* Each is compared with each field: there is a limit to it. */
Test(row_58, endless_nominations)
{
    char request[16384] = GET "Connection: ";
    size_t n = strlen(request);

    while (n < 12000)
        n += (size_t)snprintf(request + n, sizeof(request) - n, "x%zu,", n);
    (void)snprintf(request + n, sizeof(request) - n, "end\r\n\r\n");
    struct stage *stage = stage_start(NULL);
    cr_expect_eq(stage_status(stage, request), 400);
    cr_expect_eq(script_requests(stage->script), 0);
    stage_stop(stage);
}

Test(row_58, responses)
{
    static const struct script_answer answer = {
        .bytes = "HTTP/1.1 200 OK\r\nConnection: X-One, Set-Cookie, Content-Type, keep-alive\r\n"
                 "Keep-Alive: timeout=5\r\nProxy-Connection: keep-alive\r\nX-One: 1\r\nX-Two: 2\r\n"
                 "Set-Cookie: a=b\r\nContent-Type: text/plain\r\nUpgrade: cow\r\n"
                 "Content-Length: 2\r\n\r\nok"};
    struct stage *stage = stage_start(NULL);
    struct peer *peer = stage_connect(stage, false);

    script_set(stage->script, &answer, 1);
    struct reply reply = stage_ask(peer, GET "\r\n", 0);
    cr_expect_eq(reply.status, 200);
    cr_expect_str_eq(reply_field(&reply, "connection"), "");
    cr_expect_str_eq(reply_field(&reply, "keep-alive"), "");
    cr_expect_str_eq(reply_field(&reply, "proxy-connection"), "");
    cr_expect_str_eq(reply_field(&reply, "upgrade"), "");
    cr_expect_str_eq(reply_field(&reply, "x-one"), "");
    cr_expect_str_eq(reply_field(&reply, "x-two"), "2");
    cr_expect_str_eq(reply_field(&reply, "set-cookie"), "a=b");
    cr_expect_str_eq(reply_field(&reply, "content-type"), "text/plain");
    cr_expect_str_eq(reply_field(&reply, "via"), "1.1 weir");
    reply_free(&reply);
    peer_free(peer);
    stage_stop(stage);
}

/* ---- row 59 ---- */

#define FORGED                                                                                 \
    "X-Forwarded-For: 6.6.6.6\r\nX-Forwarded-For: 7.7.7.7\r\nX-Forwarded-Proto: gopher\r\n"    \
    "X-Forwarded-Host: evil\r\nX-Forwarded-Port: 66\r\nX-Forwarded-Anything: evil\r\n"         \
    "Forwarded: for=6.6.6.6\r\nX-Real-IP: 6.6.6.6\r\nX-Client-Cert: evil\r\nEarly-Data: 1\r\n" \
    "X-Request-Id: evil\r\n"

static void expect_nothing_forged(struct stage *stage)
{
    expect_field(stage, "x-forwarded-for", "127.0.0.1");
    expect_field(stage, "x-forwarded-proto", "http");
    expect_field(stage, "x-forwarded-host", "localhost");
    expect_field(stage, "x-forwarded-port", "");
    expect_field(stage, "x-forwarded-anything", "");
    expect_field(stage, "forwarded", "");
    expect_field(stage, "x-real-ip", "");
    expect_field(stage, "x-client-cert", "");
    expect_field(stage, "early-data", "");
    cr_expect_eq(script_fields(stage->script, 0, "x-request-id"), 1);
    cr_expect_eq(strlen(script_field(stage->script, 0, "x-request-id")), 32);
    cr_expect(!strstr(script_request(stage->script, 0)->head, "evil") &&
                  !strstr(script_request(stage->script, 0)->head, "6.6.6.6"),
              "%s", script_request(stage->script, 0)->head);
}

Test(row_59, forged_fields)
{
    struct stage *stage = ask(NULL, GET FORGED "\r\n");

    expect_nothing_forged(stage);
    stage_stop(stage);
}

Test(row_59, forged_fields_from_one_who_is_not_in_the_list)
{
    struct stage *stage =
        ask(&(struct stage_options){.listener =
                                        "forwarded: {trust: [127.0.0.8/29, 10.0.0.0/8, \"::1\"]}"},
            GET FORGED "\r\n");

    expect_nothing_forged(stage);
    stage_stop(stage);
}

Test(row_59, twins_with_underscores)
{
    static const char twins[] =
        GET "X_Forwarded_For: 6.6.6.6\r\nX_Forwarded-For: 6.6.6.6\r\nX-Forwarded_Proto: gopher\r\n"
            "X_Real_IP: 6.6.6.6\r\nContent_Length: 5\r\nTransfer_Encoding: chunked\r\nAny_Thing: "
            "1\r\n\r\n";
    struct stage *stage = ask(NULL, twins);

    expect_nothing_forged(stage);
    cr_expect(!strchr(script_request(stage->script, 0)->head, '_'), "%s",
              script_request(stage->script, 0)->head);
    stage_stop(stage);

    stage = ask(&(struct stage_options){.listener = "underscores: true"}, twins);
    expect_field(stage, "any_thing", "1");
    expect_field(stage, "x-forwarded-for", "127.0.0.1");
    stage_stop(stage);
}

static void ask_from(struct stage *stage, const char *source, const char *request)
{
    struct peer *peer = peer_connect_from(source, stage->plain);
    struct reply reply = stage_ask(peer, request, 0);

    cr_assert_eq(reply.status, 200);
    reply_free(&reply);
    peer_free(peer);
}

Test(row_59, fields_of_those_who_are_trusted)
{
    struct stage *stage =
        stage_start(&(struct stage_options){.listener = "forwarded: {trust: [127.0.0.5/32]}"});

    ask_from(
        stage, "127.0.0.5",
        GET
        "X-Forwarded-For: 1.2.3.4\r\nX-Forwarded-For: 5.6.7.8, 9.9.9.9\r\n"
        "X-Forwarded-Proto: https\r\nX-Forwarded-Host: example.com\r\nX-Request-Id: abc-1\r\n\r\n");
    expect_field(stage, "x-forwarded-for", "1.2.3.4, 5.6.7.8, 9.9.9.9, 127.0.0.5");
    expect_field(stage, "x-forwarded-proto", "https");
    expect_field(stage, "x-forwarded-host", "example.com");
    expect_field(stage, "x-request-id", "abc-1");
    ask_from(stage, "127.0.0.6", GET "X-Forwarded-For: 1.2.3.4\r\n\r\n");
    cr_expect_str_eq(script_field(stage->script, 1, "x-forwarded-for"), "127.0.0.6");
    stage_stop(stage);
}

Test(row_59, over_tls)
{
    struct stage *stage = stage_start(NULL);
    struct peer *peer = stage_connect(stage, true);
    struct reply reply = stage_ask(peer, GET "X-Forwarded-Proto: http\r\n\r\n", 0);

    cr_expect_eq(reply.status, 200);
    expect_field(stage, "x-forwarded-proto", "https");
    reply_free(&reply);
    peer_free(peer);
    stage_stop(stage);
}
