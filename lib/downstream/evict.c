/* Idle connections make room when something runs short: a client that is here now is worth more than one that may come back. */
#include "base/compiler.h"
#include "base/time.h"
#include "downstream/connection.h"

/* Whoever has been idle for longest goes first: of each list that is the one in front. */
static const enum wr_connection_state idle_states[] = {WR_CONNECTION_HIBERNATED,
                                                       WR_CONNECTION_IDLE};

static bool is_idle_for_long(const struct wr_connection *connection, uint64_t now)
{
    uint64_t after = connection->downstream->options->evict_idle_after;
    return after != WR_NEVER && wr_time_since(connection->serving.idle_since, now) >= after;
}

/* Nothing of it would be lost: its last response has left, and its next request has not come, not even as far as the kernel. */
static bool can_go(struct wr_connection *connection)
{
    return wr_transport_output(connection->transport) == 0 &&
           wr_transport_is_quiet(connection->transport) &&
           wr_socket_is_quiet(wr_transport_fd(connection->transport));
}

/* One that can't go begins to be idle only now, and is looked at again after that time. */
static void begin_anew(struct wr_connection *connection, uint64_t now)
{
    connection->serving.idle_since = now;
    wr_list_remove(&connection->link);
    wr_list_push_back(&connection->downstream->lists[connection->state], &connection->link);
}

static struct wr_connection *longest_idle(struct wr_downstream *downstream)
{
    uint64_t now = wr_loop_now(downstream->env.loop);
    for (size_t i = 0; i < WR_COUNT_OF(idle_states); i++) {
        const struct wr_list *list = &downstream->lists[idle_states[i]];
        while (!wr_list_empty(list)) {
            struct wr_connection *connection =
                WR_CONTAINER_OF(list->next, struct wr_connection, link);
            if (!is_idle_for_long(connection, now))
                break;
            if (can_go(connection))
                return connection;
            if (connection->serving.idle_since == now)
                break; /* it has been looked at in this turn */
            begin_anew(connection, now);
        }
    }
    return NULL;
}

static bool evict_one(struct wr_downstream *downstream, enum wr_eviction why)
{
    struct wr_connection *connection = longest_idle(downstream);
    if (connection == NULL)
        return false;
    wr_metric_inc(&downstream->env.metrics->connections_evicted[why]);
    wr_connection_part(connection, WR_ERR_EVICTED);
    return true;
}

/* What FD is too many of. */
static bool is_short(const struct wr_downstream *downstream, int fd, enum wr_eviction *of)
{
    int ceiling = downstream->env.descriptor_ceiling;
    *of = ceiling > 0 && fd >= ceiling ? WR_EVICTION_DESCRIPTORS : WR_EVICTION_CONNECTIONS;
    return *of == WR_EVICTION_DESCRIPTORS ||
           downstream->count >= downstream->options->max_connections;
}

bool wr_evict_is_hopeless(struct wr_downstream *downstream, int fd, enum wr_refusal *reason)
{
    enum wr_eviction of;
    if (!is_short(downstream, fd, &of) || longest_idle(downstream) != NULL)
        return false;
    *reason =
        of == WR_EVICTION_DESCRIPTORS ? WR_REFUSAL_NO_DESCRIPTORS : WR_REFUSAL_TOO_MANY_CONNECTIONS;
    return true;
}

void wr_evict_for(struct wr_downstream *downstream, int fd)
{
    enum wr_eviction of;
    if (is_short(downstream, fd, &of))
        (void)evict_one(downstream, of);
}

size_t wr_downstream_evict(struct wr_downstream *downstream, unsigned share)
{
    size_t idle = 0;
    for (size_t i = 0; i < WR_COUNT_OF(idle_states); i++) {
        const struct wr_list *list = &downstream->lists[idle_states[i]];
        for (const struct wr_list *link = list->next; link != list; link = link->next)
            idle++;
    }
    size_t most = (idle + share - 1) / share;
    size_t gone = 0;
    while (gone < most && evict_one(downstream, WR_EVICTION_MEMORY))
        gone++;
    return gone;
}
