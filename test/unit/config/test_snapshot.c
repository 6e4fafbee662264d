/* From text to snapshot: what is taken, what is refused and in which words. */
#include "config/snapshot.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/time.h"

struct reports {
    char text[8192];
    unsigned count;
};

static void note(void *arg, const char *text)
{
    struct reports *reports = arg;
    size_t at = strlen(reports->text);
    (void)snprintf(reports->text + at, sizeof(reports->text) - at, "%s\n", text);
    reports->count++;
}

static const struct wr_snapshot *parse(const char *text, struct reports *reports)
{
    const struct wr_snapshot *snapshot = NULL;
    struct wr_config_report report = {note, reports};
    memset(reports, 0, sizeof(*reports));
    enum wr_err err = wr_snapshot_parse("t.yaml", text, strlen(text), &report, &snapshot);
    cr_assert((err == WR_OK) == (snapshot != NULL));
    cr_assert((err == WR_OK) == (reports->count == 0), "%s", reports->text);
    return snapshot;
}

/* Refused, and EXPECTED is among what is said. */
static void refused(const char *text, const char *expected)
{
    struct reports reports;
    const struct wr_snapshot *snapshot = parse(text, &reports);
    cr_expect_null(snapshot, "taken: %s", text);
    cr_expect(strstr(reports.text, expected), "for:\n%s\nexpected: %s\ngot: %s", text, expected,
              reports.text);
    wr_snapshot_release(snapshot);
}

#define ROUTES "    routes: [{respond: {status: 200}}]\n"
#define LISTENER "listeners:\n  - bind: 127.0.0.1:0\n"

Test(snapshot, smallest_file_has_safe_defaults)
{
    struct reports reports;
    const struct wr_snapshot *s = parse(LISTENER ROUTES, &reports);
    cr_assert_not_null(s, "%s", reports.text);
    cr_expect_geq(s->workers, 1);
    cr_expect_not(s->admin_enabled);
    cr_expect_null(s->access_log);
    cr_expect_eq(s->drain_timeout, 30 * WR_SEC);
    cr_expect_eq(s->buffer_shrink_after, 10 * WR_SEC);
    cr_assert_eq(s->listener_count, 1);
    const struct wr_downstream_options *d = &s->listeners[0].downstream;
    cr_expect_str_eq(d->name, "127.0.0.1:0");
    cr_expect_null(d->tls);
    cr_expect_eq(d->admission.max_pending_handshakes, 1000);
    cr_expect_eq(d->refuse_with, WR_REFUSE_RESET);
    cr_expect_eq(d->timeouts.client_hello, 5 * WR_SEC);
    cr_expect_eq(d->timeouts.request, WR_NEVER);
    cr_expect_eq(d->codec.head_limit, 65536);
    cr_expect_eq(d->proxy.request_content_limit, UINT64_MAX);
    wr_snapshot_release(s);
}

Test(snapshot, values_reach_the_options)
{
    struct reports reports;
    const struct wr_snapshot *s =
        parse("workers: 3\n"
              "admin: {bind: 127.0.0.1:9901}\n"
              "access_log: {to: stdout, format: json}\n"
              "listeners:\n"
              "  - name: edge\n"
              "    bind: '[::1]:8443'\n"
              "    admission: {max_pending_handshakes: infinity, refuse_with: alert}\n"
              "    forwarded: {trust: [10.0.0.0/8, '::1/128']}\n"
              "    path: raw\n"
              "    underscores: on\n"
              "    routes:\n"
              "      - match: {host: '*.Example.com', path: /api/}\n"
              "        cluster: api\n"
              "      - name: rest\n"
              "        respond: {status: 404, body: no}\n"
              "clusters:\n"
              "  - name: api\n"
              "    endpoints: ['127.0.0.1:8080', {address: 127.0.0.2, port: 81}]\n"
              "    timeouts: {connect: 250ms, response: infinity}\n"
              "    pool: {max_connections: 7, max_idle: infinity}\n"
              "    retry: {on: [reused], budget: 5%}\n",
              &reports);
    cr_assert_not_null(s, "%s", reports.text);
    cr_expect_eq(s->workers, 3);
    cr_expect(s->admin_enabled);
    cr_expect_str_eq(s->access_log, "stdout");
    const struct wr_downstream_options *d = &s->listeners[0].downstream;
    cr_expect_eq(d->admission.max_pending_handshakes, WR_ADMISSION_NO_LIMIT);
    cr_expect_eq(d->refuse_with, WR_REFUSE_ALERT);
    cr_expect_eq(d->proxy.forward.trusted_count, 2);
    cr_expect_eq(d->proxy.path_policy, WR_PATH_RAW);
    cr_expect(d->codec.underscores);
    const struct wr_route *routes = d->proxy.routes.routes;
    cr_assert_eq(d->proxy.routes.count, 2);
    cr_expect(wr_str_eq(routes[0].host, WR_STR("*.example.com")));
    cr_expect_eq(routes[0].action, WR_ROUTE_CLUSTER);
    cr_expect_eq(routes[0].cluster, 0);
    cr_expect_str_eq(routes[0].name, "#1");
    cr_expect_str_eq(routes[1].name, "rest");
    cr_expect_eq(routes[1].respond.status, 404);
    const struct wr_cluster_options *c = &s->clusters[0];
    cr_expect_eq(c->endpoint_count, 2);
    cr_expect_str_eq(c->endpoints[1].text, "127.0.0.2:81");
    cr_expect_eq(c->connect_timeout, 250 * WR_MSEC);
    cr_expect_eq(c->response_timeout, WR_NEVER);
    cr_expect_eq(c->max_connections, 7);
    cr_expect_eq(c->max_idle, UINT32_MAX);
    cr_expect_not(c->retry_connect);
    cr_expect(c->retry_reused);
    cr_expect_eq(c->retry_budget_percent, 5);
    wr_snapshot_release(s);
}

Test(snapshot, http2_is_on_and_has_budgets)
{
    struct reports reports;
    const struct wr_snapshot *s =
        parse("listeners:\n"
              "  - name: a\n    bind: 127.0.0.1:0\n" ROUTES
              "  - name: b\n    bind: 127.0.0.1:0\n" ROUTES "    http2: off\n"
              "  - name: c\n    bind: 127.0.0.1:0\n" ROUTES "    http2:\n"
              "      max_concurrent_streams: 7\n"
              "      connection_window: 3MiB\n"
              "      stream_window_max: 2MiB\n"
              "      header_table_size: 0\n"
              "      budgets: {reset: {burst: 5}, ping: {burst: infinity, per_second: 0}}\n"
              "clusters:\n"
              "  - {name: a, endpoints: [127.0.0.1:1]}\n"
              "  - name: b\n    endpoints: [127.0.0.1:1]\n    protocol: http2\n"
              "    http2: {max_concurrent_streams: 9, ping_interval: infinity, ping_timeout: 1s,\n"
              "            budgets: {reset: {burst: 6, per_second: 7}, ping: {burst: 8}}}\n"
              "  - {name: c, endpoints: [127.0.0.1:1], protocol: http1}\n",
              &reports);
    cr_assert_not_null(s, "%s", reports.text);
    const struct wr_downstream_options *a = &s->listeners[0].downstream;
    cr_expect(a->plain_http2);
    cr_expect_eq(a->codec.h2.max_concurrent_streams, 128);
    cr_expect_eq(a->codec.h2.connection_window, 2 << 20);
    cr_expect_eq(a->codec.h2.stream_window_max, 1 << 20);
    cr_expect_eq(a->codec.h2.header_table_size, 4096);
    cr_expect_eq(a->codec.h2.budgets[WR_FLOOD_RESET].burst, 1000);
    cr_expect_eq(a->codec.h2.budgets[WR_FLOOD_RESET].per_second, 33);
    for (unsigned kind = 0; kind < WR_FLOOD__COUNT; kind++)
        cr_expect_geq(a->codec.h2.budgets[kind].burst, 100, "%s", wr_flood_label(kind));
    cr_expect_not(s->listeners[1].downstream.plain_http2);
    const struct wr_h2_options *c = &s->listeners[2].downstream.codec.h2;
    cr_expect_eq(c->max_concurrent_streams, 7);
    cr_expect_eq(c->connection_window, 3 << 20);
    cr_expect_eq(c->stream_window_max, 2 << 20);
    cr_expect_eq(c->header_table_size, 0);
    cr_expect_eq(c->budgets[WR_FLOOD_RESET].burst, 5);
    cr_expect_eq(c->budgets[WR_FLOOD_RESET].per_second, 33);
    cr_expect_eq(c->budgets[WR_FLOOD_PING].burst, UINT32_MAX);
    cr_expect_eq(c->budgets[WR_FLOOD_PING].per_second, 0);

    cr_expect_eq(s->clusters[0].protocol, WR_CLUSTER_AUTO);
    cr_expect_eq(s->clusters[0].codec.h2.max_concurrent_streams, 100);
    cr_expect_eq(s->clusters[0].codec.h2.ping_interval, 15 * WR_SEC);
    cr_expect_eq(s->clusters[0].codec.h2.stream_window, 64 << 10, "the least of all listeners");
    const struct wr_h2_budget *usual = s->clusters[0].codec.h2.budgets;
    const struct wr_h2_budget *own = s->clusters[1].codec.h2.budgets;
    cr_expect_eq(usual[WR_FLOOD_RESET].burst, UINT32_MAX);
    cr_expect_eq(usual[WR_FLOOD_PING].burst, 10000);
    cr_expect_eq(usual[WR_FLOOD_PING].per_second, 1000);
    cr_expect_eq(own[WR_FLOOD_RESET].burst, 6);
    cr_expect_eq(own[WR_FLOOD_RESET].per_second, 7);
    cr_expect_eq(own[WR_FLOOD_PING].burst, 8);
    cr_expect_eq(own[WR_FLOOD_PING].per_second, 1000);
    cr_expect_eq(own[WR_FLOOD_EMPTY].burst, 10000);
    cr_expect_eq(s->clusters[1].protocol, WR_CLUSTER_HTTP2);
    cr_expect_eq(s->clusters[1].codec.h2.max_concurrent_streams, 9);
    cr_expect_eq(s->clusters[1].codec.h2.ping_interval, WR_NEVER);
    cr_expect_eq(s->clusters[1].codec.h2.ping_timeout, WR_SEC);
    cr_expect_eq(s->clusters[2].protocol, WR_CLUSTER_HTTP1);
    wr_snapshot_release(s);
}

Test(snapshot, tunnels_are_what_routes_allow)
{
    struct reports reports;
    const struct wr_snapshot *s =
        parse(LISTENER "    timeouts: {tunnel: 5m}\n"
                       "    routes:\n"
                       "      - {cluster: a}\n"
                       "      - {cluster: a, upgrade: []}\n"
                       "      - {cluster: a, upgrade: [X-Chat, websocket]}\n"
                       "      - {cluster: a, connect: true}\n"
                       "clusters: [{name: a, endpoints: [127.0.0.1:1]}]\n",
              &reports);
    cr_assert_not_null(s, "%s", reports.text);
    const struct wr_downstream_options *d = &s->listeners[0].downstream;
    const struct wr_route *routes = d->proxy.routes.routes;
    cr_expect_eq(d->timeouts.tunnel, 300 * WR_SEC);
    cr_assert_eq(routes[0].upgrade_count, 1);
    cr_expect(wr_str_eq(routes[0].upgrades[0], WR_STR("websocket")));
    cr_expect_not(routes[0].connect);
    cr_expect_eq(routes[1].upgrade_count, 0);
    cr_assert_eq(routes[2].upgrade_count, 2);
    cr_expect(wr_str_eq(routes[2].upgrades[0], WR_STR("x-chat")));
    cr_expect(routes[3].connect);
    wr_snapshot_release(s);
}

Test(snapshot, defaults_reach_listeners_wherever_they_stand)
{
    struct reports reports;
    const struct wr_snapshot *s =
        parse("listeners:\n"
              "  - name: a\n    bind: 127.0.0.1:0\n" ROUTES "    timeouts: {keep_alive: 7s}\n"
              "  - name: b\n    bind: 127.0.0.1:0\n" ROUTES "defaults:\n"
              "  timeouts: {keep_alive: 3s, inactivity: 9s, drain: 1s}\n"
              "  limits: {request_fields: 5}\n"
              "buffer_shrink_after: 0s\n",
              &reports);
    cr_assert_not_null(s, "%s", reports.text);
    cr_expect_eq(s->listeners[0].downstream.timeouts.keep_alive, 7 * WR_SEC);
    cr_expect_eq(s->listeners[0].downstream.timeouts.inactivity, 9 * WR_SEC);
    cr_expect_eq(s->listeners[1].downstream.timeouts.keep_alive, 3 * WR_SEC);
    cr_expect_eq(s->listeners[1].downstream.codec.fields_limit, 5);
    cr_expect_eq(s->drain_timeout, WR_SEC);
    cr_expect_eq(s->buffer_shrink_after, 0);
    wr_snapshot_release(s);
}

Test(snapshot, every_mistake_has_its_place_and_expectation)
{
    static const struct {
        const char *text;
        const char *said;
    } cases[] = {
        {"", "t.yaml:1:1: nothing in the file"},
        {"- a\n", "expected a mapping"},
        {"listeners: [", "not YAML"},
        {"listners: []\n", "t.yaml:1:1: unknown key \"listners\" in the configuration, expected "
                           "\"listeners\"?"},
        {"\"a\\n\\e[1m\": 1\n", "t.yaml:1:1: unknown key \"a??[1m\" in"},
        {"listeners: []\n", "listeners is empty, expected at least one"},
        {"workers: 1\n", "the configuration has no \"listeners\""},
        {LISTENER, "t.yaml:2:5: a listener has no \"routes\""},
        {"listeners:\n  - bind: nowhere\n" ROUTES, "t.yaml:2:11: bind is \"nowhere\", expected an "
                                                   "address like"},
        {LISTENER ROUTES "    timeouts: {keep_alive: 15}\n",
         "t.yaml:4:28: keep_alive is \"15\", expected a duration like 250ms"},
        {LISTENER ROUTES "    timeouts: {keep_alive: [1s]}\n", "keep_alive is a list, expected a "
                                                               "duration"},
        {LISTENER ROUTES "    limits: {request_head: 1GiB}\n", "out of range, expected 256 to"},
        {LISTENER ROUTES "    admission: {refuse_with: politely}\n",
         "refuse_with is \"politely\", expected reset | close | alert"},
        {LISTENER ROUTES "    bind: 127.0.0.1:1\n", "\"bind\" is given twice, first on line 2"},
        {LISTENER "    routes: [{cluster: web}]\n", "cluster \"web\" is not among clusters"},
        {LISTENER "    routes: [{}]\n", "neither cluster nor respond"},
        {LISTENER "    routes: [{match: {path: api}, respond: {}}]\n",
         "expected a prefix that begins with /"},
        {LISTENER "    routes: [{match: {path: /a/../b}, respond: {}}]\n", "or dot segment"},
        {LISTENER "    routes: [{match: {path: /a?x}, respond: {}}]\n", "has no query"},
        {LISTENER "    routes: [{match: {host: 'a.com:80'}, respond: {}}]\n", "without port"},
        {LISTENER "    routes: [{match: {host: 'a b'}, respond: {}}]\n", "expected a name like"},
        {LISTENER ROUTES "    timeouts: {drain: 1s}\n",
         "t.yaml:4:15: drain is given for a listener"},
        {LISTENER "    routes: [{match: {host: 'a.*.b'}, respond: {}}]\n", "expected a name like"},
        {LISTENER "    routes: [{respond: {body: a, body_size: 1}}]\n", "expected one"},
        {LISTENER ROUTES "  - bind: 127.0.0.1:0\n" ROUTES, "is given twice"},
        {LISTENER ROUTES "    tls: {certificates: []}\n", "certificates is empty"},
        {LISTENER ROUTES "    tls: on\n", "tls is a value, expected a mapping or off"},
        {LISTENER ROUTES
         "    tls: {certificates: [{chain: /nonexistent.pem, key: /nonexistent.key}]}\n",
         "/nonexistent"},
        {LISTENER ROUTES "    forwarded: {trust: [10.0.0.0/33]}\n", "trust is \"10.0.0.0/33\""},
        {LISTENER ROUTES "workers: 0\n", "workers is \"0\", expected auto or 1 to"},
        {LISTENER ROUTES "admin: {bind: 0.0.0.0:9901}\n", "admin is open to other machines"},
        {LISTENER ROUTES "clusters: [{name: a, endpoints: [nohost]}]\n", "has no port"},
        {LISTENER ROUTES "clusters: [{name: a, endpoints: []}]\n", "endpoints is empty"},
        {LISTENER ROUTES "x: ${UNSET_VARIABLE_OF_TEST}\n", "UNSET_VARIABLE_OF_TEST is not set"},
        {LISTENER ROUTES "---\na: b\n", "a second document"},
        {"a: &a [*a]\n", "stands inside itself"},
    };
    for (size_t i = 0; i < WR_COUNT_OF(cases); i++)
        refused(cases[i].text, cases[i].said);
}

Test(snapshot, mistakes_about_http2_and_tunnels)
{
    static const struct {
        const char *text;
        const char *said;
    } cases[] = {
        {LISTENER ROUTES "    tls: {certificates: [{chain: a, key: b}], alpn: [spdy/3]}\n",
         "alpn has \"spdy/3\", expected protocols that weir speaks: h2, http/1.1"},
        {LISTENER ROUTES "    tls: {certificates: [{chain: a, key: b}], alpn: [h2]}\n"
                         "    http2: off\n",
         "alpn has \"h2\" and http2 is off"},
        {LISTENER ROUTES "    http2: {max_concurrent_streams: 0}\n", "expected 1 to 100000"},
        {LISTENER ROUTES "    http2: {connection_window: 1KiB}\n", "out of range"},
        {LISTENER ROUTES "    http2: {budgets: {pings: {burst: 1}}}\n",
         "unknown key \"pings\" in budgets, expected \"ping\"?"},
        {LISTENER ROUTES "    http2: {budgets: {ping: 5}}\n", "expected a mapping"},
        {LISTENER "    routes: [{respond: {}, connect: true}]\n",
         "expected a cluster to connect to"},
        {LISTENER "    routes: [{respond: {}, upgrade: ['a b']}]\n",
         "upgrade has \"a b\", expected the name of a protocol"},
        {LISTENER "    routes: [{respond: {}, upgrade: [H2C]}]\n", "expected no version of HTTP"},
        {LISTENER ROUTES "clusters: [{name: a, endpoints: ['127.0.0.1:1'], protocol: http3}]\n",
         "protocol is \"http3\", expected auto | http1 | http2"},
    };
    for (size_t i = 0; i < WR_COUNT_OF(cases); i++)
        refused(cases[i].text, cases[i].said);
}

Test(snapshot, all_errors_in_one_pass)
{
    struct reports reports;
    cr_assert_null(parse("workers: none\nbogus: 1\n" LISTENER
                         "    timeouts: {keep_alive: x, inactivity: y}\n    routes: [{}]\n",
                         &reports));
    cr_expect_eq(reports.count, 5, "%s", reports.text);
}

Test(snapshot, errors_are_told_in_the_order_of_the_file)
{
    struct reports reports;
    cr_assert_null(parse("clusters:\n  - {name: a, endpoints: [nohost]}\n"
                         "listeners:\n"
                         "  - bind: nowhere\n"
                         "    bind: 127.0.0.1:0\n"
                         "    tls: {certificates: [{chain: /no/1, key: /no/1}, {chain: /no/2, key: "
                         "/no/2}]}\n" ROUTES "workers: x\n",
                         &reports));
    static const char *const in_order[] = {":2:", ":4:11: bind", ":5:5: \"bind\" is given twice",
                                           "/no/1", "/no/2"};
    const char *at = reports.text;
    for (size_t i = 0; i < WR_COUNT_OF(in_order); i++) {
        at = strstr(at, in_order[i]);
        cr_assert_not_null(at, "no %s in its place in:\n%s", in_order[i], reports.text);
    }
    cr_expect_eq(reports.count, 6, "%s", reports.text);
}

Test(snapshot, environment_and_anchors)
{
    struct reports reports;
    (void)setenv("WEIR_TEST_PORT", "8081", 1);
    const struct wr_snapshot *s =
        parse("listeners:\n"
              "  - &one\n"
              "    name: a\n"
              "    bind: 127.0.0.1:${WEIR_TEST_PORT}\n" ROUTES "  - <<: *one\n"
              "    name: b${WEIR_TEST_NONE:-fallback}$$\n",
              &reports);
    cr_assert_not_null(s, "%s", reports.text);
    cr_expect_eq(wr_address_port(&s->listeners[0].address), 8081);
    cr_expect_eq(wr_address_port(&s->listeners[1].address), 8081);
    cr_expect_str_eq(s->listeners[1].downstream.name, "bfallback$");
    wr_snapshot_release(s);
}

Test(snapshot, deep_nesting_and_junk_are_refused)
{
    struct reports reports;
    char deep[4096];
    memset(deep, '[', 2000);
    memset(deep + 2000, ']', 2000);
    deep[4000] = '\0';
    cr_expect_null(parse(deep, &reports));
    cr_expect_null(parse("\x01\x02\xff", &reports));
    cr_expect_null(parse("a: \"\\0\"\n", &reports));
}
