/* Rows 53, 54 and 56 of the table of hostile input: what is too large, too much, or too many. */
#include <criterion/criterion.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "support/stage.h"

#define COUNT(cases) (sizeof(cases) / sizeof((cases)[0]))
#define HOST "Host: localhost\r\n"
#define GET "GET / HTTP/1.1\r\n" HOST "\r\n"
#define OK "HTTP/1.1 200 OK\r\n"
#define LARGE (1024 * 1024)

/* BEFORE, N times FILL, BEHIND. Owner: the caller. */
static char *filled(const char *before, const char *fill, size_t n, const char *behind)
{
    size_t one = strlen(fill);
    size_t at = strlen(before);
    char *text = malloc(at + n * one + strlen(behind) + 1);

    memcpy(text, before, at);
    for (size_t i = 0; i < n; i++, at += one)
        memcpy(text + at, fill, one);
    memcpy(text + at, behind, strlen(behind) + 1);
    return text;
}

/* ---- row 53 ---- */

static const struct stage_options small_heads = {
    .listener = "limits: {request_head: 4KiB, request_uri: 1KiB, request_fields: 20}"};

Test(row_53, giant_heads)
{
    char *line = filled("GET /", "a", 1024, " HTTP/1.1\r\n" HOST "\r\n");
    char *open_line = filled("GET /", "a", 60000, "");
    char *method = filled("", "M", 60000, " / HTTP/1.1\r\n" HOST "\r\n");
    char *field = filled("GET / HTTP/1.1\r\n" HOST "A: ", "a", 4096, "\r\n\r\n");
    char *name = filled("GET / HTTP/1.1\r\n" HOST, "a", 4096, ": b\r\n\r\n");
    char *open_field = filled("GET / HTTP/1.1\r\n" HOST "A: ", "a", 60000, "");
    char *fields = filled("GET / HTTP/1.1\r\n" HOST, "A: b\r\n", 20, "\r\n");
    char *open_fields = filled("GET / HTTP/1.1\r\n" HOST, "A:\r\n", 600, "");
    const struct stage_case cases[] = {
        {"line", line, strlen(line), 414},
        {"line without end", open_line, strlen(open_line), 414},
        {"method", method, strlen(method), 414},
        {"field", field, strlen(field), 431},
        {"name", name, strlen(name), 431},
        {"field without end", open_field, strlen(open_field), 431},
        {"fields", fields, strlen(fields), 431},
        {"fields without end", open_fields, strlen(open_fields), 431},
    };
    struct stage *stage = stage_start(&small_heads);

    stage_expect_refused(stage, cases, COUNT(cases));
    stage_stop(stage);
    for (size_t i = 0; i < COUNT(cases); i++)
        free((char *)(uintptr_t)cases[i].bytes);
}

Test(row_53, heads_at_the_limit)
{
    char *line = filled("GET /", "a", 1023, " HTTP/1.1\r\n" HOST "\r\n");
    char *field = filled("GET / HTTP/1.1\r\n" HOST "A: ", "a", 4000, "\r\n\r\n");
    char *fields = filled("GET / HTTP/1.1\r\n" HOST, "A: b\r\n", 19, "\r\n");
    struct stage *stage = stage_start(&small_heads);

    cr_expect_eq(stage_status(stage, line), 200);
    cr_expect_eq(stage_status(stage, field), 200);
    cr_expect_eq(stage_status(stage, fields), 200);
    cr_expect_eq(script_requests(stage->script), 3);
    cr_expect_eq(script_fields(stage->script, 2, "a"), 19);
    stage_stop(stage);
    free(line);
    free(field);
    free(fields);
}

Test(row_53, there_are_limits_without_configuration)
{
    char *line = filled("GET /", "a", LARGE, " HTTP/1.1\r\n" HOST "\r\n");
    char *field = filled("GET / HTTP/1.1\r\n" HOST "A: ", "a", LARGE, "\r\n\r\n");
    char *fields = filled("GET / HTTP/1.1\r\n" HOST, "A: b\r\n", 10000, "\r\n");
    const struct stage_case cases[] = {
        {"line", line, strlen(line), 414},
        {"field", field, strlen(field), 431},
        {"fields", fields, strlen(fields), 431},
    };
    struct stage *stage = stage_start(NULL);

    stage_expect_refused(stage, cases, COUNT(cases));
    stage_stop(stage);
    free(line);
    free(field);
    free(fields);
}

/* ---- row 54 ---- */

static const struct stage_options small_content = {.listener = "limits: {request_body: 1000}"};

Test(row_54, length_over_the_limit)
{
    static const struct stage_case cases[] = {
        STAGE_CASE("more than is read off", 413,
                   "POST / HTTP/1.1\r\n" HOST "Content-Length: 1000000\r\n\r\nbegun"),
        STAGE_CASE("most of all", 413,
                   "POST / HTTP/1.1\r\n" HOST "Content-Length: 9223372036854775807\r\n\r\n"),
        STAGE_CASE("asked for", 413,
                   "POST / HTTP/1.1\r\n" HOST
                   "Content-Length: 1001\r\nExpect: 100-continue\r\n\r\n"),
    };
    char *content =
        filled("POST / HTTP/1.1\r\n" HOST "Content-Length: 1001\r\n\r\n", "a", 1001, "");
    struct stage *stage = stage_start(&small_content);

    cr_expect_eq(stage_status(stage, content), 413);
    stage_expect_refused(stage, cases, COUNT(cases));
    stage_stop(stage);
    free(content);
}

Test(row_54, chunks_over_the_limit)
{
    /* After the four bytes of the table's first chunk. */
    char *one = filled("3e5\r\n", "a", 997, "\r\n0\r\n\r\n");
    char *many = filled("", "1\r\na\r\n", 997, "0\r\n\r\n");
    char *open_one = filled("7fffffffffffffff\r\n", "a", 2000, "");
    const struct stage_case cases[] = {
        {"one", one, strlen(one), 413},
        {"many", many, strlen(many), 413},
        {"one without end", open_one, strlen(open_one), 413},
    };
    struct stage *stage = stage_start(&small_content);

    stage_expect_content_refused(stage, cases, COUNT(cases));
    stage_stop(stage);
    free(one);
    free(many);
    free(open_one);
}

Test(row_54, content_at_the_limit)
{
    char *counted =
        filled("POST / HTTP/1.1\r\n" HOST "Content-Length: 1000\r\n\r\n", "a", 1000, "");
    char *chunked = filled("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n",
                           "1\r\na\r\n", 1000, "0\r\n\r\n");
    struct stage *stage = stage_start(&small_content);

    cr_expect_eq(stage_status(stage, counted), 200);
    cr_expect_eq(stage_status(stage, chunked), 200);
    cr_assert(script_wait_whole(stage->script, 2));
    cr_expect_eq(script_request(stage->script, 0)->content_n, 1000);
    cr_expect_eq(script_request(stage->script, 1)->content_n, 1000);
    stage_stop(stage);
    free(counted);
    free(chunked);
}

/* ---- row 56: counts ---- */

static bool is_ok(struct peer *peer)
{
    struct reply reply = stage_ask(peer, GET, 0);
    bool ok = reply.status == 200;

    reply_free(&reply);
    return ok;
}

Test(row_56, connections_over_the_limit)
{
    struct stage *stage = stage_start(&(struct stage_options){
        .listener = "limits: {connections: 8, evict_idle_after: infinity}"});
    struct peer *peers[8];
    char byte;
    enum peer_end end;

    for (int i = 0; i < 8; i++) {
        peers[i] = stage_connect(stage, false);
        cr_expect(is_ok(peers[i]), "connection %d", i);
    }
    for (int i = 0; i < 3; i++) {
        struct peer *extra = peer_connect(stage->plain);
        if (extra) {
            cr_expect_eq(peer_read(extra, &byte, 1, &end), 0);
            cr_expect(end == PEER_EOF || end == PEER_RESET);
        }
        peer_free(extra);
    }
    cr_expect_eq(weir_metric(stage->weir, "weir_connections_refused_total{listener=\"plain\","
                                          "reason=\"too_many_connections\"}"),
                 3);
    for (int i = 0; i < 8; i++)
        cr_expect(is_ok(peers[i]), "connection %d is not served any more", i);
    peer_free(peers[0]);
    cr_expect(weir_metric_becomes(stage->weir, "weir_connections_closed_total{listener=\"plain\"}",
                                  1, 5000));
    peers[0] = stage_connect(stage, false);
    cr_expect(is_ok(peers[0]), "a place is free, and nobody gets it");
    for (int i = 0; i < 8; i++)
        peer_free(peers[i]);
    stage_stop(stage);
}

static void serve_nothing(struct peer *client, void *arg)
{
    (void)arg;
    (void)peer_wait_end(client);
}

Test(row_56, requests_over_what_the_pool_has)
{
    struct stage *stage = stage_start(&(struct stage_options){
        .serve = serve_nothing, .cluster = "pool: {max_connections: 2, max_pending: 0}"});
    struct peer *busy[2];

    for (int i = 0; i < 2; i++) {
        busy[i] = stage_connect(stage, false);
        cr_assert(peer_say(busy[i], GET));
    }
    cr_assert(weir_metric_becomes(stage->weir,
                                  "weir_upstream_connections_active{cluster=\"origin\"}", 2, 5000));
    struct peer *peer = stage_connect(stage, false);
    struct reply reply = stage_ask(peer, GET, 0);
    cr_expect_eq(reply.status, 503, "%d", reply.status);
    cr_expect(*reply_field(&reply, "retry-after"));
    cr_expect(strstr(reply_field(&reply, "proxy-status"), "connection_limit_reached"));
    reply_free(&reply);
    cr_expect_eq(origin_connections(stage->origin), 2);
    for (int i = 0; i < 2; i++) {
        peer_reset(busy[i]);
        peer_free(busy[i]);
    }
    peer_free(peer);
    stage_stop(stage);
}

/* ---- row 56: memory ---- */

static atomic_size_t moved;

/* Writes until nobody takes it. */
static void serve_without_end(struct peer *client, void *arg)
{
    static char part[65536];
    char head[4096];

    (void)arg;
    if (!peer_read_head(client, head, sizeof(head)) || !peer_say(client, OK "\r\n"))
        return;
    while (peer_write(client, part, sizeof(part)))
        atomic_fetch_add(&moved, sizeof(part));
}

/* Waits until COUNT has not moved for a while, and returns it. */
static size_t settled(const atomic_size_t *count)
{
    struct timespec pause = {0, 300 * 1000 * 1000};
    size_t before;
    size_t now = 0;

    do {
        before = now;
        (void)nanosleep(&pause, NULL);
        now = atomic_load(count);
    } while (now != before || now == 0);
    return now;
}

/* What the four socket buffers on the way can hold is the kernel's; weir's part is told by itself. */
#define KERNEL_BYTES (32u << 20)
#define WEIR_BYTES (1u << 20)

/* The gauge is set once a second. */
static double buffer_bytes(const struct stage *stage)
{
    long end = stage_now_ms() + 5000;
    double bytes = 0;

    while (bytes == 0 && stage_now_ms() < end)
        bytes = weir_metric(stage->weir, "weir_buffer_bytes");
    return bytes;
}

Test(row_56, fast_origin_and_client_that_stopped)
{
    static char part[65536];
    enum peer_end end;

    for (int tls = 0; tls < 2; tls++) {
        struct stage *stage = stage_start(&(struct stage_options){.serve = serve_without_end});
        struct peer *peer = stage_connect(stage, tls);
        atomic_store(&moved, 0);
        cr_assert(peer_say(peer, GET));
        size_t held = settled(&moved);
        cr_expect_lt(held, KERNEL_BYTES, "%zu bytes for nobody", held);
        double bytes = buffer_bytes(stage);
        cr_expect(bytes > 0 && bytes < WEIR_BYTES, "%.0f bytes in buffers", bytes);
        for (size_t got = 0; got < held * 2;) {
            size_t n = peer_read(peer, part, sizeof(part), &end);
            cr_assert_gt(n, 0, "nothing more after %zu bytes", got);
            got += n;
        }
        cr_expect_gt(atomic_load(&moved), held);
        peer_free(peer);
        cr_expect(weir_metric_becomes(stage->weir, "weir_buffer_bytes", 0, 5000));
        stage_stop(stage);
    }
}

Test(row_56, fast_client_and_origin_that_stopped)
{
    static char part[65536];
    struct script_answer deaf = {.bytes = "", .when = SCRIPT_DEAF};
    struct stage *stage = stage_start(NULL);

    script_set(stage->script, &deaf, 1);
    struct peer *peer = stage_connect(stage, false);
    size_t written = 0;
    peer_set_wait(peer, 500 * weir_slowness());
    cr_assert(peer_say(peer, "POST / HTTP/1.1\r\n" HOST "Content-Length: 1000000000\r\n\r\n"));
    while (written < 2 * KERNEL_BYTES && peer_write(peer, part, sizeof(part)))
        written += sizeof(part);
    cr_expect_lt(written, KERNEL_BYTES, "%zu bytes for nobody", written);
    double bytes = buffer_bytes(stage);
    cr_expect(bytes > 0 && bytes < WEIR_BYTES, "%.0f bytes in buffers", bytes);
    peer_reset(peer);
    cr_expect(weir_metric_becomes(stage->weir, "weir_buffer_bytes", 0, 5000));
    peer_free(peer);
    stage_stop(stage);
}

/* A sanitizer's memory is not weir's. */
static bool is_release(void)
{
    char command[512];

    (void)snprintf(command, sizeof(command), "'%s' version | grep -q '(release'",
                   getenv("WEIR_BIN"));
    return system(command) == 0;
}

Test(row_56, idle_connections_are_small)
{
    enum { IDLE = 400 };
    struct stage *stage = stage_start(NULL);
    struct peer *peers[IDLE];
    size_t before = 0;

    for (int i = 0; i < IDLE; i++) {
        peers[i] = stage_connect(stage, true);
        cr_expect(is_ok(peers[i]));
        before = i == 0 ? weir_rss(stage->weir) : before;
    }
    size_t each = (weir_rss(stage->weir) - before) / IDLE;
    cr_expect_eq(weir_metric(stage->weir, "weir_connections_idle{listener=\"tls\"}"), IDLE);
    cr_expect(!is_release() || each < 16384, "%zu bytes a connection", each);
    for (int i = 0; i < IDLE; i++)
        peer_free(peers[i]);
    stage_stop(stage);
}
