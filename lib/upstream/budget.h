/* How many retries a cluster may make: a share of its requests of the last ten seconds, so that retries cannot multiply an
 * outage. A few a second are always allowed, so that a quiet cluster can retry too, unless the share is 0. A pure structure that takes `now`. */
#ifndef WR_UPSTREAM_BUDGET_H
#define WR_UPSTREAM_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#define WR_RETRY_BUDGET_SECONDS 10
#define WR_RETRY_BUDGET_FREE 3 /* a second, whatever the share */

struct wr_retry_budget {
    uint64_t second; /* of the newest slot */
    uint32_t requests[WR_RETRY_BUDGET_SECONDS];
    uint32_t retries[WR_RETRY_BUDGET_SECONDS];
    uint64_t request_sum;
    uint64_t retry_sum;
};

/* All zero is a valid start. NOW in microseconds. */
void wr_retry_budget_request(struct wr_retry_budget *budget, uint64_t now);
/* True, and counted, when one more retry keeps within PERCENT of the requests or is one of the free ones. */
bool wr_retry_budget_take(struct wr_retry_budget *budget, uint32_t percent, uint64_t now);

#endif
