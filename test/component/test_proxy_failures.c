/* What clients are told when upstreams cannot be reached, do not answer, or answer wrongly. */
#include "support/proxy_rig.h"

#include <string.h>

static struct proxy_rig *rig;
static struct px_upstream *upstream;
static struct px_peer *client;

static uint64_t failed(enum wr_err why)
{
    return wr_metric_get(&rig->cluster_metrics->upstream_failed[why]);
}

/* ---- connecting ---- */

Test(proxy_failures, no_endpoint)
{
    rig = px_new();
    px_start(rig);
    client = px_client(rig, PX_GET);
    px_hear(client, "503 Service Unavailable");
    cr_assert(px_heard(client, "proxy-status: weir; error=destination_unavailable; "
                               "details=\"no endpoint to send to\"\r\n"));
    cr_assert(px_heard(client, "retry-after: 1\r\n"));
    px_end(rig);
}

Test(proxy_failures, a_refused_connection)
{
    rig = px_new();
    px_nobody(rig);
    px_start(rig);
    client = px_client(rig, PX_GET);
    px_hear(client, "502 Bad Gateway");
    cr_assert(px_heard(client, "proxy-status: weir; error=connection_refused; "
                               "details=\"upstream refused the connection\"\r\n"));
    cr_assert_eq(failed(WR_ERR_CONNECT_REFUSED), 1);
    cr_assert_eq(
        wr_metric_get(&rig->cluster_metrics->upstream_connect_failed[WR_ERR_CONNECT_REFUSED]), 1);
    px_end(rig);
}

Test(proxy_failures, another_endpoint_is_tried_and_then_preferred)
{
    rig = px_new();
    px_nobody(rig);
    upstream = px_upstream(rig);
    px_start(rig);
    client = px_client(rig, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi");
    struct px_peer *peer = px_accepted(upstream, 0);
    px_hear(peer, "\r\n\r\nhi");
    cr_assert_eq(px_times_heard(peer, "via:"), 1);
    px_forget(peer);
    px_say(peer, PX_OK);
    px_hear(client, "200 OK");
    cr_assert_eq(wr_metric_get(&rig->cluster_metrics->upstream_retries), 1);
    px_settle(rig);
    /* For a second nobody asks the one that refused. */
    for (unsigned i = 0; i < 4; i++)
        px_exchange(client, upstream, 0);
    cr_assert_eq(failed(WR_ERR_CONNECT_REFUSED), 1);
    px_pass(rig, 2 * WR_SEC);
    px_exchange(client, upstream, 0);
    px_exchange(client, upstream, 0);
    cr_assert_eq(failed(WR_ERR_CONNECT_REFUSED), 2);
    px_end(rig);
}

Test(proxy_failures, all_endpoints_are_tried_once)
{
    rig = px_new();
    px_nobody(rig);
    px_nobody(rig);
    px_start(rig);
    client = px_client(rig, PX_GET);
    px_hear(client, "502 Bad Gateway");
    px_settle(rig);
    cr_assert_eq(failed(WR_ERR_CONNECT_REFUSED), 2);
    px_end(rig);
}

Test(proxy_failures, no_other_endpoint_is_tried_when_that_is_turned_off)
{
    rig = px_new();
    rig->cluster_options.retry_connect = false;
    px_nobody(rig);
    upstream = px_upstream(rig);
    px_start(rig);
    client = px_client(rig, PX_GET);
    px_hear(client, "502 Bad Gateway");
    cr_assert_eq(upstream->count, 0);
    px_end(rig);
}

Test(proxy_failures, a_connection_that_is_not_made_in_time)
{
    rig = px_new();
    upstream = px_upstream(rig);
    px_use_tls(rig, false);
    upstream->tls = false; /* accepts and says nothing */
    px_start(rig);
    client = px_client(rig, PX_GET);
    px_accepted(upstream, 0);
    px_pass(rig, 2 * WR_SEC - 10 * WR_MSEC);
    cr_assert_eq(client->n, 0);
    px_pass(rig, 20 * WR_MSEC);
    px_hear(client, "504 Gateway Timeout");
    cr_assert(px_heard(client, "proxy-status: weir; error=connection_timeout;"));
    PX_UNTIL(rig, upstream->peers[0]->ended || upstream->peers[0]->reset);
    px_end(rig);
}

/* ---- TLS ---- */

Test(proxy_failures, plain_bytes_before_tls_are_a_tls_failure)
{
    rig = px_new();
    upstream = px_upstream(rig);
    px_use_tls(rig, false);
    upstream->tls = false;
    px_start(rig);
    client = px_client(rig, PX_GET);
    px_say(px_accepted(upstream, 0), PX_OK);
    px_hear(client, "502 Bad Gateway");
    cr_assert(px_heard(client, "proxy-status: weir; error=tls_protocol_error;"));
    cr_assert_not(px_heard(client, "200 OK"));
    px_end(rig);
}

Test(proxy_failures, a_certificate_nobody_vouches_for)
{
    rig = px_new();
    px_upstream(rig);
    upstream = px_upstream(rig);
    px_use_tls(rig, true);
    px_start(rig);
    client = px_client(rig, PX_GET);
    px_hear(client, "502 Bad Gateway");
    cr_assert(px_heard(client, "proxy-status: weir; error=tls_certificate_error;"));
    px_settle(rig);
    cr_assert_eq(upstream->count, 0, "a wrong certificate is no reason to try another one");
    px_end(rig);
}

Test(proxy_failures, a_request_over_tls)
{
    rig = px_new();
    upstream = px_upstream(rig);
    px_use_tls(rig, false);
    px_start(rig);
    client = px_client(rig, "");
    for (unsigned i = 0; i < 3; i++)
        px_exchange(client, upstream, 0);
    cr_assert_eq(wr_metric_get(&rig->cluster_metrics->upstream_reused), 2);
    px_end(rig);
}

/* ---- responses ---- */

static void start(void)
{
    rig = px_new();
    upstream = px_upstream(rig);
    px_start(rig);
}

Test(proxy_failures, no_response_in_time)
{
    start();
    client = px_client(rig, PX_GET);
    struct px_peer *peer = px_accepted(upstream, 0);
    px_hear(peer, "\r\n\r\n");
    px_pass(rig, 60 * WR_SEC - 10 * WR_MSEC);
    cr_assert_eq(client->n, 0);
    px_pass(rig, 20 * WR_MSEC);
    px_hear(client, "504 Gateway Timeout");
    cr_assert(px_heard(client, "proxy-status: weir; error=http_response_timeout;"));
    PX_UNTIL(rig, peer->ended || peer->reset);
    px_settle(rig);
    /* The client's connection goes on, with another one to the upstream. */
    px_exchange(client, upstream, 1);
    px_end(rig);
}

Test(proxy_failures, a_late_response_is_nobodys)
{
    start();
    client = px_client(rig, PX_GET);
    struct px_peer *peer = px_accepted(upstream, 0);
    px_hear(peer, "\r\n\r\n");
    wr_loop_advance(rig->loop, 61 * WR_SEC);
    send(peer->fd, PX_OK, strlen(PX_OK), MSG_NOSIGNAL);
    px_hear(client, "504 Gateway Timeout");
    px_settle(rig);
    cr_assert_eq(px_times_heard(client, "HTTP/1.1"), 1);
    px_end(rig);
}

Test(proxy_failures, response_content_that_stalls_is_cut_off)
{
    start();
    client = px_client(rig, PX_GET);
    struct px_peer *peer = px_accepted(upstream, 0);
    px_hear(peer, "\r\n\r\n");
    px_say(peer, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
    px_hear(client, "half");
    px_pass(rig, 61 * WR_SEC);
    PX_UNTIL(rig, client->ended || client->reset);
    PX_UNTIL(rig, peer->ended || peer->reset);
    cr_assert_eq(px_times_heard(client, "HTTP/1.1"), 1);
    px_end(rig);
}

Test(proxy_failures, request_content_that_stalls_is_told)
{
    start();
    client = px_client(rig, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf");
    struct px_peer *peer = px_accepted(upstream, 0);
    px_hear(peer, "half");
    px_pass(rig, 61 * WR_SEC);
    px_hear(client, "408 Request Timeout");
    PX_UNTIL(rig, client->ended);
    PX_UNTIL(rig, peer->ended || peer->reset);
    px_end(rig);
}

static void wrong_response(const char *response, const char *error)
{
    start();
    client = px_client(rig, PX_GET);
    struct px_peer *peer = px_accepted(upstream, 0);
    px_hear(peer, "\r\n\r\n");
    px_say(peer, response);
    px_hear(client, "502 Bad Gateway");
    cr_expect(px_heard(client, error), "%s", client->text);
    PX_UNTIL(rig, peer->ended || peer->reset);
    px_settle(rig);
    px_exchange(client, upstream, 1);
    px_end(rig);
}

Test(proxy_failures, a_response_with_two_lengths)
{
    wrong_response("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok",
                   "error=http_protocol_error");
}

Test(proxy_failures, an_upgrade_nobody_asked_for)
{
    wrong_response("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
                   "error=http_upgrade_failed");
}

Test(proxy_failures, a_response_that_nominates_more_fields_than_anyone_has)
{
    char response[1024] = "HTTP/1.1 200 OK\r\nConnection: a";
    for (unsigned i = 0; i < 100; i++)
        strncat(response, ",a", sizeof(response) - strlen(response) - 1);
    strncat(response, "\r\nContent-Length: 0\r\n\r\n", sizeof(response) - strlen(response) - 1);
    wrong_response(response, "error=http_protocol_error");
}

Test(proxy_failures, an_error_in_the_form_the_client_asks_for)
{
    rig = px_new();
    px_nobody(rig);
    px_start(rig);
    client = px_client(rig, "GET / HTTP/1.1\r\nHost: a\r\nAccept: application/json\r\n\r\n");
    px_hear(client, "{\"status\":502,\"error\":\"connect_refused\","
                    "\"detail\":\"upstream refused the connection\"}");
    px_forget(client);
    px_say(client, "POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/grpc\r\n"
                   "Content-Length: 0\r\n\r\n");
    px_hear(client, "grpc-status: 14\r\n");
    cr_assert(px_heard(client, "200 OK"));
    px_end(rig);
}

/* ---- clients that go ---- */

Test(proxy_failures, a_client_that_goes_takes_its_upstream_request_along)
{
    start();
    client = px_client(rig, PX_GET);
    struct px_peer *peer = px_accepted(upstream, 0);
    px_hear(peer, "\r\n\r\n");
    px_say(peer, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
    px_hear(client, "half");
    px_close(client);
    /* It may have closed its half only, until bytes for it meet a reset. */
    px_say(peer, "m");
    px_settle(rig);
    px_say(peer, "ore");
    PX_UNTIL(rig, peer->ended || peer->reset);
    px_end(rig);
}

Test(proxy_failures, a_client_that_goes_in_the_middle_of_its_request)
{
    start();
    client = px_client(rig, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf");
    struct px_peer *peer = px_accepted(upstream, 0);
    px_hear(peer, "half");
    px_close(client);
    PX_UNTIL(rig, peer->ended || peer->reset);
    px_end(rig);
}

Test(proxy_failures, a_client_that_goes_while_a_connection_is_being_made)
{
    rig = px_new();
    upstream = px_upstream(rig);
    px_use_tls(rig, false);
    upstream->tls = false;
    px_start(rig);
    client = px_client(rig, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf");
    px_accepted(upstream, 0);
    px_close(client);
    px_settle(rig);
    cr_assert_eq(wr_metric_get(&rig->cluster_metrics->upstream_pending), 0);
    px_pass(rig, 3 * WR_SEC);
    px_end(rig);
}

Test(proxy_failures, a_cluster_that_is_freed_fails_what_is_in_flight_and_what_waits)
{
    rig = px_new();
    rig->cluster_options.max_connections = 1;
    upstream = px_upstream(rig);
    px_start(rig);
    client = px_client(rig, PX_GET);
    px_hear(px_accepted(upstream, 0), "\r\n\r\n");
    struct px_peer *waiting = px_client(rig, PX_GET);
    PX_UNTIL(rig, wr_metric_get(&rig->cluster_metrics->upstream_pending) == 1);
    wr_cluster_free(rig->cluster);
    px_hear(client, "503 Service Unavailable");
    px_hear(waiting, "503 Service Unavailable");
    rig->cluster = NULL;
    px_end(rig);
}
