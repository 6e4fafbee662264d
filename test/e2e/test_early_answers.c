/* An upstream that answers as soon as it has a request's head, and reads the content later (behaviour row 22): it gets all of a
 * short upload, whole, one after another over one connection. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "support/h2_frames.h"
#include "support/stage.h"

#define UPLOADS 50
#define MOST_CONTENT 16000
#define HOST "Host: localhost\r\n"

static const struct script_answer early = {.when = SCRIPT_EARLY};
static const struct script_answer early_refusal = {
    .bytes = "HTTP/1.1 401 No\r\nContent-Length: 2\r\n\r\nno", .when = SCRIPT_EARLY};
static const struct script_answer early_and_close = {
    .bytes = "HTTP/1.1 413 No\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno",
    .when = SCRIPT_EARLY,
    .then = SCRIPT_CLOSE};

/* The content of upload I: of another length and other bytes than the one before. */
static size_t content_of(unsigned i, char *p)
{
    size_t n = 1 + (i * 7919u) % MOST_CONTENT;
    for (size_t at = 0; at < n; at++)
        p[at] = (char)('a' + (i + at) % 26);
    return n;
}

/* How much of N bytes goes out before the answer is waited for. */
static size_t before_answer(unsigned i, size_t n)
{
    return i % 3 == 0 ? 0 : n * (i % 7) / 7;
}

/* ---- clients ---- */

static void upload_h1(struct peer *peer, unsigned i, int status)
{
    char content[MOST_CONTENT];
    char head[200];
    size_t n = content_of(i, content);
    size_t first = before_answer(i, n);

    (void)snprintf(head, sizeof(head), "POST /%u HTTP/1.1\r\n" HOST "Content-Length: %zu\r\n\r\n",
                   i, n);
    cr_assert(peer_say(peer, head));
    cr_assert(peer_write(peer, content, first));
    struct reply reply = peer_reply(peer, false);
    cr_assert_eq(reply.status, status, "upload %u: %d", i, reply.status);
    cr_assert_str_eq(reply_field(&reply, "connection"), "", "upload %u", i);
    reply_free(&reply);
    cr_assert(peer_write(peer, content + first, n - first));
}

static void upload_h2(struct h2_peer *h2, unsigned i, int status)
{
    char content[MOST_CONTENT];
    char text[64];
    uint32_t id = 2 * i + 1;
    size_t n = content_of(i, content);
    size_t first = before_answer(i, n);

    (void)snprintf(text, sizeof(text), "content-length: %zu\n", n);
    h2_peer_ask(h2, id, 0, "POST", "/", text);
    h2_put_frame(&h2->out, H2_DATA, 0, id, content, first);
    (void)snprintf(text, sizeof(text), "HEADERS/%u[:status=%d;", id, status);
    cr_assert(h2_peer_hears(h2, text), "upload %u: %s", i, h2_peer_log(h2));
    (void)snprintf(text, sizeof(text), "DATA/%u+ES[", id);
    cr_assert(h2_peer_hears(h2, text), "upload %u: %s", i, h2_peer_log(h2));
    h2_put_frame(&h2->out, H2_DATA, H2_END_STREAM, id, content + first, n - first);
    cr_assert(h2_peer_settles(h2), "upload %u: %s", i, h2_peer_log(h2));
    cr_assert_null(strstr(h2_peer_log(h2), "RST"), "upload %u: %s", i, h2_peer_log(h2));
}

/* ---- what the upstream got ---- */

static void expect_uploads(struct stage *stage)
{
    char content[MOST_CONTENT];

    cr_assert(script_wait_whole(stage->script, UPLOADS));
    for (unsigned i = 0; i < UPLOADS; i++) {
        const struct script_request *request = script_request(stage->script, i);
        size_t n = content_of(i, content);
        cr_assert_eq(request->content_n, n, "upload %u", i);
        cr_assert_arr_eq(request->content, content, n, "upload %u", i);
        cr_assert_eq(request->connection, 1, "upload %u came over connection %u", i,
                     request->connection);
    }
    cr_expect_eq(origin_connections(stage->origin), 1);
    cr_expect_eq(weir_metric(stage->weir, "weir_upstream_connects_total{cluster=\"origin\"}"), 1);
}

static struct stage *start(const struct script_answer *answer)
{
    struct stage *stage = stage_start(NULL);

    script_set(stage->script, answer, 1);
    return stage;
}

static void expect_one_connection_h1(const struct script_answer *answer, bool tls, int status)
{
    struct stage *stage = start(answer);
    struct peer *peer = stage_connect(stage, tls);

    for (unsigned i = 0; i < UPLOADS; i++)
        upload_h1(peer, i, status);
    expect_uploads(stage);
    peer_free(peer);
    stage_stop(stage);
}

static void expect_one_connection_h2(const struct script_answer *answer, bool tls, int status)
{
    struct stage *stage = start(answer);
    struct h2_peer *h2 = h2_peer_open(tls ? stage->tls : stage->plain, tls, NULL);

    for (unsigned i = 0; i < UPLOADS; i++)
        upload_h2(h2, i, status);
    expect_uploads(stage);
    h2_peer_free(h2);
    stage_stop(stage);
}

Test(early_answers, uploads_over_http1_share_a_connection, .timeout = 120)
{
    expect_one_connection_h1(&early, false, 200);
    expect_one_connection_h1(&early, true, 200);
    expect_one_connection_h1(&early_refusal, true, 401);
}

Test(early_answers, uploads_over_http2_share_a_connection, .timeout = 120)
{
    expect_one_connection_h2(&early, false, 200);
    expect_one_connection_h2(&early, true, 200);
    expect_one_connection_h2(&early_refusal, true, 401);
}

/* The next request is on the client's connection already when the rest of the first is written. */
Test(early_answers, a_pipelined_request_waits_for_the_rest)
{
    struct stage *stage = start(&early);
    struct peer *peer = stage_connect(stage, false);

    cr_assert(peer_say(peer, "POST /0 HTTP/1.1\r\n" HOST "Content-Length: 8\r\n\r\nsome"));
    struct reply reply = peer_reply(peer, false);
    cr_assert_eq(reply.status, 200);
    reply_free(&reply);
    reply = stage_ask(peer,
                      "rest"
                      "GET /next HTTP/1.1\r\n" HOST "\r\n",
                      0);
    cr_expect_eq(reply.status, 200);
    reply_free(&reply);
    cr_assert(script_wait_whole(stage->script, 2));
    cr_expect_str_eq(script_request(stage->script, 0)->content, "somerest");
    cr_expect(strncmp(script_request(stage->script, 1)->head, "GET /next ", 10) == 0);
    cr_expect_eq(script_request(stage->script, 1)->connection, 1);
    peer_free(peer);
    stage_stop(stage);
}

/* ---- connections that are not kept ---- */

Test(early_answers, a_client_that_goes_leaves_no_part_for_another)
{
    struct stage *stage = start(&early);
    struct peer *peer = stage_connect(stage, false);

    cr_assert(peer_say(peer, "POST /0 HTTP/1.1\r\n" HOST "Content-Length: 8\r\n\r\nsome"));
    struct reply reply = peer_reply(peer, false);
    cr_assert_eq(reply.status, 200);
    reply_free(&reply);
    peer_free(peer);
    cr_assert(script_wait_ended(stage->script, 1));
    cr_expect_not(script_request(stage->script, 0)->whole);
    stage_fence(stage);
    cr_expect_eq(script_request(stage->script, 1)->connection, 2);
    stage_stop(stage);
}

Test(early_answers, an_upstream_that_closes_gets_no_more)
{
    struct stage *stage = start(&early_and_close);
    struct h2_peer *h2 = h2_peer_open(stage->tls, true, NULL);

    h2_peer_ask(h2, 1, 0, "POST", "/", "content-length: 8\n");
    h2_put_data(&h2->out, 1, 0, "some");
    cr_assert(h2_peer_hears(h2, "DATA/1+ES[no] "), "%s", h2_peer_log(h2));
    cr_assert(script_wait_ended(stage->script, 1));
    cr_expect_not(script_request(stage->script, 0)->whole);
    h2_put_data(&h2->out, 1, H2_END_STREAM, "rest");
    cr_expect(h2_peer_settles(h2));
    cr_expect_null(strstr(h2_peer_log(h2), "RST"), "%s", h2_peer_log(h2));
    script_set(stage->script, NULL, 0);
    h2_peer_get(h2, 3, "/next");
    cr_expect(h2_peer_hears(h2, "DATA/3+ES[ok] "), "%s", h2_peer_log(h2));
    cr_expect_eq(script_request(stage->script, 1)->connection, 2);
    h2_peer_free(h2);
    stage_stop(stage);
}
