/* The places a request holds: one with its listener, and one with the cluster it goes to. For lib/proxy only.
 *
 * One place each for the whole request, retries too. They are given back when the exchange is over, or when it becomes a tunnel: that
 * may last for hours, and has bounds of its own (timeouts, connections). */
#ifndef WR_PROXY_ADMIT_H
#define WR_PROXY_ADMIT_H

#include <stdbool.h>

#include "http/exchange.h"
#include "upstream/request_gate.h"

struct wr_admit {
    struct wr_exchange *exchange;
    struct wr_request_pass listener;
    struct wr_request_pass cluster;
    bool measured; /* its latency has been told */
};

/* Each is told in its pass what became of one that had to wait. */
void wr_admit_init(struct wr_admit *admit, struct wr_exchange *exchange,
                   void (*listener)(struct wr_request_pass *pass, bool admitted),
                   void (*cluster)(struct wr_request_pass *pass, bool admitted));
/* It waits at one of the two. */
bool wr_admit_waits(const struct wr_admit *admit);
/* The final head of the response is here: what its status says, and how long it took, both gates learn. */
void wr_admit_response(struct wr_admit *admit, const struct wr_head *head);
/* The request is over, whatever it was at. Can be called twice. */
void wr_admit_leave(struct wr_admit *admit);

#endif
