/* Rows 34 to 39 and 43 of the behaviour table: what costs us and brings nothing is counted, and ends the connection. */
#include <criterion/criterion.h>
#include <string.h>

#include "support/h2_rig.h"

#define GET ":method: GET\n:scheme: http\n:path: /\n:authority: a.test\n"
#define POST ":method: POST\n:scheme: http\n:path: /\n:authority: a.test\n"

static struct h2_rig *started(void)
{
    struct h2_rig *rig = h2_rig_new(false);
    h2_rig_start(rig);
    h2_rig_forget(rig);
    return rig;
}

static uint64_t floods(const struct h2_rig *rig, enum wr_flood kind)
{
    return wr_metric_get(&rig->listener_metrics.h2_floods[kind]);
}

/* COUNT is above the budget of 100. */
static void expect_flood(struct h2_rig *rig, enum wr_flood kind)
{
    h2_rig_send(rig);
    cr_expect_eq(floods(rig, kind), 1, "%s: %s", wr_flood_label(kind), rig->frames.p);
    for (unsigned i = 0; i < rig->count; i++)
        cr_expect_null(rig->calls[i].exchange, "%s: the work is cancelled", wr_flood_label(kind));
    const char *goaway = strstr(rig->frames.p, "GOAWAY[");
    cr_expect(goaway != NULL && strstr(goaway, ",11] ") != NULL, "%s: %s", wr_flood_label(kind),
              rig->frames.p);
    cr_expect(h2_rig_told(rig, "done:ok "), "%s", wr_flood_label(kind));
    cr_expect(rig->heard_end, "%s", wr_flood_label(kind));
    h2_rig_free(rig);
}

Test(h2_floods, rapid_reset)
{
    struct h2_rig *rig = started();
    rig->on_exchange = h2_rig_wait;
    for (unsigned i = 0; i < 120; i++) {
        h2_put_headers(&rig->out, 2 * i + 1, H2_END_STREAM, GET);
        h2_put_reset(&rig->out, 2 * i + 1, 8);
    }
    expect_flood(rig, WR_FLOOD_RESET);
}

Test(h2_floods, resets_at_a_rate_a_user_may_have_are_no_flood)
{
    struct h2_rig *rig = started();
    rig->on_exchange = h2_rig_wait;
    for (unsigned i = 0; i < 200; i++) {
        h2_put_headers(&rig->out, 2 * i + 1, H2_END_STREAM, GET);
        h2_put_reset(&rig->out, 2 * i + 1, 8);
        h2_rig_send(rig);
        wr_loop_advance(rig->loop, 100 * WR_MSEC);
    }
    cr_expect_eq(floods(rig, WR_FLOOD_RESET), 0);
    cr_expect_eq(rig->finished, 200);
    cr_expect_eq(rig->calls[199].ended, WR_ERR_CLIENT_RESET);
    h2_rig_free(rig);
}

Test(h2_floods, resets_after_the_response_are_not_held_against_anybody)
{
    struct h2_rig *rig = started();
    for (unsigned i = 0; i < 200; i++) {
        h2_rig_get(rig, 2 * i + 1, "");
        h2_put_reset(&rig->out, 2 * i + 1, 8);
        h2_rig_send(rig);
    }
    cr_expect_eq(floods(rig, WR_FLOOD_RESET), 0);
    cr_expect_eq(rig->finished, 200);
    h2_rig_free(rig);
}

/* Row 35: the client makes the server reset. */
Test(h2_floods, made_you_reset_by_window_overflow)
{
    struct h2_rig *rig = started();
    rig->on_exchange = h2_rig_wait;
    for (unsigned i = 0; i < 120; i++) {
        h2_put_headers(&rig->out, 2 * i + 1, H2_END_STREAM, GET);
        h2_put_window(&rig->out, 2 * i + 1, 0x7fffffff);
    }
    expect_flood(rig, WR_FLOOD_RESET);
}

Test(h2_floods, made_you_reset_by_content_length)
{
    struct h2_rig *rig = started();
    for (unsigned i = 0; i < 120; i++) {
        h2_put_headers(&rig->out, 2 * i + 1, 0, POST "content-length: 1\n");
        h2_put_data(&rig->out, 2 * i + 1, 0, "xy");
        h2_rig_send(rig);
    }
    expect_flood(rig, WR_FLOOD_RESET);
}

Test(h2_floods, made_you_reset_by_malformed_heads)
{
    struct h2_rig *rig = started();
    for (unsigned i = 0; i < 120; i++)
        h2_put_headers(&rig->out, 2 * i + 1, H2_END_STREAM, GET "connection: close\n");
    expect_flood(rig, WR_FLOOD_RESET);
}

/* RFC 9113 section 10.5: what is too large is refused, and that is work as well. */
Test(h2_floods, made_you_reset_by_trailers)
{
    struct h2_rig *rig = started();
    struct text trailers = {0};
    rig->on_exchange = h2_rig_wait;
    for (unsigned i = 0; i < 40; i++)
        text_say(&trailers, "a: b\n");
    for (unsigned i = 0; i < 120; i++) {
        h2_put_headers(&rig->out, 2 * i + 1, 0, POST);
        h2_put_headers(&rig->out, 2 * i + 1, H2_END_STREAM, trailers.p);
        h2_rig_send(rig);
    }
    text_free(&trailers);
    expect_flood(rig, WR_FLOOD_RESET);
}

/* Whoever makes us wait, too. */
Test(h2_floods, made_you_reset_by_stalls)
{
    struct h2_rig *rig = h2_rig_new(false);
    rig->server_options.h2.max_concurrent_streams = 200;
    rig->host.inactivity_timeout = 10 * WR_SEC;
    rig->on_exchange = h2_rig_wait;
    h2_rig_start(rig);
    for (unsigned i = 0; i < 120; i++)
        h2_put_headers(&rig->out, 2 * i + 1, 0, POST);
    h2_rig_send(rig);
    wr_loop_advance(rig->loop, 11 * WR_SEC);
    expect_flood(rig, WR_FLOOD_RESET);
}

/* What upstreams do is not held against the client. */
Test(h2_floods, failures_of_upstreams_are_no_flood)
{
    struct h2_rig *rig = started();
    rig->on_exchange = h2_rig_wait;
    for (unsigned i = 0; i < 200; i++) {
        h2_rig_get(rig, 2 * i + 1, "");
        wr_message_set_source(&rig->calls[i].exchange->response, &feeder_ops,
                              &rig->calls[i].feeder);
        wr_message_abort(&rig->calls[i].exchange->response, WR_ERR_RESPONSE_INCOMPLETE);
        h2_rig_settle(rig);
    }
    cr_expect_eq(rig->finished, 200);
    cr_expect_eq(floods(rig, WR_FLOOD_RESET), 0);
    h2_rig_free(rig);
}

/* ---- frames for streams that are over ---- */

static void put_late(struct h2_rig *rig, bool reset, uint32_t id)
{
    if (reset)
        h2_put_reset(&rig->out, id, 8);
    else
        h2_put_window(&rig->out, id, 1);
}

Test(h2_floods, frames_of_streams_that_are_over)
{
    for (int reset = 0; reset < 2; reset++) {
        struct h2_rig *rig = started();
        h2_rig_get(rig, 1, "");
        for (unsigned i = 0; i < 120; i++)
            put_late(rig, reset, 1);
        expect_flood(rig, WR_FLOOD_EMPTY);
    }
}

/* What was on its way when the stream ended is nobody's fault. */
Test(h2_floods, late_frames_of_many_streams_are_fine)
{
    struct h2_rig *rig = started();
    for (unsigned i = 0; i < 200; i++) {
        h2_rig_get(rig, 2 * i + 1, "");
        for (int j = 0; j < 4; j++)
            put_late(rig, j > 2, 2 * i + 1);
    }
    h2_rig_send(rig);
    cr_expect_eq(rig->finished, 200);
    cr_expect_eq(floods(rig, WR_FLOOD_EMPTY), 0);
    cr_expect_not(h2_rig_heard(rig, "GOAWAY"), "%s", rig->frames.p);
    h2_rig_free(rig);
}

Test(h2_floods, more_settings_in_a_frame_than_there_are)
{
    struct h2_rig *rig = started();
    uint8_t payload[33 * 6] = {0};
    for (unsigned i = 0; i < 33; i++)
        payload[6 * i + 1] = 4;
    h2_put_frame(&rig->out, H2_SETTINGS, 0, 0, payload, 32 * 6);
    h2_rig_send(rig);
    cr_expect_eq(floods(rig, WR_FLOOD_SETTINGS), 0);
    h2_put_frame(&rig->out, H2_SETTINGS, 0, 0, payload, 33 * 6);
    expect_flood(rig, WR_FLOOD_SETTINGS);
}

/* Row 36. */
Test(h2_floods, continuation_flood)
{
    struct h2_rig *rig = started();
    h2_put_frame(&rig->out, H2_HEADERS, H2_END_STREAM, 1, "", 0);
    for (unsigned i = 0; i < 20; i++)
        h2_put_frame(&rig->out, H2_CONTINUATION, 0, 1, "", 0);
    expect_flood(rig, WR_FLOOD_CONTINUATION);
}

Test(h2_floods, continuations_of_a_large_head_are_fine)
{
    struct h2_rig *rig = started();
    struct text block = {0};
    h2_put_block(&block, GET "a: b\nc: d\n");
    h2_put_frame(&rig->out, H2_HEADERS, H2_END_STREAM, 1, block.p, 10);
    h2_put_frame(&rig->out, H2_CONTINUATION, 0, 1, block.p + 10, 10);
    h2_put_frame(&rig->out, H2_CONTINUATION, H2_END_HEADERS, 1, block.p + 20, block.n - 20);
    text_free(&block);
    h2_rig_send(rig);
    cr_expect_str_eq(rig->requests.p, "GET a.test / [] a=b;c=d;\n");
    h2_rig_free(rig);
}

/* Row 37. */
Test(h2_floods, ping_flood)
{
    struct h2_rig *rig = started();
    for (unsigned i = 0; i < 120; i++)
        h2_put_ping(&rig->out, 0, "abcdefgh");
    expect_flood(rig, WR_FLOOD_PING);
}

Test(h2_floods, settings_flood)
{
    static const uint32_t nothing[] = {0};
    struct h2_rig *rig = started();
    for (unsigned i = 0; i < 120; i++)
        h2_put_settings(&rig->out, nothing);
    expect_flood(rig, WR_FLOOD_SETTINGS);
}

Test(h2_floods, priority_flood)
{
    struct h2_rig *rig = started();
    for (unsigned i = 0; i < 60; i++) {
        h2_put_frame(&rig->out, H2_PRIORITY, 0, 3, "\0\0\0\0\x10", 5);
        h2_put_frame(&rig->out, H2_PRIORITY_UPDATE, 0, 0, "\0\0\0\1u=1", 7);
    }
    expect_flood(rig, WR_FLOOD_PRIORITY);
}

Test(h2_floods, flood_of_empty_data)
{
    struct h2_rig *rig = started();
    h2_put_headers(&rig->out, 1, 0, POST);
    for (unsigned i = 0; i < 60; i++) {
        h2_put_data(&rig->out, 1, 0, "");
        h2_put_frame(&rig->out, H2_DATA, H2_PADDED, 1, "\3\0\0\0", 4);
    }
    expect_flood(rig, WR_FLOOD_EMPTY);
}

Test(h2_floods, flood_of_tiny_window_updates)
{
    struct h2_rig *rig = started();
    for (unsigned i = 0; i < 120; i++)
        h2_put_window(&rig->out, 0, 1);
    expect_flood(rig, WR_FLOOD_WINDOW);
}

Test(h2_floods, window_updates_for_tiny_frames_are_no_flood)
{
    struct h2_rig *rig = started();
    rig->on_exchange = h2_rig_wait;
    h2_rig_get(rig, 1, "");
    h2_rig_answer_head(&rig->calls[0], 200, WR_LENGTH_UNKNOWN, "", 0);
    for (unsigned i = 0; i < 500; i++) {
        wr_message_put(&rig->calls[0].exchange->response, "tick", 4);
        h2_rig_settle(rig);
        h2_put_window(&rig->out, 0, 4);
        h2_put_window(&rig->out, 1, 4);
        h2_rig_send(rig);
    }
    cr_expect_eq(floods(rig, WR_FLOOD_WINDOW), 0);
    cr_expect_eq(h2_reader_data(rig->reader), 2000);
    h2_rig_free(rig);
}

Test(h2_floods, a_flooder_that_does_not_read_holds_little)
{
    struct h2_rig *rig = started();
    rig->deaf = true;
    for (unsigned i = 0; i < 90; i++)
        h2_put_ping(&rig->out, 0, "abcdefgh");
    h2_rig_send(rig);
    cr_expect_leq(rig->host.chunks->used_count, 10);
    rig->deaf = false;
    h2_rig_free(rig);
}

/* Row 39: one entry of the table, again and again. */
Test(h2_floods, hpack_bomb_is_counted_decoded)
{
    struct h2_rig *rig = started();
    struct text block = {0};
    h2_put_block(&block, GET);
    text_add(&block, "\x40\x01x", 3);    /* into the table */
    text_add(&block, "\x7f\x81\x1e", 3); /* 4000 bytes */
    for (unsigned i = 0; i < 4000; i++)
        text_add(&block, "v", 1);
    for (unsigned i = 0; i < 4000; i++)
        text_add(&block, "\xbe", 1); /* index 62 */
    h2_put_frame(&rig->out, H2_HEADERS, H2_END_HEADERS | H2_END_STREAM, 1, block.p, block.n);
    text_free(&block);
    h2_rig_send(rig);
    cr_expect(h2_rig_heard(rig, "HEADERS/1+ES[:status=431;"), "%s", rig->frames.p);
    cr_expect_eq(rig->calls[0].refused, WR_ERR_FIELDS_TOO_LARGE);
    h2_rig_free(rig);
}

/* Row 43. */
Test(h2_floods, resets_and_goaway_leave_nothing)
{
    for (unsigned round = 0; round < 100; round++) {
        struct h2_rig *rig = started();
        rig->on_exchange = h2_rig_wait;
        for (unsigned i = 0; i < 50; i++) {
            h2_put_headers(&rig->out, 2 * i + 1, H2_END_STREAM, GET);
            h2_put_reset(&rig->out, 2 * i + 1, 8);
        }
        h2_put_goaway(&rig->out, 0, 0);
        h2_rig_send(rig);
        cr_expect_eq(rig->finished, 50);
        cr_expect(h2_rig_told(rig, "done:ok "), "%s", rig->events.p);
        h2_rig_free(rig);
    }
}
