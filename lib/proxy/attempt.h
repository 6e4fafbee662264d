/* Sending a request upstream: a connection is asked for, and once more where that is safe, until a response head comes or
 * there is nothing left to try. Then the failure is answered. For lib/proxy only.
 *
 * Lives in the exchange's arena. Owner: the answer (proxy.c), which cancels it before the exchange ends. */
#ifndef WR_PROXY_ATTEMPT_H
#define WR_PROXY_ATTEMPT_H

#include <stdbool.h>

#include "http/exchange.h"
#include "proxy/admit.h"
#include "proxy/inside.h"
#include "upstream/cluster.h"

struct wr_attempt {
    struct wr_upstream_request wish; /* for a connection */
    struct wr_proxy *proxy;
    struct wr_exchange *exchange;
    struct wr_cluster *cluster;
    struct wr_admit *admit;
    unsigned connects_failed;
    bool wishing; /* no connection yet */
    bool reused;  /* sent on a connection from the pool */
    unsigned
        resends; /* after a failure before the response; connections that could not be made do not count */
    bool answering; /* some response head has come, interim ones too */
};

/* The head of the request is as it is to be sent. ADMIT is told of the response. */
void wr_attempt_start(struct wr_attempt *attempt, struct wr_proxy *proxy,
                      struct wr_exchange *exchange, struct wr_cluster *cluster,
                      struct wr_admit *admit);
/* No connection is wanted any more; what is in flight stays with its messages. Can be called twice. */
void wr_attempt_cancel(struct wr_attempt *attempt);

#endif
