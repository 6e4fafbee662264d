/* SIGTERM with clients in every state: what is under way is finished and told to be the last, the rest is turned away and
 * counted. How weir ends without that, see test_weir_signals.c. */
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/bulk.h"
#include "support/edge.h"
#include "support/flood.h"
#include "support/hand.h"
#include "support/origin.h"

#define MIB (UINT64_C(1) << 20)
#define DRAINED 0
#define CUT_OFF 3
#define GET "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
#define OWN "GET /own HTTP/1.1\r\nHost: localhost\r\n\r\n"
#define GAUGE(name) "weir_" name "{listener=\"edge\"}"

struct stage {
    struct bulk_origin bulk;
    struct origin *origin;
    struct weir *weir;
    int port;
};

/* The origin answers when bulk.out is no longer paused. */
static void open_stage(struct stage *stage, const char *drain)
{
    stage->origin = origin_start(bulk_serve, &stage->bulk);
    stage->weir = weir_start(
        "workers: 2\n"
        "admin: 127.0.0.1:0\n"
        "access_log: access.log\n"
        "defaults: {timeouts: {drain: %s, client_hello: 1h, handshake: 1h, linger: 1s}}\n"
        "listeners:\n"
        "  - name: edge\n"
        "    bind: 127.0.0.1:0\n"
        "    tls: {certificates: [{chain: cert.pem, key: key.pem}]}\n"
        "    routes:\n"
        "      - {match: {path: /own}, respond: {body: hello}}\n"
        "      - {cluster: origin}\n"
        "clusters:\n"
        "  - {name: origin, endpoints: [127.0.0.1:%d]}\n",
        drain, origin_port(stage->origin));
    stage->port = weir_port(stage->weir, "edge");
}

static void close_stage(struct stage *stage)
{
    weir_stop(stage->weir);
    atomic_store(&stage->bulk.out.dead, true);
    origin_stop(stage->origin);
}

static struct peer *connect_client(const struct stage *stage)
{
    struct peer *client = peer_connect_tls(stage->port, NULL);

    cr_assert_not_null(client);
    return client;
}

static void expect_ok(struct peer *client, const char *connection)
{
    struct reply reply = peer_reply(client, false);

    cr_expect_eq(reply.status, 200, "status %d", reply.status);
    cr_expect(reply.whole);
    cr_expect_str_eq(reply_field(&reply, "connection"), connection);
    reply_free(&reply);
}

static struct peer *idle_client(const struct stage *stage)
{
    struct peer *client = connect_client(stage);

    cr_assert(peer_say(client, OWN));
    expect_ok(client, "");
    return client;
}

static void begin_drain(const struct stage *stage)
{
    cr_assert_eq(kill(weir_pid(stage->weir), SIGTERM), 0);
    cr_assert(weir_file_has(stage->weir, "stderr.log", "draining: SIGTERM", 5000));
}

static int admin_status(const struct stage *stage, const char *path)
{
    struct peer *peer = peer_connect(weir_port(stage->weir, "admin"));
    char request[128];

    cr_assert_not_null(peer);
    (void)snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path);
    cr_assert(peer_say(peer, request));
    struct reply reply = peer_reply(peer, false);
    reply_free(&reply);
    peer_free(peer);
    return reply.status;
}

/* All workers have heard of it: nobody is idle or silent any more. */
static void expect_draining(const struct stage *stage)
{
    cr_expect(weir_metric_becomes(stage->weir, GAUGE("connections_idle"), 0, edge_ms(5000)));
    cr_expect(weir_metric_becomes(stage->weir, GAUGE("connections_silent"), 0, edge_ms(5000)));
    cr_expect_eq(admin_status(stage, "/readyz"), 503);
    cr_expect_eq(admin_status(stage, "/healthz"), 200);
    for (unsigned i = 0; i < 20; i++) {
        int fd = flood_connect(stage->port, i);
        cr_expect(fd < 0 && errno == ECONNREFUSED, "a new client was accepted: %s",
                  strerror(errno));
        if (fd >= 0)
            (void)close(fd);
    }
}

Test(drain, each_client_gets_its_due, .timeout = 60)
{
    enum { EACH = 8 };
    struct stage stage = {.bulk = {.size = 4 * MIB, .out = {.paused = true}}};
    struct peer *idle[EACH];
    struct peer *active[EACH];
    struct peer *head[EACH];
    int silent[EACH];

    open_stage(&stage, "1h");
    for (unsigned i = 0; i < EACH; i++) {
        idle[i] = idle_client(&stage);
        active[i] = connect_client(&stage);
        cr_assert(peer_say(active[i], GET));
        head[i] = connect_client(&stage);
        cr_assert(peer_say(head[i], "GET /own HTTP/1.1\r\nHost: "));
        silent[i] = flood_connect(stage.port, i);
    }
    cr_assert(weir_metric_becomes(stage.weir, GAUGE("connections_active"), 2 * EACH, 5000));
    cr_assert(weir_metric_becomes(stage.weir, GAUGE("connections_silent"), EACH, 5000));
    begin_drain(&stage);
    expect_draining(&stage);
    edge_expect_refused(stage.weir, "draining", EACH);
    for (int i = 0; i < EACH; i++) {
        cr_expect_eq(peer_wait_end(idle[i]), PEER_EOF);
        cr_expect_neq(flood_end(silent[i], NULL, 0, NULL, 5000), PEER_WAITED);
    }
    atomic_store(&stage.bulk.out.paused, false);
    for (int i = 0; i < EACH; i++) {
        cr_expect(peer_say(head[i], "localhost\r\n\r\n"));
        expect_ok(head[i], "close");
        cr_expect_eq(peer_wait_end(head[i]), PEER_EOF);
        expect_ok(active[i], "close");
        cr_expect_eq(peer_wait_end(active[i]), PEER_EOF);
    }
    for (int i = 0; i < EACH; i++) {
        peer_free(idle[i]);
        peer_free(active[i]);
        peer_free(head[i]);
    }
    flood_close(silent, EACH);
    cr_expect_eq(weir_wait(stage.weir, 0, 10000), DRAINED);
    edge_expect_log_lines(stage.weir, "\"reason\":\"draining\"", EACH);
    close_stage(&stage);
}

/* A handshake under way at SIGTERM is finished, and its client told that its request is the last. */
static bool send_and_drain(int fd, const uint8_t *p, size_t n, void *arg)
{
    struct stage *stage = arg;

    if (!flood_send(fd, p, n) ||
        !weir_metric_becomes(stage->weir, GAUGE("handshakes_running"), 1, edge_ms(5000)))
        return false;
    begin_drain(stage);
    expect_draining(stage);
    return true;
}

static void handshake_is_finished(uint16_t version)
{
    struct stage stage = {0};
    struct hand_options options = {
        .sni = "localhost", .max_version = version, .send = send_and_drain, .arg = &stage};
    char answer[4096];

    open_stage(&stage, "1h");
    struct hand *hand = hand_connect(stage.port, &options);
    cr_assert(hand->done, "alert %d", hand->alert);
    cr_assert(hand_write(hand, OWN, strlen(OWN)));
    size_t n = hand_read(hand, answer, sizeof(answer) - 1);
    answer[n] = '\0';
    cr_expect(strncmp(answer, "HTTP/1.1 200 ", 13) == 0, "%s", answer);
    cr_expect_not_null(strstr(answer, "\r\nconnection: close\r\n"), "%s", answer);
    cr_expect_eq(hand_read(hand, answer, 1), 0);
    cr_expect_eq(SSL_get_shutdown(hand->ssl), SSL_RECEIVED_SHUTDOWN, "no close_notify");
    hand_free(hand);
    cr_expect_eq(weir_wait(stage.weir, 0, 10000), DRAINED);
    close_stage(&stage);
}

Test(drain, handshake_is_finished_1_2, .timeout = 60)
{
    handshake_is_finished(TLS1_2_VERSION);
}

Test(drain, handshake_is_finished_1_3, .timeout = 60)
{
    handshake_is_finished(TLS1_3_VERSION);
}

static void wait_for_bytes(_Atomic uint64_t *bytes)
{
    while (atomic_load(bytes) == 0)
        edge_nap(2);
}

Test(drain, content_in_flight_comes_whole_both_ways, .timeout = 60)
{
    static const char post[] =
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1048576\r\n\r\n";
    struct stage stage = {.bulk = {.size = 64 * MIB}};
    struct bulk_flow down = {0};
    struct bulk_flow up = {0};
    char head[4096];
    bool chunked;

    open_stage(&stage, "1h");
    struct peer *reader = connect_client(&stage);
    struct peer *writer = connect_client(&stage);
    cr_assert(peer_say(reader, GET));
    cr_assert(peer_read_head(reader, head, sizeof(head)));
    cr_assert(peer_say(writer, post));
    cr_assert(bulk_send(writer, &up, MIB / 2, 0, false));
    wait_for_bytes(&stage.bulk.in.bytes);
    begin_drain(&stage);
    expect_draining(&stage);
    cr_expect(bulk_receive(reader, &down, bulk_length(head, &chunked), false));
    cr_expect_eq(down.bytes, 64 * MIB);
    cr_expect_not(down.wrong);
    stage.bulk.in.unchecked = true;
    cr_assert(bulk_send(writer, &up, MIB / 2, 0, false));
    expect_ok(writer, "close");
    cr_expect_eq(stage.bulk.in.bytes, MIB);
    cr_expect_eq(peer_wait_end(reader), PEER_EOF);
    cr_expect_eq(peer_wait_end(writer), PEER_EOF);
    peer_free(reader);
    peer_free(writer);
    cr_expect_eq(weir_wait(stage.weir, 0, 10000), DRAINED);
    close_stage(&stage);
}

/* One whose response stalls in its content, and one in its handshake. Returns when both are where they should be. */
static void stall(struct stage *stage, struct peer **client, int *handshaking)
{
    uint8_t hello[FLOOD_HELLO_MAX];
    size_t n = flood_hello(hello, NULL);
    char head[4096];

    *client = connect_client(stage);
    cr_assert(peer_say(*client, GET));
    cr_assert(peer_read_head(*client, head, sizeof(head)));
    wait_for_bytes(&stage->bulk.out.bytes);
    *handshaking = flood_connect(stage->port, 0);
    cr_assert(flood_send(*handshaking, hello, n));
    cr_assert(weir_metric_becomes(stage->weir, GAUGE("handshakes_running"), 1, 5000));
}

static void expect_cut_off(struct stage *stage, struct peer *client, int handshaking)
{
    enum peer_end end = peer_wait_end(client);

    cr_expect(end == PEER_RESET || end == PEER_BROKEN, "ended with %d", end);
    cr_expect_neq(flood_end(handshaking, NULL, 0, NULL, 1000), PEER_WAITED);
    cr_expect(weir_file_has(stage->weir, "stderr.log", "2 connections cut off", 1000));
    edge_expect_log_lines(stage->weir, "\"reason\":\"draining\"", 1);
    edge_expect_log_lines(stage->weir, "\"ended\":\"draining\"", 1);
    peer_free(client);
    (void)close(handshaking);
    close_stage(stage);
}

Test(drain, deadline_cuts_off_what_is_left, .timeout = 60)
{
    struct stage stage = {.bulk = {.size = 1024 * MIB}};
    struct peer *client;
    int handshaking;

    open_stage(&stage, "700ms");
    stall(&stage, &client, &handshaking);
    long before = edge_now_ms();
    cr_expect_eq(weir_wait(stage.weir, SIGTERM, 10000), CUT_OFF);
    long took = edge_now_ms() - before;
    cr_expect(took >= 690 && took < 700 + edge_ms(1500), "ended after %ld ms", took);
    expect_cut_off(&stage, client, handshaking);
}

Test(drain, second_signal_ends_at_once, .timeout = 60)
{
    struct stage stage = {.bulk = {.size = 1024 * MIB}};
    struct peer *client;
    int handshaking;

    open_stage(&stage, "1h");
    stall(&stage, &client, &handshaking);
    begin_drain(&stage);
    expect_draining(&stage);
    long before = edge_now_ms();
    cr_expect_eq(weir_wait(stage.weir, SIGTERM, 10000), CUT_OFF);
    cr_expect_lt(edge_now_ms() - before, edge_ms(1500));
    expect_cut_off(&stage, client, handshaking);
}
