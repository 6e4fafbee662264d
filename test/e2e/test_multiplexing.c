/* Many requests over few connections to upstreams: weir before weir over HTTP/2, with h2load as the clients. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/command.h"
#include "support/edge.h"
#include "support/weir.h"

#define INNER                                                                         \
    "workers: 1\nadmin: 127.0.0.1:0\n"                                                \
    "listeners:\n"                                                                    \
    "  - {name: plain, bind: 127.0.0.1:0, routes: [{respond: {body_size: 10KiB}}]}\n" \
    "  - {name: tls, bind: 127.0.0.1:0, routes: [{respond: {body_size: 10KiB}}],\n"   \
    "     tls: {certificates: [{chain: cert.pem, key: key.pem}]}}\n"
#define OUTER                                                                    \
    "workers: 1\nadmin: 127.0.0.1:0\naccess_log: access.log\n"                   \
    "listeners: [{name: edge, bind: 127.0.0.1:0, routes: [{cluster: inner}]}]\n" \
    "clusters: [{name: inner, %s}]\n"
#define CLUSTER(metric) "weir_upstream_" metric "{cluster=\"inner\"}"

static struct weir *inner;
static struct weir *other;
static struct weir *outer;

static void start(const char *cluster)
{
    outer = weir_start(OUTER, cluster);
}

static void stop(void)
{
    weir_stop(outer);
    weir_stop(inner);
    if (other != NULL)
        weir_stop(other);
}

/* Requests of CLIENTS with PIPES each at once, over HTTP/2 or, when that is said, HTTP/1.1; all are answered with 200. */
static void load(unsigned requests, unsigned clients, unsigned pipes, const char *how)
{
    char *output;
    char expected[64];
    int status = command_run(100, &output, "h2load -n %u -c %u -m %u %s http://127.0.0.1:%d/",
                             requests, clients, pipes, how, weir_port(outer, "edge"));
    cr_expect_eq(status, 0, "%s", output);
    (void)snprintf(expected, sizeof(expected), "status codes: %u 2xx", requests);
    cr_expect_not_null(strstr(output, expected), "no \"%s\" in:\n%s", expected, output);
    cr_expect_not_null(strstr(output, " 0 failed, 0 errored, 0 timeout"), "%s", output);
    free(output);
}

static void expect_few(unsigned requests, double connections)
{
    cr_expect_eq(weir_metric(outer, CLUSTER("requests_total")), requests);
    cr_expect_leq(weir_metric(outer, CLUSTER("connects_total")), connections);
    cr_expect(weir_metric_becomes(outer, CLUSTER("connections_active"), 0, 5000));
    cr_expect_eq(weir_metric(outer, CLUSTER("retries_total")), 0);
}

Test(multiplexing, one_connection_carries_what_it_can)
{
    char cluster[256];
    inner = weir_start(INNER);
    (void)snprintf(cluster, sizeof(cluster), "endpoints: [127.0.0.1:%d], protocol: http2",
                   weir_port(inner, "plain"));
    start(cluster);
    load(2000, 10, 10, "");
    expect_few(2000, 1);
    load(2000, 64, 1, "--h1");
    expect_few(4000, 1);
    stop();
}

Test(multiplexing, by_alpn)
{
    char cluster[256];
    inner = weir_start(INNER);
    (void)snprintf(cluster, sizeof(cluster), "endpoints: [127.0.0.1:%d], tls: {verify: false}",
                   weir_port(inner, "tls"));
    start(cluster);
    load(2000, 10, 10, "");
    expect_few(2000, 1);
    stop();
}

/* A hundred requests are there before its SETTINGS are, and none is refused. */
Test(multiplexing, the_upstreams_limit)
{
    char cluster[256];
    inner =
        weir_start(INNER "  - {name: few, bind: 127.0.0.1:0, http2: {max_concurrent_streams: 5},\n"
                         "     routes: [{respond: {body_size: 10KiB}}]}\n");
    (void)snprintf(cluster, sizeof(cluster), "endpoints: [127.0.0.1:%d], protocol: http2",
                   weir_port(inner, "few"));
    start(cluster);
    load(2000, 10, 10, "");
    expect_few(2000, 100.0 / 5);
    stop();
}

/* The inner one drains while requests come: GOAWAY, what is in flight is answered, the rest goes to the other. */
Test(multiplexing, an_upstream_that_goes_away_loses_nothing)
{
    const unsigned all = edge_is_slow() ? 5000 : 50000;
    char cluster[256];
    char *output;
    inner = weir_start(INNER);
    other = weir_start(INNER);
    (void)snprintf(cluster, sizeof(cluster),
                   "endpoints: [127.0.0.1:%d, 127.0.0.1:%d], protocol: http2",
                   weir_port(inner, "plain"), weir_port(other, "plain"));
    start(cluster);
    int status =
        command_run(100, &output,
                    "h2load -n %u -c 10 -m 10 http://127.0.0.1:%d/ & load=$!\n"
                    "asked() { curl -sS http://127.0.0.1:%d/metrics |\n"
                    "          sed -n 's/^weir_upstream_requests_total{cluster=\"inner\"} //p'; }\n"
                    "while [ $(asked) -lt 500 ]; do kill -0 $load || exit 9; done\n"
                    "kill -TERM %d\n"
                    "echo asked before: $(asked)\n"
                    "wait $load",
                    all, weir_port(outer, "edge"), weir_port(outer, "admin"), (int)weir_pid(inner));
    cr_expect_eq(status, 0, "%s", output);
    const char *before = strstr(output, "asked before: ");
    cr_assert_not_null(before, "%s", output);
    cr_expect_lt(strtoul(before + strlen("asked before: "), NULL, 10), all - 100,
                 "the load was over before: %s", output);
    cr_expect_not_null(strstr(output, " 0 failed, 0 errored, 0 timeout"), "%s", output);
    cr_expect_not_null(strstr(output, " 2xx, 0 3xx, 0 4xx, 0 5xx"), "%s", output);
    free(output);
    cr_expect_eq(weir_wait(inner, 0, 20000), 0, "drained");
    double others = weir_metric(other, "weir_requests_total{listener=\"plain\",class=\"2xx\"}");
    cr_expect(others > all / 2 && others < all, "%g of %u", others, all);
    stop();
}
