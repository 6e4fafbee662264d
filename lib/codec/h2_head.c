/* Header blocks to heads. */
#include "codec/h2_head.h"

#include <string.h>

#include "base/compiler.h"
#include "codec/target.h"

#define FIELD_OVERHEAD 32 /* RFC 9113 section 6.5.2 */
/* Crumbs of Cookie that count as one field. A browser sends one for each cookie and keeps fewer than 200 of a site; each beyond
 * that costs a field, or they would be the way round the limit of fields. */
#define FREE_CRUMBS 256
#define USUAL_FIELDS (16 + WR_FIELDS_ADDED)

void wr_h2_block_begin(struct wr_h2_block *block, struct wr_arena *arena)
{
    *block = (struct wr_h2_block){.arena = arena};
    block->fields.v = wr_arena_alloc(arena, USUAL_FIELDS * sizeof(*block->fields.v));
    block->fields.capacity = USUAL_FIELDS;
}

static struct wr_str text_of(nghttp2_rcbuf *buf)
{
    nghttp2_vec vec = nghttp2_rcbuf_get_buf(buf);
    return wr_str((const char *)vec.base, vec.len);
}

/* ---- field by field ---- */

static const struct {
    struct wr_str name;
    size_t slot;
} pseudo_fields[] = {
    {{":method", 7}, offsetof(struct wr_h2_block, method)},
    {{":path", 5}, offsetof(struct wr_h2_block, path)},
    {{":scheme", 7}, offsetof(struct wr_h2_block, scheme)},
    {{":authority", 10}, offsetof(struct wr_h2_block, authority)},
    {{":protocol", 9}, offsetof(struct wr_h2_block, protocol)},
};

/* Three digits; nghttp2 has seen to that. */
static uint16_t status_of(struct wr_str value)
{
    uint64_t status;
    return wr_str_parse_u63(value, &status) && status < 1000 ? (uint16_t)status : 0;
}

static void add_pseudo(struct wr_h2_block *block, const struct wr_h2_limits *limits,
                       struct wr_str name, struct wr_str value)
{
    if (wr_str_eq(name, WR_STR(":status"))) {
        block->status = status_of(value);
        return;
    }
    for (size_t i = 0; i < WR_COUNT_OF(pseudo_fields); i++) {
        if (!wr_str_eq(name, pseudo_fields[i].name))
            continue;
        struct wr_str *slot = (struct wr_str *)(void *)((char *)block + pseudo_fields[i].slot);
        if (slot == &block->path && value.n > limits->target)
            block->target_too_long = true;
        else
            *slot = wr_arena_copy(block->arena, value);
        return;
    }
    block->malformed = true;
}

static void note_length(struct wr_h2_block *block, struct wr_str value)
{
    if (block->length_given || !wr_str_parse_u63(value, &block->length))
        block->malformed = true;
    block->length_given = true;
}

static void note_expectation(struct wr_h2_block *block, struct wr_str value)
{
    if (block->expects || !wr_str_eq_nocase(value, WR_STR("100-continue")))
        block->expect_unknown = true;
    block->expects = true;
}

/* True: told by a member of the head, and no field. */
static bool note(struct wr_h2_block *block, enum wr_field_id id, struct wr_str value)
{
    switch (id) {
    case WR_FIELD_HOST:
        block->malformed |= block->host.p != NULL;
        block->host = wr_arena_copy(block->arena, value);
        return true;
    case WR_FIELD_CONTENT_LENGTH:
        note_length(block, value);
        return true;
    case WR_FIELD_EXPECT:
        note_expectation(block, value);
        return true;
    case WR_FIELD_TE: /* nghttp2 lets nothing else pass (RFC 9113 section 8.2.2) */
        block->accepts_trailers = true;
        return true;
    case WR_FIELD_SEC_WEBSOCKET_KEY: /* of the HTTP/1.1 handshake (RFC 8441 section 5) */
    case WR_FIELD_SEC_WEBSOCKET_ACCEPT:
        return true;
    case WR_FIELD_COOKIE:
        block->crumbs++;
        return false;
    default:
        block->malformed |= wr_field_is_hop_by_hop(id);
        return false;
    }
}

/* Known names need no copy. */
static void copy_in(struct wr_h2_block *block, enum wr_field_id id, struct wr_str name,
                    struct wr_str value)
{
    if (id != WR_FIELD_OTHER) {
        wr_fields_add_known(&block->fields, block->arena, id, wr_arena_copy(block->arena, value));
        return;
    }
    char *copy = wr_arena_alloc(block->arena, name.n + value.n);
    memcpy(copy, name.p, name.n);
    if (value.n > 0)
        memcpy(copy + name.n, value.p, value.n);
    wr_fields_add(&block->fields, block->arena, wr_str(copy, name.n),
                  wr_str(copy + name.n, value.n));
}

static void keep(struct wr_h2_block *block, enum wr_field_id id, struct wr_str name,
                 struct wr_str value, uint8_t flags)
{
    copy_in(block, id, name, value);
    block->fields.v[block->fields.count - 1].sensitive = (flags & NGHTTP2_NV_FLAG_NO_INDEX) != 0;
}

void wr_h2_block_add(struct wr_h2_block *block, const struct wr_h2_limits *limits,
                     nghttp2_rcbuf *name_buf, nghttp2_rcbuf *value_buf, uint8_t flags)
{
    struct wr_str name = text_of(name_buf);
    struct wr_str value = text_of(value_buf);
    if (name.n == 0) {
        block->malformed = true;
        return;
    }
    bool pseudo = name.p[0] == ':';
    block->size += name.n + value.n + FIELD_OVERHEAD;
    enum wr_field_id id = pseudo ? WR_FIELD_OTHER : wr_field_lookup(name);
    bool free_crumb = id == WR_FIELD_COOKIE && block->crumbs > 0 && block->crumbs < FREE_CRUMBS;
    block->count += !pseudo && !free_crumb;
    if (block->size > limits->block || block->count > limits->fields)
        block->too_large = true;
    if (pseudo && (!block->too_large || value.n > limits->target)) {
        add_pseudo(block, limits, name, value);
        return;
    }
    if (block->too_large || pseudo)
        return;
    if (note(block, id, value))
        return;
    /* Behaviour row 59. */
    if (!limits->underscores && memchr(name.p, '_', name.n) != NULL)
        return;
    keep(block, id, name, value, flags);
}

/* ---- requests ---- */

/* RFC 9113 section 8.2.3, behaviour row 33. Empty ones leave nothing: a value neither begins nor ends with space. */
static void join_crumbs(struct wr_h2_block *block)
{
    struct wr_fields *fields = &block->fields;
    size_t n = 0;
    for (uint32_t i = 0; i < fields->count; i++) {
        if (fields->v[i].id == WR_FIELD_COOKIE)
            n += fields->v[i].value.n + 2;
    }
    char *start = wr_arena_alloc(block->arena, n);
    char *at = start;
    struct wr_field *first = NULL;
    for (uint32_t i = 0; i < fields->count; i++) {
        struct wr_field *field = &fields->v[i];
        if (field->id != WR_FIELD_COOKIE)
            continue;
        if (at > start && field->value.n > 0) {
            *at++ = ';';
            *at++ = ' ';
        }
        if (field->value.n > 0)
            memcpy(at, field->value.p, field->value.n);
        at += field->value.n;
        if (first == NULL) {
            first = field;
            continue;
        }
        first->sensitive |= field->sensitive;
        wr_field_drop(field);
    }
    if (first != NULL)
        first->value = wr_str(start, (size_t)(at - start));
}

/* Behaviour row 32: one authority, whichever way it is told. */
static enum wr_err settle_authority(struct wr_h2_block *block, struct wr_head *head)
{
    struct wr_str authority = block->authority.p != NULL ? block->authority : block->host;
    if (authority.p == NULL || !wr_authority_is_valid(authority))
        return WR_ERR_BAD_REQUEST;
    if (block->host.p != NULL && !wr_str_eq_nocase(authority, block->host))
        return WR_ERR_BAD_REQUEST;
    head->authority = wr_target_lower(block->arena, authority);
    return WR_OK;
}

/* Behaviour rows 31 and 57. */
static enum wr_err settle_target(const struct wr_h2_block *block, const struct wr_head *head)
{
    if (block->scheme.p == NULL || block->path.p == NULL || !wr_target_is_clean(block->path))
        return WR_ERR_BAD_REQUEST;
    if (!wr_str_eq_nocase(block->scheme, WR_STR("http")) &&
        !wr_str_eq_nocase(block->scheme, WR_STR("https")))
        return WR_ERR_BAD_REQUEST;
    bool asterisk = head->method == WR_METHOD_OPTIONS && wr_str_eq(block->path, WR_STR("*"));
    return asterisk || block->path.p[0] == '/' ? WR_OK : WR_ERR_BAD_REQUEST;
}

/* RFC 8441: to the rest of the house it is a GET that asks to change protocols. */
static enum wr_err settle_upgrade(struct wr_h2_block *block, struct wr_head *head)
{
    if (head->method != WR_METHOD_CONNECT || !wr_is_token(block->protocol))
        return WR_ERR_BAD_REQUEST;
    head->tunnel = WR_TUNNEL_UPGRADE;
    head->protocol = wr_target_lower(block->arena, block->protocol);
    head->method = WR_METHOD_GET;
    head->method_text = WR_STR("GET");
    return settle_target(block, head);
}

static enum wr_err settle_kind(struct wr_h2_block *block, struct wr_head *head)
{
    if (block->protocol.p != NULL)
        return settle_upgrade(block, head);
    if (head->method == WR_METHOD_TRACE)
        return WR_ERR_METHOD_NOT_ALLOWED;
    if (head->method != WR_METHOD_CONNECT)
        return settle_target(block, head);
    if (block->path.p != NULL || block->scheme.p != NULL || !wr_target_has_port(head->authority))
        return WR_ERR_BAD_REQUEST;
    head->tunnel = WR_TUNNEL_CONNECT;
    return WR_OK;
}

static void settle_length(const struct wr_h2_block *block, bool last, struct wr_head *head)
{
    head->length_given = block->length_given && head->tunnel == WR_TUNNEL_NONE;
    if (head->tunnel != WR_TUNNEL_NONE)
        head->content_length = WR_LENGTH_UNKNOWN;
    else if (last)
        head->content_length = 0;
    else
        head->content_length = block->length_given ? (int64_t)block->length : WR_LENGTH_UNKNOWN;
}

enum wr_err wr_h2_block_request(struct wr_h2_block *block, bool last, struct wr_head *head)
{
    wr_head_init(head);
    head->version_minor = 1;
    head->http2 = true;
    if (block->method.p != NULL)
        head->method_text = block->method;
    head->method = wr_method_lookup(head->method_text);
    if (block->path.p != NULL)
        head->path = block->path;
    if (block->crumbs > 1)
        join_crumbs(block);
    head->fields = block->fields;
    head->accepts_trailers = block->accepts_trailers;
    if (block->target_too_long)
        return WR_ERR_URI_TOO_LONG;
    if (block->too_large)
        return WR_ERR_FIELDS_TOO_LARGE;
    enum wr_err err = settle_authority(block, head);
    if (err == WR_OK)
        err = settle_kind(block, head);
    if (err != WR_OK)
        return err;
    if (block->malformed || head->method_text.n == 0)
        return WR_ERR_BAD_REQUEST;
    settle_length(block, last, head);
    if (block->expect_unknown)
        return WR_ERR_EXPECTATION_FAILED;
    /* RFC 9110 section 10.1.1: without meaning where no content follows. */
    head->expect_continue = block->expects && head->content_length != 0;
    return WR_OK;
}

/* ---- responses, trailers ---- */

enum wr_err wr_h2_block_response(struct wr_h2_block *block, const struct wr_head *request,
                                 bool last, struct wr_head *head)
{
    wr_head_init(head);
    head->version_minor = 1;
    head->http2 = true;
    head->status = block->status;
    head->fields = block->fields;
    if (block->too_large)
        return WR_ERR_RESPONSE_HEAD_TOO_LARGE;
    if (block->malformed || head->status < 100 || head->status > 599 || head->status == 101)
        return WR_ERR_BAD_RESPONSE;
    if (request->tunnel != WR_TUNNEL_NONE && head->status / 100 == 2) {
        head->status = 200;
        head->tunnel = request->tunnel;
        head->protocol = request->protocol;
        head->content_length = WR_LENGTH_UNKNOWN;
        return WR_OK;
    }
    head->length_given = block->length_given;
    head->content_length = (int64_t)block->length;
    bool no_content = last || wr_response_has_no_content(request->method, head->status);
    if (!no_content && !block->length_given)
        head->content_length = WR_LENGTH_UNKNOWN;
    return WR_OK;
}

bool wr_h2_block_trailers(struct wr_h2_block *block, struct wr_fields **out)
{
    if (block->too_large)
        return false;
    struct wr_fields *fields = wr_arena_alloc(block->arena, sizeof(*fields));
    *fields = block->fields;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < fields->count; i++) {
        if (wr_field_may_trail(&fields->v[i]))
            fields->v[kept++] = fields->v[i];
    }
    fields->count = kept;
    *out = kept > 0 ? fields : NULL;
    return true;
}
