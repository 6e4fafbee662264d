/* Requests and responses that pass, and those weir answers itself. */
#include "support/proxy_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BIG ((size_t)1 << 20)

static struct proxy_rig *rig;
static struct px_upstream *upstream;
static struct px_peer *client;

static void start(void)
{
    rig = px_new();
    upstream = px_upstream(rig);
    px_start(rig);
}

static struct px_peer *forwarded(const char *request)
{
    client = px_client(rig, request);
    struct px_peer *peer = px_accepted(upstream, upstream->count);
    px_hear(peer, "\r\n\r\n");
    return peer;
}

/* ---- what passes ---- */

Test(proxy_requests, a_request_and_its_response)
{
    start();
    struct px_peer *peer = forwarded("GET /a?b=c HTTP/1.1\r\nHost: www.example.com\r\n"
                                     "User-Agent: test\r\nConnection: keep-alive\r\n\r\n");
    cr_assert(px_heard(peer, "GET /a?b=c HTTP/1.1\r\n"));
    cr_assert(px_heard(peer, "host: www.example.com\r\n"));
    cr_assert(px_heard(peer, "user-agent: test\r\n"));
    cr_assert(px_heard(peer, "via: 1.1 weir\r\n"));
    cr_assert(px_heard(peer, "x-forwarded-for: 192.0.2.7\r\n"));
    cr_assert(px_heard(peer, "x-forwarded-proto: http\r\n"));
    cr_assert(px_heard(peer, "x-forwarded-host: www.example.com\r\n"));
    cr_assert(px_heard(peer, "x-request-id: "));
    px_say(peer, "HTTP/1.1 201 Created\r\nLocation: /x\r\nKeep-Alive: 5\r\n"
                 "Connection: x-hop\r\nX-Hop: 1\r\nContent-Length: 2\r\n\r\nok");
    px_hear(client, "\r\n\r\nok");
    cr_assert(px_heard(client, "HTTP/1.1 201 Created\r\n"));
    cr_assert(px_heard(client, "location: /x\r\n"));
    cr_assert(px_heard(client, "via: 1.1 weir\r\n"));
    cr_assert_not(px_heard(client, "hop"));
    cr_assert_not(px_heard(client, "keep-alive:"));
    px_end(rig);
}

Test(proxy_requests, an_upgrade_is_an_ordinary_request)
{
    start();
    struct px_peer *peer = forwarded("GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\n"
                                     "Upgrade: websocket\r\n\r\n");
    cr_assert_not(px_heard(peer, "upgrade"));
    px_say(peer, PX_OK);
    px_hear(client, "200 OK");
    px_end(rig);
}

Test(proxy_requests, an_early_answer_reaches_the_client_while_it_sends)
{
    start();
    struct px_peer *peer =
        forwarded("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\nbegin");
    px_say(peer, "HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno");
    px_hear(client, "403 Forbidden");
    px_hear(client, "\r\n\r\nno");
    PX_UNTIL(rig, peer->ended || peer->reset);
    px_end(rig);
}

/* ---- interim responses ---- */

Test(proxy_requests, continue_is_passed_end_to_end)
{
    start();
    struct px_peer *peer = forwarded(
        "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    cr_assert(px_heard(peer, "expect: 100-continue\r\n"));
    px_settle(rig);
    cr_assert_eq(client->n, 0);
    px_say(peer, "HTTP/1.1 100 Continue\r\n\r\n");
    px_hear(client, "100 Continue");
    px_say(client, "hi");
    px_hear(peer, "\r\n\r\nhi");
    px_say(peer, PX_OK);
    px_hear(client, "200 OK");
    px_end(rig);
}

Test(proxy_requests, continue_is_not_told_to_one_that_sends_already)
{
    start();
    struct px_peer *peer = forwarded("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nh");
    px_hear(peer, "\r\n\r\nh");
    px_say(peer, "HTTP/1.1 100 Continue\r\n\r\n");
    px_settle(rig);
    px_say(client, "i");
    px_hear(peer, "\r\n\r\nhi");
    px_say(peer, PX_OK);
    px_hear(client, "200 OK");
    cr_assert_not(px_heard(client, "100 Continue"));
    px_end(rig);
}

Test(proxy_requests, early_hints_pass_without_what_is_for_one_hop)
{
    start();
    struct px_peer *peer = forwarded(PX_GET);
    px_say(peer, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nConnection: x\r\nX: y\r\n\r\n");
    px_hear(client, "103 Early Hints\r\n");
    px_hear(client, "link: </a>\r\n");
    cr_assert_not(px_heard(client, "x: y"));
    px_say(peer, "HTTP/1.1 103 Early Hints\r\nLink: </b>\r\n\r\n" PX_OK);
    px_hear(client, "link: </b>\r\n");
    px_hear(client, "200 OK");
    px_end(rig);
}

/* ---- the content limit ---- */

static void start_limited(void)
{
    rig = px_new();
    rig->proxy_options.request_content_limit = 1000;
    upstream = px_upstream(rig);
    px_start(rig);
}

Test(proxy_requests, content_at_the_limit_passes)
{
    start_limited();
    char content[1000];
    memset(content, 'x', sizeof(content));
    struct px_peer *peer = forwarded("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n");
    px_say_bytes(client, content, sizeof(content));
    PX_UNTIL(rig, px_heard(peer, "\r\n\r\nx") && strchr(strstr(peer->text, "\r\n\r\nx"), '\0') -
                                                         strstr(peer->text, "\r\n\r\nx") ==
                                                     1004);
    px_say(peer, PX_OK);
    px_hear(client, "200 OK");
    px_end(rig);
}

Test(proxy_requests, a_length_beyond_the_limit_is_refused_before_anything_is_read)
{
    start_limited();
    client = px_client(rig, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1001\r\n"
                            "Expect: 100-continue\r\n\r\n");
    px_hear(client, "413 Content Too Large");
    cr_assert_not(px_heard(client, "100 Continue"));
    px_settle(rig);
    cr_assert_eq(upstream->count, 0);
    px_end(rig);
}

static void say_chunk(size_t n)
{
    char chunk[2048];
    int length = snprintf(chunk, sizeof(chunk), "%zx\r\n", n);
    memset(chunk + length, 'x', n);
    memcpy(chunk + (size_t)length + n, "\r\n", 2);
    px_say_bytes(client, chunk, (size_t)length + n + 2);
}

Test(proxy_requests, chunks_beyond_the_limit_are_refused_when_they_come)
{
    start_limited();
    struct px_peer *peer =
        forwarded("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    say_chunk(600);
    px_hear(peer, "xxx");
    say_chunk(600);
    px_hear(client, "413 Content Too Large");
    cr_assert(px_heard(client, "proxy-status: weir; error=http_request_error; "
                               "details=\"request content too large\"\r\n"));
    PX_UNTIL(rig, peer->ended || peer->reset);
    cr_assert_not(px_heard(peer, "\r\n0\r\n\r\n"), "the upstream would take it for the whole");
    px_end(rig);
}

Test(proxy_requests, chunks_beyond_the_limit_are_refused_while_a_connection_is_awaited)
{
    rig = px_new();
    rig->proxy_options.request_content_limit = 1000;
    rig->cluster_options.max_connections = 1;
    upstream = px_upstream(rig);
    px_start(rig);
    forwarded(PX_GET);
    client = px_client(rig, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    say_chunk(600);
    px_settle(rig);
    cr_assert_eq(wr_metric_get(&rig->cluster_metrics->upstream_pending), 1);
    say_chunk(600);
    px_hear(client, "413 Content Too Large");
    cr_assert_eq(wr_metric_get(&rig->cluster_metrics->upstream_pending), 0);
    px_end(rig);
}

Test(proxy_requests, after_the_head_of_an_answer_too_much_content_cuts_it_off)
{
    rig = px_new();
    rig->proxy_options.request_content_limit = 100000;
    upstream = px_upstream(rig);
    px_start(rig);
    struct px_peer *peer =
        forwarded("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    px_say(peer, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
    px_hear(client, "half");
    for (unsigned i = 0; i < 100 && !client->ended && !client->reset; i++) {
        say_chunk(1500);
        px_turn(rig);
        if (client->ended || client->reset)
            break;
    }
    px_say(peer, "-whole");
    px_settle(rig);
    cr_assert_eq(px_times_heard(client, "HTTP/1.1"), 1);
    px_end(rig);
}

/* ---- local answers ---- */

static void start_routes(void)
{
    rig = px_new();
    upstream = px_upstream(rig);
    rig->routes[0] = (struct wr_route){
        .name = "ok",
        .host = WR_STR_EMPTY,
        .path = WR_STR("/ok"),
        .action = WR_ROUTE_RESPOND,
        .respond = {.status = 200, .content_type = WR_STR_EMPTY, .body = WR_STR("fine")}};
    rig->routes[1] = (struct wr_route){.name = "bench",
                                       .host = WR_STR_EMPTY,
                                       .path = WR_STR("/bench"),
                                       .action = WR_ROUTE_RESPOND,
                                       .respond = {.status = 200,
                                                   .content_type = WR_STR_EMPTY,
                                                   .body = WR_STR_EMPTY,
                                                   .body_size = (uint64_t)1 << 30}};
    rig->routes[2] = (struct wr_route){
        .name = "web", .host = WR_STR_EMPTY, .path = WR_STR("/web"), .action = WR_ROUTE_CLUSTER};
    rig->proxy_options.routes.count = 3;
    px_start(rig);
}

static void ask(const char *request, const char *answer)
{
    client = px_client(rig, request);
    px_hear(client, answer);
    px_settle(rig);
    cr_assert_eq(upstream->count, 0);
}

Test(proxy_requests, no_route)
{
    start_routes();
    ask("GET /nowhere HTTP/1.1\r\nHost: a\r\n\r\n", "404 Not Found");
    cr_assert(px_heard(client, "proxy-status: weir; error=destination_not_found;"));
    px_end(rig);
}

Test(proxy_requests, connect_and_trace_are_not_allowed)
{
    start_routes();
    ask("TRACE /ok HTTP/1.1\r\nHost: a\r\n\r\n", "405 Method Not Allowed");
    cr_assert(px_heard(client, "allow: GET"));
    ask("CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", "405 Method Not Allowed");
    px_end(rig);
}

Test(proxy_requests, a_malformed_request)
{
    start_routes();
    ask("GET /ok HTTP/1.1\r\nHost : a\r\n\r\n", "400 Bad Request");
    ask("GET /%2e%2e/ok HTTP/1.1\r\nHost: a\r\n\r\n", "400 Bad Request");
    px_end(rig);
}

Test(proxy_requests, the_path_that_is_routed_is_the_one_that_is_forwarded)
{
    start_routes();
    struct px_peer *peer = forwarded("GET /ok/%2e%2e/%77eb//x?..%2f HTTP/1.1\r\nHost: a\r\n\r\n");
    cr_assert(px_heard(peer, "GET /web//x?..%2f HTTP/1.1\r\n"));
    px_end(rig);
}

Test(proxy_requests, options_for_the_last_hop_is_answered_here)
{
    start_routes();
    ask("OPTIONS /web HTTP/1.1\r\nHost: a\r\nMax-Forwards: 0\r\n\r\n", "204 No Content");
    cr_assert(px_heard(client, "allow: GET"));
    struct px_peer *peer = forwarded("OPTIONS /web HTTP/1.1\r\nHost: a\r\nMax-Forwards: 5\r\n\r\n");
    cr_assert(px_heard(peer, "max-forwards: 4\r\n"));
    px_end(rig);
}

Test(proxy_requests, fixed_answers_on_one_connection)
{
    start_routes();
    client = px_client(rig, "GET /ok HTTP/1.1\r\nHost: a\r\n\r\n"
                            "HEAD /ok HTTP/1.1\r\nHost: a\r\n\r\n"
                            "GET /ok HTTP/1.1\r\nHost: a\r\n\r\n");
    PX_UNTIL(rig, px_times_heard(client, "200 OK") == 3);
    cr_assert_eq(px_times_heard(client, "content-length: 4\r\n"), 3);
    cr_assert_eq(px_times_heard(client, "fine"), 2);
    px_end(rig);
}

Test(proxy_requests, content_for_an_answer_of_our_own_is_never_a_request)
{
    start_routes();
    client = px_client(rig, "POST /ok HTTP/1.1\r\nHost: a\r\nContent-Length: 38\r\n\r\n"
                            "GET /nowhere HTTP/1.1\r\nHost: a\r\n\r\n----"
                            "GET /ok HTTP/1.1\r\nHost: a\r\n\r\n");
    PX_UNTIL(rig, px_times_heard(client, "200 OK") == 2);
    cr_assert_not(px_heard(client, "404"));
    px_end(rig);
}

Test(proxy_requests, an_answer_of_our_own_needs_no_content)
{
    start_routes();
    client = px_client(rig, "POST /ok HTTP/1.1\r\nHost: a\r\nContent-Length: 40\r\n"
                            "Expect: 100-continue\r\n\r\n");
    px_hear(client, "200 OK");
    cr_assert_not(px_heard(client, "100 Continue"));
    px_end(rig);
}

static size_t held(void)
{
    return wr_transport_host_chunks(rig->transports)->used_count * sizeof(struct wr_chunk);
}

Test(proxy_requests, a_gibibyte_for_a_stalled_reader_holds_little_memory)
{
    start_routes();
    client = px_client(rig, "");
    client->stalled = true;
    px_say(client, "GET /bench HTTP/1.1\r\nHost: a\r\n\r\n");
    for (unsigned i = 0; i < 200; i++)
        px_turn(rig);
    cr_assert_leq(held(), (size_t)512 * 1024);
    cr_assert_gt(held(), 0);
    client->stalled = false;
    uint64_t end = wr_time_monotonic() + 60 * WR_SEC;
    while (client->n < (size_t)1 << 30 && wr_time_monotonic() < end) {
        px_turn(rig);
        cr_assert_leq(held(), (size_t)512 * 1024);
    }
    cr_assert_geq(client->n, (size_t)1 << 30);
    px_end(rig);
}

Test(proxy_requests, a_reader_that_stalls_for_too_long_is_left)
{
    start_routes();
    client = px_client(rig, "");
    client->stalled = true;
    px_say(client, "GET /bench HTTP/1.1\r\nHost: a\r\n\r\n");
    for (unsigned i = 0; i < 100; i++)
        px_turn(rig);
    px_pass(rig, 61 * WR_SEC);
    client->stalled = false;
    PX_UNTIL(rig, client->ended || client->reset);
    cr_assert_lt(client->n, (size_t)1 << 30);
    px_end(rig);
}

/* ---- much content through ---- */

static void upload(size_t total)
{
    struct px_peer *peer =
        forwarded("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (size_t sent = 0; sent < total; sent += 1000) {
        say_chunk(1000);
        cr_assert_leq(held(), (size_t)512 * 1024);
    }
    px_say(client, "0\r\n\r\n");
    PX_UNTIL(rig, peer->n > total);
    px_settle(rig);
    px_say(peer, PX_OK);
    px_hear(client, "200 OK");
}

Test(proxy_requests, a_mebibyte_up_and_a_mebibyte_down)
{
    start();
    upload(BIG);
    px_forget(client);
    px_say(client, PX_GET);
    struct px_peer *peer = upstream->peers[0];
    char head[128];
    snprintf(head, sizeof(head), "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", BIG);
    px_settle(rig);
    px_say(peer, head);
    char *content = calloc(1, BIG);
    px_say_bytes(peer, content, BIG);
    free(content);
    PX_UNTIL(rig, client->n > BIG);
    px_settle(rig);
    cr_assert_eq(wr_metric_get(&rig->cluster_metrics->upstream_idle), 1);
    px_end(rig);
}
