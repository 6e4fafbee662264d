/* Several exchanges a connection: a scripted codec in the place of HTTP/2's, over real sockets. What the pool does with what the
 * codec says of its capacity. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
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

static const struct wr_client_codec_ops fake_ops = {"fake", fake_open, fake_capacity, fake_close};

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
    fake->events->capacity_changed(fake->owner);
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

static void ask_many(unsigned from, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        ask(&wishes[from + i]);
}

static unsigned attached_count(void)
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

/* Waits for connection number COUNT - 1. */
static void until_made(unsigned count)
{
    for (unsigned i = 0; i < 1000 && fake_count < count; i++)
        wr_loop_turn(loop, WR_MSEC);
    cr_assert_eq(fake_count, count);
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

static void setup(void)
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

static void teardown(void)
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

TestSuite(multiplexing, .init = setup, .fini = teardown);

/* ---- sharing ---- */

Test(multiplexing, those_who_wait_share_what_is_being_made)
{
    ask_many(0, 10);
    cr_assert_eq(attached_count(), 0);
    until_made(1);
    cr_assert_eq(attached_count(), 10);
    cr_assert_eq(fakes[0]->count, 10);
    cr_assert_not(wishes[0].reused);
    cr_assert(wishes[1].reused, "has another on it");
    cr_assert_eq(wr_metric_get(&metrics->upstream_active), 1);
    cr_assert_eq(wr_metric_get(&metrics->upstream_requests), 10);
}

Test(multiplexing, a_connection_with_room_takes_one_more_at_once)
{
    ask(&wishes[0]);
    until_made(1);
    ask_many(1, 9);
    cr_assert_eq(attached_count(), 10, "without a turn");
    cr_assert_eq(fakes[0]->count, 10);
}

Test(multiplexing, one_more_than_fits_gets_a_new_connection)
{
    ask_many(0, 10);
    until_made(1);
    ask(&wishes[10]);
    until_made(2);
    cr_assert_eq(attached_count(), 11);
    cr_assert_eq(fakes[1]->count, 1);
    ask(&wishes[11]);
    cr_assert_eq(fakes[1]->count, 2);
}

Test(multiplexing, more_than_one_can_carry_are_spread_while_connecting)
{
    ask_many(0, 25);
    until_made(3);
    cr_assert_eq(attached_count(), 25);
    cr_assert_eq(fakes[0]->count + fakes[1]->count + fakes[2]->count, 25);
}

Test(multiplexing, the_limit_is_the_one_configured_too)
{
    options.codec.h2.max_concurrent_streams = 4; /* of which the real codec takes account */
    first_limit = 4;
    ask_many(0, 8);
    until_made(2);
    cr_assert_eq(attached_count(), 8);
}

Test(multiplexing, a_free_place_goes_to_who_waits)
{
    options.max_connections = 1;
    ask_many(0, 12);
    until_made(1);
    cr_assert_eq(attached_count(), 10);
    fake_end(fakes[0], 3, true);
    settle();
    cr_assert(wishes[10].attached);
    cr_assert_not(wishes[11].attached);
    tell_limit(fakes[0], 20);
    settle();
    cr_assert(wishes[11].attached);
    cr_assert_eq(fakes[0]->count, 11);
}

Test(multiplexing, endpoints_take_turns)
{
    options.endpoint_count = 2;
    wr_cluster_free(cluster);
    cluster = wr_cluster_new(host, &options, metrics);
    ask_many(0, 8);
    until_made(2);
    cr_assert_eq(fakes[0]->count, 4);
    cr_assert_eq(fakes[1]->count, 4);
    ask_many(8, 4);
    cr_assert_eq(fakes[0]->count, 6);
    cr_assert_eq(fakes[1]->count, 6);
}

/* ---- what the peer says of its limit ---- */

Test(multiplexing, a_limit_that_is_told_is_expected_of_the_next_connection)
{
    ask(&wishes[0]);
    until_made(1);
    tell_limit(fakes[0], 2);
    ask_many(1, 5);
    cr_assert_eq(fakes[0]->count, 2);
    until_made(3); /* two each, before they have said a word */
    cr_assert_eq(attached_count(), 6);
    cr_assert_eq(fakes[1]->count, 2);
    cr_assert_eq(fakes[2]->count, 2);
}

/* MAX_CONCURRENT_STREAMS 1 comes when ten are out; nine are refused and tried again. */
Test(multiplexing, a_limit_that_is_exceeded_already)
{
    ask_many(0, 10);
    until_made(1);
    tell_limit(fakes[0], 1);
    for (unsigned i = 0; i < 9; i++) {
        ask_as(&wishes[10 + i], true);
        fake_end(fakes[0], 0, true);
    }
    for (unsigned i = 0; i < 1000 && attached_count() < 17; i++)
        wr_loop_turn(loop, WR_MSEC);
    /* Seven more connections, one exchange each, and none beyond its limit; two wait. */
    cr_assert_eq(fake_count, 8);
    cr_assert_eq(attached_count(), 17);
    for (unsigned i = 0; i < fake_count; i++)
        cr_assert_eq(fakes[i]->count, 1);
    fake_end(fakes[0], 0, true);
    settle();
    cr_assert_eq(attached_count(), 18);
}

Test(multiplexing, no_limit_at_all_for_a_while)
{
    ask(&wishes[0]);
    until_made(1);
    tell_limit(fakes[0], 0);
    options.max_connections = 1;
    ask(&wishes[1]);
    settle();
    cr_assert_not(wishes[1].attached);
    tell_limit(fakes[0], 5);
    settle();
    cr_assert(wishes[1].attached);
}

/* ---- ends ---- */

/* GOAWAY: no capacity any more, and each exchange ends without leaving a reusable connection. */
Test(multiplexing, a_connection_that_goes_away_finishes_what_it_has)
{
    ask_many(0, 3);
    until_made(1);
    tell_limit(fakes[0], 0);
    fake_end(fakes[0], 0, false);
    cr_assert_not(fakes[0]->closed);
    ask(&wishes[3]);
    until_made(2);
    cr_assert_eq(fakes[1]->count, 1);
    fake_end(fakes[0], 0, false);
    cr_assert_not(fakes[0]->closed);
    fake_end(fakes[0], 0, false);
    cr_assert(fakes[0]->closed);
    settle();
    cr_assert_eq(wr_metric_get(&metrics->upstream_active), 1);
}

Test(multiplexing, what_goes_away_says_nothing_of_the_next)
{
    ask_many(0, 5);
    until_made(1);
    tell_limit(fakes[0], 10);
    fakes[0]->limit = 0;
    fakes[0]->events->capacity_changed(fakes[0]->owner);
    for (unsigned i = 0; i < 5; i++) {
        ask_as(&wishes[5 + i], true);
        fake_end(fakes[0], 0, false);
    }
    until_made(2);
    cr_assert_eq(fakes[1]->count, 5, "one connection for all");
}

Test(multiplexing, one_without_exchanges_is_idle_and_ends_in_time)
{
    ask_many(0, 2);
    until_made(1);
    fake_end(fakes[0], 0, true);
    cr_assert_eq(wr_metric_get(&metrics->upstream_active), 1);
    fake_end(fakes[0], 0, true);
    cr_assert_eq(wr_metric_get(&metrics->upstream_active), 0);
    cr_assert_eq(wr_metric_get(&metrics->upstream_idle), 1);
    ask(&wishes[2]);
    cr_assert(wishes[2].reused);
    fake_end(fakes[0], 0, true);
    wr_loop_advance(loop, 29 * WR_SEC);
    cr_assert_not(fakes[0]->closed);
    wr_loop_advance(loop, 2 * WR_SEC);
    cr_assert(fakes[0]->closed);
}

Test(multiplexing, one_too_old_takes_no_more_and_goes_with_its_last)
{
    options.max_connection_age = 10 * WR_SEC;
    ask_many(0, 2);
    until_made(1);
    wr_loop_advance(loop, 11 * WR_SEC);
    ask(&wishes[2]);
    until_made(2);
    cr_assert_eq(fakes[0]->count, 2);
    fake_end(fakes[0], 0, true);
    cr_assert_not(fakes[0]->closed);
    fake_end(fakes[0], 0, true);
    cr_assert(fakes[0]->closed);
}

Test(multiplexing, one_that_has_served_enough)
{
    options.max_requests_per_connection = 3;
    ask_many(0, 5);
    until_made(2);
    cr_assert_eq(fakes[0]->count, 3);
    cr_assert_eq(fakes[1]->count, 2);
    for (unsigned i = 0; i < 3; i++)
        fake_end(fakes[0], 0, true);
    cr_assert(fakes[0]->closed);
}

Test(multiplexing, a_drained_cluster_keeps_nothing)
{
    ask_many(0, 2);
    until_made(1);
    wr_cluster_drain(cluster);
    ask(&wishes[2]);
    until_made(2);
    fake_end(fakes[1], 0, true);
    cr_assert(fakes[1]->closed);
    fake_end(fakes[0], 0, true);
    fake_end(fakes[0], 0, true);
    cr_assert(fakes[0]->closed);
}

Test(multiplexing, an_exchange_may_fail_while_it_is_opened)
{
    ask(&wishes[0]);
    until_made(1);
    fakes[0]->refuses = true;
    ask_many(1, 3);
    cr_assert_eq(fakes[0]->count, 1);
    fakes[0]->refuses = false;
    ask_many(4, 9);
    cr_assert_eq(fakes[0]->count, 10);
}

Test(multiplexing, a_connection_that_breaks_when_idle)
{
    ask(&wishes[0]);
    until_made(1);
    fake_end(fakes[0], 0, true);
    fakes[0]->events->broken(fakes[0]->owner, WR_ERR_UPSTREAM_CLOSED);
    cr_assert(fakes[0]->closed);
    ask(&wishes[1]);
    until_made(2);
    cr_assert_not(wishes[1].reused);
}

/* ---- retries ---- */

Test(multiplexing, a_retry_gets_a_new_connection_while_there_may_be_one)
{
    ask(&wishes[0]);
    until_made(1);
    ask_as(&wishes[1], true);
    until_made(2);
    cr_assert_eq(fakes[1]->count, 1);
    cr_assert_not(wishes[1].reused);
}

Test(multiplexing, at_the_limit_a_retry_takes_what_there_is)
{
    options.max_connections = 1;
    ask(&wishes[0]);
    until_made(1);
    ask_as(&wishes[1], true);
    cr_assert(wishes[1].attached);
    cr_assert_eq(fakes[0]->count, 2);
}

/* ---- connections that cannot be made ---- */

Test(multiplexing, all_who_wait_for_one_hear_of_it)
{
    close(listening[0]);
    ask_many(0, 6);
    settle();
    for (unsigned i = 0; i < 6; i++)
        cr_assert_eq(wishes[i].failed, WR_ERR_CONNECT_REFUSED);
    cr_assert_eq(wr_metric_get(&metrics->upstream_connect_failed[WR_ERR_CONNECT_REFUSED]), 1);
    listen_on(0);
}

Test(multiplexing, and_may_ask_again_from_within)
{
    options.endpoint_count = 2;
    wr_cluster_free(cluster);
    cluster = wr_cluster_new(host, &options, metrics);
    close(listening[0]);
    for (unsigned i = 0; i < 6; i++)
        wishes[i].then = &wishes[10 + i];
    ask_many(0, 6);
    settle();
    cr_assert_eq(fake_count, 1);
    cr_assert_eq(fakes[0]->count, 6);
    cr_assert_eq(attached_count(), 6);
    listen_on(0);
}

Test(multiplexing, those_who_leave_make_room_for_others)
{
    ask_many(0, 10);
    for (unsigned i = 0; i < 5; i++)
        wr_upstream_request_cancel(&wishes[i].request);
    ask_many(10, 5);
    until_made(1);
    cr_assert_eq(attached_count(), 10);
    for (unsigned i = 0; i < 5; i++)
        cr_assert_not(wishes[i].attached);
}

Test(multiplexing, a_connection_nobody_waits_for_any_more_is_idle)
{
    ask_many(0, 3);
    for (unsigned i = 0; i < 3; i++)
        wr_upstream_request_cancel(&wishes[i].request);
    until_made(1);
    cr_assert_eq(wr_metric_get(&metrics->upstream_idle), 1);
    ask(&wishes[3]);
    cr_assert(wishes[3].attached);
    cr_assert(wishes[3].reused, "it has waited in the pool");
}
