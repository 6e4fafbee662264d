#include "upstream/connection.h"

#include "base/assert.h"
#include "codec/h1_client.h"
#include "codec/h2_client.h"
#include "observe/log.h"
#include "upstream/hibernate.h"
#include "upstream/inside.h"
#include "upstream/pool.h"
#include "upstream/queue.h"

/* What waits to be written when nothing more is to be said may take that long. */
#define CLOSING_TIME (1 * WR_SEC)
#define CLOSING_TIME_WITH_OUTPUT (10 * WR_SEC)
/* Exchanges on a connection of HTTP/2 before its peer has said how many it takes, and no other connection to it was told. The first
 * brings SETTINGS, so the others wait for less than its answer; most of more than that a peer with a low limit would refuse. */
#define UNTOLD_STREAMS 1

/* Which codec speaks on an established connection, by what ALPN chose. */
static const struct protocol {
    struct wr_str alpn;
    bool multiplexes;
    struct wr_client_codec *(*make)(struct wr_transport *transport,
                                    const struct wr_client_codec_options *options,
                                    struct wr_loop *loop,
                                    const struct wr_client_codec_events *events, void *owner);
} protocols[] = {
    {{"http/1.1", 8}, false, wr_h1_client_new},
    {{"h2", 2}, true, wr_h2_client_new},
};
#define HTTP1 (&protocols[0])
#define HTTP2 (&protocols[1])

/* NULL: the upstream does not speak what it should. */
static const struct protocol *choose_protocol(const struct wr_upstream_connection *connection)
{
    enum wr_cluster_protocol wanted = connection->cluster->options->protocol;
    struct wr_tls_info info;
    if (!wr_transport_tls_info(connection->transport, &info))
        return wanted == WR_CLUSTER_HTTP2 ? HTTP2 : HTTP1;
    if (info.alpn.n == 0)
        return wanted == WR_CLUSTER_HTTP2 ? NULL : HTTP1;
    for (size_t i = 0; i < WR_COUNT_OF(protocols); i++) {
        if (wr_str_eq(info.alpn, protocols[i].alpn))
            return &protocols[i];
    }
    return NULL;
}

/* ---- deadlines ---- */

static void connect_expired(struct wr_upstream_connection *connection)
{
    wr_cluster_connect_failed(connection, WR_ERR_CONNECT_TIMEOUT, "");
}

static void settle_expired(struct wr_upstream_connection *connection)
{
    wr_cluster_settle_failed(connection);
}

static void idle_expired(struct wr_upstream_connection *connection)
{
    if (wr_loop_now(connection->cluster->loop) >= connection->idle_ends)
        wr_upstream_connection_end(connection);
    else
        wr_upstream_hibernate(connection);
}

static void closing_expired(struct wr_upstream_connection *connection)
{
    wr_upstream_connection_close(connection, WR_ERR_CANCELLED);
}

static uint64_t connect_length(const struct wr_upstream_connection *connection)
{
    return connection->cluster->options->connect_timeout;
}

/* SETTINGS are the first thing a peer says, so they belong to the making of a connection; but an exchange has begun. */
static uint64_t settle_length(const struct wr_upstream_connection *connection)
{
    bool waits = !connection->settled && !connection->spent;
    return waits ? connection->cluster->options->connect_timeout : WR_NEVER;
}

/* Until the idle timeout or the greatest age, whichever comes first. */
static uint64_t idle_length(const struct wr_upstream_connection *connection)
{
    const struct wr_cluster_options *options = connection->cluster->options;
    uint64_t now = wr_loop_now(connection->cluster->loop);
    uint64_t oldest = wr_pool_retirement(connection);
    uint64_t age_left = oldest == WR_NEVER ? WR_NEVER : oldest > now ? oldest - now : 0;
    return options->keep_alive_timeout < age_left ? options->keep_alive_timeout : age_left;
}

/* Or until it is to hibernate, before that. */
static uint64_t idle_step(const struct wr_upstream_connection *connection)
{
    uint64_t left = idle_length(connection);
    uint64_t step = connection->cluster->options->hibernate_after;
    return step < left ? step : left;
}

/* For our end to be written; the connection goes anyway then. */
static uint64_t closing_length(const struct wr_upstream_connection *connection)
{
    bool more = wr_transport_output(connection->transport) > 0;
    return more ? CLOSING_TIME_WITH_OUTPUT : CLOSING_TIME;
}

/* How long a state may last and what comes then. Settled, ACTIVE has no deadline: those of its exchanges hold. */
static const struct {
    uint64_t (*length)(const struct wr_upstream_connection *connection);
    void (*expired)(struct wr_upstream_connection *connection);
} deadlines[WR_UPSTREAM_STATES] = {
    [WR_UPSTREAM_CONNECTING] = {connect_length, connect_expired},
    [WR_UPSTREAM_IDLE] = {idle_step, idle_expired},
    [WR_UPSTREAM_ACTIVE] = {settle_length, settle_expired},
    [WR_UPSTREAM_CLOSING] = {closing_length, closing_expired},
};

static void deadline_expired(struct wr_deadline *deadline, uint64_t now WR_UNUSED)
{
    struct wr_upstream_connection *connection =
        WR_CONTAINER_OF(deadline, struct wr_upstream_connection, deadline);
    if (deadlines[connection->state].expired != NULL)
        deadlines[connection->state].expired(connection);
}

/* ---- state ---- */

static _Atomic uint64_t *gauge_of(struct wr_cluster *cluster, enum wr_upstream_state state)
{
    switch (state) {
    case WR_UPSTREAM_IDLE:
        return &cluster->metrics->upstream_idle;
    case WR_UPSTREAM_ACTIVE:
        return &cluster->metrics->upstream_active;
    default:
        return NULL;
    }
}

/* Counts towards limits. */
static bool is_live(enum wr_upstream_state state)
{
    return state != WR_UPSTREAM_CLOSING;
}

static void leave_state(struct wr_upstream_connection *connection)
{
    struct wr_cluster *cluster = connection->cluster;
    if (connection->state == WR_UPSTREAM_NONE)
        return;
    wr_upstream_wake(connection);
    wr_list_remove(&connection->link);
    wr_upstream_connection_withdraw(connection);
    cluster->counts[connection->state]--;
    connection->endpoint->live -= is_live(connection->state);
    _Atomic uint64_t *gauge = gauge_of(cluster, connection->state);
    if (gauge != NULL)
        wr_metric_dec(gauge);
    connection->state = WR_UPSTREAM_NONE;
}

unsigned wr_upstream_connection_room(const struct wr_upstream_connection *connection)
{
    if (connection->spent)
        return 0;
    if (connection->codec == NULL)
        return connection->dormant ? 1 : 0;
    unsigned room = connection->codec->ops->capacity(connection->codec);
    if (connection->settled)
        return room;
    unsigned told = connection->endpoint->carries; /* to another connection */
    unsigned most = told > 0 ? told : UNTOLD_STREAMS;
    unsigned left = most > connection->streams ? most - connection->streams : 0;
    return left < room ? left : room;
}

void wr_upstream_connection_withdraw(struct wr_upstream_connection *connection)
{
    wr_list_remove(&connection->ready);
    wr_list_remove(&connection->ready_at_endpoint);
}

/* On the lists of those that take one more exchange, if it does. */
static void offer(struct wr_upstream_connection *connection)
{
    wr_upstream_connection_withdraw(connection);
    if (wr_upstream_connection_room(connection) == 0 || !wr_pool_keeps(connection))
        return;
    wr_list_push_back(&connection->cluster->ready, &connection->ready);
    wr_list_push_back(&connection->endpoint->ready, &connection->ready_at_endpoint);
}

/* As long as one says so, its endpoint is asked for no other connection: that would be told the same. */
static void bar(struct wr_upstream_connection *connection, bool barred)
{
    if (connection->barred == barred)
        return;
    connection->barred = barred;
    connection->endpoint->barred += barred ? 1 : (unsigned)-1;
    wr_cluster_capacity_changed(connection->cluster);
}

void wr_upstream_connection_set_state(struct wr_upstream_connection *connection,
                                      enum wr_upstream_state state)
{
    struct wr_cluster *cluster = connection->cluster;
    leave_state(connection);
    connection->state = state;
    wr_queue_place(connection);
    if (state == WR_UPSTREAM_NONE || state == WR_UPSTREAM_CLOSING)
        bar(connection, false);
    if (state == WR_UPSTREAM_NONE) {
        wr_loop_deadline_remove(cluster->loop, &connection->deadline);
        return;
    }

    wr_list_push_back(&cluster->connections[state], &connection->link);
    if (state == WR_UPSTREAM_IDLE || state == WR_UPSTREAM_ACTIVE)
        offer(connection);
    cluster->counts[state]++;
    connection->endpoint->live += is_live(state);
    _Atomic uint64_t *gauge = gauge_of(cluster, state);
    if (gauge != NULL)
        wr_metric_inc(gauge);

    if (state == WR_UPSTREAM_IDLE)
        connection->idle_ends = wr_time_add(wr_loop_now(cluster->loop), idle_length(connection));
    uint64_t length =
        deadlines[state].length != NULL ? deadlines[state].length(connection) : WR_NEVER;
    wr_loop_deadline_set(cluster->loop, &connection->deadline,
                         wr_time_add(wr_loop_now(cluster->loop), length));
}

/* ---- our end ---- */

static void closing_flushed(void *owner)
{
    wr_upstream_connection_close(owner, WR_ERR_CANCELLED);
}

static void closing_closed(void *owner, enum wr_err why, const char *detail WR_UNUSED)
{
    wr_upstream_connection_close(owner, why);
}

static const struct wr_transport_events closing_events = {
    .flushed = closing_flushed,
    .closed = closing_closed,
};

static void close_codec(struct wr_upstream_connection *connection, enum wr_err why)
{
    struct wr_client_codec *codec = connection->codec;
    connection->codec = NULL;
    if (codec != NULL)
        codec->ops->close(codec, why);
}

/* What the codec still had to say of its last exchange goes before this. */
static void part(struct wr_upstream_connection *connection)
{
    wr_task_cancel(&connection->parting);
    close_codec(connection, WR_ERR_CANCELLED);
    wr_transport_set_events(connection->transport, &closing_events, connection);
    wr_transport_discard_input(connection->transport);
    wr_transport_end(connection->transport);
    wr_upstream_connection_set_state(connection, WR_UPSTREAM_CLOSING);
}

static void run_parting(struct wr_task *task)
{
    part(WR_CONTAINER_OF(task, struct wr_upstream_connection, parting));
}

/* ---- what the codec says ---- */

static void stream_closed(void *owner, bool reusable)
{
    struct wr_upstream_connection *connection = owner;
    if (connection->state != WR_UPSTREAM_ACTIVE)
        return;
    WR_ASSERT(connection->streams > 0);
    connection->streams--;
    if (!reusable)
        connection->spent = true;
    wr_cluster_stream_closed(connection);
}

/* The codec is in its call, so those who wait for SETTINGS are served in a task. None at all says nothing of the next connection: the
 * peer is going away, or does not mean it for long. */
static void limit_told(void *owner, unsigned limit)
{
    struct wr_upstream_connection *connection = owner;
    struct wr_cluster *cluster = connection->cluster;
    if (connection->state != WR_UPSTREAM_IDLE && connection->state != WR_UPSTREAM_ACTIVE)
        return;
    if (limit > 0)
        connection->endpoint->carries = limit;
    bar(connection, limit == 0 && !connection->spent);
    if (!connection->settled) {
        wr_loop_defer(cluster->loop, &connection->settle);
        return;
    }
    offer(connection);
    wr_cluster_capacity_changed(cluster);
}

static void leaving(void *owner)
{
    struct wr_upstream_connection *connection = owner;
    connection->spent = true;
}

static void settle(struct wr_task *task)
{
    struct wr_upstream_connection *connection =
        WR_CONTAINER_OF(task, struct wr_upstream_connection, settle);
    connection->settled = true;
    wr_upstream_connection_set_state(connection, connection->state);
    wr_cluster_settled(connection);
}

/* Behaviour row 23: bytes that come while no request is open are never an answer to anything. */
void wr_upstream_broken(void *owner, enum wr_err why)
{
    struct wr_upstream_connection *connection = owner;
    struct wr_cluster *cluster = connection->cluster;
    if (connection->state == WR_UPSTREAM_NONE)
        return;
    if (why == WR_ERR_BAD_RESPONSE) {
        wr_metric_inc(&cluster->metrics->upstream_stray_bytes);
        wr_log(WR_LOG_WARN, "upstream", "%s: %s sent bytes nobody asked for, connection closed",
               cluster->options->name, connection->endpoint->options->text);
    }
    /* Our end is still to be said. */
    if (connection->state == WR_UPSTREAM_CLOSING &&
        wr_transport_state(connection->transport) != WR_TRANSPORT_FAILED)
        part(connection);
    else
        wr_upstream_connection_close(connection, why);
    wr_cluster_slot_freed(cluster);
}

static void woken(void *owner)
{
    wr_upstream_wake(owner);
}

static void flooded(void *owner, enum wr_flood kind)
{
    struct wr_upstream_connection *connection = owner;
    struct wr_cluster *cluster = connection->cluster;
    wr_metric_inc(&cluster->metrics->upstream_h2_floods[kind]);
    wr_log(WR_LOG_WARN, "upstream", "%s: %s sent more than its budget of %s, connection closed",
           cluster->options->name, connection->endpoint->options->text, wr_flood_label(kind));
}

static const struct wr_client_codec_events codec_events = {
    .stream_closed = stream_closed,
    .broken = wr_upstream_broken,
    .limit_told = limit_told,
    .leaving = leaving,
    .flooded = flooded,
    .woken = woken,
};

static void make_codec(struct wr_upstream_connection *connection)
{
    struct wr_cluster *cluster = connection->cluster;
    connection->codec = protocols[connection->protocol].make(
        connection->transport, &cluster->options->codec, cluster->loop, &codec_events, connection);
}

/* ---- what the transport says before there is a codec, and after ---- */

static void established(void *owner)
{
    struct wr_upstream_connection *connection = owner;
    struct wr_cluster *cluster = connection->cluster;
    const struct protocol *protocol = choose_protocol(connection);
    if (protocol == NULL) {
        wr_cluster_connect_failed(connection, WR_ERR_UPSTREAM_TLS_FAILED,
                                  "ALPN has not chosen a protocol of the cluster");
        return;
    }
    connection->multiplexes = protocol->multiplexes;
    connection->protocol = (uint8_t)(protocol - protocols);
    connection->settled = !protocol->multiplexes;
    if (connection->settled)
        connection->endpoint->carries = 1;
    make_codec(connection);
    connection->established = wr_loop_now(cluster->loop);
    wr_metric_inc(&cluster->metrics->upstream_connects);
    wr_cluster_connected(connection);
}

static void connect_closed(void *owner, enum wr_err why, const char *detail)
{
    wr_cluster_connect_failed(owner, why, detail);
}

static const struct wr_transport_events connecting_events = {
    .established = established,
    .closed = connect_closed,
};

/* ---- life ---- */

enum wr_err wr_upstream_connection_new(struct wr_cluster *cluster, struct wr_endpoint *endpoint,
                                       struct wr_upstream_connection **out)
{
    struct wr_upstream_connection *connection = wr_slab_take(&cluster->slab);
    wr_list_init(&connection->link);
    wr_list_init(&connection->ready);
    wr_list_init(&connection->ready_at_endpoint);
    wr_list_init(&connection->awaited);
    wr_task_init(&connection->settle, settle);
    wr_task_init(&connection->parting, run_parting);
    wr_deadline_init(&connection->deadline, deadline_expired);
    connection->cluster = cluster;
    connection->endpoint = endpoint;

    struct wr_transport_counters counters = {
        .received = &cluster->metrics->upstream_bytes_received,
        .sent = &cluster->metrics->upstream_bytes_sent,
    };
    enum wr_err err =
        wr_transport_connect(cluster->host, &endpoint->options->address, cluster->options->tls,
                             counters, &connecting_events, connection, &connection->transport);
    if (err != WR_OK) {
        wr_slab_give(&cluster->slab, connection);
        return err;
    }
    wr_upstream_connection_set_state(connection, WR_UPSTREAM_CONNECTING);
    *out = connection;
    return WR_OK;
}

void wr_upstream_connection_open(struct wr_upstream_connection *connection,
                                 struct wr_exchange *exchange)
{
    WR_ASSERT(wr_upstream_connection_room(connection) > 0);
    connection->served++;
    connection->streams++;
    wr_upstream_connection_set_state(connection, WR_UPSTREAM_ACTIVE);
    wr_upstream_connection_withdraw(connection); /* the codec is busy with this one */
    if (connection->codec == NULL)
        make_codec(connection);
    connection->codec->ops->open(connection->codec, exchange);
    if (connection->state == WR_UPSTREAM_ACTIVE)
        offer(connection);
}

static void release(struct wr_garbage *garbage)
{
    struct wr_upstream_connection *connection =
        WR_CONTAINER_OF(garbage, struct wr_upstream_connection, garbage);
    wr_slab_give(&connection->cluster->slab, connection);
}

/* It is never settled, or that does not matter any more: who waits for it needs another. Those of one that could not be made hear
 * of that instead (wr_cluster_connect_failed()). */
static void let_go(struct wr_upstream_connection *connection)
{
    wr_task_cancel(&connection->settle);
    if (connection->waiting == 0 || connection->state == WR_UPSTREAM_CONNECTING)
        return;
    wr_queue_release(connection);
    wr_cluster_slot_freed(connection->cluster);
}

void wr_upstream_connection_end(struct wr_upstream_connection *connection)
{
    if (connection->state != WR_UPSTREAM_IDLE && connection->state != WR_UPSTREAM_ACTIVE)
        return;
    let_go(connection);
    wr_upstream_connection_set_state(connection, WR_UPSTREAM_CLOSING);
    wr_loop_defer(connection->cluster->loop, &connection->parting);
}

void wr_upstream_connection_close(struct wr_upstream_connection *connection, enum wr_err why)
{
    if (connection->transport == NULL)
        return;
    let_go(connection);
    wr_task_cancel(&connection->parting);
    wr_upstream_connection_set_state(connection, WR_UPSTREAM_NONE);
    close_codec(connection, why);
    wr_transport_close(connection->transport);
    connection->transport = NULL;
    wr_loop_release(connection->cluster->loop, &connection->garbage, release);
}
