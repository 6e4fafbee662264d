/* An upstream that does what costs weir something and brings nothing: counted by kind and beyond a configured budget cut off, what was in
 * flight is answered or reset with a reason, and others are served by the next connection. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "support/edge.h"
#include "support/h2_upstream.h"

#define SMALL "{burst: 50, per_second: 0}"
#define BUDGETS                                                                                 \
    "http2: {budgets: {reset: " SMALL ", continuation: {burst: 5, per_second: 0}, ping: " SMALL \
    ", settings: " SMALL ", priority: " SMALL ", empty: " SMALL ", window: " SMALL "}}"
#define MANY 60

static const struct h2_origin_rules answering = {NULL};
static const struct h2_origin_rules holding = {.whole = h2_origin_hold};

static void pings(struct text *out)
{
    h2_put_ping(out, 0, "abcdefgh");
}

static void settings(struct text *out)
{
    static const uint32_t nothing[] = {0};
    h2_put_settings(out, nothing);
}

static void empty(struct text *out)
{
    h2_put_data(out, 3, 0, "");
}

static void windows(struct text *out)
{
    h2_put_window(out, 0, 1);
}

static void priorities(struct text *out)
{
    h2_put_frame(out, H2_PRIORITY, 0, 3, "\0\0\0\0\7", 5);
}

/* Of a head that never ends. */
static void continuations(struct text *out)
{
    h2_put_frame(out, H2_CONTINUATION, 0, 5, "", 0);
}

static const struct flood_case {
    const char *kind;
    void (*put)(struct text *out);
} cases[] = {
    {"ping", pings},     {"settings", settings},   {"empty", empty},
    {"window", windows}, {"priority", priorities}, {"continuation", continuations},
};

static void expect_counted(const struct upstream_world *world, const char *kind, double count)
{
    const struct weir *weir = world->stage->weir;
    char sample[128];

    (void)snprintf(sample, sizeof(sample),
                   "weir_upstream_h2_floods_total{cluster=\"origin\",kind=\"%s\"}", kind);
    cr_expect(weir_metric_becomes(weir, sample, count, edge_ms(5000)), "%s: %g", sample,
              weir_metric(weir, sample));
}

/* While one response (stream 3) is on its way, and another request waits for its own. */
static void flood(const struct flood_case *c, const char *cluster, bool beyond)
{
    struct upstream_world world = upstream_start(&answering, cluster);

    upstream_warm(&world);
    h2_origin_set(world.origin, &holding);
    upstream_ask(&world, 2, "POST");
    cr_assert(h2_origin_wait_whole(world.origin, 3));
    h2_origin_set(world.origin, &answering);
    struct h2_visit *visit = h2_origin_enter(world.origin, 1);
    h2_put_headers(&visit->out, 3, 0, ":status: 200\n");
    h2_put_data(&visit->out, 3, 0, "some");
    h2_origin_leave(visit);
    cr_expect(h2_peer_hears(world.client, "DATA/3[some] "), "%s: %s", c->kind,
              h2_peer_log(world.client));
    visit = h2_origin_enter(world.origin, 1);
    if (c->put == continuations)
        h2_put_frame(&visit->out, H2_HEADERS, 0, 5, "", 0);
    for (unsigned i = 0; i < MANY; i++)
        c->put(&visit->out);
    h2_origin_leave(visit);
    if (beyond) {
        expect_counted(&world, c->kind, 1);
        upstream_expect_cut(&world, 2);
        upstream_expect(&world, 3, 502);
        cr_expect(h2_origin_hears(world.origin, 1, ",11] "), "%s: no GOAWAY", c->kind);
        cr_expect(h2_origin_wait_gone(world.origin, 1));
    } else {
        visit = h2_origin_enter(world.origin, 1);
        h2_put_data(&visit->out, 3, H2_END_STREAM, "more");
        h2_origin_answer(visit, &(struct h2_asked){.id = 5});
        h2_origin_leave(visit);
        cr_expect(h2_peer_hears(world.client, "DATA/3+ES[more] "), "%s", c->kind);
        upstream_expect(&world, 3, 200);
        expect_counted(&world, c->kind, 0);
    }
    upstream_warm(&world);
    cr_expect_eq(h2_origin_connections(world.origin), beyond ? 2 : 1, "%s", c->kind);
    upstream_stop(&world, beyond ? 2 : 0);
}

Test(h2_upstream_floods, beyond_a_budget, .timeout = 120)
{
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        flood(&cases[i], BUDGETS, true);
}

Test(h2_upstream_floods, within_the_usual_budgets, .timeout = 120)
{
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        if (cases[i].put != continuations)
            flood(&cases[i], NULL, false);
}

/* Counted once. */
Test(h2_upstream_floods, while_idle, .timeout = 120)
{
    struct upstream_world world = upstream_start(&answering, BUDGETS);

    upstream_warm(&world);
    upstream_expect_metric(&world, "connections_idle", 1);
    struct h2_visit *visit = h2_origin_enter(world.origin, 1);
    for (unsigned i = 0; i < MANY; i++)
        pings(&visit->out);
    h2_origin_leave(visit);
    expect_counted(&world, "ping", 1);
    cr_expect(h2_origin_wait_gone(world.origin, 1));
    upstream_expect_metric(&world, "connections_idle", 0);
    upstream_expect_metric(&world, "stray_bytes_total", 0);
    upstream_warm(&world);
    upstream_stop(&world, 0);
}

static void reset(struct h2_visit *visit, struct h2_asked *asked)
{
    if (visit->number == 1)
        h2_origin_reset(visit, asked, 2);
    else
        h2_origin_answer(visit, asked);
}

/* Each of them is told to its client; only the last takes the connection with it. */
Test(h2_upstream_floods, resets, .timeout = 120)
{
    const struct h2_origin_rules rules = {.whole = reset};
    struct upstream_world world = upstream_start(&rules, BUDGETS);

    for (unsigned i = 1; i <= 51; i++) {
        upstream_ask(&world, 1, "POST");
        upstream_expect(&world, i, 502);
    }
    expect_counted(&world, "reset", 1);
    upstream_warm(&world);
    cr_expect_eq(h2_origin_connections(world.origin), 2);
    upstream_stop(&world, 51);
}
