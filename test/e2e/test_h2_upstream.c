/* Row 42 of the behaviour table, against an upstream that speaks frame by frame: streams it refuses or resets, GOAWAY, connections that
 * end. What may be sent again is, and nothing else. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "support/h2_upstream.h"

#define CANCEL 8
#define INTERNAL_ERROR 2

/* ---- REFUSED_STREAM ---- */

static void refuse_once(struct h2_visit *visit, struct h2_asked *asked)
{
    if (asked->times == 1)
        h2_origin_refuse(visit, asked);
}

static void refuse_then_answer(struct h2_visit *visit, struct h2_asked *asked)
{
    refuse_once(visit, asked);
    if (!asked->over)
        h2_origin_answer(visit, asked);
}

Test(h2_upstream, streams_refused_once, .timeout = 120)
{
    const struct h2_origin_rules rules = {.whole = refuse_then_answer};
    struct upstream_world world = upstream_start(&rules, NULL);

    upstream_ask(&world, 3, "POST"); /* of them one on a connection that is new */
    upstream_ask(&world, 3, "GET");
    upstream_expect_all(&world, 1, 6, 200);
    cr_expect_eq(h2_origin_requests(world.origin), 12);
    for (unsigned i = 0; i < 12; i++) {
        struct h2_asked asked = h2_origin_request(world.origin, i);
        cr_expect_eq(asked.content, strcmp(asked.method, "POST") == 0 ? 7 : 0, "%s: %zu",
                     asked.path, asked.content);
    }
    upstream_expect_metric(&world, "retries_total", 6);
    upstream_expect_failed(&world, "upstream_closed", 6);
    upstream_stop(&world, 0);
}

/* Before the content is there: what comes later goes with the second try. */
Test(h2_upstream, streams_refused_at_their_head, .timeout = 120)
{
    const struct h2_origin_rules rules = {.asked = refuse_once};
    struct upstream_world world = upstream_start(&rules, NULL);

    world.asked = 1;
    h2_peer_ask(world.client, 1, 0, "POST", "/1", "content-length: 6\n");
    h2_peer_send(world.client);
    cr_expect(h2_origin_wait(world.origin, 1));
    h2_put_data(&world.client->out, 1, 0, "abc");
    h2_peer_send(world.client);
    h2_put_data(&world.client->out, 1, H2_END_STREAM, "def");
    upstream_expect(&world, 1, 200);
    cr_expect_eq(h2_origin_request(world.origin, 1).content, 6);
    upstream_stop(&world, 0);
}

Test(h2_upstream, streams_refused_always, .timeout = 120)
{
    const struct h2_origin_rules rules = {.whole = h2_origin_refuse};
    struct upstream_world world = upstream_start(&rules, NULL);

    upstream_ask(&world, 1, "GET");
    upstream_ask(&world, 1, "POST");
    upstream_expect_all(&world, 1, 2, 502);
    cr_expect_eq(h2_origin_times(world.origin, "/1"), 5, "%u", h2_origin_times(world.origin, "/1"));
    cr_expect_eq(h2_origin_times(world.origin, "/2"), 5);
    upstream_expect_failed(&world, "upstream_closed", 10);
    upstream_stop(&world, 2);
}

/* ---- GOAWAY ---- */

/* Of five in flight it has seen three. */
Test(h2_upstream, goaway_below_what_is_in_flight, .timeout = 120)
{
    const struct h2_origin_rules rules = {.whole = h2_origin_hold};
    const struct h2_origin_rules answering = {NULL};
    struct upstream_world world = upstream_start(&answering, NULL);

    upstream_warm(&world);
    h2_origin_set(world.origin, &rules);
    upstream_ask(&world, 3, "GET");
    upstream_ask(&world, 2, "POST");
    cr_assert(h2_origin_wait_whole(world.origin, 6));
    h2_origin_set(world.origin, &answering);
    struct h2_visit *visit = h2_origin_enter(world.origin, 1);
    h2_origin_goaway(visit, 7, 0);
    h2_origin_leave(visit);
    upstream_expect_all(&world, 5, 6, 200);
    cr_expect_eq(h2_origin_request(world.origin, 6).connection, 2);
    visit = h2_origin_enter(world.origin, 1);
    cr_expect_not(visit->gone, "what it has seen is waited for");
    h2_origin_answer_all(visit);
    h2_origin_leave(visit);
    upstream_expect_all(&world, 1, 4, 200);
    cr_expect(h2_origin_wait_gone(world.origin, 1));
    cr_expect_eq(h2_origin_requests(world.origin), 8);
    cr_expect_eq(h2_origin_connections(world.origin), 2);
    upstream_expect_metric(&world, "retries_total", 2);
    upstream_stop(&world, 0);
}

static void goaway_with(uint32_t first, bool second)
{
    const struct h2_origin_rules rules = {.whole = h2_origin_hold};
    const struct h2_origin_rules answering = {NULL};
    struct upstream_world world = upstream_start(&answering, NULL);

    upstream_warm(&world);
    h2_origin_set(world.origin, &rules);
    upstream_ask(&world, 2, "GET");
    upstream_ask(&world, 2, "POST");
    cr_assert(h2_origin_wait_whole(world.origin, 5));
    h2_origin_set(world.origin, &answering);
    struct h2_visit *visit = h2_origin_enter(world.origin, 1);
    h2_origin_goaway(visit, first, 0);
    h2_put_ping(&visit->out, 0, "are here");
    h2_origin_leave(visit);
    cr_expect(h2_origin_hears(world.origin, 1, "PING+ACK[are here]"));
    upstream_warm(&world);
    cr_expect_eq(h2_origin_request(world.origin, 5).connection, 2);
    visit = h2_origin_enter(world.origin, 1);
    if (second)
        h2_origin_goaway(visit, 9, 0);
    h2_origin_answer_all(visit);
    h2_origin_leave(visit);
    upstream_expect_all(&world, 1, 6, 200);
    cr_expect(h2_origin_wait_gone(world.origin, 1));
    cr_expect_eq(h2_origin_requests(world.origin), 6);
    upstream_expect_metric(&world, "retries_total", 0);
    upstream_stop(&world, 0);
}

Test(h2_upstream, goaway_above_what_is_in_flight, .timeout = 120)
{
    goaway_with(999, false);
    goaway_with(9, false);
    goaway_with(0x7fffffff, true);
}

/* Content in both directions goes on after it. */
Test(h2_upstream, goaway_while_content_is_on_its_way, .timeout = 120)
{
    const struct h2_origin_rules rules = {.whole = h2_origin_hold};
    struct upstream_world world = upstream_start(&rules, NULL);
    struct h2_peer *client = world.client;

    upstream_ask(&world, 1, "GET");
    world.asked = 2;
    h2_peer_ask(client, 3, 0, "POST", "/2", "");
    h2_put_data(&client->out, 3, 0, "abc");
    h2_peer_send(client);
    cr_expect(h2_origin_hears(world.origin, 1, "DATA/3[abc] "));
    struct h2_visit *visit = h2_origin_enter(world.origin, 1);
    h2_put_headers(&visit->out, 1, 0, ":status: 200\n");
    h2_put_data(&visit->out, 1, 0, "some");
    h2_origin_goaway(visit, 0x7fffffff, 0);
    h2_origin_leave(visit);
    cr_expect(h2_peer_hears(client, "DATA/1[some] "), "%s", h2_peer_log(client));
    h2_put_data(&client->out, 3, 0, "def");
    h2_peer_send(client);
    cr_expect(h2_origin_hears(world.origin, 1, "DATA/3[def] "));
    visit = h2_origin_enter(world.origin, 1);
    h2_origin_goaway(visit, 3, 0);
    h2_put_data(&visit->out, 1, H2_END_STREAM, "more");
    h2_origin_leave(visit);
    cr_expect(h2_peer_hears(client, "DATA/1+ES[more] "), "%s", h2_peer_log(client));
    h2_put_data(&client->out, 3, H2_END_STREAM, "ghi");
    h2_peer_send(client);
    cr_expect(h2_origin_wait_whole(world.origin, 2));
    cr_expect_eq(h2_origin_request(world.origin, 1).content, 9);
    visit = h2_origin_enter(world.origin, 1);
    h2_put_headers(&visit->out, 3, 0, ":status: 201\n");
    h2_put_data(&visit->out, 3, H2_END_STREAM, "ok");
    h2_origin_leave(visit);
    upstream_expect(&world, 2, 201);
    cr_expect(h2_origin_wait_gone(world.origin, 1));
    cr_expect_eq(h2_origin_connections(world.origin), 1);
    upstream_stop(&world, 0);
}

/* ---- whether it is there ---- */

#define PINGS "http2: {ping_interval: 200ms, ping_timeout: 2s}"

Test(h2_upstream, answers_pings_when_idle, .timeout = 120)
{
    const struct h2_origin_rules rules = {NULL};
    struct upstream_world world = upstream_start(&rules, PINGS);

    upstream_warm(&world);
    cr_expect(h2_origin_hears(world.origin, 1,
                              "PING[weirping] PING[weirping] PING[weirping] PING[weirping] "));
    upstream_warm(&world);
    cr_expect_eq(h2_origin_connections(world.origin), 1);
    upstream_stop(&world, 0);
}

/* Nobody has to wait for it to find out. */
Test(h2_upstream, hangs_when_idle, .timeout = 120)
{
    const struct h2_origin_rules answering = {NULL};
    const struct h2_origin_rules hung = {.hung = true};
    struct upstream_world world = upstream_start(&answering, PINGS);

    upstream_warm(&world);
    h2_origin_set(world.origin, &hung);
    cr_expect(h2_origin_wait_gone(world.origin, 1));
    upstream_expect_metric(&world, "connections_idle", 0);
    h2_origin_set(world.origin, &answering);
    upstream_warm(&world);
    cr_expect_eq(h2_origin_connections(world.origin), 2);
    upstream_expect_metric(&world, "retries_total", 0);
    upstream_stop(&world, 0);
}

/* Nor for ever when somebody does: those in flight hear of it, and what may be sent again is. */
Test(h2_upstream, hangs_in_flight, .timeout = 120)
{
    const struct h2_origin_rules answering = {NULL};
    const struct h2_origin_rules hung = {.whole = h2_origin_hold, .hung = true};
    struct upstream_world world = upstream_start(&answering, PINGS);

    upstream_warm(&world);
    h2_origin_set(world.origin, &hung);
    upstream_ask(&world, 1, "GET");
    upstream_ask(&world, 1, "POST");
    cr_assert(h2_origin_wait_whole(world.origin, 3));
    h2_origin_set(world.origin, &(struct h2_origin_rules){.hung = true});
    upstream_expect(&world, 2, 200);
    upstream_expect(&world, 3, 502);
    cr_expect_eq(h2_origin_request(world.origin, 3).connection, 2);
    upstream_stop(&world, 1);
}

/* ---- the connection ends ---- */

/* Two GETs, a POST with content, and a GET whose response has begun are on it. */
static void ends_without_a_word(bool reset)
{
    const struct h2_origin_rules rules = {.whole = h2_origin_hold};
    const struct h2_origin_rules answering = {NULL};
    struct upstream_world world = upstream_start(&answering, NULL);

    upstream_warm(&world);
    h2_origin_set(world.origin, &rules);
    upstream_ask(&world, 2, "GET");
    upstream_ask(&world, 1, "POST");
    upstream_ask(&world, 1, "GET");
    cr_assert(h2_origin_wait_whole(world.origin, 5));
    struct h2_visit *visit = h2_origin_enter(world.origin, 1);
    h2_put_headers(&visit->out, 9, 0, ":status: 200\n");
    h2_put_data(&visit->out, 9, 0, "some");
    h2_origin_leave(visit);
    cr_expect(h2_peer_hears(world.client, "DATA/9[some] "), "%s", h2_peer_log(world.client));
    h2_origin_set(world.origin, &answering);
    h2_origin_end(h2_origin_enter(world.origin, 1), reset);
    upstream_expect_all(&world, 2, 3, 200);
    upstream_expect(&world, 4, 502);
    upstream_expect_cut(&world, 5);
    cr_expect_eq(h2_origin_requests(world.origin), 7);
    cr_expect_eq(h2_origin_times(world.origin, "/4"), 1);
    cr_expect_eq(h2_origin_times(world.origin, "/5"), 1);
    upstream_expect_failed(&world, reset ? "upstream_reset" : "upstream_closed", 3);
    upstream_expect_metric(&world, "retries_total", 2);
    upstream_stop(&world, 2);
}

Test(h2_upstream, a_connection_that_ends_without_a_word, .timeout = 120)
{
    ends_without_a_word(false);
    ends_without_a_word(true);
}

/* ---- RST_STREAM ---- */

static uint32_t code;

static void reset_once(struct h2_visit *visit, struct h2_asked *asked)
{
    if (asked->times == 1)
        h2_origin_reset(visit, asked, code);
    else
        h2_origin_answer(visit, asked);
}

static void head_and_reset(struct h2_visit *visit, struct h2_asked *asked)
{
    h2_put_headers(&visit->out, asked->id, 0, ":status: 200\n");
    h2_put_data(&visit->out, asked->id, 0, "some");
    h2_origin_reset(visit, asked, code);
}

static void reset_before_the_head(void)
{
    const struct h2_origin_rules rules = {.whole = reset_once};
    const struct h2_origin_rules answering = {NULL};
    struct upstream_world world = upstream_start(&answering, NULL);

    upstream_warm(&world);
    h2_origin_set(world.origin, &rules);
    upstream_ask(&world, 1, "GET");
    upstream_ask(&world, 1, "POST");
    upstream_expect(&world, 2, 200);
    upstream_expect(&world, 3, 502);
    cr_expect_eq(h2_origin_times(world.origin, "/2"), 2);
    cr_expect_eq(h2_origin_times(world.origin, "/3"), 1);
    upstream_expect_failed(&world, "upstream_reset", 2);
    upstream_stop(&world, 1);
}

static void reset_after_the_head(void)
{
    const struct h2_origin_rules rules = {.whole = head_and_reset};
    const struct h2_origin_rules answering = {NULL};
    struct upstream_world world = upstream_start(&answering, NULL);

    upstream_warm(&world);
    h2_origin_set(world.origin, &rules);
    upstream_ask(&world, 1, "GET");
    upstream_ask(&world, 1, "POST");
    upstream_expect_cut(&world, 2);
    upstream_expect_cut(&world, 3);
    cr_expect_eq(h2_origin_requests(world.origin), 3);
    h2_origin_set(world.origin, &answering);
    upstream_warm(&world);
    cr_expect_eq(h2_origin_connections(world.origin), 1, "the others go on");
    upstream_stop(&world, 2);
}

Test(h2_upstream, resets, .timeout = 120)
{
    static const uint32_t codes[] = {CANCEL, INTERNAL_ERROR};

    for (size_t i = 0; i < 2; i++) {
        code = codes[i];
        reset_before_the_head();
        reset_after_the_head();
    }
}

static void answer_early(struct h2_visit *visit, struct h2_asked *asked)
{
    h2_put_headers(&visit->out, asked->id, 0, ":status: 403\n");
    h2_put_data(&visit->out, asked->id, H2_END_STREAM, "no");
    h2_origin_reset(visit, asked, 0);
}

/* Behaviour row 22: the whole answer counts, and the client is told that the rest is not wanted. */
Test(h2_upstream, a_whole_answer_and_no_error, .timeout = 120)
{
    const struct h2_origin_rules rules = {.asked = answer_early};
    const struct h2_origin_rules answering = {NULL};
    struct upstream_world world = upstream_start(&rules, NULL);
    struct h2_peer *client = world.client;

    world.asked = 1;
    h2_peer_ask(client, 1, 0, "POST", "/1", "content-length: 100000000\n");
    h2_put_data(&client->out, 1, 0, "some");
    upstream_expect(&world, 1, 403);
    cr_expect(h2_peer_hears(client, "RST/1[0] "), "%s", h2_peer_log(client));
    h2_origin_set(world.origin, &answering);
    upstream_warm(&world);
    cr_expect_eq(h2_origin_connections(world.origin), 1, "the others go on");
    upstream_stop(&world, 0);
}
