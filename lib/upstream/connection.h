/* A connection to an endpoint, from connect to close. For lib/upstream only.
 *
 *   CONNECTING -> IDLE <-> ACTIVE -> CLOSING -> gone        (and from any state to gone)
 *
 * Owner: its cluster, which holds it on the list of its state. Closing is by wr_upstream_connection_end() or _close(); both can be
 * called twice, memory returns at the end of the turn. */
#ifndef WR_UPSTREAM_CONNECTION_H
#define WR_UPSTREAM_CONNECTION_H

#include <stdbool.h>
#include <stdint.h>

#include "upstream/cluster.h"

enum wr_upstream_state {
    WR_UPSTREAM_NONE,       /* not yet or no longer on a list */
    WR_UPSTREAM_CONNECTING, /* TCP and TLS */
    WR_UPSTREAM_IDLE,       /* in the pool */
    WR_UPSTREAM_ACTIVE,     /* at least one exchange is open on it */
    WR_UPSTREAM_CLOSING,    /* our end is being said; no longer counted against the limit */
    WR_UPSTREAM_STATES
};

struct wr_endpoint;

struct wr_upstream_connection {
    struct wr_list link; /* on its cluster's list of its state; IDLE: longest idle first */
    /* Takes one more exchange: on the lists of its cluster and of its endpoint, the one used last at their end. */
    struct wr_list ready;
    struct wr_list ready_at_endpoint;
    struct wr_list awaited; /* not settled: on its cluster's list of those that can be waited for */
    struct wr_cluster *cluster;
    struct wr_endpoint *endpoint;
    enum wr_upstream_state state;
    struct wr_transport *transport;
    struct wr_client_codec
        *codec; /* NULL while CONNECTING; and dormant, if it is one to be dropped */
    struct wr_deadline deadline;
    uint64_t idle_ends; /* IDLE */
    uint64_t established;
    uint64_t served;  /* exchanges opened on it */
    unsigned waiting; /* requests that wait for it to be made and settled */
    unsigned streams; /* exchanges open on it */
    uint8_t protocol; /* the row of its codec */
    bool multiplexes; /* its codec carries several exchanges */
    bool settled;     /* how many it carries at once is known: of HTTP/2, SETTINGS have come */
    bool pooled;      /* has been idle */
    bool dormant;     /* IDLE, for a while: hibernates */
    bool spent;       /* no exchange will be opened any more; it goes with the last one */
    bool barred;      /* its peer allows no exchange for now (MAX_CONCURRENT_STREAMS 0) */
    struct wr_task settle;
    struct wr_task
        parting; /* CLOSING: our end is said, since the codec may be in its call before */
    struct wr_garbage garbage;
};

/* Starts to connect. An error is one that came at once. */
WR_MUST_USE enum wr_err wr_upstream_connection_new(struct wr_cluster *cluster,
                                                   struct wr_endpoint *endpoint,
                                                   struct wr_upstream_connection **out);
/* The one place where a state changes: list, count, gauge, deadline. */
void wr_upstream_connection_set_state(struct wr_upstream_connection *connection,
                                      enum wr_upstream_state state);
/* How many more exchanges can be opened on it now. */
unsigned wr_upstream_connection_room(const struct wr_upstream_connection *connection);
/* Off the lists of those that take one more, whatever its codec says. */
void wr_upstream_connection_withdraw(struct wr_upstream_connection *connection);
/* Opens EXCHANGE on it, which has room: ACTIVE. */
void wr_upstream_connection_open(struct wr_upstream_connection *connection,
                                 struct wr_exchange *exchange);
/* Says our end (close_notify, FIN) and closes soon: for connections without an exchange. */
void wr_upstream_connection_end(struct wr_upstream_connection *connection);
/* While no exchange is open: it has broken, or said what nobody asked for (`broken` of its codec). */
void wr_upstream_broken(void *owner, enum wr_err why);
/* Closes now; an exchange open on it fails with WHY. */
void wr_upstream_connection_close(struct wr_upstream_connection *connection, enum wr_err why);

#endif
