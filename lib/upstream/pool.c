#include "upstream/pool.h"

#include "base/time.h"

/* When an upstream has closed many connections at once, a request must not pay a system call for each of them: their own
 * events sweep them away in the next turn, and the request makes a new connection meanwhile. */
#define MAX_LOOKS 4

static bool is_quiet(const struct wr_upstream_connection *connection)
{
    return wr_transport_is_quiet(connection->transport) &&
           wr_socket_is_quiet(wr_transport_fd(connection->transport));
}

/* Bytes on a connection in use are for its exchanges. */
static bool is_fit(const struct wr_upstream_connection *connection)
{
    return connection->state == WR_UPSTREAM_ACTIVE || is_quiet(connection);
}

struct wr_upstream_connection *wr_pool_find(struct wr_cluster *cluster,
                                            const struct wr_endpoint *endpoint, bool shared)
{
    const struct wr_list *list = endpoint != NULL ? &endpoint->ready : &cluster->ready;
    unsigned looks = 0;
    for (struct wr_list *at = list->prev, *before; at != list && looks < MAX_LOOKS; at = before) {
        before = at->prev;
        struct wr_upstream_connection *connection =
            endpoint != NULL ? WR_CONTAINER_OF(at, struct wr_upstream_connection, ready_at_endpoint)
                             : WR_CONTAINER_OF(at, struct wr_upstream_connection, ready);
        if (shared && !connection->multiplexes)
            continue;
        if (!wr_pool_keeps(connection)) {
            wr_upstream_connection_withdraw(
                connection); /* ends with its last exchange, or by its deadline */
            continue;
        }
        if (wr_upstream_connection_room(connection) == 0) {
            /* Another connection to that endpoint has learnt of a lower limit since; offered again when a stream ends. */
            wr_upstream_connection_withdraw(connection);
            continue;
        }
        if (is_fit(connection))
            return connection;
        looks++;
    }
    return NULL;
}

uint64_t wr_pool_retirement(const struct wr_upstream_connection *connection)
{
    uint64_t age = connection->cluster->options->max_connection_age;
    if (age == WR_NEVER)
        return WR_NEVER;
    uint64_t mixed =
        (connection->established ^ (uint64_t)(uintptr_t)connection) * UINT64_C(0x9e3779b97f4a7c15);
    return wr_time_add(connection->established, age - (age / 10 * (mixed >> 48) >> 16));
}

bool wr_pool_keeps(const struct wr_upstream_connection *connection)
{
    const struct wr_cluster *cluster = connection->cluster;
    return !cluster->draining &&
           connection->served < cluster->options->max_requests_per_connection &&
           wr_loop_now(cluster->loop) < wr_pool_retirement(connection);
}

bool wr_pool_evict(struct wr_cluster *cluster)
{
    struct wr_list *idle = &cluster->connections[WR_UPSTREAM_IDLE];
    if (wr_list_empty(idle))
        return false;
    wr_upstream_connection_end(WR_CONTAINER_OF(idle->next, struct wr_upstream_connection, link));
    return true;
}

bool wr_pool_evict_at(struct wr_cluster *cluster, const struct wr_endpoint *endpoint)
{
    const struct wr_list *idle = &cluster->connections[WR_UPSTREAM_IDLE];
    for (struct wr_list *link = idle->next; link != idle; link = link->next) {
        struct wr_upstream_connection *connection =
            WR_CONTAINER_OF(link, struct wr_upstream_connection, link);
        if (connection->endpoint == endpoint) {
            wr_upstream_connection_end(connection);
            return true;
        }
    }
    return false;
}

void wr_pool_trim(struct wr_cluster *cluster)
{
    while (cluster->counts[WR_UPSTREAM_IDLE] > cluster->options->max_idle && wr_pool_evict(cluster))
        continue;
}

void wr_pool_clear(struct wr_cluster *cluster)
{
    while (wr_pool_evict(cluster))
        continue;
}
