/* Tunnels from HTTP/1.1 to HTTP/1.1 through proxy, pool and codecs: how they begin, how they do not, and every way they end
 * (behaviour row 26). */
#include "support/proxy_rig.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "codec/h1_websocket.h"

/* RFC 6455 section 1.3 */
#define KEY "dGhlIHNhbXBsZSBub25jZQ=="
#define ACCEPT "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
#define ASK                                                                                      \
    "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n" \
    "Sec-WebSocket-Key: " KEY "\r\nSec-WebSocket-Version: 13\r\n\r\n"
#define ASK_OTHER "GET /x HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x-raw\r\n\r\n"
#define SWITCH_OTHER \
    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: X-Raw\r\n\r\n"
#define CONNECT "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n"

static struct proxy_rig *rig;
static struct px_upstream *upstream;
static struct px_peer *client;
static struct px_peer *peer;

static void setup(void)
{
    static const struct wr_str upgrades[] = {{"websocket", 9}, {"x-raw", 5}};
    rig = px_new();
    rig->routes[0].upgrades = upgrades;
    rig->routes[0].upgrade_count = WR_COUNT_OF(upgrades);
    rig->routes[0].connect = true;
    rig->host.tunnel_timeout = 1000 * WR_SEC;
    upstream = px_upstream(rig);
}

static void teardown(void)
{
    px_end(rig);
}

TestSuite(proxy_tunnels, .init = setup, .fini = teardown, .timeout = 60);

/* CLIENT says TEXT, and PEER has heard the head of a request. */
static void ask(const char *text)
{
    if (rig->cluster == NULL)
        px_start(rig);
    if (client == NULL)
        client = px_client(rig, "");
    px_forget(client);
    size_t before = upstream->count;
    px_say(client, text);
    peer = px_accepted(upstream, before);
    px_hear(peer, "\r\n\r\n");
}

/* What the upstream says to the key it was sent. */
static void accept_websocket(const char *also)
{
    struct wr_arena arena;
    char text[512];
    const char *at = strstr(peer->text, "sec-websocket-key: ");
    cr_assert_not_null(at, "%s", peer->text);
    wr_arena_init(&arena);
    struct wr_str accept = wr_h1_websocket_accept(wr_str(at + 19, 24), &arena);
    snprintf(text, sizeof(text),
             "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
             "Sec-WebSocket-Accept: %.*s\r\nSec-WebSocket-Protocol: chat\r\n\r\n%s",
             WR_STR_ARG(accept), also);
    px_say(peer, text);
    wr_arena_free(&arena);
}

/* A tunnel for x-raw. */
static void open_tunnel(void)
{
    ask(ASK_OTHER);
    px_say(peer, SWITCH_OTHER);
    px_hear(client, "\r\n\r\n");
    cr_assert(px_heard(client, "HTTP/1.1 101 Switching Protocols\r\n"));
    px_forget(client);
    px_forget(peer);
}

static bool is_over(void)
{
    return client->codec == NULL && wr_metric_get(&rig->cluster_metrics->upstream_active) == 0 &&
           wr_metric_get(&rig->host.worker_metrics->exchanges_active) == 0;
}

/* ---- how it begins ---- */

Test(proxy_tunnels, each_hop_has_a_handshake_of_its_own)
{
    ask(ASK);
    cr_assert(px_heard(peer, "GET /chat HTTP/1.1\r\n"));
    cr_assert_eq(px_times_heard(peer, "\r\nconnection: upgrade\r\n"), 1);
    cr_assert_eq(px_times_heard(peer, "\r\nupgrade: websocket\r\n"), 1);
    cr_assert_eq(px_times_heard(peer, "sec-websocket-key: "), 1);
    cr_assert(px_heard(peer, "sec-websocket-version: 13\r\n"));
    cr_assert_not(px_heard(peer, KEY), "a key of our own");
    cr_assert_not(px_heard(peer, "content-length") || px_heard(peer, "transfer-encoding"));
    accept_websocket("");
    px_hear(client, "\r\n\r\n");
    cr_assert(px_heard(client, "HTTP/1.1 101 Switching Protocols\r\n"));
    cr_assert_eq(px_times_heard(client, "\r\nconnection: upgrade\r\n"), 1);
    cr_assert_eq(px_times_heard(client, "\r\nupgrade: websocket\r\n"), 1);
    cr_assert_eq(px_times_heard(client, "sec-websocket-accept: "), 1);
    cr_assert(px_heard(client, "sec-websocket-accept: " ACCEPT "\r\n"));
    cr_assert(px_heard(client, "sec-websocket-protocol: chat\r\n"));
    cr_assert_not(px_heard(client, "content-length") || px_heard(client, "transfer-encoding"));
    px_forget(peer);
    px_forget(client);
    px_say(client, "GET / HTTP/1.1\r\n\r\n");
    px_say(peer, "HTTP/1.1 200 OK\r\n\r\n");
    px_hear(peer, "GET / HTTP/1.1\r\n\r\n");
    px_hear(client, "HTTP/1.1 200 OK\r\n\r\n");
    cr_assert_eq(peer->n, 18);
    cr_assert_eq(client->n, 19);
}

Test(proxy_tunnels, nothing_goes_up_before_the_switch)
{
    ask(ASK "early");
    px_settle(rig);
    cr_assert_not(px_heard(peer, "early"));
    px_say(client, " bird");
    px_settle(rig);
    cr_assert_not(px_heard(peer, "early"));
    accept_websocket("");
    px_hear(peer, "\r\n\r\nearly bird");
}

Test(proxy_tunnels, what_comes_with_the_switch_is_the_tunnels)
{
    ask(ASK);
    accept_websocket("welcome");
    px_hear(client, "\r\n\r\nwelcome");
}

Test(proxy_tunnels, a_client_that_has_ended_already)
{
    ask(ASK_OTHER);
    px_finish(client);
    px_settle(rig);
    cr_assert_not(peer->ended);
    px_say(peer, SWITCH_OTHER "late");
    px_hear(client, "\r\n\r\nlate");
    PX_UNTIL(rig, peer->ended);
    px_finish(peer);
    PX_UNTIL(rig, is_over());
}

Test(proxy_tunnels, interim_heads_come_before)
{
    ask(ASK);
    px_say(peer, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n");
    px_hear(client, "103 Early Hints");
    accept_websocket("x");
    px_hear(client, "\r\n\r\nx");
}

Test(proxy_tunnels, an_idle_connection_that_was_closed_is_no_obstacle)
{
    px_start(rig);
    client = px_client(rig, "");
    px_exchange(client, upstream, 0);
    px_close(upstream->peers[0]);
    ask(ASK_OTHER);
    px_say(peer, SWITCH_OTHER "x");
    px_hear(client, "\r\n\r\nx");
}

Test(proxy_tunnels, connect)
{
    ask(CONNECT "early");
    cr_assert(px_heard(peer, "CONNECT a:443 HTTP/1.1\r\nhost: a:443\r\n"));
    cr_assert(px_heard(peer, "via: 1.1 weir\r\n"));
    cr_assert_not(px_heard(peer, "early"));
    px_say(peer, "HTTP/1.1 200 Sure\r\nContent-Length: 5\r\n\r\nhello");
    px_hear(client, "\r\n\r\nhello");
    cr_assert(px_heard(client, "HTTP/1.1 200 OK\r\n"));
    cr_assert_not(px_heard(client, "content-length") || px_heard(client, "connection:"));
    px_hear(peer, "\r\n\r\nearly");
    px_say(peer, " again");
    px_hear(client, "hello again");
}

/* ---- how it does not ---- */

/* The client gets STATUS; its connection goes on, that to the upstream does not. */
static void declined(const char *request, const char *answer, const char *status)
{
    ask(request);
    px_say(peer, answer);
    px_hear(client, status);
    cr_assert_not(px_heard(client, "\r\nupgrade:"));
    PX_UNTIL(rig, peer->ended || peer->reset);
    if (!px_heard(client, "connection: close"))
        px_exchange(client, upstream, upstream->count);
    px_end(rig);
    client = NULL;
    setup();
}

Test(proxy_tunnels, other_answers_are_plain)
{
    declined(ASK, PX_OK, "\r\n\r\nok");
    declined(ASK,
             "HTTP/1.1 200 OK\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
             "Content-Length: 2\r\n\r\nok",
             "\r\n\r\nok");
    declined(ASK, "HTTP/1.1 403 No\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nno\r\n0\r\n\r\n",
             "0\r\n\r\n");
    declined(ASK, "HTTP/1.1 204 No\r\n\r\n", "204 No Content");
    declined(CONNECT, "HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno", "403 Forbidden");
    cr_assert_eq(rig->client_count, 0);
}

Test(proxy_tunnels, a_switch_that_is_not_what_was_asked_for)
{
    static const char *const answers[] = {
        "HTTP/1.1 101 S\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\nx",
        "HTTP/1.1 101 S\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Accept: " ACCEPT "\r\n\r\nx",
        "HTTP/1.1 101 S\r\nConnection: upgrade\r\nUpgrade: x-raw\r\n\r\nx",
        "HTTP/1.1 101 S\r\nConnection: upgrade\r\nUpgrade: websocket, x-raw\r\n\r\nx",
        "HTTP/1.1 101 S\r\nUpgrade: websocket\r\n\r\nx",
        "HTTP/1.1 101 S\r\nConnection: upgrade\r\n\r\nx",
        "HTTP/1.1 101 S\r\n\r\nx",
        "HTTP/1.0 101 S\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\nx",
    };
    for (size_t i = 0; i < WR_COUNT_OF(answers); i++)
        declined(ASK, answers[i], "502 Bad Gateway");
}

Test(proxy_tunnels, what_the_route_does_not_allow_is_plain)
{
    rig->routes[0].upgrade_count = 0;
    ask(ASK);
    cr_assert_not(px_heard(peer, "upgrade"));
    px_say(peer, PX_OK);
    px_hear(client, "\r\n\r\nok");
    px_settle(rig);
    cr_assert_eq(wr_metric_get(&rig->cluster_metrics->upstream_idle), 1);
    px_forget(peer);
    px_say(client, ASK);
    px_hear(peer, "\r\n\r\n");
    px_say(peer, "HTTP/1.1 101 S\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n");
    px_hear(client, "502 Bad Gateway");
}

Test(proxy_tunnels, connect_that_the_route_does_not_allow)
{
    rig->routes[0].connect = false;
    px_start(rig);
    client = px_client(rig, CONNECT PX_GET);
    px_hear(client, "405 Method Not Allowed");
    PX_UNTIL(rig, client->ended);
    cr_assert(px_heard(client, "connection: close"));
    cr_assert_eq(px_times_heard(client, "HTTP/1.1 "), 1, "what follows is not parsed");
    cr_assert_eq(upstream->count, 0);
}

Test(proxy_tunnels, upgrades_that_are_not_quite_one_are_plain)
{
    static const char *const requests[] = {
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Key: c2hvcnQ=\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Key: " KEY "\r\nSec-WebSocket-Key: " KEY "\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x-raw, websocket\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x-raw\r\nUpgrade: "
        "x-raw\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: TLS/1.2\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: x-raw\r\n\r\n",
        "GET / HTTP/1.0\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x-raw\r\n\r\n",
        "DELETE / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x-raw\r\n\r\n",
    };
    for (size_t i = 0; i < WR_COUNT_OF(requests); i++) {
        ask(requests[i]);
        cr_assert_not(px_heard(peer, "upgrade:"), "%s", requests[i]);
        px_say(peer, PX_OK);
        px_hear(client, "\r\n\r\nok");
        px_end(rig);
        client = NULL;
        setup();
    }
}

Test(proxy_tunnels, an_upstream_that_does_not_answer)
{
    rig->cluster_options.response_timeout = 5 * WR_SEC;
    ask(ASK);
    px_pass(rig, 4 * WR_SEC);
    cr_assert_eq(client->n, 0);
    px_pass(rig, 2 * WR_SEC);
    px_hear(client, "504 Gateway Timeout");
}

/* ---- how it ends ---- */

Test(proxy_tunnels, the_client_says_its_end_first)
{
    open_tunnel();
    px_say(client, "last words");
    px_finish(client);
    PX_UNTIL(rig, peer->ended);
    cr_assert_str_eq(peer->text, "last words");
    px_say(peer, "more");
    px_hear(client, "more");
    cr_assert_not(client->ended);
    px_say(peer, " and more");
    px_finish(peer);
    PX_UNTIL(rig, client->ended);
    cr_assert_str_eq(client->text, "more and more");
    PX_UNTIL(rig, is_over());
}

Test(proxy_tunnels, the_upstream_says_its_end_first)
{
    open_tunnel();
    px_say(peer, "last words");
    px_finish(peer);
    PX_UNTIL(rig, client->ended);
    cr_assert_str_eq(client->text, "last words");
    px_say(client, "more");
    px_hear(peer, "more");
    cr_assert_not(peer->ended);
    px_say(client, " and more");
    px_finish(client);
    PX_UNTIL(rig, peer->ended);
    cr_assert_str_eq(peer->text, "more and more");
    PX_UNTIL(rig, is_over());
}

Test(proxy_tunnels, the_last_bytes_reach_an_upstream_that_is_slow)
{
    static char bulk[WR_CHUNK_SIZE];
    int small = 4096;
    cr_assert_eq(setsockopt(upstream->fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)), 0);
    open_tunnel();
    peer->stalled = true;
    px_finish(peer);
    PX_UNTIL(rig, client->ended);
    size_t sent = 0;
    do { /* until some of it waits in here */
        px_say_bytes(client, bulk, sizeof(bulk));
        sent += sizeof(bulk);
        px_settle(rig);
    } while (wr_transport_host_chunks(rig->transports)->used_count < 3);
    px_finish(client);
    PX_UNTIL(rig, is_over());
    cr_assert_geq(wr_transport_host_chunks(rig->transports)->used_count, 2);
    px_pass(rig, 3 * WR_SEC);
    peer->stalled = false;
    PX_UNTIL(rig, peer->ended || peer->reset);
    cr_assert(peer->ended);
    cr_assert_eq(peer->n, sent);
    PX_UNTIL(rig, is_over());
}

Test(proxy_tunnels, a_reset_goes_through_to_the_upstream)
{
    open_tunnel();
    px_say(client, "part");
    px_hear(peer, "part");
    px_reset(client);
    PX_UNTIL(rig, peer->reset || peer->ended);
    cr_assert(peer->reset, "it must not look like an end");
    PX_UNTIL(rig, is_over());
}

Test(proxy_tunnels, a_reset_goes_through_to_the_client)
{
    open_tunnel();
    px_say(peer, "part");
    px_hear(client, "part");
    px_reset(peer);
    PX_UNTIL(rig, client->reset || client->ended);
    cr_assert(client->reset);
    PX_UNTIL(rig, is_over());
}

Test(proxy_tunnels, a_reset_when_one_end_is_said_already)
{
    open_tunnel();
    px_finish(peer);
    PX_UNTIL(rig, client->ended);
    px_reset(client);
    PX_UNTIL(rig, is_over());
    px_say(peer, "x"); /* a FIN of ours has never been there */
    PX_UNTIL(rig, peer->reset || peer->ended);
    cr_assert(peer->reset);
}

Test(proxy_tunnels, silence_ends_it)
{
    rig->host.tunnel_timeout = 100 * WR_SEC;
    rig->host.inactivity_timeout = 5 * WR_SEC;
    open_tunnel();
    for (unsigned i = 0; i < 5; i++) {
        px_pass(rig, 90 * WR_SEC);
        px_say(i % 2 == 0 ? client : peer, "x");
        px_settle(rig);
    }
    cr_assert_not(client->reset || client->ended);
    px_pass(rig, 101 * WR_SEC);
    PX_UNTIL(rig, client->reset);
    PX_UNTIL(rig, peer->reset);
    PX_UNTIL(rig, is_over());
    cr_assert_eq(wr_metric_get(&rig->host.metrics->requests_failed[WR_ERR_TUNNEL_TIMEOUT]), 1);
}

Test(proxy_tunnels, silence_ends_it_when_one_end_is_said_already)
{
    rig->host.tunnel_timeout = 100 * WR_SEC;
    open_tunnel();
    px_finish(peer);
    PX_UNTIL(rig, client->ended);
    px_pass(rig, 101 * WR_SEC);
    PX_UNTIL(rig, is_over());
    px_end(rig);
    client = NULL;
    setup();
    rig->host.tunnel_timeout = 100 * WR_SEC;
    open_tunnel();
    px_finish(client);
    PX_UNTIL(rig, peer->ended);
    px_pass(rig, 101 * WR_SEC);
    PX_UNTIL(rig, is_over());
    cr_assert_eq(wr_metric_get(&rig->host.metrics->requests_failed[WR_ERR_TUNNEL_TIMEOUT]), 1);
}

Test(proxy_tunnels, the_cluster_goes)
{
    open_tunnel();
    wr_cluster_free(rig->cluster);
    rig->cluster = NULL;
    PX_UNTIL(rig, client->reset);
    PX_UNTIL(rig, peer->reset);
    cr_assert_eq(client->codec, NULL);
}

/* ---- what it holds ---- */

Test(proxy_tunnels, a_side_that_does_not_read_holds_up_the_other)
{
    static char bulk[WR_CHUNK_SIZE];
    open_tunnel();
    for (unsigned way = 0; way < 2; way++) {
        struct px_peer *from = way == 0 ? client : peer;
        struct px_peer *to = way == 0 ? peer : client;
        size_t before = to->n;
        size_t sent = 0;
        to->stalled = true;
        for (unsigned i = 0; i < 100; i++) { /* until our own socket takes no more */
            ssize_t n = send(from->fd, bulk, sizeof(bulk), MSG_NOSIGNAL);
            sent += n > 0 ? (size_t)n : 0;
            px_turn(rig);
        }
        size_t held = wr_transport_host_chunks(rig->transports)->used_count * WR_CHUNK_SIZE;
        cr_assert_leq(held, 600000, "%zu", held);
        to->stalled = false;
        PX_UNTIL(rig, to->n - before == sent);
    }
}
