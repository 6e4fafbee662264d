/* Idle connections of a cluster: the last one used is taken first, the one idle longest goes first. For lib/upstream only. */
#ifndef WR_UPSTREAM_POOL_H
#define WR_UPSTREAM_POOL_H

#include "upstream/inside.h"

/* An idle connection to ENDPOINT (NULL: to any) whose peer has sent nothing and not closed, or NULL. It stays IDLE: the caller
 * opens an exchange on it at once. One that is not quiet is left to its own event, which closes it or finds
 * that a TLS record without content had come. */
struct wr_upstream_connection *wr_pool_find(struct wr_cluster *cluster,
                                            const struct wr_endpoint *endpoint);
/* True while CONNECTION may be kept for another exchange: age, number of exchanges, drain. */
bool wr_pool_keeps(const struct wr_upstream_connection *connection);
/* Ends the longest idle ones beyond max_idle. */
void wr_pool_trim(struct wr_cluster *cluster);
/* Ends the one idle longest, if there is one. */
bool wr_pool_evict(struct wr_cluster *cluster);
/* Ends all. */
void wr_pool_clear(struct wr_cluster *cluster);

#endif
