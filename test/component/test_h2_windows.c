/* Windows of streams over a path with a delay: they grow while that helps, and shrink when a sink stalls. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/h2_rig.h"

#define KIB ((uint64_t)1024)
#define MIB (1024 * KIB)
#define POST ":method: POST\n:scheme: http\n:path: /\n:authority: a.test\n"

/* A sender that has all the time something to say on some streams, HALF ticks away from the codec. */
#define HALF 4
#define ROUND_TRIP 8u
#define STREAMS 4
struct path {
    struct h2_rig *rig;
    struct text to[HALF + 1];   /* the codec, by tick of arrival */
    struct text from[HALF + 1]; /* frames, the same */
    unsigned tick;
    unsigned pings;
    size_t rate; /* bytes a stream and tick; SIZE_MAX: any */
    uint64_t connection;
    uint64_t window[STREAMS]; /* of streams 1, 3, ... */
    uint64_t left[STREAMS];   /* to be sent */
    uint64_t sent[STREAMS];
};

static uint64_t windows_in(const char *frames, unsigned id)
{
    char start[32];
    uint64_t sum = 0;
    (void)snprintf(start, sizeof(start), "WINDOW/%u[", id);
    for (const char *at = frames; (at = strstr(at, start)) != NULL;) {
        at += strlen(start);
        sum += strtoull(at, NULL, 10);
    }
    return sum;
}

static void hear(struct path *path, const char *frames)
{
    struct text *answer = &path->to[(path->tick + HALF) % (HALF + 1)];
    path->connection += windows_in(frames, 0);
    for (unsigned i = 0; i < STREAMS; i++)
        path->window[i] += windows_in(frames, 2 * i + 1);
    for (const char *at = frames; (at = strstr(at, "PING[weirwind]")) != NULL; at++) {
        h2_put_ping(answer, H2_ACK, "weirwind");
        path->pings++;
    }
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static void say(struct path *path, unsigned i)
{
    static const char content[16384];
    struct text *out = &path->to[(path->tick + HALF) % (HALF + 1)];
    uint64_t n = least(least(path->window[i], path->connection), least(path->left[i], path->rate));
    path->window[i] -= n;
    path->connection -= n;
    path->left[i] -= n;
    path->sent[i] += n;
    for (; n > 0; n -= least(n, sizeof(content)))
        h2_put_frame(out, H2_DATA, 0, 2 * i + 1, content, (size_t)least(n, sizeof(content)));
}

static void tick(struct path *path)
{
    struct text *arrived = &path->to[path->tick % (HALF + 1)];
    struct text *heard = &path->from[path->tick % (HALF + 1)];
    text_add(&path->rig->out, arrived->p, arrived->n);
    text_free(arrived);
    h2_rig_send(path->rig);
    if (heard->n > 0)
        hear(path, heard->p);
    text_free(heard);
    text_add(&path->from[(path->tick + HALF) % (HALF + 1)], path->rig->frames.p,
             path->rig->frames.n);
    h2_rig_forget(path->rig);
    for (unsigned i = 0; i < STREAMS; i++)
        say(path, i);
    wr_loop_advance(path->rig->loop, 10 * WR_MSEC);
    path->tick++;
}

static void ticks(struct path *path, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        tick(path);
}

/* Round trips until LEFT of stream 1 are with the codec, or 200. */
static unsigned run(struct path *path, uint64_t left)
{
    const struct wr_message *message = path->rig->calls[0].collector.message;
    unsigned begin = path->tick;
    path->left[0] = left;
    uint64_t until = message->put_bytes + left;
    while (message->put_bytes < until && path->tick - begin < 200 * ROUND_TRIP)
        tick(path);
    return (path->tick - begin) / ROUND_TRIP;
}

static struct path *start(bool client, unsigned streams, uint32_t connection_window)
{
    struct path *path = calloc(1, sizeof(*path));
    struct h2_rig *rig = h2_rig_new(client);
    struct wr_h2_options *h2 = client ? &rig->client_options.h2 : &rig->server_options.h2;
    h2->connection_window = connection_window;
    h2->stream_window_max = (uint32_t)MIB;
    path->rig = rig;
    path->rate = SIZE_MAX;
    path->connection = 65535;
    rig->on_exchange = h2_rig_wait;
    h2_rig_start(rig);
    for (unsigned i = 0; i < streams; i++) {
        if (client)
            h2_rig_open(rig, "GET", 0, "");
        path->window[i] = 65536;
    }
    h2_rig_settle(rig);
    for (unsigned i = 0; i < streams; i++)
        h2_put_headers(&rig->out, 2 * i + 1, 0, client ? ":status: 200\n" : POST);
    h2_rig_send(rig);
    cr_assert_eq(rig->count, streams);
    path->connection += windows_in(rig->frames.p, 0);
    h2_rig_forget(rig);
    return path;
}

static void finish(struct path *path)
{
    h2_rig_free(path->rig);
    for (unsigned i = 0; i <= HALF; i++) {
        text_free(&path->to[i]);
        text_free(&path->from[i]);
    }
    free(path);
}

/* What the peer may send without hearing anything more, when nothing is on its way. */
static uint64_t window_at_rest(struct path *path, unsigned i)
{
    path->left[i] = 0;
    ticks(path, 3 * ROUND_TRIP);
    return path->window[i];
}

Test(h2_windows, a_fast_stream_fills_a_long_path)
{
    for (int client = 0; client < 2; client++) {
        struct path *path = start(client, 1, 2 * MIB);
        cr_expect_leq(run(path, 8 * MIB), 24, "client %d", client);
        cr_expect_geq(window_at_rest(path, 0), MIB / 2, "all that is not worth an update yet");
        cr_expect_leq(path->window[0], MIB);
        cr_expect_leq(run(path, 8 * MIB), 12);
        finish(path);
    }
}

Test(h2_windows, no_growth_without_leave)
{
    struct path *path = start(false, 1, 2 * MIB);
    path->rig->server_options.h2.stream_window_max = 0;
    cr_expect_geq(run(path, 8 * MIB), 100);
    cr_expect_eq(path->pings, 0);
    finish(path);
}

Test(h2_windows, small_content_is_not_asked_about)
{
    struct path *path = start(false, STREAMS, 2 * MIB);
    for (unsigned i = 0; i < STREAMS; i++)
        path->left[i] = 30000;
    ticks(path, 3 * ROUND_TRIP);
    cr_expect_eq(path->sent[3], 30000);
    cr_expect_eq(path->pings, 0);
    finish(path);
}

/* A PING for many windows, not for many bytes. */
Test(h2_windows, a_sender_that_does_not_use_its_window_gets_no_more)
{
    struct path *path = start(false, 1, 2 * MIB);
    path->rate = 2 * KIB;
    path->left[0] = UINT64_MAX;
    ticks(path, 1024);
    cr_expect_eq(path->sent[0], 2 * MIB);
    cr_expect_leq(window_at_rest(path, 0), 65536);
    cr_expect_leq(path->pings, 20);
    finish(path);
}

Test(h2_windows, a_slow_sink_gets_no_more)
{
    for (int client = 0; client < 2; client++) {
        struct path *path = start(client, 1, 2 * MIB);
        struct collector *collector = &path->rig->calls[0].collector;
        collector->holds = true;
        path->left[0] = UINT64_MAX;
        for (unsigned i = 0; i < 1000; i++) {
            tick(path);
            collector_take(collector, 2 * KIB);
            cr_assert_leq(wr_message_held(collector->message), 65536);
        }
        cr_expect_geq(path->sent[0], MIB);
        finish(path);
    }
}

Test(h2_windows, a_sink_that_stalls_shrinks_the_window)
{
    for (int client = 0; client < 2; client++) {
        struct path *path = start(client, 1, 2 * MIB);
        struct collector *collector = &path->rig->calls[0].collector;
        (void)run(path, 8 * MIB);
        collector->holds = true;
        path->left[0] = UINT64_MAX;
        ticks(path, 5 * ROUND_TRIP);
        cr_expect_gt(wr_message_held(collector->message), MIB / 2);
        cr_expect_leq(wr_message_held(collector->message), MIB, "what it had grown to");
        cr_expect_eq(path->window[0], 0);
        path->left[0] = 0;
        while (wr_message_held(collector->message) > 0) {
            collector_take(collector, 30000);
            tick(path);
        }
        /* What was taken just before is given back once more. */
        cr_expect_leq(window_at_rest(path, 0), MIB / 2, "client %d", client);
        cr_expect_geq(path->window[0], 32768);
        path->left[0] = UINT64_MAX;
        ticks(path, 5 * ROUND_TRIP);
        cr_expect_eq(path->window[0], 0);
        path->left[0] = 0;
        ticks(path, ROUND_TRIP);
        collector_take(collector, SIZE_MAX);
        cr_expect_leq(window_at_rest(path, 0), 65536, "client %d", client);
        cr_expect_geq(path->window[0], 32768);
        collector->holds = false;
        unsigned again = run(path, 8 * MIB);
        cr_expect_leq(again, 30, "it may grow again: %u", again);
        finish(path);
    }
}

/* All four of them at once: what they have grown by is bounded for the connection, not for each. */
Test(h2_windows, all_streams_together_grow_by_the_connections_window)
{
    for (int client = 0; client < 2; client++) {
        struct path *path = start(client, STREAMS, (uint32_t)(512 * KIB));
        for (unsigned i = 0; i < STREAMS; i++)
            path->left[i] = 8 * MIB;
        ticks(path, 40 * ROUND_TRIP);
        uint64_t sum = 0;
        for (unsigned i = 0; i < STREAMS; i++) {
            path->rig->calls[i].collector.holds = true;
            path->left[i] = UINT64_MAX;
        }
        ticks(path, 10 * ROUND_TRIP);
        for (unsigned i = 0; i < STREAMS; i++)
            sum += wr_message_held(path->rig->calls[i].collector.message);
        cr_expect_leq(sum, STREAMS * 65536 + 512 * KIB);
        cr_expect_gt(sum, STREAMS * 65536 + 256 * KIB);
        finish(path);
    }
}

/* A stream that stalls with all it could get leaves the connection to others, which can grow when it is gone. */
Test(h2_windows, a_stalled_stream_does_not_hold_others)
{
    struct path *path = start(false, 2, (uint32_t)MIB);
    (void)run(path, 8 * MIB);
    path->rig->calls[0].collector.holds = true;
    path->left[0] = UINT64_MAX;
    ticks(path, 5 * ROUND_TRIP);
    path->left[1] = UINT64_MAX;
    ticks(path, 20 * ROUND_TRIP);
    cr_expect_geq(path->sent[1], 18 * 65536);
    h2_put_reset(&path->rig->out, 1, 8);
    path->left[0] = 0;
    ticks(path, 12 * ROUND_TRIP);
    uint64_t before = path->sent[1];
    ticks(path, 4 * ROUND_TRIP);
    cr_expect_geq(path->sent[1] - before, 3 * 15 * MIB / 16, "%zu",
                  (size_t)(path->sent[1] - before));
    finish(path);
}

/* A peer that does not answer is served as before. */
Test(h2_windows, without_answers_nothing_grows)
{
    struct h2_rig *rig = h2_rig_new(false);
    static const char content[16384];
    rig->server_options.h2.stream_window_max = (uint32_t)MIB;
    rig->on_exchange = h2_rig_wait;
    h2_rig_start(rig);
    h2_put_headers(&rig->out, 1, 0, POST);
    h2_rig_forget(rig);
    for (unsigned i = 0; i < 32; i++) {
        for (unsigned j = 0; j < 2; j++)
            h2_put_frame(&rig->out, H2_DATA, 0, 1, content, sizeof(content));
        h2_put_ping(&rig->out, H2_ACK, "whatever");
        h2_rig_send(rig);
    }
    cr_expect_eq(windows_in(rig->frames.p, 1), 32 * 32768, "%s", rig->frames.p);
    const char *ping = strstr(rig->frames.p, "PING[");
    cr_expect(ping != NULL && strstr(ping + 1, "PING[") == NULL, "one is out");
    h2_rig_free(rig);
}

/* An answer to nothing is a PING as any other. */
Test(h2_windows, unasked_answers_are_a_flood)
{
    struct h2_rig *rig = h2_rig_new(false);
    h2_rig_start(rig);
    for (unsigned i = 0; i < 120; i++)
        h2_put_ping(&rig->out, H2_ACK, "weirwind");
    h2_rig_send(rig);
    cr_expect_eq(wr_metric_get(&rig->listener_metrics.h2_floods[WR_FLOOD_PING]), 1);
    h2_rig_free(rig);
}

/* ---- messages of another limit than SETTINGS say ---- */

Test(h2_windows, a_larger_limit_is_given_stream_by_stream)
{
    struct h2_rig *rig = h2_rig_new(true);
    rig->host.content_limit = 256 * KIB;
    rig->client_options.h2.connection_window = 65535;
    h2_rig_start_silent(rig);
    h2_rig_open(rig, "GET", 0, "");
    h2_rig_settle(rig);
    cr_expect(strstr(rig->frames.p, "4=65536"), "%s", rig->frames.p);
    cr_expect_eq(windows_in(rig->frames.p, 1), 256 * KIB - 65536, "%s", rig->frames.p);
    cr_expect_eq(windows_in(rig->frames.p, 0), 256 * KIB - 65535, "it would be of no use");
    h2_rig_free(rig);
}

Test(h2_windows, a_smaller_limit_holds_after_the_first_window)
{
    struct h2_rig *rig = h2_rig_new(true);
    static const char content[16384];
    h2_rig_start_silent(rig);
    h2_rig_open(rig, "GET", 0, "");
    h2_rig_settle(rig);
    rig->holds = true;
    struct wr_exchange *small;
    rig->host.content_limit = 16 * KIB;
    small = h2_rig_open(rig, "GET", 0, "")->exchange;
    h2_rig_settle(rig);
    static const uint32_t nothing[] = {0};
    h2_put_settings(&rig->out, nothing);
    h2_put_frame(&rig->out, H2_SETTINGS, H2_ACK, 0, "", 0);
    h2_put_headers(&rig->out, 3, 0, ":status: 200\n");
    for (unsigned i = 0; i < 4; i++)
        h2_put_frame(&rig->out, H2_DATA, 0, 3, content, sizeof(content));
    h2_rig_send(rig);
    cr_expect_eq(small->response.put_bytes, 65536);
    collector_take(&rig->calls[1].collector, 48 * KIB);
    h2_rig_settle(rig);
    cr_expect_eq(windows_in(rig->frames.p, 3), 0, "%s", rig->frames.p);
    collector_take(&rig->calls[1].collector, 16 * KIB);
    h2_rig_settle(rig);
    cr_expect_eq(windows_in(rig->frames.p, 3), 16 * KIB, "%s", rig->frames.p);
    h2_rig_free(rig);
}
