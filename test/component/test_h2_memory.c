/* What an idle HTTP/2 session holds: every byte nghttp2 allocates is counted by the allocator it is given (wr_h2_session.arena). The bounds are
 * those of lib/codec/README.md; they are for nghttp2 on 64 bits. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <sys/mman.h>

#include "codec/h2_client_internal.h"
#include "codec/h2_server_internal.h"
#include "codec/h2_slots.h"
#include "support/h2_rig.h"

#define KIB 1024u

static size_t held(const struct h2_rig *rig)
{
    cr_assert(rig->is_client ? rig->client != NULL : rig->server != NULL, "%s", rig->frames.p);
    if (rig->is_client)
        return WR_CONTAINER_OF(rig->client, struct wr_h2_client, base)->session.arena.held;
    return WR_CONTAINER_OF(rig->server, struct wr_h2_server, base)->session.arena.held;
}

static struct h2_rig *greeted(bool client)
{
    struct h2_rig *rig = h2_rig_new(client);
    h2_rig_start(rig);
    h2_rig_settle(rig);
    return rig;
}

static void expect_held(const struct h2_rig *rig, size_t most, const char *when)
{
    cr_log_info("%s: %zu bytes", when, held(rig));
    cr_expect_leq(held(rig), most, "%s: %zu bytes", when, held(rig));
    cr_expect_gt(held(rig), most / 2, "%s: %zu bytes, the bound says nothing", when, held(rig));
}

/* It gives back whole pages, and keeps so much. */
static void expect_asleep(struct h2_rig *rig, size_t most, const char *when)
{
    struct wr_h2_arena *arena =
        rig->is_client ? &WR_CONTAINER_OF(rig->client, struct wr_h2_client, base)->session.arena
                       : &WR_CONTAINER_OF(rig->server, struct wr_h2_server, base)->session.arena;
    enum wr_hibernation is = rig->is_client ? rig->client->ops->hibernate(rig->client)
                                            : rig->server->ops->hibernate(rig->server);
    cr_assert_eq(is, WR_HIBERNATION_DONE);
    cr_log_info("%s, asleep: %u bytes", when, arena->packed_size);
    cr_expect_leq(arena->packed_size, most, "%s: %u bytes", when, arena->packed_size);
    cr_expect_gt(arena->packed_size, most / 2, "%s: %u bytes, the bound says nothing", when,
                 arena->packed_size);
    cr_expect_eq(arena->spilled, 0, "%s", when);
    for (size_t at = 0; at < WR_H2_SLOT; at += 4096) {
        unsigned char resident;
        cr_assert_eq(mincore(arena->slot + at, 4096, &resident), 0);
        cr_expect_eq(resident & 1, 0, "%s: page at %zu", when, at);
    }
}

Test(h2_memory, of_a_session_with_a_client)
{
    struct h2_rig *rig = greeted(false);
    expect_held(rig, 11 * KIB, "greeted");
    expect_asleep(rig, 300, "greeted");
    for (uint32_t id = 1; id < 200; id += 2)
        h2_rig_get(rig, id, "a: b\n");
    expect_held(rig, 13 * KIB, "after a hundred requests");
    expect_asleep(rig, 600, "after a hundred requests");
    h2_rig_free(rig);
}

Test(h2_memory, of_a_session_with_an_upstream)
{
    struct h2_rig *rig = greeted(true);
    expect_held(rig, 11 * KIB, "greeted");
    expect_asleep(rig, 300, "greeted");
    for (uint32_t id = 1; id < 200; id += 2) {
        h2_rig_open(rig, "GET", 0, "");
        h2_rig_settle(rig);
        h2_put_headers(&rig->out, id, H2_END_STREAM, ":status: 200\na: b\n");
        h2_rig_send(rig);
    }
    expect_held(rig, 13 * KIB, "after a hundred responses");
    expect_asleep(rig, 600, "after a hundred responses");
    h2_rig_free(rig);
}

/* ---- what a worker leaves is ended by another thread ---- */

static void *worker(void *client)
{
    struct h2_rig *rig = greeted(*(bool *)client);
    if (rig->is_client)
        cr_assert_eq(rig->client->ops->hibernate(rig->client), WR_HIBERNATION_DONE);
    return rig;
}

static struct h2_rig *left_by_a_thread(bool client)
{
    pthread_t thread;
    void *rig;
    cr_assert_eq(pthread_create(&thread, NULL, worker, &client), 0);
    cr_assert_eq(pthread_join(thread, &rig), 0);
    h2_rig_forget(rig);
    return rig;
}

/* They say GOAWAY. */
Test(h2_memory, of_a_thread_that_is_gone)
{
    h2_rig_free(left_by_a_thread(true));
    struct h2_rig *rig = left_by_a_thread(false);
    h2_rig_peer_ends(rig);
    cr_expect(h2_rig_heard(rig, "GOAWAY[0,0] "), "%s", rig->frames.p);
    h2_rig_free(rig);
}
