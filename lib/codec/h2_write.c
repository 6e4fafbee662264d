/* Heads to header blocks. */
#include <string.h>

#include "base/assert.h"
#include "codec/h2_head.h"

#define OWN_FIELDS 10  /* most pseudo-header fields and fields of our own */
#define MOST_CRUMBS 32 /* of all Cookie fields together; what is left goes as one */
#define MOST_DIGITS 20 /* of a 64-bit number */

static void put(struct wr_h2_fields *fields, struct wr_str name, struct wr_str value)
{
    /* nghttp2 does not write to them. */
    fields->v[fields->count++] = (nghttp2_nv){
        .name = (uint8_t *)name.p,
        .value = (uint8_t *)value.p,
        .namelen = name.n,
        .valuelen = value.n,
        .flags = NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE,
    };
}

/* Room for FIELDS and so many more. */
static void begin(struct wr_h2_fields *out, const struct wr_fields *fields, size_t more,
                  struct wr_arena *arena)
{
    size_t most = fields->count + more;
    out->count = 0;
    out->v =
        most <= WR_H2_USUAL_FIELDS ? out->usual : wr_arena_alloc(arena, most * sizeof(*out->v));
}

static struct wr_str decimal(uint64_t value, struct wr_arena *arena)
{
    char *text = wr_arena_alloc(arena, MOST_DIGITS);
    size_t at = MOST_DIGITS;
    do {
        text[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    return wr_str(text + at, MOST_DIGITS - at);
}

static void put_length(struct wr_h2_fields *fields, int64_t length, struct wr_arena *arena)
{
    WR_ASSERT(length >= 0);
    put(fields, WR_STR("content-length"), decimal((uint64_t)length, arena));
}

/* Codecs have taken these out and policy has removed what is hop-by-hop; a second lock (RFC 9113 section 8.2.2). */
static bool is_written(const struct wr_field *field)
{
    switch (field->id) {
    case WR_FIELD_OTHER:
        return true;
    case WR_FIELD_CONTENT_LENGTH:
    case WR_FIELD_HOST:
    case WR_FIELD_EXPECT:
    case WR_FIELD_SEC_WEBSOCKET_KEY: /* of the HTTP/1.1 handshake (RFC 8441 section 5) */
    case WR_FIELD_SEC_WEBSOCKET_ACCEPT:
        return false;
    default:
        return !wr_field_is_hop_by_hop(field->id);
    }
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* RFC 9113 section 8.2.3: crumbs that stay the same from request to request are then found in the table. None may begin or end with
 * space (section 8.2.1): where that would be, the rest stays in one piece. */
static void put_crumbs(struct wr_h2_fields *fields, struct wr_str value, unsigned *left)
{
    while (*left > 0) {
        const char *end = memchr(value.p, ';', value.n);
        size_t n = end != NULL ? (size_t)(end - value.p) : value.n;
        if (n == 0 || value.n - n < 3 || end[1] != ' ' || is_blank(end[-1]) || is_blank(end[2]))
            break;
        put(fields, WR_STR("cookie"), wr_str(value.p, n));
        value = wr_str(value.p + n + 2, value.n - n - 2);
        (*left)--;
    }
    put(fields, WR_STR("cookie"), value);
}

/* RFC 7541 section 6.2.3: who passes it on keeps it out of tables as well. */
static bool belongs_in_no_table(const struct wr_field *field)
{
    /* An id is never sent again, and in the table would push out what is. */
    return field->sensitive || field->id == WR_FIELD_X_REQUEST_ID;
}

static void keep_out_of_tables(struct wr_h2_fields *fields, size_t from)
{
    for (size_t i = from; i < fields->count; i++)
        fields->v[i].flags |= NGHTTP2_NV_FLAG_NO_INDEX;
}

static void put_fields(struct wr_h2_fields *out, const struct wr_head *head, unsigned crumbs)
{
    uint32_t at = 0;
    for (const struct wr_field *field; (field = wr_fields_next(&head->fields, &at)) != NULL;) {
        size_t first = out->count;
        if (field->id == WR_FIELD_COOKIE)
            put_crumbs(out, field->value, &crumbs);
        else if (is_written(field))
            put(out, field->name, field->value);
        if (belongs_in_no_table(field))
            keep_out_of_tables(out, first);
    }
}

/* RFC 9113 section 8.5, RFC 8441 section 4. */
static void put_target(struct wr_h2_fields *fields, const struct wr_head *head)
{
    bool tunnel = head->tunnel != WR_TUNNEL_NONE;
    put(fields, WR_STR(":method"), tunnel ? WR_STR("CONNECT") : head->method_text);
    if (head->tunnel == WR_TUNNEL_UPGRADE)
        put(fields, WR_STR(":protocol"), head->protocol);
    if (head->tunnel != WR_TUNNEL_CONNECT) {
        put(fields, WR_STR(":scheme"), head->scheme);
        put(fields, WR_STR(":path"), head->path);
    }
    if (head->authority.n > 0)
        put(fields, WR_STR(":authority"), head->authority);
}

/* Servers may wait for content of these unless told that there is none (RFC 9110 section 8.6). */
static bool anticipates_content(enum wr_method method)
{
    return method == WR_METHOD_POST || method == WR_METHOD_PUT || method == WR_METHOD_PATCH;
}

void wr_h2_request_fields(struct wr_h2_fields *fields, const struct wr_head *head, bool last,
                          struct wr_arena *arena)
{
    unsigned crumbs = wr_fields_find(&head->fields, WR_FIELD_COOKIE) != NULL ? MOST_CRUMBS : 0;
    begin(fields, &head->fields, OWN_FIELDS + crumbs, arena);
    put_target(fields, head);
    put_fields(fields, head, crumbs);
    if (head->accepts_trailers)
        put(fields, WR_STR("te"), WR_STR("trailers"));
    if (head->tunnel != WR_TUNNEL_NONE)
        return;
    if (last && (head->length_given || anticipates_content(head->method)))
        put_length(fields, 0, arena);
    else if (!last && head->content_length >= 0)
        put_length(fields, head->content_length, arena);
    if (head->expect_continue && !last)
        put(fields, WR_STR("expect"), WR_STR("100-continue"));
}

void wr_h2_response_fields(struct wr_h2_fields *fields, const struct wr_head *head, int64_t length,
                           struct wr_str date, struct wr_arena *arena)
{
    begin(fields, &head->fields, OWN_FIELDS, arena);
    put(fields, WR_STR(":status"), decimal(head->status, arena));
    if (date.n > 0 && wr_fields_find(&head->fields, WR_FIELD_DATE) == NULL)
        put(fields, WR_STR("date"), wr_arena_copy(arena, date));
    put_fields(fields, head, 0);
    if (length >= 0)
        put_length(fields, length, arena);
}

void wr_h2_trailer_fields(struct wr_h2_fields *fields, const struct wr_fields *trailers,
                          struct wr_arena *arena)
{
    begin(fields, trailers, 0, arena);
    uint32_t at = 0;
    for (const struct wr_field *field; (field = wr_fields_next(trailers, &at)) != NULL;) {
        if (wr_field_may_trail(field))
            put(fields, field->name, field->value);
    }
}
