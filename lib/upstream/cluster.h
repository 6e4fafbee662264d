/* A cluster: endpoints that serve the same thing, and the connections of one worker to them.
 *
 * A connection carries as many exchanges at once as its codec has capacity for. An idle one is kept for reuse (keep-alive), never
 * handed out when its socket is readable or at its end, and closed after its timeout. Requests wait in order when the
 * connection limit is reached. Not for threads: one object a worker. */
#ifndef WR_UPSTREAM_CLUSTER_H
#define WR_UPSTREAM_CLUSTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/list.h"
#include "codec/codec.h"
#include "http/exchange.h"
#include "io/socket.h"
#include "observe/metrics.h"
#include "transport/transport.h"
#include "upstream/request_gate.h"

struct wr_endpoint_options {
    struct wr_address address;
    const char *text; /* as configured, for logs */
};

/* AUTO: what ALPN says, HTTP/1.1 without TLS. HTTP2: with prior knowledge without TLS; with TLS ALPN must say so. */
enum wr_cluster_protocol { WR_CLUSTER_AUTO, WR_CLUSTER_HTTP1, WR_CLUSTER_HTTP2 };

struct wr_cluster_options {
    const char *name;
    enum wr_cluster_protocol protocol; /* the ALPN list of `tls` agrees with it */
    const struct wr_endpoint_options *endpoints;
    size_t endpoint_count;
    struct wr_tls_client *tls; /* NULL: plain */
    uint64_t connect_timeout;  /* microseconds, TCP and TLS together */
    uint64_t response_timeout; /* request sent to response head */
    uint64_t keep_alive_timeout;
    uint64_t hibernate_after;              /* idle in the pool, until memory is given back */
    uint32_t max_connections_per_endpoint; /* UINT32_MAX: none; 0: as that */
    uint64_t max_connection_age;
    uint32_t max_connections; /* a worker */
    uint32_t max_idle;        /* a worker; the least recently used goes first */
    uint32_t
        max_pending; /* requests waiting with no connection being made for them, a worker: more are POOL_FULL */
    uint64_t max_requests_per_connection;
    uint32_t
        retry_budget_percent; /* retries at most this share of requests, of the last ten seconds; a few are always allowed, unless it is 0 */
    bool retry_connect;       /* another endpoint is tried when a connection cannot be made */
    bool retry_reused;        /* the keep-alive race: once more on a fresh connection */
    struct wr_requests_options requests; /* admission of those that go to it, a worker */
    struct wr_client_codec_options
        codec; /* of it: exchanges a connection of HTTP/2 carries at most */
};

struct wr_cluster;

/* OPTIONS, HOST and METRICS outlive the cluster. Owner: the caller. */
struct wr_cluster *wr_cluster_new(struct wr_transport_host *host,
                                  const struct wr_cluster_options *options,
                                  struct wr_cluster_metrics *metrics);
const struct wr_cluster_options *wr_cluster_options(const struct wr_cluster *cluster);
struct wr_cluster_metrics *wr_cluster_metrics(struct wr_cluster *cluster);
/* Which requests may go to it. Of one that was freed: NULL. */
struct wr_request_gate *wr_cluster_gate(struct wr_cluster *cluster);
/* Held by the state of connections; transports and codecs are counted by their host. */
size_t wr_cluster_bytes(const struct wr_cluster *cluster);
/* Nothing is kept for reuse any more: idle connections close now, those in use after their exchange. Requests are still
 * served. */
void wr_cluster_drain(struct wr_cluster *cluster);
/* Exchanges in flight and requests pending are failed. Memory returns at the end of the turn. NULL is fine. */
void wr_cluster_free(struct wr_cluster *cluster);

struct wr_upstream_request;
struct wr_upstream_connection;

struct wr_upstream_request_events {
    /* A connection was found, and right after this call the exchange's messages get source and sink: whatever happens then is
     * told through them. REUSED: it has served before, carries other exchanges or comes from the pool, so its peer may be closing it
     * just now. The request object is free again. Must not ask for another connection. May come from within wr_cluster_request(). */
    void (*attached)(struct wr_upstream_request *request,
                     const struct wr_endpoint_options *endpoint, bool reused);
    /* No connection was to be had. May come from within wr_cluster_request(). */
    void (*failed)(struct wr_upstream_request *request, enum wr_err why,
                   const struct wr_endpoint_options *endpoint);
};

/* A wish for a connection. Embedded in the proxy's attempt. */
struct wr_upstream_request {
    struct wr_list link;
    const struct wr_upstream_request_events *events;
    struct wr_exchange *exchange;
    struct wr_cluster *cluster;
    struct wr_upstream_connection *connection; /* being made for it, or NULL */
    bool
        fresh; /* a retry: no connection that was there before, unless there is no room for another and it is of HTTP/2 */
    bool again; /* a retry: not one of the requests that retries are a share of */
    bool
        multiplexes; /* told with attached(): the connection carries several exchanges, and may refuse this one alone */
};

void wr_upstream_request_init(struct wr_upstream_request *request,
                              const struct wr_upstream_request_events *events,
                              struct wr_exchange *exchange);
/* Asks for a connection: a pooled one at once, else a new one, else in the queue. */
void wr_cluster_request(struct wr_cluster *cluster, struct wr_upstream_request *request);
/* No longer wanted; no event follows. Can be called twice, and when never asked. */
void wr_upstream_request_cancel(struct wr_upstream_request *request);

/* True, and counted, when one more retry is within the budget. UNPROCESSED: the upstream has not looked at the request, on a connection
 * that is alive or was used before: there is no outage that this could multiply, so the budget has no say unless it is 0. */
bool wr_cluster_allow_retry(struct wr_cluster *cluster, bool unprocessed);

#endif
