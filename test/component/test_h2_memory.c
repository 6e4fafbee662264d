/* What an idle HTTP/2 session holds: every byte nghttp2 allocates is counted by the allocator it is given (wr_h2_session.arena). The bounds are
 * those of lib/codec/README.md; they are for nghttp2 on 64 bits. */
#include <criterion/criterion.h>

#include "codec/h2_client_internal.h"
#include "codec/h2_server_internal.h"
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

Test(h2_memory, of_a_session_with_a_client)
{
    struct h2_rig *rig = greeted(false);
    expect_held(rig, 10 * KIB, "greeted");
    for (uint32_t id = 1; id < 200; id += 2)
        h2_rig_get(rig, id, "a: b\n");
    expect_held(rig, 12 * KIB, "after a hundred requests");
    h2_rig_free(rig);
}

Test(h2_memory, of_a_session_with_an_upstream)
{
    struct h2_rig *rig = greeted(true);
    expect_held(rig, 27 * KIB, "greeted");
    for (uint32_t id = 1; id < 200; id += 2) {
        h2_rig_open(rig, "GET", 0, "");
        h2_rig_settle(rig);
        h2_put_headers(&rig->out, id, H2_END_STREAM, ":status: 200\na: b\n");
        h2_rig_send(rig);
    }
    expect_held(rig, 29 * KIB, "after a hundred responses");
    h2_rig_free(rig);
}
