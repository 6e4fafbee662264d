/* Idle connections make room when something runs short: a client that is here now is worth more than one that may come back. */
#include "base/compiler.h"
#include "base/time.h"
#include "downstream/connection.h"

/* Whoever has been idle for longest goes first. */
static const enum wr_connection_state idle_states[] = {WR_CONNECTION_IDLE};

static struct wr_connection *longest_idle(const struct wr_downstream *downstream)
{
    uint64_t now = wr_loop_now(downstream->env.loop);
    for (size_t i = 0; i < WR_COUNT_OF(idle_states); i++) {
        const struct wr_list *list = &downstream->lists[idle_states[i]];
        if (wr_list_empty(list))
            continue;
        struct wr_connection *connection = WR_CONTAINER_OF(list->next, struct wr_connection, link);
        uint64_t after = downstream->options->evict_idle_after;
        if (after != WR_NEVER && wr_time_since(connection->idle_since, now) >= after)
            return connection;
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

bool wr_evict_is_hopeless(const struct wr_downstream *downstream, int fd, enum wr_refusal *reason)
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
