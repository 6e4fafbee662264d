/* Rows 36 and 38 to 41 of the behaviour table, with raw frames: what ends a connection or a stream over HTTP/2. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "support/edge.h"
#include "support/h2_frames.h"
#include "support/stage.h"

#define PROTOCOL_ERROR 1
#define FLOW_CONTROL_ERROR 3
#define STREAM_CLOSED 5
#define FRAME_SIZE_ERROR 6
#define COMPRESSION_ERROR 9

#define PSEUDO ":method: GET\n:scheme: https\n:path: /\n:authority: localhost\n"

/* ---- connection errors, row 40 among them ---- */

struct frame_case {
    const char *name;
    unsigned code;
    unsigned type;
    unsigned flags;
    uint32_t id; /* 1 is open for content, 3 is half-closed by the client */
    const char *payload;
    size_t n;
};
#define FRAME(name, code, type, flags, id, payload)                  \
    {                                                                \
        name, code, type, flags, id, (payload), sizeof(payload) - 1, \
    }
#define WHOLE (H2_END_HEADERS | H2_END_STREAM)

static const struct frame_case frames[] = {
    FRAME("index out of range", COMPRESSION_ERROR, H2_HEADERS, WHOLE, 5, "\xff\xff\xff\xff\x0f"),
    FRAME("index 0", COMPRESSION_ERROR, H2_HEADERS, WHOLE, 5, "\x80"),
    FRAME("size update misplaced", COMPRESSION_ERROR, H2_HEADERS, WHOLE, 5, "\x82\x20"),
    FRAME("size update above the limit", COMPRESSION_ERROR, H2_HEADERS, WHOLE, 5,
          "\x3f\xff\xff\x03\x82"),
    FRAME("Huffman padding of 0 bits", COMPRESSION_ERROR, H2_HEADERS, WHOLE, 5, "\x04\x81\x00"),
    FRAME("Huffman padding of a byte", COMPRESSION_ERROR, H2_HEADERS, WHOLE, 5, "\x04\x82\x1f\xff"),
    FRAME("Huffman EOS", COMPRESSION_ERROR, H2_HEADERS, WHOLE, 5, "\x04\x84\xff\xff\xff\xff"),
    FRAME("string cut short", COMPRESSION_ERROR, H2_HEADERS, WHOLE, 5, "\x04\x05/a"),
    FRAME("DATA on an idle stream", PROTOCOL_ERROR, H2_DATA, 0, 5, "x"),
    FRAME("DATA on stream 0", PROTOCOL_ERROR, H2_DATA, 0, 0, "x"),
    FRAME("DATA on a half-closed stream", STREAM_CLOSED, H2_DATA, 0, 3, "x"),
    FRAME("DATA with more padding than bytes", PROTOCOL_ERROR, H2_DATA, H2_PADDED, 1, "\x05xy"),
    FRAME("HEADERS on stream 0", PROTOCOL_ERROR, H2_HEADERS, WHOLE, 0, "\x82"),
    FRAME("HEADERS on an even stream", PROTOCOL_ERROR, H2_HEADERS, WHOLE, 2, "\x82"),
    FRAME("PRIORITY of 4 bytes", FRAME_SIZE_ERROR, H2_PRIORITY, 0, 1, "abcd"),
    FRAME("RST_STREAM on an idle stream", PROTOCOL_ERROR, H2_RST_STREAM, 0, 5, "\0\0\0\x08"),
    FRAME("RST_STREAM of 3 bytes", FRAME_SIZE_ERROR, H2_RST_STREAM, 0, 1, "\0\0\x08"),
    FRAME("SETTINGS of 5 bytes", FRAME_SIZE_ERROR, H2_SETTINGS, 0, 0, "\0\3\0\0\0"),
    FRAME("SETTINGS on a stream", PROTOCOL_ERROR, H2_SETTINGS, 0, 1, ""),
    FRAME("SETTINGS+ACK with content", FRAME_SIZE_ERROR, H2_SETTINGS, H2_ACK, 0, "\0\3\0\0\0\1"),
    FRAME("SETTINGS_ENABLE_PUSH of 2", PROTOCOL_ERROR, H2_SETTINGS, 0, 0, "\0\2\0\0\0\2"),
    FRAME("window above 2^31-1", FLOW_CONTROL_ERROR, H2_SETTINGS, 0, 0, "\0\4\x80\0\0\0"),
    FRAME("frame size below 16384", PROTOCOL_ERROR, H2_SETTINGS, 0, 0, "\0\5\0\0\0\1"),
    FRAME("PUSH_PROMISE", PROTOCOL_ERROR, H2_PUSH_PROMISE, H2_END_HEADERS, 1, "\0\0\0\2\x82"),
    FRAME("PING of 7 bytes", FRAME_SIZE_ERROR, H2_PING, 0, 0, "1234567"),
    FRAME("PING on a stream", PROTOCOL_ERROR, H2_PING, 0, 1, "12345678"),
    FRAME("GOAWAY on a stream", PROTOCOL_ERROR, H2_GOAWAY, 0, 1, "\0\0\0\0\0\0\0\0"),
    FRAME("WINDOW_UPDATE of 0", PROTOCOL_ERROR, H2_WINDOW_UPDATE, 0, 0, "\0\0\0\0"),
    FRAME("WINDOW_UPDATE of 3 bytes", FRAME_SIZE_ERROR, H2_WINDOW_UPDATE, 0, 0, "\0\0\1"),
    FRAME("WINDOW_UPDATE overflow", FLOW_CONTROL_ERROR, H2_WINDOW_UPDATE, 0, 0, "\x7f\xff\xff\xff"),
    FRAME("WINDOW_UPDATE on an idle stream", PROTOCOL_ERROR, H2_WINDOW_UPDATE, 0, 5, "\0\0\0\1"),
    FRAME("CONTINUATION alone", PROTOCOL_ERROR, H2_CONTINUATION, H2_END_HEADERS, 1, "\x82"),
};

/* Two requests are at the origin, which has answered neither. */
static void expect_connection_error(struct stage *stage, const struct frame_case *c, bool tls)
{
    unsigned before = script_requests(stage->script);
    unsigned ended = script_ended(stage->script);
    struct h2_peer *h2 = h2_peer_open(tls ? stage->tls : stage->plain, tls, NULL);

    h2_peer_ask(h2, 1, 0, "POST", "/", "");
    h2_put_data(&h2->out, 1, 0, "con");
    h2_peer_ask(h2, 3, H2_END_STREAM, "GET", "/", "");
    h2_peer_send(h2);
    cr_assert(script_wait_requests(stage->script, before + 2));
    h2_put_frame(&h2->out, c->type, c->flags, c->id, c->payload, c->n);
    h2_peer_get(h2, 7, "/poison");
    cr_expect(h2_peer_is_over(h2, c->code), "%s: %s", c->name, h2_peer_log(h2));
    cr_expect_null(strstr(h2_peer_log(h2), ":status"), "%s: %s", c->name, h2_peer_log(h2));
    cr_expect(script_wait_ended(stage->script, ended + 2), "%s: work goes on", c->name);
    cr_expect_eq(script_requests(stage->script), before + 2, "%s: another request", c->name);
    h2_peer_free(h2);
}

Test(h2_ends, row_40_and_other_connection_errors, .timeout = 120)
{
    static const struct script_answer silence = {.bytes = ""};
    struct stage *stage = stage_start(NULL);

    script_set(stage->script, &silence, 1);
    for (size_t i = 0; i < WR_COUNT_OF(frames); i++)
        expect_connection_error(stage, &frames[i], i % 2 == 0);
    script_set(stage->script, NULL, 0);
    stage_fence(stage);
    stage_stop(stage);
}

Test(h2_ends, frame_above_the_size)
{
    struct stage *stage = stage_start(NULL);
    struct h2_peer *h2 = h2_peer_open(stage->tls, true, NULL);
    char *bytes = calloc(1, 16385);

    h2_peer_ask(h2, 1, 0, "POST", "/", "");
    h2_put_frame(&h2->out, H2_DATA, 0, 1, bytes, 16385);
    cr_expect(h2_peer_is_over(h2, FRAME_SIZE_ERROR), "%s", h2_peer_log(h2));
    free(bytes);
    h2_peer_free(h2);
    stage_stop(stage);
}

Test(h2_ends, other_frames_within_a_head)
{
    struct stage *stage = stage_start(NULL);
    struct h2_peer *h2 = h2_peer_open(stage->tls, true, NULL);

    h2_put_frame(&h2->out, H2_HEADERS, H2_END_STREAM, 1, "\x82", 1);
    h2_put_ping(&h2->out, 0, "abcdefgh");
    cr_expect(h2_peer_is_over(h2, PROTOCOL_ERROR), "%s", h2_peer_log(h2));
    cr_expect_eq(script_requests(stage->script), 0);
    h2_peer_free(h2);
    stage_stop(stage);
}

Test(h2_ends, what_is_no_http2_at_all)
{
    struct stage *stage = stage_start(NULL);
    struct h2_peer *h2 = h2_peer_connect(stage->tls, true);

    text_say(&h2->out, "GET / HTTP/1.1\r\nhost: localhost\r\n\r\n");
    cr_expect(h2_peer_is_over(h2, PROTOCOL_ERROR), "%s", h2_peer_log(h2));
    h2_peer_free(h2);
    for (int tls = 0; tls < 2; tls++) {
        h2 = h2_peer_connect(tls ? stage->tls : stage->plain, tls);
        text_say(&h2->out, "%s", H2_PREFACE);
        h2_peer_get(h2, 1, "/poison");
        cr_expect(h2_peer_is_over(h2, PROTOCOL_ERROR), "%s", h2_peer_log(h2));
        h2_peer_free(h2);
    }
    stage_fence(stage);
    stage_stop(stage);
}

/* ---- row 39 ---- */

#define COPIES 4000

/* One entry of the table, again and again. */
static void put_bomb(struct text *out, uint32_t id)
{
    struct text block = {0};

    h2_put_block(&block, PSEUDO);
    text_add(&block, "\x40\x01x\x7f\x81\x1e", 6); /* into the table: "x" of 4000 bytes */
    for (unsigned i = 0; i < COPIES; i++)
        text_add(&block, "v", 1);
    for (unsigned i = 0; i < COPIES; i++)
        text_add(&block, "\xbe", 1); /* index 62 */
    h2_put_frame(out, H2_HEADERS, H2_END_HEADERS | H2_END_STREAM, id, block.p, block.n);
    text_free(&block);
}

static void expect_431(struct stage *stage, struct h2_peer *h2)
{
    unsigned before = script_requests(stage->script);

    cr_expect(h2_peer_settles(h2), "%.500s", h2_peer_log(h2));
    cr_expect(strstr(h2_peer_log(h2), "HEADERS/1[:status=431;") ||
                  strstr(h2_peer_log(h2), "HEADERS/1+ES[:status=431;"),
              "%.500s", h2_peer_log(h2));
    h2_peer_get(h2, 3, "/after");
    cr_expect(h2_peer_hears(h2, "HEADERS/3[:status=200;"), "%.500s", h2_peer_log(h2));
    cr_expect_eq(script_requests(stage->script), before + 1);
    h2_peer_free(h2);
}

Test(h2_ends, row_39_hpack_bombs)
{
    struct stage *stage = stage_start(NULL);
    size_t rss = weir_rss(stage->weir);

    for (unsigned i = 0; i < 50; i++) {
        struct h2_peer *h2 = h2_peer_open(stage->tls, true, NULL);
        put_bomb(&h2->out, 1);
        expect_431(stage, h2);
    }
    if (!edge_is_slow()) /* one alone says 16 MB */
        cr_expect_leq(edge_rss_peak(stage->weir), rss + 12 * 1024 * 1024);
    stage_stop(stage);
}

Test(h2_ends, row_39_too_many_fields)
{
    struct stage *stage = stage_start(NULL);
    struct h2_peer *h2 = h2_peer_open(stage->tls, true, NULL);
    struct text fields = {0};

    for (unsigned i = 0; i < 101; i++)
        text_say(&fields, "a%u: b\n", i);
    h2_peer_ask(h2, 1, H2_END_STREAM, "GET", "/poison", fields.p);
    expect_431(stage, h2);
    text_free(&fields);
    stage_stop(stage);
}
