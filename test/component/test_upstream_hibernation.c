/* Pooled connections that hibernate: reused, ended and disturbed as others are. */
#include "support/proxy_rig.h"

#include <string.h>

static struct proxy_rig *rig;
static struct px_upstream *upstream;
static struct px_peer *client;

static void set_up(uint64_t hibernate_after)
{
    rig = px_new();
    rig->cluster_options.hibernate_after = hibernate_after;
    upstream = px_upstream(rig);
    px_start(rig);
    client = px_client(rig, "");
    px_exchange(client, upstream, 0);
}

static uint64_t value(const _Atomic uint64_t *metric)
{
    return wr_metric_get(metric);
}

static bool hibernates(void)
{
    return value(&rig->cluster_metrics->upstream_hibernated) == 1;
}

Test(upstream_hibernation, after_its_time_and_back)
{
    set_up(15 * WR_SEC);
    px_pass(rig, 14 * WR_SEC);
    cr_assert_not(hibernates());
    px_pass(rig, 2 * WR_SEC);
    cr_assert(hibernates());
    cr_assert_eq(value(&rig->cluster_metrics->upstream_idle), 1);
    px_exchange(client, upstream, 0);
    cr_assert_not(hibernates());
    cr_assert_eq(upstream->count, 1, "the same connection");
    cr_assert_eq(value(&rig->cluster_metrics->upstream_hibernations), 1);
    cr_assert_eq(value(&rig->cluster_metrics->upstream_wakes), 1);
    px_end(rig);
}

Test(upstream_hibernation, a_thousand_times)
{
    set_up(WR_MSEC);
    for (unsigned i = 0; i < 1000; i++) {
        px_pass(rig, 5 * WR_MSEC);
        cr_assert(hibernates(), "round %u", i);
        px_exchange(client, upstream, 0);
    }
    cr_assert_eq(upstream->count, 1);
    cr_assert_eq(value(&rig->cluster_metrics->upstream_wakes), 1000);
    px_end(rig);
}

Test(upstream_hibernation, keep_alive_runs_on)
{
    set_up(WR_SEC);
    uint64_t keep_alive = rig->cluster_options.keep_alive_timeout;
    cr_assert_gt(keep_alive, 4 * WR_SEC);
    px_pass(rig, keep_alive - 2 * WR_SEC);
    cr_assert(hibernates());
    px_pass(rig, 3 * WR_SEC);
    PX_UNTIL(rig, upstream->peers[0]->ended);
    cr_assert_not(hibernates());
    cr_assert_eq(value(&rig->cluster_metrics->upstream_idle), 0);
    px_end(rig);
}

Test(upstream_hibernation, stray_bytes_are_nobodys)
{
    set_up(WR_MSEC);
    px_pass(rig, 5 * WR_MSEC);
    cr_assert(hibernates());
    px_say(upstream->peers[0], PX_OK);
    PX_UNTIL(rig, value(&rig->cluster_metrics->upstream_idle) == 0);
    cr_assert_not(hibernates());
    cr_assert_eq(value(&rig->cluster_metrics->upstream_stray_bytes), 1);
    px_end(rig);
}

Test(upstream_hibernation, the_peers_end)
{
    set_up(WR_MSEC);
    px_pass(rig, 5 * WR_MSEC);
    cr_assert(hibernates());
    px_close(upstream->peers[0]);
    PX_UNTIL(rig, value(&rig->cluster_metrics->upstream_idle) == 0);
    cr_assert_not(hibernates());
    px_exchange(client, upstream, 1);
    px_end(rig);
}

/* The end is in the socket, and no event has told it. */
Test(upstream_hibernation, closed_right_before_a_request)
{
    set_up(WR_MSEC);
    px_pass(rig, 5 * WR_MSEC);
    cr_assert(hibernates());
    px_close(upstream->peers[0]);
    px_say(client, PX_GET);
    struct px_peer *fresh = px_accepted(upstream, 1);
    px_hear(fresh, "\r\n\r\n");
    px_say(fresh, PX_OK);
    px_hear(client, "200 OK");
    px_end(rig);
}

Test(upstream_hibernation, a_drain_ends_it)
{
    set_up(WR_MSEC);
    px_pass(rig, 5 * WR_MSEC);
    cr_assert(hibernates());
    wr_cluster_drain(rig->cluster);
    PX_UNTIL(rig, upstream->peers[0]->ended);
    cr_assert_not(hibernates());
    px_end(rig);
}
