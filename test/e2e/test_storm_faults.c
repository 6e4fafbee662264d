/* What goes wrong in a storm: nothing gets stuck, and all is counted. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "support/edge.h"
#include "support/storm.h"

#define ACCEPTED "weir_connections_accepted_total{listener=\"edge\"}"
#define FULL "weir_handshakes_full_total{listener=\"edge\"}"
#define RESUMED "weir_handshakes_resumed_total{listener=\"edge\"}"
#define FALSE_CLAIMS "weir_handshakes_false_claims_total{listener=\"edge\"}"
#define TIMEOUTS "client_hello: 1s, handshake: 3s, linger: 200ms"
#define PROMISED 300

static unsigned total(void)
{
    return edge_is_slow() ? 600 : 2500;
}

/* The storm is over: the account is even, no slot is held, the next one is served. */
static void expect_peace(const struct weir *weir)
{
    edge_expect_balance(weir, (unsigned)weir_metric(weir, ACCEPTED), 0);
    cr_expect_eq(weir_metric(weir, "weir_handshakes_running{listener=\"edge\"}"), 0);
    cr_expect_eq(weir_metric(weir, "weir_handshakes_waiting{listener=\"edge\"}"), 0);
    cr_expect(edge_serves(weir), "the first client after the storm is not served");
}

/* The whole process stands still for a second and a half, then finds all that came meanwhile. */
Test(storm_faults, workers_that_stall, .timeout = 120)
{
    struct edge_options options = {
        .workers = 2, .admission = "max_pending_handshakes: 8", .timeouts = TIMEOUTS};
    struct weir *weir = edge_start(&options);
    struct storm *storm = storm_begin(weir, total(), STORM_KINDS, NULL);

    for (unsigned i = 1; i <= 3; i++) {
        storm_wait_for(storm, i * total() / 8);
        cr_assert_eq(kill(weir_pid(weir), SIGSTOP), 0);
        edge_nap(i == 2 ? 1500 : 300);
        cr_assert_eq(kill(weir_pid(weir), SIGCONT), 0);
    }
    storm_end(storm);
    cr_expect_gt(atomic_load(&storm->served), 0);
    expect_peace(weir);
    storm_free(storm);
    weir_stop(weir);
}

Test(storm_faults, descriptors_used_up, .timeout = 120)
{
    struct edge_options options = {.descriptors = PROMISED,
                                   .admission = "max_pending_handshakes: infinity",
                                   .timeouts = TIMEOUTS};
    struct weir *weir = edge_start(&options);
    int silent[PROMISED];
    struct storm *storm = storm_begin(weir, total(), STORM_KINDS, NULL);

    for (unsigned i = 0; i < PROMISED; i++)
        silent[i] = flood_connect(weir_port(weir, "edge"), i);
    storm_end(storm);
    flood_close(silent, PROMISED);
    expect_peace(weir);
    cr_expect_gt(edge_refused(weir, "no_descriptors"), 0);
    storm_free(storm);
    weir_stop(weir);
}

/* All clients have tickets that are worth nothing any more: everyone is full, whatever they claim, and is served as such. */
Test(storm_faults, ticket_keys_lost, .timeout = 120)
{
    struct edge_options options = {.timeouts = TIMEOUTS};
    struct weir *before = edge_start(&options);
    struct peer *peer = peer_connect_tls(weir_port(before, "edge"), NULL);
    cr_assert_not_null(peer);
    (void)peer_say(peer, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    struct reply reply = peer_reply(peer, false); /* the ticket comes before it */
    reply_free(&reply);
    struct ssl_session_st *session = peer_session(peer);
    cr_assert_not_null(session);
    peer_free(peer);
    weir_stop(before);

    struct weir *weir = edge_start(&options);
    struct storm *storm = storm_begin(weir, total(), SILENT, session);
    storm_end(storm);
    cr_expect_eq(atomic_load(&storm->served) + edge_refused(weir, "too_many_handshakes"),
                 storm_good(storm));
    cr_expect_gt(atomic_load(&storm->served), storm_good(storm) / 2);
    cr_expect_eq(weir_metric(weir, RESUMED), 0);
    cr_expect_eq(weir_metric(weir, FALSE_CLAIMS), atomic_load(&storm->served));
    cr_expect_eq(weir_metric(weir, FULL), atomic_load(&storm->served));
    expect_peace(weir);
    storm_free(storm);
    peer_session_free(session);
    weir_stop(weir);
}

Test(storm_faults, a_drain, .timeout = 120)
{
    struct edge_options options = {
        .workers = 2, .admission = "max_pending_handshakes: 8", .timeouts = TIMEOUTS};
    struct weir *weir = edge_start(&options);
    struct storm *storm = storm_begin(weir, total(), STORM_KINDS, NULL);

    storm_wait_for(storm, total() / 3);
    cr_assert_eq(kill(weir_pid(weir), SIGTERM), 0);
    edge_nap(100);
    storm_cut(storm);
    storm_end(storm);
    cr_expect_eq(weir_wait(weir, 0, edge_ms(20000)), 0);
    /* Whoever was accepted has a line: a refusal, or a request, or it ended without one. */
    cr_expect_geq(edge_log_lines(weir, "\"type\":\"request\""), atomic_load(&storm->served));
    storm_free(storm);
    weir_stop(weir);
}
