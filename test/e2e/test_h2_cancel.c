/* Cancelled streams cost the upstream nothing more: it counts what reaches it. Each request that a client gives up becomes one
 * RST_STREAM(CANCEL), and nothing of its content comes after that; the last one on a connection that is not kept too. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/edge.h"
#include "support/h2_upstream.h"

#define CANCEL 8
#define CLIENTS 24

static const struct h2_origin_rules holding = {.whole = h2_origin_hold};
static const struct h2_origin_rules answering = {NULL};

/* The head and some content, and no end. */
static void begin(struct h2_visit *visit, struct h2_asked *asked)
{
    h2_put_headers(&visit->out, asked->id, 0, ":status: 200\n");
    h2_put_data(&visit->out, asked->id, 0, "some");
}

/* Every other one. */
static void begin_some(struct h2_visit *visit, struct h2_asked *asked)
{
    if (asked->id / 2 % 2 == 0)
        begin(visit, asked);
}

static const struct h2_origin_rules beginning = {.whole = begin_some};

/* ---- what the upstream has counted ---- */

/* Waits until connection NUMBER has had RST_STREAM(CANCEL) of ID. */
static void expect_cancelled(struct h2_origin *origin, unsigned number, uint32_t id)
{
    char reset[48];

    (void)snprintf(reset, sizeof(reset), "RST/%u[%d] ", id, CANCEL);
    cr_expect(h2_origin_hears(origin, number, reset), "%u on %u: not cancelled", id, number);
}

static unsigned count(const char *log, const char *what)
{
    unsigned found = 0;

    for (const char *at = log; (at = strstr(at, what)) != NULL; at += strlen(what))
        found++;
    return found;
}

/* Frames of content that came after their stream was reset. */
static unsigned too_late(const char *log)
{
    unsigned found = 0;
    char data[32];

    for (const char *at = log; (at = strstr(at, "RST/")) != NULL; at += 4) {
        (void)snprintf(data, sizeof(data), "DATA/%lu[", strtoul(at + 4, NULL, 10));
        found += count(at, data);
        (void)snprintf(data, sizeof(data), "DATA/%lu+ES[", strtoul(at + 4, NULL, 10));
        found += count(at, data);
    }
    return found;
}

/* Of all requests that have come, from number FROM on, each was cancelled once, and nothing else was. */
static void expect_all_cancelled(struct h2_origin *origin, unsigned from)
{
    unsigned requests = h2_origin_requests(origin);
    unsigned cancels = 0;
    unsigned resets = 0;

    for (unsigned i = from; i < requests; i++) {
        struct h2_asked asked = h2_origin_request(origin, i);
        expect_cancelled(origin, asked.connection, asked.id);
    }
    for (unsigned i = 1; i <= h2_origin_connections(origin); i++) {
        struct h2_visit *visit = h2_origin_enter(origin, i);
        const char *log = visit->log.p ? visit->log.p : "";
        cancels += count(log, "[8] ");
        resets += count(log, "RST/");
        cr_expect_eq(too_late(log), 0, "content after the end in %s", log);
        h2_origin_leave(visit);
    }
    cr_expect_eq(cancels, requests - from, "%u, not %u", cancels, requests - from);
    cr_expect_eq(resets, requests - from, "%u, not %u", resets, requests - from);
}

/* ---- clients ---- */

static void cancel(struct upstream_world *world, unsigned from, unsigned to)
{
    for (unsigned i = from; i <= to; i++)
        h2_put_reset(&world->client->out, 2 * i - 1, CANCEL);
    h2_peer_send(world->client);
}

Test(h2_cancel, h1_clients_that_leave, .timeout = 120)
{
    struct upstream_world world = upstream_start(&beginning, NULL);
    struct peer *clients[CLIENTS];

    for (unsigned i = 0; i < CLIENTS; i++) {
        char request[64];
        (void)snprintf(request, sizeof(request), "GET /%u HTTP/1.1\r\nHost: localhost\r\n\r\n", i);
        clients[i] = stage_connect(world.stage, i % 2 == 1);
        cr_assert(peer_say(clients[i], request));
    }
    cr_assert(h2_origin_wait_whole(world.origin, CLIENTS));
    for (unsigned i = 0; i < CLIENTS; i++) {
        peer_reset(clients[i]);
        peer_free(clients[i]);
    }
    expect_all_cancelled(world.origin, 0);
    upstream_expect_metric(&world, "retries_total", 0);
    upstream_expect_metric(&world, "connections_active", 0);
    h2_peer_free(world.client);
    stage_stop(world.stage);
    h2_origin_free(world.origin);
}

Test(h2_cancel, h2_clients_that_reset, .timeout = 120)
{
    struct upstream_world world = upstream_start(&beginning, NULL);

    upstream_ask(&world, CLIENTS, "GET");
    upstream_ask(&world, CLIENTS, "POST");
    cr_assert(h2_origin_wait_whole(world.origin, 2 * CLIENTS));
    cancel(&world, 1, 2 * CLIENTS);
    expect_all_cancelled(world.origin, 0);
    upstream_stop(&world, 2 * CLIENTS);
}

/* Content that is on its way is cut where it is, whatever waits to be sent. */
Test(h2_cancel, uploads_in_the_middle, .timeout = 120)
{
    static char part[16000];
    static const uint32_t small[] = {4, 1000, 0}; /* windows: most of it has to wait */
    const struct h2_origin_rules rules = {.settings = small, .whole = h2_origin_hold};
    struct upstream_world world = upstream_start(&rules, NULL);

    world.asked = CLIENTS;
    for (unsigned i = 1; i <= CLIENTS; i++) {
        char path[16];
        (void)snprintf(path, sizeof(path), "/%u", i);
        h2_peer_ask(world.client, 2 * i - 1, 0, "POST", path, "");
        h2_put_frame(&world.client->out, H2_DATA, 0, 2 * i - 1, part, sizeof(part));
    }
    h2_peer_send(world.client);
    cr_assert(h2_origin_wait(world.origin, CLIENTS));
    cancel(&world, 1, CLIENTS);
    expect_all_cancelled(world.origin, 0);
    upstream_stop(&world, CLIENTS);
}

/* ---- the last stream of a connection that is not kept ---- */

static struct upstream_world with_three(const char *cluster)
{
    struct upstream_world world = upstream_start(&beginning, cluster);

    upstream_ask(&world, 3, "GET");
    cr_assert(h2_origin_wait_whole(world.origin, 3));
    return world;
}

/* One after the other, so that the last is alone. */
static void expect_cancelled_to_the_last(struct upstream_world *world)
{
    for (unsigned i = 1; i <= 3; i++) {
        struct h2_asked asked = h2_origin_request(world->origin, i - 1);
        cancel(world, i, i);
        expect_cancelled(world->origin, asked.connection, asked.id);
    }
    for (unsigned i = 1; i <= h2_origin_connections(world->origin); i++)
        cr_expect(h2_origin_wait_gone(world->origin, i));
    expect_all_cancelled(world->origin, 0);
}

Test(h2_cancel, after_goaway, .timeout = 120)
{
    static const uint32_t lasts[] = {0x7fffffff, 5};

    for (unsigned i = 0; i < 2; i++) {
        struct upstream_world world = with_three("pool: {max_connections: 1}");
        struct h2_visit *visit = h2_origin_enter(world.origin, 1);
        h2_origin_goaway(visit, lasts[i], 0);
        h2_put_ping(&visit->out, 0, "are here");
        h2_origin_leave(visit);
        cr_assert(h2_origin_hears(world.origin, 1, "PING+ACK[are here]"));
        expect_cancelled_to_the_last(&world);
        upstream_stop(&world, 3);
    }
}

Test(h2_cancel, at_the_greatest_number_of_requests, .timeout = 120)
{
    struct upstream_world world = with_three("pool: {requests_per_connection: 3}");
    expect_cancelled_to_the_last(&world);
    upstream_stop(&world, 3);
}

Test(h2_cancel, at_the_greatest_age, .timeout = 120)
{
    struct upstream_world world = with_three("timeouts: {max_connection_age: 1s}");
    edge_nap(1100);
    expect_cancelled_to_the_last(&world);
    upstream_stop(&world, 3);
}

/* An answer before the end of the request: the rest is cancelled while nghttp2 reads. */
Test(h2_cancel, an_early_answer_to_the_last, .timeout = 120)
{
    const struct h2_origin_rules early = {.asked = h2_origin_answer, .whole = h2_origin_hold};
    struct upstream_world world = upstream_start(&early, "pool: {requests_per_connection: 1}");

    world.asked = 1;
    h2_peer_ask(world.client, 1, 0, "POST", "/1", "");
    h2_put_data(&world.client->out, 1, 0, "some");
    h2_peer_send(world.client);
    upstream_expect(&world, 1, 200);
    cr_expect(h2_origin_hears(world.origin, 1, "RST/1[8] "));
    cr_expect(h2_origin_wait_gone(world.origin, 1));
    h2_put_data(&world.client->out, 1, H2_END_STREAM, "more");
    upstream_stop(&world, 0);
}

/* weir is told to end while they are in flight; their clients leave before they are answered. */
Test(h2_cancel, while_weir_drains, .timeout = 120)
{
    struct upstream_world world = with_three(NULL);

    (void)kill(weir_pid(world.stage->weir), SIGTERM);
    cr_expect(h2_peer_hears(world.client, "GOAWAY["), "%s", h2_peer_log(world.client));
    expect_cancelled_to_the_last(&world);
    cr_expect_eq(weir_wait(world.stage->weir, 0, 20000), 0, "drained");
    h2_peer_free(world.client);
    stage_stop(world.stage);
    h2_origin_free(world.origin);
}

/* What the upstream answers as it is cancelled is no reason to say it twice, nor are those that are answered cancelled. */
Test(h2_cancel, beside_others_that_go_on, .timeout = 120)
{
    struct upstream_world world = upstream_start(&holding, NULL);

    upstream_ask(&world, CLIENTS, "GET");
    cr_assert(h2_origin_wait_whole(world.origin, CLIENTS));
    cancel(&world, 1, CLIENTS / 2);
    for (unsigned i = 0; i < CLIENTS; i++) {
        struct h2_asked asked = h2_origin_request(world.origin, i);
        if (strtoul(asked.path + 1, NULL, 10) <= CLIENTS / 2)
            expect_cancelled(world.origin, asked.connection, asked.id);
    }
    h2_origin_set(world.origin, &answering);
    for (unsigned i = 1; i <= h2_origin_connections(world.origin); i++) {
        struct h2_visit *visit = h2_origin_enter(world.origin, i);
        h2_origin_answer_all(visit);
        cr_expect_eq(count(visit->log.p, "RST/"), count(visit->log.p, "[8] "));
        h2_origin_leave(visit);
    }
    upstream_expect_all(&world, CLIENTS / 2 + 1, CLIENTS, 200);
    upstream_stop(&world, CLIENTS / 2);
}
