#include "support/stage.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

static const char *or_nothing(const char *text)
{
    return text ? text : "";
}

static const char *comma(const char *text)
{
    return text ? ", " : "";
}

struct stage *stage_start(const struct stage_options *options)
{
    static const struct stage_options none;
    const struct stage_options *o = options ? options : &none;
    struct stage *stage = calloc(1, sizeof(*stage));

    stage->script = script_new(NULL, 0);
    stage->origin =
        o->serve ? origin_start(o->serve, o->arg) : origin_start(script_serve, stage->script);
    stage->weir = weir_start(
        "workers: 1\n"
        "admin: 127.0.0.1:0\n"
        "access_log: access.log\n"
        "listeners:\n"
        "  - {name: plain, bind: 127.0.0.1:0, %s%sroutes: [%s%s{cluster: origin}]}\n"
        "  - {name: tls, bind: 127.0.0.1:0, %s%sroutes: [%s%s{cluster: origin}],\n"
        "     tls: {certificates: [{chain: cert.pem, key: key.pem}]}}\n"
        "clusters: [{name: origin, endpoints: [127.0.0.1:%d]%s%s}%s%s]\n",
        or_nothing(o->listener), comma(o->listener), or_nothing(o->routes), comma(o->routes),
        or_nothing(o->listener), comma(o->listener), or_nothing(o->routes), comma(o->routes),
        origin_port(stage->origin), comma(o->cluster), or_nothing(o->cluster), comma(o->clusters),
        or_nothing(o->clusters));
    stage->plain = weir_port(stage->weir, "plain");
    stage->tls = weir_port(stage->weir, "tls");
    return stage;
}

void stage_stop(struct stage *stage)
{
    script_release(stage->script);
    weir_stop(stage->weir);
    origin_stop(stage->origin);
    script_free(stage->script);
    free(stage);
}

struct peer *stage_connect(const struct stage *stage, bool tls)
{
    struct peer *peer = tls ? peer_connect_tls(stage->tls, NULL) : peer_connect(stage->plain);

    cr_assert(peer != NULL, "no connection to weir");
    return peer;
}

struct reply stage_ask(struct peer *peer, const char *request, size_t n)
{
    bool head = strncmp(request, "HEAD ", 5) == 0;

    /* It may be answered and closed before all of it is written. */
    (void)peer_write(peer, request, n > 0 ? n : strlen(request));
    return peer_reply(peer, head);
}

int stage_status(const struct stage *stage, const char *request)
{
    struct peer *peer = stage_connect(stage, false);
    struct reply reply = stage_ask(peer, request, 0);

    reply_free(&reply);
    peer_free(peer);
    return reply.status;
}

bool stage_is_over(struct peer *peer)
{
    char byte;
    enum peer_end end;

    return peer_read(peer, &byte, 1, &end) == 0 && end == PEER_EOF;
}

void stage_fence(struct stage *stage)
{
    unsigned before = script_requests(stage->script);
    int status = stage_status(stage, "GET /fence HTTP/1.1\r\nHost: localhost\r\n\r\n");

    cr_expect_eq(status, 200, "a good request got %d", status);
    cr_assert(script_wait_requests(stage->script, before + 1));
    const char *head = script_request(stage->script, before)->head;
    cr_expect(strncmp(head, "GET /fence ", 11) == 0, "the origin got %s", head);
    cr_expect_eq(script_requests(stage->script), before + 1);
}

long stage_now_ms(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- tables ---- */

/* Others than HTTP/1.1 take it for granted (RFC 9112 section 9.3). */
static bool must_be_told(const char *request)
{
    return !strstr(request, "HTTP/1.0\r\n") && !strstr(request, "HTTP/2.0\r\n") &&
           !strstr(request, "HTTP/3.0\r\n");
}

/* The one answer is CASE's, and says that it is the last. */
static void expect_last_words(struct peer *peer, const struct stage_case *c, struct reply *reply)
{
    cr_expect_eq(reply->status, c->status, "%s: status %d, not %d", c->name, reply->status,
                 c->status);
    cr_expect(reply->whole, "%s: the answer is cut short", c->name);
    cr_expect(!must_be_told(c->bytes) || strcasecmp(reply_field(reply, "connection"), "close") == 0,
              "%s: no Connection: close", c->name);
    cr_expect(stage_is_over(peer), "%s: more than one answer, or no clean end", c->name);
}

static void expect_refused(struct stage *stage, const struct stage_case *c, bool tls)
{
    static const char smuggled[] = "GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n";
    char *bytes = malloc(c->n + sizeof(smuggled));
    struct peer *peer = stage_connect(stage, tls);

    memcpy(bytes, c->bytes, c->n);
    memcpy(bytes + c->n, smuggled, sizeof(smuggled));
    struct reply reply = stage_ask(peer, bytes, c->n + sizeof(smuggled) - 1);
    expect_last_words(peer, c, &reply);
    reply_free(&reply);
    peer_free(peer);
    free(bytes);
}

void stage_expect_refused(struct stage *stage, const struct stage_case *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        expect_refused(stage, &cases[i], false);
        expect_refused(stage, &cases[i], true);
        cr_expect_eq(script_requests(stage->script), 0, "%s: reached the origin", cases[i].name);
    }
    cr_expect_eq(origin_connections(stage->origin), 0, "a connection to the origin was made");
    stage_fence(stage);
}

static void expect_content_refused(struct stage *stage, const struct stage_case *c, bool tls)
{
    static const char begun[] = "POST / HTTP/1.1\r\nHost: localhost\r\n"
                                "Transfer-Encoding: chunked\r\n\r\n4\r\ngood\r\n";
    unsigned before = script_requests(stage->script);
    unsigned ended = script_ended(stage->script);
    struct peer *peer = stage_connect(stage, tls);

    cr_assert(peer_say(peer, begun));
    cr_assert(script_wait_requests(stage->script, before + 1), "%s: no request begun", c->name);
    struct reply reply = stage_ask(peer, c->bytes, c->n);
    expect_last_words(peer, c, &reply);
    reply_free(&reply);
    peer_free(peer);
    cr_assert(script_wait_ended(stage->script, ended + 1),
              "%s: the connection to the origin is not closed", c->name);
    const struct script_request *request = script_request(stage->script, before);
    cr_expect(!request->whole, "%s: whole at the origin: %s", c->name, request->raw);
    cr_expect_eq(script_requests(stage->script), before + 1, "%s: one more request", c->name);
}

void stage_expect_content_refused(struct stage *stage, const struct stage_case *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        expect_content_refused(stage, &cases[i], false);
        expect_content_refused(stage, &cases[i], true);
    }
    cr_expect_eq(origin_connections(stage->origin), 2 * count, "%u connections for %zu requests",
                 origin_connections(stage->origin), 2 * count);
    stage_fence(stage);
}

static void expect_bad_response(struct stage *stage, const struct stage_case *c)
{
    struct script_answer answer = {.bytes = c->bytes, .n = c->n};
    unsigned ended = script_ended(stage->script);
    struct peer *peer = stage_connect(stage, false);

    script_set(stage->script, &answer, 1);
    struct reply reply = stage_ask(peer, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 0);
    cr_expect_eq(reply.status, c->status, "%s: status %d, not %d", c->name, reply.status,
                 c->status);
    cr_expect(reply.whole, "%s: the answer is cut short", c->name);
    cr_expect(strstr(reply_field(&reply, "proxy-status"), "error="), "%s: no Proxy-Status",
              c->name);
    cr_expect(!strstr(reply.head, "poison") && !strstr(reply.body, "poison"),
              "%s: bytes of the origin came through", c->name);
    reply_free(&reply);
    peer_free(peer);
    cr_assert(script_wait_ended(stage->script, ended + 1),
              "%s: the connection to the origin is not closed", c->name);
    script_set(stage->script, NULL, 0);
}

void stage_expect_bad_response(struct stage *stage, const struct stage_case *cases, size_t count)
{
    for (size_t i = 0; i < count; i++)
        expect_bad_response(stage, &cases[i]);
    cr_expect_eq(script_requests(stage->script), count, "asked %u times for %zu requests",
                 script_requests(stage->script), count);
    stage_fence(stage);
}
