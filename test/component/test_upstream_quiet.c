/* The end of a pooled connection that no event has told yet, since it came after the loop asked the kernel: only the socket knows. */
#include "support/proxy_rig.h"

static struct proxy_rig *rig;
static struct px_upstream *upstream;
static bool was_reused;
static unsigned attached_count;

static void attached(struct wr_upstream_request *request,
                     const struct wr_endpoint_options *endpoint, bool reused)
{
    (void)request;
    (void)endpoint;
    attached_count++;
    was_reused = reused;
}

static void failed(struct wr_upstream_request *request, enum wr_err why,
                   const struct wr_endpoint_options *endpoint)
{
    (void)request;
    (void)endpoint;
    cr_assert_fail("%s", wr_err_info(why)->label);
}

static const struct wr_upstream_request_events events = {.attached = attached, .failed = failed};

/* One connection is in the pool; END happens to it and a request comes, without a turn of the loop in between. */
static void ask_after(void (*end)(struct px_peer *peer))
{
    rig = px_new();
    upstream = px_upstream(rig);
    px_start(rig);
    struct px_peer *client = px_client(rig, "");
    px_exchange(client, upstream, 0);
    cr_assert_eq(wr_metric_get(&rig->cluster_metrics->upstream_idle), 1);
    if (end != NULL)
        end(upstream->peers[0]);

    struct wr_exchange *exchange = wr_exchange_open(&rig->host, &client->info);
    struct wr_upstream_request request;
    attached_count = 0;
    was_reused = false;
    wr_upstream_request_init(&request, &events, exchange);
    wr_cluster_request(rig->cluster, &request);
    wr_upstream_request_cancel(&request);
    wr_exchange_finish(exchange, WR_ERR_CANCELLED);
    px_end(rig);
}

Test(upstream_quiet, one_that_is_quiet_is_handed_out)
{
    ask_after(NULL);
    cr_expect_eq(attached_count, 1);
    cr_expect(was_reused);
}

Test(upstream_quiet, one_at_its_end_is_not_handed_out_before_the_loop_hears_of_it)
{
    ask_after(px_close);
    cr_expect_eq(attached_count, 0);
}

Test(upstream_quiet, nor_is_one_that_was_reset)
{
    ask_after(px_reset);
    cr_expect_eq(attached_count, 0);
}
