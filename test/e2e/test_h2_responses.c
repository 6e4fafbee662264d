/* Rows 18 to 22 of the behaviour table on the HTTP/2 side, with raw frames: what an HTTP/1.1 origin answers, as frames. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "support/h2_frames.h"
#include "support/stage.h"

struct response_case {
    const char *name;
    const char *method;
    struct script_answer answer;
    const char *frames[4]; /* in this order; up to the first NULL */
    const char *never;     /* NULL: nothing */
};

static const struct response_case responses[] = {
    {"HEAD",
     "HEAD",
     {.bytes = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"},
     {"HEADERS/1+ES[:status=200;", "content-length=5;"},
     "DATA/1"},
    {"204",
     "GET",
     {.bytes = "HTTP/1.1 204 No Content\r\n\r\n"},
     {"HEADERS/1+ES[:status=204;"},
     "DATA/1"},
    {"304",
     "GET",
     {.bytes = "HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\nContent-Length: 5\r\n\r\n"},
     {"HEADERS/1+ES[:status=304;", "etag=\"x\";"},
     "DATA/1"},
    {"chunks",
     "GET",
     {.bytes = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"},
     {"HEADERS/1[:status=200;", "DATA/1", "hello"},
     "transfer-encoding"},
    {"to the end of the connection",
     "GET",
     {.bytes = "HTTP/1.1 200 OK\r\n\r\nhello", .then = SCRIPT_CLOSE},
     {"HEADERS/1[:status=200;", "DATA/1+ES["},
     "RST/1"},
    {"hop-by-hop fields",
     "GET",
     {.bytes = "HTTP/1.1 200 OK\r\nConnection: keep-alive, x-hop\r\nKeep-Alive: 5\r\nX-Hop: 1\r\n"
               "X-End: 1\r\nContent-Length: 2\r\n\r\nok"},
     {"HEADERS/1[:status=200;", "x-end=1;", "DATA/1+ES[ok] "},
     "x-hop"},
    {"103 and then the answer",
     "GET",
     {.bytes = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
               "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"},
     {"HEADERS/1[:status=103;", "HEADERS/1[:status=200;", "DATA/1+ES[ok] "},
     "RST/1"},
    {"cut short of its length",
     "GET",
     {.bytes = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel", .then = SCRIPT_CLOSE},
     {"HEADERS/1[:status=200;", "RST/1[2] "},
     "+ES["},
    {"cut short of its last chunk",
     "GET",
     {.bytes = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n",
      .then = SCRIPT_CLOSE},
     {"HEADERS/1[:status=200;", "RST/1[2] "},
     "+ES["},
    {"bad chunk",
     "GET",
     {.bytes = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\nxyz\r\npoison"},
     {"HEADERS/1[:status=200;", "RST/1[2] "},
     "+ES["},
    {"no answer at all",
     "GET",
     {.bytes = "", .then = SCRIPT_CLOSE},
     {"HEADERS/1[:status=502;", "+ES["},
     "RST/1"},
    {"length and chunks",
     "GET",
     {.bytes = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
               "6\r\npoison\r\n0\r\n\r\n"},
     {"HEADERS/1[:status=502;", "+ES["},
     "poison"},
    {"LF in a value",
     "GET",
     {.bytes = "HTTP/1.1 200 OK\r\nX: a\npoison: 1\r\nContent-Length: 0\r\n\r\n"},
     {"HEADERS/1[:status=502;", "+ES["},
     "poison"},
    {"101 nobody asked for",
     "GET",
     {.bytes =
          "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\npoison"},
     {"HEADERS/1[:status=502;", "+ES["},
     "poison"},
};

/* The connection serves another request after each. What is cut short at once has a head all the same. */
static void expect_frames(struct stage *stage, const struct response_case *c)
{
    struct h2_peer *h2 = h2_peer_open(stage->tls, true, NULL);
    const char *at;

    script_set(stage->script, &c->answer, 1);
    h2_peer_ask(h2, 1, H2_END_STREAM, c->method, "/", "");
    for (size_t i = 0; i < WR_COUNT_OF(c->frames) && c->frames[i]; i++)
        cr_expect(h2_peer_hears(h2, c->frames[i]), "%s: no %s in %s", c->name, c->frames[i],
                  h2_peer_log(h2));
    at = h2_peer_log(h2);
    for (size_t i = 0; at && i < WR_COUNT_OF(c->frames) && c->frames[i]; i++)
        at = strstr(at, c->frames[i]);
    cr_expect_not_null(at, "%s: order of %s", c->name, h2_peer_log(h2));
    cr_expect(h2_peer_settles(h2), "%s", c->name);
    cr_expect_null(strstr(h2_peer_log(h2), c->never), "%s: %s", c->name, h2_peer_log(h2));
    script_set(stage->script, NULL, 0);
    h2_peer_get(h2, 3, "/");
    cr_expect(h2_peer_hears(h2, "DATA/3+ES[ok] "), "%s: %s", c->name, h2_peer_log(h2));
    h2_peer_free(h2);
}

Test(h2_responses, rows_16_to_20_as_frames)
{
    struct stage *stage = stage_start(NULL);

    for (size_t i = 0; i < WR_COUNT_OF(responses); i++)
        expect_frames(stage, &responses[i]);
    stage_stop(stage);
}

/* Row 21. */
Test(h2_responses, row_21_trailers_both_ways)
{
    static const struct script_answer answer = {
        .bytes = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: x-sum\r\n\r\n"
                 "2\r\nok\r\n0\r\nX-Sum: 7\r\nContent-Length: 9\r\nHost: x\r\n\r\n"};
    struct stage *stage = stage_start(NULL);
    struct h2_peer *h2 = h2_peer_open(stage->tls, true, NULL);

    script_set(stage->script, &answer, 1);
    h2_peer_ask(h2, 1, 0, "POST", "/", "te: trailers\n");
    h2_put_data(&h2->out, 1, 0, "hello");
    h2_put_headers(&h2->out, 1, H2_END_STREAM, "x-up: 1\nauthorization: x\n");
    cr_expect(h2_peer_hears(h2, "HEADERS/1+ES[x-sum=7;] "), "%s", h2_peer_log(h2));
    const struct script_request *request = script_request(stage->script, 0);
    cr_expect(request->whole);
    cr_expect_str_eq(request->content, "hello");
    cr_expect_not_null(strstr(request->raw, "0\r\nx-up: 1\r\n\r\n"), "%s", request->raw);
    cr_expect_null(strstr(request->head, "ontent-length"), "%s", request->head);
    h2_peer_free(h2);
    stage_stop(stage);
}

/* Row 22: the answer comes at once; what follows it of a large upload is not waited for. */
Test(h2_responses, row_22_early_answer)
{
    static const struct script_answer answer = {
        .bytes = "HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbig",
        .when = SCRIPT_EARLY};
    struct stage *stage = stage_start(NULL);
    struct h2_peer *h2 = h2_peer_open(stage->tls, true, NULL);

    script_set(stage->script, &answer, 1);
    h2_peer_ask(h2, 1, 0, "POST", "/", "content-length: 100000000\n");
    h2_put_data(&h2->out, 1, 0, "some of it");
    cr_expect(h2_peer_hears(h2, "RST/1[0] "), "%s", h2_peer_log(h2));
    const char *whole = strstr(h2_peer_log(h2), "DATA/1+ES[big] ");
    cr_expect(whole && whole < strstr(h2_peer_log(h2), "RST/1[0] "), "%s", h2_peer_log(h2));
    h2_put_data(&h2->out, 1, 0, "more of it, on its way");
    cr_expect(h2_peer_settles(h2), "%s", h2_peer_log(h2));
    cr_expect_null(strstr(h2_peer_log(h2), "GOAWAY"), "%s", h2_peer_log(h2));
    h2_peer_free(h2);
    stage_stop(stage);
}
