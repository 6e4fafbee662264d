#include "support/h1_fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "codec/h1_reader.h"

#define MUST(condition)   \
    do {                  \
        if (!(condition)) \
            abort();      \
    } while (0)

struct outcome {
    unsigned heads;
    uint64_t content;
    uint64_t hash; /* of content and of methods */
    enum wr_err err;
    unsigned ends;
};

static const struct wr_h1_limits limits = {
    .head = 2048, .target = 512, .fields = 16, .chunk_overhead = 256};

static void mix(struct outcome *outcome, struct wr_str s)
{
    for (size_t i = 0; i < s.n; i++)
        outcome->hash = (outcome->hash ^ (unsigned char)s.p[i]) * UINT64_C(1099511628211);
}

static void check_fields(const struct wr_fields *fields)
{
    uint32_t at = 0;
    for (const struct wr_field *field; (field = wr_fields_next(fields, &at)) != NULL;) {
        MUST(wr_is_token(field->name) && wr_is_field_value(field->value));
        MUST(wr_str_eq(wr_str_trim(field->value), field->value));
        MUST(field->id != WR_FIELD_CONTENT_LENGTH && field->id != WR_FIELD_TRANSFER_ENCODING &&
             field->id != WR_FIELD_HOST && field->id != WR_FIELD_EXPECT);
        for (size_t i = 0; i < field->name.n; i++)
            MUST(wr_lower(field->name.p[i]) == field->name.p[i]);
    }
}

static void check_request(const struct wr_head *head)
{
    MUST(wr_is_token(head->method_text));
    bool connect = head->tunnel == WR_TUNNEL_CONNECT;
    MUST(connect == (head->method == WR_METHOD_CONNECT) && connect == (head->path.n == 0));
    MUST(connect || head->path.p[0] == '/' || wr_str_eq(head->path, WR_STR("*")));
    MUST(head->tunnel != WR_TUNNEL_UPGRADE ||
         (wr_is_token(head->protocol) && head->method == WR_METHOD_GET));
    for (size_t i = 0; i < head->path.n; i++)
        MUST(head->path.p[i] > 0x20 && head->path.p[i] < 0x7f && head->path.p[i] != '#');
    MUST(head->authority.n > 0 || head->version_minor == 0);
    MUST(head->authority.n == 0 || wr_authority_is_valid(head->authority));
    MUST(head->content_length >= 0 || connect || (head->version_minor > 0 && !head->length_given));
    for (uint32_t i = 0; i < head->fields.count; i++) {
        struct wr_str name = head->fields.v[i].name;
        MUST(memchr(name.p, '_', name.n) == NULL);
    }
}

static void check_response(const struct wr_head *head)
{
    MUST(head->status >= 100 && head->status < 600 && head->status != 101);
    MUST(head->content_length >= WR_LENGTH_UNKNOWN);
}

static enum wr_err read_head(struct wr_h1_reader *reader, struct wr_arena *arena,
                             struct outcome *outcome)
{
    struct wr_head head;
    struct wr_head asked;
    enum wr_err err;
    wr_head_init(&asked);
    asked.method = WR_METHOD_GET;
    if (reader->requests)
        err = wr_h1_reader_request(reader, arena, &head);
    else
        err = wr_h1_reader_response(reader, arena, &asked, &head);
    if (err != WR_OK)
        return err;
    if (reader->requests)
        check_request(&head);
    else
        check_response(&head);
    check_fields(&head.fields);
    outcome->heads++;
    mix(outcome, head.method_text);
    mix(outcome, head.path);
    outcome->hash += head.status;
    if (reader->state == WR_H1_OVER)
        wr_h1_reader_next(reader);
    return WR_OK;
}

/* False: over. */
static bool step(struct wr_h1_reader *reader, struct wr_arena *arena, struct wr_str *input,
                 struct outcome *outcome)
{
    struct wr_str content;
    switch (wr_h1_reader_read(reader, input, 7, &content)) {
    case WR_H1_SAYS_MORE:
        return false;
    case WR_H1_SAYS_FAILED:
        outcome->err = reader->err;
        return false;
    case WR_H1_SAYS_HEAD:
        outcome->err = read_head(reader, arena, outcome);
        return outcome->err == WR_OK;
    case WR_H1_SAYS_CONTENT:
        MUST(content.n > 0 && content.n <= 7);
        outcome->content += content.n;
        mix(outcome, content);
        return true;
    case WR_H1_SAYS_END:
        if (reader->trailers != NULL)
            check_fields(reader->trailers);
        outcome->ends++;
        wr_h1_reader_next(reader);
        return true;
    default:
        return true;
    }
}

static struct outcome run(struct wr_str all, size_t piece, bool requests)
{
    struct wr_h1_reader reader;
    struct wr_arena arena;
    struct outcome outcome = {.hash = UINT64_C(14695981039346656037)};
    wr_arena_init(&arena);
    wr_h1_reader_init(&reader, requests, &limits);
    for (size_t at = 0; at < all.n && outcome.err == WR_OK; at += piece) {
        struct wr_str input = wr_str(all.p + at, all.n - at < piece ? all.n - at : piece);
        while (step(&reader, &arena, &input, &outcome)) {
        }
        MUST(input.n == 0 || outcome.err != WR_OK);
    }
    wr_h1_reader_clear(&reader);
    wr_arena_free(&arena);
    return outcome;
}

void h1_fuzz(const uint8_t *data, size_t size, bool requests)
{
    if (size < 2)
        return;
    struct wr_str all = wr_str((const char *)data + 1, size - 1);
    struct outcome whole = run(all, all.n, requests);
    struct outcome cut = run(all, (size_t)data[0] % 32 + 1, requests);
    MUST(whole.heads == cut.heads && whole.content == cut.content && whole.hash == cut.hash &&
         whole.ends == cut.ends && whole.err == cut.err);
}
