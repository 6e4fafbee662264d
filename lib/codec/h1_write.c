#include "codec/h1_write.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"

void wr_h1_writer_init(struct wr_h1_writer *writer, struct wr_transport *transport,
                       struct wr_chunk_pool *pool)
{
    writer->transport = transport;
    wr_bytes_init(&writer->bytes, pool);
    writer->framing = WR_H1_BY_NOTHING;
    writer->left = 0;
}

void wr_h1_writer_clear(struct wr_h1_writer *writer)
{
    wr_bytes_clear(&writer->bytes);
}

/* ---- one piece of known size, filled in order ---- */

struct piece {
    struct wr_bytes *bytes;
    char *large; /* more than a chunk holds: of the heap */
    char *start;
    char *at;
    size_t size;
};

static struct piece piece_begin(struct wr_bytes *bytes, size_t size)
{
    struct piece piece = {.bytes = bytes, .size = size};
    if (size > WR_CHUNK_SIZE)
        piece.large = wr_new_bytes(size);
    piece.start = piece.large != NULL ? piece.large : (char *)wr_bytes_reserve(bytes, size);
    piece.at = piece.start;
    return piece;
}

static void put(struct piece *piece, struct wr_str s)
{
    memcpy(piece->at, s.p, s.n);
    piece->at += s.n;
}

/* Sends it on its way. */
static void piece_end(struct piece *piece, struct wr_transport *transport)
{
    size_t used = (size_t)(piece->at - piece->start);
    WR_ASSERT(used <= piece->size);
    if (piece->large != NULL) {
        wr_transport_write(transport, piece->large, used);
        free(piece->large);
    } else {
        wr_bytes_commit(piece->bytes, used);
        wr_transport_write_bytes(transport, piece->bytes, used);
    }
}

static void put_field(struct piece *piece, struct wr_str name, struct wr_str value)
{
    put(piece, name);
    put(piece, WR_STR(": "));
    put(piece, value);
    put(piece, WR_STR("\r\n"));
}

#define FIELD_EXTRA 4  /* ": " and CR LF */
#define MOST_DIGITS 20 /* of a 64-bit number */
#define OWN_FIELDS 256 /* room for all fields of our own but host, connection and date */

static struct wr_str decimal(uint64_t value, char text[MOST_DIGITS])
{
    size_t at = MOST_DIGITS;
    do {
        text[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    return wr_str(text + at, MOST_DIGITS - at);
}

/* ---- fields ---- */

/* Codecs have taken these out and policy has removed what is hop-by-hop; a second lock, because here is where smuggling
 * would happen. */
static bool is_written(const struct wr_field *field)
{
    switch (field->id) {
    case WR_FIELD_OTHER:
        return true;
    case WR_FIELD_CONTENT_LENGTH:
    case WR_FIELD_TRANSFER_ENCODING:
    case WR_FIELD_HOST:
    case WR_FIELD_EXPECT:
        return false;
    default:
        return !wr_field_is_hop_by_hop(field->id);
    }
}

static size_t fields_size(const struct wr_fields *fields)
{
    size_t size = 0;
    uint32_t at = 0;
    for (const struct wr_field *field; (field = wr_fields_next(fields, &at)) != NULL;)
        size += field->name.n + field->value.n + FIELD_EXTRA;
    return size;
}

static void put_fields(struct piece *piece, const struct wr_fields *fields)
{
    uint32_t at = 0;
    for (const struct wr_field *field; (field = wr_fields_next(fields, &at)) != NULL;) {
        if (is_written(field))
            put_field(piece, field->name, field->value);
    }
}

static void put_length(struct piece *piece, int64_t length)
{
    char text[MOST_DIGITS];
    WR_ASSERT(length >= 0);
    put_field(piece, WR_STR("content-length"), decimal((uint64_t)length, text));
}

/* ---- heads ---- */

static void start_content(struct wr_h1_writer *writer, enum wr_h1_framing framing, int64_t length)
{
    writer->framing = framing;
    writer->left = framing == WR_H1_BY_LENGTH ? (uint64_t)length : 0;
}

/* Servers wait for content of these unless told that there is none (RFC 9110 section 8.6). */
static bool anticipates_content(enum wr_method method)
{
    return method == WR_METHOD_POST || method == WR_METHOD_PUT || method == WR_METHOD_PATCH;
}

static void put_request_framing(struct piece *piece, const struct wr_head *head,
                                enum wr_h1_framing framing)
{
    if (framing == WR_H1_BY_CHUNKS)
        put(piece, WR_STR("transfer-encoding: chunked\r\n"));
    else if (framing == WR_H1_BY_LENGTH)
        put_length(piece, head->content_length);
    else if (head->length_given || anticipates_content(head->method))
        put_length(piece, 0);
    if (head->expect_continue && framing != WR_H1_BY_NOTHING)
        put(piece, WR_STR("expect: 100-continue\r\n"));
}

void wr_h1_write_request(struct wr_h1_writer *writer, const struct wr_head *head,
                         enum wr_h1_framing framing)
{
    struct wr_str target = head->tunnel == WR_TUNNEL_CONNECT ? head->authority : head->path;
    struct piece piece =
        piece_begin(&writer->bytes, head->method_text.n + target.n + head->authority.n +
                                        head->protocol.n + fields_size(&head->fields) + OWN_FIELDS);
    put(&piece, head->method_text);
    put(&piece, WR_STR(" "));
    put(&piece, target);
    put(&piece, WR_STR(" HTTP/1.1\r\n"));
    put_field(&piece, WR_STR("host"), head->authority);
    put_fields(&piece, &head->fields);
    put_request_framing(&piece, head, framing);
    if (head->tunnel == WR_TUNNEL_UPGRADE) {
        put_field(&piece, WR_STR("connection"), WR_STR("upgrade"));
        put_field(&piece, WR_STR("upgrade"), head->protocol);
    }
    put(&piece, WR_STR("\r\n"));
    piece_end(&piece, writer->transport);
    start_content(writer, framing, head->content_length);
}

void wr_h1_write_response(struct wr_h1_writer *writer, const struct wr_head *head,
                          const struct wr_h1_response_options *options)
{
    struct wr_str reason = wr_status_reason(head->status);
    char digits[MOST_DIGITS];
    struct piece piece =
        piece_begin(&writer->bytes, reason.n + options->connection.n + options->upgrade.n +
                                        options->date.n + fields_size(&head->fields) + OWN_FIELDS);
    put(&piece, WR_STR("HTTP/1.1 "));
    put(&piece, decimal(head->status, digits));
    put(&piece, WR_STR(" "));
    put(&piece, reason);
    put(&piece, WR_STR("\r\n"));
    if (options->date.n > 0 && wr_fields_find(&head->fields, WR_FIELD_DATE) == NULL)
        put_field(&piece, WR_STR("date"), options->date);
    put_fields(&piece, &head->fields);
    if (options->framing == WR_H1_BY_CHUNKS)
        put(&piece, WR_STR("transfer-encoding: chunked\r\n"));
    else if (options->length >= 0)
        put_length(&piece, options->length);
    if (options->connection.n > 0)
        put_field(&piece, WR_STR("connection"), options->connection);
    if (options->upgrade.n > 0)
        put_field(&piece, WR_STR("upgrade"), options->upgrade);
    put(&piece, WR_STR("\r\n"));
    piece_end(&piece, writer->transport);
    start_content(writer, options->framing, options->length);
}

/* ---- content ---- */

/* "1f\r\n" */
static void write_chunk_size(struct wr_transport *transport, size_t size)
{
    static const char hex[] = "0123456789abcdef";
    char text[sizeof(size) * 2 + 2];
    size_t at = sizeof(text);
    text[--at] = '\n';
    text[--at] = '\r';
    do {
        text[--at] = hex[size & 15];
        size >>= 4;
    } while (size > 0);
    wr_transport_write(transport, text + at, sizeof(text) - at);
}

enum wr_h1_pumped wr_h1_writer_pump(struct wr_h1_writer *writer, struct wr_message *message,
                                    size_t *taken)
{
    size_t want = message->content.length;
    size_t room = wr_transport_output_room(writer->transport);
    bool excess = writer->framing == WR_H1_BY_NOTHING ||
                  (writer->framing == WR_H1_BY_LENGTH && want > writer->left);
    *taken = 0;
    if (want == 0)
        return WR_H1_PUMPED_ALL;
    if (excess)
        want = (size_t)writer->left;
    size_t n = wr_message_take(message, &writer->bytes, want < room ? want : room);
    if (n > 0) {
        if (writer->framing == WR_H1_BY_CHUNKS)
            write_chunk_size(writer->transport, n);
        wr_transport_write_bytes(writer->transport, &writer->bytes, n);
        if (writer->framing == WR_H1_BY_CHUNKS)
            wr_transport_write(writer->transport, "\r\n", 2);
        if (writer->framing == WR_H1_BY_LENGTH)
            writer->left -= n;
        *taken = n;
    }
    if (n < want)
        return WR_H1_PUMPED_FULL;
    return excess ? WR_H1_PUMPED_EXCESS : WR_H1_PUMPED_ALL;
}

static void write_last_chunk(struct wr_h1_writer *writer, const struct wr_fields *trailers)
{
    if (trailers == NULL) {
        wr_transport_write(writer->transport, "0\r\n\r\n", 5);
        return;
    }
    struct piece piece = piece_begin(&writer->bytes, fields_size(trailers) + 8);
    uint32_t at = 0;
    put(&piece, WR_STR("0\r\n"));
    for (const struct wr_field *field; (field = wr_fields_next(trailers, &at)) != NULL;) {
        if (wr_field_may_trail(field))
            put_field(&piece, field->name, field->value);
    }
    put(&piece, WR_STR("\r\n"));
    piece_end(&piece, writer->transport);
}

bool wr_h1_writer_end(struct wr_h1_writer *writer, const struct wr_fields *trailers)
{
    enum wr_h1_framing framing = writer->framing;
    writer->framing = WR_H1_BY_NOTHING;
    if (framing == WR_H1_BY_LENGTH && writer->left > 0)
        return false;
    if (framing == WR_H1_BY_CHUNKS)
        write_last_chunk(writer, trailers);
    return true;
}
