/* Content of 1 GiB through all four pairings of HTTP versions, in memory that the configured buffers bound. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/bulk.h"
#include "support/command.h"
#include "support/edge.h"
#include "support/pairings.h"

#define MIB (UINT64_C(1) << 20)
#define RSS_GROWTH (6 * MIB)
/* What buffers and windows begin with, and what a window has grown to while the reader was fast. */
#define HELD_MAX (512 * 1024 + MIB)
/* What sockets of the kernel may hold on the way, and two weirs. */
#define IN_FLIGHT (48 * MIB)

struct bulk_world {
    struct bulk_origin bulk;
    struct pairings_world world;
    size_t outer_rss;
    size_t inner_rss;
};

static uint64_t bulk_size(void)
{
    return edge_is_slow() ? 64 * MIB : 1024 * MIB;
}

static void start(struct bulk_world *w)
{
    *w = (struct bulk_world){.bulk = {.size = bulk_size()}};
    pairings_start(&w->world, bulk_serve, &w->bulk);
    w->outer_rss = edge_rss_peak(w->world.outer);
    w->inner_rss = edge_rss_peak(w->world.inner);
}

static void stop(struct bulk_world *w)
{
    atomic_store(&w->bulk.in.dead, true);
    atomic_store(&w->bulk.out.dead, true);
    pairings_stop(&w->world);
}

static void expect_small(const struct bulk_world *w, const char *what)
{
    size_t outer = edge_rss_peak(w->world.outer);
    size_t inner = edge_rss_peak(w->world.inner);

    if (edge_is_slow())
        return;
    cr_expect_leq(outer, w->outer_rss + RSS_GROWTH, "%s: grew from %zu to %zu KiB", what,
                  w->outer_rss / 1024, outer / 1024);
    cr_expect_leq(inner, w->inner_rss + RSS_GROWTH, "%s: inner grew from %zu to %zu KiB", what,
                  w->inner_rss / 1024, inner / 1024);
}

/* An upload from what FROM makes it: curl says which version it was, and the status. */
static void upload(const struct bulk_world *w, const struct pairing *pairing, const char *from)
{
    char expected[128];
    char *output;
    uint64_t before = atomic_load(&w->bulk.in.bytes);
    int status =
        command_run(100, &output,
                    "cd %s && truncate -s %llu zeros\n"
                    "pair() { curl -sS -m 90 -k %s -H Expect: \"$@\" https://127.0.0.1:%d%s; }\n"
                    "%s -w ' %%{http_version} %%{http_code}'",
                    weir_dir(w->world.outer), (unsigned long long)bulk_size(), pairing->curl,
                    weir_port(w->world.outer, "edge"), pairing->path, from);

    cr_expect_eq(status, 0, "%s: %s", pairing->name, output);
    (void)snprintf(expected, sizeof(expected), "ok %s 200", pairing->h2 ? "2" : "1.1");
    cr_expect_str_eq(output, expected, "%s: %s", pairing->name, output);
    free(output);
    uint64_t came = atomic_load(&w->bulk.in.bytes) - before;
    cr_expect_eq(came, bulk_size(), "%s: %llu", pairing->name, (unsigned long long)came);
    cr_expect_not(w->bulk.in.wrong, "%s: other content", pairing->name);
    pairings_expect_rest(&w->world, pairing->name);
    expect_small(w, pairing->name);
}

/* What is downloaded goes up again at once, and the origin checks every byte. */
Test(pairings_bulk, there_and_back, .timeout = 170)
{
    struct bulk_world w;

    start(&w);
    for (size_t i = 0; i < PLAIN_PAIRINGS; i++)
        upload(&w, &pairings[i], "pair | pair -T -");
    cr_expect_eq(atomic_load(&w.bulk.out.bytes), PLAIN_PAIRINGS * bulk_size());
    cr_expect_eq(atomic_load(&w.bulk.whole), PLAIN_PAIRINGS);
    stop(&w);
}

Test(pairings_bulk, upload_by_length, .timeout = 170)
{
    struct bulk_world w;

    start(&w);
    w.bulk.in.unchecked = true;
    for (size_t i = 0; i < PLAIN_PAIRINGS; i++)
        upload(&w, &pairings[i], "pair -T zeros");
    cr_expect_eq(atomic_load(&w.bulk.whole), PLAIN_PAIRINGS);
    stop(&w);
}

/* ---- a reader that stalls ---- */

/* Waits until BYTES has not moved for half a second, and returns where it stands. */
static uint64_t settled(_Atomic uint64_t *bytes)
{
    long end = edge_now_ms() + edge_ms(20000);
    uint64_t before;
    uint64_t now = atomic_load(bytes);

    do {
        before = now;
        edge_nap(500);
        now = atomic_load(bytes);
    } while ((now == 0 || now != before) && edge_now_ms() < end);
    cr_expect_eq(now, before, "it never stops");
    return now;
}

static void expect_held(const struct weir *weir, const char *what, const char *which)
{
    double held = weir_metric(weir, "weir_buffer_bytes");

    cr_expect_leq(held, HELD_MAX, "%s: %s holds %g bytes", what, which, held);
}

/* Over HTTP/2 its windows are open as far as they go, so that it is the connection that stands still. */
static struct pairing_client ask(const struct bulk_world *w, const struct pairing *pairing)
{
    static const struct pairing_request get = {.method = "GET"};
    static const uint32_t wide[] = {4, 0x7fffffff, 0};
    struct pairing_client client = pairing_connect(&w->world, pairing);

    if (client.h2 != NULL) {
        h2_put_settings(&client.h2->out, wide);
        h2_put_window(&client.h2->out, 0, 0x7fff0000 - 65535);
        cr_assert(h2_peer_settles(client.h2), "%s", h2_peer_log(client.h2));
    }
    pairing_ask(&client, pairing, &get);
    return client;
}

Test(pairings_bulk, reader_stalls, .timeout = 170)
{
    for (size_t i = 0; i < PLAIN_PAIRINGS; i++) {
        struct bulk_world w;
        const char *what = pairings[i].name;

        start(&w);
        struct pairing_client client = ask(&w, &pairings[i]);
        uint64_t sent = settled(&w.bulk.out.bytes);
        cr_expect(sent > 0 && sent < IN_FLIGHT, "%s: the origin got rid of %llu bytes", what,
                  (unsigned long long)sent);
        expect_held(w.world.outer, what, "outer");
        expect_held(w.world.inner, what, "inner");
        expect_small(&w, what);
        pairing_close(&client);
        pairings_expect_rest(&w.world, what);
        stop(&w);
    }
}

/* curl goes on by itself: what it has to say is not waited for. */
static void begin_upload(const struct bulk_world *w, const struct pairing *pairing, uint64_t size)
{
    char *output;
    int status = command_run(20, &output,
                             "cd %s && truncate -s %llu zeros && "
                             "curl -sS -m 90 -k %s -H Expect: -T zeros https://127.0.0.1:%d%s "
                             ">said 2>&1 &",
                             weir_dir(w->world.outer), (unsigned long long)size, pairing->curl,
                             weir_port(w->world.outer, "edge"), pairing->path);

    cr_assert_eq(status, 0, "%s", output);
    free(output);
}

Test(pairings_bulk, origin_stalls, .timeout = 170)
{
    const uint64_t size = 64 * MIB;

    for (size_t i = 0; i < PLAIN_PAIRINGS; i++) {
        struct bulk_world w;
        const char *what = pairings[i].name;

        start(&w);
        w.bulk.in.unchecked = true;
        atomic_store(&w.bulk.in.paused, true);
        begin_upload(&w, &pairings[i], size);
        for (int ms = 0; atomic_load(&w.bulk.heads) == 0 && ms < edge_ms(10000); ms += 5)
            edge_nap(5);
        edge_nap(1000);
        cr_expect_eq(atomic_load(&w.bulk.in.bytes), 0);
        cr_expect_gt(weir_metric(w.world.outer, "weir_buffer_bytes"), 0, "%s: nothing came", what);
        expect_held(w.world.outer, what, "outer");
        expect_held(w.world.inner, what, "inner");
        expect_small(&w, what);
        atomic_store(&w.bulk.in.paused, false);
        cr_expect(weir_file_has(w.world.outer, "said", "ok", edge_ms(20000)), "%s: no answer",
                  what);
        cr_expect_eq(atomic_load(&w.bulk.in.bytes), size, "%s: %llu", what,
                     (unsigned long long)atomic_load(&w.bulk.in.bytes));
        pairings_expect_rest(&w.world, what);
        stop(&w);
    }
}
