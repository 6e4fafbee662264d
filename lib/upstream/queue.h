/* Requests of a cluster that wait, in order of arrival; retries, which have waited before, go first. Each waits for a connection that is being made, or is `queued`. A
 * connection is being made until it is settled. It may have as many exchanges and requests waiting for it as it is expected to
 * carry; those with room for one more are in front of the list of the `awaited`. For lib/upstream only. */
#ifndef WR_UPSTREAM_QUEUE_H
#define WR_UPSTREAM_QUEUE_H

#include "upstream/inside.h"

static inline struct wr_upstream_request *wr_queue_request(struct wr_list *link)
{
    return WR_CONTAINER_OF(link, struct wr_upstream_request, link);
}

void wr_queue_add(struct wr_cluster *cluster, struct wr_upstream_request *request);
/* The connection being made for it, if any, has room for another then. */
void wr_queue_remove(struct wr_cluster *cluster, struct wr_upstream_request *request);
/* The oldest with no connection being made for it; there is one. */
struct wr_upstream_request *wr_queue_first_queued(struct wr_cluster *cluster);

/* A connection being made that a request which wants ENDPOINT can wait for: one nobody waits for or uses, or one to ENDPOINT (NULL:
 * to any) with room. FRESH: none that is there already, and has only not said how many it takes. NULL: none. */
struct wr_upstream_connection *wr_queue_find(struct wr_cluster *cluster,
                                             const struct wr_endpoint *endpoint, bool fresh);
/* Puts CONNECTION where it belongs on the list of the awaited, or takes it off: its state, streams or waiters have changed. */
void wr_queue_place(struct wr_upstream_connection *connection);
/* REQUEST, which is queued, waits for CONNECTION. */
void wr_queue_pair(struct wr_upstream_connection *connection, struct wr_upstream_request *request);
/* The oldest that waits for CONNECTION, or NULL. */
struct wr_upstream_request *wr_queue_first_for(struct wr_upstream_connection *connection);
/* Nobody waits for CONNECTION any more: they are queued again. */
void wr_queue_release(struct wr_upstream_connection *connection);

#endif
