/* Every kind of exchange through all pairings of HTTP versions: what a client sees, what an origin gets, and that nothing is left. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "support/edge.h"
#include "support/pairings.h"
#include "support/script.h"

#define OK_2 "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

struct scenario {
    const char *name;
    struct pairing_request request;
    struct script_answer answer;
    int status;
    const char *content;
    const char *field;    /* of the response; NULL: any */
    const char *trailer;  /* the same */
    const char *interim;  /* NULL: none */
    const char *uploaded; /* what the origin gets; NULL: not looked at */
    bool refused;         /* of HTTP/2 only when more is announced than is read and thrown away */
};

static const struct scenario scenarios[] = {
    {.name = "GET",
     .request = {.method = "GET"},
     .answer = {.bytes = "HTTP/1.1 200 OK\r\nX-End: 1\r\nContent-Length: 5\r\n\r\nhello"},
     .status = 200,
     .content = "hello",
     .field = "x-end=1;"},
    {.name = "GET of unknown length",
     .request = {.method = "GET"},
     .answer = {.bytes = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                         "3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n"},
     .status = 200,
     .content = "hello"},
    {.name = "GET to the end of the connection",
     .request = {.method = "GET"},
     .answer = {.bytes = "HTTP/1.1 200 OK\r\n\r\nhello", .then = SCRIPT_CLOSE},
     .status = 200,
     .content = "hello"},
    {.name = "HEAD",
     .request = {.method = "HEAD"},
     .answer = {.bytes = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"},
     .status = 200,
     .content = "",
     .field = "content-length=5;"},
    {.name = "204",
     .request = {.method = "GET"},
     .answer = {.bytes = "HTTP/1.1 204 No Content\r\nX-End: 1\r\n\r\n"},
     .status = 204,
     .content = "",
     .field = "x-end=1;"},
    {.name = "304 with a length",
     .request = {.method = "GET"},
     .answer = {.bytes = "HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\nContent-Length: 5\r\n\r\n"},
     .status = 304,
     .content = "",
     .field = "etag=\"x\";"},
    {.name = "POST",
     .request = {.method = "POST", .framing = PAIRING_LENGTH, .length = "5", .content = "hello"},
     .answer = {.bytes = OK_2},
     .status = 200,
     .content = "ok",
     .uploaded = "hello"},
    {.name = "POST without content",
     .request = {.method = "POST", .framing = PAIRING_LENGTH, .length = "0", .content = ""},
     .answer = {.bytes = OK_2},
     .status = 200,
     .content = "ok",
     .uploaded = ""},
    {.name = "POST of unknown length",
     .request = {.method = "POST", .framing = PAIRING_UNKNOWN, .content = "hello"},
     .answer = {.bytes = OK_2},
     .status = 200,
     .content = "ok",
     .uploaded = "hello"},
    {.name = "trailers both ways",
     .request =
         {.method = "POST", .framing = PAIRING_UNKNOWN, .content = "hello", .trailer = "x-up: 1"},
     .answer = {.bytes = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: x-sum\r\n\r\n"
                         "2\r\nok\r\n0\r\nX-Sum: 7\r\n\r\n"},
     .status = 200,
     .content = "ok",
     .trailer = "x-sum=7;",
     .uploaded = "hello"},
    {.name = "103 and then the answer",
     .request = {.method = "GET"},
     .answer = {.bytes = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" OK_2},
     .status = 200,
     .content = "ok",
     .interim = "103 "},
    {.name = "several interim answers",
     .request = {.method = "GET"},
     .answer = {.bytes = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
                         "HTTP/1.1 103 Early Hints\r\nLink: </b>\r\n\r\n"
                         "HTTP/1.1 110 What\r\n\r\n" OK_2},
     .status = 200,
     .content = "ok",
     .interim = "103 103 110 "},
    {.name = "content that waits to be asked for",
     .request = {.method = "POST",
                 .framing = PAIRING_LENGTH,
                 .length = "5",
                 .content = "hello",
                 .expects = true},
     .answer = {.bytes = OK_2, .interim = "HTTP/1.1 100 Continue\r\n\r\n"},
     .status = 200,
     .content = "ok",
     .interim = "100 ",
     .uploaded = "hello"},
    {.name = "content of unknown length that waits to be asked for",
     .request = {.method = "PUT", .framing = PAIRING_UNKNOWN, .content = "hello", .expects = true},
     .answer = {.bytes = OK_2, .interim = "HTTP/1.1 100 Continue\r\n\r\n"},
     .status = 200,
     .content = "ok",
     .interim = "100 ",
     .uploaded = "hello"},
    {.name = "OPTIONS *",
     .request = {.method = "OPTIONS", .asterisk = true},
     .answer = {.bytes = "HTTP/1.1 204 No Content\r\nAllow: GET\r\n\r\n"},
     .status = 204,
     .content = "",
     .field = "allow=GET;"},
    {.name = "an error of gRPC without content",
     .request = {.method = "POST", .framing = PAIRING_UNKNOWN, .content = "hello"},
     .answer = {.bytes = "HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\nGrpc-Status: 12\r\n"
                         "Grpc-Message: no%20such\r\nContent-Length: 0\r\n\r\n"},
     .status = 200,
     .content = "",
     .field = "grpc-status=12;",
     .uploaded = "hello"},
    {.name = "an error of gRPC in trailers",
     .request = {.method = "POST", .framing = PAIRING_UNKNOWN, .content = "hello"},
     .answer = {.bytes = "HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\n"
                         "Transfer-Encoding: chunked\r\nTrailer: grpc-status\r\n\r\n"
                         "2\r\nok\r\n0\r\nGrpc-Status: 4\r\n\r\n"},
     .status = 200,
     .content = "ok",
     .trailer = "grpc-status=4;",
     .uploaded = "hello"},
    {.name = "early answer to an upload by length",
     .request = {.method = "POST",
                 .framing = PAIRING_LENGTH,
                 .length = "100000000",
                 .content = "some",
                 .unfinished = true},
     .answer = {.bytes = "HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\n"
                         "big",
                .when = SCRIPT_EARLY},
     .status = 413,
     .content = "big",
     .refused = true},
    {.name = "early answer to an upload of unknown length",
     .request =
         {.method = "POST", .framing = PAIRING_UNKNOWN, .content = "some", .unfinished = true},
     .answer = {.bytes = "HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\n"
                         "big",
                .when = SCRIPT_EARLY},
     .status = 413,
     .content = "big"},
};

static const char *text_of(const struct text *text)
{
    return text->p ? text->p : "";
}

static void expect_seen(const struct scenario *s, const struct pairing_seen *seen, bool h1,
                        const char *what)
{
    cr_expect_eq(seen->status, s->status, "%s: %d", what, seen->status);
    cr_expect(seen->whole, "%s: cut short", what);
    cr_expect_str_eq(text_of(&seen->content), s->content, "%s: %s", what, text_of(&seen->content));
    cr_expect_str_eq(text_of(&seen->interim), s->interim ? s->interim : "", "%s: %s", what,
                     text_of(&seen->interim));
    cr_expect_eq(seen->refused, s->refused || (h1 && s->request.unfinished),
                 "%s: the upload is %swanted", what, seen->refused ? "not " : "");
    if (s->field != NULL)
        cr_expect_not_null(strstr(text_of(&seen->fields), s->field), "%s: %s", what,
                           text_of(&seen->fields));
    if (s->trailer != NULL)
        cr_expect(strstr(text_of(&seen->trailers), s->trailer) ||
                      strstr(text_of(&seen->fields), s->trailer),
                  "%s: no trailers in %s", what, text_of(&seen->fields));
    else
        cr_expect_eq(seen->trailers.n, 0, "%s: %s", what, text_of(&seen->trailers));
}

static void expect_asked(const struct scenario *s, struct script *script, unsigned index,
                         const char *what)
{
    const struct script_request *request = script_request(script, index);

    cr_expect_eq(strncmp(request->head, s->request.method, strlen(s->request.method)), 0, "%s: %s",
                 what, request->head);
    if (s->request.asterisk)
        cr_expect_eq(strncmp(request->head, "OPTIONS * HTTP/1.1\r\n", 20), 0, "%s: %s", what,
                     request->head);
    if (s->uploaded == NULL)
        return;
    cr_expect(request->whole, "%s: the upload is cut short", what);
    cr_expect_str_eq(request->content, s->uploaded, "%s: %s", what, request->content);
    cr_expect_eq(*script_field(script, index, "transfer-encoding") != '\0',
                 s->request.framing == PAIRING_UNKNOWN, "%s: %s", what, request->head);
    if (s->request.trailer != NULL)
        cr_expect_not_null(strstr(request->raw, s->request.trailer), "%s: %s", what, request->raw);
}

static void expect_exchange(const struct pairings_world *world, struct script *script,
                            const struct scenario *s, const struct pairing *pairing)
{
    char what[128];
    unsigned index = script_requests(script);
    struct pairing_client client = pairing_connect(world, pairing);

    (void)snprintf(what, sizeof(what), "%s, %s", s->name, pairing->name);
    script_set(script, &s->answer, 1);
    pairing_ask(&client, pairing, &s->request);
    struct pairing_seen seen = pairing_see(&client, s->request.method);
    expect_seen(s, &seen, !pairing->h2, what);
    cr_assert(script_wait_requests(script, index + 1), "%s: not asked", what);
    expect_asked(s, script, index, what);
    pairing_seen_free(&seen);
    pairing_close(&client);
    pairings_expect_rest(world, what);
    cr_expect_eq(script_requests(script), index + 1, "%s: asked again", what);
}

static double of_cluster(const struct weir *weir, const char *what, const char *cluster)
{
    char sample[128];
    (void)snprintf(sample, sizeof(sample), "weir_upstream_%s_total{cluster=\"%s\"}", what, cluster);
    return weir_metric(weir, sample);
}

/* Two thirds of the exchanges go by way of the inner weir, half of them over one plain connection and half over one of TLS: no exchange
 * breaks it. */
Test(pairings, exchanges, .timeout = 120)
{
    struct script *script = script_new(NULL, 0);
    struct pairings_world world;
    const size_t count = sizeof(scenarios) / sizeof(*scenarios);

    pairings_start(&world, script_serve, script);
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < PAIRINGS; k++)
            expect_exchange(&world, script, &scenarios[i], &pairings[k]);
    cr_expect_eq(of_cluster(world.outer, "requests", "mid"), (double)(2 * count));
    cr_expect_eq(of_cluster(world.outer, "requests", "midtls"), (double)(2 * count));
    cr_expect_eq(of_cluster(world.inner, "requests", "origin"), (double)(4 * count));
    cr_expect_eq(of_cluster(world.outer, "connects", "mid"), 1);
    cr_expect_eq(of_cluster(world.outer, "connects", "midtls"), 1);
    pairings_stop(&world);
    script_free(script);
}

/* ---- one side ends it in the middle ---- */

static const struct script_answer halves[] = {
    {.bytes = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n",
     .when = SCRIPT_DEAF,
     .then = SCRIPT_CLOSE},
    {.bytes = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel",
     .when = SCRIPT_DEAF,
     .then = SCRIPT_CLOSE},
    {.bytes = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n",
     .when = SCRIPT_DEAF,
     .then = SCRIPT_RESET},
};
static const struct pairing_request get = {.method = "GET"};

/* What follows the part that came is no end of a response. */
static void expect_cut(struct pairing_client *client, const char *what)
{
    char bytes[256] = "";
    enum peer_end end = PEER_OPEN;

    if (client->h2 != NULL) {
        cr_expect(h2_peer_hears(client->h2, "RST/1["), "%s: %s", what, h2_peer_log(client->h2));
        cr_expect(h2_peer_settles(client->h2), "%s: the connection is over", what);
        cr_expect_null(strstr(h2_peer_log(client->h2), "+ES["), "%s: %s", what,
                       h2_peer_log(client->h2));
        return;
    }
    for (size_t n = 0; n + 1 < sizeof(bytes);) {
        size_t got = peer_read(client->peer, bytes + n, sizeof(bytes) - 1 - n, &end);
        if (got == 0)
            break;
        n += got;
    }
    cr_expect_neq(end, PEER_WAITED, "%s: the connection stays", what);
    cr_expect(strcmp(bytes, "") == 0 || strcmp(bytes, "\r\n") == 0, "%s: %s", what, bytes);
}

static void origin_aborts(const struct script_answer *answer, const struct pairing *pairing)
{
    struct script *script = script_new(answer, 1);
    struct pairings_world world;

    pairings_start(&world, script_serve, script);
    struct pairing_client client = pairing_connect(&world, pairing);
    pairing_ask(&client, pairing, &get);
    cr_expect(pairing_hears(&client, "hel"), "%s: held back", pairing->name);
    script_release(script);
    expect_cut(&client, pairing->name);
    pairing_close(&client);
    pairings_expect_rest(&world, pairing->name);
    cr_expect_eq(script_requests(script), 1, "%s: asked again", pairing->name);
    pairings_stop(&world);
    script_free(script);
}

Test(pairings, origin_aborts, .timeout = 120)
{
    for (size_t i = 0; i < sizeof(halves) / sizeof(*halves); i++)
        for (size_t k = 0; k < PAIRINGS; k++)
            origin_aborts(&halves[i], &pairings[k]);
}

/* The connection to the origin, which would be kept after an answer, is closed while that still comes. */
static void client_aborts(const struct pairing *pairing)
{
    static const struct script_answer answer = {
        .bytes = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n",
        .when = SCRIPT_DEAF};
    struct script *script = script_new(&answer, 1);
    struct pairings_world world;

    pairings_start(&world, script_serve, script);
    struct pairing_client client = pairing_connect(&world, pairing);
    pairing_ask(&client, pairing, &get);
    cr_expect(pairing_hears(&client, "hel"), "%s: held back", pairing->name);
    pairing_leave(&client);
    pairings_expect_rest(&world, pairing->name);
    script_release(script);
    cr_expect(script_wait_ended(script, 1), "%s: the origin is not left", pairing->name);
    pairing_close(&client);
    pairings_stop(&world);
    script_free(script);
}

Test(pairings, client_aborts, .timeout = 120)
{
    for (size_t k = 0; k < PAIRINGS; k++)
        client_aborts(&pairings[k]);
}
