#include "upstream/queue.h"

/* How many requests may wait for one connection to ENDPOINT that is being made. Where ALPN decides and has not yet, it is taken for
 * HTTP/2: if that is wrong, the others wait for one handshake, once; if the opposite were wrong, each would make a connection. */
static unsigned expected(const struct wr_cluster *cluster, const struct wr_endpoint *endpoint)
{
    const struct wr_cluster_options *options = cluster->options;
    bool multiplexes = options->protocol == WR_CLUSTER_HTTP2 ||
                       (options->protocol == WR_CLUSTER_AUTO && options->tls != NULL);
    unsigned carries = endpoint->carries;
    if (carries == 0 && multiplexes)
        carries = options->codec.h2.max_concurrent_streams;
    return carries > 0 ? carries : 1;
}

static bool has_room(const struct wr_upstream_connection *connection)
{
    return connection->waiting + connection->streams <
           expected(connection->cluster, connection->endpoint);
}

static bool is_being_made(const struct wr_upstream_connection *connection)
{
    bool greeting = connection->state == WR_UPSTREAM_ACTIVE && !connection->settled; /* HTTP/2 */
    return connection->state == WR_UPSTREAM_CONNECTING || (greeting && !connection->spent);
}

void wr_queue_place(struct wr_upstream_connection *connection)
{
    struct wr_list *awaited = &connection->cluster->awaited;
    wr_list_remove(&connection->awaited);
    if (!is_being_made(connection))
        return;
    if (has_room(connection))
        wr_list_push_front(awaited, &connection->awaited);
    else
        wr_list_push_back(awaited, &connection->awaited);
}

static void change_waiting(struct wr_upstream_connection *connection, unsigned change)
{
    connection->waiting += change;
    wr_queue_place(connection);
}

/* Of those who wait, the first one that has not been tried. */
static struct wr_list *behind_retries(struct wr_cluster *cluster)
{
    struct wr_list *at = &cluster->pending;
    while (at->prev != &cluster->pending && !wr_queue_request(at->prev)->again)
        at = at->prev;
    return at;
}

void wr_queue_add(struct wr_cluster *cluster, struct wr_upstream_request *request)
{
    struct wr_list *place = request->again ? behind_retries(cluster) : &cluster->pending;
    wr_list_insert_before(place, &request->link);
    cluster->queued++;
    wr_metric_inc(&cluster->metrics->upstream_pending);
}

static void unpair(struct wr_upstream_request *request)
{
    struct wr_upstream_connection *connection = request->connection;
    request->connection = NULL;
    connection->cluster->queued++;
    change_waiting(connection, (unsigned)-1);
}

void wr_queue_remove(struct wr_cluster *cluster, struct wr_upstream_request *request)
{
    if (request->connection != NULL)
        unpair(request);
    wr_list_remove(&request->link);
    cluster->queued--;
    wr_metric_dec(&cluster->metrics->upstream_pending);
}

struct wr_upstream_request *wr_queue_first_queued(struct wr_cluster *cluster)
{
    struct wr_list *at = cluster->pending.next;
    while (wr_queue_request(at)->connection != NULL)
        at = at->next;
    return wr_queue_request(at);
}

struct wr_upstream_connection *wr_queue_find(struct wr_cluster *cluster,
                                             const struct wr_endpoint *endpoint, bool fresh)
{
    for (struct wr_list *at = cluster->awaited.next; at != &cluster->awaited; at = at->next) {
        struct wr_upstream_connection *connection =
            WR_CONTAINER_OF(at, struct wr_upstream_connection, awaited);
        if (!has_room(connection))
            break;
        if (fresh && connection->state != WR_UPSTREAM_CONNECTING)
            continue;
        bool nobodys = connection->waiting + connection->streams == 0;
        if (nobodys || endpoint == NULL || connection->endpoint == endpoint)
            return connection;
    }
    return NULL;
}

void wr_queue_pair(struct wr_upstream_connection *connection, struct wr_upstream_request *request)
{
    request->connection = connection;
    connection->cluster->queued--;
    change_waiting(connection, 1);
}

struct wr_upstream_request *wr_queue_first_for(struct wr_upstream_connection *connection)
{
    if (connection->waiting == 0)
        return NULL;
    struct wr_list *at = connection->cluster->pending.next;
    while (wr_queue_request(at)->connection != connection)
        at = at->next;
    return wr_queue_request(at);
}

void wr_queue_release(struct wr_upstream_connection *connection)
{
    for (struct wr_upstream_request *first; (first = wr_queue_first_for(connection)) != NULL;)
        unpair(first);
}
