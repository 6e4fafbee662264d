#include "upstream/request_gate.h"

#include <stdlib.h>

#include "base/assert.h"
#include "base/compiler.h"
#include "base/mem.h"

struct wr_request_gate {
    struct wr_loop *loop;
    struct wr_requests *requests;
    struct wr_request_gate_metrics metrics;
    struct wr_deadline deadline; /* of who waits longest */
    uint32_t retry_after;
};

static uint64_t now_of(const struct wr_request_gate *gate)
{
    return wr_loop_now(gate->loop);
}

/* After every change. A clock that fires early is set again. */
static void settle(struct wr_request_gate *gate)
{
    struct wr_requests_gauges gauges = wr_requests_gauges(gate->requests);
    wr_metric_set(gate->metrics.in_flight, gauges.in_flight);
    wr_metric_set(gate->metrics.waiting, gauges.waiting);
    wr_metric_set(gate->metrics.limit, gauges.limit);
    uint64_t next = wr_requests_next_expiry(gate->requests);
    if (next != gate->deadline.at)
        wr_loop_deadline_set(gate->loop, &gate->deadline, next);
}

static void on_deadline(struct wr_deadline *deadline, uint64_t now)
{
    struct wr_request_gate *gate = WR_CONTAINER_OF(deadline, struct wr_request_gate, deadline);
    wr_requests_expire(gate->requests, now);
    settle(gate);
}

/* ---- what the controller says: told later, since it may not be called from within ---- */

static void count_wait(struct wr_request_gate *gate, const struct wr_request_pass *pass)
{
    wr_histogram_record(gate->metrics.wait, pass->ticket.waited);
}

static void on_grant(void *owner, struct wr_request_ticket *ticket)
{
    struct wr_request_gate *gate = owner;
    struct wr_request_pass *pass = WR_CONTAINER_OF(ticket, struct wr_request_pass, ticket);
    count_wait(gate, pass);
    wr_loop_defer(gate->loop, &pass->tell);
}

static void on_refuse(void *owner, struct wr_request_ticket *ticket, enum wr_shed cause)
{
    struct wr_request_gate *gate = owner;
    struct wr_request_pass *pass = WR_CONTAINER_OF(ticket, struct wr_request_pass, ticket);
    wr_metric_inc(&gate->metrics.refused[cause]);
    wr_loop_defer(gate->loop, &pass->tell);
}

static const struct wr_requests_events events = {.grant = on_grant, .refuse = on_refuse};

static void tell(struct wr_task *task)
{
    struct wr_request_pass *pass = WR_CONTAINER_OF(task, struct wr_request_pass, tell);
    pass->decided(pass, pass->ticket.state == WR_REQUEST_IN_FLIGHT);
}

/* ---- passes ---- */

void wr_request_pass_init(struct wr_request_pass *pass,
                          void (*decided)(struct wr_request_pass *pass, bool admitted))
{
    *pass = (struct wr_request_pass){.decided = decided};
    wr_request_ticket_init(&pass->ticket);
    wr_task_init(&pass->tell, tell);
}

enum wr_request_verdict wr_request_gate_enter(struct wr_request_gate *gate,
                                              struct wr_request_pass *pass,
                                              enum wr_priority priority)
{
    enum wr_shed cause = WR_SHED_LIMIT;
    WR_ASSERT(pass->ticket.state == WR_REQUEST_NONE);
    pass->gate = gate;
    wr_requests_arrive(gate->requests, &pass->ticket, priority, now_of(gate), &cause);
    settle(gate);
    switch (pass->ticket.state) {
    case WR_REQUEST_IN_FLIGHT:
        count_wait(gate, pass);
        return WR_REQUEST_ADMITTED;
    case WR_REQUEST_WAITING:
        return WR_REQUEST_WAITS;
    default:
        pass->gate = NULL;
        wr_metric_inc(&gate->metrics.refused[cause]);
        return WR_REQUEST_REFUSED;
    }
}

void wr_request_pass_leave(struct wr_request_pass *pass)
{
    wr_task_cancel(&pass->tell);
    if (pass->ticket.state != WR_REQUEST_NONE) {
        wr_requests_leave(pass->gate->requests, &pass->ticket, now_of(pass->gate));
        settle(pass->gate);
    }
    pass->gate = NULL;
}

bool wr_request_pass_waits(const struct wr_request_pass *pass)
{
    return pass->ticket.state == WR_REQUEST_WAITING || !wr_list_empty(&pass->tell.link);
}

void wr_request_pass_observe(struct wr_request_pass *pass, uint64_t latency, bool answered)
{
    if (pass->ticket.state != WR_REQUEST_IN_FLIGHT)
        return;
    wr_requests_observe(pass->gate->requests, &pass->ticket, latency, answered, now_of(pass->gate));
    settle(pass->gate);
}

/* ---- life ---- */

struct wr_request_gate *wr_request_gate_new(struct wr_loop *loop,
                                            const struct wr_requests_options *options,
                                            struct wr_request_gate_metrics metrics)
{
    struct wr_request_gate *gate = WR_NEW(struct wr_request_gate);
    uint64_t seconds = (options->max_wait + WR_SEC - 1) / WR_SEC;
    gate->loop = loop;
    gate->metrics = metrics;
    gate->retry_after = seconds > 0 ? (uint32_t)seconds : 1;
    gate->requests = wr_requests_new(options, &events, gate);
    wr_deadline_init(&gate->deadline, on_deadline);
    settle(gate);
    return gate;
}

void wr_request_gate_free(struct wr_request_gate *gate)
{
    if (gate == NULL)
        return;
    wr_loop_deadline_remove(gate->loop, &gate->deadline);
    wr_requests_free(gate->requests);
    wr_metric_set(gate->metrics.in_flight, 0);
    wr_metric_set(gate->metrics.waiting, 0);
    wr_metric_set(gate->metrics.limit, 0);
    free(gate);
}

uint32_t wr_request_gate_retry_after(const struct wr_request_gate *gate)
{
    return gate->retry_after;
}
