/* Rows 16 to 21 of the table of hostile input: what origins answer. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "support/stage.h"

#define COUNT(cases) (sizeof(cases) / sizeof((cases)[0]))
#define OK "HTTP/1.1 200 OK\r\n"
#define CHUNKS "6\r\npoison\r\n0\r\n\r\n"
#define GET "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
#define GET_1_0 "GET / HTTP/1.0\r\nHost: localhost\r\n\r\n"
#define HEAD "HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n"

/* A stage whose origin answers once with BYTES and with "ok" from then on. */
static struct stage *start(struct script_answer first)
{
    static struct script_answer answers[2];
    struct stage *stage = stage_start(NULL);

    answers[0] = first;
    answers[1] = (struct script_answer){0};
    script_set(stage->script, answers, 2);
    return stage;
}

/* Another request over the connection of the client that goes over connection CONNECTION to the origin. */
static void expect_next(struct stage *stage, struct peer *peer, unsigned connection)
{
    unsigned index = script_requests(stage->script);
    struct reply reply = stage_ask(peer, "GET /next HTTP/1.1\r\nHost: localhost\r\n\r\n", 0);

    cr_expect_eq(reply.status, 200, "the next got %d", reply.status);
    cr_expect_str_eq(reply.body, "ok");
    reply_free(&reply);
    cr_assert(script_wait_requests(stage->script, index + 1));
    cr_expect_eq(script_request(stage->script, index)->connection, connection,
                 "the next went over connection %u",
                 script_request(stage->script, index)->connection);
}

/* ---- rows 16 and 17 ---- */

Test(row_16, framing_that_is_not_clear)
{
    static const struct stage_case cases[] = {
        STAGE_CASE("CL and TE", 502,
                   OK "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n" CHUNKS),
        STAGE_CASE("TE and CL", 502,
                   OK "Transfer-Encoding: chunked\r\nContent-Length: 6\r\n\r\n" CHUNKS),
        STAGE_CASE("two CL", 502, OK "Content-Length: 6\r\nContent-Length: 5\r\n\r\npoison"),
        STAGE_CASE("CL list", 502, OK "Content-Length: 6, 5\r\n\r\npoison"),
        STAGE_CASE("CL signed", 502, OK "Content-Length: +6\r\n\r\npoison"),
        STAGE_CASE("CL negative", 502, OK "Content-Length: -6\r\n\r\npoison"),
        STAGE_CASE("CL empty", 502, OK "Content-Length:\r\n\r\npoison"),
        STAGE_CASE("CL 2^63", 502, OK "Content-Length: 9223372036854775808\r\n\r\npoison"),
        STAGE_CASE("TE unknown", 502, OK "Transfer-Encoding: cow\r\n\r\n" CHUNKS),
        STAGE_CASE("TE twice", 502, OK "Transfer-Encoding: chunked, chunked\r\n\r\n" CHUNKS),
        STAGE_CASE("TE in HTTP/1.0", 502,
                   "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" CHUNKS),
        STAGE_CASE("TE with vertical tab", 502,
                   OK "Transfer-Encoding: \x0b"
                      "chunked\r\n\r\n" CHUNKS),
    };
    struct stage *stage = stage_start(NULL);

    stage_expect_bad_response(stage, cases, COUNT(cases));
    stage_stop(stage);
}

Test(row_16, heads_that_are_malformed)
{
    static const struct stage_case cases[] = {
        STAGE_CASE("HTTP/2.0", 502, "HTTP/2.0 200 OK\r\nContent-Length: 6\r\n\r\npoison"),
        STAGE_CASE("HTTP/0.9", 502, "<html>poison</html>\r\n\r\n"),
        STAGE_CASE("another protocol", 502, "ICY 200 OK\r\nContent-Length: 6\r\n\r\npoison"),
        STAGE_CASE("no status", 502, "HTTP/1.1 \r\nContent-Length: 6\r\n\r\npoison"),
        STAGE_CASE("status of letters", 502, "HTTP/1.1 abc OK\r\nContent-Length: 6\r\n\r\npoison"),
        STAGE_CASE("two digits", 502, "HTTP/1.1 20 OK\r\nContent-Length: 6\r\n\r\npoison"),
        STAGE_CASE("four digits", 502, "HTTP/1.1 2000 OK\r\nContent-Length: 6\r\n\r\npoison"),
        STAGE_CASE("status 99", 502, "HTTP/1.1 099 OK\r\nContent-Length: 6\r\n\r\npoison"),
        STAGE_CASE("status 600", 502, "HTTP/1.1 600 OK\r\nContent-Length: 6\r\n\r\npoison"),
        STAGE_CASE("two spaces", 502, "HTTP/1.1  200 OK\r\nContent-Length: 6\r\n\r\npoison"),
        STAGE_CASE("LF alone", 502, "HTTP/1.1 200 OK\nContent-Length: 6\n\npoison"),
        STAGE_CASE("folded", 502, OK "A: b\r\n poison\r\nContent-Length: 0\r\n\r\n"),
        STAGE_CASE("space before colon", 502, OK "Content-Length : 6\r\n\r\npoison"),
        STAGE_CASE("no colon", 502, OK "poison\r\nContent-Length: 0\r\n\r\n"),
        STAGE_CASE("no token", 502, OK "poi(son: 1\r\nContent-Length: 0\r\n\r\n"),
        STAGE_CASE("space before the first name", 502, OK " A: b\r\nContent-Length: 0\r\n\r\n"),
    };
    struct stage *stage = stage_start(NULL);

    stage_expect_bad_response(stage, cases, COUNT(cases));
    stage_stop(stage);
}

Test(row_16, head_too_large)
{
    size_t n = 300 * 1024;
    char *bytes = malloc(n + 64);
    struct stage *stage = stage_start(NULL);

    memcpy(bytes, OK "A: ", sizeof(OK "A: ") - 1);
    memset(bytes + sizeof(OK "A: ") - 1, 'a', n);
    const struct stage_case endless = {"300 KiB", bytes, n, 502};
    stage_expect_bad_response(stage, &endless, 1);
    stage_stop(stage);
    free(bytes);
}

static void expect_cut(const char *name, struct script_answer answer, const char *expected)
{
    struct stage *stage = start(answer);
    struct peer *peer = stage_connect(stage, false);
    struct reply reply = stage_ask(peer, GET, 0);

    cr_expect_eq(reply.status, 200, "%s: status %d", name, reply.status);
    cr_expect(!reply.whole, "%s: the client takes it for whole", name);
    cr_expect(reply.end == PEER_EOF || reply.end == PEER_RESET, "%s: not closed", name);
    cr_expect(!strstr(reply.body, "poison"), "%s: %s", name, reply.body);
    cr_expect(reply.body_n == 0 || strncmp(expected, reply.body, reply.body_n) == 0, "%s: %s", name,
              reply.body);
    reply_free(&reply);
    peer_free(peer);
    cr_assert(script_wait_ended(stage->script, 1), "%s: the origin's connection is open", name);
    stage_fence(stage);
    stage_stop(stage);
}

Test(row_16, bad_chunks_end_the_response)
{
    static const char *const chunks[] = {"g\r\npoison\r\n",
                                         "+6\r\npoison\r\n",
                                         "0x6\r\npoison\r\n",
                                         " 6\r\npoison\r\n",
                                         "6 \r\npoison\r\n",
                                         "6\npoison\r\n",
                                         "8000000000000006\r\npoison\r\n",
                                         "0\n\r\n",
                                         "0\r\nA : b\r\n\r\n"};
    char bytes[256];

    for (size_t i = 0; i < COUNT(chunks); i++) {
        (void)snprintf(bytes, sizeof(bytes), OK "Transfer-Encoding: chunked\r\n\r\n4\r\ngood\r\n%s",
                       chunks[i]);
        expect_cut(chunks[i], (struct script_answer){.bytes = bytes}, "good");
    }
}

Test(row_17, response_splitting)
{
    static const struct stage_case cases[] = {
        STAGE_CASE("CR in a value", 502, OK "Location: /\rpoison: 1\r\nContent-Length: 0\r\n\r\n"),
        STAGE_CASE("LF in a value", 502, OK "Location: /\npoison: 1\r\nContent-Length: 0\r\n\r\n"),
        STAGE_CASE("NUL in a value", 502, OK "Location: /\0poison\r\nContent-Length: 0\r\n\r\n"),
        STAGE_CASE("CR in a name", 502, OK "poi\rson: 1\r\nContent-Length: 0\r\n\r\n"),
        STAGE_CASE("NUL in the reason", 502, "HTTP/1.1 200 po\0ison\r\nContent-Length: 0\r\n\r\n"),
        STAGE_CASE("CR in the reason", 502, "HTTP/1.1 200 OK\rpoison\r\nContent-Length: 0\r\n\r\n"),
    };
    struct stage *stage = stage_start(NULL);

    stage_expect_bad_response(stage, cases, COUNT(cases));
    stage_stop(stage);
}

/* ---- row 18 ---- */

struct bare_case {
    const char *name;
    const char *request;
    const char *answer;
    int status;
    const char *length; /* Content-Length that the client sees */
    bool reused;        /* the connection to the origin */
};

static void expect_bare(const struct bare_case *c)
{
    struct stage *stage = start((struct script_answer){.bytes = c->answer});
    struct peer *peer = stage_connect(stage, false);
    struct reply reply = stage_ask(peer, c->request, 0);

    cr_expect_eq(reply.status, c->status, "%s: status %d", c->name, reply.status);
    cr_expect_str_eq(reply_field(&reply, "content-length"), c->length, "%s: content-length: %s",
                     c->name, reply_field(&reply, "content-length"));
    cr_expect_str_eq(reply_field(&reply, "transfer-encoding"), "", "%s: transfer-encoding",
                     c->name);
    reply_free(&reply);
    if (!c->reused)
        cr_expect(script_wait_ended(stage->script, 1), "%s: not closed", c->name);
    expect_next(stage, peer, c->reused ? 1 : 2);
    peer_free(peer);
    stage_stop(stage);
}

Test(row_18, answers_without_content)
{
    static const struct bare_case cases[] = {
        {"HEAD", HEAD, OK "Content-Length: 1234\r\n\r\n", 200, "1234", true},
        {"HEAD, chunked", HEAD, OK "Transfer-Encoding: chunked\r\n\r\n", 200, "", true},
        {"HEAD, no length", HEAD, OK "\r\n", 200, "", true},
        {"HEAD with content", HEAD, OK "Content-Length: 6\r\n\r\npoison", 200, "6", false},
        {"HEAD with chunks", HEAD, OK "Transfer-Encoding: chunked\r\n\r\n" CHUNKS, 200, "", false},
        {"HEAD that fails", HEAD, "HTTP/1.1 404 No\r\nContent-Length: 7\r\n\r\n", 404, "7", true},
        {"204", GET, "HTTP/1.1 204 No Content\r\n\r\n", 204, "", true},
        {"204 with CL", GET, "HTTP/1.1 204 No Content\r\nContent-Length: 6\r\n\r\npoison", 204, "",
         false},
        {"204 with CL 0", GET, "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", 204, "",
         true},
        {"204 with TE", GET, "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n" CHUNKS,
         204, "", false},
        {"304", GET, "HTTP/1.1 304 Not Modified\r\n\r\n", 304, "", true},
        {"304 with CL", GET, "HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n", 304, "99",
         true},
        {"304 with content", GET, "HTTP/1.1 304 Not Modified\r\nContent-Length: 6\r\n\r\npoison",
         304, "6", false},
        {"304 with TE", GET, "HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n", 304,
         "", true},
        {"surplus", GET, OK "Content-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\n\r\npoison", 200, "0",
         false},
    };

    for (size_t i = 0; i < COUNT(cases); i++)
        expect_bare(&cases[i]);
}

Test(row_18, http_1_0_clients_get_no_chunks)
{
    struct stage *stage = start((struct script_answer){
        .bytes = OK "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"});
    struct peer *peer = stage_connect(stage, false);
    struct reply reply = stage_ask(peer, "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", 0);

    cr_expect_eq(reply.status, 200);
    cr_expect_str_eq(reply_field(&reply, "transfer-encoding"), "");
    cr_expect_str_eq(reply.body, "hello");
    cr_expect(reply.whole && reply.end == PEER_EOF);
    reply_free(&reply);
    peer_free(peer);
    stage_stop(stage);
}

/* ---- row 19 ---- */

/* Reads responses up to the final one; their status codes go to TEXT, each with a space behind. */
static struct reply read_all(struct peer *peer, char *text, size_t size)
{
    struct reply reply = peer_reply(peer, false);
    size_t n = 0;

    while (reply.status >= 100 && reply.status < 200 && n + 8 < size) {
        cr_expect_str_eq(reply_field(&reply, "transfer-encoding"), "");
        cr_expect_str_eq(reply_field(&reply, "content-length"), "");
        n += (size_t)snprintf(text + n, size - n, "%d ", reply.status);
        reply_free(&reply);
        reply = peer_reply(peer, false);
    }
    (void)snprintf(text + n, size - n, "%d ", reply.status);
    return reply;
}

static void expect_interim(const char *request, const char *answer, const char *expected)
{
    char seen[256];
    struct stage *stage = start((struct script_answer){.bytes = answer});
    struct peer *peer = stage_connect(stage, false);

    cr_assert(peer_say(peer, request));
    struct reply reply = read_all(peer, seen, sizeof(seen));
    cr_expect_str_eq(seen, expected, "%s gave %s", answer, seen);
    reply_free(&reply);
    peer_free(peer);
    stage_stop(stage);
}

Test(row_19, interim_answers)
{
#define HINTS "HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n"
#define LAST OK "Content-Length: 2\r\n\r\nok"
    expect_interim(GET, HINTS LAST, "103 200 ");
    expect_interim(GET, HINTS HINTS HINTS LAST, "103 103 103 200 ");
    expect_interim(GET, "HTTP/1.1 100 Continue\r\n\r\n" LAST, "100 200 ");
    expect_interim(GET, "HTTP/1.1 102 Processing\r\n\r\n" HINTS LAST, "102 103 200 ");
    expect_interim(GET, "HTTP/1.1 103 Early Hints\r\nContent-Length: 6\r\n\r\n" LAST, "103 200 ");
    expect_interim(GET_1_0, HINTS LAST, "200 ");
    expect_interim(GET_1_0, "HTTP/1.1 100 Continue\r\n\r\n" HINTS LAST, "200 ");
}

Test(row_19, not_asked_for)
{
    static const struct stage_case cases[] = {
        STAGE_CASE("101", 502,
                   "HTTP/1.1 101 Switching Protocols\r\nUpgrade: poison\r\n"
                   "Connection: upgrade\r\n\r\npoison"),
        STAGE_CASE("101 and a final one", 502, "HTTP/1.1 101 Switching Protocols\r\n\r\n" LAST),
    };
    struct stage *stage = stage_start(NULL);

    stage_expect_bad_response(stage, cases, COUNT(cases));
    stage_stop(stage);
}

Test(row_19, endless_interim_answers)
{
    static const char hints[] = HINTS;
    size_t n = 1000 * (sizeof(hints) - 1);
    char *bytes = malloc(n);
    char seen[16384];

    for (size_t at = 0; at < n; at += sizeof(hints) - 1)
        memcpy(bytes + at, hints, sizeof(hints) - 1);
    struct stage *stage = start((struct script_answer){.bytes = bytes, .n = n});
    struct peer *peer = stage_connect(stage, false);
    cr_assert(peer_say(peer, GET));
    struct reply reply = read_all(peer, seen, sizeof(seen));
    cr_expect_eq(reply.status, 502, "%s", seen);
    cr_expect_lt(strlen(seen), 400, "all were passed on");
    reply_free(&reply);
    peer_free(peer);
    cr_expect(script_wait_ended(stage->script, 1));
    stage_stop(stage);
    free(bytes);
}

/* ---- row 20 ---- */

Test(row_20, content_cut_short)
{
    expect_cut("CL",
               (struct script_answer){.bytes = OK "Content-Length: 100\r\n\r\nhello",
                                      .then = SCRIPT_CLOSE},
               "hello");
    expect_cut("CL, RST",
               (struct script_answer){.bytes = OK "Content-Length: 100\r\n\r\nhello",
                                      .then = SCRIPT_RESET},
               "hello");
    expect_cut("chunk",
               (struct script_answer){.bytes = OK "Transfer-Encoding: chunked\r\n\r\n64\r\nhello",
                                      .then = SCRIPT_CLOSE},
               "hello");
    expect_cut(
        "no last chunk",
        (struct script_answer){.bytes = OK "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
                               .then = SCRIPT_CLOSE},
        "hello");
    expect_cut("no end of trailers",
               (struct script_answer){
                   .bytes = OK "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nA: b\r\n",
                   .then = SCRIPT_CLOSE},
               "hello");
    expect_cut("until close, RST",
               (struct script_answer){.bytes = OK "\r\nhello", .then = SCRIPT_RESET}, "hello");
}

Test(row_20, cut_before_the_head_is_whole)
{
    static const char *const parts[] = {"", "H", "HTTP/1.1 200 OK\r\n", OK "Content-Length: 5\r\n",
                                        "HTTP/1.1 100 Continue\r\n\r\n"};

    for (size_t i = 0; i < COUNT(parts) * 2; i++) {
        const char *part = parts[i / 2];
        char seen[256];
        struct stage *stage = start(
            (struct script_answer){.bytes = part, .then = i % 2 ? SCRIPT_RESET : SCRIPT_CLOSE});
        struct peer *peer = stage_connect(stage, false);
        cr_assert(peer_say(peer, GET));
        struct reply reply = read_all(peer, seen, sizeof(seen));
        cr_expect_eq(reply.status, 502, "after \"%s\": %d", part, reply.status);
        cr_expect(reply.whole);
        reply_free(&reply);
        expect_next(stage, peer, 2); /* the client's connection is in order */
        peer_free(peer);
        stage_stop(stage);
    }
}

/* ---- row 21 ---- */

#define FORBIDDEN                                                              \
    "Content-Length: 3\r\nHost: evil\r\nTrailer: x\r\nAuthorization: evil\r\n" \
    "Cookie: evil\r\nTE: evil\r\nConnection: close\r\n"                        \
    "X-Forwarded-For: 6.6.6.6\r\nSet-Cookie: evil\r\nContent-Type: evil/evil\r\n"

Test(row_21, trailers_of_responses)
{
    struct stage *stage = start((struct script_answer){
        .bytes = OK "Transfer-Encoding: chunked\r\nTrailer: Checksum\r\n\r\n5\r\nhello\r\n0\r\n"
                    "Checksum: abc\r\n"
                    "Transfer-Encoding: chunked\r\n" FORBIDDEN "\r\n"});
    struct peer *peer = stage_connect(stage, false);
    struct reply reply =
        stage_ask(peer, "GET / HTTP/1.1\r\nHost: localhost\r\nTE: trailers\r\n\r\n", 0);

    cr_expect_eq(reply.status, 200);
    cr_expect_str_eq(reply.body, "hello");
    cr_expect(reply.whole);
    cr_expect_str_eq(reply_field(&reply, "checksum"), "abc");
    cr_expect(!strstr(reply.head, "evil"), "%s", reply.head);
    cr_expect_str_eq(reply_field(&reply, "content-length"), "");
    cr_expect_str_eq(reply_field(&reply, "x-forwarded-for"), "");
    reply_free(&reply);
    expect_next(stage, peer, 1);
    peer_free(peer);
    stage_stop(stage);
}

Test(row_21, trailers_of_requests)
{
    struct stage *stage = stage_start(NULL);

    cr_expect_eq(
        stage_status(stage,
                     "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
                     "5\r\nhello\r\n0\r\nChecksum: abc\r\n" FORBIDDEN "\r\n"),
        200);
    cr_assert(script_wait_whole(stage->script, 1));
    const struct script_request *seen = script_request(stage->script, 0);
    cr_expect_str_eq(seen->content, "hello");
    cr_expect(strstr(seen->raw, "\r\n0\r\nchecksum: abc\r\n\r\n"), "%s", seen->raw);
    cr_expect(!strstr(seen->raw, "evil") && !strstr(seen->raw, "6.6.6.6"), "%s", seen->raw);
    stage_stop(stage);
}

Test(row_21, trailers_that_could_smuggle)
{
    static const struct stage_case cases[] = {
        STAGE_CASE("pseudo", 400, "0\r\n:path: /evil\r\n\r\n"),
        STAGE_CASE("TE", 400, "0\r\nTransfer-Encoding: chunked\r\n\r\n"),
    };
    struct stage *stage = stage_start(NULL);

    stage_expect_content_refused(stage, cases, COUNT(cases));
    stage_stop(stage);
}
