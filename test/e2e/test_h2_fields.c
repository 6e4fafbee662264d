/* Fields on their way through all versions: their order, cookies in crumbs, and header tables of sizes that a peer may ask for. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/h2_origin.h"
#include "support/origin.h"
#include "support/pairings.h"
#include "support/script.h"
#include "support/stage.h"

#define ROUNDS 50

/* ---- order: RFC 9110 section 5.3 ---- */

static void ask_with_fields(struct pairing_client *client, const struct pairing *pairing)
{
    if (client->h2 != NULL) {
        h2_peer_ask(client->h2, 1, H2_END_STREAM, "GET", pairing->path,
                    "x-b: 1\nx-a: 2\nx-b: 3\ncookie: c=1\nx-a: 4\ncookie: d=2\n");
        h2_peer_send(client->h2);
        return;
    }
    char request[256];
    (void)snprintf(request, sizeof(request),
                   "GET %s HTTP/1.1\r\nHost: localhost\r\nX-B: 1\r\nX-A: 2\r\nX-B: 3\r\n"
                   "Cookie: c=1; d=2\r\nX-A: 4\r\n\r\n",
                   pairing->path);
    cr_expect(peer_say(client->peer, request));
}

Test(h2_fields, order_is_kept_both_ways)
{
    static const struct script_answer answer = {
        .bytes = "HTTP/1.1 200 OK\r\nX-D: 1\r\nSet-Cookie: b=1\r\nX-C: 2\r\nSet-Cookie: a=2\r\n"
                 "X-D: 3\r\nContent-Length: 2\r\n\r\nok"};
    static const char *const sent[] = {"x-b: 1", "x-a: 2", "x-b: 3", "x-a: 4"};
    struct script *script = script_new(&answer, 1);
    struct pairings_world world;

    pairings_start(&world, script_serve, script);
    for (unsigned i = 0; i < PAIRINGS; i++) {
        struct pairing_client client = pairing_connect(&world, &pairings[i]);
        ask_with_fields(&client, &pairings[i]);
        struct pairing_seen seen = pairing_see(&client, "GET");
        cr_expect_eq(seen.status, 200, "%s", pairings[i].name);
        cr_expect(strstr(seen.fields.p, "x-d=1;set-cookie=b=1;x-c=2;set-cookie=a=2;x-d=3;"),
                  "%s: %s", pairings[i].name, seen.fields.p);
        pairing_seen_free(&seen);
        pairing_close(&client);
        cr_assert(script_wait_requests(script, i + 1));
        const char *at = script_request(script, i)->head;
        for (unsigned j = 0; j < 4; j++) {
            at = strcasestr(at, sent[j]);
            cr_assert(at != NULL, "%s: %s is not in its place: %s", pairings[i].name, sent[j],
                      script_request(script, i)->head);
            at++;
        }
        cr_expect_str_eq(script_field(script, i, "cookie"), "c=1; d=2", "%s", pairings[i].name);
        cr_expect_eq(script_fields(script, i, "cookie"), 1, "%s", pairings[i].name);
    }
    pairings_stop(&world);
    script_free(script);
}

/* ---- cookies: RFC 9113 section 8.2.3 ---- */

Test(h2_fields, cookies_go_to_an_upstream_in_crumbs)
{
    static const struct h2_origin_rules answering = {NULL};
    struct h2_origin *origin = h2_origin_new(&answering);
    const struct stage_options options = {
        .cluster = "protocol: http2", .serve = h2_origin_serve, .arg = origin};
    struct stage *stage = stage_start(&options);
    struct h2_peer *h2 = h2_peer_open(stage->tls, true, NULL);

    cr_expect_eq(
        stage_status(stage, "GET / HTTP/1.1\r\nHost: localhost\r\nCookie: a=1; b=2; c=3\r\n\r\n"),
        200);
    cr_expect(h2_origin_hears(origin, 1, "cookie!=a=1;cookie!=b=2;cookie!=c=3;"));
    h2_peer_ask(h2, 1, H2_END_STREAM, "GET", "/", "cookie: d=4\nx: y\ncookie: e=5; f=6\n");
    cr_expect(h2_peer_hears(h2, "DATA/1+ES[ok] "), "%s", h2_peer_log(h2));
    cr_expect(h2_origin_hears(origin, 1, "cookie!=d=4;cookie!=e=5;cookie!=f=6;"));
    h2_peer_free(h2);
    stage_stop(stage);
    h2_origin_free(origin);
}

/* ---- header tables: RFC 7541 section 4.2. Those who read keep 4096 bytes, so more would be found out ---- */

static const uint32_t no_table[] = {1, 0, 0};
static const uint32_t huge_table[] = {1, 0xffffffff, 0};

static void expect_served(struct h2_peer *h2, uint32_t first)
{
    for (uint32_t i = 0; i < ROUNDS; i++) {
        char more[128];
        char answer[64];
        (void)snprintf(more, sizeof(more), "x-number: %u\nx-same: aaaaaaaaaaaaaaaaaaaaaaaa\n", i);
        (void)snprintf(answer, sizeof(answer), "DATA/%u+ES[ok] ", first + 2 * i);
        h2_peer_ask(h2, first + 2 * i, H2_END_STREAM, "GET", "/", more);
        cr_assert(h2_peer_hears(h2, answer), "%s", h2_peer_log(h2));
    }
}

static const struct script_answer many_fields = {
    .bytes = "HTTP/1.1 200 OK\r\nX-Some: bbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\r\nX-More: cccccccccc\r\n"
             "Content-Length: 2\r\n\r\nok"};

Test(h2_fields, header_tables_that_clients_ask_for)
{
    static const uint32_t *const sizes[] = {no_table, huge_table};
    struct stage *stage = stage_start(NULL);

    script_set(stage->script, &many_fields, 1);
    for (int i = 0; i < 4; i++) {
        struct h2_peer *h2 = h2_peer_open(stage->tls, true, sizes[i / 2]);
        expect_served(h2, 1);
        h2_put_settings(&h2->out, sizes[1 - i / 2]);
        expect_served(h2, 1 + 2 * ROUNDS);
        cr_expect_null(strstr(h2_peer_log(h2), "GOAWAY"), "%s", h2_peer_log(h2));
        h2_peer_free(h2);
    }
    stage_stop(stage);
}

static void expect_table_of_origin(const uint32_t *size, const uint32_t *later)
{
    const struct h2_origin_rules rules = {.settings = size};
    struct h2_origin *origin = h2_origin_new(&rules);
    const struct stage_options options = {
        .cluster = "protocol: http2", .serve = h2_origin_serve, .arg = origin};
    struct stage *stage = stage_start(&options);
    struct h2_peer *h2 = h2_peer_open(stage->plain, false, NULL);

    expect_served(h2, 1);
    struct h2_visit *visit = h2_origin_enter(origin, 1);
    h2_put_settings(&visit->out, later);
    h2_origin_leave(visit);
    expect_served(h2, 1 + 2 * ROUNDS);
    cr_expect(h2_origin_hears(origin, 1, "x-number=49;"));
    cr_expect_eq(h2_origin_connections(origin), 1);
    cr_expect_eq(h2_origin_requests(origin), 2 * ROUNDS);
    h2_peer_free(h2);
    stage_stop(stage);
    h2_origin_free(origin);
}

Test(h2_fields, header_tables_that_origins_ask_for)
{
    expect_table_of_origin(no_table, huge_table);
    expect_table_of_origin(huge_table, no_table);
}
