/* Many clients and two upstreams that do anything at any time. Whatever happens, a client sees answers to its own requests only,
 * and nothing is left at the end. */
#include "support/proxy_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLIENTS 6
#define STEPS 250

struct asker {
    struct px_peer *peer;
    unsigned number; /* of its request in flight */
    bool waiting;
};

static struct proxy_rig *rig;
static struct asker askers[CLIENTS];
static unsigned state;
static unsigned next_number;
static uint64_t served;
static uint64_t retried;
static uint64_t shed;
static uint64_t abandoned; /* who left while they waited at a gate */
static bool limited;       /* few requests may be in flight */

static unsigned pick(unsigned n)
{
    state = state * 1103515245u + 12345u;
    return (state >> 16) % n;
}

static bool is_gone(const struct px_peer *peer)
{
    return (peer->fd < 0 && peer->transport == NULL) || peer->ended || peer->reset;
}

/* ---- clients ---- */

static void ask(struct asker *asker)
{
    if (asker->peer == NULL || is_gone(asker->peer)) {
        if (rig->client_count == PX_CONNECTIONS)
            return;
        asker->peer = px_client(rig, "");
    }
    char text[256];
    asker->number = ++next_number;
    asker->waiting = true;
    px_forget(asker->peer);
    static const struct {
        const char *method;
        const char *rest;
    } forms[] = {
        {"GET", "\r\n"},
        {"HEAD", "\r\n"},
        {"PUT", "Content-Length: 5\r\n\r\nhello"},
        {"POST", "Content-Length: 5\r\n\r\nhello"},
        {"POST", "Content-Length: 5\r\n\r\nhe"},
        {"POST", "Transfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n0\r\n\r\n"},
        {"PUT", "Transfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n"},
        {"POST", "Content-Length: 5000\r\n\r\n"},
    };
    unsigned form = pick(WR_COUNT_OF(forms));
    snprintf(text, sizeof(text), "%s /%u HTTP/1.1\r\nHost: a\r\n%s", forms[form].method,
             asker->number, forms[form].rest);
    px_say(asker->peer, text);
}

/* Every answer an upstream gives names the request it answers. */
static void check(struct asker *asker)
{
    if (asker->peer == NULL)
        return;
    const char *at = asker->peer->text;
    char own[32];
    snprintf(own, sizeof(own), "answers: /%u\r", asker->number);
    while ((at = strstr(at, "answers: ")) != NULL) {
        cr_assert(strncmp(at, own, strlen(own)) == 0, "%s is not for request %u", at,
                  asker->number);
        at++;
    }
    cr_assert_not(px_heard(asker->peer, "poison"));
    if (asker->waiting && px_heard(asker->peer, "\r\n\r\n") && !px_heard(asker->peer, " 103 "))
        asker->waiting = false;
}

static void disturb_client(struct asker *asker)
{
    if (asker->peer == NULL || is_gone(asker->peer))
        return;
    switch (pick(6)) {
    case 0:
        px_reset(asker->peer);
        break;
    case 1:
        px_close(asker->peer);
        break;
    case 2:
        px_finish(asker->peer);
        break;
    default:
        break;
    }
    if (is_gone(asker->peer))
        asker->waiting = false;
}

/* ---- upstreams ---- */

/* The path of the last request on it, or "". */
static void last_path(const struct px_peer *peer, char path[16])
{
    const char *found = NULL;
    for (const char *at = peer->text; (at = strstr(at, " HTTP/1.1\r\n")) != NULL; at++)
        found = at;
    path[0] = '\0';
    if (found == NULL)
        return;
    const char *from = found;
    while (from > peer->text && from[-1] != ' ')
        from--;
    snprintf(path, 16, "%.*s", (int)(found - from), from);
}

static void answer(struct px_peer *peer)
{
    char path[16];
    last_path(peer, path);
    if (path[0] == '\0')
        return;
    static const struct {
        const char *before;
        const char *after;
    } forms[] = {
        {"HTTP/1.1 200 OK\r\nAnswers: ", "\r\nContent-Length: 0\r\n\r\n"},
        {"HTTP/1.1 204 No Content\r\nAnswers: ", "\r\n\r\n"},
        {"HTTP/1.1 200 OK\r\nAnswers: ", "\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"},
        {"HTTP/1.1 103 Early Hints\r\nAnswers: ", "\r\n\r\n"},
        {"HTTP/1.1 200 OK\r\nAnswers: ", "\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"},
        {"HTTP/1.1 200 OK\r\nAnswers: ", "\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
        {"HTTP/1.1 200 OK\r\nAnswers: ", "\r\nContent-Length: 0\r\n\r\n"
                                         "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison"},
        {"HTTP/1.1 200 OK\r\nAnswers: ", "\r\nContent-Le"},
        {"nonsense ", "\r\n\r\n"},
    };
    char text[256];
    unsigned form = pick(WR_COUNT_OF(forms));
    snprintf(text, sizeof(text), "%s%s%s", forms[form].before, path, forms[form].after);
    if (!px_heard(peer, "HEAD ") || strstr(text, "chunked") == NULL)
        px_say(peer, text);
    px_forget(peer);
}

static bool is_at_rest(void)
{
    return wr_metric_get(&rig->cluster_metrics->upstream_active) == 0 &&
           wr_metric_get(&rig->cluster_metrics->upstream_pending) == 0;
}

static void disturb_upstream(struct px_peer *peer)
{
    switch (pick(8)) {
    case 0:
        px_close(peer);
        break;
    case 1:
        px_reset(peer);
        break;
    case 2:
        px_finish(peer);
        break;
    case 3:
        if (is_at_rest()) /* else it might be taken for the answer to a request already sent */
            px_say(peer, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison");
        break;
    default:
        if (peer->n > 0)
            answer(peer);
        break;
    }
}

static void act_upstream(void)
{
    struct px_upstream *upstream = &rig->upstreams[pick(2)];
    if (upstream->count == 0)
        return;
    size_t recent = upstream->count < 6 ? upstream->count : 6;
    struct px_peer *peer = upstream->peers[upstream->count - 1 - pick((unsigned)recent)];
    if (is_gone(peer))
        return;
    if (pick(3) == 0)
        disturb_upstream(peer);
    else if (peer->n > 0)
        answer(peer);
}

/* ---- the gates of listener and cluster ---- */

static struct wr_requests_options few(void)
{
    return (struct wr_requests_options){
        .mode = pick(3) == 0 ? WR_REQUESTS_ADAPTIVE : WR_REQUESTS_FIXED,
        .max = 1 + pick(4),
        .max_wait = pick(4) * 400 * WR_MSEC,
        .max_waiting = pick(4),
        .share = {100, 90, 70},
    };
}

static void check_gate(const struct wr_requests_options *options, uint64_t in_flight,
                       uint64_t waiting)
{
    cr_assert_leq(in_flight, options->max);
    cr_assert_leq(waiting, options->max_waiting);
    cr_assert(waiting == 0 || options->max_wait > 0);
}

static void check_gates(void)
{
    const struct wr_listener_metrics *listener = rig->host.metrics;
    const struct wr_cluster_metrics *cluster = rig->cluster_metrics;
    check_gate(&rig->proxy_options.requests, wr_metric_get(&listener->requests_in_flight),
               wr_metric_get(&listener->requests_waiting));
    check_gate(&rig->cluster_options.requests, wr_metric_get(&cluster->upstream_requests_in_flight),
               wr_metric_get(&cluster->upstream_requests_waiting));
}

/* All clients leave: so do their requests, wherever they are, and every place comes back. */
static void empty_gates(void)
{
    const struct wr_listener_metrics *listener = rig->host.metrics;
    const struct wr_cluster_metrics *cluster = rig->cluster_metrics;
    px_settle(rig);
    abandoned += wr_metric_get(&listener->requests_waiting);
    abandoned += wr_metric_get(&cluster->upstream_requests_waiting);
    for (size_t i = 0; i < rig->client_count; i++)
        if (rig->clients[i]->fd >= 0)
            px_reset(rig->clients[i]);
    px_pass(
        rig,
        60 *
            WR_SEC); /* those that closed are still to be answered, until an upstream has had its time */
    px_pass(rig, 60 * WR_SEC);
    PX_UNTIL(rig, wr_metric_get(&listener->requests_in_flight) == 0 &&
                      wr_metric_get(&cluster->upstream_requests_in_flight) == 0);
    cr_assert_eq(wr_metric_get(&listener->requests_waiting), 0);
    cr_assert_eq(wr_metric_get(&cluster->upstream_requests_waiting), 0);
    for (size_t i = 0; i < WR_SHED__COUNT; i++)
        shed += wr_metric_get(&listener->requests_refused[i]) +
                wr_metric_get(&cluster->upstream_requests_refused[i]);
}

/* ---- one run ---- */

static void step(void)
{
    struct asker *asker = &askers[pick(CLIENTS)];
    switch (pick(8)) {
    case 0:
    case 1:
    case 2:
        if (!asker->waiting)
            ask(asker);
        break;
    case 3:
    case 4:
    case 5:
        act_upstream();
        break;
    case 6:
        if (pick(4) == 0)
            disturb_client(asker);
        break;
    default:
        wr_loop_advance(rig->loop, pick(100) * 100 * WR_MSEC);
        break;
    }
    for (unsigned turns = pick(4); turns > 0; turns--)
        px_turn(rig);
    for (size_t i = 0; i < CLIENTS; i++)
        check(&askers[i]);
    if (limited)
        check_gates();
}

static bool is_nearly_full(void)
{
    return rig->upstreams[0].count > PX_CONNECTIONS - 40 ||
           rig->upstreams[1].count > PX_CONNECTIONS - 40 || rig->client_count > PX_CONNECTIONS - 4;
}

static void run(unsigned seed, bool tls)
{
    state = seed;
    memset(askers, 0, sizeof(askers));
    rig = px_new();
    rig->wait = 0;
    rig->cluster_options.max_connections = 1 + pick(4);
    rig->cluster_options.max_pending = pick(4);
    rig->cluster_options.max_idle = pick(4);
    rig->cluster_options.max_requests_per_connection = 1 + pick(20);
    rig->cluster_options.max_connection_age = (1 + pick(60)) * WR_SEC;
    rig->proxy_options.request_content_limit = pick(2) == 0 ? 4 : UINT64_MAX;
    if (limited) {
        rig->proxy_options.requests = few();
        rig->cluster_options.requests = few();
        rig->routes[0].priority = (enum wr_priority)pick(WR_PRIORITY__COUNT);
    }
    px_upstream(rig);
    px_upstream(rig);
    if (tls)
        px_use_tls(rig, false);
    px_start(rig);
    for (unsigned i = 0; i < STEPS && !is_nearly_full(); i++)
        step();
    if (limited)
        empty_gates();
    served += wr_metric_get(&rig->host.metrics->requests[2]);
    retried += wr_metric_get(&rig->cluster_metrics->upstream_retries);
    px_end(rig);
}

Test(proxy_random, anything_at_any_time, .timeout = 110)
{
    for (unsigned seed = 1; seed <= 200; seed++)
        run(seed, false);
    cr_assert_gt(served, 1000);
    cr_assert_gt(retried, 50);
}

Test(proxy_random, anything_at_any_time_over_tls, .timeout = 110)
{
    for (unsigned seed = 1; seed <= 50; seed++)
        run(seed, true);
    cr_assert_gt(served, 100);
}

Test(proxy_random, anything_at_any_time_with_few_places, .timeout = 110)
{
    limited = true;
    for (unsigned seed = 1; seed <= 200; seed++)
        run(seed, false);
    cr_assert_gt(served, 300);
    cr_assert_gt(shed, 1000);
    cr_assert_gt(abandoned, 10);
}
