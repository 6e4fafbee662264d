/* How often: the rates of routes, by key. For lib/proxy only. */
#ifndef WR_PROXY_METER_H
#define WR_PROXY_METER_H

#include <stdbool.h>
#include <stdint.h>

#include "http/exchange.h"
#include "proxy/forward.h"
#include "proxy/proxy.h"
#include "proxy/route.h"

/* Keys that each route of ROUTES with a rate by key has room for in a worker: what they all take is bounded, however many they are. */
uint32_t wr_meter_keys(const struct wr_route_table *routes);

/* A bucket a route, or a table of them a route. */
struct wr_meter;

/* OPTIONS and FORWARD outlive the meter. Owner: the caller. */
struct wr_meter *wr_meter_new(const struct wr_proxy_options *options,
                              const struct wr_forward *forward);
void wr_meter_free(struct wr_meter *meter); /* NULL is fine */

/* Takes a token for a request of ROUTE, which is one of the options', at NOW. False: there is none, and will be in *RETRY_AFTER seconds,
 * one at least. Before the head is edited for forwarding. */
bool wr_meter_take(struct wr_meter *meter, const struct wr_route *route,
                   const struct wr_exchange *exchange, uint64_t now, uint32_t *retry_after);

#endif
