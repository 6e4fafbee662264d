/* Admission of requests and rates of routes, through the binary, with an upstream that takes its time. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/command.h"
#include "support/edge.h"
#include "support/h2_frames.h"
#include "support/origin.h"
#include "support/weir.h"

#define GET "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
#define IN_FLIGHT "weir_upstream_requests_in_flight{cluster=\"up\"}"
#define WAITING "weir_upstream_requests_waiting{cluster=\"up\"}"
#define LIMIT "weir_upstream_requests_limit{cluster=\"up\"}"
#define REFUSED(cause) "weir_upstream_requests_refused_total{cluster=\"up\",cause=\"" cause "\"}"
#define FAILED(why) "weir_requests_failed_total{listener=\"edge\",reason=\"" why "\"}"
#define WAIT_MS 20000

/* ---- an upstream that answers when it is told to, or after a while ---- */

struct slow {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool open;          /* answers by itself */
    unsigned base_ms;   /* after so long, */
    unsigned knee;      /* longer in proportion when it has more than that at once */
    unsigned in_flight; /* requests it has */
    unsigned peak;
    struct origin *origin;
};

static void wait_for_turn(struct slow *slow)
{
    (void)pthread_mutex_lock(&slow->lock);
    slow->in_flight++;
    if (slow->in_flight > slow->peak)
        slow->peak = slow->in_flight;
    while (!slow->open)
        (void)pthread_cond_wait(&slow->changed, &slow->lock);
    unsigned pressed = slow->knee > 0 && slow->in_flight > slow->knee ? slow->in_flight : 0;
    unsigned ms = pressed > 0 ? slow->base_ms * pressed / slow->knee : slow->base_ms;
    (void)pthread_mutex_unlock(&slow->lock);
    if (ms > 0)
        edge_nap((int)ms);
    (void)pthread_mutex_lock(&slow->lock);
    slow->in_flight--;
    (void)pthread_mutex_unlock(&slow->lock);
}

static void serve_slowly(struct peer *client, void *arg)
{
    char head[4096];
    peer_set_wait(client, 100000);
    while (peer_read_head(client, head, sizeof(head))) {
        wait_for_turn(arg);
        if (!peer_say(client, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"))
            return;
    }
}

static void set(struct slow *slow, bool open, unsigned base_ms, unsigned knee)
{
    (void)pthread_mutex_lock(&slow->lock);
    slow->open = open;
    slow->base_ms = base_ms;
    slow->knee = knee;
    (void)pthread_cond_broadcast(&slow->changed);
    (void)pthread_mutex_unlock(&slow->lock);
}

static void slow_start(struct slow *slow)
{
    *slow = (struct slow){.open = false};
    (void)pthread_mutex_init(&slow->lock, NULL);
    (void)pthread_cond_init(&slow->changed, NULL);
    slow->origin = origin_start(serve_slowly, slow);
}

static void slow_stop(struct slow *slow)
{
    set(slow, true, 0, 0);
    origin_stop(slow->origin);
}

static struct weir *start(const struct slow *slow, const char *requests, const char *routes)
{
    return weir_start("workers: 1\nadmin: 127.0.0.1:0\naccess_log: access.log\n"
                      "listeners:\n"
                      "  - name: edge\n"
                      "    bind: 127.0.0.1:0\n"
                      "    forwarded: {trust: [127.0.0.1]}\n"
                      "    routes: [%s{cluster: up}]\n"
                      "clusters:\n"
                      "  - name: up\n"
                      "    endpoints: [127.0.0.1:%d]\n"
                      "    requests: {%s}\n",
                      routes, origin_port(slow->origin), requests);
}

static struct peer *ask(const struct weir *weir, const char *text)
{
    struct peer *peer = peer_connect(weir_port(weir, "edge"));
    cr_assert_not_null(peer);
    peer_set_wait(peer, 100000);
    cr_assert(peer_say(peer, text));
    return peer;
}

/* What comes must have STATUS; its Retry-After, "" when there is none. */
static const char *hear(struct peer *peer, int status)
{
    static char retry_after[16];
    struct reply reply = peer_reply(peer, false);
    cr_expect_eq(reply.status, status, "%d: %s", reply.status, reply.head);
    (void)snprintf(retry_after, sizeof(retry_after), "%.15s", reply_field(&reply, "retry-after"));
    reply_free(&reply);
    peer_free(peer);
    return retry_after;
}

static void becomes(const struct weir *weir, const char *sample, double value)
{
    cr_expect(weir_metric_becomes(weir, sample, value, edge_ms(WAIT_MS)), "%s is %.0f, not %.0f",
              sample, weir_metric(weir, sample), value);
}

/* ---- a fixed limit ---- */

Test(requests, the_third_waits_and_the_fourth_is_refused, .timeout = 120)
{
    struct slow slow;
    slow_start(&slow);
    struct weir *weir = start(&slow, "max: 2, max_wait: 90s, max_waiting: 1", "");
    struct peer *first = ask(weir, GET);
    struct peer *second = ask(weir, GET);
    becomes(weir, IN_FLIGHT, 2);
    struct peer *third = ask(weir, GET);
    becomes(weir, WAITING, 1);
    cr_expect_str_eq(hear(ask(weir, GET), 503), "90");
    becomes(weir, REFUSED("queue"), 1);
    becomes(weir, FAILED("overloaded"), 1);
    cr_expect(weir_file_has(weir, "access.log", "overloaded", edge_ms(WAIT_MS)));
    cr_expect_eq(slow.peak, 2);
    set(&slow, true, 0, 0);
    hear(first, 200);
    hear(second, 200);
    hear(third, 200);
    becomes(weir, IN_FLIGHT, 0);
    cr_expect_eq(weir_metric(weir, WAITING), 0);
    weir_stop(weir);
    slow_stop(&slow);
}

Test(requests, a_wait_has_an_end, .timeout = 120)
{
    struct slow slow;
    slow_start(&slow);
    struct weir *weir = start(&slow, "max: 1, max_wait: 1500ms", "");
    struct peer *first = ask(weir, GET);
    becomes(weir, IN_FLIGHT, 1);
    long began = edge_now_ms();
    cr_expect_str_eq(hear(ask(weir, GET), 503), "2");
    cr_expect_geq(edge_now_ms() - began, 1400);
    becomes(weir, REFUSED("wait"), 1);
    set(&slow, true, 0, 0);
    hear(first, 200);
    weir_stop(weir);
    slow_stop(&slow);
}

Test(requests, a_client_that_goes_while_it_waits_frees_its_place, .timeout = 120)
{
    struct slow slow;
    slow_start(&slow);
    struct weir *weir = start(&slow, "max: 1, max_wait: 90s, max_waiting: 1", "");
    struct peer *first = ask(weir, GET);
    becomes(weir, IN_FLIGHT, 1);
    struct peer *second = ask(weir, GET);
    becomes(weir, WAITING, 1);
    peer_reset(second);
    peer_free(second);
    becomes(weir, WAITING, 0);
    struct peer *third = ask(weir, GET);
    becomes(weir, WAITING, 1);
    set(&slow, true, 0, 0);
    hear(first, 200);
    hear(third, 200);
    weir_stop(weir);
    slow_stop(&slow);
}

Test(requests, sheddable_ones_go_first, .timeout = 120)
{
    struct slow slow;
    slow_start(&slow);
    struct weir *weir = start(&slow, "max: 4, max_wait: 90s, max_waiting: 1, sheddable_share: 50%",
                              "{match: {path: /junk}, cluster: up, priority: sheddable}, "
                              "{match: {path: /pay}, cluster: up, priority: critical}, ");
    struct peer *junk[3];
    struct peer *normal[2];
    for (unsigned i = 0; i < 2; i++)
        junk[i] = ask(weir, "GET /junk HTTP/1.1\r\nHost: a\r\n\r\n");
    becomes(weir, IN_FLIGHT, 2);
    junk[2] = ask(weir, "GET /junk HTTP/1.1\r\nHost: a\r\n\r\n"); /* half of four */
    becomes(weir, WAITING, 1);
    for (unsigned i = 0; i < 2; i++)
        normal[i] = ask(weir, GET);
    becomes(weir, IN_FLIGHT, 4);
    struct peer *pay = ask(weir, "GET /pay HTTP/1.1\r\nHost: a\r\n\r\n");
    cr_expect_str_eq(hear(junk[2], 503), "90");
    becomes(weir, REFUSED("priority"), 1);
    becomes(weir, WAITING, 1);
    set(&slow, true, 0, 0);
    hear(pay, 200);
    for (unsigned i = 0; i < 2; i++) {
        hear(junk[i], 200);
        hear(normal[i], 200);
    }
    weir_stop(weir);
    slow_stop(&slow);
}

/* ---- HTTP/2 ---- */

static void expect_run(const char *expected, const char *command)
{
    char *output;
    int status = command_run(100, &output, "%s", command);
    cr_expect_eq(status, 0, "%s", output);
    cr_expect_not_null(strstr(output, expected), "no \"%s\" in:\n%.4000s", expected, output);
    free(output);
}

Test(requests, many_streams_of_few_connections_take_turns, .timeout = 150)
{
    struct slow slow;
    char command[256];
    slow_start(&slow);
    set(&slow, true, 10, 0);
    struct weir *weir = start(&slow, "max: 4, max_wait: 90s", "");
    (void)snprintf(command, sizeof(command), "h2load -n 200 -c 2 -m 50 http://127.0.0.1:%d/",
                   weir_port(weir, "edge"));
    expect_run("200 succeeded", command);
    cr_expect_eq(slow.peak, 4);
    becomes(weir, IN_FLIGHT, 0);
    weir_stop(weir);
    slow_stop(&slow);
}

Test(requests, a_stream_is_refused_by_itself, .timeout = 120)
{
    struct slow slow;
    char command[256];
    slow_start(&slow);
    struct weir *weir = start(&slow, "max: 1, max_wait: 0", "");
    struct peer *first = ask(weir, GET);
    becomes(weir, IN_FLIGHT, 1);
    (void)snprintf(command, sizeof(command),
                   "curl -sS -i -m 60 --http2-prior-knowledge http://127.0.0.1:%d/ | tr -d '\\r'",
                   weir_port(weir, "edge"));
    expect_run("HTTP/2 503", command);
    expect_run("retry-after: 1\n", command);
    expect_run("proxy-status: weir; error=connection_limit_reached", command);
    becomes(weir, REFUSED("limit"), 3);
    set(&slow, true, 0, 0);
    hear(first, 200);
    becomes(weir, IN_FLIGHT, 0);
    expect_run("HTTP/2 200", command);
    weir_stop(weir);
    slow_stop(&slow);
}

/* A client that only ends its connection may still wait for the answer (as of any request): it is RST_STREAM that says it does not. */
Test(requests, a_stream_that_is_reset_while_it_waits_frees_its_place, .timeout = 120)
{
    struct slow slow;
    slow_start(&slow);
    struct weir *weir = start(&slow, "max: 1, max_wait: 90s, max_waiting: 1", "");
    struct peer *first = ask(weir, GET);
    becomes(weir, IN_FLIGHT, 1);
    struct h2_peer *h2 = h2_peer_open(weir_port(weir, "edge"), false, NULL);
    for (uint32_t id = 1; id <= 5; id += 2) {
        h2_peer_get(h2, id, "/");
        h2_peer_send(h2);
        becomes(weir, WAITING, 1);
        h2_put_reset(&h2->out, id, 8);
        h2_peer_send(h2);
        becomes(weir, WAITING, 0);
    }
    set(&slow, true, 0, 0);
    hear(first, 200);
    becomes(weir, IN_FLIGHT, 0);
    cr_expect_eq(weir_metric(weir, REFUSED("queue")), 0);
    h2_peer_free(h2);
    weir_stop(weir);
    slow_stop(&slow);
}

/* ---- an adaptive limit ---- */

#define CALLERS 90

struct callers {
    const struct weir *weir;
    atomic_bool stop;
    atomic_uint served;
    pthread_t threads[CALLERS];
};

static void *call_again_and_again(void *arg)
{
    struct callers *callers = arg;
    struct peer *peer = peer_connect(weir_port(callers->weir, "edge"));
    while (peer != NULL && !atomic_load(&callers->stop)) {
        peer_set_wait(peer, 100000);
        if (!peer_say(peer, GET))
            break;
        struct reply reply = peer_reply(peer, false);
        if (reply.status == 200)
            atomic_fetch_add(&callers->served, 1);
        bool over = reply.status == 0;
        reply_free(&reply);
        if (over)
            break;
    }
    peer_free(peer);
    return NULL;
}

/* Waits until the limit is in the range. */
static bool limit_comes_between(const struct weir *weir, double least, double most)
{
    long until = edge_now_ms() + 60000;
    double limit = 0;
    while (edge_now_ms() < until) {
        limit = weir_metric(weir, LIMIT);
        if (limit >= least && limit <= most)
            return true;
        edge_nap(100);
    }
    cr_log_warn("the limit is %.0f, not %.0f to %.0f", limit, least, most);
    return false;
}

/* An upstream that does 40 at once, then 3, then 40. Bounds are loose: the machine has its own latency. */
Test(requests, an_adaptive_limit_follows_the_upstream, .timeout = 300)
{
    struct slow slow;
    struct callers callers = {.served = 0};
    slow_start(&slow);
    set(&slow, true, 100, 40);
    struct weir *weir = start(&slow, "mode: adaptive, max_wait: 60s", "");
    callers.weir = weir;
    cr_expect_eq(weir_metric(weir, LIMIT), 20);
    for (size_t i = 0; i < CALLERS; i++)
        cr_assert_eq(pthread_create(&callers.threads[i], NULL, call_again_and_again, &callers), 0);
    cr_expect(limit_comes_between(weir, 30, 1000), "up");
    set(&slow, true, 100, 3);
    cr_expect(limit_comes_between(weir, 1, 14), "down");
    set(&slow, true, 100, 40);
    cr_expect(limit_comes_between(weir, 30, 1000), "up again");
    atomic_store(&callers.stop, true);
    for (size_t i = 0; i < CALLERS; i++)
        (void)pthread_join(callers.threads[i], NULL);
    cr_expect_gt(atomic_load(&callers.served), CALLERS);
    cr_expect_lt(slow.peak, CALLERS);
    weir_stop(weir);
    slow_stop(&slow);
}

/* ---- rates ---- */

static unsigned count_status(const struct weir *weir, const char *field, unsigned n, int status)
{
    char text[256];
    unsigned count = 0;
    (void)snprintf(text, sizeof(text), "GET / HTTP/1.1\r\nHost: a\r\n%s\r\n", field);
    for (unsigned i = 0; i < n; i++) {
        struct peer *peer = ask(weir, text);
        struct reply reply = peer_reply(peer, false);
        count += reply.status == status;
        if (reply.status == 429)
            cr_expect_str_eq(reply_field(&reply, "retry-after"), "1");
        reply_free(&reply);
        peer_free(peer);
    }
    return count;
}

/* A token a second, five at once; a slow machine may have given a few more. */
static void expect_rate_by(const char *key, const char *one, const char *other)
{
    struct slow slow;
    char route[256];
    char command[256];
    slow_start(&slow);
    set(&slow, true, 0, 0);
    (void)snprintf(route, sizeof(route),
                   "{cluster: up, rate: {per_second: 1, burst: 5, key: \"%s\"}}, ", key);
    struct weir *weir = start(&slow, "max: infinity", route);
    cr_expect_eq(count_status(weir, one, 5, 200), 5);
    unsigned refused = count_status(weir, one, 10, 429);
    cr_expect_geq(refused, 1);
    cr_expect_eq(count_status(weir, other, 5, 200), 5);
    becomes(weir, FAILED("rate_limited"), refused);
    cr_expect_eq(weir_metric(weir, "weir_requests_rate_limited_total{listener=\"edge\"}"), refused);
    cr_expect(weir_file_has(weir, "access.log", "rate_limited", edge_ms(WAIT_MS)));
    (void)snprintf(command, sizeof(command),
                   "for i in 1 2 3 4 5 6 7 8 9 10; do curl -sS -i -m 60 "
                   "--http2-prior-knowledge -H '%.*s' http://127.0.0.1:%d/; done | tr -d '\\r'",
                   (int)strcspn(one, "\r"), one, weir_port(weir, "edge"));
    expect_run("HTTP/2 429", command);
    weir_stop(weir);
    slow_stop(&slow);
}

Test(requests, have_a_rate_by_client, .timeout = 120)
{
    expect_rate_by("client", "X-Forwarded-For: 192.0.2.1\r\n", "X-Forwarded-For: 192.0.2.2\r\n");
}

Test(requests, have_a_rate_by_field, .timeout = 120)
{
    expect_rate_by("header:X-Api-Key", "X-Api-Key: alpha\r\n", "X-Api-Key: beta\r\n");
}
