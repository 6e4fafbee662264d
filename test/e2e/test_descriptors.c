/* Row 55 of the table of hostile input: without descriptors weir neither spins nor stays down. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "support/command.h"
#include "support/edge.h"
#include "support/flood.h"
#include "support/origin.h"

#define DESCRIPTORS 64
#define PROMISED (2 * DESCRIPTORS) /* what weir is started with: it keeps a part from clients */
#define CLIENTS 200
#define ACCEPTED "weir_connections_accepted_total{listener=\"edge\"}"
#define STARVED_MS 2000

static int fds[CLIENTS];

static unsigned open_files(const struct weir *weir)
{
    char path[64];
    unsigned count = 0;

    (void)snprintf(path, sizeof(path), "/proc/%d/fd", (int)weir_pid(weir));
    DIR *dir = opendir(path);
    cr_assert_not_null(dir);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;)
        count += entry->d_name[0] != '.';
    (void)closedir(dir);
    return count;
}

static void starve(const struct weir *weir)
{
    int port = weir_port(weir, "edge");
    long end = edge_now_ms() + edge_ms(5000);
    const struct rlimit less = {DESCRIPTORS, DESCRIPTORS};

    cr_assert_eq(prlimit(weir_pid(weir), RLIMIT_NOFILE, &less, NULL), 0);

    for (unsigned i = 0; i < CLIENTS; i++) {
        fds[i] = flood_connect(port, i);
        cr_assert_geq(fds[i], 0);
    }
    while (open_files(weir) < DESCRIPTORS && edge_now_ms() < end)
        edge_nap(5);
    cr_assert_eq(open_files(weir), DESCRIPTORS, "%u files are open", open_files(weir));
}

static unsigned count_lines(const char *text, const char *word)
{
    unsigned lines = 0;

    for (const char *at = text; (at = strstr(at, word)) != NULL; at++)
        lines++;
    return lines;
}

static unsigned warnings(const struct weir *weir)
{
    char *log = weir_log(weir);
    unsigned lines = count_lines(log, " warn ");

    free(log);
    return lines;
}

/* Processor time over two seconds in which clients wait that cannot be accepted. */
static void expect_rest(const struct weir *weir)
{
    unsigned said = warnings(weir);
    unsigned long cpu = weir_cpu_ms(weir);

    edge_nap(STARVED_MS);
    cpu = weir_cpu_ms(weir) - cpu;
    cr_expect_leq(cpu, (unsigned long)edge_ms(60), "%lu ms of CPU in %d ms", cpu, STARVED_MS);
    said = warnings(weir) - said;
    cr_expect_leq(said, 2 * (STARVED_MS / 1000 + 1), "%u warnings in %d ms", said, STARVED_MS);
}

/* The admin server wants descriptors as well: it is asked before and after, not meanwhile. */
static void expect_recovery(const struct weir *weir)
{
    long before = edge_now_ms();

    flood_close(fds, CLIENTS);
    while (!edge_serves(weir) && edge_now_ms() < before + edge_ms(3000))
        edge_nap(20);
    cr_expect(edge_serves(weir));
    cr_expect_lt(edge_now_ms() - before, edge_ms(2500), "served again after %ld ms",
                 edge_now_ms() - before);
}

Test(descriptors, none_left_for_clients, .timeout = 60)
{
    struct edge_options options = {.descriptors = PROMISED,
                                   .timeouts = "client_hello: 1h, handshake: 1h"};
    struct weir *weir = edge_start(&options);

    cr_assert(edge_serves(weir));
    starve(weir);
    expect_rest(weir);
    expect_recovery(weir);
    char *text = weir_admin_get(weir, "/metrics");
    cr_assert_not_null(text);
    unsigned accepted = (unsigned)edge_sum(text, ACCEPTED);
    cr_expect_geq(edge_sum(text, "weir_accept_paused_total{listener=\"edge\"}"), 1);
    free(text);
    edge_expect_balance(weir, accepted, 0);
    double refused = edge_refused(weir, "no_descriptors");
    cr_expect_gt(refused, 0);
    cr_expect_geq(accepted, CLIENTS, "%u accepted of %d and more", accepted, CLIENTS);
    edge_expect_log_lines(weir, "\"reason\":\"no_descriptors\"", (unsigned)refused);
    weir_stop(weir);
}

/* Clients of the admin server that cannot be accepted make nobody spin either. They say nothing, so that one that gets the
 * descriptor which the listener gives up for a moment does not give it back at once. */
Test(descriptors, none_left_for_the_admin_server, .timeout = 60)
{
    enum { ADMINS = 30 };
    struct edge_options options = {.descriptors = PROMISED,
                                   .timeouts = "client_hello: 1h, handshake: 1h"};
    struct weir *weir = edge_start(&options);
    int admins[ADMINS];

    starve(weir);
    for (unsigned i = 0; i < ADMINS; i++)
        admins[i] = flood_connect(weir_port(weir, "admin"), i);
    expect_rest(weir);
    flood_close(admins, ADMINS);
    expect_recovery(weir);
    long end = edge_now_ms() + edge_ms(3000);
    char *alive = NULL;
    while (!alive && edge_now_ms() < end)
        alive = weir_admin_get(weir, "/healthz");
    cr_expect_not_null(alive, "the admin server does not come back");
    free(alive);
    weir_stop(weir);
}

/* A client that was served before is served on: what it asks of an upstream that cannot be reached is answered 503. */
Test(descriptors, none_left_for_upstreams, .timeout = 60)
{
    struct origin *origin = origin_start(origin_echo_head, NULL);
    char more[256];
    struct edge_options options = {.descriptors = PROMISED,
                                   .timeouts = "client_hello: 1h, handshake: 1h",
                                   .routes = "{match: {path: /up}, cluster: origin}",
                                   .more = more};
    static const char up[] = "GET /up HTTP/1.1\r\nHost: localhost\r\n\r\n";
    static const char own[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";

    (void)snprintf(more, sizeof(more), "clusters: [{name: origin, endpoints: [127.0.0.1:%d]}]\n",
                   origin_port(origin));
    struct weir *weir = edge_start(&options);
    struct peer *client = peer_connect_tls(weir_port(weir, "edge"), NULL);
    cr_assert_not_null(client);
    starve(weir);
    for (int i = 0; i < 20; i++) {
        cr_assert(peer_say(client, own));
        struct reply reply = peer_reply(client, false);
        cr_expect_eq(reply.status, 200);
        reply_free(&reply);
        cr_assert(peer_say(client, up));
        reply = peer_reply(client, false);
        cr_expect_eq(reply.status, 503, "status %d", reply.status);
        cr_expect_not_null(strstr(reply_field(&reply, "proxy-status"), "proxy_internal_error"));
        reply_free(&reply);
    }
    cr_expect_eq(origin_connections(origin), 0);
    expect_recovery(weir);
    cr_assert(peer_say(client, up));
    struct reply reply = peer_reply(client, false);
    cr_expect_eq(reply.status, 200, "status %d", reply.status);
    reply_free(&reply);
    peer_free(client);
    weir_stop(weir);
    origin_stop(origin);
}

/* Clients alone cannot use up what upstreams need. */
Test(descriptors, clients_leave_some_for_upstreams, .timeout = 60)
{
    struct origin *origin = origin_start(origin_echo_head, NULL);
    char more[256];
    struct edge_options options = {.descriptors = DESCRIPTORS,
                                   .timeouts = "client_hello: 1h, handshake: 1h",
                                   .routes = "{match: {path: /up}, cluster: origin}",
                                   .more = more};
    static const char up[] = "GET /up HTTP/1.1\r\nHost: localhost\r\n\r\n";

    (void)snprintf(more, sizeof(more), "clusters: [{name: origin, endpoints: [127.0.0.1:%d]}]\n",
                   origin_port(origin));
    struct weir *weir = edge_start(&options);
    struct peer *client = peer_connect_tls(weir_port(weir, "edge"), NULL);
    cr_assert_not_null(client);
    for (unsigned i = 0; i < CLIENTS; i++)
        fds[i] = flood_connect(weir_port(weir, "edge"), i);
    long end = edge_now_ms() + edge_ms(5000);
    while (edge_refused(weir, "no_descriptors") == 0 && edge_now_ms() < end)
        edge_nap(20);
    cr_expect_gt(edge_refused(weir, "no_descriptors"), 0);
    cr_assert(peer_say(client, up));
    struct reply reply = peer_reply(client, false);
    cr_expect_eq(reply.status, 200, "status %d", reply.status);
    reply_free(&reply);
    flood_close(fds, CLIENTS);
    peer_free(client);
    weir_stop(weir);
    origin_stop(origin);
}

Test(descriptors, too_few_to_start_with, .timeout = 60)
{
    char *output;
    int status =
        command_run(20, &output,
                    "dir=$(mktemp -d)\n"
                    "cd \"$dir\"\n"
                    "echo 'listeners: [{bind: 127.0.0.1:0, routes: [{respond: {}}]}]' > weir.yaml\n"
                    "(ulimit -n 7; exec \"$WEIR_BIN\" run -c weir.yaml)\n"
                    "status=$?\n"
                    "rm -r \"$dir\"\n"
                    "exit $status\n");

    cr_expect_eq(status, 1, "%d: %s", status, output);
    cr_expect_gt(strlen(output), 10, "not a word of why");
    free(output);
}
