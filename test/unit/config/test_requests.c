/* Admission of requests, priorities and rates, from text to snapshot. */
#include "config/snapshot.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/time.h"

static char told[4096];

static void note(void *arg, const char *text)
{
    (void)arg;
    size_t at = strlen(told);
    (void)snprintf(told + at, sizeof(told) - at, "%s\n", text);
}

static const struct wr_snapshot *parse(const char *text)
{
    const struct wr_snapshot *snapshot = NULL;
    struct wr_config_report report = {note, NULL};
    told[0] = '\0';
    enum wr_err err = wr_snapshot_parse("t.yaml", text, strlen(text), &report, &snapshot);
    cr_assert((err == WR_OK) == (snapshot != NULL));
    return snapshot;
}

static void refused(const char *text, const char *expected)
{
    const struct wr_snapshot *snapshot = parse(text);
    cr_expect_null(snapshot, "taken: %s", text);
    cr_expect_not_null(strstr(told, expected), "for:\n%s\nexpected: %s\ngot: %s", text, expected,
                       told);
    wr_snapshot_release(snapshot);
}

#define LISTENER "listeners:\n  - bind: 127.0.0.1:0\n"
#define ROUTES "    routes: [{respond: {status: 200}}]\n"
#define CLUSTER "clusters:\n  - name: a\n    endpoints: [127.0.0.1:1]\n"

Test(requests, nothing_is_limited_unless_asked_for)
{
    const struct wr_snapshot *s = parse(LISTENER "    routes: [{cluster: a}]\n" CLUSTER);
    cr_assert_not_null(s, "%s", told);
    const struct wr_proxy_options *proxy = &s->listeners[0].downstream.proxy;
    cr_expect_eq(proxy->requests.max, 0);
    cr_expect_eq(proxy->requests.mode, WR_REQUESTS_FIXED);
    cr_expect_eq(proxy->requests.max_wait, WR_SEC);
    cr_expect_eq(proxy->requests.max_waiting, 1024);
    cr_expect_eq(s->clusters[0].requests.max, 0);
    cr_expect_eq(proxy->routes.routes[0].priority, WR_PRIORITY_NORMAL);
    cr_expect_eq(proxy->routes.routes[0].rate.rate.per_second, 0);
    wr_snapshot_release(s);
}

Test(requests, every_key_arrives)
{
    const struct wr_snapshot *s =
        parse(LISTENER "    requests: {max: 9, mode: adaptive, max_wait: 20ms, max_waiting: 7,\n"
                       "               normal_share: 80%, sheddable_share: 40%}\n"
                       "    admission: {source_bits_ipv4: 24, source_bits_ipv6: 48}\n"
                       "    routes:\n"
                       "      - {cluster: a, priority: critical, rate: 5}\n"
                       "      - {cluster: a, priority: sheddable,\n"
                       "         rate: {per_second: 6, burst: 60, key: \"header:X-Key\"}}\n"
                       "      - {respond: {status: 204}, rate: {per_second: 7, key: none}}\n"
                       "      - {respond: {status: 204}, rate: off}\n" CLUSTER "    requests: 100\n"
                       "  - {name: b, endpoints: [127.0.0.1:1], requests: 50}\n");
    cr_assert_not_null(s, "%s", told);
    const struct wr_proxy_options *proxy = &s->listeners[0].downstream.proxy;
    cr_expect_eq(proxy->requests.max, 9);
    cr_expect_eq(proxy->requests.mode, WR_REQUESTS_ADAPTIVE);
    cr_expect_eq(proxy->requests.max_wait, 20 * WR_MSEC);
    cr_expect_eq(proxy->requests.max_waiting, 7);
    cr_expect_eq(proxy->requests.share[WR_PRIORITY_CRITICAL], 100);
    cr_expect_eq(proxy->requests.share[WR_PRIORITY_NORMAL], 80);
    cr_expect_eq(proxy->requests.share[WR_PRIORITY_SHEDDABLE], 40);
    cr_expect_eq(proxy->source_bits_ipv4, 24);
    cr_expect_eq(proxy->source_bits_ipv6, 48);
    const struct wr_route *routes = proxy->routes.routes;
    cr_expect_eq(routes[0].priority, WR_PRIORITY_CRITICAL);
    cr_expect_eq(routes[0].rate.rate.per_second, 5);
    cr_expect_eq(routes[0].rate.rate.burst, 5);
    cr_expect_eq(routes[0].rate.key, WR_RATE_CLIENT);
    cr_expect_eq(routes[1].priority, WR_PRIORITY_SHEDDABLE);
    cr_expect_eq(routes[1].rate.rate.burst, 60);
    cr_expect_eq(routes[1].rate.key, WR_RATE_HEADER);
    cr_expect(wr_str_eq(routes[1].rate.header, WR_STR("x-key")));
    cr_expect_eq(routes[2].rate.key, WR_RATE_ROUTE);
    cr_expect_eq(routes[3].rate.rate.per_second, 0);
    cr_expect_eq(s->clusters[0].requests.max, 100);
    cr_expect_eq(s->clusters[1].requests.max, 50);
    wr_snapshot_release(s);
}

/* Where nothing is critical nothing is kept for it. */
Test(requests, slots_are_kept_for_critical_ones_where_there_are_such)
{
    const struct wr_snapshot *s =
        parse("listeners:\n"
              "  - {bind: 127.0.0.1:1, routes: [{cluster: a, priority: critical}]}\n"
              "  - {bind: 127.0.0.1:2, routes: [{cluster: a}, {cluster: b}]}\n" CLUSTER
              "  - {name: b, endpoints: [127.0.0.1:1]}\n");
    cr_assert_not_null(s, "%s", told);
    cr_expect_eq(s->listeners[0].downstream.proxy.requests.share[WR_PRIORITY_NORMAL], 90);
    cr_expect_eq(s->listeners[1].downstream.proxy.requests.share[WR_PRIORITY_NORMAL], 100);
    cr_expect_eq(s->clusters[0].requests.share[WR_PRIORITY_NORMAL], 90);
    cr_expect_eq(s->clusters[1].requests.share[WR_PRIORITY_NORMAL], 100);
    wr_snapshot_release(s);
}

Test(requests, mistakes_are_told_with_their_place)
{
    refused(LISTENER "    requests: {max: 0}\n" ROUTES, "t.yaml:3:21: max is 0");
    refused(LISTENER "    requests: {max_wait: infinity}\n" ROUTES, "t.yaml:3:26: max_wait");
    refused(LISTENER "    requests: {sheddable_share: 95%}\n" ROUTES,
            "t.yaml:3:15: sheddable_share is above normal_share, expected at most 90%");
    refused(LISTENER "    routes: [{cluster: a, priority: high}]\n" CLUSTER,
            "t.yaml:3:37: priority is \"high\", expected critical | normal | sheddable");
    refused(LISTENER "    routes: [{cluster: a, rate: {burst: 3}}]\n" CLUSTER,
            "has no \"per_second\"");
    refused(LISTENER "    routes: [{cluster: a, rate: {per_second: infinity}}]\n" CLUSTER,
            "per_second is \"infinity\"");
    refused(LISTENER "    routes: [{cluster: a, rate: {per_second: 1, key: peer}}]\n" CLUSTER,
            "key is \"peer\", expected client, none or header:NAME");
    refused(LISTENER
            "    routes: [{cluster: a, rate: {per_second: 1, key: \"header:\"}}]\n" CLUSTER,
            "t.yaml:3:33: key is \"header:\"");
}
