/* Rows 19, 22, 24, 25 and 43 of the behaviour table with raw frames, and how a connection ends: on the side of HTTP/2 clients. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/edge.h"
#include "support/h2_frames.h"
#include "support/h2_origin.h"
#include "support/origin.h"
#include "support/stage.h"

#define OWN                                                    \
    "{match: {path: /own}, respond: {status: 200, body: own}}" \
    ", {match: {path: /large}, respond: {body_size: 100KiB}}"
#define OK "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

static const uint32_t no_window[] = {4, 0, 0};

/* A POST whose content has begun, at the origin. */
static void begin_post(struct stage *stage, struct h2_peer *h2, uint32_t id)
{
    unsigned before = script_requests(stage->script);

    h2_peer_ask(h2, id, 0, "POST", "/", "");
    h2_put_data(&h2->out, id, 0, "con");
    h2_peer_send(h2);
    cr_assert(script_wait_requests(stage->script, before + 1));
}

/* ---- drain ---- */

Test(h2_server_rows, drain_takes_a_round_trip)
{
    static const struct stage_options options = {.routes = OWN};

    for (int tls = 0; tls < 2; tls++) {
        struct stage *stage = stage_start(&options);
        struct h2_peer *h2 = h2_peer_open(tls ? stage->tls : stage->plain, tls, NULL);
        begin_post(stage, h2, 1);
        text_free(&h2->log);
        cr_assert_eq(kill(weir_pid(stage->weir), SIGTERM), 0);
        cr_expect(h2_peer_hears(h2, "PING["), "%s", h2_peer_log(h2));
        h2_peer_get(h2, 3, "/own"); /* was on its way */
        h2_put_ping(&h2->out, H2_ACK, "weirlast");
        cr_expect(h2_peer_hears(h2, "GOAWAY[3,0] "), "%s", h2_peer_log(h2));
        cr_expect(h2_peer_hears(h2, "DATA/3+ES[own] "), "%s", h2_peer_log(h2));
        const char *first = "GOAWAY[2147483647,0] PING[weirlast] ";
        cr_expect_eq(strncmp(h2_peer_log(h2), first, strlen(first)), 0, "%s", h2_peer_log(h2));
        h2_put_data(&h2->out, 1, H2_END_STREAM, "tent");
        cr_expect(h2_peer_hears(h2, "DATA/1+ES[ok] "), "%s", h2_peer_log(h2));
        cr_expect_null(strstr(h2_peer_log(h2), "RST/"), "%s", h2_peer_log(h2));
        cr_expect_eq(peer_wait_end(h2->peer), PEER_EOF);
        cr_expect_eq(weir_wait(stage->weir, 0, edge_ms(20000)), 0);
        h2_peer_free(h2);
        stage_stop(stage);
    }
}

/* ---- row 22: answered when the window is full ---- */

static uint64_t window_of(const struct h2_peer *h2, const char *start, uint64_t initial)
{
    uint64_t sum = initial;

    for (const char *at = h2_peer_log(h2); (at = strstr(at, start)) != NULL;) {
        at += strlen(start);
        sum += strtoull(at, NULL, 10);
    }
    return sum;
}

/* Content of stream 1 as windows allow, until the answer comes. */
static uint64_t push_until_answered(struct h2_peer *h2)
{
    static const char bytes[16384];
    uint64_t sent = 0;

    while (!strstr(h2_peer_log(h2), "HEADERS/1")) {
        uint64_t stream = window_of(h2, "WINDOW/1[", 65536) - sent;
        uint64_t connection = window_of(h2, "WINDOW/0[", 65535) - sent;
        uint64_t room = stream < connection ? stream : connection;
        size_t n = room < sizeof(bytes) ? (size_t)room : sizeof(bytes);
        if (n > 0)
            h2_put_frame(&h2->out, H2_DATA, 0, 1, bytes, n);
        else
            edge_nap(20);
        sent += n;
        cr_assert(h2_peer_settles(h2), "%s", h2_peer_log(h2));
    }
    return sent;
}

Test(h2_server_rows, row_22_the_rest_can_come_when_the_window_was_full, .timeout = 60)
{
    static const struct script_answer deaf = {.bytes = "", .when = SCRIPT_DEAF};
    static const struct stage_options options = {
        .listener = "timeouts: {inactivity: 2s}, http2: {budgets: {ping: {burst: 1000000}}}"};
    struct stage *stage = stage_start(&options);
    struct h2_peer *h2 = h2_peer_open(stage->tls, true, NULL);

    script_set(stage->script, &deaf, 1);
    h2_peer_ask(h2, 1, 0, "POST", "/", "");
    uint64_t sent = push_until_answered(h2);
    cr_expect(h2_peer_hears(h2, "HEADERS/1[:status=504;"), "%s", h2_peer_log(h2));
    cr_expect(h2_peer_settles(h2));
    cr_assert_geq(window_of(h2, "WINDOW/1[", 65536), sent + 1000);
    char rest[1000] = {0};
    h2_put_frame(&h2->out, H2_DATA, H2_END_STREAM, 1, rest, sizeof(rest));
    cr_expect(h2_peer_settles(h2));
    cr_expect(weir_metric_becomes(stage->weir, "weir_requests_active", 0, edge_ms(1500)));
    cr_expect_null(strstr(h2_peer_log(h2), "RST/1"), "%s", h2_peer_log(h2));
    h2_peer_free(h2);
    stage_stop(stage);
}

/* ---- row 25: a client that half-closes ---- */

Test(h2_server_rows, row_25_what_is_whole_is_answered)
{
    struct stage *stage = stage_start(NULL);

    for (int tls = 0; tls < 2; tls++) {
        struct h2_peer *h2 = h2_peer_open(tls ? stage->tls : stage->plain, tls, NULL);
        unsigned ended = script_ended(stage->script);
        begin_post(stage, h2, 1);
        h2_peer_get(h2, 3, "/");
        h2_peer_send(h2);
        peer_half_close(h2->peer);
        cr_expect(h2_peer_hears(h2, "DATA/3+ES[ok] "), "%s", h2_peer_log(h2));
        cr_expect(h2_peer_is_over(h2, 0), "%s", h2_peer_log(h2));
        cr_expect_null(strstr(h2_peer_log(h2), "HEADERS/1"), "%s", h2_peer_log(h2));
        cr_expect(script_wait_ended(stage->script, ended + 1), "the other one is cut");
        h2_peer_free(h2);
    }
    stage_stop(stage);
}

/* No WINDOW_UPDATE can come: nothing is held until some timeout. */
Test(h2_server_rows, row_25_without_window_it_is_over)
{
    static const struct stage_options options = {.routes = OWN,
                                                 .listener = "timeouts: {inactivity: 600s}"};
    struct stage *stage = stage_start(&options);

    for (int tls = 0; tls < 2; tls++) {
        struct h2_peer *h2 = h2_peer_open(tls ? stage->tls : stage->plain, tls, no_window);
        h2_peer_get(h2, 1, "/large");
        h2_peer_get(h2, 3, "/own");
        h2_put_window(&h2->out, 3, 3);
        cr_expect(h2_peer_hears(h2, "DATA/3+ES[own] "), "%s", h2_peer_log(h2));
        peer_half_close(h2->peer);
        cr_expect(h2_peer_is_over(h2, 0), "%s", h2_peer_log(h2));
        h2_peer_free(h2);
    }
    cr_expect(weir_metric_becomes(stage->weir, "weir_requests_active", 0, edge_ms(5000)));
    cr_expect_eq(
        weir_metric(stage->weir,
                    "weir_requests_failed_total{listener=\"tls\",reason=\"client_closed\"}"),
        1);
    stage_stop(stage);
}

/* ---- row 24: a pooled connection that ends as the request comes ---- */

static void expect_reuse(struct stage *stage, bool tls, const char *method, int status)
{
    static const struct script_answer answers[] = {
        {.bytes = OK}, {.bytes = "", .then = SCRIPT_CLOSE}, {.bytes = OK}};
    struct h2_peer *h2 = h2_peer_open(tls ? stage->tls : stage->plain, tls, NULL);
    unsigned before = script_requests(stage->script);
    char expected[64];

    script_set(stage->script, answers, 3);
    h2_peer_get(h2, 1, "/");
    cr_expect(h2_peer_hears(h2, "DATA/1+ES[ok] "), "%s", h2_peer_log(h2));
    h2_peer_ask(h2, 3, 0, method, "/again", "");
    h2_put_data(&h2->out, 3, H2_END_STREAM, "");
    (void)snprintf(expected, sizeof(expected), "HEADERS/3[:status=%d;", status);
    cr_expect(h2_peer_hears(h2, expected), "%s: %s", method, h2_peer_log(h2));
    cr_expect(h2_peer_settles(h2));
    cr_expect_eq(script_requests(stage->script), before + (status == 200 ? 3 : 2), "%s", method);
    h2_peer_free(h2);
}

Test(h2_server_rows, row_24_only_what_is_safe_goes_again)
{
    for (int tls = 0; tls < 2; tls++) {
        struct stage *stage = stage_start(NULL);
        expect_reuse(stage, tls, "PUT", 200);
        expect_reuse(stage, tls, "POST", 502);
        stage_stop(stage);
    }
}

/* ---- row 19: heads before the final one ---- */

Test(h2_server_rows, row_19_several_of_an_h1_origin)
{
    static const struct script_answer answer = {
        .bytes = "HTTP/1.1 100 Continue\r\n\r\n"
                 "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
                 "HTTP/1.1 102 Processing\r\n\r\n"
                 "HTTP/1.1 103 Early Hints\r\nLink: </b>\r\n\r\n" OK};
    struct stage *stage = stage_start(NULL);

    script_set(stage->script, &answer, 1);
    for (int tls = 0; tls < 2; tls++) {
        struct h2_peer *h2 = h2_peer_open(tls ? stage->tls : stage->plain, tls, NULL);
        h2_peer_get(h2, 1, "/");
        cr_expect(h2_peer_hears(h2, "DATA/1+ES[ok] "), "%s", h2_peer_log(h2));
        const char *first = strstr(h2_peer_log(h2), "HEADERS/1[:status=103;link=</a>;");
        const char *second = strstr(h2_peer_log(h2), "HEADERS/1[:status=103;link=</b>;");
        const char *last = strstr(h2_peer_log(h2), "HEADERS/1[:status=200;");
        cr_expect(first && second && last && first < second && second < last, "%s",
                  h2_peer_log(h2));
        cr_expect_null(strstr(h2_peer_log(h2), "RST/1"), "%s", h2_peer_log(h2));
        h2_peer_free(h2);
    }
    stage_stop(stage);
}

static void answer_by_path(struct h2_visit *visit, struct h2_asked *asked)
{
    if (strcmp(asked->path, "/several") == 0) {
        h2_put_headers(&visit->out, asked->id, 0, ":status: 100\n");
        h2_put_headers(&visit->out, asked->id, 0, ":status: 103\nlink: </a>\n");
        h2_put_headers(&visit->out, asked->id, 0, ":status: 103\nlink: </b>\n");
    }
    if (strcmp(asked->path, "/last") == 0)
        h2_put_headers(&visit->out, asked->id, H2_END_STREAM, ":status: 103\nlink: </a>\n");
    else if (strcmp(asked->path, "/101") == 0)
        h2_put_headers(&visit->out, asked->id, 0, ":status: 101\n");
    else
        h2_origin_answer(visit, asked);
}

static const struct h2_origin_rules by_path = {.whole = answer_by_path};

Test(h2_server_rows, row_19_of_an_h2_origin)
{
    struct h2_origin *origin = h2_origin_new(&by_path);
    const struct stage_options options = {
        .cluster = "protocol: http2", .serve = h2_origin_serve, .arg = origin};
    struct stage *stage = stage_start(&options);

    for (int tls = 0; tls < 2; tls++) {
        struct h2_peer *h2 = h2_peer_open(tls ? stage->tls : stage->plain, tls, NULL);
        h2_peer_get(h2, 1, "/several");
        cr_expect(h2_peer_hears(h2, "DATA/1+ES[ok] "), "%s", h2_peer_log(h2));
        cr_expect(strstr(h2_peer_log(h2), "HEADERS/1[:status=103;link=</a>;"), "%s",
                  h2_peer_log(h2));
        cr_expect(strstr(h2_peer_log(h2), "HEADERS/1[:status=103;link=</b>;"), "%s",
                  h2_peer_log(h2));
        h2_peer_get(h2, 3, "/last");
        cr_expect(h2_peer_hears(h2, "HEADERS/3[:status=502;"), "%s", h2_peer_log(h2));
        h2_peer_get(h2, 5, "/101");
        cr_expect(h2_peer_hears(h2, "HEADERS/5[:status=502;"), "%s", h2_peer_log(h2));
        h2_peer_get(h2, 7, "/");
        cr_expect(h2_peer_hears(h2, "DATA/7+ES[ok] "), "%s", h2_peer_log(h2));
        h2_peer_free(h2);
    }
    cr_expect_eq(h2_origin_request(origin, 1).reset, 1, "PROTOCOL_ERROR");
    cr_expect_eq(h2_origin_connections(origin), 1, "a stream is wrong, not the connection");
    stage_stop(stage);
    h2_origin_free(origin);
}
