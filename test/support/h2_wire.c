#include "support/h2_wire.h"

#include <criterion/criterion.h>
#include <nghttp2/nghttp2.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* ---- writing ---- */

static void put_u32(uint8_t *p, uint32_t value)
{
    p[0] = (uint8_t)(value >> 24);
    p[1] = (uint8_t)(value >> 16);
    p[2] = (uint8_t)(value >> 8);
    p[3] = (uint8_t)value;
}

void h2_put_frame(struct text *out, unsigned type, unsigned flags, uint32_t id, const void *p,
                  size_t n)
{
    uint8_t head[9] = {(uint8_t)(n >> 16), (uint8_t)(n >> 8), (uint8_t)n, (uint8_t)type,
                       (uint8_t)flags};
    put_u32(head + 5, id);
    text_add(out, head, sizeof(head));
    text_add(out, p, n);
}

/* RFC 7541 section 5.1, a prefix of 7 bits, without Huffman. */
static void put_string(struct text *out, const char *p, size_t n)
{
    uint8_t byte = n < 127 ? (uint8_t)n : 127;
    text_add(out, &byte, 1);
    for (size_t left = n - 127; n >= 127; left >>= 7) {
        byte = (uint8_t)(left < 128 ? left : (left & 127) | 128);
        text_add(out, &byte, 1);
        if (left < 128)
            break;
    }
    text_add(out, p, n);
}

void h2_put_block(struct text *out, const char *fields)
{
    while (*fields != '\0') {
        const char *end = strchr(fields, '\n');
        const char *colon = strchr(fields + 1, ':');
        cr_assert(end != NULL && colon != NULL && colon < end);
        text_add(out, "\0", 1);
        put_string(out, fields, (size_t)(colon - fields));
        const char *value = colon + 1 + (colon[1] == ' ');
        put_string(out, value, (size_t)(end - value));
        fields = end + 1;
    }
}

void h2_put_headers(struct text *out, uint32_t id, unsigned flags, const char *fields)
{
    struct text block = {0};
    h2_put_block(&block, fields);
    h2_put_frame(out, H2_HEADERS, flags | H2_END_HEADERS, id, block.p, block.n);
    text_free(&block);
}

void h2_put_data(struct text *out, uint32_t id, unsigned flags, const char *content)
{
    h2_put_frame(out, H2_DATA, flags, id, content, strlen(content));
}

void h2_put_reset(struct text *out, uint32_t id, uint32_t code)
{
    uint8_t payload[4];
    put_u32(payload, code);
    h2_put_frame(out, H2_RST_STREAM, 0, id, payload, sizeof(payload));
}

void h2_put_window(struct text *out, uint32_t id, uint32_t increment)
{
    uint8_t payload[4];
    put_u32(payload, increment);
    h2_put_frame(out, H2_WINDOW_UPDATE, 0, id, payload, sizeof(payload));
}

void h2_put_goaway(struct text *out, uint32_t last, uint32_t code)
{
    uint8_t payload[8];
    put_u32(payload, last);
    put_u32(payload + 4, code);
    h2_put_frame(out, H2_GOAWAY, 0, 0, payload, sizeof(payload));
}

void h2_put_ping(struct text *out, unsigned flags, const char opaque[8])
{
    h2_put_frame(out, H2_PING, flags, 0, opaque, 8);
}

void h2_put_settings(struct text *out, const uint32_t *pairs)
{
    uint8_t payload[120];
    size_t n = 0;
    for (; pairs[0] != 0; pairs += 2, n += 6) {
        cr_assert(n + 6 <= sizeof(payload));
        payload[n] = (uint8_t)(pairs[0] >> 8);
        payload[n + 1] = (uint8_t)pairs[0];
        put_u32(payload + n + 2, pairs[1]);
    }
    h2_put_frame(out, H2_SETTINGS, 0, 0, payload, n);
}

/* ---- reading ---- */

struct h2_reader {
    struct text pending;
    struct text block;
    nghttp2_hd_inflater *inflater;
    bool preface; /* still to come */
    uint64_t data;
};

struct h2_reader *h2_reader_new(bool of_client)
{
    struct h2_reader *reader = WR_NEW(struct h2_reader);
    cr_assert_eq(nghttp2_hd_inflate_new(&reader->inflater), 0);
    reader->preface = of_client;
    return reader;
}

void h2_reader_free(struct h2_reader *reader)
{
    if (reader == NULL)
        return;
    nghttp2_hd_inflate_del(reader->inflater);
    text_free(&reader->pending);
    text_free(&reader->block);
    free(reader);
}

uint64_t h2_reader_data(const struct h2_reader *reader)
{
    return reader->data;
}

static uint32_t get_u32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void read_block(struct h2_reader *reader, struct text *log)
{
    const uint8_t *p = (const uint8_t *)reader->block.p;
    size_t n = reader->block.n;
    for (;;) {
        nghttp2_nv nv;
        int flags = 0;
        ssize_t k = nghttp2_hd_inflate_hd2(reader->inflater, &nv, &flags, p, n, 1);
        cr_assert(k >= 0, "header block that cannot be read");
        p += k;
        n -= (size_t)k;
        if ((flags & NGHTTP2_HD_INFLATE_EMIT) != 0) {
            text_add(log, nv.name, nv.namelen);
            text_say(log, (nv.flags & NGHTTP2_NV_FLAG_NO_INDEX) != 0 ? "!=" : "=");
            text_add(log, nv.value, nv.valuelen);
            text_add(log, ";", 1);
        }
        if ((flags & NGHTTP2_HD_INFLATE_FINAL) != 0)
            break;
    }
    nghttp2_hd_inflate_end_headers(reader->inflater);
    text_free(&reader->block);
}

static void log_settings(const uint8_t *p, size_t n, struct text *log)
{
    for (size_t at = 0; at + 6 <= n; at += 6)
        text_say(log, "%s%u=%u", at > 0 ? "," : "", (unsigned)p[at] << 8 | p[at + 1],
                 get_u32(p + at + 2));
}

/* Zeros would end the log for who looks for words in it. */
static void log_bytes(const uint8_t *p, size_t n, struct text *log)
{
    for (size_t i = 0; i < n; i++)
        text_add(log, p[i] != 0 ? (const char *)&p[i] : ".", 1);
}

static void log_data(struct h2_reader *reader, const uint8_t *p, size_t n, struct text *log)
{
    reader->data += n;
    if (n <= 64)
        log_bytes(p, n, log);
    else
        text_say(log, "#%zu", n);
}

static void log_payload(struct h2_reader *reader, unsigned type, unsigned flags, const uint8_t *p,
                        size_t n, struct text *log)
{
    switch (type) {
    case H2_DATA:
        log_data(reader, p, n, log);
        break;
    case H2_HEADERS:
    case H2_CONTINUATION:
        text_add(&reader->block, p, n);
        if ((flags & H2_END_HEADERS) != 0)
            read_block(reader, log);
        break;
    case H2_SETTINGS:
        log_settings(p, n, log);
        break;
    case H2_PING:
        log_bytes(p, n, log);
        break;
    case H2_GOAWAY:
        text_say(log, "%u,%u", get_u32(p), get_u32(p + 4));
        break;
    default:
        cr_assert(n >= 4);
        text_say(log, "%u", get_u32(p));
    }
}

static const char *name_of(unsigned type)
{
    static const char *const names[] = {"DATA",     "HEADERS",      "PRIORITY", "RST",
                                        "SETTINGS", "PUSH_PROMISE", "PING",     "GOAWAY",
                                        "WINDOW",   "CONTINUATION"};
    return type < WR_COUNT_OF(names) ? names[type] : "UNKNOWN";
}

static void log_frame(struct h2_reader *reader, const uint8_t *head, const uint8_t *p, size_t n,
                      struct text *log)
{
    unsigned type = head[3];
    unsigned flags = head[4];
    uint32_t id = get_u32(head + 5);
    text_say(log, "%s", name_of(type));
    if (id != 0 || type == H2_WINDOW_UPDATE)
        text_say(log, "/%u", id);
    if ((type == H2_DATA || type == H2_HEADERS) && (flags & H2_END_STREAM) != 0)
        text_say(log, "+ES");
    if ((type == H2_SETTINGS || type == H2_PING) && (flags & H2_ACK) != 0)
        text_say(log, "+ACK");
    text_say(log, "[");
    log_payload(reader, type, flags, p, n, log);
    text_say(log, "] ");
}

void h2_reader_read(struct h2_reader *reader, const void *bytes, size_t count, struct text *log)
{
    struct text *pending = &reader->pending;
    text_add(pending, bytes, count);
    const uint8_t *p = (const uint8_t *)pending->p;
    size_t left = pending->n;
    if (reader->preface && left >= sizeof(H2_PREFACE) - 1) {
        cr_assert_eq(memcmp(p, H2_PREFACE, sizeof(H2_PREFACE) - 1), 0);
        reader->preface = false;
        p += sizeof(H2_PREFACE) - 1;
        left -= sizeof(H2_PREFACE) - 1;
    }
    while (!reader->preface && left >= 9) {
        size_t n = (size_t)p[0] << 16 | (size_t)p[1] << 8 | p[2];
        if (left < 9 + n)
            break;
        log_frame(reader, p, p + 9, n, log);
        p += 9 + n;
        left -= 9 + n;
    }
    memmove(pending->p, p, left);
    pending->n = left;
}
