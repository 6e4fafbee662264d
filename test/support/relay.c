#include "support/relay.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/mem.h"
#include "codec/h1_server.h"
#include "codec/h2_server.h"
#include "proxy/proxy.h"
#include "upstream/cluster.h"

#define QUIET_TURNS 4
#define MOST_TURNS 100000
#define MOST_MIDS 16

/* One of the two: a listening side with its cluster. */
struct hop {
    struct wr_exchange_host host;
    struct wr_client_info info;
    struct wr_server_codec_options server_options;
    struct wr_listener_metrics *listener_metrics;
    struct wr_endpoint_options endpoint; /* what it connects to */
    int listening;                       /* there */
    struct wr_cluster_options cluster_options;
    struct wr_cluster_metrics *cluster_metrics;
    struct wr_route route;
    struct wr_proxy_options proxy_options;
};

/* Made once. */
static struct world {
    struct wr_loop *loop;
    struct wr_transport_host *transports;
    struct wr_metrics_registry *registry;
    struct wr_worker_metrics *worker_metrics;
    struct hop edge;
    struct hop mid;
} world;

/* A connection that a hop has accepted. */
struct accepted {
    struct relay *relay;
    bool of_edge;
    struct wr_transport *transport;
    struct wr_server_codec *codec;
};

struct relay {
    const struct relay_events *events;
    void *owner;
    struct wr_cluster *clusters[2]; /* of edge, of mid */
    struct wr_proxy *edge;
    struct wr_proxy *mid;
    struct accepted accepted; /* the client's, at the edge */
    struct accepted mids[MOST_MIDS];
    unsigned mid_count;
    struct relay_end client;
    struct relay_end origins[RELAY_ORIGINS];
    unsigned origin_count;
    bool busy; /* something happened since this was cleared */
};

/* ---- the world ---- */

/* An abstract address, chosen by the system. */
static int listen_somewhere(struct wr_address *address)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    address->storage.ss_family = AF_UNIX;
    WR_ASSERT(fd >= 0 && bind(fd, (struct sockaddr *)&address->storage, sizeof(sa_family_t)) == 0 &&
              listen(fd, 64) == 0);
    address->length = sizeof(address->storage);
    WR_ASSERT(getsockname(fd, (struct sockaddr *)&address->storage, &address->length) == 0);
    return fd;
}

static struct wr_h2_options h2_options(void)
{
    struct wr_h2_options h2 = {
        .max_concurrent_streams = 100,
        .connection_window = 1024 * 1024,
        .header_table_size = 4096,
        .stream_window = 65536,
        .ping_interval = WR_NEVER,
        .ping_timeout = WR_NEVER,
    };
    for (unsigned i = 0; i < WR_FLOOD__COUNT; i++)
        h2.budgets[i] = (struct wr_h2_budget){UINT32_MAX, 0};
    return h2;
}

static void set_limits(struct hop *hop)
{
    hop->server_options = (struct wr_server_codec_options){
        .head_limit = (size_t)64 * 1024,
        .uri_limit = 8192,
        .fields_limit = 256,
        .discard_limit = 4096,
        .head_timeout = 10 * WR_SEC,
        .max_requests = UINT64_MAX,
        .h2 = h2_options(),
    };
    hop->cluster_options = (struct wr_cluster_options){
        .endpoints = &hop->endpoint,
        .endpoint_count = 1,
        .connect_timeout = WR_SEC,
        .response_timeout = WR_SEC,
        .keep_alive_timeout = WR_SEC,
        .max_connection_age = WR_NEVER,
        .max_connections = RELAY_ORIGINS,
        .max_idle = RELAY_ORIGINS,
        .max_pending = 16,
        .max_requests_per_connection = UINT64_MAX,
        .retry_budget_percent = 100,
        .retry_connect = true,
        .retry_reused = true,
        .codec = {.head_limit = (size_t)64 * 1024, .fields_limit = 256, .h2 = h2_options()},
    };
}

static void make_hop(struct hop *hop, const char *name)
{
    set_limits(hop);
    hop->listener_metrics = wr_metrics_new_listener(world.registry, name);
    hop->cluster_metrics = wr_metrics_new_cluster(world.registry, name);
    wr_exchange_host_init(&hop->host);
    hop->host.loop = world.loop;
    hop->host.chunks = wr_transport_host_chunks(world.transports);
    hop->host.worker_metrics = world.worker_metrics;
    hop->host.metrics = hop->listener_metrics;
    hop->host.content_limit = 1024; /* so that windows and buffers run full */
    hop->host.spare_limit = 0;      /* so that a use after free shows */
    hop->info = (struct wr_client_info){
        .listener = wr_str_from(name),
        .address_slice = WR_STR_EMPTY,
        .host_slice = WR_STR_EMPTY,
        .tls_version = "",
    };
    hop->listening = listen_somewhere(&hop->endpoint.address);
    hop->endpoint.text = name;
    hop->cluster_options.name = name;
    hop->route = (struct wr_route){
        .name = "all", .host = WR_STR_EMPTY, .path = WR_STR_EMPTY, .action = WR_ROUTE_CLUSTER};
    hop->proxy_options = (struct wr_proxy_options){
        .routes = {.routes = &hop->route, .count = 1},
        .forward = {.via = WR_STR("weir")},
        .request_content_limit = UINT64_MAX,
    };
}

static void make_world(void)
{
    if (world.loop != NULL)
        return;
    WR_ASSERT(wr_loop_new(WR_CLOCK_SIMULATED, &world.loop) == WR_OK);
    WR_ASSERT(wr_transport_host_new(world.loop, NULL, &world.transports) == WR_OK);
    world.registry = wr_metrics_registry_new();
    world.worker_metrics = wr_metrics_new_worker(world.registry);
    make_hop(&world.edge, "edge");
    make_hop(&world.mid, "mid");
    struct wr_server_codec_options *of_client = &world.edge.server_options;
    of_client->head_limit = RELAY_HEAD;
    of_client->uri_limit = RELAY_TARGET;
    of_client->fields_limit = RELAY_FIELDS;
    of_client->chunk_overhead = RELAY_CHUNK_OVERHEAD;
    struct wr_client_codec_options *of_origin = &world.mid.cluster_options.codec;
    of_origin->head_limit = RELAY_HEAD;
    of_origin->fields_limit = RELAY_FIELDS;
    of_origin->chunk_overhead = RELAY_CHUNK_OVERHEAD;
    world.edge.cluster_options.protocol = WR_CLUSTER_HTTP2;
    world.mid.cluster_options.protocol = WR_CLUSTER_HTTP1;
}

/* ---- what the hops accept ---- */

static void on_exchange(void *owner, struct wr_exchange *exchange)
{
    struct accepted *accepted = owner;
    struct relay *relay = accepted->relay;
    if (accepted->of_edge && relay->events->asked != NULL)
        relay->events->asked(relay->owner, exchange);
    wr_proxy_start(accepted->of_edge ? relay->edge : relay->mid, exchange);
}

static void on_nothing(void *owner)
{
    ((struct accepted *)owner)->relay->busy = true;
}

static const struct wr_transport_events no_events = {0};

static void on_done(void *owner, enum wr_err why)
{
    struct accepted *accepted = owner;
    accepted->relay->busy = true;
    accepted->codec->ops->close(accepted->codec, why);
    accepted->codec = NULL;
    if (why == WR_OK) {
        wr_transport_set_events(accepted->transport, &no_events, accepted);
    } else {
        wr_transport_reset(accepted->transport);
        accepted->transport = NULL;
    }
}

static const struct wr_server_codec_events server_events = {
    .exchange = on_exchange,
    .head_begun = on_nothing,
    .head_complete = on_nothing,
    .idle = on_nothing,
    .done = on_done,
};

static void serve(struct relay *relay, struct accepted *accepted, bool of_edge, int fd)
{
    struct hop *hop = of_edge ? &world.edge : &world.mid;
    *accepted = (struct accepted){.relay = relay, .of_edge = of_edge};
    WR_ASSERT(wr_transport_accept(world.transports, fd, NULL, (struct wr_transport_counters){0},
                                  &no_events, accepted, &accepted->transport) == WR_OK);
    accepted->codec = (of_edge ? wr_h1_server_new : wr_h2_server_new)(
        accepted->transport, &hop->server_options, &hop->host, &hop->info, &server_events,
        accepted);
}

static void let_go(struct accepted *accepted)
{
    if (accepted->codec != NULL)
        accepted->codec->ops->close(accepted->codec, WR_ERR_CLIENT_CLOSED);
    wr_transport_close(accepted->transport);
}

/* ---- turns ---- */

static void accept_all(struct relay *relay)
{
    int fd;
    while ((fd = accept4(world.edge.listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        WR_ASSERT(relay->mid_count < MOST_MIDS);
        serve(relay, &relay->mids[relay->mid_count++], false, fd);
        relay->busy = true;
    }
    while ((fd = accept4(world.mid.listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        WR_ASSERT(relay->origin_count < RELAY_ORIGINS);
        relay->origins[relay->origin_count] = (struct relay_end){.fd = fd};
        relay->origin_count++;
        relay->busy = true;
    }
}

/* True: something came. */
static bool hear(struct relay *relay, struct relay_end *end)
{
    char bytes[16384];
    size_t before = end->heard.n;
    while (!end->ended) {
        ssize_t n = recv(end->fd, bytes, sizeof(bytes), 0);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            break;
        relay->busy = true;
        if (n > 0)
            text_add(&end->heard, bytes, (size_t)n);
        else
            end->ended = true;
    }
    return end->heard.n > before;
}

static uint64_t moved(void)
{
    uint64_t sum = 0;
    const struct hop *const hops[] = {&world.edge, &world.mid};
    for (size_t i = 0; i < WR_COUNT_OF(hops); i++)
        sum += wr_metric_get(&hops[i]->cluster_metrics->upstream_bytes_received) +
               wr_metric_get(&hops[i]->cluster_metrics->upstream_bytes_sent);
    return sum;
}

static void turn(struct relay *relay)
{
    uint64_t before = moved();
    wr_loop_turn(world.loop, 0);
    accept_all(relay);
    for (unsigned i = 0; i < relay->origin_count; i++) {
        if (hear(relay, &relay->origins[i]))
            relay->events->origin_heard(relay->owner, &relay->origins[i]);
    }
    (void)hear(relay, &relay->client);
    relay->busy |= moved() != before;
}

void relay_settle(struct relay *relay)
{
    unsigned turns = 0;
    for (unsigned quiet = 0; quiet < QUIET_TURNS; quiet++) {
        WR_ASSERT(turns++ < MOST_TURNS);
        relay->busy = false;
        turn(relay);
        if (relay->busy)
            quiet = 0;
    }
}

void relay_say(struct relay *relay, struct relay_end *end, struct wr_str bytes, size_t piece)
{
    for (size_t at = 0; at < bytes.n && !end->ended;) {
        size_t n = bytes.n - at < piece ? bytes.n - at : piece;
        ssize_t sent = send(end->fd, bytes.p + at, n, MSG_NOSIGNAL);
        if (sent > 0)
            at += (size_t)sent;
        else if (errno != EAGAIN)
            break; /* the other end is gone */
        turn(relay);
    }
    relay_settle(relay);
}

void relay_finish(struct relay *relay, struct relay_end *end)
{
    (void)shutdown(end->fd, SHUT_WR);
    relay_settle(relay);
}

/* ---- its life ---- */

struct wr_str relay_rest(const struct relay_end *end)
{
    if (end->at == end->heard.n)
        return WR_STR_EMPTY;
    return wr_str(end->heard.p + end->at, end->heard.n - end->at);
}

struct relay_end *relay_client(struct relay *relay)
{
    return &relay->client;
}

const struct relay_end *relay_origins(const struct relay *relay, size_t *count)
{
    *count = relay->origin_count;
    return relay->origins;
}

struct relay *relay_new(const struct relay_events *events, void *owner)
{
    make_world();
    struct relay *relay = WR_NEW(struct relay);
    int fds[2];
    relay->events = events;
    relay->owner = owner;
    for (int i = 0; i < 2; i++) {
        struct hop *hop = i == 0 ? &world.edge : &world.mid;
        relay->clusters[i] =
            wr_cluster_new(world.transports, &hop->cluster_options, hop->cluster_metrics);
    }
    relay->edge = wr_proxy_new(world.loop, &world.edge.proxy_options, world.edge.listener_metrics,
                               &relay->clusters[0]);
    relay->mid = wr_proxy_new(world.loop, &world.mid.proxy_options, world.mid.listener_metrics,
                              &relay->clusters[1]);
    WR_ASSERT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
    relay->client.fd = fds[1];
    serve(relay, &relay->accepted, true, fds[0]);
    return relay;
}

static void free_end(struct relay_end *end)
{
    close(end->fd);
    text_free(&end->heard);
}

void relay_free(struct relay *relay)
{
    let_go(&relay->accepted);
    wr_cluster_free(relay->clusters[0]);
    for (unsigned i = 0; i < relay->mid_count; i++)
        let_go(&relay->mids[i]);
    wr_cluster_free(relay->clusters[1]);
    wr_loop_turn(world.loop, 0);
    wr_proxy_free(relay->edge);
    wr_proxy_free(relay->mid);
    free_end(&relay->client);
    for (unsigned i = 0; i < relay->origin_count; i++)
        free_end(&relay->origins[i]);
    WR_ASSERT(wr_metric_get(&world.worker_metrics->exchanges_active) == 0);
    WR_ASSERT(wr_transport_host_chunks(world.transports)->used_count == 0);
    free(relay);
}
