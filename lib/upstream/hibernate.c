#include "upstream/hibernate.h"

#include "base/assert.h"
#include "upstream/inside.h"

/* One that can't hibernate now is asked again after hibernate_after, or this if that is less. */
#define ASK_AGAIN WR_SEC

/* ---- without a codec: nothing that comes is an answer (behaviour row 23) ---- */

static size_t on_readable(void *owner, const uint8_t *p, size_t n)
{
    (void)p;
    wr_upstream_broken(owner, WR_ERR_BAD_RESPONSE);
    return n;
}

static void on_read_end(void *owner, bool clean)
{
    (void)clean;
    wr_upstream_broken(owner, WR_ERR_UPSTREAM_CLOSED);
}

static void on_closed(void *owner, enum wr_err why, const char *detail)
{
    (void)detail;
    wr_upstream_broken(owner, why);
}

static const struct wr_transport_events dormant_events = {
    .readable = on_readable,
    .read_end = on_read_end,
    .closed = on_closed,
};

/* ---- to sleep, and back ---- */

static void try_again(struct wr_upstream_connection *connection, uint64_t after)
{
    struct wr_loop *loop = connection->cluster->loop;
    uint64_t at = wr_time_add(wr_loop_now(loop), after);
    wr_loop_deadline_set(loop, &connection->deadline,
                         at < connection->idle_ends ? at : connection->idle_ends);
}

static void ask_later(struct wr_upstream_connection *connection)
{
    uint64_t after = connection->cluster->options->hibernate_after;
    try_again(connection, after > ASK_AGAIN ? after : ASK_AGAIN);
}

static void drop_codec(struct wr_upstream_connection *connection)
{
    connection->codec->ops->close(connection->codec, WR_ERR_CANCELLED);
    connection->codec = NULL;
    wr_transport_set_events(connection->transport, &dormant_events, connection);
}

void wr_upstream_hibernate(struct wr_upstream_connection *connection)
{
    struct wr_cluster_metrics *metrics = connection->cluster->metrics;
    WR_ASSERT(connection->state == WR_UPSTREAM_IDLE && connection->codec != NULL);
    const struct wr_client_codec_ops *ops = connection->codec->ops;
    enum wr_hibernation what =
        ops->hibernate != NULL ? ops->hibernate(connection->codec) : WR_HIBERNATION_BUSY;
    if (what == WR_HIBERNATION_BUSY) {
        ask_later(connection);
        return;
    }
    if (what == WR_HIBERNATION_DROP)
        drop_codec(connection);
    connection->dormant = true;
    wr_metric_inc(&metrics->upstream_hibernated);
    wr_metric_inc(&metrics->upstream_hibernations);
    wr_loop_deadline_set(connection->cluster->loop, &connection->deadline, connection->idle_ends);
}

void wr_upstream_wake(struct wr_upstream_connection *connection)
{
    struct wr_cluster_metrics *metrics = connection->cluster->metrics;
    if (!connection->dormant)
        return;
    connection->dormant = false;
    wr_metric_dec(&metrics->upstream_hibernated);
    wr_metric_inc(&metrics->upstream_wakes);
    ask_later(connection);
}
