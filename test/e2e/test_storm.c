/* A few thousand clients of all sorts at once: whatever becomes of each, accepted = refused + closed + open. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/edge.h"
#include "support/flood.h"

#define FULL "weir_handshakes_full_total{listener=\"edge\"}"
#define THREADS 16

enum kind {
    GOOD_CLOSE,  /* a request that asks for the end */
    GOOD_KEEP,   /* two requests, and the client ends */
    SILENT,      /* not a byte */
    HALF,        /* of a ClientHello */
    ABORT_HELLO, /* RST behind the ClientHello */
    ABORT_LATER, /* RST behind handshake and request */
    JUNK,        /* no TLS */
    KIND__COUNT,
};

struct storm {
    int port;
    unsigned total;
    unsigned kinds; /* those below */
    atomic_uint next;
    atomic_uint came[KIND__COUNT];
    atomic_uint served;
    uint8_t hello[FLOOD_HELLO_MAX];
    size_t hello_n;
};

static bool ask(struct peer *peer, const char *request)
{
    struct reply reply = {0};
    bool fine = peer_say(peer, request);

    if (fine) {
        reply = peer_reply(peer, false);
        fine = reply.status == 200 && reply.whole && strcmp(reply.body, "hello") == 0;
        reply_free(&reply);
    }
    return fine;
}

static void be_good(struct storm *storm, enum kind kind)
{
    struct peer *peer = peer_connect_tls(storm->port, NULL);
    bool fine = peer != NULL;

    if (fine && kind == GOOD_CLOSE)
        fine = ask(peer, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n") &&
               peer_wait_end(peer) == PEER_EOF;
    else if (fine)
        fine = ask(peer, "GET / HTTP/1.1\r\nHost: x\r\n\r\n") &&
               ask(peer, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    if (fine)
        atomic_fetch_add(&storm->served, 1);
    peer_free(peer);
}

static void abort_later(struct storm *storm)
{
    struct peer *peer = peer_connect_tls(storm->port, NULL);

    if (!peer)
        return;
    (void)peer_say(peer, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    peer_reset(peer);
    peer_free(peer);
}

static void be_bad(struct storm *storm, enum kind kind, unsigned index)
{
    int fd = flood_connect(storm->port, index);

    if (fd < 0)
        return;
    if (kind == HALF)
        (void)flood_send(fd, storm->hello, 1 + index % (storm->hello_n - 1));
    if (kind == ABORT_HELLO)
        (void)flood_send(fd, storm->hello, storm->hello_n);
    if (kind == JUNK)
        (void)flood_send(fd, "junk", 4);
    if (kind == JUNK || index % 3)
        edge_nap((int)(index % 7));
    if (kind == ABORT_HELLO || (kind == SILENT && index % 2))
        flood_reset(fd);
    else
        (void)close(fd);
}

static void *run(void *arg)
{
    struct storm *storm = arg;
    unsigned index;

    while ((index = atomic_fetch_add(&storm->next, 1)) < storm->total) {
        /* All kinds in an order that is not the same for neighbours. */
        enum kind kind = (enum kind)((index * 2654435761u >> 16) % storm->kinds);
        atomic_fetch_add(&storm->came[kind], 1);
        if (kind == GOOD_CLOSE || kind == GOOD_KEEP)
            be_good(storm, kind);
        else if (kind == ABORT_LATER)
            abort_later(storm);
        else
            be_bad(storm, kind, index);
    }
    return NULL;
}

static struct storm *blow(const struct weir *weir, unsigned total, unsigned kinds)
{
    struct storm *storm = calloc(1, sizeof(*storm));
    pthread_t threads[THREADS];

    storm->port = weir_port(weir, "edge");
    storm->total = total;
    storm->kinds = kinds;
    storm->hello_n = flood_hello(storm->hello, NULL);
    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, run, storm), 0);
    for (int i = 0; i < THREADS; i++)
        (void)pthread_join(threads[i], NULL);
    return storm;
}

static unsigned came(const struct storm *storm, enum kind kind)
{
    return atomic_load(&storm->came[kind]);
}

static unsigned good(const struct storm *storm)
{
    return came(storm, GOOD_CLOSE) + came(storm, GOOD_KEEP);
}

static void expect_all_logged(const struct weir *weir)
{
    char *text = weir_admin_get(weir, "/metrics");
    double refused = edge_sum(text, "weir_connections_refused_total{listener=\"edge\"");

    cr_expect_eq(edge_sum(text, "weir_access_log_dropped_total"), 0);
    edge_expect_log_lines(weir, "\"type\":\"refused\"", (unsigned)refused);
    free(text);
}

static void expect_idle_cpu(const struct weir *weir)
{
    unsigned long before = weir_cpu_ms(weir);
    edge_nap(500);
    unsigned long spent = weir_cpu_ms(weir) - before;
    cr_expect_leq(spent, (unsigned long)edge_ms(50), "%lu ms of CPU in 500 ms of rest", spent);
}

#define LEFT_SILENT 30
#define LEFT_IDLE 40

Test(storm, without_a_limit_each_is_what_it_seems, .timeout = 120)
{
    struct edge_options options = {
        .workers = 2,
        .admission = "max_pending_handshakes: infinity, max_handshake_delay: infinity",
        .timeouts = "client_hello: 1h, handshake: 1h, keep_alive: 1h",
    };
    struct weir *weir = edge_start(&options);
    unsigned total = edge_is_slow() ? 1500 : 6000;
    int silent[LEFT_SILENT];
    struct peer *idle[LEFT_IDLE];

    for (unsigned i = 0; i < LEFT_SILENT; i++)
        silent[i] = flood_connect(weir_port(weir, "edge"), i);
    for (int i = 0; i < LEFT_IDLE; i++)
        idle[i] = peer_connect_tls(weir_port(weir, "edge"), NULL);
    struct storm *storm = blow(weir, total, KIND__COUNT);
    cr_expect_eq(atomic_load(&storm->served), good(storm), "%u of %u good clients served",
                 atomic_load(&storm->served), good(storm));
    edge_expect_balance(weir, total + LEFT_SILENT + LEFT_IDLE, LEFT_SILENT + LEFT_IDLE);
    cr_expect_eq(edge_refused(weir, "not_tls"), came(storm, JUNK));
    /* Its RST may be faster than its Finished. */
    double gone = edge_refused(weir, "abandoned");
    unsigned left = came(storm, SILENT) + came(storm, HALF) + came(storm, ABORT_HELLO);
    cr_expect(gone >= left && gone <= left + came(storm, ABORT_LATER), "%g abandoned, %u left",
              gone, left);
    double full = weir_metric(weir, FULL);
    cr_expect_eq(full + gone, good(storm) + left + came(storm, ABORT_LATER) + LEFT_IDLE);
    expect_all_logged(weir);
    cr_expect(edge_serves(weir));
    expect_idle_cpu(weir);
    flood_close(silent, LEFT_SILENT);
    for (int i = 0; i < LEFT_IDLE; i++)
        peer_free(idle[i]);
    edge_expect_balance(weir, total + LEFT_SILENT + LEFT_IDLE + 1, 0);
    free(storm);
    weir_stop(weir);
}

static void limited(const char *admission)
{
    struct edge_options options = {
        .workers = 2,
        .admission = admission,
        .timeouts = "client_hello: 200ms, handshake: 2s, linger: 200ms",
    };
    struct weir *weir = edge_start(&options);
    unsigned total = edge_is_slow() ? 1000 : 3000;
    struct storm *storm = blow(weir, total, ABORT_LATER);
    unsigned served = atomic_load(&storm->served);

    edge_expect_balance(weir, total, 0);
    cr_expect_gt(edge_refused(weir, "too_many_handshakes"), 0, "the limit was never reached");
    cr_expect_gt(served, 0);
    cr_expect_eq(weir_metric(weir, FULL), served, "%g handshakes, %u clients served",
                 weir_metric(weir, FULL), served);
    cr_expect_leq(good(storm) - served, edge_refused(weir, "too_many_handshakes"),
                  "%u clients were refused and %g counted", good(storm) - served,
                  edge_refused(weir, "too_many_handshakes"));
    cr_expect_eq(weir_metric(weir, "weir_handshakes_running{listener=\"edge\"}"), 0);
    cr_expect_eq(weir_metric(weir, "weir_handshakes_waiting{listener=\"edge\"}"), 0);
    expect_all_logged(weir);
    cr_expect(edge_serves(weir), "the first client after the storm is not served");
    expect_idle_cpu(weir);
    free(storm);
    weir_stop(weir);
}

Test(storm, limited_with_reset, .timeout = 120)
{
    limited("max_pending_handshakes: 2");
}

Test(storm, limited_with_close, .timeout = 120)
{
    limited("max_pending_handshakes: 2, refuse_with: close");
}

Test(storm, limited_with_alert, .timeout = 120)
{
    limited("max_pending_handshakes: 2, refuse_with: alert");
}
