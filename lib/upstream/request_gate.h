/* A controller of requests (admission/requests.h) with what it needs to live in a worker: the loop's clock, a deadline for those who
 * wait, metrics. One a worker and listener, owned by its proxy, and one a worker and cluster, owned by that. */
#ifndef WR_UPSTREAM_REQUEST_GATE_H
#define WR_UPSTREAM_REQUEST_GATE_H

#include <stdbool.h>
#include <stdint.h>

#include "admission/requests.h"
#include "io/loop.h"
#include "observe/metrics.h"

/* What a gate counts with; all of one block. */
struct wr_request_gate_metrics {
    _Atomic uint64_t *in_flight;
    _Atomic uint64_t *waiting;
    _Atomic uint64_t *limit;
    _Atomic uint64_t *refused; /* by enum wr_shed */
    struct wr_histogram *wait;
};

struct wr_request_gate;

/* One request at one gate. Embedded in the request, which lives until the end of the turn in which it has left. */
struct wr_request_pass {
    struct wr_request_ticket ticket;
    struct wr_request_gate *gate; /* NULL: it has no place, and no answer is to come */
    struct wr_task tell;
    /* The answer to one that was told WAITS: from the loop, never from within a call to the gate. */
    void (*decided)(struct wr_request_pass *pass, bool admitted);
};

/* What METRICS points to outlives the gate, OPTIONS is copied. Owner: the caller. */
struct wr_request_gate *wr_request_gate_new(struct wr_loop *loop,
                                            const struct wr_requests_options *options,
                                            struct wr_request_gate_metrics metrics);
/* Who waits is refused, in this turn or the next; what the others do with their passes has no effect any more. NULL is fine. */
void wr_request_gate_free(struct wr_request_gate *gate);
/* Seconds after which a client that was refused may find it better: what it would have waited, one at least. */
uint32_t wr_request_gate_retry_after(const struct wr_request_gate *gate);

enum wr_request_verdict { WR_REQUEST_ADMITTED, WR_REQUEST_WAITS, WR_REQUEST_REFUSED };

void wr_request_pass_init(struct wr_request_pass *pass,
                          void (*decided)(struct wr_request_pass *pass, bool admitted));
enum wr_request_verdict wr_request_gate_enter(struct wr_request_gate *gate,
                                              struct wr_request_pass *pass,
                                              enum wr_priority priority);
/* The request is over, or does not wait any more: no decision follows. Can be called twice, and when it never entered. */
void wr_request_pass_leave(struct wr_request_pass *pass);
/* It waits, or has not heard its decision yet. */
bool wr_request_pass_waits(const struct wr_request_pass *pass);
/* As wr_requests_observe(). */
void wr_request_pass_observe(struct wr_request_pass *pass, uint64_t latency, bool answered);

#endif
