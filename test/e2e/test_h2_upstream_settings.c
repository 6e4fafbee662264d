/* Row 42 of the behaviour table, against an upstream that speaks frame by frame: what it allows with SETTINGS, and takes back. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "support/edge.h"
#include "support/h2_upstream.h"

#define STREAMS 3
#define WINDOW 4

static const struct h2_origin_rules answering = {NULL};

/* SETTINGS of one value. */
static void say(struct h2_visit *visit, uint32_t id, uint32_t value)
{
    const uint32_t settings[] = {id, value, 0};
    h2_put_settings(&visit->out, settings);
}

static void tell(struct upstream_world *world, unsigned connection, uint32_t id, uint32_t value)
{
    struct h2_visit *visit = h2_origin_enter(world->origin, connection);
    say(visit, id, value);
    h2_origin_leave(visit);
}

static unsigned most_at_once(struct upstream_world *world, unsigned connection)
{
    struct h2_visit *visit = h2_origin_enter(world->origin, connection);
    unsigned most = visit->most;
    h2_origin_leave(visit);
    return most;
}

static void expect_most(struct upstream_world *world, unsigned most)
{
    for (unsigned i = 1; i <= h2_origin_connections(world->origin); i++)
        cr_expect_leq(most_at_once(world, i), most, "connection %u: %u at once", i,
                      most_at_once(world, i));
}

/* Whatever weir would send by now, it has sent. */
static void fence(struct upstream_world *world, const char opaque[8])
{
    char answer[32];

    (void)snprintf(answer, sizeof(answer), "PING+ACK[%.8s]", opaque);
    cr_expect(h2_peer_settles(world->client));
    struct h2_visit *visit = h2_origin_enter(world->origin, 1);
    h2_put_ping(&visit->out, 0, opaque);
    h2_origin_leave(visit);
    cr_expect(h2_origin_hears(world->origin, 1, answer));
}

/* ---- MAX_CONCURRENT_STREAMS ---- */

static void with_limit(uint32_t limit, const char *cluster)
{
    const uint32_t settings[] = {STREAMS, limit, 0};
    const struct h2_origin_rules rules = {.settings = settings};
    struct upstream_world world = upstream_start(&rules, cluster);

    upstream_ask(&world, 20, "GET");
    upstream_ask(&world, 20, "POST");
    upstream_expect_all(&world, 1, 40, 200);
    upstream_ask(&world, 20, "POST");
    upstream_expect_all(&world, 41, 60, 200);
    expect_most(&world, limit);
    cr_expect_eq(h2_origin_requests(world.origin), 60);
    upstream_expect_metric(&world, "retries_total", 0);
    upstream_stop(&world, 0);
}

/* Not one stream too many, from the first on. */
Test(h2_upstream_settings, few_streams, .timeout = 120)
{
    with_limit(1, NULL);
    with_limit(1, "pool: {max_connections: 1}");
    with_limit(3, "pool: {max_connections: 4}");
}

static void refuse_and_allow_none(struct h2_visit *visit, struct h2_asked *asked)
{
    say(visit, STREAMS, 0);
    h2_origin_refuse(visit, asked);
}

/* All that were refused wait for it to change its mind, and so does who comes later. */
Test(h2_upstream_settings, none_and_then_some, .timeout = 120)
{
    const struct h2_origin_rules rules = {.whole = refuse_and_allow_none};
    struct upstream_world world = upstream_start(&rules, "pool: {max_connections: 1}");

    upstream_ask(&world, 1, "GET");
    upstream_expect_metric(&world, "requests_pending", 1);
    upstream_ask(&world, 3, "POST");
    upstream_expect_metric(&world, "requests_pending", 4);
    cr_expect_eq(h2_origin_requests(world.origin), 1);
    h2_origin_set(world.origin, &answering);
    tell(&world, 1, STREAMS, 2);
    upstream_expect_all(&world, 1, 4, 200);
    expect_most(&world, 2);
    cr_expect_eq(h2_origin_connections(world.origin), 1);
    cr_expect_eq(h2_origin_requests(world.origin), 5);
    upstream_stop(&world, 0);
}

/* The first request may be on its way or not when it says so. */
Test(h2_upstream_settings, none_from_the_first, .timeout = 120)
{
    static const uint32_t none[] = {STREAMS, 0, 0};
    const struct h2_origin_rules rules = {.settings = none, .whole = h2_origin_refuse};
    struct upstream_world world = upstream_start(&rules, "pool: {max_connections: 1}");

    upstream_ask(&world, 2, "GET");
    upstream_ask(&world, 2, "POST");
    cr_assert(h2_origin_hears(world.origin, 1, "SETTINGS+ACK["));
    fence(&world, "settings");
    cr_expect_leq(h2_origin_requests(world.origin), 1);
    h2_origin_set(world.origin, &answering);
    tell(&world, 1, STREAMS, 2);
    upstream_expect_all(&world, 1, 4, 200);
    expect_most(&world, 2);
    cr_expect_eq(h2_origin_connections(world.origin), 1);
    upstream_stop(&world, 0);
}

/* No other connection is made, though there may be more: it would be told the same. */
Test(h2_upstream_settings, none_and_room_for_connections, .timeout = 120)
{
    const struct h2_origin_rules rules = {.whole = refuse_and_allow_none};
    struct upstream_world world = upstream_start(&rules, NULL);

    upstream_ask(&world, 1, "GET");
    upstream_expect_metric(&world, "requests_pending", 1);
    upstream_ask(&world, 3, "POST");
    upstream_expect_metric(&world, "requests_pending", 4);
    fence(&world, "nothing1");
    cr_expect_eq(h2_origin_connections(world.origin), 1);
    cr_expect_eq(h2_origin_requests(world.origin), 1);
    h2_origin_set(world.origin, &answering);
    tell(&world, 1, STREAMS, 2);
    upstream_expect_all(&world, 1, 4, 200);
    cr_expect_leq(h2_origin_connections(world.origin), 2, "%u",
                  h2_origin_connections(world.origin));
    cr_expect_eq(h2_origin_requests(world.origin), 5);
    upstream_expect_failed(&world, "upstream_closed", 1);
    upstream_stop(&world, 0);
}

/* It goes while they wait for it. */
Test(h2_upstream_settings, none_and_then_the_end, .timeout = 120)
{
    const struct h2_origin_rules rules = {.whole = refuse_and_allow_none};
    struct upstream_world world = upstream_start(&rules, NULL);

    upstream_ask(&world, 3, "GET");
    upstream_expect_metric(&world, "requests_pending", 3);
    h2_origin_set(world.origin, &answering);
    h2_origin_end(h2_origin_enter(world.origin, 1), false);
    upstream_expect_all(&world, 1, 3, 200);
    cr_expect_geq(h2_origin_connections(world.origin), 2);
    upstream_stop(&world, 0);
}

/* Six are in flight when it says two. They go on; more come when they are answered, and then never more than two. */
Test(h2_upstream_settings, fewer_than_there_are, .timeout = 120)
{
    const struct h2_origin_rules rules = {.whole = h2_origin_hold};
    struct upstream_world world = upstream_start(&answering, "pool: {max_connections: 1}");

    upstream_warm(&world);
    h2_origin_set(world.origin, &rules);
    upstream_ask(&world, 6, "POST");
    cr_assert(h2_origin_wait_whole(world.origin, 7));
    struct h2_visit *visit = h2_origin_enter(world.origin, 1);
    say(visit, STREAMS, 2);
    h2_put_ping(&visit->out, 0, "are here");
    h2_origin_leave(visit);
    cr_assert(h2_origin_hears(world.origin, 1, "PING+ACK[are here]"));
    upstream_ask(&world, 4, "POST");
    upstream_expect_metric(&world, "requests_pending", 4);
    h2_origin_set(world.origin, &answering);
    visit = h2_origin_enter(world.origin, 1);
    h2_origin_answer_all(visit);
    visit->most = 0;
    h2_origin_leave(visit);
    upstream_expect_all(&world, 1, 11, 200);
    expect_most(&world, 2);
    cr_expect_eq(h2_origin_requests(world.origin), 11);
    upstream_expect_metric(&world, "retries_total", 0);
    upstream_stop(&world, 0);
}

/* What one connection says is known of the next. */
Test(h2_upstream_settings, fewer_and_another_connection, .timeout = 120)
{
    const struct h2_origin_rules rules = {.whole = h2_origin_hold};
    struct upstream_world world = upstream_start(&answering, NULL);

    upstream_warm(&world);
    h2_origin_set(world.origin, &rules);
    upstream_ask(&world, 6, "POST");
    cr_assert(h2_origin_wait_whole(world.origin, 7));
    struct h2_visit *visit = h2_origin_enter(world.origin, 1);
    say(visit, STREAMS, 2);
    h2_put_ping(&visit->out, 0, "are here");
    h2_origin_leave(visit);
    cr_assert(h2_origin_hears(world.origin, 1, "PING+ACK[are here]"));
    static const uint32_t two[] = {STREAMS, 2, 0};
    const struct h2_origin_rules others = {.settings = two};
    h2_origin_set(world.origin, &others);
    upstream_ask(&world, 4, "POST");
    upstream_expect_all(&world, 8, 11, 200);
    for (unsigned i = 2; i <= h2_origin_connections(world.origin); i++)
        cr_expect_leq(most_at_once(&world, i), 2);
    visit = h2_origin_enter(world.origin, 1);
    h2_origin_answer_all(visit);
    h2_origin_leave(visit);
    upstream_expect_all(&world, 2, 7, 200);
    cr_expect_eq(h2_origin_requests(world.origin), 11);
    upstream_expect_metric(&world, "retries_total", 0);
    upstream_stop(&world, 0);
}

/* ---- INITIAL_WINDOW_SIZE ---- */

#define PART 16000u

static void send_part(struct h2_peer *client, unsigned flags)
{
    static char part[PART];
    memset(part, 'x', sizeof(part));
    h2_put_frame(&client->out, H2_DATA, flags, 1, part, sizeof(part));
    h2_peer_send(client);
}

/* What the origin has got of request NUMBER, as soon as it is N. */
static void expect_content(struct upstream_world *world, unsigned number, size_t n)
{
    long end = edge_now_ms() + edge_ms(10000);

    while (h2_origin_request(world->origin, number).content != n && edge_now_ms() < end)
        edge_nap(10);
    cr_expect_eq(h2_origin_request(world->origin, number).content, n, "%zu, not %zu",
                 h2_origin_request(world->origin, number).content, n);
}

/* The window goes 32000 below nothing. It opens when it is above that again: by WINDOW_UPDATE, then by SETTINGS. */
Test(h2_upstream_settings, a_window_below_nothing, .timeout = 120)
{
    struct upstream_world world = upstream_start(&answering, NULL);
    struct h2_peer *client = world.client;

    world.asked = 1;
    h2_peer_ask(client, 1, 0, "POST", "/1", "");
    send_part(client, 0);
    send_part(client, 0);
    cr_assert(h2_origin_wait(world.origin, 1));
    expect_content(&world, 0, 2 * PART);
    tell(&world, 1, WINDOW, 0);
    cr_assert(h2_origin_hears(world.origin, 1, "SETTINGS+ACK[] "));
    fence(&world, "nothing1");
    send_part(client, 0);
    fence(&world, "nothing2");
    expect_content(&world, 0, 2 * PART);
    struct h2_visit *visit = h2_origin_enter(world.origin, 1);
    h2_put_window(&visit->out, 1, 2 * PART); /* nothing is left, and nothing may go */
    h2_origin_leave(visit);
    fence(&world, "nothing3");
    expect_content(&world, 0, 2 * PART);
    visit = h2_origin_enter(world.origin, 1);
    h2_put_window(&visit->out, 1, 10);
    h2_origin_leave(visit);
    expect_content(&world, 0, 2 * PART + 10);
    tell(&world, 1, WINDOW, 100000);
    expect_content(&world, 0, 3 * PART);
    send_part(client, H2_END_STREAM);
    upstream_expect(&world, 1, 200);
    expect_content(&world, 0, 4 * PART);
    upstream_stop(&world, 0);
}
