/* The page /admission: it says why connections and requests are refused just now, and that it is over when it is. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/edge.h"
#include "support/flood.h"
#include "support/origin.h"
#include "support/peer.h"

#define RUNNING "weir_handshakes_running{listener=\"edge\"}"
#define WAIT_MS 20000
#define JSON "/admission?format=json" /* where sentences are in one piece */

static bool has(const struct weir *weir, const char *path, const char *text)
{
    char *page = weir_admin_get(weir, path);
    bool found = page != NULL && strstr(page, text) != NULL;

    free(page);
    return found;
}

/* Waits until the page at PATH has TEXT in it. */
static void expect_page(const struct weir *weir, const char *path, const char *text)
{
    long until = edge_now_ms() + edge_ms(WAIT_MS);

    while (!has(weir, path, text)) {
        if (edge_now_ms() > until) {
            char *page = weir_admin_get(weir, path);
            cr_assert_fail("\"%s\" is not on the page: %s", text, page);
        }
        edge_nap(50);
    }
}

static void expect_says(const struct weir *weir, const char *text)
{
    expect_page(weir, JSON, text);
}

static void expect_silence(const struct weir *weir, const char *text)
{
    cr_expect_not(has(weir, JSON, text), "\"%s\" is on the page", text);
}

/* COUNT clients, each from the address that FIRST and its number pick, say hello and no more; they may be refused. */
static void stall(const struct weir *weir, int *fds, unsigned first, unsigned count)
{
    uint8_t hello[FLOOD_HELLO_MAX];
    size_t n = flood_hello(hello, NULL);

    for (unsigned i = 0; i < count; i++) {
        fds[i] = flood_connect(weir_port(weir, "edge"), first + i);
        if (fds[i] >= 0)
            (void)flood_send(fds[i], hello, n);
    }
}

static void knock(const struct weir *weir, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        int fd = flood_connect(weir_port(weir, "edge"), i);
        if (fd >= 0)
            (void)close(fd);
    }
}

Test(page, at_rest)
{
    struct edge_options options = {.workers = 2};
    struct weir *weir = edge_start(&options);

    expect_page(weir, "/admission", "\nedge (TLS): idle: nobody has connected in the last ");
    expect_page(weir, "/admission", "limit 2,000 as of now (1,000 a worker)");
    expect_page(weir, "/", "/admission");
    cr_assert(edge_serves(weir));
    expect_page(weir, "/admission", "\nedge (TLS): serving everything, ");
    expect_says(weir, "\"state\":\"serving\"");
    expect_says(weir, "\"reasons\":[]");
    expect_says(weir, "\"full\":1");
    expect_page(weir, "/admission",
                "\n  requests in flight      0, and 0 waiting; no limit; waited");
    expect_says(weir, "\"requests\":{\"state\":\"letting_in\",\"text\":\"letting in everything, ");
    expect_says(weir, "\"requests\":{\"state\":\"at_rest\",\"text\":\"none in the last 1");
    weir_stop(weir);
}

Test(page, a_limit_of_zero)
{
    struct edge_options options = {.admission = "max_pending_handshakes: 0"};
    struct weir *weir = edge_start(&options);

    knock(weir, 50);
    expect_says(weir, "\"state\":\"refusing\",\"text\":\"refusing ");
    expect_says(weir, "{\"reason\":\"too_many_handshakes\",\"cause\":\"backlog\",\"last\":");
    expect_says(weir, "\"ten\":50,\"text\":\"admission.max_pending_handshakes is 0, which refuses");
    expect_page(weir, "/admission", "\n  too_many_handshakes, backlog: 50 in the last ");
    expect_silence(weir, "do not go on");
    weir_stop(weir);
}

Test(page, clients_that_stall_and_after_them, .timeout = 170)
{
    enum { LIMIT = 8 };
    struct edge_options options = {.admission =
                                       "max_pending_handshakes: 8, max_share_per_source: 100%",
                                   .timeouts = "handshake: 1h"};
    struct weir *weir = edge_start(&options);
    int fds[LIMIT];
    long until = edge_now_ms() + edge_ms(WAIT_MS);

    stall(weir, fds, 0, LIMIT);
    cr_assert(weir_metric_becomes(weir, RUNNING, LIMIT, edge_ms(WAIT_MS)));
    /* It takes seconds until they can be told from clients that have come just now. */
    while (!has(weir, JSON,
                "8 handshakes are running, and few of them finish though none has to "
                "wait for the processor: their clients do not go on.") &&
           edge_now_ms() < until) {
        knock(weir, 5);
        edge_nap(100);
    }
    knock(weir, 5);
    expect_says(weir, "lets 8 be pending at once in a worker.");
    expect_says(weir, "their clients do not go on.");
    flood_close(fds, LIMIT);
    cr_assert(weir_metric_becomes(weir, RUNNING, 0, edge_ms(WAIT_MS)));
    cr_assert(edge_serves(weir));
    expect_says(weir, "\"text\":\"serving everything again: ");
    expect_says(weir, " were refused since the start, the last ");
    expect_silence(weir, "do not go on");
    expect_says(weir, "\"text\":\"idle: nobody has connected in the last ");
    expect_says(weir, "were refused since the start, the last 1"); /* ten seconds ago or more */
    expect_says(weir, "\"reasons\":[]");
    weir_stop(weir);
}

Test(page, a_source_that_holds_its_share)
{
    enum { OTHERS = 10, MORE = 8 };
    struct edge_options options = {.admission = "max_pending_handshakes: 20, "
                                                "max_share_per_source: 25%, source_bits_ipv4: 31",
                                   .timeouts = "handshake: 1h"};
    struct weir *weir = edge_start(&options);
    int fds[OTHERS + 2 * MORE];

    for (unsigned i = 0; i < OTHERS; i++)
        stall(weir, &fds[i], 2 * i, 1);
    cr_assert(weir_metric_becomes(weir, RUNNING, OTHERS, edge_ms(WAIT_MS)));
    for (unsigned i = OTHERS; i < OTHERS + MORE; i++)
        stall(weir, &fds[i], 40, 1);
    expect_says(weir, "\"cause\":\"share\"");
    expect_says(weir, "admission.max_share_per_source (25 %), got no more.");
    expect_says(weir, "share their first 31 bits count as one source");
    flood_close(fds, OTHERS + MORE);
    weir_stop(weir);
}

Test(page, rates_and_lists)
{
    struct edge_options options = {
        .admission =
            "deny: [127.0.0.0/8], rates: {connections_per_source: {per_second: 1, burst: 5}}"};
    struct edge_options limited = {
        .admission = "rates: {connections_per_source: {per_second: 1, burst: 5}}"};
    struct weir *weir = edge_start(&options);

    knock(weir, 1);
    expect_says(weir, "{\"reason\":\"denied\",\"cause\":\"\",");
    expect_says(weir, "admission.deny (1 entries)");
    expect_says(weir, "The access log has their addresses.");
    weir_stop(weir);

    weir = edge_start(&limited);
    for (unsigned i = 0; i < 20; i++) {
        int fd = flood_connect(weir_port(weir, "edge"), 0);
        if (fd >= 0)
            (void)close(fd);
    }
    expect_says(weir, "\"reason\":\"rate_limited\"");
    expect_says(weir, "a worker: connections_per_source 1 a second, 5 at once; raise it");
    weir_stop(weir);
}

Test(page, clients_that_come_to_nothing)
{
    struct edge_options options = {.timeouts = "client_hello: 300ms, handshake: 1h",
                                   .limits = "connections: 2"};
    struct weir *weir = edge_start(&options);
    int fds[3];

    fds[0] = flood_connect(weir_port(weir, "edge"), 0);
    cr_assert(flood_send(fds[0], "GET / HTTP/1.1\r\n\r\n", 18));
    expect_says(weir, "\"reason\":\"not_tls\"");
    fds[1] = flood_connect(weir_port(weir, "edge"), 0);
    expect_says(weir, "within timeouts.client_hello (300 ms)");
    cr_expect(has(weir, JSON, "\"text\":\"serving everything, "), "nobody was refused");
    cr_expect(has(weir, JSON, "came to nothing, for reasons told below"));
    (void)close(fds[0]);
    (void)close(fds[1]);
    for (unsigned i = 0; i < 3; i++)
        fds[i] = flood_connect(weir_port(weir, "edge"), 0);
    expect_says(weir, "\"reason\":\"too_many_connections\"");
    expect_says(weir, "limits.connections");
    flood_close(fds, 3);
    weir_stop(weir);
}

Test(page, drain)
{
    struct weir *weir = edge_start(NULL);
    struct peer *peer = peer_connect_tls(weir_port(weir, "edge"), NULL);

    cr_assert_not_null(peer);
    cr_assert(peer_say(peer, "GET / HTTP/1.1\r\n")); /* keeps it */
    cr_assert(weir_metric_becomes(weir, "weir_connections_active{listener=\"edge\"}", 1,
                                  edge_ms(WAIT_MS)));
    cr_assert_eq(kill(weir_pid(weir), SIGTERM), 0);
    expect_says(weir, "\"state\":\"draining\",\"text\":\"draining: takes no new connection, 1 are");
    peer_free(peer);
    cr_expect_eq(weir_wait(weir, 0, edge_ms(WAIT_MS)), 0);
    weir_stop(weir);
}

/* ---- requests ---- */

#define GET(path) "GET " path " HTTP/1.1\r\nHost: localhost\r\n\r\n"

/* Answers nobody, and holds the connection as long as weir does. */
static void hold(struct peer *client, void *arg)
{
    char head[4096];

    (void)arg;
    peer_set_wait(client, 170000);
    while (peer_read_head(client, head, sizeof(head)))
        ;
}

/* weir with a route /up to an upstream that holds requests. */
static struct weir *start_before(const struct origin *origin, const char *listener,
                                 const char *cluster)
{
    char more[256];
    struct edge_options options = {
        .requests = listener, .routes = "{match: {path: /up}, cluster: up}", .more = more};

    (void)snprintf(more, sizeof(more),
                   "clusters:\n"
                   "  - name: up\n"
                   "    endpoints: [127.0.0.1:%d]\n"
                   "    requests: {%s}\n",
                   origin_port(origin), cluster);
    return edge_start(&options);
}

static struct peer *ask(const struct weir *weir, const char *text)
{
    struct peer *peer = peer_connect_tls(weir_port(weir, "edge"), NULL);

    cr_assert_not_null(peer);
    cr_assert(peer_say(peer, text));
    return peer;
}

static void expect_status(const struct weir *weir, const char *text, int status)
{
    struct peer *peer = ask(weir, text);
    struct reply reply = peer_reply(peer, false);

    cr_expect_eq(reply.status, status, "%d: %s", reply.status, reply.head);
    reply_free(&reply);
    peer_free(peer);
}

/* A client that only closes is still answered: it may have ended its side alone. */
static void leave(struct peer *peer)
{
    peer_reset(peer);
    peer_free(peer);
}

Test(page, requests_of_a_cluster, .timeout = 170)
{
    struct origin *origin = origin_start(hold, NULL);
    struct weir *weir = start_before(origin, "", "max: 2, max_wait: 90s, max_waiting: 1");
    struct peer *peers[3];

    expect_page(weir, "/admission", "\ncluster up: none in the last ");
    for (unsigned i = 0; i < 3; i++)
        peers[i] = ask(weir, GET("/up"));
    expect_page(weir, "/admission",
                "\n  requests in flight      2, and 1 waiting; limit 2 as of now");
    expect_says(weir, "{\"name\":\"up\",\"state\":\"waiting\",\"text\":\"letting in everything, ");
    expect_says(weir, " a second; 1 wait for a place\"");
    expect_says(weir, "\"now\":{\"in_flight\":2,\"waiting\":1,\"limit\":2,\"full\":1}");
    expect_status(weir, GET("/up"), 503);
    expect_says(weir, "{\"cause\":\"queue\",\"last\":");
    expect_says(weir, "requests.max_waiting lets 1 wait in a worker.");
    expect_says(weir, "requests.max lets 2 be in flight in a worker. Just now there is no place in "
                      "1 of 1 workers.");
    expect_page(weir, "/admission", "\n  requests, queue: 1 in the last ");
    for (unsigned i = 0; i < 3; i++)
        leave(peers[i]);
    expect_says(weir, "{\"name\":\"up\",\"state\":\"at_rest\",\"text\":\"none in the last 1");
    expect_silence(weir, "no place in");
    weir_stop(weir);
    origin_stop(origin);
}

Test(page, requests_of_a_listener, .timeout = 170)
{
    struct origin *origin = origin_start(hold, NULL);
    struct weir *weir = start_before(origin, "max: 1, max_wait: 0s", "");
    struct peer *peer = ask(weir, GET("/up"));

    expect_page(weir, "/admission",
                "\n  requests in flight      1, and 0 waiting; limit 1 as of now (1 a worker)");
    for (unsigned i = 0; i < 3; i++)
        expect_status(weir, GET("/"), 503);
    expect_says(weir,
                "\"ten\":3,\"text\":\"As many were in flight as may, and requests do not wait "
                "here.");
    expect_says(weir, "requests.max lets 1 be in flight in a worker.");
    expect_says(weir, "{\"name\":\"up\",\"state\":\"letting_in\"");
    expect_says(weir, "\"text\":\"letting in everything again: of 3 refused in the last ");
    leave(peer);
    weir_stop(weir);
    origin_stop(origin);
}

Test(page, requests_above_the_rate_of_a_route)
{
    struct edge_options options = {
        .routes = "{match: {path: /few}, respond: {body: few}, rate: {per_second: 1, burst: 2, "
                  "key: none}}"};
    struct weir *weir = edge_start(&options);
    unsigned refused = 0;

    for (unsigned i = 0; i < 20; i++) {
        struct peer *peer = ask(weir, GET("/few"));
        struct reply reply = peer_reply(peer, false);
        refused += reply.status == 429;
        reply_free(&reply);
        peer_free(peer);
    }
    cr_expect_gt(refused, 0);
    expect_says(weir, "{\"cause\":\"rate\",\"last\":");
    expect_says(weir, "they were answered 429. Routes with a rate: 1, 1 a second.");
    expect_says(weir, "In 1 of them all clients share one rate");
    expect_page(weir, "/admission", "\n  requests, rate: ");
    weir_stop(weir);
}
