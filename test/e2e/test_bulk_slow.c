/* One side is slow or stops: the other is made to wait, memory stays bounded, and in the end all bytes are right. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/bulk.h"
#include "support/edge.h"
#include "support/origin.h"

#define MIB (UINT64_C(1) << 20)
#define SIZE (edge_is_slow() ? 64 * MIB : 256 * MIB)
/* What sockets of the kernel may hold on the way, and weir. */
#define IN_FLIGHT (32 * MIB)
#define RSS_GROWTH (4 * MIB)
#define GET "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"

struct stage {
    struct bulk_origin bulk;
    struct origin *origin;
    struct weir *weir;
    int port;
    size_t rss;
};

static void open_stage(struct stage *stage, void (*serve)(struct peer *, void *), void *arg)
{
    stage->origin = origin_start(serve, arg);
    stage->weir = weir_start("workers: 1\n"
                             "admin: 127.0.0.1:0\n"
                             "access_log: access.log\n"
                             "listeners:\n"
                             "  - name: edge\n"
                             "    bind: 127.0.0.1:0\n"
                             "    tls: {certificates: [{chain: cert.pem, key: key.pem}]}\n"
                             "    routes:\n"
                             "      - {match: {path: /own}, respond: {body: hello}}\n"
                             "      - {cluster: origin}\n"
                             "clusters:\n"
                             "  - {name: origin, endpoints: [127.0.0.1:%d]}\n",
                             origin_port(stage->origin));
    stage->port = weir_port(stage->weir, "edge");
    stage->rss = edge_rss_peak(stage->weir);
}

static void close_stage(struct stage *stage)
{
    weir_stop(stage->weir);
    atomic_store(&stage->bulk.in.dead, true);
    atomic_store(&stage->bulk.out.dead, true);
    origin_stop(stage->origin);
}

static struct peer *connect_client(const struct stage *stage)
{
    struct peer *client = peer_connect_tls(stage->port, NULL);

    cr_assert_not_null(client);
    peer_set_wait(client, 60000);
    return client;
}

static void read_head(struct peer *client, uint64_t *length, bool *chunked)
{
    char head[16384];

    cr_assert(peer_read_head(client, head, sizeof(head)));
    cr_assert(strncmp(head, "HTTP/1.1 200 ", 13) == 0, "%s", head);
    *length = bulk_length(head, chunked);
}

/* Waits until BYTES has not moved for half a second, and returns where it stands. */
static uint64_t settled(_Atomic uint64_t *bytes)
{
    long end = edge_now_ms() + edge_ms(20000);
    uint64_t before = 0;
    uint64_t now = atomic_load(bytes);

    do {
        before = now;
        edge_nap(500);
        now = atomic_load(bytes);
    } while (now != before && edge_now_ms() < end);
    cr_expect_eq(now, before, "it never stops");
    return now;
}

static void expect_bounded(const struct stage *stage)
{
    size_t now = edge_rss_peak(stage->weir);

    if (!edge_is_slow())
        cr_expect_leq(now, stage->rss + RSS_GROWTH, "grew from %zu to %zu KiB", stage->rss / 1024,
                      now / 1024);
    double held = weir_metric(stage->weir, "weir_buffer_bytes");
    cr_expect_leq(held, 512 * 1024, "%g bytes are held", held);
}

/* While one connection stands still, weir rests, and others are served. */
static void expect_others_served(const struct stage *stage)
{
    unsigned long cpu = weir_cpu_ms(stage->weir);

    edge_nap(500);
    cpu = weir_cpu_ms(stage->weir) - cpu;
    cr_expect_leq(cpu, (unsigned long)edge_ms(50), "%lu ms of CPU while all wait", cpu);
    struct peer *other = connect_client(stage);
    cr_expect(peer_say(other, "GET /own HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    struct reply reply = peer_reply(other, false);
    cr_expect_eq(reply.status, 200);
    reply_free(&reply);
    peer_free(other);
}

/* ---- who stops and goes on ---- */

static void stops_reading(bool chunked)
{
    struct stage stage = {.bulk = {.size = SIZE, .chunked = chunked}};
    struct bulk_flow flow = {0};
    uint64_t length;

    open_stage(&stage, bulk_serve, &stage.bulk);
    struct peer *client = connect_client(&stage);
    cr_assert(peer_say(client, GET));
    uint64_t sent = settled(&stage.bulk.out.bytes);
    cr_expect(sent > 0 && sent < IN_FLIGHT, "the origin got rid of %llu bytes",
              (unsigned long long)sent);
    expect_bounded(&stage);
    expect_others_served(&stage);
    read_head(client, &length, &chunked);
    cr_expect(bulk_receive(client, &flow, length, chunked));
    cr_expect_eq(flow.bytes, SIZE);
    cr_expect_not(flow.wrong);
    expect_bounded(&stage);
    peer_free(client);
    close_stage(&stage);
}

Test(slow, client_stops_reading, .timeout = 120)
{
    stops_reading(false);
}

Test(slow, client_stops_reading_chunks, .timeout = 120)
{
    stops_reading(true);
}

struct upload {
    struct peer *client;
    struct bulk_flow flow;
    bool sent;
};

static void *run_upload(void *arg)
{
    struct upload *upload = arg;
    char head[128];

    (void)snprintf(head, sizeof(head),
                   "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: %llu\r\n\r\n",
                   (unsigned long long)SIZE);
    upload->sent =
        peer_say(upload->client, head) && bulk_send(upload->client, &upload->flow, SIZE, 0, false);
    return NULL;
}

Test(slow, origin_stops_reading, .timeout = 120)
{
    struct stage stage = {.bulk = {.in = {.paused = true}}};
    struct upload upload = {0};
    pthread_t thread;

    open_stage(&stage, bulk_serve, &stage.bulk);
    upload.client = connect_client(&stage);
    cr_assert_eq(pthread_create(&thread, NULL, run_upload, &upload), 0);
    while (atomic_load(&stage.bulk.heads) == 0)
        edge_nap(5);
    uint64_t sent = settled(&upload.flow.bytes);
    cr_expect(sent > 0 && sent < IN_FLIGHT, "the client got rid of %llu bytes",
              (unsigned long long)sent);
    expect_bounded(&stage);
    expect_others_served(&stage);
    atomic_store(&stage.bulk.in.paused, false);
    (void)pthread_join(thread, NULL);
    cr_expect(upload.sent);
    struct reply reply = peer_reply(upload.client, false);
    cr_expect_eq(reply.status, 200);
    reply_free(&reply);
    cr_expect_eq(stage.bulk.in.bytes, SIZE);
    cr_expect_not(stage.bulk.in.wrong);
    expect_bounded(&stage);
    peer_free(upload.client);
    close_stage(&stage);
}

/* ---- byte by byte: nothing is held back until there is more ---- */

#define STEPS 300

static bool comes(_Atomic uint64_t *bytes, uint64_t wanted)
{
    long end = edge_now_ms() + edge_ms(5000);

    while (atomic_load(bytes) < wanted && edge_now_ms() < end)
        edge_nap(1);
    return atomic_load(bytes) == wanted;
}

static void trickles_upload(bool chunked)
{
    struct stage stage = {0};
    char chunk[16];

    open_stage(&stage, bulk_serve, &stage.bulk);
    struct peer *client = connect_client(&stage);
    (void)snprintf(chunk, sizeof(chunk), "%d", STEPS);
    cr_assert(peer_say(client, "POST / HTTP/1.1\r\nHost: localhost\r\n"));
    cr_assert(peer_say(client, chunked ? "Transfer-Encoding: chunked\r\n\r\n"
                                       : "Content-Length: 300\r\n\r\n"));
    for (uint64_t i = 0; i < STEPS; i++) {
        size_t at = chunked ? 3 : 0;
        memcpy(chunk, "1\r\n", 3);
        bulk_fill(chunk + at, 1, i);
        memcpy(chunk + at + 1, "\r\n", 2);
        cr_assert(peer_write(client, chunk, chunked ? 6 : 1));
        cr_assert(comes(&stage.bulk.in.bytes, i + 1), "byte %llu is held back",
                  (unsigned long long)i);
    }
    cr_assert(!chunked || peer_say(client, "0\r\n\r\n"));
    struct reply reply = peer_reply(client, false);
    cr_expect_eq(reply.status, 200);
    reply_free(&reply);
    cr_expect_not(stage.bulk.in.wrong);
    cr_expect_eq(stage.bulk.whole, 1);
    peer_free(client);
    close_stage(&stage);
}

Test(slow, client_trickles, .timeout = 60)
{
    trickles_upload(false);
}

Test(slow, client_trickles_chunks, .timeout = 60)
{
    trickles_upload(true);
}

/* What the client has read, and how it is framed: the origin sends the next byte when the last has arrived. */
struct trickle {
    struct bulk_flow flow;
    bool chunked;
};

static void serve_trickle(struct peer *client, void *arg)
{
    struct trickle *trickle = arg;
    char head[1024];
    char chunk[16];

    if (!peer_read_head(client, head, sizeof(head)) ||
        !peer_say(client, trickle->chunked ? "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                                           : "HTTP/1.1 200 OK\r\nContent-Length: 300\r\n\r\n"))
        return;
    for (uint64_t i = 0; i < STEPS; i++) {
        size_t at = trickle->chunked ? 3 : 0;
        memcpy(chunk, "1\r\n", 3);
        bulk_fill(chunk + at, 1, i);
        memcpy(chunk + at + 1, "\r\n", 2);
        if (!peer_write(client, chunk, trickle->chunked ? 6 : 1) ||
            !comes(&trickle->flow.bytes, i + 1))
            return;
    }
    if (trickle->chunked)
        (void)peer_say(client, "0\r\n\r\n");
}

static void trickles_download(bool chunked)
{
    struct trickle trickle = {.chunked = chunked};
    struct stage stage = {0};
    uint64_t length;

    open_stage(&stage, serve_trickle, &trickle);
    struct peer *client = connect_client(&stage);
    cr_assert(peer_say(client, GET));
    read_head(client, &length, &chunked);
    cr_expect(bulk_receive(client, &trickle.flow, length, chunked), "held back at byte %llu",
              (unsigned long long)trickle.flow.bytes);
    cr_expect_eq(trickle.flow.bytes, STEPS);
    cr_expect_not(trickle.flow.wrong);
    peer_free(client);
    close_stage(&stage);
}

Test(slow, origin_trickles, .timeout = 60)
{
    trickles_download(false);
}

Test(slow, origin_trickles_chunks, .timeout = 60)
{
    trickles_download(true);
}

/* ---- many ---- */

Test(slow, a_hundred_clients_stop_reading, .timeout = 120)
{
    enum { CLIENTS = 100, EACH = 320 * 1024 };
    struct stage stage = {.bulk = {.size = 32 * MIB}};
    struct peer *clients[CLIENTS];

    open_stage(&stage, bulk_serve, &stage.bulk);
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = connect_client(&stage);
        cr_assert(peer_say(clients[i], GET));
    }
    (void)settled(&stage.bulk.out.bytes);
    size_t now = edge_rss_peak(stage.weir);
    double held = weir_metric(stage.weir, "weir_buffer_bytes");
    cr_expect_leq(held, (double)CLIENTS * EACH, "%g bytes are held", held);
    if (!edge_is_slow())
        cr_expect_leq(now, stage.rss + CLIENTS * EACH, "grew from %zu to %zu KiB", stage.rss / 1024,
                      now / 1024);
    expect_others_served(&stage);
    /* When they leave, so does all that was held for them, upstream too. */
    for (int i = 0; i < CLIENTS; i++)
        peer_free(clients[i]);
    cr_expect(weir_metric_becomes(stage.weir, "weir_buffer_bytes", 0, edge_ms(5000)));
    cr_expect(weir_metric_becomes(
        stage.weir, "weir_upstream_connections_active{cluster=\"origin\"}", 0, edge_ms(5000)));
    edge_expect_balance(stage.weir, CLIENTS + 1, 0);
    close_stage(&stage);
}
