#include "upstream/cluster.h"

#include <stdlib.h>

#include "base/assert.h"
#include "base/mem.h"
#include "observe/log.h"
#include "upstream/inside.h"
#include "upstream/pool.h"

/* An endpoint to which a connection could not be made is passed over that long while there is another. */
#define AVOID_TIME (1 * WR_SEC)

static struct wr_upstream_request *request_of(struct wr_list *link)
{
    return WR_CONTAINER_OF(link, struct wr_upstream_request, link);
}

/* ---- pending requests: in order of arrival; each has a connection being made for it, or is `queued` ---- */

/* A connection being made that nobody waits for any more goes to the front of its list, where it is found first. */
static void set_spare(struct wr_upstream_connection *connection)
{
    connection->wanted_by = NULL;
    wr_list_remove(&connection->link);
    wr_list_push_front(&connection->cluster->connections[WR_UPSTREAM_CONNECTING],
                       &connection->link);
}

static void pair(struct wr_upstream_connection *connection, struct wr_upstream_request *request)
{
    connection->wanted_by = request;
    request->connection = connection;
    wr_list_remove(&connection->link);
    wr_list_push_back(&connection->cluster->connections[WR_UPSTREAM_CONNECTING], &connection->link);
}

static void add_pending(struct wr_cluster *cluster, struct wr_upstream_request *request)
{
    wr_list_push_back(&cluster->pending, &request->link);
    cluster->queued++;
    wr_metric_inc(&cluster->metrics->upstream_pending);
}

/* Takes REQUEST off the list; the connection being made for it, if any, becomes a spare one. */
static void remove_pending(struct wr_cluster *cluster, struct wr_upstream_request *request)
{
    wr_list_remove(&request->link);
    wr_metric_dec(&cluster->metrics->upstream_pending);
    struct wr_upstream_connection *connection = request->connection;
    request->connection = NULL;
    if (connection == NULL)
        cluster->queued--;
    else if (connection->state == WR_UPSTREAM_CONNECTING)
        set_spare(connection);
}

static struct wr_upstream_request *first_queued(struct wr_cluster *cluster)
{
    for (struct wr_list *at = cluster->pending.next; at != &cluster->pending; at = at->next) {
        if (request_of(at)->connection == NULL)
            return request_of(at);
    }
    return NULL;
}

/* The oldest pending request that may be sent on a pooled connection. */
static struct wr_upstream_request *first_poolable(struct wr_cluster *cluster)
{
    for (struct wr_list *at = cluster->pending.next; at != &cluster->pending; at = at->next) {
        if (!request_of(at)->fresh)
            return request_of(at);
    }
    return NULL;
}

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
    bool reused = connection->state == WR_UPSTREAM_IDLE;
    wr_metric_inc(&metrics->upstream_requests);
    if (reused)
        wr_metric_inc(&metrics->upstream_reused);
    request->cluster = NULL;
    request->events->attached(request, connection->endpoint->options, reused);
    wr_upstream_connection_open(connection, exchange);
}

/* ---- making connections ---- */

/* Round robin; those that lately failed only when all have. */
static struct wr_endpoint *next_endpoint(struct wr_cluster *cluster)
{
    size_t count = cluster->options->endpoint_count;
    WR_ASSERT(count > 0);
    uint64_t now = wr_loop_now(cluster->loop);
    size_t first = cluster->next_endpoint;
    size_t chosen = first;
    for (size_t i = 0; i < count; i++) {
        size_t at = (first + i) % count;
        if (cluster->endpoints[at].avoid_until <= now) {
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
    endpoint->avoid_until = wr_time_add(wr_loop_now(cluster->loop), AVOID_TIME);
    wr_metric_inc(&cluster->metrics->upstream_connect_failed[why]);
    wr_log(WR_LOG_WARN, "upstream", "%s: no connection to %s: %s%s%s", cluster->options->name,
           endpoint->options->text, wr_err_text(why), detail[0] != '\0' ? ": " : "", detail);
}

/* Starts a connection for REQUEST, which is queued. An idle connection that was not fit for it makes room when there is no
 * slot left. False: it stays queued. */
static bool connect_for(struct wr_cluster *cluster, struct wr_upstream_request *request,
                        struct wr_endpoint *endpoint)
{
    struct wr_list *connecting = &cluster->connections[WR_UPSTREAM_CONNECTING];
    if (!wr_list_empty(connecting)) {
        struct wr_upstream_connection *spare =
            WR_CONTAINER_OF(connecting->next, struct wr_upstream_connection, link);
        if (spare->wanted_by == NULL) {
            cluster->queued--;
            pair(spare, request);
            return true;
        }
    }
    if (!has_slot(cluster) && !wr_pool_evict(cluster))
        return false;

    struct wr_upstream_connection *connection;
    enum wr_err err = wr_upstream_connection_new(cluster, endpoint, &connection);
    if (err != WR_OK) {
        note_failure(cluster, endpoint, err, "");
        remove_pending(cluster, request);
        fail(request, err, endpoint);
        return true;
    }
    cluster->queued--;
    pair(connection, request);
    return true;
}

/* ---- free connections and slots meet pending requests ---- */

static void serve_pending(struct wr_task *task)
{
    struct wr_cluster *cluster = WR_CONTAINER_OF(task, struct wr_cluster, serve);
    struct wr_upstream_request *request;
    while ((request = first_poolable(cluster)) != NULL) {
        struct wr_upstream_connection *connection = wr_pool_find(cluster, NULL);
        if (connection == NULL)
            break;
        remove_pending(cluster, request);
        serve_with(connection, request);
    }
    while (cluster->queued > 0) {
        request = first_queued(cluster);
        if (!connect_for(cluster, request, next_endpoint(cluster)))
            break;
    }
    wr_pool_trim(cluster);
}

void wr_cluster_slot_freed(struct wr_cluster *cluster)
{
    if (cluster->queued > 0 && !cluster->freed)
        wr_loop_defer(cluster->loop, &cluster->serve);
}

void wr_cluster_connected(struct wr_upstream_connection *connection)
{
    struct wr_cluster *cluster = connection->cluster;
    connection->endpoint->avoid_until = 0;

    /* Whoever has waited longest gets it; who had asked for it takes over what was being made for that one. */
    struct wr_upstream_request *asked = connection->wanted_by;
    connection->wanted_by = NULL;
    if (asked != NULL) {
        asked->connection = NULL;
        cluster->queued++;
    }
    if (wr_list_empty(&cluster->pending)) {
        wr_upstream_connection_set_state(connection, WR_UPSTREAM_IDLE);
        if (!wr_pool_keeps(connection))
            wr_upstream_connection_end(connection);
        else
            wr_pool_trim(cluster);
        return;
    }
    struct wr_upstream_request *oldest = request_of(cluster->pending.next);
    struct wr_upstream_connection *being_made = oldest->connection;
    remove_pending(cluster, oldest);
    if (being_made != NULL && asked != NULL) {
        cluster->queued--;
        pair(being_made, asked);
    }
    serve_with(connection, oldest);
    wr_cluster_slot_freed(cluster);
}

void wr_cluster_connect_failed(struct wr_upstream_connection *connection, enum wr_err why,
                               const char *detail)
{
    struct wr_cluster *cluster = connection->cluster;
    struct wr_endpoint *endpoint = connection->endpoint;
    struct wr_upstream_request *asked = connection->wanted_by;
    connection->wanted_by = NULL;
    wr_upstream_connection_close(connection, why);
    note_failure(cluster, endpoint, why, detail);
    if (asked != NULL) {
        asked->connection = NULL;
        cluster->queued++;
        remove_pending(cluster, asked);
        fail(asked, why, endpoint);
    }
    wr_cluster_slot_freed(cluster);
}

void wr_cluster_stream_closed(struct wr_upstream_connection *connection, bool reusable)
{
    struct wr_cluster *cluster = connection->cluster;
    if (!reusable) {
        wr_upstream_connection_close(connection, WR_ERR_CANCELLED);
        wr_cluster_slot_freed(cluster);
        return;
    }
    if (!wr_pool_keeps(connection)) {
        wr_upstream_connection_end(connection);
        wr_cluster_slot_freed(cluster);
        return;
    }
    wr_upstream_connection_set_state(connection, WR_UPSTREAM_IDLE);
    if (!wr_list_empty(&cluster->pending))
        wr_loop_defer(cluster->loop, &cluster->serve); /* the codec is still in its call */
    else
        wr_pool_trim(cluster);
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
}

void wr_cluster_request(struct wr_cluster *cluster, struct wr_upstream_request *request)
{
    WR_ASSERT(request->cluster == NULL);
    if (cluster->freed || cluster->options->endpoint_count == 0) {
        fail(request, cluster->freed ? WR_ERR_DRAINING : WR_ERR_NO_ENDPOINT, NULL);
        return;
    }
    wr_retry_budget_request(&cluster->budget, wr_loop_now(cluster->loop));

    /* Nobody overtakes the queue. */
    bool queue = cluster->queued > 0;
    struct wr_endpoint *endpoint = NULL;
    if (!queue) {
        endpoint = next_endpoint(cluster);
        struct wr_upstream_connection *idle = NULL;
        if (!request->fresh) {
            idle = wr_pool_find(cluster, endpoint);
            if (idle == NULL && !has_slot(cluster))
                idle = wr_pool_find(cluster, NULL);
        }
        if (idle != NULL) {
            serve_with(idle, request);
            return;
        }
    }
    request->cluster = cluster;
    add_pending(cluster, request);
    if (!queue && connect_for(cluster, request, endpoint))
        return;
    if (cluster->queued > cluster->options->max_pending) {
        remove_pending(cluster, request);
        fail(request, WR_ERR_POOL_FULL, NULL);
    }
}

void wr_upstream_request_cancel(struct wr_upstream_request *request)
{
    if (request->cluster == NULL)
        return;
    remove_pending(request->cluster, request);
    request->cluster = NULL;
}

bool wr_cluster_allow_retry(struct wr_cluster *cluster)
{
    if (cluster->freed ||
        !wr_retry_budget_take(&cluster->budget, cluster->options->retry_budget_percent,
                              wr_loop_now(cluster->loop)))
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
        wr_list_init(&cluster->endpoints[i].idle);
    }
    for (size_t i = 0; i < WR_UPSTREAM_STATES; i++)
        wr_list_init(&cluster->connections[i]);
    wr_list_init(&cluster->pending);
    wr_task_init(&cluster->serve, serve_pending);
    return cluster;
}

void wr_cluster_drain(struct wr_cluster *cluster)
{
    cluster->draining = true;
    wr_pool_clear(cluster);
}

static void release_cluster(struct wr_garbage *garbage)
{
    struct wr_cluster *cluster = WR_CONTAINER_OF(garbage, struct wr_cluster, garbage);
    free(cluster->endpoints);
    free(cluster);
}

void wr_cluster_free(struct wr_cluster *cluster)
{
    if (cluster == NULL || cluster->freed)
        return;
    cluster->freed = true;
    wr_task_cancel(&cluster->serve);
    while (!wr_list_empty(&cluster->pending)) {
        struct wr_upstream_request *request = request_of(cluster->pending.next);
        remove_pending(cluster, request);
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
