/* Connections that take one more exchange: the last one used is taken first, so that as few are in use as will do; of the idle
 * ones the one idle longest goes first. For lib/upstream only. */
#ifndef WR_UPSTREAM_POOL_H
#define WR_UPSTREAM_POOL_H

#include "upstream/inside.h"

/* A connection to ENDPOINT (NULL: to any) with room for one more exchange, or NULL; SHARED: of HTTP/2 only. If it is idle, its peer
 * has sent nothing and not closed. The caller opens an exchange on it at once. An idle one that is not quiet is left to its own
 * event, which closes it or finds that a TLS record without content had come. */
struct wr_upstream_connection *wr_pool_find(struct wr_cluster *cluster,
                                            const struct wr_endpoint *endpoint, bool shared);
/* True while CONNECTION may be kept for another exchange: age, number of exchanges, drain. */
bool wr_pool_keeps(const struct wr_upstream_connection *connection);
/* Ends the longest idle ones beyond max_idle. */
void wr_pool_trim(struct wr_cluster *cluster);
/* Ends the one idle longest, if there is one. */
/* When CONNECTION is too old for another exchange: max_connection_age, or up to a tenth sooner, so that connections made together do
 * not all go together. */
uint64_t wr_pool_retirement(const struct wr_upstream_connection *connection);
/* The same of those to ENDPOINT. */
bool wr_pool_evict_at(struct wr_cluster *cluster, const struct wr_endpoint *endpoint);
bool wr_pool_evict(struct wr_cluster *cluster);
/* Ends all. */
void wr_pool_clear(struct wr_cluster *cluster);

#endif
