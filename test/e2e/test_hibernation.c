/* Idle connections of either side hibernate, are served when they wake, and what is held is told by class. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "support/stage.h"

#define GET "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
#define LISTENER(name) "weir_" name "{listener=\"tls\"}"
#define CLUSTER(name) "weir_upstream_" name "{cluster=\"origin\"}"
#define PATIENCE_MS 10000

static void ask(struct peer *peer)
{
    cr_assert(peer_say(peer, GET));
    struct reply reply = peer_reply(peer, false);
    cr_assert_eq(reply.status, 200);
    reply_free(&reply);
}

/* Told once a second. */
static void expect_some(const struct stage *stage, const char *metric)
{
    long end = stage_now_ms() + PATIENCE_MS;
    while (weir_metric(stage->weir, metric) <= 0 && stage_now_ms() < end)
        continue;
    cr_expect_gt(weir_metric(stage->weir, metric), 0, "%s", metric);
}

Test(hibernation, both_sides_sleep_and_wake)
{
    struct stage *stage =
        stage_start(&(struct stage_options){.listener = "timeouts: {hibernate_after: 50ms}",
                                            .cluster = "timeouts: {hibernate_after: 50ms}"});
    struct peer *peer = stage_connect(stage, true);
    for (int i = 1; i <= 3; i++) {
        ask(peer);
        cr_assert(
            weir_metric_becomes(stage->weir, LISTENER("connections_hibernated"), 1, PATIENCE_MS));
        cr_assert(
            weir_metric_becomes(stage->weir, CLUSTER("connections_hibernated"), 1, PATIENCE_MS));
        cr_assert_eq(weir_metric(stage->weir, LISTENER("hibernations_total")), i);
        cr_assert_eq(weir_metric(stage->weir, LISTENER("connections_idle")), 1);
        cr_assert_eq(weir_metric(stage->weir, CLUSTER("connects_total")), 1);
        cr_assert(peer_update_keys(peer));
    }
    expect_some(stage, "weir_connection_bytes");
    expect_some(stage, "weir_transport_bytes");
    expect_some(stage, "weir_tls_bytes");
    peer_free(peer);
    cr_assert(weir_metric_becomes(stage->weir, LISTENER("connections_hibernated"), 0, PATIENCE_MS));
    cr_assert_eq(weir_metric(stage->weir, LISTENER("wakes_total")), 3);
    stage_stop(stage);
}
