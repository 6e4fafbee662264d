/* Ten thousand clients that say nothing: they cost little, they go in time, and nobody waits for them. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "support/edge.h"
#include "support/flood.h"

#define SILENT "weir_connections_silent{listener=\"edge\"}"
#define RECEIVED "weir_downstream_bytes_received_total{listener=\"edge\"}"
#define COUNT 10000
#define BYTES_EACH 2048
#define PROMPT_MS 250

static int fds[COUNT];

static void connect_all(const struct weir *weir, unsigned count)
{
    int port = weir_port(weir, "edge");

    for (unsigned i = 0; i < count; i++) {
        fds[i] = flood_connect(port, i);
        cr_assert_geq(fds[i], 0, "connection %u is not to be had", i);
    }
    cr_assert(weir_metric_becomes(weir, SILENT, count, edge_ms(20000)), "%g silent",
              weir_metric(weir, SILENT));
}

/* The longest of ten tries, in milliseconds. */
static long slowest_answer(const struct weir *weir)
{
    long slowest = 0;

    for (int i = 0; i < 10; i++) {
        long before = edge_now_ms();
        cr_assert(edge_serves(weir), "a client that speaks is not served");
        long took = edge_now_ms() - before;
        slowest = took > slowest ? took : slowest;
    }
    return slowest;
}

Test(silent, ten_thousand_and_a_client_that_speaks, .timeout = 170)
{
    const int timeout_ms = edge_is_slow() ? 12000 : 4000;
    struct edge_options options = {
        .workers = 2,
        .timeouts =
            edge_is_slow() ? "client_hello: 12s, handshake: 1h" : "client_hello: 4s, handshake: 1h",
        .admission = "max_pending_handshakes: 10, max_silent: infinity",
    };
    struct weir *weir = edge_start(&options);

    cr_assert(edge_serves(weir)); /* what the first one needs is not theirs */
    size_t before = weir_rss(weir);
    long since = edge_now_ms();
    connect_all(weir, COUNT);
    long connected = edge_now_ms();
    size_t after = weir_rss(weir);
    double each = after > before ? (double)(after - before) / COUNT : 0;
    long slowest = slowest_answer(weir);
    cr_log_info(
        "%d silent connections: %.0f bytes each, slowest answer %ld ms, connected in %ld ms", COUNT,
        each, slowest, connected - since);
    if (!edge_is_slow())
        cr_expect_leq(each, BYTES_EACH, "%.0f bytes a silent connection", each);
    cr_expect_leq(slowest, edge_ms(PROMPT_MS), "a client waited %ld ms", slowest);

    /* Nothing is done for them. */
    unsigned long cpu = weir_cpu_ms(weir);
    edge_nap(500);
    cpu = weir_cpu_ms(weir) - cpu;
    cr_expect_leq(cpu, (unsigned long)edge_ms(50), "%lu ms of CPU in 500 ms of silence", cpu);
    cr_expect_eq(weir_metric(weir, SILENT), COUNT, "gone too early");

    edge_expect_refused(weir, "client_hello_timeout", COUNT);
    long took = edge_now_ms() - since;
    cr_expect(took >= timeout_ms - 100 && took < timeout_ms + (connected - since) + edge_ms(3000),
              "all were gone after %ld ms", took);
    edge_expect_balance(weir, COUNT + 11, 0);
    for (unsigned i = 0; i < COUNT; i++)
        cr_assert_eq(flood_end(fds[i], NULL, 0, NULL, 1000), PEER_EOF);
    edge_expect_log_lines(weir, "\"reason\":\"client_hello_timeout\"", COUNT);
    cr_expect(edge_serves(weir));
    flood_close(fds, COUNT);
    weir_stop(weir);
}

Test(silent, memory_comes_back, .timeout = 170)
{
    const unsigned count = edge_is_slow() ? 2000 : 5000;
    struct edge_options options = {.timeouts = "client_hello: 1h, handshake: 1h",
                                   .admission = "max_silent: infinity"};
    struct weir *weir = edge_start(&options);
    size_t first = 0;

    for (unsigned round = 0; round < 6; round++) {
        connect_all(weir, count);
        size_t now = weir_rss(weir);
        first = round == 1 ? now : first;
        flood_close(fds, count);
        edge_expect_refused(weir, "abandoned", (round + 1) * count);
        /* Each round needs what the one before gave back. */
        if (round > 1 && !edge_is_slow())
            cr_expect_leq(now, first + count * 200, "round %u: %zu KiB, first %zu KiB", round,
                          now / 1024, first / 1024);
    }
    edge_expect_balance(weir, 6 * count, 0);
    weir_stop(weir);
}

/* The first bytes make nothing of TLS either: a ClientHello that is not whole costs its bytes. */
Test(silent, a_hello_that_is_begun_costs_its_bytes, .timeout = 170)
{
    static uint8_t hello[FLOOD_HELLO_MAX];
    const unsigned count = edge_is_slow() ? 1000 : 4000;
    struct edge_options options = {.timeouts = "client_hello: 1h, handshake: 1h",
                                   .admission = "max_silent: infinity"};
    struct weir *weir = edge_start(&options);
    size_t n = flood_hello(hello, NULL) / 2;

    cr_assert(edge_serves(weir));
    connect_all(weir, count);
    double before = weir_metric(weir, RECEIVED);
    size_t silent = weir_rss(weir);
    for (unsigned i = 0; i < count; i++)
        cr_assert(flood_send(fds[i], hello, n));
    cr_assert(weir_metric_becomes(weir, RECEIVED, before + (double)n * count, edge_ms(20000)));
    size_t begun = weir_rss(weir);
    double each = begun > silent ? (double)(begun - silent) / count : 0;
    cr_log_info("a ClientHello begun: %.0f bytes each, of %zu sent", each, n);
    if (!edge_is_slow())
        cr_expect_leq(each, (double)n + 512, "%.0f bytes a hello begun with %zu", each, n);
    cr_expect(edge_serves(weir));
    flood_close(fds, count);
    edge_expect_refused(weir, "abandoned", count);
    weir_stop(weir);
}
