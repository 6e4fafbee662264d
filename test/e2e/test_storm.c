/* A few thousand clients of all sorts at once: whatever becomes of each, accepted = refused + closed + open. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/edge.h"
#include "support/storm.h"

#define FULL "weir_handshakes_full_total{listener=\"edge\"}"
static void expect_all_logged(const struct weir *weir)
{
    char *text = weir_admin_get(weir, "/metrics");
    double refused = edge_sum(text, "weir_connections_refused_total{listener=\"edge\"");

    cr_expect_eq(edge_sum(text, "weir_access_log_dropped_total"), 0);
    edge_expect_log_lines(weir, "\"type\":\"refused\"", (unsigned)refused);
    free(text);
}

static void expect_idle_cpu(const struct weir *weir)
{
    unsigned long before = weir_cpu_ms(weir);
    edge_nap(500);
    unsigned long spent = weir_cpu_ms(weir) - before;
    cr_expect_leq(spent, (unsigned long)edge_ms(50), "%lu ms of CPU in 500 ms of rest", spent);
}

#define LEFT_SILENT 30
#define LEFT_IDLE 40

Test(storm, without_a_limit_each_is_what_it_seems, .timeout = 120)
{
    struct edge_options options = {
        .workers = 2,
        .admission = "max_pending_handshakes: infinity, max_handshake_delay: infinity",
        .timeouts = "client_hello: 1h, handshake: 1h, keep_alive: 1h",
    };
    struct weir *weir = edge_start(&options);
    unsigned total = edge_is_slow() ? 1500 : 6000;
    int silent[LEFT_SILENT];
    struct peer *idle[LEFT_IDLE];

    for (unsigned i = 0; i < LEFT_SILENT; i++)
        silent[i] = flood_connect(weir_port(weir, "edge"), i);
    for (int i = 0; i < LEFT_IDLE; i++)
        idle[i] = peer_connect_tls(weir_port(weir, "edge"), NULL);
    struct storm *storm = storm_begin(weir, total, STORM_KINDS, NULL);

    storm_end(storm);
    cr_expect_eq(atomic_load(&storm->served), storm_good(storm), "%u of %u good clients served",
                 atomic_load(&storm->served), storm_good(storm));
    edge_expect_balance(weir, total + LEFT_SILENT + LEFT_IDLE, LEFT_SILENT + LEFT_IDLE);
    cr_expect_eq(edge_refused(weir, "not_tls"), storm_came(storm, JUNK));
    /* Its RST may be faster than its Finished. */
    double gone = edge_refused(weir, "abandoned");
    unsigned left =
        storm_came(storm, SILENT) + storm_came(storm, HALF) + storm_came(storm, ABORT_HELLO);
    cr_expect(gone >= left && gone <= left + storm_came(storm, ABORT_LATER),
              "%g abandoned, %u left", gone, left);
    double full = weir_metric(weir, FULL);
    cr_expect_eq(full + gone,
                 storm_good(storm) + left + storm_came(storm, ABORT_LATER) + LEFT_IDLE);
    expect_all_logged(weir);
    cr_expect(edge_serves(weir));
    expect_idle_cpu(weir);
    flood_close(silent, LEFT_SILENT);
    for (int i = 0; i < LEFT_IDLE; i++)
        peer_free(idle[i]);
    edge_expect_balance(weir, total + LEFT_SILENT + LEFT_IDLE + 1, 0);
    storm_free(storm);
    weir_stop(weir);
}

static void limited(const char *admission)
{
    struct edge_options options = {
        .workers = 2,
        .admission = admission,
        .timeouts = "client_hello: 200ms, handshake: 2s, linger: 200ms",
    };
    struct weir *weir = edge_start(&options);
    unsigned total = edge_is_slow() ? 1000 : 3000;
    struct storm *storm = storm_begin(weir, total, ABORT_LATER, NULL);

    storm_end(storm);
    unsigned served = atomic_load(&storm->served);

    edge_expect_balance(weir, total, 0);
    cr_expect_gt(edge_refused(weir, "too_many_handshakes"), 0, "the limit was never reached");
    cr_expect_gt(served, 0);
    cr_expect_eq(weir_metric(weir, FULL), served, "%g handshakes, %u clients served",
                 weir_metric(weir, FULL), served);
    cr_expect_leq(storm_good(storm) - served, edge_refused(weir, "too_many_handshakes"),
                  "%u clients were refused and %g counted", storm_good(storm) - served,
                  edge_refused(weir, "too_many_handshakes"));
    cr_expect_eq(weir_metric(weir, "weir_handshakes_running{listener=\"edge\"}"), 0);
    cr_expect_eq(weir_metric(weir, "weir_handshakes_waiting{listener=\"edge\"}"), 0);
    expect_all_logged(weir);
    cr_expect(edge_serves(weir), "the first client after the storm is not served");
    expect_idle_cpu(weir);
    storm_free(storm);
    weir_stop(weir);
}

Test(storm, limited_with_reset, .timeout = 120)
{
    limited("max_pending_handshakes: 2");
}

Test(storm, limited_with_close, .timeout = 120)
{
    limited("max_pending_handshakes: 2, refuse_with: close");
}

Test(storm, limited_with_alert, .timeout = 120)
{
    limited("max_pending_handshakes: 2, refuse_with: alert");
}
