#include "support/told.h"

#include <stdlib.h>

#include "base/mem.h"
#include "codec/h1_reader.h"
#include "support/relay.h"

/* ---- reading ---- */

static struct wr_h1_limits limits(bool requests)
{
    return (struct wr_h1_limits){
        .head = RELAY_HEAD,
        .target = RELAY_TARGET,
        .fields = RELAY_FIELDS,
        .chunk_overhead = RELAY_CHUNK_OVERHEAD,
        .underscores = !requests,
    };
}

static struct told *add(struct told_all *all)
{
    all->v = wr_resize(all->v, (all->count + 1) * sizeof(*all->v));
    struct told *told = &all->v[all->count++];
    *told = (struct told){0};
    wr_head_init(&told->head);
    return told;
}

static struct told *current(struct told_all *all)
{
    struct told *told = all->count > 0 ? &all->v[all->count - 1] : NULL;
    return told != NULL && !told->whole ? told : NULL;
}

/* False: nothing that counts follows. */
static bool ended(struct wr_h1_reader *reader, struct told *told)
{
    told->whole = true;
    if (told->last)
        return false;
    wr_h1_reader_next(reader);
    return true;
}

static bool read_head(struct wr_h1_reader *reader, struct told_all *all,
                      const struct wr_head *request)
{
    struct told *told = add(all);
    if (request == NULL)
        told->err = wr_h1_reader_request(reader, &all->arena, &told->head);
    else
        told->err = wr_h1_reader_response(reader, &all->arena, request, &told->head);
    if (told->err != WR_OK)
        return false;
    told->has_head = true;
    if (request == NULL)
        told->last = !reader->keep_alive || told->head.method == WR_METHOD_CONNECT;
    else
        told->last = told->head.status >= 200;
    return reader->state != WR_H1_OVER || ended(reader, told);
}

/* False: over. */
static bool step(struct wr_h1_reader *reader, struct told_all *all, struct wr_str *input,
                 const struct wr_head *request)
{
    struct wr_str content;
    struct told *told = current(all);
    switch (wr_h1_reader_read(reader, input, SIZE_MAX, &content)) {
    case WR_H1_SAYS_MORE:
        return false;
    case WR_H1_SAYS_HEAD:
        return read_head(reader, all, request);
    case WR_H1_SAYS_CONTENT:
        text_add(&told->content, content.p, content.n);
        return true;
    case WR_H1_SAYS_END:
        told->trailers = reader->trailers;
        return ended(reader, told);
    case WR_H1_SAYS_FAILED:
        (told != NULL ? told : add(all))->err = reader->err;
        return false;
    default:
        return true;
    }
}

static void read_all(struct told_all *all, struct wr_str bytes, const struct wr_head *request,
                     bool ends)
{
    struct wr_h1_reader reader;
    *all = (struct told_all){0};
    wr_arena_init(&all->arena);
    const struct wr_h1_limits held_to = limits(request == NULL);
    wr_h1_reader_init(&reader, request == NULL, &held_to);
    while (step(&reader, all, &bytes, request)) {
    }
    struct told *told = current(all);
    if (ends && told != NULL && told->err == WR_OK)
        told->whole = wr_h1_reader_finish(&reader);
    wr_h1_reader_clear(&reader);
}

void told_requests(struct told_all *all, struct wr_str bytes)
{
    read_all(all, bytes, NULL, false);
}

void told_response(struct told_all *all, struct wr_str bytes, const struct wr_head *request,
                   bool ends)
{
    read_all(all, bytes, request, ends);
}

void told_clear(struct told_all *all)
{
    for (size_t i = 0; i < all->count; i++)
        text_free(&all->v[i].content);
    free(all->v);
    wr_arena_free(&all->arena);
    *all = (struct told_all){0};
}

/* ---- what should come out ---- */

static bool is_any(struct wr_str name, const char *const *names)
{
    for (; *names != NULL; names++) {
        if (wr_str_eq(name, wr_str_from(*names)))
            return true;
    }
    return false;
}

/* Connection may take back what weir has no opinion of. */
static bool is_nominated(const struct wr_fields *fields, const struct wr_field *field)
{
    if (field->id != WR_FIELD_OTHER)
        return false;
    for (uint32_t i = 0; i < fields->count; i++) {
        struct wr_str rest = fields->v[i].value;
        struct wr_str name;
        while (fields->v[i].id == WR_FIELD_CONNECTION && wr_str_next_element(&rest, &name)) {
            if (wr_str_eq_nocase(name, field->name))
                return true;
        }
    }
    return false;
}

static bool goes_through(const struct told *told, const struct wr_field *field, bool request)
{
    static const char *const of_a_hop[] = {
        "connection", "keep-alive",     "proxy-connection",  "transfer-encoding",    "te",
        "upgrade",    "http2-settings", "sec-websocket-key", "sec-websocket-accept", NULL};
    static const char *const needs_trust[] = {"forwarded",    "x-real-ip",  "x-client-cert",
                                              "x-request-id", "early-data", NULL};
    if (is_any(field->name, of_a_hop))
        return false;
    if (request &&
        (is_any(field->name, needs_trust) || wr_str_starts(field->name, WR_STR("x-forwarded-"))))
        return false;
    /* It is counted down. */
    if (request && told->head.method == WR_METHOD_OPTIONS && field->id == WR_FIELD_MAX_FORWARDS)
        return false;
    return !is_nominated(&told->head.fields, field);
}

static void say_field(struct text *out, struct wr_str name, struct wr_str value)
{
    text_add(out, name.p, name.n);
    text_add(out, ": ", 2);
    text_add(out, value.p, value.n);
    text_add(out, "\n", 1);
}

/* All of them where the first is: HTTP/2 has them in crumbs, and who joins them cannot tell what was one field before. */
static void say_cookies(const struct wr_fields *fields, struct text *out)
{
    const char *between = "";
    text_add(out, "cookie: ", 8);
    for (uint32_t i = 0; i < fields->count; i++) {
        const struct wr_field *field = &fields->v[i];
        if (field->id != WR_FIELD_COOKIE || field->value.n == 0)
            continue;
        text_say(out, "%s", between);
        text_add(out, field->value.p, field->value.n);
        between = "; ";
    }
    text_add(out, "\n", 1);
}

void told_expect_fields(const struct told *told, bool request, struct text *out)
{
    const struct wr_fields *fields = &told->head.fields;
    bool had_cookies = false;
    text_add(out, "", 0);
    for (uint32_t i = 0; i < fields->count; i++) {
        const struct wr_field *field = &fields->v[i];
        bool cookie = request && field->id == WR_FIELD_COOKIE;
        if (cookie && !had_cookies)
            say_cookies(fields, out);
        else if (!cookie && goes_through(told, field, request))
            say_field(out, field->name, field->value);
        had_cookies |= cookie;
    }
    text_say(out, "via: 1.%u weir\nvia: 2.0 weir\n", (unsigned)told->head.version_minor);
}

void strict_say_fields(const struct strict_fields *fields, bool (*skip)(struct wr_str name),
                       struct text *out)
{
    text_add(out, "", 0);
    for (size_t i = 0; i < fields->count; i++) {
        if (skip == NULL || !skip(fields->v[i].name))
            say_field(out, fields->v[i].name, fields->v[i].value);
    }
}

void told_say_trailers(const struct told *told, struct text *out)
{
    text_add(out, "", 0);
    for (uint32_t i = 0; told->trailers != NULL && i < told->trailers->count; i++)
        say_field(out, told->trailers->v[i].name, told->trailers->v[i].value);
}

void must_be_equal(const char *what, struct text *expected, struct text *got)
{
    struct wr_str a = wr_str(expected->p, expected->n);
    struct wr_str b = wr_str(got->p, got->n);
    if (!wr_str_eq(a, b))
        finding(what, a, b);
    text_free(expected);
    text_free(got);
}
