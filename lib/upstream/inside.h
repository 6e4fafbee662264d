/* The inside of a cluster, for the files of lib/upstream. */
#ifndef WR_UPSTREAM_INSIDE_H
#define WR_UPSTREAM_INSIDE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slab.h"
#include "io/loop.h"
#include "observe/log.h"
#include "upstream/budget.h"
#include "upstream/cluster.h"
#include "upstream/connection.h"

struct wr_endpoint {
    const struct wr_endpoint_options *options;
    struct wr_list ready;        /* connections that take one more exchange */
    struct wr_log_site log_site; /* one's failures do not hide another's */
    uint64_t avoid_until; /* a connection could not be made: others are preferred until then */
    uint32_t live;        /* connections to it: being made, idle, active */
    unsigned barred;      /* of its connections: no other is made to it then */
    unsigned carries; /* exchanges at once, as a connection to it was last told; 0: not yet known */
};

struct wr_cluster {
    const struct wr_cluster_options *options;
    struct wr_cluster_metrics *metrics;
    struct wr_transport_host *host;
    struct wr_loop *loop;
    struct wr_endpoint *endpoints;
    size_t next_endpoint; /* round robin */

    struct wr_list connections[WR_UPSTREAM_STATES];
    uint32_t counts[WR_UPSTREAM_STATES];
    struct wr_slab slab;  /* of connections */
    struct wr_list ready; /* connections that take one more exchange */
    struct wr_list
        awaited; /* those a request can wait for; with room for one more in front (queue.h) */

    struct wr_list pending; /* requests, oldest first */
    uint32_t queued;        /* of these, the ones with no connection being made for them */
    struct wr_task serve;   /* free connections and free slots meet pending requests */

    struct wr_retry_budget budget;
    struct wr_request_gate *gate;
    bool draining;
    bool freed;
    struct wr_garbage garbage;
};

/* Connections that count against max_connections. */
static inline uint32_t wr_cluster_live(const struct wr_cluster *cluster)
{
    return cluster->counts[WR_UPSTREAM_CONNECTING] + cluster->counts[WR_UPSTREAM_IDLE] +
           cluster->counts[WR_UPSTREAM_ACTIVE];
}

/* ---- what connections tell their cluster ---- */

/* Established, with its codec: it serves the oldest pending requests or goes to the pool. */
void wr_cluster_connected(struct wr_upstream_connection *connection);
/* It is settled now, and no codec is in a call: it serves those who waited for that. */
void wr_cluster_settled(struct wr_upstream_connection *connection);
/* Its peer has not said SETTINGS in time: it takes no more, and those who wait for it hear that it could not be made. */
void wr_cluster_settle_failed(struct wr_upstream_connection *connection);
/* Could not be made; it is closed by this. DETAIL for the log, "" = none. */
void wr_cluster_connect_failed(struct wr_upstream_connection *connection, enum wr_err why,
                               const char *detail);
/* One of its exchanges is over. */
void wr_cluster_stream_closed(struct wr_upstream_connection *connection);
/* It takes more exchanges, or fewer, than before. */
void wr_cluster_capacity_changed(struct wr_cluster *cluster);
/* A connection has gone: there may be room for a queued request. */
void wr_cluster_slot_freed(struct wr_cluster *cluster);

#endif
