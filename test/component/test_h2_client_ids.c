/* HTTP/2 towards upstreams: a connection whose stream identifiers are used up (RFC 9113 section 5.1.1). */
#include <criterion/criterion.h>
#include <string.h>

#include "codec/h2_client_internal.h"
#include "support/h2_rig.h"

#define LAST_ID 0x7fffffffu

/* So many requests are left. */
static struct h2_rig *nearly_used_up(unsigned left)
{
    struct h2_rig *rig = h2_rig_new(true);
    h2_rig_start(rig);
    h2_rig_forget(rig);
    struct wr_h2_client *client = WR_CONTAINER_OF(rig->client, struct wr_h2_client, base);
    int32_t next = (int32_t)(LAST_ID - 2 * (left - 1));
    cr_assert_eq(nghttp2_session_set_next_stream_id(client->session.ng, next), 0);
    return rig;
}

static unsigned capacity(const struct h2_rig *rig)
{
    return rig->client->ops->capacity(rig->client);
}

static void answer(struct h2_rig *rig, uint32_t id)
{
    h2_put_headers(&rig->out, id, H2_END_STREAM, ":status: 200\n");
    h2_rig_send(rig);
}

Test(h2_client_ids, the_last_are_answered_and_then_it_goes)
{
    struct h2_rig *rig = nearly_used_up(3);
    struct h2_call *first = h2_rig_open(rig, "GET", 0, "");
    struct h2_call *second = h2_rig_open(rig, "GET", 0, "");
    h2_rig_settle(rig);
    cr_expect_eq(capacity(rig), 98);
    struct h2_call *last = h2_rig_open(rig, "GET", 0, "");
    cr_expect_eq(capacity(rig), 0);
    h2_rig_settle(rig);
    cr_expect(h2_rig_heard(rig, "HEADERS/2147483647+ES["), "%s", rig->frames.p);
    answer(rig, LAST_ID - 4);
    answer(rig, LAST_ID);
    cr_expect(first->collector.ended);
    cr_expect(last->collector.ended);
    cr_expect_str_eq(rig->events.p, "closed:spent closed:spent ");
    answer(rig, LAST_ID - 2);
    cr_expect(second->collector.ended);
    cr_expect(h2_rig_told(rig, "closed:spent closed:spent closed:spent "), "%s", rig->events.p);
    h2_rig_free(rig);
}

Test(h2_client_ids, before_the_last_it_is_like_any_other)
{
    struct h2_rig *rig = nearly_used_up(2);
    struct h2_call *call = h2_rig_open(rig, "GET", 0, "");
    h2_rig_settle(rig);
    answer(rig, LAST_ID - 2);
    cr_expect(call->collector.ended);
    cr_expect_str_eq(rig->events.p, "closed:reusable ");
    cr_expect_eq(capacity(rig), 100);
    h2_rig_free(rig);
}

/* It waits for SETTINGS without an identifier, and another request takes the last one. */
Test(h2_client_ids, an_upgrade_that_waits_goes_elsewhere)
{
    static const uint32_t knows_upgrades[] = {8, 1, 0};
    struct h2_rig *rig = h2_rig_new(true);
    h2_rig_start_silent(rig);
    struct wr_h2_client *client = WR_CONTAINER_OF(rig->client, struct wr_h2_client, base);
    cr_assert_eq(nghttp2_session_set_next_stream_id(client->session.ng, (int32_t)LAST_ID), 0);
    struct h2_call *upgrade = h2_rig_open_tunnel(rig, WR_TUNNEL_UPGRADE);
    struct h2_call *get = h2_rig_open(rig, "GET", 0, "");
    h2_rig_settle(rig);
    h2_put_settings(&rig->out, knows_upgrades);
    h2_rig_send(rig);
    cr_expect_eq(upgrade->collector.why, WR_ERR_UPSTREAM_CLOSED);
    cr_expect(upgrade->unsent);
    answer(rig, LAST_ID);
    cr_expect(get->collector.ended);
    h2_rig_free(rig);
}
