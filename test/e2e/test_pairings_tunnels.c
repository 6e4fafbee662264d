/* Content of 1 GiB through tunnels in all four pairings of HTTP versions, past ends that stall, in memory that the configured buffers
 * bound; and ends that come one after the other. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>

#include "support/edge.h"
#include "support/pairings.h"
#include "support/tunnel_client.h"
#include "support/tunnel_origin.h"

#define MIB (UINT64_C(1) << 20)
#define RSS_GROWTH (6 * MIB)
#define HELD_MAX (512 * 1024 + MIB) /* a window that has grown before the stall */
/* What sockets of the kernel may hold on the way, and two weirs. */
#define IN_FLIGHT (48 * MIB)

struct tunnels {
    struct tunnel_origin origin;
    struct pairings_world world;
    size_t outer_rss;
    size_t inner_rss;
};

static void start(struct tunnels *t)
{
    *t = (struct tunnels){.origin = {.size = edge_is_slow() ? 64 * MIB : 1024 * MIB}};
    pairings_start(&t->world, tunnel_origin_serve, &t->origin);
    t->outer_rss = edge_rss_peak(t->world.outer);
    t->inner_rss = edge_rss_peak(t->world.inner);
}

static void stop(struct tunnels *t)
{
    atomic_store(&t->origin.in.dead, true);
    atomic_store(&t->origin.out.dead, true);
    pairings_stop(&t->world);
}

static void expect_small(const struct tunnels *t, const char *what)
{
    size_t outer = edge_rss_peak(t->world.outer);
    size_t inner = edge_rss_peak(t->world.inner);

    if (edge_is_slow())
        return;
    cr_expect_leq(outer, t->outer_rss + RSS_GROWTH, "%s: grew from %zu to %zu KiB", what,
                  t->outer_rss / 1024, outer / 1024);
    cr_expect_leq(inner, t->inner_rss + RSS_GROWTH, "%s: inner grew from %zu to %zu KiB", what,
                  t->inner_rss / 1024, inner / 1024);
}

/* Waits until FLOW stands still, and looks at what is held then. */
static void expect_stalled(const struct tunnels *t, struct bulk_flow *flow, const char *what)
{
    long end = edge_now_ms() + edge_ms(20000);
    uint64_t before;
    uint64_t now = atomic_load(&flow->bytes);

    do {
        before = now;
        edge_nap(500);
        now = atomic_load(&flow->bytes);
    } while ((now == 0 || now != before) && edge_now_ms() < end);
    cr_expect(now > 0 && now == before && now < IN_FLIGHT, "%s: %llu bytes, and before %llu", what,
              (unsigned long long)now, (unsigned long long)before);
    cr_expect_leq(weir_metric(t->world.outer, "weir_buffer_bytes"), HELD_MAX, "%s", what);
    cr_expect_leq(weir_metric(t->world.inner, "weir_buffer_bytes"), HELD_MAX, "%s, inner", what);
    expect_small(t, what);
}

/* ---- 1 GiB ---- */

static void down(struct tunnels *t, const struct pairing *pairing)
{
    struct bulk_flow seen = {0};
    unsigned eof = atomic_load(&t->origin.eof);

    atomic_store(&t->origin.out.bytes, 0);
    struct tunnel_client *tunnel = tunnel_open(&t->world, pairing, "down");
    cr_expect(tunnel_say(tunnel, "!"));
    expect_stalled(t, &t->origin.out, pairing->name);
    cr_expect(tunnel_receive(tunnel, &seen), "%s: it broke", pairing->name);
    cr_expect_eq(atomic_load(&seen.bytes), t->origin.size, "%s: %llu", pairing->name,
                 (unsigned long long)atomic_load(&seen.bytes));
    cr_expect_not(atomic_load(&seen.wrong), "%s: other content", pairing->name);
    cr_expect(tunnel_end(tunnel));
    cr_expect(tunnel_origin_counts(&t->origin.eof, eof + 1), "%s: no end", pairing->name);
    tunnel_free(tunnel);
    pairings_expect_rest(&t->world, pairing->name);
    expect_small(t, pairing->name);
}

/* The client reads nothing at first, then all. */
Test(pairings_tunnels, reader_stalls_and_goes_on, .timeout = 170)
{
    struct tunnels t;

    start(&t);
    for (size_t i = 0; i < PLAIN_PAIRINGS; i++)
        down(&t, &pairings[i]);
    stop(&t);
}

struct upload {
    struct tunnel_client *tunnel;
    struct bulk_flow flow;
    uint64_t size;
    bool sent;
};

static void *send_all(void *arg)
{
    struct upload *upload = arg;

    upload->sent = tunnel_send(upload->tunnel, &upload->flow, upload->size);
    return NULL;
}

static void up(struct tunnels *t, const struct pairing *pairing)
{
    struct upload upload = {.size = t->origin.size};
    pthread_t thread;
    char words[16];

    atomic_store(&t->origin.in.bytes, 0);
    atomic_store(&t->origin.in.paused, true);
    upload.tunnel = tunnel_open(&t->world, pairing, "up");
    cr_assert_eq(pthread_create(&thread, NULL, send_all, &upload), 0);
    expect_stalled(t, &upload.flow, pairing->name);
    atomic_store(&t->origin.in.paused, false);
    (void)pthread_join(thread, NULL);
    cr_expect(upload.sent, "%s: it broke", pairing->name);
    cr_expect(tunnel_hear(upload.tunnel, words, sizeof(words)), "%s: it broke", pairing->name);
    cr_expect_str_eq(words, "ok", "%s: %s", pairing->name, words);
    cr_expect_eq(atomic_load(&t->origin.in.bytes), t->origin.size, "%s", pairing->name);
    cr_expect_not(atomic_load(&t->origin.in.wrong), "%s: other content", pairing->name);
    cr_expect(tunnel_end(upload.tunnel));
    tunnel_free(upload.tunnel);
    pairings_expect_rest(&t->world, pairing->name);
    expect_small(t, pairing->name);
}

Test(pairings_tunnels, origin_stalls_and_goes_on, .timeout = 170)
{
    struct tunnels t;

    start(&t);
    for (size_t i = 0; i < PLAIN_PAIRINGS; i++)
        up(&t, &pairings[i]);
    stop(&t);
}

/* ---- ends ---- */

/* The origin has ended long ago when the client says its last words, and ends at once: all of them are passed on. */
Test(pairings_tunnels, the_origin_ends_first, .timeout = 120)
{
    const uint64_t size = 4 * MIB;
    struct tunnels t;

    start(&t);
    for (size_t i = 0; i < PAIRINGS; i++) {
        const char *what = pairings[i].name;
        struct upload upload = {.size = size};
        unsigned eof = atomic_load(&t.origin.eof);
        char words[16];

        atomic_store(&t.origin.in.bytes, 0);
        upload.tunnel = tunnel_open(&t.world, &pairings[i], "later");
        cr_expect(tunnel_say(upload.tunnel, "!"));
        cr_expect(tunnel_hear(upload.tunnel, words, sizeof(words)), "%s", what);
        cr_expect_str_eq(words, "hello", "%s", what);
        cr_expect(tunnel_send(upload.tunnel, &upload.flow, size), "%s: it broke", what);
        cr_expect(tunnel_end(upload.tunnel));
        cr_expect(tunnel_origin_counts(&t.origin.eof, eof + 1), "%s: no end", what);
        cr_expect_eq(atomic_load(&t.origin.in.bytes), size, "%s: %llu", what,
                     (unsigned long long)atomic_load(&t.origin.in.bytes));
        tunnel_free(upload.tunnel);
        pairings_expect_rest(&t.world, what);
    }
    stop(&t);
}
