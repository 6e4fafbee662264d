/* Rows 38 and 41 of the behaviour table, with raw frames: clients that give no window, and streams that stall beside others. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/bulk.h"
#include "support/edge.h"
#include "support/h2_frames.h"
#include "support/stage.h"

#define MIB ((size_t)1024 * 1024)
#define OWN                                                    \
    "{match: {path: /own}, respond: {status: 200, body: own}}" \
    ", {match: {path: /large}, respond: {body_size: 100KiB}}"

static const uint32_t no_window[] = {4, 0, 0};
static const uint32_t all_window[] = {4, 0x7fffffff, 0};

static struct stage *bulk_stage(struct bulk_origin *bulk, const char *listener)
{
    struct stage_options options = {
        .listener = listener, .routes = OWN, .serve = bulk_serve, .arg = bulk};

    *bulk = (struct bulk_origin){.size = 256 * MIB};
    return stage_start(&options);
}

/* The client gets nothing, the stream ends, and neither weir nor the origin has done much for it. */
static void expect_stalled(struct stage *stage, struct bulk_origin *bulk, struct h2_peer *h2,
                           size_t rss)
{
    cr_expect(h2_peer_hears(h2, "RST/1[8] "), "%s", h2_peer_log(h2));
    cr_expect(strstr(h2_peer_log(h2), "HEADERS/1[:status=200;"), "%s", h2_peer_log(h2));
    cr_expect_leq(atomic_load(&bulk->out.bytes), 64 * MIB);
    if (!edge_is_slow())
        cr_expect_leq(edge_rss_peak(stage->weir), rss + 2 * MIB);
    cr_expect(weir_metric_becomes(stage->weir,
                                  "weir_upstream_connections_active{cluster=\"origin\"}", 0, 5000));
}

Test(h2_flow, row_38_no_window)
{
    struct bulk_origin bulk;
    struct stage *stage = bulk_stage(&bulk, "timeouts: {inactivity: 500ms}");

    for (int tls = 0; tls < 2; tls++) {
        size_t rss = weir_rss(stage->weir);
        struct h2_peer *h2 = h2_peer_open(tls ? stage->tls : stage->plain, tls, no_window);
        h2_peer_get(h2, 1, "/");
        expect_stalled(stage, &bulk, h2, rss);
        cr_expect_null(strstr(h2_peer_log(h2), "DATA/1"), "%s", h2_peer_log(h2));
        h2_peer_get(h2, 3, "/own");
        h2_put_window(&h2->out, 3, 3);
        cr_expect(h2_peer_hears(h2, "DATA/3+ES[own] "), "%s", h2_peer_log(h2));
        h2_peer_free(h2);
    }
    stage_stop(stage);
}

Test(h2_flow, row_38_no_window_of_the_connection)
{
    struct bulk_origin bulk;
    struct stage *stage = bulk_stage(&bulk, "timeouts: {inactivity: 500ms}");
    size_t rss = weir_rss(stage->weir);
    struct h2_peer *h2 = h2_peer_open(stage->tls, true, all_window);

    h2_peer_get(h2, 1, "/");
    expect_stalled(stage, &bulk, h2, rss);
    cr_expect_eq(h2_reader_data(h2->reader), 65535);
    h2_put_window(&h2->out, 0, 3);
    h2_peer_get(h2, 3, "/own");
    cr_expect(h2_peer_hears(h2, "DATA/3+ES[own] "), "%s", h2_peer_log(h2));
    h2_peer_free(h2);
    stage_stop(stage);
}

Test(h2_flow, row_38_byte_by_byte)
{
    static const char *const frames[] = {"DATA/1[o] ", "DATA/1[w] ", "DATA/1+ES[n] "};
    struct stage_options options = {.routes = OWN};
    struct stage *stage = stage_start(&options);
    struct h2_peer *h2 = h2_peer_open(stage->tls, true, no_window);

    h2_peer_get(h2, 1, "/own");
    cr_assert(h2_peer_hears(h2, "HEADERS/1[:status=200;"), "%s", h2_peer_log(h2));
    for (int i = 0; i < 3; i++) {
        cr_expect(h2_peer_settles(h2));
        cr_expect_eq(h2_reader_data(h2->reader), i, "%s", h2_peer_log(h2));
        h2_put_window(&h2->out, 1, 1);
        cr_expect(h2_peer_hears(h2, frames[i]), "%s", h2_peer_log(h2));
    }
    h2_peer_free(h2);
    stage_stop(stage);
}

/* All the window there is, and not one byte taken off the socket. */
Test(h2_flow, row_38_a_client_that_does_not_read)
{
    struct bulk_origin bulk;
    struct stage *stage =
        bulk_stage(&bulk, "timeouts: {inactivity: 500ms, keep_alive: 500ms, linger: 500ms}");
    size_t rss = weir_rss(stage->weir);
    struct h2_peer *h2 = h2_peer_open(stage->plain, false, all_window);

    h2_put_window(&h2->out, 0, 0x7fff0000);
    for (uint32_t i = 0; i < 10; i++)
        h2_peer_get(h2, 2 * i + 1, "/");
    h2_peer_send(h2);
    cr_expect(weir_metric_becomes(stage->weir, "weir_connections_closed_total{listener=\"plain\"}",
                                  1, edge_ms(10000)));
    cr_expect_leq(atomic_load(&bulk.out.bytes), 128 * MIB);
    if (!edge_is_slow())
        cr_expect_leq(edge_rss_peak(stage->weir), rss + 6 * MIB);
    h2_peer_free(h2);
    stage_stop(stage);
}

/* ---- row 41 ---- */

/* What the peer has given: the sum of WINDOW/ID frames, and INITIAL. */
static uint64_t window_of(const struct h2_peer *h2, uint32_t id, uint64_t initial)
{
    char start[32];
    uint64_t sum = initial;

    (void)snprintf(start, sizeof(start), "WINDOW/%u[", id);
    for (const char *at = h2_peer_log(h2); (at = strstr(at, start)) != NULL;) {
        at += strlen(start);
        sum += strtoull(at, NULL, 10);
    }
    return sum;
}

/* Content on stream 1 as far as windows go, until no more is given for a while. Returns how much it was. */
static uint64_t push(struct h2_peer *h2)
{
    static const char bytes[16384];
    uint64_t sent = 0;
    long since = edge_now_ms();

    while (edge_now_ms() < since + 300) {
        uint64_t stream = window_of(h2, 1, 65536) - sent;
        uint64_t connection = window_of(h2, 0, 65535) - sent;
        uint64_t room = stream < connection ? stream : connection;
        size_t n = room < sizeof(bytes) ? (size_t)room : sizeof(bytes);
        if (n > 0) {
            h2_put_frame(&h2->out, H2_DATA, 0, 1, bytes, n);
            sent += n;
            since = edge_now_ms();
        }
        cr_assert(h2_peer_settles(h2), "%s", h2_peer_log(h2));
    }
    return sent;
}

Test(h2_flow, row_41_an_origin_that_does_not_read_stalls_one_stream_only, .timeout = 60)
{
    static const struct script_answer answers[] = {{.bytes = "", .when = SCRIPT_DEAF}, {0}};
    static const struct stage_options options = {
        .listener = "http2: {connection_window: 128KiB, budgets: {ping: {burst: 100000}}}"};
    struct stage *stage = stage_start(&options);
    struct h2_peer *h2 = h2_peer_open(stage->tls, true, NULL);

    script_set(stage->script, answers, 2);
    h2_peer_ask(h2, 1, 0, "POST", "/stalled", "");
    uint64_t sent = push(h2);
    cr_expect_eq(window_of(h2, 1, 65536), sent, "the stream has window left, or none was needed");
    cr_expect_geq(window_of(h2, 0, 65535) - sent, 65536, "it holds the connection");
    for (uint32_t id = 3; id < 43; id += 2) {
        char answer[32];
        (void)snprintf(answer, sizeof(answer), "DATA/%u+ES[ok] ", id);
        h2_peer_ask(h2, id, 0, "POST", "/", "");
        h2_put_data(&h2->out, id, H2_END_STREAM, "content");
        cr_assert(h2_peer_hears(h2, answer), "%u", id);
    }
    cr_expect(script_wait_requests(stage->script, 21));
    h2_peer_free(h2);
    stage_stop(stage);
}

Test(h2_flow, row_41_a_client_that_takes_one_stream_only)
{
    struct bulk_origin bulk;
    struct stage *stage = bulk_stage(&bulk, NULL);
    struct h2_peer *h2 = h2_peer_open(stage->tls, true, NULL);

    h2_peer_get(h2, 1, "/");
    h2_peer_send(h2);
    while (h2_reader_data(h2->reader) < 65535)
        cr_assert(h2_peer_settles(h2), "%s", h2_peer_log(h2));
    h2_peer_get(h2, 3, "/large");
    cr_assert(h2_peer_settles(h2));
    cr_expect_null(strstr(h2_peer_log(h2), "DATA/3"), "no window for that");
    h2_put_window(&h2->out, 0, 102400);
    h2_put_window(&h2->out, 3, 102400 - 65535);
    cr_expect(h2_peer_hears(h2, "DATA/3+ES["), "%s", h2_peer_log(h2));
    cr_expect_eq(h2_reader_data(h2->reader), 65535 + 102400);
    h2_put_window(&h2->out, 0, 5);
    h2_put_window(&h2->out, 1, 5);
    while (h2_reader_data(h2->reader) < 65535 + 102400 + 5)
        cr_assert(h2_peer_settles(h2), "%s", h2_peer_log(h2));
    h2_peer_free(h2);
    stage_stop(stage);
}
