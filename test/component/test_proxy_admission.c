/* Requests at the gates of listener and cluster: who passes, who waits, who is refused, and when places come back. */
#include "support/proxy_rig.h"

#include <stdio.h>
#include <string.h>

static struct proxy_rig *rig;
static struct px_upstream *upstream;

static void setup(void)
{
    rig = px_new();
    upstream = px_upstream(rig);
}

static void teardown(void)
{
    px_end(rig);
}

TestSuite(proxy_admission, .init = setup, .fini = teardown, .timeout = 60);

static struct wr_requests_options limit(uint32_t max, uint64_t max_wait, uint32_t max_waiting)
{
    return (struct wr_requests_options){
        .max = max, .max_wait = max_wait, .max_waiting = max_waiting, .share = {100, 90, 70}};
}

static uint64_t in_flight(void)
{
    return wr_metric_get(&rig->host.metrics->requests_in_flight);
}

static uint64_t waiting(void)
{
    return wr_metric_get(&rig->host.metrics->requests_waiting);
}

static uint64_t cluster_in_flight(void)
{
    return wr_metric_get(&rig->cluster_metrics->upstream_requests_in_flight);
}

static uint64_t cluster_waiting(void)
{
    return wr_metric_get(&rig->cluster_metrics->upstream_requests_waiting);
}

static uint64_t refused(enum wr_shed cause)
{
    return wr_metric_get(&rig->host.metrics->requests_refused[cause]);
}

static uint64_t failed(enum wr_err why)
{
    return wr_metric_get(&rig->host.metrics->requests_failed[why]);
}

/* A client whose request reaches the upstream. */
static struct px_peer *served(struct px_peer **peer)
{
    size_t before = upstream->count;
    struct px_peer *client = px_client(rig, PX_GET);
    *peer = px_accepted(upstream, before);
    px_hear(*peer, "\r\n\r\n");
    return client;
}

static void expect_overloaded(struct px_peer *client, const char *retry_after)
{
    px_hear(client, "\r\n\r\n");
    cr_expect(px_heard(client, "HTTP/1.1 503 "), "%s", client->text);
    cr_expect(px_heard(client, retry_after), "%s", client->text);
    cr_expect(px_heard(client, "proxy-status: weir; error=connection_limit_reached"), "%s",
              client->text);
}

Test(proxy_admission, above_the_limit_it_waits_and_above_that_it_is_refused)
{
    struct px_peer *first;
    struct px_peer *second;
    rig->proxy_options.requests = limit(2, 10 * WR_SEC, 1);
    px_start(rig);
    cr_expect_eq(wr_metric_get(&rig->host.metrics->requests_limit), 2);
    struct px_peer *one = served(&first);
    served(&second);
    struct px_peer *third = px_client(rig, PX_GET);
    PX_UNTIL(rig, waiting() == 1);
    expect_overloaded(px_client(rig, PX_GET), "retry-after: 10\r\n");
    cr_expect_eq(refused(WR_SHED_QUEUE), 1);
    cr_expect_eq(failed(WR_ERR_OVERLOADED), 1);
    px_settle(rig);
    cr_expect_eq(upstream->count, 2);

    /* One is done: the one who waits goes, on its connection. */
    px_forget(first);
    px_say(first, PX_OK);
    px_hear(one, "\r\n\r\nok");
    px_hear(first, "\r\n\r\n");
    cr_expect_eq(waiting(), 0);
    px_say(first, PX_OK);
    px_say(second, PX_OK);
    px_hear(third, "\r\n\r\nok");
    PX_UNTIL(rig, in_flight() == 0);
}

Test(proxy_admission, who_has_waited_too_long_is_refused)
{
    struct px_peer *first;
    rig->proxy_options.requests = limit(1, 3 * WR_SEC, 10);
    px_start(rig);
    served(&first);
    struct px_peer *second = px_client(rig, PX_GET);
    PX_UNTIL(rig, waiting() == 1);
    px_pass(rig, 2900 * WR_MSEC);
    cr_expect_eq(second->n, 0);
    px_pass(rig, 200 * WR_MSEC);
    expect_overloaded(second, "retry-after: 3\r\n");
    cr_expect_eq(refused(WR_SHED_WAIT), 1);
    cr_expect_eq(waiting(), 0);
    px_say(first, PX_OK);
}

Test(proxy_admission, a_client_that_goes_while_it_waits_leaves_its_place)
{
    struct px_peer *first;
    rig->proxy_options.requests = limit(1, 10 * WR_SEC, 1);
    px_start(rig);
    struct px_peer *one = served(&first);
    struct px_peer *second = px_client(rig, PX_GET);
    PX_UNTIL(rig, waiting() == 1);
    px_reset(second);
    PX_UNTIL(rig, waiting() == 0);
    struct px_peer *third = px_client(rig, PX_GET);
    PX_UNTIL(rig, waiting() == 1);
    px_forget(first);
    px_say(first, PX_OK);
    px_hear(one, "\r\n\r\nok");
    px_hear(first, "\r\n\r\n");
    px_say(first, PX_OK);
    px_hear(third, "\r\n\r\nok");
    cr_expect_eq(upstream->count, 1);
}

/* A client that has said all it has to say may still listen: it is served like any other (behaviour of half-closing clients). */
Test(proxy_admission, a_client_that_only_ends_its_side_keeps_its_place)
{
    struct px_peer *first;
    rig->proxy_options.requests = limit(1, 10 * WR_SEC, 1);
    px_start(rig);
    struct px_peer *one = served(&first);
    struct px_peer *second = px_client(rig, PX_GET);
    PX_UNTIL(rig, waiting() == 1);
    px_finish(second);
    px_settle(rig);
    cr_expect_eq(waiting(), 1);
    px_forget(first);
    px_say(first, PX_OK);
    px_hear(one, "\r\n\r\nok");
    px_hear(first, "\r\n\r\n");
    px_say(first, PX_OK);
    px_hear(second, "\r\n\r\nok");
}

/* What is missing of its request will never come. */
Test(proxy_admission, a_client_that_ends_within_its_request_leaves_its_place)
{
    struct px_peer *first;
    rig->proxy_options.requests = limit(1, 10 * WR_SEC, 1);
    px_start(rig);
    served(&first);
    struct px_peer *second =
        px_client(rig, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello");
    PX_UNTIL(rig, waiting() == 1);
    px_finish(second);
    PX_UNTIL(rig, waiting() == 0);
    px_say(first, PX_OK);
}

/* Whatever it said before: its end, a further request that is not read before the first is answered, or both. */
static void expect_reset_leaves(const char *more, bool finish)
{
    struct px_peer *first;
    rig->proxy_options.requests = limit(1, 10 * WR_SEC, 1);
    px_start(rig);
    served(&first);
    struct px_peer *second = px_client(rig, PX_GET);
    PX_UNTIL(rig, waiting() == 1);
    px_say(second, more);
    px_settle(rig);
    if (finish) {
        px_finish(second);
        px_settle(rig);
        cr_expect_eq(waiting(), 1);
    }
    px_reset(second);
    PX_UNTIL(rig, waiting() == 0);
    cr_expect_eq(failed(WR_ERR_CLIENT_RESET), 1);
    px_say(first, PX_OK);
}

Test(proxy_admission, a_reset_after_the_end_leaves_the_place)
{
    expect_reset_leaves("", true);
}

Test(proxy_admission, a_reset_behind_a_further_request_leaves_the_place)
{
    expect_reset_leaves(PX_GET, false);
}

Test(proxy_admission, a_reset_behind_a_further_request_and_the_end_leaves_the_place)
{
    expect_reset_leaves(PX_GET, true);
}

Test(proxy_admission, one_whose_client_goes_gives_its_slot_back)
{
    struct px_peer *peer;
    rig->proxy_options.requests = limit(1, 0, 0);
    px_start(rig);
    struct px_peer *one = served(&peer);
    cr_expect_eq(in_flight(), 1);
    expect_overloaded(px_client(rig, PX_GET), "retry-after: 1\r\n");
    cr_expect_eq(refused(WR_SHED_LIMIT), 1);
    px_reset(one);
    PX_UNTIL(rig, in_flight() == 0);
    served(&peer);
    px_say(peer, PX_OK);
}

/* Content that comes while the request waits is kept, up to the buffer, and goes upstream then. */
Test(proxy_admission, content_of_who_waits_is_kept)
{
    struct px_peer *first;
    rig->proxy_options.requests = limit(1, 10 * WR_SEC, 1);
    px_start(rig);
    struct px_peer *one = served(&first);
    struct px_peer *second =
        px_client(rig, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello");
    PX_UNTIL(rig, waiting() == 1);
    px_say(second, "world");
    px_settle(rig);
    px_forget(first);
    px_say(first, PX_OK);
    px_hear(one, "\r\n\r\nok");
    px_hear(first, "helloworld");
    px_say(first, PX_OK);
    px_hear(second, "\r\n\r\nok");
}

Test(proxy_admission, a_wait_longer_than_inactivity_is_no_fault_of_the_upstream)
{
    struct px_peer *first;
    rig->proxy_options.requests = limit(1, 3600 * WR_SEC, 1);
    rig->cluster_options.response_timeout = 3000 * WR_SEC;
    px_start(rig);
    served(&first);
    struct px_peer *second = px_client(rig, PX_GET);
    PX_UNTIL(rig, waiting() == 1);
    px_pass(rig, 61 * WR_SEC);
    px_hear(second, "503");
    cr_expect_eq(waiting(), 0);
    px_say(first, PX_OK);
}

/* ---- the cluster's gate ---- */

Test(proxy_admission, the_cluster_has_a_limit_of_its_own)
{
    struct px_peer *first;
    rig->cluster_options.requests = limit(1, 5 * WR_SEC, 1);
    px_start(rig);
    struct px_peer *one = served(&first);
    struct px_peer *second = px_client(rig, PX_GET);
    PX_UNTIL(rig, cluster_waiting() == 1);
    cr_expect_eq(in_flight(), 2, "who waits for the cluster holds a slot of the listener");
    expect_overloaded(px_client(rig, PX_GET), "retry-after: 5\r\n");
    cr_expect_eq(wr_metric_get(&rig->cluster_metrics->upstream_requests_refused[WR_SHED_QUEUE]), 1);
    cr_expect_eq(refused(WR_SHED_QUEUE), 0);
    px_forget(first);
    px_say(first, PX_OK);
    px_hear(one, "\r\n\r\nok");
    px_hear(first, "\r\n\r\n");
    px_say(first, PX_OK);
    px_hear(second, "\r\n\r\nok");
    PX_UNTIL(rig, in_flight() == 0 && cluster_in_flight() == 0);
}

Test(proxy_admission, who_waits_for_a_cluster_that_goes_is_told)
{
    struct px_peer *first;
    rig->cluster_options.requests = limit(1, 5 * WR_SEC, 1);
    px_start(rig);
    served(&first);
    struct px_peer *second = px_client(rig, PX_GET);
    PX_UNTIL(rig, cluster_waiting() == 1);
    wr_cluster_free(rig->cluster);
    px_hear(second, "503");
    cr_expect_eq(wr_metric_get(&rig->cluster_metrics->upstream_requests_limit), 0);
    px_settle(rig);
    cr_expect_eq(in_flight(), 0);
    rig->cluster = NULL;
}

Test(proxy_admission, local_answers_are_the_listeners_business_alone)
{
    struct px_peer *first;
    rig->cluster_options.requests = limit(1, 0, 0);
    rig->proxy_options.requests = limit(2, 0, 0);
    rig->routes[1] = rig->routes[0];
    rig->routes[0] = (struct wr_route){.name = "local",
                                       .host = WR_STR_EMPTY,
                                       .path = WR_STR("/local"),
                                       .action = WR_ROUTE_RESPOND,
                                       .respond = {.status = 200, .body = WR_STR("here")}};
    rig->proxy_options.routes.count = 2;
    px_start(rig);
    served(&first);
    px_hear(px_client(rig, "GET /local HTTP/1.1\r\nHost: a\r\n\r\n"), "here");
    cr_expect_eq(cluster_in_flight(), 1);
    PX_UNTIL(rig, in_flight() == 1);
    px_say(first, PX_OK);
}

/* One slot for the whole request: the connection it was sent on was closed, and it goes again. */
Test(proxy_admission, a_retry_keeps_its_slot)
{
    rig->cluster_options.requests = limit(1, 5 * WR_SEC, 5);
    px_start(rig);
    struct px_peer *client = px_client(rig, "");
    px_exchange(client, upstream, 0);
    px_forget(upstream->peers[0]);
    px_say(client, PX_GET);
    px_hear(upstream->peers[0], "\r\n\r\n");
    struct px_peer *second = px_client(rig, PX_GET);
    PX_UNTIL(rig, cluster_waiting() == 1);
    px_close(upstream->peers[0]);
    struct px_peer *again = px_accepted(upstream, 1);
    px_hear(again, "\r\n\r\n");
    cr_expect_eq(cluster_in_flight(), 1);
    cr_expect_eq(cluster_waiting(), 1);
    px_forget(again);
    px_forget(client);
    px_say(again, PX_OK);
    px_hear(client, "\r\n\r\nok");
    px_hear(again, "\r\n\r\n");
    px_say(again, PX_OK);
    px_hear(second, "\r\n\r\nok");
}

Test(proxy_admission, a_tunnel_gives_its_slots_back_when_it_begins)
{
    static const struct wr_str upgrades[] = {{"x-raw", 5}};
    rig->routes[0].upgrades = upgrades;
    rig->routes[0].upgrade_count = 1;
    rig->host.tunnel_timeout = 1000 * WR_SEC;
    rig->cluster_options.requests = limit(1, 0, 0);
    rig->proxy_options.requests = limit(1, 0, 0);
    px_start(rig);
    struct px_peer *client = px_client(
        rig, "GET /x HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x-raw\r\n\r\n");
    struct px_peer *peer = px_accepted(upstream, 0);
    px_hear(peer, "\r\n\r\n");
    cr_expect_eq(in_flight(), 1);
    cr_expect_eq(cluster_in_flight(), 1);
    px_say(peer,
           "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: X-Raw\r\n\r\n");
    px_hear(client, "101");
    cr_expect_eq(in_flight(), 0);
    cr_expect_eq(cluster_in_flight(), 0);
    struct px_peer *other;
    struct px_peer *plain = served(&other);
    px_say(other, PX_OK);
    px_hear(plain, "\r\n\r\nok");
    px_forget(peer);
    px_say(client, "still there");
    px_hear(peer, "still there");
    px_close(client);
    px_close(peer);
    px_settle(rig);
}

/* ---- priorities ---- */

Test(proxy_admission, the_priority_is_the_routes)
{
    struct px_peer *first;
    rig->proxy_options.requests = limit(1, 10 * WR_SEC, 1);
    rig->routes[1] = rig->routes[0];
    rig->routes[0].path = WR_STR("/junk");
    rig->routes[0].priority = WR_PRIORITY_SHEDDABLE;
    rig->routes[1].priority = WR_PRIORITY_NORMAL;
    rig->proxy_options.routes.count = 2;
    px_start(rig);
    struct px_peer *one = served(&first);
    struct px_peer *junk = px_client(rig, "GET /junk HTTP/1.1\r\nHost: a\r\n\r\n");
    PX_UNTIL(rig, waiting() == 1);
    struct px_peer *normal = px_client(rig, PX_GET);
    expect_overloaded(junk, "retry-after: 10\r\n");
    cr_expect_eq(refused(WR_SHED_PRIORITY), 1);
    cr_expect_eq(waiting(), 1);
    px_forget(first);
    px_say(first, PX_OK);
    px_hear(one, "\r\n\r\nok");
    px_hear(first, "\r\n\r\n");
    px_say(first, PX_OK);
    px_hear(normal, "\r\n\r\nok");
}

/* ---- the adaptive limit ---- */

/* WAIT microseconds from request to response, N times. */
static void exchanges(struct px_peer *client, struct px_peer *peer, unsigned n, uint64_t wait)
{
    for (unsigned i = 0; i < n; i++) {
        px_forget(client);
        px_forget(peer);
        px_say(client, PX_GET);
        px_hear(peer, "\r\n\r\n");
        wr_loop_advance(rig->loop, wait);
        px_say(peer, PX_OK);
        px_hear(client, "\r\n\r\nok");
    }
}

Test(proxy_admission, the_latency_of_responses_moves_an_adaptive_limit)
{
    rig->cluster_options.requests = limit(5, 0, 0);
    rig->cluster_options.requests.mode = WR_REQUESTS_ADAPTIVE;
    rig->cluster_options.requests.share[WR_PRIORITY_NORMAL] = 100;
    px_start(rig);
    struct px_peer *clients[3];
    struct px_peer *peers[3];
    cr_expect_eq(wr_metric_get(&rig->cluster_metrics->upstream_requests_limit), 5);
    for (unsigned i = 0; i < 3; i++)
        clients[i] = served(&peers[i]); /* half of the limit is in use */
    px_say(peers[0], PX_OK);
    px_hear(clients[0], "\r\n\r\nok");
    exchanges(clients[0], peers[0], 40, 10 * WR_MSEC);
    cr_expect_eq(wr_metric_get(&rig->cluster_metrics->upstream_requests_limit), 5);
    exchanges(clients[0], peers[0], 40, 200 * WR_MSEC);
    cr_expect_eq(wr_metric_get(&rig->cluster_metrics->upstream_requests_limit), 4);
    px_say(peers[1], PX_OK);
    px_say(peers[2], PX_OK);
    px_hear(clients[2], "\r\n\r\nok");
}
