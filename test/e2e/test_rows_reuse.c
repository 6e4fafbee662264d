/* Rows 22 to 25 and 63 of the table of hostile input: early answers, connections that are used again, tries, half-closes. */
#include <criterion/criterion.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/stage.h"

#define COUNT(cases) (sizeof(cases) / sizeof((cases)[0]))
#define HOST "Host: localhost\r\n"
#define GET "GET / HTTP/1.1\r\n" HOST "\r\n"
#define OK "HTTP/1.1 200 OK\r\n"

/* ---- row 22 ---- */

static const struct script_answer too_large = {
    .bytes = "HTTP/1.1 413 No\r\nContent-Length: 3\r\n\r\nbig", .when = SCRIPT_DEAF};

static struct peer *begin_upload(struct stage *stage, bool tls)
{
    static char part[64 * 1024];
    struct peer *peer = stage_connect(stage, tls);

    script_set(stage->script, &too_large, 1);
    cr_assert(peer_say(peer, "POST / HTTP/1.1\r\n" HOST "Content-Length: 100000000\r\n\r\n"));
    cr_assert(peer_write(peer, part, sizeof(part)));
    return peer;
}

static void expect_early(struct peer *peer)
{
    struct reply reply = peer_reply(peer, false);

    cr_expect_eq(reply.status, 413);
    cr_expect_str_eq(reply.body, "big");
    cr_expect(reply.whole);
    cr_expect_str_eq(reply_field(&reply, "connection"), "close");
    cr_expect(stage_is_over(peer));
    reply_free(&reply);
    peer_free(peer);
}

Test(row_22, early_answer_comes_while_uploading)
{
    struct stage *stage = stage_start(NULL);

    expect_early(begin_upload(stage, false));
    expect_early(begin_upload(stage, true));
    stage_stop(stage);
}

Test(row_22, early_answer_is_not_lost_to_a_client_that_goes_on_writing)
{
    static char part[1024 * 1024];
    struct stage *stage = stage_start(NULL);
    struct peer *peer = begin_upload(stage, false);

    cr_assert(weir_metric_becomes(
        stage->weir, "weir_requests_total{listener=\"plain\",class=\"4xx\"}", 1, 5000));
    for (int i = 0; i < 16; i++)
        cr_assert(peer_write(peer, part, sizeof(part)), "broken after %d MiB", i);
    expect_early(peer);
    stage_stop(stage);
}

Test(row_22, small_rest_keeps_the_connection)
{
    static const struct script_answer answers[] = {{.when = SCRIPT_EARLY}, {0}};
    struct stage *stage = stage_start(NULL);
    struct peer *peer = stage_connect(stage, false);

    script_set(stage->script, answers, 2);
    struct reply reply =
        stage_ask(peer, "POST / HTTP/1.1\r\n" HOST "Content-Length: 1000\r\n\r\nbegun", 0);
    cr_expect_eq(reply.status, 200);
    cr_expect_str_eq(reply_field(&reply, "connection"), "");
    reply_free(&reply);
    char rest[995];
    memset(rest, 'r', sizeof(rest));
    cr_assert(peer_write(peer, rest, sizeof(rest)));
    reply = stage_ask(peer, "GET /next HTTP/1.1\r\n" HOST "\r\n", 0);
    cr_expect_eq(reply.status, 200);
    reply_free(&reply);
    peer_free(peer);
    cr_assert(script_wait_requests(stage->script, 2));
    cr_expect(strncmp(script_request(stage->script, 1)->head, "GET /next ", 10) == 0);
    cr_expect_eq(script_request(stage->script, 0)->content_n, 1000);
    cr_expect_eq(script_request(stage->script, 1)->connection, 1, "the rest was sent");
    stage_stop(stage);
}

/* ---- row 23 ---- */

static sem_t go;
static atomic_uint visits;

/* The first connection gets an answer nobody asked for when the test says so. */
static void serve_stray(struct peer *client, void *arg)
{
    char head[4096];

    (void)arg;
    if (atomic_fetch_add(&visits, 1) == 0) {
        if (peer_read_head(client, head, sizeof(head)) &&
            peer_say(client, OK "Content-Length: 2\r\n\r\nok")) {
            (void)sem_wait(&go);
            (void)peer_say(client, OK "Content-Length: 6\r\n\r\npoison");
        }
        (void)peer_wait_end(client);
        return;
    }
    while (peer_read_head(client, head, sizeof(head)))
        if (!peer_say(client, OK "Content-Length: 2\r\n\r\nok"))
            return;
}

static void expect_ok(struct peer *peer)
{
    struct reply reply = stage_ask(peer, GET, 0);

    cr_expect_eq(reply.status, 200);
    cr_expect_str_eq(reply.body, "ok");
    reply_free(&reply);
}

Test(row_23, bytes_on_an_idle_connection)
{
    (void)sem_init(&go, 0, 0);
    struct stage *stage = stage_start(&(struct stage_options){.serve = serve_stray});
    struct peer *peer = stage_connect(stage, false);

    expect_ok(peer);
    (void)sem_post(&go);
    cr_assert(weir_metric_becomes(stage->weir,
                                  "weir_upstream_stray_bytes_total{cluster=\"origin\"}", 1, 5000));
    expect_ok(peer);
    cr_expect_eq(origin_connections(stage->origin), 2);
    peer_free(peer);
    stage_stop(stage);
}

Test(row_23, two_answers_to_one_request)
{
    static const struct script_answer twice = {.bytes = OK "Content-Length: 2\r\n\r\nok" OK
                                                           "Content-Length: 6\r\n\r\npoison"};
    struct stage *stage = stage_start(NULL);
    struct peer *peer = stage_connect(stage, false);

    script_set(stage->script, &twice, 1);
    for (unsigned i = 0; i < 30; i++) {
        expect_ok(peer);
        cr_expect(script_wait_ended(stage->script, i + 1), "connection %u is used again", i);
    }
    cr_expect_eq(origin_connections(stage->origin), 30);
    peer_free(peer);
    stage_stop(stage);
}

/* ---- rows 24 and 63 ---- */

static const struct stage_options trusting = {.listener = "forwarded: {trust: [127.0.0.0/8]}"};

/* A first request makes a connection that the origin closes when the second, REQUEST, has come. */
static int ask_reused(struct stage *stage, const char *request, const char *part,
                      enum script_then then)
{
    struct script_answer answers[] = {{0}, {.bytes = part, .then = then}, {0}};
    struct peer *peer = stage_connect(stage, false);

    script_set(stage->script, answers, COUNT(answers));
    expect_ok(peer);
    struct reply reply = stage_ask(peer, request, 0);
    int status = reply.status;
    reply_free(&reply);
    peer_free(peer);
    script_set(stage->script, NULL, 0);
    return status;
}

static void expect_tried_again(const char *request, enum script_then then)
{
    struct stage *stage = stage_start(&trusting);
    int status = ask_reused(stage, request, "", then);

    cr_expect_eq(status, 200, "%s: %d", request, status);
    cr_assert(script_wait_whole(stage->script, 3), "%s: not tried again", request);
    const struct script_request *first = script_request(stage->script, 1);
    const struct script_request *second = script_request(stage->script, 2);
    cr_expect_eq(first->connection, 1);
    cr_expect_eq(second->connection, 2);
    cr_expect_str_eq(first->head, second->head, "the tries differ:\n%s%s", first->head,
                     second->head);
    cr_expect_str_eq(first->raw, second->raw);
    cr_expect_eq(script_requests(stage->script), 3);
    cr_expect_eq(weir_metric(stage->weir, "weir_upstream_retries_total{cluster=\"origin\"}"), 1);
    stage_stop(stage);
}

#define FORWARDED "X-Forwarded-For: 1.2.3.4\r\nX-Forwarded-Host: example.com\r\nVia: 1.1 before\r\n"

Test(row_24, idempotent_requests_are_tried_once_more)
{
    expect_tried_again("GET /a HTTP/1.1\r\n" HOST FORWARDED "\r\n", SCRIPT_CLOSE);
    expect_tried_again("GET /a HTTP/1.1\r\n" HOST FORWARDED "\r\n", SCRIPT_RESET);
    expect_tried_again("PUT /a HTTP/1.1\r\n" HOST FORWARDED "Content-Length: 5\r\n\r\nhello",
                       SCRIPT_CLOSE);
    expect_tried_again("DELETE /a HTTP/1.1\r\n" HOST FORWARDED
                       "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
                       SCRIPT_RESET);
}

static void expect_not_tried_again(const struct stage_options *options, const char *request,
                                   const char *part, enum script_then then)
{
    struct stage *stage = stage_start(options);
    int status = ask_reused(stage, request, part, then);

    cr_expect_eq(status, 502, "%s, \"%s\": %d", request, part, status);
    stage_fence(stage);
    cr_expect_eq(script_requests(stage->script), 3, "%s: sent twice", request);
    stage_stop(stage);
}

Test(row_24, others_are_not)
{
    static const struct stage_options never = {.cluster = "retry: {on: [connect]}"};
    static const char post[] = "POST / HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nhello";

    expect_not_tried_again(NULL, post, "", SCRIPT_CLOSE);
    expect_not_tried_again(NULL, post, "", SCRIPT_RESET);
    expect_not_tried_again(NULL, "PATCH / HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\n", "",
                           SCRIPT_CLOSE);
    expect_not_tried_again(NULL, GET, "HTTP/1.1 2", SCRIPT_CLOSE); /* it has begun to answer */
    expect_not_tried_again(&never, GET, "", SCRIPT_CLOSE);
}

Test(row_24, new_connections_are_not_tried_again)
{
    static const struct script_answer nothing = {.bytes = "", .then = SCRIPT_CLOSE};
    struct stage *stage = stage_start(NULL);

    script_set(stage->script, &nothing, 1);
    cr_expect_eq(stage_status(stage, GET), 502);
    script_set(stage->script, NULL, 0);
    stage_fence(stage);
    cr_expect_eq(script_requests(stage->script), 2);
    stage_stop(stage);
}

/* More than can be kept for another try. */
Test(row_24, large_content_is_not_sent_twice)
{
    size_t n = 300 * 1024;
    char *request = malloc(n + 256);
    int head = snprintf(request, 256, "PUT / HTTP/1.1\r\n" HOST "Content-Length: %zu\r\n\r\n", n);

    memset(request + head, 'x', n);
    request[(size_t)head + n] = '\0';
    expect_not_tried_again(NULL, request, "", SCRIPT_CLOSE);
    free(request);
}

Test(row_24, connections_that_the_origin_closed_are_not_used)
{
    static const struct script_answer closing = {.then = SCRIPT_CLOSE};
    struct stage *stage = stage_start(NULL);
    struct peer *peer = stage_connect(stage, false);

    script_set(stage->script, &closing, 1);
    for (unsigned i = 0; i < 20; i++) {
        struct reply reply =
            stage_ask(peer, "POST / HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nhello", 0);
        cr_expect_eq(reply.status, 200);
        reply_free(&reply);
        cr_assert(script_wait_ended(stage->script, i + 1));
        cr_assert(weir_metric_becomes(
            stage->weir, "weir_upstream_connections_idle{cluster=\"origin\"}", 0, 5000));
    }
    peer_free(peer);
    stage_stop(stage);
}

Test(row_63, forwarding_fields_are_added_once)
{
    struct stage *stage = stage_start(&trusting);

    cr_expect_eq(ask_reused(stage, "GET /a HTTP/1.1\r\n" HOST FORWARDED "\r\n", "", SCRIPT_CLOSE),
                 200);
    cr_assert(script_wait_whole(stage->script, 3));
    cr_expect_str_eq(script_field(stage->script, 2, "x-forwarded-for"), "1.2.3.4, 127.0.0.1");
    cr_expect_str_eq(script_field(stage->script, 2, "x-forwarded-host"), "example.com");
    cr_expect_eq(script_fields(stage->script, 2, "x-forwarded-for"), 1);
    cr_expect_eq(script_fields(stage->script, 2, "x-forwarded-host"), 1);
    cr_expect_eq(script_fields(stage->script, 2, "x-forwarded-proto"), 1);
    cr_expect_eq(script_fields(stage->script, 2, "x-request-id"), 1);
    cr_expect_eq(script_fields(stage->script, 2, "via"), 2, "its own and the one it came with");
    stage_stop(stage);
}

/* ---- row 25 ---- */

static void serve_when_told(struct peer *client, void *arg)
{
    char head[4096];

    (void)arg;
    if (!peer_read_head(client, head, sizeof(head)))
        return;
    (void)sem_wait(&go);
    (void)peer_say(client, OK "Content-Length: 2\r\n\r\nok");
}

Test(row_25, half_closing_clients_are_answered)
{
    (void)sem_init(&go, 0, 0);
    struct stage *stage = stage_start(&(struct stage_options){
        .serve = serve_when_told, .routes = "{match: {path: /here}, respond: {status: 200}}"});

    for (int tls = 0; tls < 2; tls++) {
        struct peer *peer = stage_connect(stage, tls);
        cr_assert(peer_say(peer, GET));
        peer_half_close(peer);
        /* When this is answered weir has seen the end as well. */
        cr_expect_eq(stage_status(stage, "GET /here HTTP/1.1\r\n" HOST "\r\n"), 200);
        (void)sem_post(&go);
        struct reply reply = peer_reply(peer, false);
        cr_expect_eq(reply.status, 200);
        cr_expect_str_eq(reply.body, "ok");
        cr_expect(stage_is_over(peer));
        reply_free(&reply);
        peer_free(peer);
    }
    stage_stop(stage);
}

Test(row_25, half_a_request_is_none)
{
    struct stage *stage = stage_start(NULL);

    for (unsigned tls = 0; tls < 2; tls++) {
        struct peer *peer = stage_connect(stage, tls);
        cr_assert(peer_say(peer, "POST / HTTP/1.1\r\n" HOST "Content-Length: 10\r\n\r\nhello"));
        cr_assert(script_wait_requests(stage->script, tls + 1));
        peer_half_close(peer);
        struct reply reply = peer_reply(peer, false);
        cr_expect(reply.status == 0 || reply.status == 400, "%d", reply.status);
        reply_free(&reply);
        peer_free(peer);
        cr_assert(script_wait_ended(stage->script, tls + 1));
        cr_expect(!script_request(stage->script, tls)->whole);
    }
    stage_fence(stage);
    stage_stop(stage);
}
