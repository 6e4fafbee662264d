/* Row 26 of the table of hostile input: upgrades that become no tunnel are plain HTTP (RFC 9110 section 7.8). Those that do are in
 * test_tunnel.c. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>

#include "support/stage.h"
#include "support/websocket.h"

#define COUNT(cases) (sizeof(cases) / sizeof((cases)[0]))
#define WEBSOCKET                                                     \
    "GET /chat HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n" \
    "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"            \
    "Sec-WebSocket-Key: " WS_KEY "\r\n"

/* OFFERED: the origin is asked whether it would. */
static void expect_plain(struct stage *stage, const char *request, unsigned index, bool offered)
{
    struct peer *peer = stage_connect(stage, index % 2 == 1);
    struct reply reply = stage_ask(peer, request, 0);

    cr_expect_eq(reply.status, 200, "%s: %d", request, reply.status);
    cr_expect_str_eq(reply_field(&reply, "upgrade"), "");
    reply_free(&reply);
    cr_assert(script_wait_requests(stage->script, index + 1));
    cr_expect_eq(script_fields(stage->script, index, "upgrade"), offered);
    cr_expect_eq(script_fields(stage->script, index, "connection"), offered);
    cr_expect_eq(script_fields(stage->script, index, "http2-settings"), 0);
    /* It is plain HTTP still. */
    reply =
        stage_ask(peer, "GET /next HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 0);
    cr_expect_eq(reply.status, 200);
    cr_expect(stage_is_over(peer));
    reply_free(&reply);
    peer_free(peer);
    /* On another connection, when there has been an upgrade try on the first. */
    bool same = script_request(stage->script, index)->connection ==
                script_request(stage->script, index + 1)->connection;
    cr_expect_eq(same, !offered);
}

Test(row_26, upgrades_that_nobody_takes_up)
{
    struct stage *stage = stage_start(NULL);

    for (unsigned tls = 0; tls < 2; tls++) {
        expect_plain(stage, WEBSOCKET "\r\n", script_requests(stage->script), true);
        expect_plain(
            stage,
            "GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: h2c\r\n"
            "HTTP2-Settings: AAMAAABkAAQAAP__\r\nConnection: Upgrade, HTTP2-Settings\r\n\r\n",
            script_requests(stage->script), false);
        expect_plain(stage, "GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: TLS/1.2\r\n\r\n",
                     script_requests(stage->script), false);
    }
    stage_stop(stage);
}

Test(row_26, a_route_may_allow_none)
{
    struct stage *stage =
        stage_start(&(struct stage_options){.routes = "{upgrade: [], cluster: origin}"});

    expect_plain(stage, WEBSOCKET "\r\n", 0, false);
    stage_stop(stage);
}

Test(row_26, a_200_is_no_upgrade)
{
    static const struct script_answer answers[] = {
        {.bytes = "HTTP/1.1 200 OK\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                  "Content-Length: 2\r\n\r\nok"},
        {0}};
    struct stage *stage = stage_start(NULL);

    script_set(stage->script, answers, 2);
    expect_plain(stage, WEBSOCKET "\r\n", 0, true);
    stage_stop(stage);
}

Test(row_26, content_and_upgrade)
{
    static const struct stage_case cases[] = {
        STAGE_CASE("CL", 400, WEBSOCKET "Content-Length: 5\r\n\r\nhello"),
        STAGE_CASE("CL 0", 400, WEBSOCKET "Content-Length: 0\r\n\r\n"),
        STAGE_CASE("TE", 400,
                   WEBSOCKET "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"),
    };
    struct stage *stage = stage_start(NULL);

    stage_expect_refused(stage, cases, COUNT(cases));
    stage_stop(stage);
}

/* ---- an origin that keeps all bytes it gets ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char kept[65536];
static size_t kept_n;
static const char *answer;

static void serve_and_keep(struct peer *client, void *arg)
{
    enum peer_end end;
    bool answered = false;
    size_t got = 1;

    (void)arg;
    while (got > 0) {
        char part[4096];
        got = peer_read(client, part, sizeof(part), &end);
        pthread_mutex_lock(&lock);
        if (kept_n + got < sizeof(kept)) {
            memcpy(kept + kept_n, part, got);
            kept_n += got;
        }
        bool whole = strstr(kept, "\r\n\r\n") != NULL;
        pthread_mutex_unlock(&lock);
        if (whole && !answered)
            answered = peer_say(client, answer);
    }
}

static void expect_no_tunnel(const char *says, int status)
{
    struct stage *stage = stage_start(&(struct stage_options){.serve = serve_and_keep});
    struct peer *peer = stage_connect(stage, false);

    kept_n = 0;
    memset(kept, 0, sizeof(kept));
    answer = says;
    struct reply reply = stage_ask(peer, WEBSOCKET "\r\n\x81\x06secret", 0);
    cr_expect_eq(reply.status, status, "%d", reply.status);
    reply_free(&reply);
    reply = peer_reply(peer, false); /* what followed was the beginning of a request */
    cr_expect_eq(reply.status, 400);
    cr_expect(stage_is_over(peer));
    reply_free(&reply);
    peer_free(peer);
    stage_stop(stage);
    cr_expect(strstr(kept, "GET /chat"));
    cr_expect(!strstr(kept, "secret"), "the origin got bytes after the head");
}

Test(row_26, nothing_is_tunnelled)
{
    expect_no_tunnel("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 200);
    expect_no_tunnel("HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n", 404);
    expect_no_tunnel("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                     "Connection: Upgrade\r\n\r\n",
                     502);
}

/* It does not say what belongs to the key it was sent. */
Test(row_26, a_101_ends_the_connection_to_the_origin)
{
    static const struct script_answer answers[] = {
        {.bytes = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                  "Connection: Upgrade\r\n\r\n"},
        {0}};
    struct stage *stage = stage_start(NULL);

    script_set(stage->script, answers, 2);
    cr_expect_eq(stage_status(stage, WEBSOCKET "\r\n"), 502);
    cr_expect(script_wait_ended(stage->script, 1));
    stage_fence(stage);
    cr_expect_eq(script_request(stage->script, 1)->connection, 2);
    stage_stop(stage);
}
