/* From a request head to an answer: check, route, forward policy, attempts and retries, local replies. Not on the path of
 * content. One object a worker and listener. */
#ifndef WR_PROXY_PROXY_H
#define WR_PROXY_PROXY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "http/exchange.h"
#include "proxy/route.h"
#include "upstream/cluster.h"

/* What becomes of paths before routing; route and upstream always see the same bytes (behaviour row 57). */
enum wr_path_policy { WR_PATH_STRICT, WR_PATH_MERGE_SLASHES, WR_PATH_RAW };

struct wr_forward_options {
    const struct wr_cidr *trusted; /* peers whose forwarding fields are believed */
    size_t trusted_count;
    struct wr_str via; /* pseudonym in Via (RFC 9110 section 7.6.3): "weir" */
};

struct wr_proxy_options {
    struct wr_route_table routes;
    struct wr_forward_options forward;
    enum wr_path_policy path_policy;
    uint64_t request_content_limit;      /* bytes: 413; UINT64_MAX = no limit */
    struct wr_requests_options requests; /* admission of all of them, a worker */
    unsigned source_bits_ipv4; /* leading bits of an address that make a source, 1 to 32 */
    unsigned source_bits_ipv6; /* 1 to 64 */
    uint64_t seed;             /* unknown outside */
};

struct wr_proxy;

/* CLUSTERS: of this worker, in the order that routes index. OPTIONS, METRICS and CLUSTERS outlive the proxy. Owner: the
 * caller. */
struct wr_proxy *wr_proxy_new(struct wr_loop *loop, const struct wr_proxy_options *options,
                              struct wr_listener_metrics *metrics,
                              struct wr_cluster *const *clusters);
void wr_proxy_free(struct wr_proxy *proxy); /* after its exchanges; NULL is fine */

/* Answers EXCHANGE, whose head is complete or which is `refused`. Takes over as its handler. */
void wr_proxy_start(struct wr_proxy *proxy, struct wr_exchange *exchange);

#endif
