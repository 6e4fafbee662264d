/* Tunnels of HTTP/2 clients, with raw frames: extended CONNECT (RFC 8441) and CONNECT, to upstreams of HTTP/1.1 and of HTTP/2 (another
 * weir before the same origin). */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "support/edge.h"
#include "support/h2_frames.h"
#include "support/origin.h"
#include "support/tunnel_origin.h"
#include "support/weir.h"

#define ROUTES                                                       \
    "[{match: {path: /h1/none}, upgrade: [], cluster: origin},\n"    \
    "     {match: {path: /h1}, cluster: origin},\n"                  \
    "     {match: {path: /h2}, cluster: mid},\n"                     \
    "     {match: {host: h1.test}, connect: true, cluster: origin}," \
    "     {match: {host: h2.test}, connect: true, cluster: mid}]"

struct world {
    struct tunnel_origin tunnels;
    struct origin *origin;
    struct weir *inner;
    struct weir *outer;
};

static const char *const upstreams[] = {"h1", "h2"};

/* LISTENER: more of the outer one's, "timeouts: {tunnel: 1s}"; NULL: nothing. */
static void start(struct world *w, const char *listener)
{
    *w = (struct world){0};
    w->origin = origin_start(tunnel_origin_serve, &w->tunnels);
    w->inner = weir_start("workers: 1\nadmin: 127.0.0.1:0\n"
                          "listeners:\n"
                          "  - name: mid\n    bind: 127.0.0.1:0\n"
                          "    routes: [{match: {host: h2.test}, connect: true, cluster: origin},\n"
                          "             {cluster: origin}]\n"
                          "clusters: [{name: origin, endpoints: [127.0.0.1:%d]}]\n",
                          origin_port(w->origin));
    w->outer = weir_start("workers: 1\nadmin: 127.0.0.1:0\naccess_log: access.log\n"
                          "listeners:\n"
                          "  - {name: plain, bind: 127.0.0.1:0, %s%sroutes: " ROUTES "}\n"
                          "  - {name: tls, bind: 127.0.0.1:0, %s%sroutes: " ROUTES ",\n"
                          "     tls: {certificates: [{chain: cert.pem, key: key.pem}]}}\n"
                          "clusters:\n"
                          "  - {name: origin, endpoints: [127.0.0.1:%d]}\n"
                          "  - {name: mid, endpoints: [127.0.0.1:%d], protocol: http2}\n",
                          listener ? listener : "", listener ? ", " : "", listener ? listener : "",
                          listener ? ", " : "", origin_port(w->origin), weir_port(w->inner, "mid"));
}

static void expect_none(const struct weir *weir, const char *sample)
{
    cr_expect(weir_metric_becomes(weir, sample, 0, edge_ms(5000)), "%s is %g", sample,
              weir_metric(weir, sample));
}

/* Nothing is left of any tunnel. */
static void stop(struct world *w)
{
    expect_none(w->outer, "weir_requests_active");
    expect_none(w->inner, "weir_requests_active");
    expect_none(w->outer, "weir_upstream_connections_active{cluster=\"origin\"}");
    expect_none(w->outer, "weir_upstream_connections_active{cluster=\"mid\"}");
    expect_none(w->inner, "weir_upstream_connections_active{cluster=\"origin\"}");
    expect_none(w->outer, "weir_buffer_bytes");
    weir_stop(w->outer);
    weir_stop(w->inner);
    origin_stop(w->origin);
}

static struct h2_peer *client(const struct world *w, bool tls)
{
    return h2_peer_open(weir_port(w->outer, tls ? "tls" : "plain"), tls, NULL);
}

/* Extended CONNECT to PATH of UPSTREAM. */
static void ask(struct h2_peer *h2, uint32_t id, unsigned flags, const char *upstream,
                const char *path)
{
    struct text fields = {0};

    text_say(&fields,
             ":method: CONNECT\n:protocol: websocket\n:scheme: https\n:path: /%s/%s\n"
             ":authority: localhost\nsec-websocket-version: 13\nsec-websocket-key: none\n",
             upstream, path);
    h2_put_headers(&h2->out, id, flags, fields.p);
    text_free(&fields);
}

static void hears(struct h2_peer *h2, const char *text, const char *what)
{
    cr_assert(h2_peer_hears(h2, text), "%s: no %s in %s", what, text, h2_peer_log(h2));
}

static void never_heard(struct h2_peer *h2, const char *text, const char *what)
{
    cr_expect(h2_peer_settles(h2), "%s: %s", what, h2_peer_log(h2));
    cr_expect_null(strstr(h2_peer_log(h2), text), "%s: %s", what, h2_peer_log(h2));
}

static void expect_logged(const struct world *w, const char *words)
{
    cr_expect(weir_file_has(w->outer, "access.log", words, edge_ms(5000)), "no %s", words);
}

/* ---- both ways ---- */

static void goes_both_ways(struct world *w, const char *upstream, bool tls)
{
    unsigned before = atomic_load(&w->tunnels.eof);
    struct h2_peer *h2 = client(w, tls);

    hears(h2, ",8=1,", "SETTINGS_ENABLE_CONNECT_PROTOCOL");
    ask(h2, 1, 0, upstream, "chat");
    hears(h2, "HEADERS/1[:status=200;", upstream);
    cr_expect_eq(strncmp(w->tunnels.head, "GET /", 5), 0, "%s", w->tunnels.head);
    cr_expect_not_null(strstr(w->tunnels.head, "/chat HTTP/1.1\r\n"), "%s", w->tunnels.head);
    cr_expect_not_null(strstr(w->tunnels.head, "sec-websocket-version: 13\r\n"), "%s",
                       w->tunnels.head);
    cr_expect_null(strstr(w->tunnels.head, "none"), "its key goes nowhere: %s", w->tunnels.head);
    h2_put_data(&h2->out, 1, 0, "up");
    hears(h2, "DATA/1[up] ", upstream);
    never_heard(h2, "+ES[", upstream);
    cr_expect_eq(atomic_load(&w->tunnels.eof), before);
    h2_put_data(&h2->out, 1, H2_END_STREAM, "");
    hears(h2, "+ES[", upstream);
    cr_expect_not_null(strstr(h2_peer_log(h2), "[bye] "), "%s: %s", upstream, h2_peer_log(h2));
    cr_expect(tunnel_origin_counts(&w->tunnels.eof, before + 1), "%s", upstream);
    never_heard(h2, "RST/", upstream);
    cr_expect_null(strstr(h2_peer_log(h2), "sec-websocket-accept"), "%s", h2_peer_log(h2));
    h2_peer_free(h2);
}

Test(extended_connect, websocket_both_ways_and_ended_by_the_client)
{
    struct world w;

    start(&w, NULL);
    for (size_t i = 0; i < WR_COUNT_OF(upstreams); i++) {
        goes_both_ways(&w, upstreams[i], false);
        goes_both_ways(&w, upstreams[i], true);
    }
    expect_logged(&w, "\"status\":200,\"tunnel\":\"websocket\",\"request_bytes\":2,"
                      "\"response_bytes\":5,");
    expect_logged(&w, "\"ended\":\"ok\"");
    stop(&w);
}

static void ended_by_the_origin(struct world *w, const char *upstream, bool tls)
{
    unsigned before = atomic_load(&w->tunnels.eof);
    uint64_t bytes = atomic_load(&w->tunnels.in.bytes);
    struct h2_peer *h2 = client(w, tls);

    ask(h2, 1, 0, upstream, "ends");
    hears(h2, "+ES[", upstream);
    cr_expect_not_null(strstr(h2_peer_log(h2), "[hello] "), "%s", h2_peer_log(h2));
    for (int i = 0; i < 3; i++) {
        h2_put_data(&h2->out, 1, 0, "still");
        never_heard(h2, "RST/", upstream);
    }
    cr_expect_eq(atomic_load(&w->tunnels.eof), before, "%s: half-closed only", upstream);
    h2_put_data(&h2->out, 1, H2_END_STREAM, "!");
    h2_peer_send(h2);
    cr_expect(tunnel_origin_counts(&w->tunnels.eof, before + 1), "%s", upstream);
    cr_expect_eq(atomic_load(&w->tunnels.in.bytes) - bytes, 16, "%s", upstream);
    never_heard(h2, "RST/", upstream);
    h2_peer_free(h2);
}

Test(extended_connect, ended_by_the_origin)
{
    struct world w;

    start(&w, NULL);
    for (size_t i = 0; i < WR_COUNT_OF(upstreams); i++) {
        ended_by_the_origin(&w, upstreams[i], false);
        ended_by_the_origin(&w, upstreams[i], true);
    }
    expect_logged(&w, "\"request_bytes\":16,\"response_bytes\":5,");
    stop(&w);
}

/* A client that has nothing to say, as its HEADERS say. */
Test(extended_connect, ended_with_its_head)
{
    struct world w;

    start(&w, NULL);
    for (size_t i = 0; i < WR_COUNT_OF(upstreams); i++) {
        struct h2_peer *h2 = client(&w, true);
        ask(h2, 1, H2_END_STREAM, upstreams[i], "chat");
        hears(h2, "+ES[", upstreams[i]);
        cr_expect_not_null(strstr(h2_peer_log(h2), "[bye] "), "%s", h2_peer_log(h2));
        never_heard(h2, "RST/", upstreams[i]);
        h2_peer_free(h2);
    }
    stop(&w);
}

/* ---- ends that are none ---- */

/* Beside another tunnel of the same connection, which goes on. */
static void reset_by_the_client(struct world *w, const char *upstream, bool tls)
{
    unsigned before = atomic_load(&w->tunnels.cut);
    unsigned eof = atomic_load(&w->tunnels.eof);
    struct h2_peer *h2 = client(w, tls);

    ask(h2, 1, 0, upstream, "chat");
    ask(h2, 3, 0, upstream, "chat");
    h2_put_data(&h2->out, 1, 0, "a");
    h2_put_data(&h2->out, 3, 0, "b");
    hears(h2, "DATA/1[a] ", upstream);
    hears(h2, "DATA/3[b] ", upstream);
    h2_put_reset(&h2->out, 1, 8);
    h2_peer_send(h2);
    cr_expect(tunnel_origin_counts(&w->tunnels.cut, before + 1), "%s: no reset", upstream);
    cr_expect_eq(atomic_load(&w->tunnels.eof), eof, "%s: a cut looks like an end", upstream);
    h2_put_data(&h2->out, 3, 0, "more");
    hears(h2, "DATA/3[more] ", upstream);
    h2_put_data(&h2->out, 3, H2_END_STREAM, "");
    hears(h2, "DATA/3+ES[", upstream);
    h2_peer_free(h2);
}

Test(extended_connect, reset_by_the_client)
{
    struct world w;

    start(&w, NULL);
    for (size_t i = 0; i < WR_COUNT_OF(upstreams); i++) {
        reset_by_the_client(&w, upstreams[i], false);
        reset_by_the_client(&w, upstreams[i], true);
    }
    expect_logged(&w, "\"ended\":\"client_reset\"");
    stop(&w);
}

Test(extended_connect, broken_by_the_origin)
{
    struct world w;

    start(&w, NULL);
    for (size_t i = 0; i < WR_COUNT_OF(upstreams); i++) {
        struct h2_peer *h2 = client(&w, true);
        ask(h2, 1, 0, upstreams[i], "breaks");
        hears(h2, "HEADERS/1[:status=200;", upstreams[i]);
        hears(h2, "RST/1[2] ", upstreams[i]);
        never_heard(h2, "+ES[", upstreams[i]);
        h2_peer_free(h2);
    }
    expect_logged(&w, "\"ended\":\"response_incomplete\"");
    stop(&w);
}

Test(extended_connect, silence_ends_it)
{
    struct world w;

    start(&w, "timeouts: {tunnel: 2s, inactivity: 100ms, keep_alive: 1s}");
    for (size_t i = 0; i < WR_COUNT_OF(upstreams); i++) {
        unsigned before = atomic_load(&w.tunnels.cut);
        struct h2_peer *h2 = client(&w, true);
        ask(h2, 1, 0, upstreams[i], "chat");
        for (char byte = 'a'; byte < 'e'; byte++) { /* bytes now and then keep it */
            char words[32];
            (void)snprintf(words, sizeof(words), "DATA/1[%c] ", byte);
            edge_nap(700);
            h2_put_frame(&h2->out, H2_DATA, 0, 1, &byte, 1);
            hears(h2, words, upstreams[i]);
        }
        hears(h2, "RST/1[8] ", upstreams[i]);
        cr_expect_null(strstr(h2_peer_log(h2), "+ES["), "%s", h2_peer_log(h2));
        cr_expect(tunnel_origin_counts(&w.tunnels.cut, before + 1), "%s", upstreams[i]);
        h2_peer_free(h2);
    }
    expect_logged(&w, "\"ended\":\"tunnel_timeout\"");
    stop(&w);
}

/* ---- no tunnel ---- */

struct declined_case {
    const char *path;
    const char *frames; /* the beginning of them */
    unsigned heads;     /* that the origin gets */
};

static void expect_declined(struct world *w, const struct declined_case *c, const char *upstream)
{
    unsigned before = atomic_load(&w->tunnels.heads);
    uint64_t bytes = atomic_load(&w->tunnels.in.bytes);
    struct h2_peer *h2 = client(w, true);

    ask(h2, 1, 0, upstream, c->path);
    h2_put_data(&h2->out, 1, 0, "GET /smuggled HTTP/1.1\r\n\r\n");
    hears(h2, c->frames, c->path);
    hears(h2, "/1+ES[", c->path);
    h2_put_data(&h2->out, 1, H2_END_STREAM, "GET /smuggled HTTP/1.1\r\n\r\n");
    cr_expect(h2_peer_settles(h2), "%s", h2_peer_log(h2));
    cr_expect(tunnel_origin_counts(&w->tunnels.heads, before + c->heads));
    cr_expect_eq(atomic_load(&w->tunnels.heads), before + c->heads, "%s", c->path);
    cr_expect_eq(atomic_load(&w->tunnels.in.bytes), bytes, "%s: content went through", c->path);
    h2_peer_free(h2);
}

Test(extended_connect, declined)
{
    static const struct declined_case cases[] = {
        {"declines", "HEADERS/1[:status=403;", 1},
        {"pretends", "HEADERS/1[:status=502;", 1},
    };
    static const struct declined_case by_route = {"none", "HEADERS/1[:status=405;", 0};
    struct world w;

    start(&w, NULL);
    for (size_t i = 0; i < WR_COUNT_OF(upstreams); i++) {
        for (size_t k = 0; k < WR_COUNT_OF(cases); k++)
            expect_declined(&w, &cases[k], upstreams[i]);
    }
    expect_declined(&w, &by_route, "h1");
    stop(&w);
}

#define EXTENDED ":method: CONNECT\n:protocol: websocket\n"
Test(extended_connect, heads_that_break_the_rules)
{
    static const char *const cases[] = {
        EXTENDED ":path: /h1/x\n:authority: localhost\n",
        EXTENDED ":scheme: https\n:authority: localhost\n",
        EXTENDED ":scheme: https\n:path: \n:authority: localhost\n",
        EXTENDED ":scheme: https\n:path: /h1/x\n",
        EXTENDED ":scheme: gopher\n:path: /h1/x\n:authority: localhost\n",
        EXTENDED ":protocol: websocket\n:scheme: https\n:path: /h1/x\n:authority: localhost\n",
        ":method: CONNECT\n:protocol: \n:scheme: https\n:path: /h1/x\n:authority: localhost\n",
        ":method: CONNECT\n:protocol: a b\n:scheme: https\n:path: /h1/x\n:authority: localhost\n",
        ":method: GET\n:protocol: websocket\n:scheme: https\n:path: /h1/x\n:authority: localhost\n",
        ":method: CONNECT\n:scheme: https\n:path: /h1/x\n:authority: localhost\n",
        ":method: CONNECT\n:path: /h1/x\n:authority: h1.test:443\n",
        ":method: CONNECT\n:authority: h1.test\n", /* without a port: RFC 9110 section 7.1 */
        ":method: CONNECT\n:scheme: https\n:authority: h1.test:443\n",
    };
    struct world w;

    start(&w, NULL);
    for (size_t i = 0; i < WR_COUNT_OF(cases); i++) {
        struct h2_peer *h2 = client(&w, i % 2 == 1);
        h2_put_headers(&h2->out, 1, 0, cases[i]);
        h2_put_data(&h2->out, 1, 0, "GET /smuggled HTTP/1.1\r\n\r\n");
        cr_expect(h2_peer_settles(h2), "%s: %s", cases[i], h2_peer_log(h2));
        bool reset = strstr(h2_peer_log(h2), "RST/1[1] ") != NULL;
        bool told = strstr(h2_peer_log(h2), "HEADERS/1[:status=400;") != NULL;
        cr_expect(reset != told, "%s: %s", cases[i], h2_peer_log(h2));
        ask(h2, 3, 0, "h1", "chat");
        h2_put_data(&h2->out, 3, 0, "works");
        hears(h2, "DATA/3[works] ", cases[i]);
        h2_peer_free(h2);
    }
    cr_expect_eq(atomic_load(&w.tunnels.heads), WR_COUNT_OF(cases));
    stop(&w);
}

/* ---- CONNECT ---- */

static void connects(struct world *w, const char *host, bool tls)
{
    unsigned before = atomic_load(&w->tunnels.eof);
    struct h2_peer *h2 = client(w, tls);
    char fields[64];

    (void)snprintf(fields, sizeof(fields), ":method: CONNECT\n:authority: %s.test:443\n", host);
    h2_put_headers(&h2->out, 1, 0, fields);
    hears(h2, "HEADERS/1[:status=200;", host);
    cr_expect_null(strstr(h2_peer_log(h2), "content-length"), "%s", h2_peer_log(h2));
    (void)snprintf(fields, sizeof(fields), "CONNECT %s.test:443 HTTP/1.1\r\n", host);
    cr_expect_eq(strncmp(w->tunnels.head, fields, strlen(fields)), 0, "%s", w->tunnels.head);
    h2_put_data(&h2->out, 1, 0, "GET / HTTP/1.1\r\n\r\n");
    hears(h2, "GET / HTTP/1.1", host);
    h2_put_data(&h2->out, 1, H2_END_STREAM, "");
    hears(h2, "+ES[", host);
    cr_expect_not_null(strstr(h2_peer_log(h2), "[bye] "), "%s", h2_peer_log(h2));
    cr_expect(tunnel_origin_counts(&w->tunnels.eof, before + 1));
    h2_peer_free(h2);
}

Test(extended_connect, plain_connect_where_a_route_allows_it)
{
    struct world w;

    start(&w, NULL);
    for (size_t i = 0; i < WR_COUNT_OF(upstreams); i++) {
        connects(&w, upstreams[i], false);
        connects(&w, upstreams[i], true);
    }
    expect_logged(
        &w, "\"status\":200,\"tunnel\":\"connect\",\"request_bytes\":18,\"response_bytes\":21,");
    unsigned before = atomic_load(&w.tunnels.heads);
    struct h2_peer *h2 = client(&w, true);
    h2_put_headers(&h2->out, 1, 0, ":method: CONNECT\n:authority: other.test:443\n");
    hears(h2, "HEADERS/1[:status=405;", "no route");
    cr_expect_eq(atomic_load(&w.tunnels.heads), before);
    h2_peer_free(h2);
    stop(&w);
}
