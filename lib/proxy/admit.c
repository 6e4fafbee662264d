#include "proxy/admit.h"

void wr_admit_init(struct wr_admit *admit, struct wr_exchange *exchange,
                   void (*listener)(struct wr_request_pass *pass, bool admitted),
                   void (*cluster)(struct wr_request_pass *pass, bool admitted))
{
    admit->exchange = exchange;
    admit->measured = false;
    wr_request_pass_init(&admit->listener, listener);
    wr_request_pass_init(&admit->cluster, cluster);
}

bool wr_admit_waits(const struct wr_admit *admit)
{
    return wr_request_pass_waits(&admit->listener) || wr_request_pass_waits(&admit->cluster);
}

/* From the request handed over whole: how long a client takes to send it is none of the service's doing. */
static void measure(struct wr_admit *admit, bool answered)
{
    uint64_t sent = admit->exchange->waiting_since;
    if (admit->measured || sent == WR_NEVER)
        return;
    admit->measured = true;
    uint64_t latency = wr_time_since(sent, wr_loop_now(admit->exchange->host->loop));
    wr_request_pass_observe(&admit->listener, latency, answered);
    wr_request_pass_observe(&admit->cluster, latency, answered);
}

void wr_admit_response(struct wr_admit *admit, const struct wr_head *head)
{
    measure(admit, head->status < 500);
    if (head->tunnel != WR_TUNNEL_NONE)
        wr_admit_leave(admit);
}

void wr_admit_leave(struct wr_admit *admit)
{
    measure(admit, false);
    wr_request_pass_leave(&admit->cluster);
    wr_request_pass_leave(&admit->listener);
}
