/* Listeners with different `limits.buffer` before one HTTP/2 cluster: their exchanges share a connection, and each holds what its own
 * listener says, whichever came first. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "support/edge.h"
#include "support/h2_frames.h"
#include "support/weir.h"

#define SMALL 16384.0
#define BIG (4 * 1024 * 1024.0)
#define STREAMS 8
#define CONNECTS "weir_upstream_connects_total{cluster=\"inner\"}"

struct world {
    struct weir *inner;
    struct weir *outer;
};

static struct world start(void)
{
    struct world world;

    world.inner = weir_start("workers: 1\nadmin: 127.0.0.1:0\n"
                             "listeners: [{name: plain, bind: 127.0.0.1:0,\n"
                             "             routes: [{respond: {body_size: 64MiB}}]}]\n");
    world.outer = weir_start(
        "workers: 1\nadmin: 127.0.0.1:0\n"
        "listeners:\n"
        "  - {name: big, bind: 127.0.0.1:0, limits: {buffer: 4MiB}, routes: [{cluster: inner}]}\n"
        "  - {name: small, bind: 127.0.0.1:0, limits: {buffer: 16KiB}, routes: [{cluster: "
        "inner}]}\n"
        "clusters: [{name: inner, endpoints: [127.0.0.1:%d], protocol: http2}]\n",
        weir_port(world.inner, "plain"));
    return world;
}

/* A client that takes nothing of COUNT responses. */
static struct h2_peer *stall(const struct world *world, const char *listener, unsigned count)
{
    static const uint32_t nothing[] = {4, 0, 0};
    struct h2_peer *client = h2_peer_open(weir_port(world->outer, listener), false, nothing);
    char head[32];

    for (unsigned i = 0; i < count; i++)
        h2_peer_get(client, 2 * i + 1, "/");
    for (unsigned i = 0; i < count; i++) {
        (void)snprintf(head, sizeof(head), "HEADERS/%u[", 2 * i + 1);
        cr_assert(h2_peer_hears(client, head), "%s", h2_peer_log(client));
    }
    return client;
}

/* What weir holds comes to N bytes of content, and does not go on to more than a chunk a stream above that. */
static void expect_held(const struct world *world, double n, unsigned streams)
{
    const double most = n + streams * 32768.0;
    long end = edge_now_ms() + edge_ms(10000);
    double held = 0;

    while (held < n && edge_now_ms() < end) {
        edge_nap(10);
        held = weir_metric(world->outer, "weir_buffer_bytes");
    }
    cr_expect_geq(held, n, "%g of %g", held, n);
    for (unsigned i = 0; i < 20; i++) { /* time for more to come, if the peer may send it */
        edge_nap(10);
        held = weir_metric(world->outer, "weir_buffer_bytes");
        cr_assert_leq(held, most, "%g, not %g", held, n);
    }
}

Test(h2_shared_windows, the_small_one_after_the_big_one, .timeout = 120)
{
    struct world world = start();
    struct h2_peer *big = stall(&world, "big", 1);
    expect_held(&world, BIG, 1);
    struct h2_peer *small = stall(&world, "small", STREAMS);
    expect_held(&world, BIG + STREAMS * SMALL, 1 + STREAMS);
    cr_expect_eq(weir_metric(world.outer, CONNECTS), 1);
    h2_peer_free(small);
    h2_peer_free(big);
    weir_stop(world.outer);
    weir_stop(world.inner);
}

Test(h2_shared_windows, the_big_one_after_the_small_one, .timeout = 120)
{
    struct world world = start();
    struct h2_peer *small = stall(&world, "small", STREAMS);
    expect_held(&world, STREAMS * SMALL, STREAMS);
    struct h2_peer *big = stall(&world, "big", 1);
    expect_held(&world, BIG + STREAMS * SMALL, 1 + STREAMS);
    cr_expect_eq(weir_metric(world.outer, CONNECTS), 1);
    h2_peer_free(small);
    h2_peer_free(big);
    weir_stop(world.outer);
    weir_stop(world.inner);
}
