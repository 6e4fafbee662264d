/* A cluster whose HTTP/2 codec is scripted, over real sockets, and requests that ask it. For the tests beside it. */
#ifndef WR_TEST_UPSTREAM_SCRIPTED_H
#define WR_TEST_UPSTREAM_SCRIPTED_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/compiler.h"
#include "base/mem.h"
#include "codec/h2_client.h"
#include "io/loop.h"
#include "upstream/cluster.h"

#define MOST 64

/* ---- the codec ---- */

struct fake {
    struct wr_client_codec base;
    const struct wr_client_codec_events *events;
    void *owner;
    struct wr_exchange *open[MOST];
    unsigned count;
    unsigned limit; /* exchanges at once */
    bool told;      /* it */
    bool closed;
    bool refuses; /* the next exchange fails within open() */
};

static struct fake *fakes[MOST];
static unsigned fake_count;
static unsigned first_limit; /* of new ones */

static unsigned fake_capacity(const struct wr_client_codec *codec)
{
    const struct fake *fake = WR_CONTAINER_OF(codec, struct fake, base);
    return fake->limit > fake->count ? fake->limit - fake->count : 0;
}

static void fake_end(struct fake *fake, unsigned index, bool reusable)
{
    fake->open[index] = fake->open[--fake->count];
    fake->events->stream_closed(fake->owner, reusable);
}

static void fake_open(struct wr_client_codec *codec, struct wr_exchange *exchange)
{
    struct fake *fake = WR_CONTAINER_OF(codec, struct fake, base);
    cr_assert_gt(fake_capacity(codec), 0, "opened beyond its capacity");
    fake->open[fake->count++] = exchange;
    if (fake->refuses)
        fake_end(fake, fake->count - 1, true);
}

static void fake_close(struct wr_client_codec *codec, enum wr_err why)
{
    (void)why;
    WR_CONTAINER_OF(codec, struct fake, base)->closed = true;
}

static const struct wr_client_codec_ops fake_ops = {
    .name = "fake", .open = fake_open, .capacity = fake_capacity, .close = fake_close};

/* Instead of the real one. */
struct wr_client_codec *wr_h2_client_new(struct wr_transport *transport,
                                         const struct wr_client_codec_options *options,
                                         struct wr_loop *loop,
                                         const struct wr_client_codec_events *events, void *owner)
{
    static const struct wr_transport_events nothing = {0};
    (void)options;
    (void)loop;
    struct fake *fake = WR_NEW(struct fake);
    fake->base.ops = &fake_ops;
    fake->events = events;
    fake->owner = owner;
    fake->limit = first_limit;
    fakes[fake_count++] = fake;
    wr_transport_set_events(transport, &nothing, NULL);
    return &fake->base;
}

/* The peer's SETTINGS. */
static void tell_limit(struct fake *fake, unsigned limit)
{
    fake->limit = limit;
    fake->told = true;
    fake->events->limit_told(fake->owner, limit);
}

/* GOAWAY of the peer. */
static WR_UNUSED void leave(struct fake *fake)
{
    fake->limit = 0;
    fake->events->leaving(fake->owner);
    fake->events->limit_told(fake->owner, 0);
}

/* ---- the cluster and who asks it ---- */

struct wish {
    struct wr_upstream_request request;
    struct wr_exchange exchange;
    bool attached;
    bool reused;
    enum wr_err failed;
    struct wish *then; /* asked for when this one fails */
};

static struct wr_loop *loop;
static struct wr_transport_host *host;
static struct wr_metrics_registry *registry;
static struct wr_cluster_metrics *metrics;
static struct wr_cluster_options options;
static struct wr_endpoint_options endpoints[2];
static int listening[2];
static struct wr_cluster *cluster;
static struct wish wishes[MOST];

static void on_attached(struct wr_upstream_request *request,
                        const struct wr_endpoint_options *endpoint, bool reused)
{
    struct wish *wish = WR_CONTAINER_OF(request, struct wish, request);
    (void)endpoint;
    cr_assert_not(wish->attached);
    wish->attached = true;
    wish->reused = reused;
}

static void ask(struct wish *wish);

static void on_failed(struct wr_upstream_request *request, enum wr_err why,
                      const struct wr_endpoint_options *endpoint)
{
    struct wish *wish = WR_CONTAINER_OF(request, struct wish, request);
    (void)endpoint;
    wish->failed = why;
    if (wish->then != NULL)
        ask(wish->then);
}

static const struct wr_upstream_request_events wish_events = {on_attached, on_failed};

static void ask_as(struct wish *wish, bool fresh)
{
    wr_upstream_request_init(&wish->request, &wish_events, &wish->exchange);
    wish->request.fresh = fresh;
    wr_cluster_request(cluster, &wish->request);
}

static void ask(struct wish *wish)
{
    ask_as(wish, false);
}

static WR_UNUSED bool is_over(const struct fake *fake)
{
    wr_loop_turn(loop, 0);
    return fake->closed;
}

static WR_UNUSED void ask_many(unsigned from, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        ask(&wishes[from + i]);
}

static WR_UNUSED unsigned attached_count(void)
{
    unsigned count = 0;
    for (unsigned i = 0; i < MOST; i++)
        count += wishes[i].attached;
    return count;
}

static void settle(void)
{
    for (unsigned i = 0; i < 20; i++)
        wr_loop_turn(loop, 500);
}

/* Waits for connection number COUNT - 1, whose peer has not said a word then. */
static WR_UNUSED void until_connected(unsigned count)
{
    for (unsigned i = 0; i < 1000 && fake_count < count; i++)
        wr_loop_turn(loop, WR_MSEC);
    cr_assert_eq(fake_count, count);
    settle();
    cr_assert_eq(fake_count, count);
}

/* The same, and each tells its limit as soon as it is there. */
static WR_UNUSED void until_made(unsigned count)
{
    unsigned told = 0;
    for (unsigned i = 0; i < 1000 && (fake_count < count || told < count); i++) {
        wr_loop_turn(loop, WR_MSEC);
        for (; told < fake_count; told++) {
            if (!fakes[told]->told && !fakes[told]->closed)
                tell_limit(fakes[told], fakes[told]->limit);
        }
    }
    settle();
    cr_assert_eq(fake_count, count);
}

static void listen_on(unsigned index)
{
    struct wr_address *address = &endpoints[index].address;
    struct wr_listen_options how = {.backlog = 64};
    cr_assert_eq(
        wr_address_parse(index == 0 ? WR_STR("127.0.0.1:0") : WR_STR("127.0.0.2:0"), address),
        WR_OK);
    cr_assert_eq(wr_socket_listen(address, &how, &listening[index]), WR_OK);
    address->length = sizeof(address->storage);
    cr_assert_eq(
        getsockname(listening[index], (struct sockaddr *)&address->storage, &address->length), 0);
    endpoints[index].text = index == 0 ? "one" : "two";
}

static WR_UNUSED void setup(void)
{
    cr_assert_eq(wr_loop_new(WR_CLOCK_SIMULATED, &loop), WR_OK);
    cr_assert_eq(wr_transport_host_new(loop, NULL, &host), WR_OK);
    registry = wr_metrics_registry_new();
    metrics = wr_metrics_new_cluster(registry, "c");
    listen_on(0);
    listen_on(1);
    first_limit = 10;
    options = (struct wr_cluster_options){
        .name = "c",
        .protocol = WR_CLUSTER_HTTP2,
        .endpoints = endpoints,
        .endpoint_count = 1,
        .connect_timeout = WR_SEC,
        .keep_alive_timeout = 30 * WR_SEC,
        .max_connection_age = WR_NEVER,
        .max_connections = 8,
        .max_idle = 8,
        .max_pending = 16,
        .max_requests_per_connection = UINT64_MAX,
        .codec = {.h2 = {.max_concurrent_streams = 10}},
    };
    cluster = wr_cluster_new(host, &options, metrics);
}

static WR_UNUSED void teardown(void)
{
    wr_cluster_free(cluster);
    wr_loop_turn(loop, 0);
    cr_expect_eq(wr_metric_get(&metrics->upstream_active), 0);
    cr_expect_eq(wr_metric_get(&metrics->upstream_idle), 0);
    cr_expect_eq(wr_metric_get(&metrics->upstream_pending), 0);
    for (unsigned i = 0; i < fake_count; i++)
        free(fakes[i]);
    wr_transport_host_free(host);
    wr_loop_free(loop);
    wr_metrics_registry_free(registry);
    close(listening[0]);
    close(listening[1]);
}

#endif
