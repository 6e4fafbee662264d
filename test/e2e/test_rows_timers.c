/* Row 52 of the table of hostile input: whoever is slow has a timer of its own. Timeouts are short here, and each test looks
 * both that it ends and that it does not end before. */
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "support/flood.h"
#include "support/stage.h"

#define HOST "Host: localhost\r\n"
#define GET "GET / HTTP/1.1\r\n" HOST "\r\n"
#define OK "HTTP/1.1 200 OK\r\n"
#define LATE_MS 5000 /* a machine that is busy */

static int timeout_ms(void)
{
    return 300 * weir_slowness();
}

/* "timeouts: {NAME: 300ms}" */
static const char *timeouts(const char *name)
{
    static char text[128];

    (void)snprintf(text, sizeof(text), "timeouts: {%s: %dms}", name, timeout_ms());
    return text;
}

/* SINCE is when the timeout began at the earliest. */
static void expect_in_time(long since)
{
    long took = stage_now_ms() - since;

    cr_expect(took >= timeout_ms() - 20, "after %ld ms", took);
    cr_expect(took < timeout_ms() + LATE_MS, "after %ld ms", took);
}

static bool is_closed(enum peer_end end)
{
    return end == PEER_EOF || end == PEER_RESET;
}

/* Says BYTE over and over until the connection ends or an answer comes; false when neither happens. */
static bool drip(struct peer *peer, char byte)
{
    long end = stage_now_ms() + timeout_ms() + LATE_MS;
    struct timespec pause = {0, 20 * 1000 * 1000};

    while (stage_now_ms() < end) {
        char got;
        if (!peer_write(peer, &byte, 1) ||
            recv(peer_fd(peer), &got, 1, MSG_PEEK | MSG_DONTWAIT) >= 0)
            return true;
        (void)nanosleep(&pause, NULL);
    }
    return false;
}

static void expect_refusal(const struct stage *stage, const char *reason, double count)
{
    char sample[128];

    (void)snprintf(sample, sizeof(sample),
                   "weir_connections_refused_total{listener=\"tls\",reason=\"%s\"}", reason);
    cr_expect_eq(weir_metric(stage->weir, sample), count, "%s", sample);
}

/* ---- before the first request ---- */

/* The connection must end in time, for REASON: the COUNTth time. */
static void expect_turned_away(const struct stage *stage, struct peer *peer, long since,
                               const char *reason, double count)
{
    cr_expect(is_closed(peer_wait_end(peer)));
    expect_in_time(since);
    expect_refusal(stage, reason, count);
    peer_free(peer);
}

Test(row_52, client_hello_that_does_not_come_stops_or_drips)
{
    uint8_t hello[FLOOD_HELLO_MAX];
    struct stage *stage =
        stage_start(&(struct stage_options){.listener = timeouts("client_hello")});

    (void)flood_hello(hello, NULL);
    for (int i = 0; i < 3; i++) {
        long since = stage_now_ms();
        struct peer *peer = peer_connect(stage->tls);
        if (i > 0)
            cr_assert(peer_write(peer, hello, 50));
        if (i > 1)
            cr_expect(drip(peer, 'x'));
        expect_turned_away(stage, peer, since, "client_hello_timeout", 1 + i);
    }
    stage_stop(stage);
}

Test(row_52, handshake_that_stops_or_drips)
{
    static const char record[] = {0x17, 0x03, 0x03, 0x40, 0x00};
    uint8_t hello[FLOOD_HELLO_MAX];
    struct stage *stage = stage_start(&(struct stage_options){.listener = timeouts("handshake")});
    size_t n = flood_hello(hello, NULL);

    for (int i = 0; i < 2; i++) {
        long since = stage_now_ms();
        struct peer *peer = peer_connect(stage->tls);
        cr_assert(peer_write(peer, hello, n));
        if (i > 0) {
            cr_assert(peer_write(peer, record, sizeof(record)));
            peer_set_wait(peer, 20);
            while (peer_write(peer, "x", 1) && peer_wait_end(peer) == PEER_WAITED)
                continue;
        }
        expect_turned_away(stage, peer, since, "handshake_timeout", 1 + i);
    }
    stage_stop(stage);
}

/* ---- the head ---- */

static void expect_408(struct peer *peer, long since)
{
    struct reply reply = peer_reply(peer, false);

    cr_expect_eq(reply.status, 408, "%d", reply.status);
    cr_expect_str_eq(reply_field(&reply, "connection"), "close");
    expect_in_time(since);
    reply_free(&reply);
}

Test(row_52, head_that_stops_and_one_that_drips)
{
    struct stage *stage =
        stage_start(&(struct stage_options){.listener = timeouts("request_header")});

    for (int i = 0; i < 4; i++) {
        struct peer *peer = stage_connect(stage, i % 2);
        long since = stage_now_ms();
        cr_assert(peer_say(peer, "GET / HTTP/1.1\r\nHost: local"));
        if (i >= 2)
            cr_expect(drip(peer, 'x'));
        expect_408(peer, since);
        cr_expect(i >= 2 || stage_is_over(peer));
        peer_free(peer);
    }
    cr_expect_eq(origin_connections(stage->origin), 0);
    stage_stop(stage);
}

/* Idle time is not time of the head. */
Test(row_52, head_timeout_starts_with_its_first_byte)
{
    struct stage *stage =
        stage_start(&(struct stage_options){.listener = timeouts("request_header")});
    struct peer *peer = stage_connect(stage, false);
    char byte;
    enum peer_end end;

    peer_set_wait(peer, timeout_ms() * 3 / 2);
    cr_expect_eq(peer_read(peer, &byte, 1, &end), 0);
    cr_expect_eq(end, PEER_WAITED);
    peer_set_wait(peer, PEER_WAIT_MS);
    struct reply reply = stage_ask(peer, GET, 0);
    cr_expect_eq(reply.status, 200);
    reply_free(&reply);
    peer_free(peer);
    stage_stop(stage);
}

/* ---- content of requests ---- */

Test(row_52, content_that_stops)
{
    static const char *const framings[] = {"Content-Length: 10\r\n\r\nhello",
                                           "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"};
    struct stage *stage = stage_start(&(struct stage_options){.listener = timeouts("inactivity")});
    char request[256];

    for (unsigned i = 0; i < 4; i++) {
        struct peer *peer = stage_connect(stage, i % 2);
        long since = stage_now_ms();
        (void)snprintf(request, sizeof(request), "POST / HTTP/1.1\r\n" HOST "%s", framings[i / 2]);
        cr_assert(peer_say(peer, request));
        expect_408(peer, since);
        peer_free(peer);
        cr_assert(script_wait_ended(stage->script, i + 1));
        cr_expect(!script_request(stage->script, i)->whole);
    }
    stage_stop(stage);
}

Test(row_52, content_that_drips_has_the_time_of_the_request)
{
    struct stage *stage = stage_start(&(struct stage_options){.listener = timeouts("request")});
    struct peer *peer = stage_connect(stage, false);
    long since = stage_now_ms();

    cr_assert(peer_say(peer, "POST / HTTP/1.1\r\n" HOST "Content-Length: 100000\r\n\r\n"));
    cr_expect(drip(peer, 'x'));
    struct reply reply = peer_reply(peer, false);
    cr_expect(reply.status == 408 || reply.status == 504, "%d", reply.status);
    expect_in_time(since);
    reply_free(&reply);
    peer_free(peer);
    cr_assert(script_wait_ended(stage->script, 1));
    cr_expect(!script_request(stage->script, 0)->whole);
    stage_stop(stage);
}

Test(row_52, content_that_drips_below_its_rate)
{
    struct stage *stage =
        stage_start(&(struct stage_options){.listener = "limits: {request_rate: 10KiB}"});
    struct peer *peer = stage_connect(stage, false);
    long since = stage_now_ms();

    cr_assert(peer_say(peer, "POST / HTTP/1.1\r\n" HOST "Content-Length: 100000\r\n\r\n"));
    for (int i = 0; i < 10 && !drip(peer, 'x'); i++)
        continue;
    struct reply reply = peer_reply(peer, false);
    cr_expect_eq(reply.status, 408);
    cr_expect_geq(stage_now_ms() - since, 5000, "a client has five seconds of grace");
    reply_free(&reply);
    peer_free(peer);
    stage_stop(stage);
}

/* ---- clients that do not read, or do nothing ---- */

Test(row_52, client_that_does_not_read)
{
    struct stage *stage = stage_start(&(struct stage_options){
        .listener = timeouts("inactivity"),
        .routes = "{match: {path: /large}, respond: {status: 200, body_size: 256MiB}}"});
    struct peer *peer = stage_connect(stage, false);
    long since = stage_now_ms();

    cr_assert(peer_say(peer, "GET /large HTTP/1.1\r\n" HOST "\r\n"));
    cr_expect(weir_metric_becomes(
        stage->weir,
        "weir_connections_ended_total{listener=\"plain\",reason=\"client_read_timeout\"}", 1,
        LATE_MS));
    expect_in_time(since);
    struct reply reply = peer_reply(peer, false);
    cr_expect(!reply.whole && is_closed(reply.end));
    reply_free(&reply);
    peer_free(peer);
    stage_stop(stage);
}

Test(row_52, idle_clients)
{
    struct stage *stage = stage_start(&(struct stage_options){.listener = timeouts("keep_alive")});

    for (int i = 0; i < 4; i++) {
        struct peer *peer = stage_connect(stage, i % 2);
        if (i >= 2) {
            struct reply reply = stage_ask(peer, GET, 0);
            cr_expect_eq(reply.status, 200);
            reply_free(&reply);
        }
        long since = stage_now_ms();
        cr_expect(stage_is_over(peer), "a word, or no clean end");
        expect_in_time(since);
        peer_free(peer);
    }
    stage_stop(stage);
}

Test(row_52, client_that_does_not_close)
{
    struct stage *stage = stage_start(&(struct stage_options){.listener = timeouts("linger")});
    struct peer *peer = stage_connect(stage, false);
    long since = stage_now_ms();
    struct reply reply = stage_ask(peer, "GET / HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n", 0);

    cr_expect_eq(reply.status, 200);
    cr_expect(stage_is_over(peer));
    cr_expect(weir_metric_becomes(stage->weir, "weir_connections_closed_total{listener=\"plain\"}",
                                  1, LATE_MS));
    expect_in_time(since);
    reply_free(&reply);
    peer_free(peer);
    stage_stop(stage);
}

Test(row_52, old_connections)
{
    struct stage *stage =
        stage_start(&(struct stage_options){.listener = timeouts("max_connection_age")});
    struct peer *peer = stage_connect(stage, false);
    long since = stage_now_ms();

    cr_expect(stage_is_over(peer));
    long took = stage_now_ms() - since;
    cr_expect(took >= timeout_ms() * 9 / 10 - 20 && took < timeout_ms() + LATE_MS, "%ld ms", took);
    peer_free(peer);
    stage_stop(stage);
}

/* ---- origins ---- */

static void serve_nothing(struct peer *client, void *arg)
{
    (void)arg;
    (void)peer_wait_end(client);
}

static void serve_part(struct peer *client, void *arg)
{
    char head[4096];

    (void)arg;
    if (peer_read_head(client, head, sizeof(head)))
        (void)peer_say(client, OK "Content-Length: 10\r\n\r\nhello");
    (void)peer_wait_end(client);
}

static void expect_504(struct stage *stage, const char *request)
{
    struct peer *peer = stage_connect(stage, false);
    long since = stage_now_ms();
    struct reply reply = stage_ask(peer, request, 0);

    cr_expect_eq(reply.status, 504, "%d", reply.status);
    cr_expect(strstr(reply_field(&reply, "proxy-status"), "error="));
    expect_in_time(since);
    reply_free(&reply);
    /* The client did nothing wrong. */
    reply = stage_ask(peer, "GET /here HTTP/1.1\r\n" HOST "\r\n", 0);
    cr_expect_eq(reply.status, 404);
    reply_free(&reply);
    peer_free(peer);
}

#define HERE "{match: {path: /here}, respond: {status: 404}}"

Test(row_52, origin_that_does_not_answer)
{
    struct stage *stage = stage_start(&(struct stage_options){
        .serve = serve_nothing, .cluster = timeouts("response"), .routes = HERE});

    expect_504(stage, GET);
    cr_expect(weir_metric_becomes(
        stage->weir, "weir_upstream_connections_active{cluster=\"origin\"}", 0, LATE_MS));
    cr_expect_eq(weir_metric(stage->weir, "weir_upstream_connections_idle{cluster=\"origin\"}"), 0);
    stage_stop(stage);
}

Test(row_52, request_in_all)
{
    struct stage *stage = stage_start(&(struct stage_options){
        .serve = serve_nothing, .listener = timeouts("request"), .routes = HERE});

    expect_504(stage, GET);
    stage_stop(stage);
}

/* A listening socket whose queue is full answers no SYN. */
Test(row_52, origin_that_cannot_be_connected)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t length = sizeof(address);
    char cluster[256];
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    int fillers[4];

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    cr_assert(bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0 && listen(fd, 0) == 0);
    (void)getsockname(fd, (struct sockaddr *)&address, &length);
    for (int i = 0; i < 4; i++) {
        fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        (void)connect(fillers[i], (struct sockaddr *)&address, sizeof(address));
    }
    (void)snprintf(cluster, sizeof(cluster), "{name: far, endpoints: [127.0.0.1:%d], %s}",
                   ntohs(address.sin_port), timeouts("connect"));
    struct stage *stage = stage_start(&(struct stage_options){
        .clusters = cluster, .routes = HERE ", {match: {path: /far}, cluster: far}"});
    expect_504(stage, "GET /far HTTP/1.1\r\n" HOST "\r\n");
    stage_stop(stage);
    for (int i = 0; i < 4; i++)
        (void)close(fillers[i]);
    (void)close(fd);
}

Test(row_52, answer_that_stops)
{
    struct stage *stage = stage_start(
        &(struct stage_options){.serve = serve_part, .listener = timeouts("inactivity")});
    struct peer *peer = stage_connect(stage, false);
    long since = stage_now_ms();
    struct reply reply = stage_ask(peer, GET, 0);

    cr_expect_eq(reply.status, 200);
    cr_expect_str_eq(reply.body, "hello");
    cr_expect(!reply.whole && is_closed(reply.end));
    expect_in_time(since);
    reply_free(&reply);
    peer_free(peer);
    cr_expect(weir_metric_becomes(
        stage->weir, "weir_upstream_connections_active{cluster=\"origin\"}", 0, LATE_MS));
    stage_stop(stage);
}

Test(row_52, idle_connection_to_an_origin)
{
    struct stage *stage = stage_start(&(struct stage_options){.cluster = timeouts("keep_alive")});
    long since = stage_now_ms();

    cr_expect_eq(stage_status(stage, GET), 200);
    cr_assert(script_wait_ended(stage->script, 1));
    expect_in_time(since);
    stage_fence(stage);
    cr_expect_eq(script_request(stage->script, 1)->connection, 2);
    stage_stop(stage);
}

/* One timeout for two meanings is what blocked services: an origin that takes its time is not an idle client. */
Test(row_52, keep_alive_does_not_end_requests)
{
    struct stage *stage =
        stage_start(&(struct stage_options){.listener = timeouts("keep_alive"),
                                            .serve = serve_nothing,
                                            .cluster = "timeouts: {response: 2s}"});
    struct peer *peer = stage_connect(stage, false);
    struct reply reply = stage_ask(peer, GET, 0);

    cr_expect_eq(reply.status, 504, "%d", reply.status);
    reply_free(&reply);
    peer_free(peer);
    stage_stop(stage);
}
