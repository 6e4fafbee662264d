/* Rows 34 to 37 and 43 of the behaviour table, with raw frames: floods end with ENHANCE_YOUR_CALM, and are counted by kind. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "support/edge.h"
#include "support/h2_frames.h"
#include "support/stage.h"

#define SMALL "{burst: 50, per_second: 1}"
#define SMALL_BUDGETS                                                           \
    "http2: {budgets: {reset: " SMALL ", continuation: " SMALL ", ping: " SMALL \
    ", settings: " SMALL ", priority: " SMALL ", empty: " SMALL ", window: " SMALL "}}"
#define OWN "{match: {path: /own}, respond: {status: 200, body: own}}"
#define CANCEL 8
#define ENHANCE_YOUR_CALM 11
#define PIECE 20

/* ---- one of each flood: what I-th frame of it is, on a connection that has stream 1 open for content ---- */

static void put_rapid_reset(struct h2_peer *h2, unsigned i)
{
    h2_peer_get(h2, 2 * i + 3, "/flood");
    h2_put_reset(&h2->out, 2 * i + 3, CANCEL);
}

static void put_window_overflow(struct h2_peer *h2, unsigned i)
{
    h2_peer_get(h2, 2 * i + 3, "/flood");
    h2_put_window(&h2->out, 2 * i + 3, 0x7fffffff);
}

static void put_malformed(struct h2_peer *h2, unsigned i)
{
    h2_peer_ask(h2, 2 * i + 3, H2_END_STREAM, "GET", "/flood", "connection: close\n");
}

static void put_wrong_length(struct h2_peer *h2, unsigned i)
{
    h2_peer_ask(h2, 2 * i + 3, 0, "POST", "/flood", "content-length: 1\n");
    h2_put_data(&h2->out, 2 * i + 3, 0, "xy");
}

static void put_large_trailers(struct h2_peer *h2, unsigned i)
{
    static char fields[120 * 6 + 1];
    for (size_t at = 0; at + 6 < sizeof(fields); at += 6)
        memcpy(fields + at, "a: bc\n", 6);
    h2_peer_ask(h2, 2 * i + 3, 0, "POST", "/flood", "");
    h2_put_headers(&h2->out, 2 * i + 3, H2_END_STREAM, fields);
}

static void put_continuation(struct h2_peer *h2, unsigned i)
{
    struct text block = {0};
    size_t part;

    h2_put_block(&block, ":method: GET\n:scheme: http\n:path: /own\n:authority: localhost\n");
    part = block.n / 2;
    h2_put_frame(&h2->out, H2_HEADERS, H2_END_STREAM, 2 * i + 3, block.p, part);
    h2_put_frame(&h2->out, H2_CONTINUATION, H2_END_HEADERS, 2 * i + 3, block.p + part,
                 block.n - part);
    text_free(&block);
}

static void put_ping(struct h2_peer *h2, unsigned i)
{
    (void)i;
    h2_put_ping(&h2->out, 0, "abcdefgh");
}

static void put_settings(struct h2_peer *h2, unsigned i)
{
    const uint32_t pairs[] = {4, 65536 + i, 0};
    h2_put_settings(&h2->out, pairs);
}

static void put_priority(struct h2_peer *h2, unsigned i)
{
    if (i % 2 == 0)
        h2_put_frame(&h2->out, H2_PRIORITY, 0, 3, "\0\0\0\0\x10", 5);
    else
        h2_put_frame(&h2->out, H2_PRIORITY_UPDATE, 0, 0, "\0\0\0\1u=1", 7);
}

static void put_empty_data(struct h2_peer *h2, unsigned i)
{
    if (i % 2 == 0)
        h2_put_data(&h2->out, 1, 0, "");
    else
        h2_put_frame(&h2->out, H2_DATA, H2_PADDED, 1, "\3\0\0\0", 4);
}

static void put_tiny_window(struct h2_peer *h2, unsigned i)
{
    h2_put_window(&h2->out, i % 2, 1);
}

static const struct flood {
    const char *name;
    const char *kind;
    void (*put)(struct h2_peer *h2, unsigned i);
    unsigned burst; /* of the kind by default; each put spends one */
} floods[] = {
    {"rapid reset", "reset", put_rapid_reset, 1000},
    {"window overflow", "reset", put_window_overflow, 1000},
    {"malformed heads", "reset", put_malformed, 1000},
    {"content of another length", "reset", put_wrong_length, 1000},
    {"trailers above the limit", "reset", put_large_trailers, 1000},
    {"CONTINUATION", "continuation", put_continuation, 1000},
    {"PING", "ping", put_ping, 2000},
    {"SETTINGS", "settings", put_settings, 100},
    {"PRIORITY", "priority", put_priority, 1000},
    {"empty DATA", "empty", put_empty_data, 200},
    {"tiny WINDOW_UPDATE", "window", put_tiny_window, 1000},
};

static struct h2_peer *open_peer(const struct stage *stage, bool tls, const char *path)
{
    struct h2_peer *h2 = h2_peer_open(tls ? stage->tls : stage->plain, tls, NULL);

    h2_peer_ask(h2, 1, 0, "POST", path, "");
    h2_put_data(&h2->out, 1, 0, "con");
    return h2;
}

/* The POST of PATH, which comes among others. */
static const struct script_request *wait_begun(struct stage *stage, const char *path)
{
    char line[80];

    (void)snprintf(line, sizeof(line), "POST %s ", path);
    for (unsigned i = 0; script_wait_requests(stage->script, i + 1); i++) {
        const struct script_request *request = script_request(stage->script, i);
        if (strncmp(request->head, line, strlen(line)) == 0)
            return request;
    }
    cr_assert(false, "no %s", path);
    return NULL;
}

/* From FIRST on, until there are COUNT or the connection ends; a piece is not sent before the last one has been read. */
static unsigned put_many(struct h2_peer *h2, const struct flood *flood, unsigned first,
                         unsigned count)
{
    for (unsigned i = first; i < count; i++) {
        flood->put(h2, i);
        if (i % PIECE == PIECE - 1 && !h2_peer_settles(h2))
            return i + 1;
    }
    return count;
}

static void expect_flood(struct stage *stage, const struct flood *flood, unsigned burst, bool tls)
{
    char sample[128];
    unsigned fine = burst * 4 / 5 / PIECE * PIECE;
    char path[64];
    (void)snprintf(path, sizeof(path), "/begun/%zu/%d", (size_t)(flood - floods), (int)tls);
    struct h2_peer *h2 = open_peer(stage, tls, path);
    struct h2_peer *other = h2_peer_open(stage->tls, true, NULL);

    (void)snprintf(sample, sizeof(sample), "weir_h2_floods_total{listener=\"%s\",kind=\"%s\"}",
                   tls ? "tls" : "plain", flood->kind);
    double before = weir_metric(stage->weir, sample);
    h2_peer_send(h2);
    const struct script_request *begun = wait_begun(stage, path);
    cr_expect_eq(put_many(h2, flood, 0, fine), fine, "%s", flood->name);
    cr_expect(h2_peer_settles(h2), "%s: %u of them are too many: %s", flood->name, fine,
              h2_peer_log(h2));
    cr_expect_eq(weir_metric(stage->weir, sample), before, "%s", flood->name);

    unsigned count = put_many(h2, flood, fine, burst * 4);
    cr_expect_lt(count, burst * 4, "%s goes on", flood->name);
    cr_expect(h2_peer_is_over(h2, ENHANCE_YOUR_CALM), "%s: end %d", flood->name, (int)h2->end);
    cr_expect_eq(weir_metric(stage->weir, sample), before + 1, "%s", flood->name);
    cr_expect(!begun->whole, "%s", flood->name);
    h2_peer_get(other, 1, "/other");
    cr_expect(h2_peer_hears(other, "HEADERS/1[:status=200;"), "%s: %s", flood->name,
              h2_peer_log(other));
    h2_peer_free(other);
    h2_peer_free(h2);
    cr_expect(weir_metric_becomes(stage->weir,
                                  "weir_upstream_connections_active{cluster=\"origin\"}", 0, 5000),
              "%s: work goes on for nobody", flood->name);
}

Test(h2_floods, rows_34_to_37_beyond_a_budget)
{
    static const struct stage_options options = {.listener = SMALL_BUDGETS, .routes = OWN};
    struct stage *stage = stage_start(&options);

    for (size_t i = 0; i < WR_COUNT_OF(floods); i++) {
        expect_flood(stage, &floods[i], 50, false);
        expect_flood(stage, &floods[i], 50, true);
    }
    stage_stop(stage);
}

Test(h2_floods, rows_34_to_37_by_default, .timeout = 120)
{
    static const struct stage_options options = {.routes = OWN};
    struct stage *stage = stage_start(&options);

    for (size_t i = 0; i < WR_COUNT_OF(floods); i++)
        expect_flood(stage, &floods[i], floods[i].burst, i % 2 == 0);
    stage_stop(stage);
}

/* Row 36: one head that never ends. */
Test(h2_floods, row_36_a_head_of_continuations_only)
{
    struct stage *stage = stage_start(NULL);
    struct h2_peer *h2 = open_peer(stage, true, "/begun");

    h2_put_frame(&h2->out, H2_HEADERS, H2_END_STREAM, 3, "", 0);
    for (unsigned i = 0; i < 20; i++)
        h2_put_frame(&h2->out, H2_CONTINUATION, 0, 3, "", 0);
    cr_expect(h2_peer_is_over(h2, ENHANCE_YOUR_CALM), "%s", h2_peer_log(h2));
    cr_expect_eq(
        weir_metric(stage->weir, "weir_h2_floods_total{listener=\"tls\",kind=\"continuation\"}"),
        1);
    h2_peer_free(h2);
    stage_stop(stage);
}

/* Row 34: who takes back what was answered is no flooder. */
Test(h2_floods, row_34_resets_after_the_end_do_not_count)
{
    static const struct stage_options options = {.listener = SMALL_BUDGETS, .routes = OWN};
    struct stage *stage = stage_start(&options);
    struct h2_peer *h2 = open_peer(stage, true, "/begun");
    char answer[64];

    for (unsigned i = 3; i < 400; i += 2) {
        (void)snprintf(answer, sizeof(answer), "DATA/%u+ES[ok] ", i);
        h2_peer_get(h2, i, "/");
        cr_assert(h2_peer_hears(h2, answer), "%s", h2_peer_log(h2));
        h2_put_reset(&h2->out, i, CANCEL);
    }
    cr_expect(h2_peer_settles(h2), "%s", h2_peer_log(h2));
    h2_peer_free(h2);
    stage_stop(stage);
}

/* ---- row 43 ---- */

#define STREAMS 100

static void reset_and_go(const struct stage *stage)
{
    struct h2_peer *h2 = h2_peer_open(stage->plain, false, NULL);

    for (unsigned i = 0; i < STREAMS; i++) {
        h2_peer_get(h2, 2 * i + 1, "/");
        h2_put_reset(&h2->out, 2 * i + 1, CANCEL);
    }
    h2_put_goaway(&h2->out, 0, 0);
    h2_peer_send(h2);
    cr_expect_eq(peer_wait_end(h2->peer), PEER_EOF);
    h2_peer_free(h2);
}

/* A few heads more or less at once make steps of a few MiB; a leak of 100 bytes a stream would be more. */
Test(h2_floods, row_43_resets_and_goaway_leave_nothing, .timeout = 120)
{
    struct stage *stage = stage_start(NULL);
    unsigned rounds = edge_is_slow() ? 20 : 1000;

    reset_and_go(stage);
    size_t before = weir_rss(stage->weir);
    for (unsigned i = 0; i < rounds; i++)
        reset_and_go(stage);
    size_t after = weir_rss(stage->weir);
    if (!edge_is_slow())
        cr_expect_leq(after, before + STREAMS * rounds * 100, "%zu bytes more", after - before);
    cr_expect(weir_metric_becomes(stage->weir,
                                  "weir_upstream_connections_active{cluster=\"origin\"}", 0, 5000));
    stage_fence(stage);
    stage_stop(stage);
}
