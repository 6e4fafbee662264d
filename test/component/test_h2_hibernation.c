/* HTTP/2 connections that hibernate whenever they may, and twins of them that never do: what either says is the same, byte for byte. */
#include <criterion/criterion.h>
#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec/h2_client_internal.h"
#include "codec/h2_server_internal.h"
#include "support/h2_rig.h"

#define STEPS 60
#define SCHEDULES 60
#define MOST_FIELDS 12
#define HELD 3 /* requests that wait for an answer */

struct twin {
    struct h2_rig *rig;
    struct text raw;
    nghttp2_hd_deflater *deflater; /* of the wire peer */
    uint32_t next_id;
    uint32_t open[HELD]; /* requests of clients that go on */
    unsigned open_count;
    bool sleeps_at_times;
    unsigned sleeps;
    struct text half; /* of a frame; the rest of it */
};

/* What is done in a step, the same to both. */
struct step {
    unsigned kind;
    unsigned number;
};

/* ---- hibernation ---- */

static struct wr_h2_session *session_of(const struct h2_rig *rig)
{
    if (rig->is_client)
        return rig->client != NULL
                   ? &WR_CONTAINER_OF(rig->client, struct wr_h2_client, base)->session
                   : NULL;
    return rig->server != NULL ? &WR_CONTAINER_OF(rig->server, struct wr_h2_server, base)->session
                               : NULL;
}

static enum wr_hibernation hibernate(struct h2_rig *rig)
{
    if (rig->is_client)
        return rig->client != NULL ? rig->client->ops->hibernate(rig->client) : WR_HIBERNATION_BUSY;
    return rig->server != NULL ? rig->server->ops->hibernate(rig->server) : WR_HIBERNATION_BUSY;
}

static bool asleep(const struct h2_rig *rig)
{
    const struct wr_h2_session *session = session_of(rig);
    return session != NULL && wr_h2_session_sleeps(session);
}

static void try_to_sleep(struct twin *twin)
{
    struct h2_rig *rig = twin->rig;
    if (!twin->sleeps_at_times || asleep(rig))
        return;
    unsigned wakes = rig->wakes;
    unsigned capacity = rig->client != NULL ? rig->client->ops->capacity(rig->client) : 0;
    if (hibernate(rig) != WR_HIBERNATION_DONE) {
        cr_assert_not(asleep(rig));
        return;
    }
    cr_assert(asleep(rig));
    twin->sleeps++;
    cr_assert_eq(hibernate(rig), WR_HIBERNATION_DONE, "it does already");
    if (rig->client != NULL)
        cr_assert_eq(rig->client->ops->capacity(rig->client), capacity);
    h2_rig_settle(rig);
    cr_assert(asleep(rig), "nothing wakes it");
    cr_assert_eq(rig->wakes, wakes);
}

/* ---- the wire peer ---- */

static void put_head(struct twin *twin, uint32_t id, unsigned flags, const char *const (*fields)[2],
                     size_t count)
{
    nghttp2_nv nv[MOST_FIELDS];
    uint8_t block[4096];
    cr_assert_leq(count, MOST_FIELDS);
    for (size_t i = 0; i < count; i++) {
        nv[i] = (nghttp2_nv){(uint8_t *)(uintptr_t)fields[i][0], (uint8_t *)(uintptr_t)fields[i][1],
                             strlen(fields[i][0]), strlen(fields[i][1]), NGHTTP2_NV_FLAG_NONE};
    }
    ssize_t n = nghttp2_hd_deflate_hd(twin->deflater, block, sizeof(block), nv, count);
    cr_assert_gt(n, 0);
    h2_put_frame(&twin->rig->out, H2_HEADERS, flags | H2_END_HEADERS, id, block, (size_t)n);
}

/* Fields that fill the table of the other side. */
static void put_message(struct twin *twin, uint32_t id, unsigned flags, unsigned number)
{
    char name[32];
    char value[300];
    (void)snprintf(name, sizeof(name), "x-field-%u", number % 50);
    (void)snprintf(value, sizeof(value), "%0*u", (int)(number % 290 + 1), number);
    const char *const request[][2] = {{":method", (flags & H2_END_STREAM) != 0 ? "GET" : "POST"},
                                      {":scheme", "http"},
                                      {":path", "/a"},
                                      {":authority", "a.test"},
                                      {"user-agent", "one that says much of itself (1.2; 3.4)"},
                                      {name, value}};
    const char *const response[][2] = {{":status", "200"}, {"server", "another"}, {name, value}};
    if (twin->rig->is_client)
        put_head(twin, id, flags, response, WR_COUNT_OF(response));
    else
        put_head(twin, id, flags, request, WR_COUNT_OF(request));
}

static void put_table_size(struct twin *twin, unsigned number)
{
    static const uint32_t sizes[] = {0, 100, 4096, 1000};
    const uint32_t pairs[] = {1, sizes[number % WR_COUNT_OF(sizes)], 4, 65535 + number % 1000, 0};
    h2_put_settings(&twin->rig->out, pairs);
}

/* ---- the proxy ---- */

static void answer(struct h2_call *call)
{
    char fields[400];
    unsigned number = call->rig->count * 37;
    (void)snprintf(fields, sizeof(fields), "date: today\nx-answer-%u: %0*u\n", number % 40,
                   (int)(number % 290 + 1), number);
    h2_rig_answer_head(call, 200, 0, fields, WR_HEAD_LAST);
}

static void on_over(struct h2_call *call)
{
    if (!call->rig->is_client && call->collector.ended)
        answer(call);
}

/* ---- steps ---- */

static void cut_frame(struct twin *twin, unsigned number)
{
    struct text whole = {0};
    h2_put_ping(&whole, 0, "cutinhal");
    size_t n = number % (whole.n - 1) + 1;
    text_add(&twin->rig->out, whole.p, n);
    text_add(&twin->half, whole.p + n, whole.n - n);
    text_free(&whole);
}

/* Of clients that face us, with requests; of upstreams, with responses. */
static void say_message(struct twin *twin, const struct step *step)
{
    struct h2_rig *rig = twin->rig;
    unsigned flags = step->kind == 1 ? 0 : H2_END_STREAM;
    if (!rig->is_client) {
        if (flags == 0 && twin->open_count < HELD) /* else it is refused */
            twin->open[twin->open_count++] = twin->next_id;
        put_message(twin, twin->next_id, flags, step->number);
        twin->next_id += 2;
        return;
    }
    if (rig->client == NULL || rig->client->ops->capacity(rig->client) == 0)
        return;
    h2_rig_open(rig, "GET", 0, step->number % 2 == 0 ? "a: b\n" : "some-name: some value\n");
    h2_rig_settle(rig);
    if (flags != 0)
        put_message(twin, twin->next_id, flags, step->number);
    twin->next_id += 2;
}

static void reset_last(struct twin *twin)
{
    uint32_t id = twin->next_id - 2;
    if (twin->next_id > 1)
        h2_put_reset(&twin->rig->out, id, 8);
    if (twin->open_count > 0 && twin->open[twin->open_count - 1] == id)
        twin->open_count--;
}

static void say_control(struct twin *twin, const struct step *step)
{
    static const uint8_t priority[] = {0, 0, 0, 1, 'u', '=', '1'};
    struct text *out = &twin->rig->out;
    switch (step->kind) {
    case 2:
        reset_last(twin);
        break;
    case 3:
        h2_put_ping(out, 0, "abcdefgh");
        break;
    case 4:
        put_table_size(twin, step->number);
        break;
    case 5:
        h2_put_window(out, 0, 5000 + step->number);
        break;
    case 6:
        h2_put_frame(out, 77, 0, 0, "unknown", 7);
        break;
    case 7:
        if (!twin->rig->is_client)
            h2_put_frame(out, H2_PRIORITY_UPDATE, 0, 0, priority, sizeof(priority));
        break;
    default:
        cut_frame(twin, step->number);
        break;
    }
}

/* Of all that is open. */
static void end_responses(struct h2_rig *rig, uint32_t code)
{
    for (unsigned i = 0; i < rig->count; i++) {
        if (rig->calls[i].exchange != NULL)
            h2_put_reset(&rig->out, 2 * i + 1, code);
    }
}

static void end_requests(struct twin *twin, bool reset)
{
    for (unsigned i = 0; i < twin->open_count; i++) {
        if (reset)
            h2_put_reset(&twin->rig->out, twin->open[i], 8);
        else
            h2_put_data(&twin->rig->out, twin->open[i], H2_END_STREAM, "content");
    }
    twin->open_count = 0;
}

static void end_open(struct twin *twin, unsigned number)
{
    if (twin->rig->is_client)
        end_responses(twin->rig, number % 2 == 0 ? 7 : 2);
    else
        end_requests(twin, number % 3 == 0);
}

static void take_step(struct twin *twin, const struct step *step)
{
    struct h2_rig *rig = twin->rig;
    text_add(&rig->out, twin->half.p, twin->half.n);
    text_free(&twin->half);
    if (step->kind <= 1)
        say_message(twin, step);
    else if (step->kind < 10)
        say_control(twin, step);
    else
        end_open(twin, step->number);
    h2_rig_send(rig);
    try_to_sleep(twin);
    wr_loop_advance(rig->loop, WR_SEC);
    h2_rig_settle(rig);
    try_to_sleep(twin);
}

static void take_last_step(struct twin *twin, unsigned kind)
{
    struct h2_rig *rig = twin->rig;
    if (kind == 0)
        h2_rig_peer_ends(rig);
    else if (kind == 1)
        h2_put_goaway(&rig->out, 0, 0);
    else if (kind == 2)
        h2_put_frame(&rig->out, H2_DATA, 0, 0, "bad", 3);
    else if (kind == 3 && rig->server != NULL)
        rig->server->ops->timed_out(rig->server, WR_ERR_KEEP_ALIVE_TIMEOUT);
    else if (kind == 4 && rig->server != NULL)
        rig->server->ops->drain(rig->server);
    h2_rig_send(rig);
    try_to_sleep(twin);
    if (kind == 4) {
        h2_put_ping(&rig->out, H2_ACK, "weirlast");
        h2_rig_send(rig);
        try_to_sleep(twin);
    }
}

/* ---- twins ---- */

static struct twin *twin_new(bool client, bool sleeps_at_times)
{
    struct twin *twin = calloc(1, sizeof(*twin));
    struct h2_rig *rig = h2_rig_new(client);
    twin->rig = rig;
    twin->sleeps_at_times = sleeps_at_times;
    twin->next_id = 1;
    rig->raw = &twin->raw;
    rig->on_exchange = h2_rig_wait;
    rig->on_over = on_over;
    rig->server_options.h2.stream_window_max = 1024 * 1024;
    rig->server_options.h2.max_concurrent_streams = HELD;
    rig->client_options.h2.max_concurrent_streams = HELD;
    cr_assert_eq(nghttp2_hd_deflate_new(&twin->deflater, 4096), 0);
    h2_rig_start_silent(rig);
    h2_rig_settle(rig);
    try_to_sleep(twin);
    if (!client)
        text_add(&rig->out, H2_PREFACE, sizeof(H2_PREFACE) - 1);
    h2_rig_send(rig);
    try_to_sleep(twin);
    put_table_size(twin, 2);
    h2_put_frame(&rig->out, H2_SETTINGS, H2_ACK, 0, "", 0);
    h2_rig_send(rig);
    try_to_sleep(twin);
    return twin;
}

static void twin_free(struct twin *twin)
{
    /* An upstream that ends is not worth waking for. */
    unsigned still = twin->sleeps - twin->rig->wakes;
    bool gone = twin->rig->is_client && twin->rig->client == NULL;
    cr_expect(still == asleep(twin->rig) || (still == 1 && gone), "%u wakes, %u sleeps",
              twin->rig->wakes, twin->sleeps);
    h2_rig_free(twin->rig);
    nghttp2_hd_deflate_del(twin->deflater);
    text_free(&twin->raw);
    text_free(&twin->half);
    free(twin);
}

static void expect_alike(const struct twin *one, const struct twin *other)
{
    cr_assert_eq(one->raw.n, other->raw.n, "%s\n----\n%s", one->rig->frames.p,
                 other->rig->frames.p);
    cr_assert_eq(memcmp(one->raw.p, other->raw.p, one->raw.n), 0, "%s\n----\n%s",
                 one->rig->frames.p, other->rig->frames.p);
    cr_assert_str_eq(one->rig->events.p, other->rig->events.p);
    cr_assert_str_eq(one->rig->requests.p, other->rig->requests.p);
    cr_assert_eq(one->rig->finished, other->rig->finished);
    cr_assert_eq(one->rig->heard_end, other->rig->heard_end);
}

/* How often one of them has slept. */
static unsigned run_schedule(bool client, unsigned seed)
{
    struct twin *twins[] = {twin_new(client, false), twin_new(client, true)};
    for (unsigned i = 0; i < STEPS; i++) {
        struct step step = {.kind = (unsigned)rand_r(&seed) % 14,
                            .number = (unsigned)rand_r(&seed) % 10000};
        take_step(twins[0], &step);
        take_step(twins[1], &step);
        expect_alike(twins[0], twins[1]);
    }
    unsigned last = (unsigned)rand_r(&seed) % 6;
    take_last_step(twins[0], last);
    take_last_step(twins[1], last);
    expect_alike(twins[0], twins[1]);
    unsigned sleeps = twins[1]->sleeps;
    twin_free(twins[0]);
    twin_free(twins[1]);
    return sleeps;
}

Test(h2_hibernation, with_a_client_at_every_point)
{
    unsigned sleeps = 0;
    for (unsigned seed = 1; seed <= SCHEDULES; seed++)
        sleeps += run_schedule(false, seed);
    cr_expect_gt(sleeps, 1000, "%u", sleeps);
}

Test(h2_hibernation, with_an_upstream_at_every_point)
{
    unsigned sleeps = 0;
    for (unsigned seed = 1; seed <= SCHEDULES; seed++)
        sleeps += run_schedule(true, seed);
    cr_expect_gt(sleeps, 1000, "%u", sleeps);
}

/* ---- at some points ---- */

static struct twin *sleeper(bool client)
{
    struct twin *twin = twin_new(client, true);
    h2_rig_forget(twin->rig);
    cr_assert(asleep(twin->rig));
    return twin;
}

Test(h2_hibernation, not_while_its_ping_is_out)
{
    struct twin *twin = sleeper(false);
    struct h2_rig *rig = twin->rig;
    static const char content[16001] = {0};
    put_message(twin, 1, 0, 1);
    for (unsigned i = 0; i < 3; i++)
        h2_put_frame(&rig->out, H2_DATA, 0, 1, content, sizeof(content) - 1);
    h2_rig_send(rig);
    h2_put_frame(&rig->out, H2_DATA, H2_END_STREAM, 1, "", 0);
    h2_rig_send(rig);
    cr_assert(h2_rig_heard(rig, "PING[weirwind] "), "%s", rig->frames.p);
    cr_assert_eq(rig->finished, 1);
    cr_expect_eq(hibernate(rig), WR_HIBERNATION_BUSY);
    h2_put_ping(&rig->out, H2_ACK, "weirwind");
    h2_rig_send(rig);
    try_to_sleep(twin);
    cr_expect(asleep(rig));
    twin_free(twin);
}

Test(h2_hibernation, not_while_a_head_is_on_its_way)
{
    struct twin *twin = sleeper(false);
    struct h2_rig *rig = twin->rig;
    h2_put_frame(&rig->out, H2_HEADERS, H2_END_STREAM, 1, "", 0);
    h2_rig_send(rig);
    cr_expect_eq(hibernate(rig), WR_HIBERNATION_BUSY);
    twin_free(twin);
}

Test(h2_hibernation, not_while_it_drains)
{
    struct twin *twin = sleeper(false);
    struct h2_rig *rig = twin->rig;
    rig->server->ops->drain(rig->server);
    cr_expect_eq(rig->wakes, twin->sleeps);
    h2_rig_settle(rig);
    cr_expect(h2_rig_heard(rig, "GOAWAY[2147483647,0] PING["), "%s", rig->frames.p);
    cr_expect_eq(hibernate(rig), WR_HIBERNATION_BUSY);
    wr_loop_advance(rig->loop, 2 * WR_SEC);
    h2_rig_settle(rig);
    cr_expect(h2_rig_told(rig, "done:ok "), "%s", rig->events.p);
    twin_free(twin);
}

Test(h2_hibernation, its_owner_ends_it)
{
    struct twin *twin = sleeper(false);
    struct h2_rig *rig = twin->rig;
    rig->server->ops->close(rig->server, WR_ERR_CANCELLED);
    rig->server = NULL;
    h2_rig_settle(rig);
    cr_expect(h2_rig_heard(rig, "GOAWAY[0,0] "), "%s", rig->frames.p);
    cr_expect_eq(rig->wakes, twin->sleeps - 1, "who has closed it is told nothing");
    twin->sleeps--;
    twin_free(twin);
}

Test(h2_hibernation, an_upstream_is_not_asked_whether_it_is_there)
{
    struct h2_rig *rig = h2_rig_new(true);
    rig->client_options.h2.ping_interval = 10 * WR_SEC;
    h2_rig_start(rig);
    h2_rig_forget(rig);
    cr_assert_eq(hibernate(rig), WR_HIBERNATION_DONE);
    wr_loop_advance(rig->loop, 60 * WR_SEC);
    h2_rig_settle(rig);
    cr_expect(asleep(rig));
    cr_expect_eq(rig->frames.n, 0, "%s", rig->frames.p);
    h2_rig_open(rig, "GET", 0, "");
    cr_expect_eq(rig->wakes, 1);
    h2_rig_settle(rig);
    cr_expect_not(h2_rig_heard(rig, "PING["), "%s", rig->frames.p);
    wr_loop_advance(rig->loop, 11 * WR_SEC);
    h2_rig_settle(rig);
    cr_expect(h2_rig_heard(rig, "PING[weirping] "), "%s", rig->frames.p);
    h2_rig_free(rig);
}

/* More than the arena takes: some of it stays as it is, and is freed all the same. */
Test(h2_hibernation, of_one_that_holds_much)
{
    struct twin *twin = calloc(1, sizeof(*twin));
    struct h2_rig *rig = h2_rig_new(true);
    char value[801] = "";
    rig->client_options.h2.header_table_size = 65536;
    twin->rig = rig;
    cr_assert_eq(nghttp2_hd_deflate_new(&twin->deflater, 65536), 0);
    h2_rig_start(rig);
    cr_assert_eq(nghttp2_hd_deflate_change_table_size(twin->deflater, 65536), 0);
    memset(value, 'v', sizeof(value) - 1);
    for (uint32_t i = 0; i < 160; i++) {
        (void)snprintf(value, 8, "%07u", i);
        value[7] = 'v';
        const char *const fields[][2] = {{":status", "200"}, {"x-much", value}};
        struct h2_call *call = h2_rig_open(rig, "GET", 0, "");
        h2_rig_settle(rig);
        put_head(twin, 2 * i + 1, H2_END_STREAM, fields, WR_COUNT_OF(fields));
        h2_rig_send(rig);
        cr_assert(call->collector.ended);
        if (i % 10 == 9)
            cr_assert_eq(hibernate(rig), WR_HIBERNATION_DONE);
    }
    cr_expect_gt(session_of(rig)->arena.spilled, 0);
    cr_expect_eq(rig->wakes, 15);
    cr_assert(asleep(rig));
    h2_rig_peer_closes(rig);
    cr_expect(h2_rig_told(rig, "broken:upstream_closed"), "%s", rig->events.p);
    cr_expect_eq(rig->wakes, 15);
    h2_rig_free(rig);
    nghttp2_hd_deflate_del(twin->deflater);
    free(twin);
}
