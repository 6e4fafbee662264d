/* Who may connect, how often, and how much of the backlog one source may hold: through the binary. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "support/edge.h"
#include "support/flood.h"

#define WAITING "weir_handshakes_waiting{listener=\"edge\"}"
#define RUNNING "weir_handshakes_running{listener=\"edge\"}"
#define CAUSE(which) "weir_handshakes_refused_total{listener=\"edge\",cause=\"" which "\"}"
#define WAIT_MS 5000

/* Source addresses of flood_connect() are 127.0.0.2 and up, those of peers 127.0.0.1. */
static int come(const struct weir *weir, unsigned source)
{
    int fd = flood_connect(weir_port(weir, "edge"), source);
    cr_assert_geq(fd, 0);
    return fd;
}

static void expect_reset(int fd)
{
    enum peer_end end = flood_end(fd, NULL, 0, NULL, edge_ms(WAIT_MS));
    cr_expect_eq(end, PEER_RESET, "ended with %d", end);
    (void)close(fd);
}

/* One that says its ClientHello and then nothing: it holds a slot. */
static int stall(const struct weir *weir, unsigned source)
{
    static uint8_t hello[FLOOD_HELLO_MAX];
    static size_t n;
    if (n == 0)
        n = flood_hello(hello, NULL);
    int fd = come(weir, source);
    (void)flood_send(fd, hello, n); /* it may be refused already */
    return fd;
}

Test(access, denied_ones_are_turned_away_and_counted)
{
    struct edge_options options = {.admission = "deny: [127.0.0.3, 127.0.0.16/28]"};
    struct weir *weir = edge_start(&options);
    static const unsigned denied[] = {1, 14, 29};

    for (unsigned i = 0; i < 3; i++)
        expect_reset(come(weir, denied[i]));
    cr_expect(edge_serves(weir));
    int fd = come(weir, 30); /* 127.0.0.32 */
    edge_expect_refused(weir, "denied", 3);
    edge_expect_balance(weir, 5, 1);
    edge_expect_log_lines(weir, "\"reason\":\"denied\"", 3);
    (void)close(fd);
    weir_stop(weir);
}

Test(access, with_a_list_of_the_allowed_all_others_are_denied)
{
    struct edge_options options = {.admission =
                                       "allow: [127.0.0.0/28, \"::1\"], deny: [127.0.0.4]"};
    struct weir *weir = edge_start(&options);

    cr_expect(edge_serves(weir));
    expect_reset(come(weir, 2));  /* allowed and denied: denied */
    expect_reset(come(weir, 14)); /* 127.0.0.16 */
    edge_expect_refused(weir, "denied", 2);
    weir_stop(weir);
}

Test(access, connections_of_a_source_have_a_rate)
{
    struct edge_options options = {.admission =
                                       "rates: {connections_per_source: {per_second: 1, burst: 5}}",
                                   .timeouts = "client_hello: 1h, handshake: 1h"};
    struct weir *weir = edge_start(&options);
    int kept[10];

    for (unsigned i = 0; i < 5; i++)
        kept[i] = come(weir, 0);
    /* A second brings one more; a slow machine may have given a few. */
    unsigned refused = 0;
    for (unsigned i = 0; i < 20; i++) {
        int fd = come(weir, 0);
        refused += flood_end(fd, NULL, 0, NULL, edge_ms(200)) == PEER_RESET;
        (void)close(fd);
    }
    cr_expect_geq(refused, 10, "%u", refused);
    for (unsigned i = 5; i < 10; i++)
        kept[i] = come(weir, 1);
    flood_close(kept, 10);
    edge_expect_balance(weir, 30, 0);
    cr_expect_geq(edge_refused(weir, "rate_limited"), refused);
    cr_expect_leq(edge_refused(weir, "rate_limited"), 20, "none of another source");
    cr_expect(edge_serves(weir));
    weir_stop(weir);
}

Test(access, the_listener_has_a_rate_and_the_trusted_have_none)
{
    struct edge_options options = {
        .admission = "trusted: [127.0.0.1], rates: {connections: {per_second: 1, burst: 3}}",
        .timeouts = "client_hello: 1h, handshake: 1h"};
    struct weir *weir = edge_start(&options);
    unsigned refused = 0;

    for (unsigned i = 0; i < 30; i++) {
        int fd = come(weir, i);
        refused += flood_end(fd, NULL, 0, NULL, edge_ms(50)) == PEER_RESET;
        (void)close(fd);
    }
    cr_expect_geq(refused, 15, "%u", refused);
    for (unsigned i = 0; i < 10; i++)
        cr_expect(edge_serves(weir));
    weir_stop(weir);
}

/* Connections that say nothing are not charged; the handshake is, before it costs anything. */
Test(access, handshakes_have_a_rate_of_their_own)
{
    struct edge_options options = {.admission =
                                       "rates: {handshakes_per_source: {per_second: 1, burst: 4}}",
                                   .timeouts = "client_hello: 1h, handshake: 1h"};
    struct weir *weir = edge_start(&options);
    int silent[20];
    int stalled[4];
    unsigned refused = 0;

    for (unsigned i = 0; i < 20; i++)
        silent[i] = come(weir, 0);
    for (unsigned i = 0; i < 4; i++)
        stalled[i] = stall(weir, 0);
    cr_expect(weir_metric_becomes(weir, RUNNING, 4, edge_ms(WAIT_MS)));
    for (unsigned i = 0; i < 10; i++) {
        int fd = stall(weir, 0);
        refused += flood_end(fd, NULL, 0, NULL, edge_ms(100)) == PEER_RESET;
        (void)close(fd);
    }
    cr_expect_geq(refused, 5, "%u", refused);
    cr_expect_geq(edge_refused(weir, "rate_limited"), refused);
    cr_expect_leq(edge_refused(weir, "rate_limited"), 10);
    cr_expect_eq(weir_metric(weir, "weir_connections_silent{listener=\"edge\"}"), 20);
    flood_close(silent, 20);
    flood_close(stalled, 4);
    weir_stop(weir);
}

/* ---- the controller's rules ---- */

/* The audit of the gate: a hundred stalled ClientHellos from one address kept everyone else out. */
Test(rules, one_source_cannot_hold_the_whole_backlog)
{
    enum { LIMIT = 40, COUNT = 100 };
    struct edge_options options = {.admission =
                                       "max_pending_handshakes: 40, max_handshake_delay: infinity",
                                   .timeouts = "handshake: 1h"};
    struct weir *weir = edge_start(&options);
    int fds[COUNT];

    for (unsigned i = 0; i < COUNT; i++)
        fds[i] = stall(weir, 0);
    cr_expect(weir_metric_becomes(weir, CAUSE("share"), COUNT - LIMIT / 2, edge_ms(WAIT_MS)));
    cr_expect(weir_metric_becomes(weir, RUNNING, LIMIT / 2, edge_ms(WAIT_MS)));
    for (unsigned i = 0; i < 10; i++)
        cr_expect(edge_serves(weir));
    /* Another one gets its quarter, and no more. */
    for (unsigned i = 0; i < LIMIT; i++)
        (void)close(stall(weir, 1));
    flood_close(fds, COUNT);
    edge_expect_balance(weir, COUNT + 10 + LIMIT, 0);
    edge_expect_log_lines(weir, "\"cause\":\"share\"", (unsigned)weir_metric(weir, CAUSE("share")));
    weir_stop(weir);
}

Test(rules, trusted_peers_have_slots_of_their_own)
{
    enum { LIMIT = 10 };
    struct edge_options options = {
        .admission = "max_pending_handshakes: 10, trusted: [127.0.0.1], trusted_reserve: 2, "
                     "max_handshake_delay: infinity, max_share_per_source: 100%",
        .timeouts = "handshake: 1h"};
    struct weir *weir = edge_start(&options);
    int fds[2 * LIMIT];

    for (unsigned i = 0; i < 2 * LIMIT; i++)
        fds[i] = stall(weir, i);
    cr_expect(
        weir_metric_becomes(weir, CAUSE("backlog"), 2 * LIMIT - (LIMIT - 2), edge_ms(WAIT_MS)));
    cr_expect(weir_metric_becomes(weir, RUNNING, LIMIT - 2, edge_ms(WAIT_MS)));
    for (unsigned i = 0; i < 5; i++)
        cr_expect(edge_serves(weir));
    flood_close(fds, 2 * LIMIT);
    weir_stop(weir);
}

/* More comes at once than can be served in the target's time, again and again: what is too late is told so. */
Test(rules, handshakes_that_would_be_too_late_are_refused)
{
    enum { COUNT = 400, WAVES = 40 };
    struct edge_options options = {
        .admission = "max_pending_handshakes: infinity, max_handshake_delay: 1ms, turn_budget: 0ms",
        .timeouts = "handshake: 1h"};
    struct weir *weir = edge_start(&options);
    static int fds[COUNT];

    for (unsigned wave = 0; wave < WAVES && weir_metric(weir, CAUSE("delay")) == 0; wave++) {
        for (unsigned i = 0; i < COUNT; i++)
            fds[i] = stall(weir, i);
        flood_close(fds, COUNT);
    }
    cr_expect_gt(weir_metric(weir, CAUSE("delay")), 0);
    cr_expect_eq(weir_metric(weir, CAUSE("backlog")), 0);
    cr_expect(weir_metric_becomes(weir, WAITING, 0, edge_ms(WAIT_MS)));
    cr_expect(edge_serves(weir));
    weir_stop(weir);
}
