/* Tunnels through the running binary: WebSocket with raw frames, CONNECT, ends on either side, silence, a drain. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "support/bulk.h"
#include "support/edge.h"
#include "support/stage.h"
#include "support/websocket.h"

#define MESSAGES 10000
#define CONNECT "CONNECT localhost:443 HTTP/1.1\r\nHost: localhost\r\n\r\n"

/* ---- WebSocket ---- */

/* Mostly small, now and then large, 1 MiB among them. */
static size_t size_of(unsigned i)
{
    if (i % 1000 == 999)
        return WS_MOST;
    if (i % 100 == 50)
        return 60000 + i;
    return i * 7919 % 3000;
}

/* Message I and what follows it in its batch: sent in a row, then all are awaited. */
static bool exchange_batch(struct peer *peer, unsigned first, unsigned count, uint8_t *message)
{
    for (unsigned i = first; i < first + count; i++) {
        bulk_fill(message, size_of(i), i);
        if (!ws_send(peer, WS_BINARY, message, size_of(i), true))
            return false;
    }
    for (unsigned i = first; i < first + count; i++) {
        size_t n;
        if (ws_receive(peer, message, WS_MOST, &n) != WS_BINARY || n != size_of(i) ||
            !bulk_check(message, n, i))
            return false;
    }
    return true;
}

static void expect_echo(struct peer *peer, unsigned messages)
{
    uint8_t *message = malloc(WS_MOST);
    unsigned sent = 0;
    size_t n;
    cr_assert(ws_open(peer));
    while (sent < messages) {
        /* What is large goes alone: neither side reads while it writes. */
        unsigned count = size_of(sent) > 3000 ? 1 : 0;
        while (count < 8 && sent + count < messages && size_of(sent + count) <= 3000)
            count++;
        cr_assert(exchange_batch(peer, sent, count, message), "message %u", sent);
        sent += count;
    }
    cr_assert(ws_send(peer, WS_CLOSE, "\x03\xe8", 2, true));
    cr_assert_eq(ws_receive(peer, message, WS_MOST, &n), WS_CLOSE);
    cr_assert_eq(n, 2);
    free(message);
}

Test(tunnel, websocket_messages_of_all_sizes)
{
    struct stage *stage = stage_start(&(struct stage_options){.serve = ws_echo});
    for (unsigned tls = 0; tls < 2; tls++) {
        struct peer *peer = stage_connect(stage, tls == 1);
        expect_echo(peer, MESSAGES);
        cr_expect(stage_is_over(peer));
        peer_half_close(peer);
        peer_free(peer);
    }
    cr_expect(
        weir_file_has(stage->weir, "access.log", "\"status\":101,\"tunnel\":\"websocket\"", 5000));
    cr_expect(weir_metric_becomes(
        stage->weir, "weir_requests_total{listener=\"plain\",class=\"1xx\"}", 1, 5000));
    cr_expect(weir_metric_becomes(stage->weir, "weir_upstream_connections_idle{cluster=\"origin\"}",
                                  0, 5000));
    stage_stop(stage);
}

/* HTTP/1.1 to HTTP/2 in one, HTTP/2 to HTTP/1.1 in the other. */
Test(tunnel, websocket_over_http2)
{
    struct stage *inner = stage_start(&(struct stage_options){.serve = ws_echo});
    struct weir *outer =
        weir_start("workers: 1\nadmin: 127.0.0.1:0\naccess_log: access.log\n"
                   "listeners: [{name: edge, bind: 127.0.0.1:0, routes: [{cluster: plain}]},\n"
                   "            {name: tls, bind: 127.0.0.1:0, routes: [{cluster: tls}]}]\n"
                   "clusters:\n"
                   "  - {name: plain, endpoints: [127.0.0.1:%d], protocol: http2}\n"
                   "  - {name: tls, endpoints: [127.0.0.1:%d], tls: {verify: false}}\n",
                   inner->plain, inner->tls);
    static const char *const listeners[] = {"edge", "tls"};
    for (unsigned i = 0; i < 2; i++) {
        struct peer *peer = peer_connect(weir_port(outer, listeners[i]));
        cr_assert_not_null(peer);
        expect_echo(peer, MESSAGES);
        cr_expect(stage_is_over(peer));
        peer_half_close(peer);
        peer_free(peer);
    }
    cr_expect(weir_file_has(inner->weir, "access.log", "\"protocol\":\"HTTP/2\"", 5000));
    cr_expect(
        weir_file_has(inner->weir, "access.log", "\"status\":200,\"tunnel\":\"websocket\"", 5000));
    cr_expect(weir_file_has(outer, "access.log", "\"status\":101,\"tunnel\":\"websocket\"", 5000));
    cr_expect_eq(weir_metric(outer, "weir_upstream_connects_total{cluster=\"tls\"}"), 1);
    weir_stop(outer);
    stage_stop(inner);
}

/* An origin that answers as if nothing had been asked of it. */
Test(tunnel, websocket_over_http2_that_is_declined)
{
    struct stage *inner = stage_start(NULL); /* 200 to everything */
    struct weir *outer =
        weir_start("workers: 1\nadmin: 127.0.0.1:0\n"
                   "listeners: [{name: edge, bind: 127.0.0.1:0, routes: [{cluster: plain}]}]\n"
                   "clusters: [{name: plain, endpoints: [127.0.0.1:%d], protocol: http2}]\n",
                   inner->plain);
    struct peer *peer = peer_connect(weir_port(outer, "edge"));
    struct reply reply = stage_ask(peer, WS_ASK("/"), 0);
    cr_expect_eq(reply.status, 502, "a 200 would be a tunnel to the HTTP/2 client: %d",
                 reply.status);
    reply_free(&reply);
    reply = stage_ask(peer, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 0);
    cr_expect_eq(reply.status, 200);
    reply_free(&reply);
    peer_free(peer);
    weir_stop(outer);
    stage_stop(inner);
}

/* ---- CONNECT ---- */

/* Answers a CONNECT and says back what it hears until that ends. */
static void serve_connect(struct peer *client, void *arg)
{
    char head[16384];
    char bytes[16384];
    enum peer_end end;
    (void)arg;
    if (!peer_read_head(client, head, sizeof(head)) || strncmp(head, "CONNECT ", 8) != 0 ||
        !peer_say(client, "HTTP/1.1 200 OK\r\n\r\n"))
        return;
    for (size_t n; (n = peer_read(client, bytes, sizeof(bytes), &end)) > 0;)
        (void)peer_write(client, bytes, n);
    (void)peer_say(client, "bye");
}

static struct stage *start_connect(const char *listener)
{
    return stage_start(
        &(struct stage_options){.serve = serve_connect,
                                .listener = listener,
                                .routes = "{connect: true, upgrade: [], cluster: origin}"});
}

static struct peer *open_connect(int plain, int tls_port, bool tls)
{
    struct peer *peer = tls ? peer_connect_tls(tls_port, NULL) : peer_connect(plain);
    cr_assert_not_null(peer);
    cr_assert(peer_say(peer, CONNECT));
    struct reply reply = peer_reply(peer, true);
    cr_assert_eq(reply.status, 200, "%d", reply.status);
    cr_expect_str_eq(reply_field(&reply, "content-length"), "");
    cr_expect_str_eq(reply_field(&reply, "transfer-encoding"), "");
    reply_free(&reply);
    return peer;
}

/* A request head is but bytes, and the client's end goes through and is answered. */
static void expect_half_close(struct peer *peer)
{
    char got[64] = "";
    cr_assert(peer_say(peer, "GET / HTTP/1.1\r\n\r\n"));
    cr_assert(peer_read_exactly(peer, got, 18));
    cr_expect_str_eq(got, "GET / HTTP/1.1\r\n\r\n");
    peer_half_close(peer);
    memset(got, 0, sizeof(got));
    cr_assert(peer_read_exactly(peer, got, 3));
    cr_expect_str_eq(got, "bye");
    cr_expect(stage_is_over(peer));
    peer_free(peer);
}

#define CONNECT_LINE \
    "\"status\":200,\"tunnel\":\"connect\",\"request_bytes\":18,\"response_bytes\":21,"

Test(tunnel, connect_keeps_half_closes)
{
    struct stage *stage = start_connect(NULL);
    for (unsigned tls = 0; tls < 2; tls++)
        expect_half_close(open_connect(stage->plain, stage->tls, tls == 1));
    cr_expect(weir_file_has(stage->weir, "access.log", CONNECT_LINE, 5000));
    cr_expect(weir_file_has(stage->weir, "access.log", "\"ended\":\"ok\"", 5000));
    stage_stop(stage);
}

Test(tunnel, connect_over_http2)
{
    struct stage *inner = start_connect(NULL);
    struct weir *outer = weir_start(
        "workers: 1\nadmin: 127.0.0.1:0\naccess_log: access.log\n"
        "listeners: [{name: edge, bind: 127.0.0.1:0, routes: [{cluster: inner, connect: true}]}]\n"
        "clusters: [{name: inner, endpoints: [127.0.0.1:%d], protocol: http2}]\n",
        inner->plain);
    for (unsigned i = 0; i < 3; i++)
        expect_half_close(open_connect(weir_port(outer, "edge"), 0, false));
    cr_expect(weir_file_has(inner->weir, "access.log", CONNECT_LINE, 5000));
    cr_expect(weir_file_has(inner->weir, "access.log", "\"protocol\":\"HTTP/2\"", 5000));
    cr_expect(weir_file_has(outer, "access.log", CONNECT_LINE, 5000));
    cr_expect_eq(weir_metric(outer, "weir_upstream_connects_total{cluster=\"inner\"}"), 1);
    weir_stop(outer);
    stage_stop(inner);
}

/* Without close_notify nobody knows whether that was all: no end goes through, but a reset. */
static void serve_connect_until_reset(struct peer *client, void *arg)
{
    char head[16384];
    if (peer_read_head(client, head, sizeof(head)) && peer_say(client, "HTTP/1.1 200 OK\r\n\r\n"))
        *(enum peer_end *)arg = peer_wait_end(client);
}

Test(tunnel, a_tls_stream_that_is_cut_off_is_no_end)
{
    enum peer_end seen = PEER_OPEN;
    struct stage *stage =
        stage_start(&(struct stage_options){.serve = serve_connect_until_reset,
                                            .arg = &seen,
                                            .routes = "{connect: true, cluster: origin}"});
    struct peer *peer = open_connect(stage->plain, stage->tls, true);
    cr_assert(peer_say(peer, "part"));
    cr_assert_eq(shutdown(peer_fd(peer), SHUT_WR), 0);
    cr_expect_eq(peer_wait_end(peer), PEER_RESET);
    cr_expect(weir_file_has(stage->weir, "access.log", "\"ended\":\"tls_truncated\"", 5000));
    peer_free(peer);
    stage_stop(stage);
    cr_expect_eq(seen, PEER_RESET);
}

static struct reply ask_plain(struct stage *stage, const char *request)
{
    struct peer *peer = stage_connect(stage, false);
    struct reply reply = stage_ask(peer, request, 0);
    peer_free(peer);
    return reply;
}

Test(tunnel, connect_is_for_routes_that_allow_it)
{
    struct stage *stage = stage_start(NULL);
    struct reply reply = ask_plain(stage, CONNECT);
    cr_expect_eq(reply.status, 405);
    cr_expect_str_eq(reply_field(&reply, "connection"), "close");
    reply_free(&reply);
    stage_fence(stage);
    stage_stop(stage);
}

/* ---- silence, and the end of the process ---- */

Test(tunnel, silence_ends_it)
{
    struct stage *stage =
        start_connect("timeouts: {tunnel: 1s, inactivity: 100ms, keep_alive: 100ms}");
    struct peer *peer = open_connect(stage->plain, stage->tls, false);
    char got[1];
    for (unsigned i = 0; i < 4; i++) { /* bytes now and then keep it */
        edge_nap(500);
        cr_assert(peer_say(peer, "x"));
        cr_assert(peer_read_exactly(peer, got, 1));
    }
    cr_expect_eq(peer_wait_end(peer), PEER_RESET);
    cr_expect(weir_file_has(stage->weir, "access.log", "\"ended\":\"tunnel_timeout\"", 5000));
    peer_free(peer);
    stage_stop(stage);
}

Test(tunnel, a_drain_lets_it_go_on)
{
    struct stage *stage = start_connect(NULL);
    struct peer *peer = open_connect(stage->plain, stage->tls, false);
    char got[3];
    (void)kill(weir_pid(stage->weir), SIGTERM);
    struct peer *late;
    while ((late = peer_connect(stage->plain)) != NULL) { /* until it listens no more */
        peer_free(late);
        edge_nap(10);
    }
    cr_assert(peer_say(peer, "x"));
    cr_assert(peer_read_exactly(peer, got, 1));
    peer_half_close(peer);
    cr_assert(peer_read_exactly(peer, got, 3));
    cr_expect(stage_is_over(peer));
    peer_free(peer);
    cr_expect_eq(weir_wait(stage->weir, 0, 10000), 0, "it ends when the tunnel has");
    stage_stop(stage);
}
