/* Connections that hibernate behave as those that never do: at every point of their life, a thousand times. */
#include <criterion/criterion.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/compiler.h"
#include "support/downstream_world.h"
#include "transport/transport_internal.h"

#define REQUEST "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
#define POST "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello"
#define SOON (20 * WR_MSEC)

static struct world *world;
static struct wr_listener_metrics *metrics;
static struct client *client;

static void setup(void)
{
    world = world_new(true);
    metrics = world->env.metrics;
}

static void teardown(void)
{
    world_end(world);
}

TestSuite(hibernation, .init = setup, .fini = teardown);

static void come(void)
{
    world_start(world);
    client = world_connect(world);
    world_until(world, &client->established);
    world_settle(world);
}

static void ask(const char *text)
{
    client_say(client, text);
    world_settle(world);
}

static void forget(void)
{
    memset(client->text, 0, client->length);
    client->length = 0;
}

static bool heard(const char *text)
{
    return strstr(client->text, text) != NULL;
}

static uint64_t value(const _Atomic uint64_t *metric)
{
    return wr_metric_get(metric);
}

static bool hibernates(void)
{
    return value(&metrics->connections_hibernated) == 1;
}

/* ---- when ---- */

Test(hibernation, after_its_time_it_holds_a_transport_and_itself)
{
    come();
    ask(REQUEST);
    size_t awake = wr_downstream_bytes(world->downstream);
    world_pass(world, 14 * WR_SEC);
    cr_assert_not(hibernates());
    world_pass(world, 2 * WR_SEC);
    cr_assert(hibernates());
    cr_assert_eq(value(&metrics->connections_idle), 1, "it is idle still");
    cr_assert_leq(wr_downstream_bytes(world->downstream), awake);
    cr_assert_eq(wr_transport_host_chunks(world->transports)->used_count, 0);
    forget();
    ask(REQUEST);
    cr_assert(heard("200 OK"));
    cr_assert_not(hibernates());
    cr_assert_eq(value(&metrics->hibernations), 1);
    cr_assert_eq(value(&metrics->wakes), 1);
}

Test(hibernation, before_the_first_request_too)
{
    come();
    world_pass(world, 16 * WR_SEC);
    cr_assert(hibernates());
    ask(POST);
    cr_assert(heard("200 OK"));
}

Test(hibernation, it_can_be_turned_off)
{
    world->options.timeouts.hibernate_after = WR_NEVER;
    come();
    world_pass(world, 50 * WR_SEC);
    cr_assert_eq(value(&metrics->hibernations), 0);
}

Test(hibernation, a_thousand_times)
{
    world->options.timeouts.hibernate_after = WR_MSEC;
    come();
    for (unsigned i = 0; i < 1000; i++) {
        wr_loop_advance(world->loop, 5 * WR_MSEC);
        wr_loop_turn(world->loop, 0);
        cr_assert(hibernates(), "round %u", i);
        forget();
        client_say(client, i % 3 == 0 ? REQUEST REQUEST : i % 3 == 1 ? POST : "\r\n" REQUEST);
        uint64_t wanted = value(&metrics->requests[2]) + (i % 3 == 0 ? 2 : 1);
        for (unsigned turn = 0; turn < 10000 && value(&metrics->requests[2]) < wanted; turn++)
            wr_loop_turn(world->loop, WR_MSEC);
        cr_assert_eq(value(&metrics->requests[2]), wanted);
        while (!heard("fine"))
            wr_loop_turn(world->loop, WR_MSEC);
    }
    cr_assert_eq(value(&metrics->hibernations), 1000);
    cr_assert_eq(value(&metrics->wakes), 1000);
}

/* ---- what it does not change ---- */

Test(hibernation, keep_alive_runs_on)
{
    come();
    ask(REQUEST);
    world_pass(world, 16 * WR_SEC);
    cr_assert(hibernates());
    world_pass(world, 43 * WR_SEC);
    cr_assert_not(client->ended);
    world_pass(world, 2 * WR_SEC);
    cr_assert(client->ended && client->clean);
    cr_assert_not(hibernates());
    client_close(client);
    world_settle(world);
    cr_assert_eq(world_ended(world, WR_ERR_KEEP_ALIVE_TIMEOUT), 1);
}

Test(hibernation, requests_are_counted_over_it)
{
    world->options.codec.max_requests = 3;
    come();
    for (unsigned i = 0; i < 3; i++) {
        cr_assert_not(heard("close"));
        world_pass(world, 16 * WR_SEC);
        cr_assert(hibernates());
        ask(REQUEST);
    }
    cr_assert(heard("onnection: close"));
    cr_assert(client->ended && client->clean);
}

Test(hibernation, the_greatest_age_ends_it)
{
    world->options.timeouts.max_connection_age = 30 * WR_SEC;
    come();
    world_pass(world, 16 * WR_SEC);
    cr_assert(hibernates());
    world_pass(world, 15 * WR_SEC);
    cr_assert(client->ended && client->clean);
    cr_assert_not(hibernates());
}

Test(hibernation, a_drain_ends_it)
{
    come();
    world_pass(world, 16 * WR_SEC);
    cr_assert(hibernates());
    wr_downstream_drain(world->downstream);
    world_settle(world);
    cr_assert(client->ended && client->clean);
    cr_assert_not(hibernates());
}

Test(hibernation, the_downstream_may_end)
{
    come();
    world_pass(world, 16 * WR_SEC);
    cr_assert(hibernates()); /* teardown looks at the account */
}

/* ---- what may come ---- */

Test(hibernation, the_peers_end)
{
    come();
    world_pass(world, 16 * WR_SEC);
    wr_transport_end(client->transport);
    world_settle(world);
    cr_assert(client->ended && client->clean);
    cr_assert_eq(value(&metrics->connections_closed), 1);
    cr_assert_eq(world_ended(world, WR_OK), 1);
}

Test(hibernation, the_peers_reset)
{
    come();
    world_pass(world, 16 * WR_SEC);
    wr_transport_reset(client->transport);
    client->transport = NULL;
    world_settle(world);
    cr_assert_eq(world_ended(world, WR_ERR_CLIENT_RESET), 1);
}

Test(hibernation, half_a_head_wakes_it_and_has_its_own_time)
{
    come();
    world_pass(world, 16 * WR_SEC);
    ask("GET / HT");
    cr_assert_not(hibernates());
    cr_assert_eq(value(&metrics->connections_active), 1);
    world_pass(world, 9 * WR_SEC);
    cr_assert_eq(client->length, 0);
    world_pass(world, 2 * WR_SEC);
    cr_assert(heard("HTTP/1.1 408 "));
    cr_assert_eq(value(&metrics->hibernations), 1);
}

/* The end of a line before a request belongs to nothing, but it is not unsaid. */
Test(hibernation, what_a_new_codec_would_not_know_keeps_it_awake)
{
    come();
    ask("\r");
    world_pass(world, 31 * WR_SEC);
    cr_assert_eq(value(&metrics->hibernations), 0);
    ask("\n" REQUEST);
    cr_assert(heard("200 OK"));
    world_pass(world, 16 * WR_SEC);
    cr_assert(hibernates());
}

Test(hibernation, new_keys_from_the_peer)
{
    come();
    for (unsigned i = 0; i < 5; i++) {
        world_pass(world, 16 * WR_SEC);
        cr_assert(hibernates());
        forget();
        cr_assert(SSL_key_update(client->transport->ssl, SSL_KEY_UPDATE_REQUESTED));
        ask(REQUEST);
        cr_assert(heard("200 OK"));
    }
}

/* Part of a record is unread. */
Test(hibernation, half_a_record_keeps_it_awake)
{
    world->options.timeouts.keep_alive = WR_NEVER;
    come();
    static const uint8_t begin[] = {23, 3, 3, 0, 40, 1, 2, 3};
    cr_assert_eq(send(wr_transport_fd(client->transport), begin, sizeof(begin), MSG_NOSIGNAL),
                 (ssize_t)sizeof(begin));
    world_settle(world);
    world_pass(world, 100 * WR_SEC);
    cr_assert_eq(value(&metrics->hibernations), 0);
}

/* ---- by chance ---- */

static uint64_t chance;

static unsigned below(unsigned n)
{
    chance = chance * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (unsigned)(chance >> 33) % n;
}

static void without_dates(char *text)
{
    char *at;
    while ((at = strstr(text, "ate: ")) != NULL) {
        char *end = strstr(at, "\r\n");
        cr_assert_not_null(end);
        memmove(at, end, strlen(end) + 1);
    }
}

/* The same bytes, cut in the same way, at the same times. Returns how often it hibernated. */
static uint64_t run(uint64_t seed, uint64_t hibernate_after, char out[4096])
{
    static const char *const texts[] = {
        REQUEST,
        POST,
        REQUEST REQUEST POST,
        "\r\n\r\n" REQUEST,
        "HEAD / HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: "
        "chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    };
    chance = seed;
    bool tls = below(2) == 0;
    world = world_new(tls);
    metrics = world->env.metrics;
    world->options.plain_http2 = below(2) == 0;
    world->options.timeouts.hibernate_after = hibernate_after;
    world->options.codec.max_requests = 10 + below(30);
    world_start(world);
    client = tls ? world_connect(world) : world_connect_bare(world);
    if (tls)
        world_until(world, &client->established);
    world_settle(world);
    for (unsigned i = 0; i < 10 && !client->ended && !client->broken; i++) {
        const char *text =
            below(40) == 0 ? "GET nonsense\r\n\r\n" : texts[below(WR_COUNT_OF(texts))];
        size_t n = strlen(text);
        for (size_t at = 0; at < n && !client->ended && !client->broken;) {
            char piece[256];
            /* An answer before the content has come would end the connection. */
            bool whole = strstr(text, "POST") != NULL || below(3) > 0;
            size_t length = whole ? n - at : 1 + below(10);
            (void)snprintf(piece, sizeof(piece), "%.*s", (int)length, text + at);
            at += strlen(piece);
            client_say(client, piece);
            world_settle(world);
            if (client->fd >= 0)
                client_look(client);
            if (below(2) == 0)
                world_pass(world, SOON);
        }
        world_pass(world, below(2) * SOON);
        if (client->fd >= 0)
            client_look(client);
    }
    (void)snprintf(out, 4096, "%s", client->text);
    without_dates(out);
    uint64_t hibernated = value(&metrics->hibernations);
    cr_assert_eq(hibernated, value(&metrics->wakes) + value(&metrics->connections_hibernated));
    world_end(world);
    return hibernated;
}

Test(hibernation_by_chance, same_bytes_same_answers)
{
    static char with[4096];
    static char without[4096];
    uint64_t hibernated = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        cr_assert_eq(run(seed, WR_NEVER, without), 0);
        hibernated += run(seed, WR_MSEC, with);
        cr_assert_str_eq(with, without, "seed %llu", (unsigned long long)seed);
        cr_assert_gt(strlen(with), 0);
    }
    cr_assert_gt(hibernated, 40);
}
