#include "upstream/cluster.h"

#include <stdlib.h>

#include "base/assert.h"
#include "base/mem.h"
#include "observe/log.h"
#include "upstream/inside.h"
#include "upstream/pool.h"
#include "upstream/queue.h"

/* An endpoint to which a connection could not be made is passed over that long while there is another. */
#define AVOID_TIME (1 * WR_SEC)

/* ---- how the wish of a request ends ---- */

static void fail(struct wr_upstream_request *request, enum wr_err why,
                 const struct wr_endpoint *endpoint)
{
    request->cluster = NULL;
    request->events->failed(request, why, endpoint != NULL ? endpoint->options : NULL);
}

/* REQUEST is not pending (any more). */
static void serve_with(struct wr_upstream_connection *connection,
                       struct wr_upstream_request *request)
{
    struct wr_cluster_metrics *metrics = connection->cluster->metrics;
    struct wr_exchange *exchange = request->exchange;
    bool reused = connection->served > 0 || connection->pooled;
    wr_metric_inc(&metrics->upstream_requests);
    if (reused)
        wr_metric_inc(&metrics->upstream_reused);
    request->cluster = NULL;
    request->multiplexes = connection->multiplexes;
    request->events->attached(request, connection->endpoint->options, reused);
    wr_upstream_connection_open(connection, exchange);
}

/* ---- making connections ---- */

static bool is_full(const struct wr_cluster *cluster, const struct wr_endpoint *endpoint)
{
    uint32_t most = cluster->options->max_connections_per_endpoint;
    return most > 0 && endpoint->live >= most;
}

static bool is_welcome(const struct wr_cluster *cluster, const struct wr_endpoint *endpoint,
                       uint64_t now)
{
    return endpoint->avoid_until <= now && endpoint->barred == 0 &&
           (!is_full(cluster, endpoint) || !wr_list_empty(&endpoint->ready));
}

/* Round robin; those that lately failed, allow nothing for now, or have all connections they may have and none to spare, only when all
 * have or do. */
static struct wr_endpoint *next_endpoint(struct wr_cluster *cluster)
{
    size_t count = cluster->options->endpoint_count;
    WR_ASSERT(count > 0);
    uint64_t now = wr_loop_now(cluster->loop);
    size_t first = cluster->next_endpoint;
    size_t chosen = first;
    for (size_t i = 0; i < count; i++) {
        size_t at = (first + i) % count;
        if (is_welcome(cluster, &cluster->endpoints[at], now)) {
            chosen = at;
            break;
        }
    }
    cluster->next_endpoint = (chosen + 1) % count;
    return &cluster->endpoints[chosen];
}

static bool has_slot(const struct wr_cluster *cluster)
{
    return wr_cluster_live(cluster) < cluster->options->max_connections;
}

static void note_failure(struct wr_cluster *cluster, struct wr_endpoint *endpoint, enum wr_err why,
                         const char *detail)
{
    if (wr_err_info(why)->side == WR_SIDE_UPSTREAM) /* else it is our own want */
        endpoint->avoid_until = wr_time_add(wr_loop_now(cluster->loop), AVOID_TIME);
    wr_metric_inc(&cluster->metrics->upstream_connect_failed[why]);
    wr_log_write(&endpoint->log_site, WR_LOG_WARN, "upstream", "%s: no connection to %s: %s%s%s",
                 cluster->options->name, endpoint->options->text, wr_err_text(why),
                 detail[0] != '\0' ? ": " : "", detail);
}

/* REQUEST, which is queued, gets a connection that is being made, or one is begun. An idle connection that was not fit for it
 * makes room when there is no slot left. False: it stays queued. */
static bool connect_for(struct wr_cluster *cluster, struct wr_upstream_request *request,
                        struct wr_endpoint *endpoint)
{
    struct wr_upstream_connection *connection = wr_queue_find(cluster, endpoint, request->fresh);
    if (connection == NULL && (!has_slot(cluster) || is_full(cluster, endpoint)))
        connection = wr_queue_find(cluster, NULL, false);
    if (connection != NULL) {
        wr_queue_pair(connection, request);
        return true;
    }
    if (endpoint->barred > 0 ||
        (is_full(cluster, endpoint) && !wr_pool_evict_at(cluster, endpoint)) ||
        (!has_slot(cluster) && !wr_pool_evict(cluster)))
        return false;

    enum wr_err err = wr_upstream_connection_new(cluster, endpoint, &connection);
    if (err != WR_OK) {
        note_failure(cluster, endpoint, err, "");
        wr_queue_remove(cluster, request);
        fail(request, err, endpoint);
        return true;
    }
    wr_queue_pair(connection, request);
    return true;
}

/* ---- free connections and slots meet pending requests ---- */

/* A connection that can take REQUEST now, or NULL. A retry is better off with a new one; where there is no slot for that, one of
 * HTTP/2 will do, which may well have refused no more than that one stream. */
static struct wr_upstream_connection *find_for(struct wr_cluster *cluster,
                                               const struct wr_upstream_request *request,
                                               const struct wr_endpoint *endpoint)
{
    bool full = !has_slot(cluster) || (endpoint != NULL && is_full(cluster, endpoint));
    if (request->fresh && !full)
        return NULL;
    struct wr_upstream_connection *connection = wr_pool_find(cluster, endpoint, request->fresh);
    if (connection == NULL && full && endpoint != NULL)
        connection = wr_pool_find(cluster, NULL, request->fresh);
    return connection;
}

/* CONNECTION carries many, and would take the requests from those who wait for another endpoint until none is left. */
static bool takes_from(const struct wr_upstream_connection *connection,
                       const struct wr_upstream_request *request)
{
    return connection->multiplexes && request->connection != NULL &&
           request->connection->endpoint != connection->endpoint;
}

/* The oldest that can be served; false: none can. Retries that cannot, and those who wait for an endpoint, do not hold up the
 * others. */
static bool serve_one(struct wr_cluster *cluster)
{
    for (struct wr_list *at = cluster->pending.next; at != &cluster->pending; at = at->next) {
        struct wr_upstream_request *request = wr_queue_request(at);
        struct wr_upstream_connection *connection = find_for(cluster, request, NULL);
        if (connection == NULL && !request->fresh)
            return false;
        if (connection != NULL && takes_from(connection, request))
            connection = wr_pool_find(cluster, request->connection->endpoint, request->fresh);
        if (connection != NULL) {
            wr_queue_remove(cluster, request);
            serve_with(connection, request);
            return true;
        }
    }
    return false;
}

static void serve_pending(struct wr_task *task)
{
    struct wr_cluster *cluster = WR_CONTAINER_OF(task, struct wr_cluster, serve);
    while (serve_one(cluster))
        continue;
    while (cluster->queued > 0 &&
           connect_for(cluster, wr_queue_first_queued(cluster), next_endpoint(cluster)))
        continue;
    wr_pool_trim(cluster);
}

void wr_cluster_slot_freed(struct wr_cluster *cluster)
{
    if (cluster->queued > 0 && !cluster->freed)
        wr_loop_defer(cluster->loop, &cluster->serve);
}

/* A codec is still in its call, so nothing is opened here. */
void wr_cluster_capacity_changed(struct wr_cluster *cluster)
{
    if (!wr_list_empty(&cluster->pending))
        wr_loop_defer(cluster->loop, &cluster->serve);
}

/* Who gets CONNECTION, just made: whoever has waited longest. One that carries many leaves alone those who wait for another, or the
 * endpoint that is reached first would get them all. */
static struct wr_upstream_request *next_for(struct wr_upstream_connection *connection)
{
    struct wr_cluster *cluster = connection->cluster;
    bool takes_more = wr_upstream_connection_room(connection) > 0 &&
                      (connection->served == 0 || wr_pool_keeps(connection));
    if (!takes_more || wr_list_empty(&cluster->pending))
        return NULL;
    if (!connection->multiplexes)
        return wr_queue_request(cluster->pending.next);
    struct wr_upstream_request *first = wr_queue_first_for(connection);
    return first != NULL || cluster->queued == 0 ? first : wr_queue_first_queued(cluster);
}

static void serve_those_who_wait(struct wr_upstream_connection *connection)
{
    for (struct wr_upstream_request *next; (next = next_for(connection)) != NULL;) {
        wr_queue_remove(connection->cluster, next);
        serve_with(connection, next);
    }
}

/* Who had waited for it and gets nothing takes over what was being made for others, in the task; of HTTP/2, until it is settled
 * they go on waiting. */
void wr_cluster_connected(struct wr_upstream_connection *connection)
{
    struct wr_cluster *cluster = connection->cluster;
    connection->endpoint->avoid_until = 0;
    wr_upstream_connection_set_state(connection, WR_UPSTREAM_IDLE);
    serve_those_who_wait(connection);
    if (connection->settled)
        wr_queue_release(connection);
    if (connection->state == WR_UPSTREAM_IDLE) {
        connection->pooled = true;
        if (!wr_pool_keeps(connection))
            wr_upstream_connection_end(connection);
        else
            wr_pool_trim(cluster);
    }
    wr_cluster_slot_freed(cluster);
}

void wr_cluster_settled(struct wr_upstream_connection *connection)
{
    serve_those_who_wait(connection);
    wr_queue_release(connection);
    wr_cluster_capacity_changed(connection->cluster);
}

/* Nobody can begin to wait for CONNECTION any more. */
static void fail_those_who_wait(struct wr_upstream_connection *connection, enum wr_err why,
                                const char *detail)
{
    struct wr_cluster *cluster = connection->cluster;
    struct wr_endpoint *endpoint = connection->endpoint;
    note_failure(cluster, endpoint, why, detail);
    for (struct wr_upstream_request *request; (request = wr_queue_first_for(connection)) != NULL;) {
        wr_queue_remove(cluster, request);
        fail(request, why, endpoint);
    }
    wr_cluster_slot_freed(cluster);
}

void wr_cluster_connect_failed(struct wr_upstream_connection *connection, enum wr_err why,
                               const char *detail)
{
    wr_upstream_connection_close(connection, why);
    fail_those_who_wait(connection, why, detail);
}

void wr_cluster_settle_failed(struct wr_upstream_connection *connection)
{
    connection->spent = true;
    wr_upstream_connection_set_state(connection, connection->state);
    fail_those_who_wait(connection, WR_ERR_CONNECT_TIMEOUT, "no SETTINGS");
}

/* The last exchange of a connection that takes no more. What the codec has ended by itself, and what shares its connection with
 * others, is written to the end; else nobody waits for the rest. */
static void retire(struct wr_upstream_connection *connection)
{
    enum wr_transport_state state = wr_transport_state(connection->transport);
    bool matters = !connection->spent || connection->multiplexes || state == WR_TRANSPORT_ENDED;
    if (matters && state != WR_TRANSPORT_FAILED)
        wr_upstream_connection_end(connection);
    else
        wr_upstream_connection_close(connection, WR_ERR_CANCELLED);
}

void wr_cluster_stream_closed(struct wr_upstream_connection *connection)
{
    struct wr_cluster *cluster = connection->cluster;
    if (connection->streams > 0) {
        wr_upstream_connection_set_state(connection, WR_UPSTREAM_ACTIVE);
        wr_cluster_capacity_changed(cluster);
        return;
    }
    if (connection->spent || !wr_pool_keeps(connection)) {
        retire(connection);
        wr_cluster_slot_freed(cluster);
        return;
    }
    wr_upstream_connection_set_state(connection, WR_UPSTREAM_IDLE);
    connection->pooled = true;
    if (wr_list_empty(&cluster->pending))
        wr_pool_trim(cluster);
    else
        wr_cluster_capacity_changed(cluster);
}

/* ---- the public side ---- */

void wr_upstream_request_init(struct wr_upstream_request *request,
                              const struct wr_upstream_request_events *events,
                              struct wr_exchange *exchange)
{
    wr_list_init(&request->link);
    request->events = events;
    request->exchange = exchange;
    request->cluster = NULL;
    request->connection = NULL;
    request->fresh = false;
    request->again = false;
    request->multiplexes = false;
}

void wr_cluster_request(struct wr_cluster *cluster, struct wr_upstream_request *request)
{
    WR_ASSERT(request->cluster == NULL);
    if (cluster->freed || cluster->options->endpoint_count == 0) {
        fail(request, cluster->freed ? WR_ERR_DRAINING : WR_ERR_NO_ENDPOINT, NULL);
        return;
    }
    if (!request->again)
        wr_retry_budget_request(&cluster->budget, wr_loop_now(cluster->loop));

    /* Nobody overtakes the queue. */
    bool queue = cluster->queued > 0;
    struct wr_endpoint *endpoint = NULL;
    if (!queue) {
        endpoint = next_endpoint(cluster);
        struct wr_upstream_connection *connection = find_for(cluster, request, endpoint);
        if (connection != NULL) {
            serve_with(connection, request);
            return;
        }
    }
    request->cluster = cluster;
    wr_queue_add(cluster, request);
    if (!queue && connect_for(cluster, request, endpoint))
        return;
    if (cluster->queued > cluster->options->max_pending) {
        wr_queue_remove(cluster, request);
        fail(request, WR_ERR_POOL_FULL, NULL);
    }
}

void wr_upstream_request_cancel(struct wr_upstream_request *request)
{
    if (request->cluster == NULL)
        return;
    wr_queue_remove(request->cluster, request);
    request->cluster = NULL;
}

bool wr_cluster_allow_retry(struct wr_cluster *cluster, bool unprocessed)
{
    uint32_t percent = cluster->options->retry_budget_percent;
    bool allowed = (unprocessed && percent > 0) ||
                   wr_retry_budget_take(&cluster->budget, percent, wr_loop_now(cluster->loop));
    if (cluster->freed || !allowed)
        return false;
    wr_metric_inc(&cluster->metrics->upstream_retries);
    return true;
}

const struct wr_cluster_options *wr_cluster_options(const struct wr_cluster *cluster)
{
    return cluster->options;
}

struct wr_cluster_metrics *wr_cluster_metrics(struct wr_cluster *cluster)
{
    return cluster->metrics;
}

struct wr_request_gate *wr_cluster_gate(struct wr_cluster *cluster)
{
    return cluster->gate;
}

static struct wr_request_gate_metrics gate_metrics(struct wr_cluster_metrics *metrics)
{
    return (struct wr_request_gate_metrics){
        .in_flight = &metrics->upstream_requests_in_flight,
        .waiting = &metrics->upstream_requests_waiting,
        .limit = &metrics->upstream_requests_limit,
        .refused = metrics->upstream_requests_refused,
        .wait = &metrics->upstream_request_wait,
    };
}

struct wr_cluster *wr_cluster_new(struct wr_transport_host *host,
                                  const struct wr_cluster_options *options,
                                  struct wr_cluster_metrics *metrics)
{
    struct wr_cluster *cluster = WR_NEW(struct wr_cluster);
    cluster->options = options;
    cluster->metrics = metrics;
    cluster->host = host;
    cluster->loop = wr_transport_host_loop(host);
    cluster->endpoints = wr_new_zero(options->endpoint_count, sizeof(struct wr_endpoint));
    for (size_t i = 0; i < options->endpoint_count; i++) {
        cluster->endpoints[i].options = &options->endpoints[i];
        wr_list_init(&cluster->endpoints[i].ready);
    }
    for (size_t i = 0; i < WR_UPSTREAM_STATES; i++)
        wr_list_init(&cluster->connections[i]);
    wr_slab_init(&cluster->slab, sizeof(struct wr_upstream_connection));
    wr_list_init(&cluster->ready);
    wr_list_init(&cluster->awaited);
    wr_list_init(&cluster->pending);
    wr_task_init(&cluster->serve, serve_pending);
    cluster->gate = wr_request_gate_new(cluster->loop, &options->requests, gate_metrics(metrics));
    return cluster;
}

size_t wr_cluster_bytes(const struct wr_cluster *cluster)
{
    return wr_slab_bytes(&cluster->slab);
}

void wr_cluster_drain(struct wr_cluster *cluster)
{
    cluster->draining = true;
    wr_pool_clear(cluster);
}

static void release_cluster(struct wr_garbage *garbage)
{
    struct wr_cluster *cluster = WR_CONTAINER_OF(garbage, struct wr_cluster, garbage);
    wr_slab_clear(&cluster->slab);
    free(cluster->endpoints);
    free(cluster);
}

void wr_cluster_free(struct wr_cluster *cluster)
{
    if (cluster == NULL || cluster->freed)
        return;
    cluster->freed = true;
    wr_request_gate_free(cluster->gate);
    cluster->gate = NULL;
    wr_task_cancel(&cluster->serve);
    while (!wr_list_empty(&cluster->pending)) {
        struct wr_upstream_request *request = wr_queue_request(cluster->pending.next);
        wr_queue_remove(cluster, request);
        fail(request, WR_ERR_DRAINING, NULL);
    }
    for (size_t state = 0; state < WR_UPSTREAM_STATES; state++) {
        struct wr_list *list = &cluster->connections[state];
        while (!wr_list_empty(list))
            wr_upstream_connection_close(
                WR_CONTAINER_OF(list->next, struct wr_upstream_connection, link), WR_ERR_DRAINING);
    }
    wr_loop_release(cluster->loop, &cluster->garbage, release_cluster);
}
