/* Rates of routes: who shares a bucket with whom, and what is said to those who come too often. */
#include "support/proxy_rig.h"

#include <stdio.h>
#include <string.h>

static struct proxy_rig *rig;

/* One route "/" that answers itself, two at once and one a second: the clock stands still. */
static void start(enum wr_rate_key key, const char *header)
{
    static struct wr_cidr trusted[2];
    rig = px_new();
    px_upstream(rig);
    rig->routes[0].action = WR_ROUTE_RESPOND;
    rig->routes[0].respond = (struct wr_respond_options){.status = 200, .body = WR_STR("fine")};
    rig->routes[0].rate = (struct wr_route_rate){
        .rate = {.per_second = 1, .burst = 2}, .key = key, .header = wr_str_from(header)};
    rig->routes[1] = (struct wr_route){.name = "free",
                                       .host = WR_STR_EMPTY,
                                       .path = WR_STR_EMPTY,
                                       .action = WR_ROUTE_RESPOND,
                                       .respond = {.status = 204}};
    rig->routes[0].path = WR_STR("/rated");
    rig->proxy_options.routes.count = 2;
    rig->proxy_options.source_bits_ipv4 = 32;
    rig->proxy_options.source_bits_ipv6 = 64;
    rig->proxy_options.seed = 4711;
    cr_assert_eq(wr_cidr_parse(WR_STR("192.0.2.7"), &trusted[0]), WR_OK);
    cr_assert_eq(wr_cidr_parse(WR_STR("10.0.0.0/8"), &trusted[1]), WR_OK);
    rig->proxy_options.forward.trusted = trusted;
    rig->proxy_options.forward.trusted_count = 2;
    px_start(rig);
}

/* The status of a request with FIELDS. */
static unsigned ask(const char *path, const char *fields)
{
    char text[1024];
    unsigned status = 0;
    (void)snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: a\r\n%s\r\n", path, fields);
    struct px_peer *client = px_client(rig, text);
    px_hear(client, "\r\n\r\n");
    cr_assert_eq(sscanf(client->text, "HTTP/1.1 %u", &status), 1);
    if (status == 429) {
        cr_expect(px_heard(client, "retry-after: 1\r\n"), "%s", client->text);
        cr_expect(px_heard(client, "proxy-status: weir; error=http_request_denied"), "%s",
                  client->text);
        cr_expect(px_heard(client, "429 Too Many Requests"), "%s", client->text);
    }
    px_close(client);
    return status;
}

/* Two pass, the third does not. */
static void expect_used_up(const char *fields)
{
    cr_expect_eq(ask("/rated", fields), 200, "first with %s", fields);
    cr_expect_eq(ask("/rated", fields), 200, "second with %s", fields);
    cr_expect_eq(ask("/rated", fields), 429, "third with %s", fields);
}

Test(proxy_rates, a_route_has_one_for_all)
{
    start(WR_RATE_ROUTE, "");
    expect_used_up("");
    cr_expect_eq(ask("/rated", "X-Forwarded-For: 198.51.100.1\r\n"), 429);
    cr_expect_eq(ask("/", ""), 204, "another route has nothing to do with it");
    cr_expect_eq(wr_metric_get(&rig->host.metrics->requests_rate_limited), 2);
    cr_expect_eq(wr_metric_get(&rig->host.metrics->requests_failed[WR_ERR_RATE_LIMITED]), 2);
    px_pass(rig, WR_SEC);
    cr_expect_eq(ask("/rated", ""), 200);
    cr_expect_eq(ask("/rated", ""), 429);
    px_end(rig);
}

/* The peer, 192.0.2.7, is trusted, and so is 10.0.0.0/8 behind it. */
Test(proxy_rates, a_client_is_who_trusted_peers_say_it_is)
{
    start(WR_RATE_CLIENT, "");
    expect_used_up("");
    expect_used_up("X-Forwarded-For: 198.51.100.1\r\n");
    expect_used_up("X-Forwarded-For: 198.51.100.2, 10.1.2.3\r\n");
    /* The same client, whatever it writes before what is known of it. */
    cr_expect_eq(ask("/rated", "X-Forwarded-For: 203.0.113.1, 198.51.100.2\r\n"), 429);
    cr_expect_eq(ask("/rated", "X-Forwarded-For: 203.0.113.2\r\n"
                               "X-Forwarded-For: 198.51.100.1 ,, 10.0.0.1\r\n"),
                 429);
    /* One that can't be read ends what can be believed. */
    cr_expect_eq(ask("/rated", "X-Forwarded-For: 203.0.113.3, unknown\r\n"), 429);
    expect_used_up("X-Forwarded-For: 2001:db8:1:2::3\r\n");
    cr_expect_eq(ask("/rated", "X-Forwarded-For: [2001:db8:1:2::4]:80\r\n"), 429,
                 "of the same network");
    cr_expect_eq(ask("/rated", "X-Forwarded-For: 2001:db8:1:3::3\r\n"), 200);
    px_end(rig);
}

Test(proxy_rates, a_peer_that_is_not_trusted_is_the_client_itself)
{
    start(WR_RATE_CLIENT, "");
    rig->proxy_options.forward.trusted_count = 0;
    cr_expect_eq(ask("/rated", "X-Forwarded-For: 198.51.100.1\r\n"), 200);
    cr_expect_eq(ask("/rated", "X-Forwarded-For: 198.51.100.2\r\n"), 200);
    cr_expect_eq(ask("/rated", "X-Forwarded-For: 198.51.100.3\r\n"), 429);
    px_end(rig);
}

Test(proxy_rates, a_field_tells_them_apart)
{
    start(WR_RATE_HEADER, "x-api-key");
    expect_used_up("X-Api-Key: alpha\r\n");
    expect_used_up("X-Api-Key: beta\r\n");
    expect_used_up("X-API-KEY: \r\n");
    expect_used_up("");
    cr_expect_eq(ask("/rated", "x-api-key: alpha\r\nX-Api-Key: gamma\r\n"), 429,
                 "the first counts");
    px_end(rig);
}
