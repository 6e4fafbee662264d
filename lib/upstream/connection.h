/* A connection to an endpoint, from connect to close. For lib/upstream only.
 *
 *   CONNECTING -> ACTIVE <-> IDLE -> CLOSING -> gone        (and from any state to gone)
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
    WR_UPSTREAM_ACTIVE,     /* an exchange is open on it */
    WR_UPSTREAM_CLOSING,    /* our end is being said; no longer counted against the limit */
    WR_UPSTREAM_STATES
};

struct wr_endpoint;

struct wr_upstream_connection {
    struct wr_list link;        /* on its cluster's list of its state; IDLE: longest idle first */
    struct wr_list by_endpoint; /* IDLE: on the endpoint's list, in the same order */
    struct wr_cluster *cluster;
    struct wr_endpoint *endpoint;
    enum wr_upstream_state state;
    struct wr_transport *transport;
    struct wr_client_codec *codec; /* NULL while CONNECTING */
    struct wr_upstream_request
        *wanted_by; /* CONNECTING: who waits for it; NULL: it will go to the pool */
    struct wr_deadline deadline;
    uint64_t established;
    uint64_t served; /* exchanges opened on it */
    struct wr_garbage garbage;
};

/* Starts to connect. An error is one that came at once. */
WR_MUST_USE enum wr_err wr_upstream_connection_new(struct wr_cluster *cluster,
                                                   struct wr_endpoint *endpoint,
                                                   struct wr_upstream_connection **out);
/* The one place where a state changes: list, count, gauge, deadline. */
void wr_upstream_connection_set_state(struct wr_upstream_connection *connection,
                                      enum wr_upstream_state state);
/* Opens EXCHANGE on it: ACTIVE. */
void wr_upstream_connection_open(struct wr_upstream_connection *connection,
                                 struct wr_exchange *exchange);
/* Says our end (close_notify, FIN) and closes soon: for connections without an exchange. */
void wr_upstream_connection_end(struct wr_upstream_connection *connection);
/* Closes now; an exchange open on it fails with WHY. */
void wr_upstream_connection_close(struct wr_upstream_connection *connection, enum wr_err why);

#endif
