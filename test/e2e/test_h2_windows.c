/* Clients that give no window (behaviour row 38), before upstreams of HTTP/1.1 and of HTTP/2 (another weir before the same origin): what
 * is held is bounded, it ends in time and is counted, and what has window goes on. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "support/bulk.h"
#include "support/edge.h"
#include "support/h2_frames.h"
#include "support/origin.h"
#include "support/weir.h"

#define MIB ((size_t)1024 * 1024)
#define OTHERS 10 /* streams that have a window */
#define HELD_MAX (512 * 1024)
#define RSS_GROWTH (6 * MIB)
/* What sockets of the kernel hold on the way. */
#define IN_FLIGHT (64 * MIB)

struct world {
    struct bulk_origin bulk;
    struct origin *origin;
    struct weir *inner;
    struct weir *outer;
};

static void start(struct world *w)
{
    *w = (struct world){.bulk = {.size = 256 * MIB}};
    w->origin = origin_start(bulk_serve, &w->bulk);
    w->inner =
        weir_start("workers: 1\nadmin: 127.0.0.1:0\n"
                   "listeners: [{name: mid, bind: 127.0.0.1:0, routes: [{cluster: origin}]}]\n"
                   "clusters: [{name: origin, endpoints: [127.0.0.1:%d]}]\n",
                   origin_port(w->origin));
    w->outer = weir_start("workers: 1\nadmin: 127.0.0.1:0\naccess_log: access.log\n"
                          "listeners:\n"
                          "  - name: tls\n    bind: 127.0.0.1:0\n    timeouts: {inactivity: 3s}\n"
                          "    tls: {certificates: [{chain: cert.pem, key: key.pem}]}\n"
                          "    routes: [{match: {path: /own}, respond: {status: 200, body: own}},\n"
                          "             {match: {path: /h2}, cluster: mid}, {cluster: origin}]\n"
                          "clusters:\n"
                          "  - {name: origin, endpoints: [127.0.0.1:%d], protocol: http1}\n"
                          "  - {name: mid, endpoints: [127.0.0.1:%d], protocol: http2}\n",
                          origin_port(w->origin), weir_port(w->inner, "mid"));
}

static void expect_none(const struct weir *weir, const char *sample)
{
    cr_expect(weir_metric_becomes(weir, sample, 0, edge_ms(10000)), "%s is %g", sample,
              weir_metric(weir, sample));
}

static void stop(struct world *w)
{
    expect_none(w->outer, "weir_requests_active");
    expect_none(w->outer, "weir_buffer_bytes");
    expect_none(w->inner, "weir_requests_active");
    expect_none(w->inner, "weir_buffer_bytes");
    atomic_store(&w->bulk.out.dead, true);
    weir_stop(w->outer);
    weir_stop(w->inner);
    origin_stop(w->origin);
}

static void expect_held(const struct world *w, const char *what)
{
    cr_expect_leq(weir_metric(w->outer, "weir_buffer_bytes"), HELD_MAX, "%s", what);
    cr_expect_leq(weir_metric(w->inner, "weir_buffer_bytes"), HELD_MAX, "%s, inner", what);
    cr_expect_leq(atomic_load(&w->bulk.out.bytes), IN_FLIGHT, "%s", what);
}

/* Streams that have window, while the first has none. */
static void others_go_on(struct h2_peer *h2, const char *what)
{
    for (uint32_t id = 101; id < 101 + 2 * OTHERS; id += 2) {
        char frame[32];
        (void)snprintf(frame, sizeof(frame), "DATA/%u+ES[own] ", id);
        h2_peer_get(h2, id, "/own");
        h2_put_window(&h2->out, id, 3);
        cr_assert(h2_peer_hears(h2, frame), "%s: %s", what, h2_peer_log(h2));
    }
    cr_expect(edge_is_slow() || strstr(h2_peer_log(h2), "RST/1[") == NULL, "%s: %s", what,
              h2_peer_log(h2));
}

static void expect_counted(const struct world *w, unsigned n, const char *what)
{
    cr_expect(weir_metric_becomes(
                  w->outer,
                  "weir_requests_failed_total{listener=\"tls\",reason=\"client_read_timeout\"}", n,
                  edge_ms(5000)),
              "%s: %g", what,
              weir_metric(w->outer, "weir_requests_failed_total{listener=\"tls\",reason="
                                    "\"client_read_timeout\"}"));
}

/* Several responses are due, and none gets a window. */
static void stalls(const char *path, bool connection)
{
    static const uint32_t of_streams[] = {4, 0, 0};
    static const uint32_t of_connection[] = {4, 0x7fffffff, 0};
    const char *what = path;
    struct world w;

    start(&w);
    size_t outer = edge_rss_peak(w.outer);
    size_t inner = edge_rss_peak(w.inner);
    struct h2_peer *h2 =
        h2_peer_open(weir_port(w.outer, "tls"), true, connection ? of_connection : of_streams);
    for (uint32_t id = 1; id <= 5; id += 2)
        h2_peer_get(h2, id, path);
    for (uint32_t id = 1; id <= 5; id += 2) {
        char frame[40];
        (void)snprintf(frame, sizeof(frame), "HEADERS/%u[:status=200;", id);
        cr_assert(h2_peer_hears(h2, frame), "%s: %s", what, h2_peer_log(h2));
    }
    if (!connection)
        others_go_on(h2, what);
    expect_held(&w, what);
    for (uint32_t id = 1; id <= 5; id += 2) {
        char frame[32];
        (void)snprintf(frame, sizeof(frame), "RST/%u[8] ", id);
        cr_expect(h2_peer_hears(h2, frame), "%s: no %s: %s", what, frame, h2_peer_log(h2));
    }
    cr_expect_eq(h2_reader_data(h2->reader), connection ? 65535 : OTHERS * strlen("own"), "%s",
                 what);
    cr_expect_null(strstr(h2_peer_log(h2), "/1+ES["), "%s", h2_peer_log(h2));
    expect_held(&w, what);
    expect_counted(&w, 3, what);
    cr_expect(edge_is_slow() || edge_rss_peak(w.outer) <= outer + RSS_GROWTH, "%s", what);
    cr_expect(edge_is_slow() || edge_rss_peak(w.inner) <= inner + RSS_GROWTH, "%s, inner", what);
    h2_put_window(&h2->out, 0, 100);
    h2_peer_get(h2, 201, "/own");
    if (!connection)
        h2_put_window(&h2->out, 201, 3);
    cr_expect(h2_peer_hears(h2, "DATA/201+ES[own] "), "%s: the connection is of use still", what);
    h2_peer_free(h2);
    stop(&w);
}

Test(h2_windows, of_streams_before_h1, .timeout = 90)
{
    stalls("/h1", false);
}

Test(h2_windows, of_streams_before_h2, .timeout = 90)
{
    stalls("/h2", false);
}

Test(h2_windows, of_the_connection_before_h1, .timeout = 90)
{
    stalls("/h1", true);
}

Test(h2_windows, of_the_connection_before_h2, .timeout = 90)
{
    stalls("/h2", true);
}
