/* HTTP/2 towards upstreams that cost us something and bring nothing: counted by kind, and beyond a budget (100 here) the connection
 * ends. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "support/h2_rig.h"

#define MANY 120

static struct h2_rig *started(void)
{
    struct h2_rig *rig = h2_rig_new(true);
    h2_rig_start(rig);
    h2_rig_forget(rig);
    return rig;
}

/* Two requests, and the head of a response to the first. */
static struct h2_rig *in_flight(void)
{
    struct h2_rig *rig = started();
    h2_rig_open(rig, "GET", 0, "");
    h2_rig_open(rig, "GET", 0, "");
    h2_rig_settle(rig);
    h2_put_headers(&rig->out, 1, 0, ":status: 200\n");
    return rig;
}

static void expect_flood(struct h2_rig *rig, const char *kind)
{
    char event[64];

    h2_rig_send(rig);
    (void)snprintf(event, sizeof(event), "flooded:%s ", kind);
    cr_expect(h2_rig_told(rig, event), "%s: %s", kind, rig->events.p);
    cr_expect(h2_rig_heard(rig, "GOAWAY[0,11] "), "%s: %s", kind, rig->frames.p);
    for (unsigned i = 0; i < rig->count; i++)
        cr_expect(rig->calls[i].collector.ended || rig->calls[i].collector.aborted, "%s: %u", kind,
                  i);
    h2_rig_free(rig);
}

Test(h2_client_floods, of_each_kind)
{
    static const uint32_t nothing[] = {0};
    struct h2_rig *rig = in_flight();
    for (unsigned i = 0; i < MANY; i++)
        h2_put_ping(&rig->out, 0, "abcdefgh");
    expect_flood(rig, "ping");

    rig = in_flight();
    for (unsigned i = 0; i < MANY; i++)
        h2_put_settings(&rig->out, nothing);
    expect_flood(rig, "settings");

    rig = in_flight();
    for (unsigned i = 0; i < MANY; i++)
        h2_put_data(&rig->out, 1, 0, "");
    expect_flood(rig, "empty");

    rig = in_flight();
    for (unsigned i = 0; i < MANY; i++)
        h2_put_window(&rig->out, 0, 1);
    expect_flood(rig, "window");

    rig = in_flight();
    for (unsigned i = 0; i < MANY; i++)
        h2_put_frame(&rig->out, H2_PRIORITY, 0, 1, "\0\0\0\0\7", 5);
    expect_flood(rig, "priority");

    rig = in_flight();
    h2_put_frame(&rig->out, H2_HEADERS, 0, 3, "", 0);
    for (unsigned i = 0; i < 20; i++)
        h2_put_frame(&rig->out, H2_CONTINUATION, 0, 3, "", 0);
    expect_flood(rig, "continuation");
}

Test(h2_client_floods, while_nothing_is_asked)
{
    struct h2_rig *rig = started();
    for (unsigned i = 0; i < MANY; i++)
        h2_put_ping(&rig->out, 0, "abcdefgh");
    h2_rig_send(rig);
    cr_expect_str_eq(rig->events.p, "flooded:ping broken:flooded ");
    h2_rig_free(rig);
}

/* COUNT requests one after the other, to each of which the upstream says what PUT appends. */
static struct h2_rig *after(unsigned count, void (*put)(struct text *out, uint32_t id))
{
    struct h2_rig *rig = started();
    for (unsigned i = 0;
         i < count && rig->client != NULL && rig->client->ops->capacity(rig->client) > 0; i++) {
        h2_rig_open(rig, "GET", 0, "");
        h2_rig_settle(rig);
        put(&rig->out, 2 * i + 1);
        h2_rig_send(rig);
    }
    return rig;
}

static void put_reset(struct text *out, uint32_t id)
{
    h2_put_reset(out, id, 2);
}

static void put_refused(struct text *out, uint32_t id)
{
    h2_put_reset(out, id, 7);
}

static void put_answer_and_reset(struct text *out, uint32_t id)
{
    h2_put_headers(out, id, H2_END_STREAM, ":status: 200\n");
    h2_put_reset(out, id, 0);
}

static void put_window_overflow(struct text *out, uint32_t id)
{
    h2_put_window(out, id, 0x7fffffff);
}

static void put_malformed(struct text *out, uint32_t id)
{
    h2_put_headers(out, id, 0, ":status: 200\nconnection: close\n");
}

static void put_wrong_length(struct text *out, uint32_t id)
{
    h2_put_headers(out, id, 0, ":status: 200\ncontent-length: 1\n");
    h2_put_data(out, id, 0, "xy");
}

/* More than are taken of one response. */
static void put_interim(struct text *out, uint32_t id)
{
    for (unsigned i = 0; i < 33; i++)
        h2_put_headers(out, id, 0, ":status: 103\n");
}

Test(h2_client_floods, resets_that_it_makes_or_causes)
{
    static void (*const ways[])(struct text *, uint32_t) = {
        put_reset, put_window_overflow, put_malformed, put_wrong_length, put_interim};

    for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
        struct h2_rig *rig = after(MANY, ways[i]);
        cr_expect_eq(rig->count, 101, "%zu: %u", i, rig->count);
        cr_expect(h2_rig_told(rig, "flooded:reset "), "%zu: %s", i, rig->events.p);
        const char *goaway = strstr(rig->frames.p, "GOAWAY[");
        cr_expect(goaway != NULL && strstr(goaway, ",11] "), "%zu: %s", i, rig->frames.p);
        h2_rig_free(rig);
    }
}

Test(h2_client_floods, resets_that_are_nobodys_fault)
{
    static void (*const ways[])(struct text *, uint32_t) = {put_refused, put_answer_and_reset};

    for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
        struct h2_rig *rig = after(MANY, ways[i]);
        cr_expect_eq(rig->count, MANY);
        cr_expect_null(strstr(rig->events.p, "flooded"), "%zu: %s", i, rig->events.p);
        cr_expect_eq(rig->client->ops->capacity(rig->client), 100);
        h2_rig_free(rig);
    }
}
