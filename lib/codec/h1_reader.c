#include "codec/h1_reader.h"

#include "base/assert.h"
#include "codec/h1_parse.h"

/* RFC 9112 section 2.2 asks to skip at least one before a request line. */
#define MOST_EMPTY_LINES 4
/* Around the target in a request line: method, spaces, version, CR LF. */
#define REQUEST_LINE_SLACK 48

void wr_h1_reader_init(struct wr_h1_reader *reader, bool requests,
                       const struct wr_h1_limits *limits)
{
    *reader = (struct wr_h1_reader){.limits = *limits, .requests = requests, .whole = WR_STR_EMPTY};
    wr_h1_reader_next(reader);
}

void wr_h1_reader_clear(struct wr_h1_reader *reader)
{
    wr_h1_section_clear(&reader->section);
    reader->whole = WR_STR_EMPTY;
}

void wr_h1_reader_next(struct wr_h1_reader *reader)
{
    wr_h1_reader_clear(reader);
    wr_h1_tokens_start(&reader->tokens, reader->requests);
    reader->state = WR_H1_START;
    reader->arena = NULL;
    reader->left = 0;
    reader->overhead = 0;
    reader->empty_lines = 0;
    reader->keep_alive = false;
    reader->trailers = NULL;
}

static enum wr_err malformed(const struct wr_h1_reader *reader)
{
    return reader->requests ? WR_ERR_BAD_REQUEST : WR_ERR_BAD_RESPONSE;
}

static enum wr_h1_event fail(struct wr_h1_reader *reader, enum wr_err err)
{
    reader->state = WR_H1_FAILED;
    reader->err = err;
    return WR_H1_SAYS_FAILED;
}

static void advance(struct wr_str *input, size_t n)
{
    input->p += n;
    input->n -= n;
}

/* ---- head ---- */

static bool line_is_too_long(const struct wr_h1_reader *reader)
{
    const struct wr_h1_section *section = &reader->section;
    size_t line = section->lines == 0 ? section->seen : section->first_line;
    return reader->requests && line > reader->limits.target + REQUEST_LINE_SLACK;
}

/* Which limit a head is above, or WR_OK. What need not be waited for is not: the same bytes are refused at the same byte however
 * they come. The last line may be the empty one. */
static enum wr_err check_head_size(const struct wr_h1_reader *reader, bool too_large)
{
    if (line_is_too_long(reader))
        return WR_ERR_URI_TOO_LONG;
    if (!too_large && reader->section.lines <= reader->limits.fields + 2u)
        return WR_OK;
    if (!reader->requests)
        return WR_ERR_RESPONSE_HEAD_TOO_LARGE;
    return reader->section.lines == 0 ? WR_ERR_URI_TOO_LONG : WR_ERR_FIELDS_TOO_LARGE;
}

static enum wr_h1_event read_start(struct wr_h1_reader *reader, struct wr_str *input)
{
    while (input->n > 0 && reader->requests) {
        char c = input->p[0];
        bool half = reader->section.seen == 1; /* a CR was there */
        if (half ? c != '\n' : c != '\r')
            break;
        advance(input, 1);
        reader->section.seen = half ? 0 : 1;
        if (half && ++reader->empty_lines > MOST_EMPTY_LINES)
            return fail(reader, malformed(reader));
    }
    if (input->n == 0)
        return WR_H1_SAYS_MORE;
    if (reader->section.seen == 1 || !wr_is_token(wr_str(input->p, 1)))
        return fail(reader, malformed(reader));
    reader->state = WR_H1_HEAD;
    return WR_H1_SAYS_BEGUN;
}

static enum wr_h1_event read_head(struct wr_h1_reader *reader, struct wr_str *input)
{
    size_t used;
    enum wr_h1_gathered gathered = wr_h1_section_gather(
        &reader->section, *input, reader->limits.head, true, &used, &reader->whole);
    advance(input, used);
    enum wr_err err = check_head_size(reader, gathered == WR_H1_GATHER_TOO_LARGE);
    if (err == WR_OK && gathered == WR_H1_GATHER_BAD)
        err = malformed(reader);
    if (err != WR_OK)
        return fail(reader, err);
    if (gathered == WR_H1_GATHER_MORE)
        return WR_H1_SAYS_MORE;
    reader->state = WR_H1_HEAD_WHOLE;
    return WR_H1_SAYS_HEAD;
}

bool wr_h1_reader_expect(struct wr_h1_reader *reader, enum wr_h1_framing framing, uint64_t length)
{
    static const enum wr_h1_state next[] = {
        [WR_H1_BY_NOTHING] = WR_H1_OVER,
        [WR_H1_BY_LENGTH] = WR_H1_LENGTH,
        [WR_H1_BY_CHUNKS] = WR_H1_CHUNK_LINE,
        [WR_H1_BY_CLOSE] = WR_H1_UNTIL_CLOSE,
    };
    const struct wr_h1_tokens *tokens = &reader->tokens;
    if (!tokens->headers || tokens->message != (framing == WR_H1_BY_NOTHING) ||
        (framing == WR_H1_BY_LENGTH && tokens->parser.content_length != length))
        return false;
    reader->left = length;
    reader->state = next[framing];
    wr_h1_section_clear(&reader->section);
    return true;
}

/* ---- content ---- */

/* Runs P and wants exactly that back as content. */
static bool run_content(struct wr_h1_reader *reader, struct wr_str p)
{
    struct wr_h1_tokens *tokens = &reader->tokens;
    return wr_h1_tokens_run(tokens, p) == WR_H1_RAN_OK && tokens->content == p.p &&
           tokens->content_count == p.n;
}

static enum wr_h1_event read_content(struct wr_h1_reader *reader, struct wr_str *input, size_t room,
                                     struct wr_str *content)
{
    bool bounded = reader->state != WR_H1_UNTIL_CLOSE;
    if (input->n == 0)
        return WR_H1_SAYS_MORE;
    if (room == 0)
        return WR_H1_SAYS_FULL;
    size_t n = input->n < room ? input->n : room;
    if (bounded && n > reader->left)
        n = (size_t)reader->left;
    *content = wr_str(input->p, n);
    advance(input, n);
    if (!run_content(reader, *content))
        return fail(reader, malformed(reader));
    if (!bounded)
        return reader->tokens.message ? fail(reader, malformed(reader)) : WR_H1_SAYS_CONTENT;

    reader->left -= n;
    bool last = reader->state == WR_H1_LENGTH && reader->left == 0;
    if (reader->tokens.message != last)
        return fail(reader, malformed(reader));
    if (reader->left == 0)
        reader->state = last ? WR_H1_ENDING : WR_H1_CHUNK_END;
    return WR_H1_SAYS_CONTENT;
}

/* ---- chunks ---- */

/* A peer could send long extensions with little data (behaviour row 7). A line may have 16 bytes, and two bytes more for each
 * byte of data; what is beyond adds up over the body. */
static bool count_overhead(struct wr_h1_reader *reader, size_t line, uint64_t size)
{
    uint64_t fair = size > SIZE_MAX / 4 ? SIZE_MAX / 2 : 16 + 2 * size;
    reader->overhead += line;
    reader->overhead = reader->overhead > fair ? reader->overhead - fair : 0;
    return reader->overhead <= reader->limits.chunk_overhead;
}

/* llhttp gets the number alone: extensions are judged here and go no further. */
static bool run_chunk_line(struct wr_h1_reader *reader, struct wr_str digits, uint64_t size)
{
    struct wr_h1_tokens *tokens = &reader->tokens;
    return wr_h1_tokens_run(tokens, digits) == WR_H1_RAN_OK &&
           wr_h1_tokens_run(tokens, WR_STR("\r\n")) == WR_H1_RAN_OK && tokens->chunk &&
           wr_h1_tokens_chunk_size(tokens) == size;
}

static enum wr_h1_event read_chunk_line(struct wr_h1_reader *reader, struct wr_str *input)
{
    size_t used;
    struct wr_str line;
    enum wr_h1_gathered gathered = wr_h1_section_gather(
        &reader->section, *input, reader->limits.chunk_overhead + 16, false, &used, &line);
    advance(input, used);
    if (gathered == WR_H1_GATHER_MORE)
        return WR_H1_SAYS_MORE;
    struct wr_str digits;
    uint64_t size;
    if (gathered != WR_H1_GATHER_WHOLE || !wr_h1_parse_chunk_line(line, &digits, &size) ||
        !count_overhead(reader, line.n, size) || !run_chunk_line(reader, digits, size))
        return fail(reader, malformed(reader));
    wr_h1_section_clear(&reader->section);
    reader->left = size;
    reader->state = size > 0 ? WR_H1_CHUNK_DATA : WR_H1_TRAILERS;
    return WR_H1_SAYS_MORE;
}

static enum wr_h1_event read_chunk_end(struct wr_h1_reader *reader, struct wr_str *input)
{
    size_t used;
    struct wr_str line;
    enum wr_h1_gathered gathered =
        wr_h1_section_gather(&reader->section, *input, 2, false, &used, &line);
    advance(input, used);
    if (gathered == WR_H1_GATHER_MORE)
        return WR_H1_SAYS_MORE;
    if (gathered != WR_H1_GATHER_WHOLE || wr_h1_tokens_run(&reader->tokens, line) != WR_H1_RAN_OK)
        return fail(reader, malformed(reader));
    wr_h1_section_clear(&reader->section);
    reader->state = WR_H1_CHUNK_LINE;
    return WR_H1_SAYS_MORE;
}

/* ---- trailers ---- */

static bool parse_trailers(struct wr_h1_reader *reader, struct wr_str part)
{
    struct wr_h1_tokens *tokens = &reader->tokens;
    unsigned count = reader->section.lines - 1;
    struct wr_str text = part;
    WR_ASSERT(reader->arena != NULL);
    if (count > reader->limits.fields || !wr_h1_lines_are_clean(part))
        return false;
    if (count > 0) {
        text = wr_arena_copy(reader->arena, part);
        tokens->fields = wr_arena_alloc(reader->arena, count * sizeof(*tokens->fields));
    }
    tokens->capacity = count;
    tokens->count = 0;
    if (wr_h1_tokens_run(tokens, text) != WR_H1_RAN_OK || !tokens->message ||
        tokens->count != count)
        return false;
    if (count == 0)
        return true;
    struct wr_fields *trailers = wr_arena_alloc(reader->arena, sizeof(*trailers));
    *trailers = (struct wr_fields){tokens->fields, count, count};
    if (!wr_h1_fields_settle_trailers(trailers, reader->limits.underscores))
        return false;
    if (trailers->count > 0)
        reader->trailers = trailers;
    return true;
}

static enum wr_h1_event read_trailers(struct wr_h1_reader *reader, struct wr_str *input)
{
    size_t used;
    struct wr_str part;
    enum wr_h1_gathered gathered =
        wr_h1_section_gather(&reader->section, *input, reader->limits.head, true, &used, &part);
    advance(input, used);
    if (gathered == WR_H1_GATHER_MORE)
        return WR_H1_SAYS_MORE;
    if (gathered != WR_H1_GATHER_WHOLE || !parse_trailers(reader, part))
        return fail(reader, malformed(reader));
    wr_h1_section_clear(&reader->section);
    reader->state = WR_H1_OVER;
    return WR_H1_SAYS_END;
}

/* ---- all ---- */

static enum wr_h1_event read_step(struct wr_h1_reader *reader, struct wr_str *input, size_t room,
                                  struct wr_str *content)
{
    switch (reader->state) {
    case WR_H1_START:
        return read_start(reader, input);
    case WR_H1_HEAD:
        return read_head(reader, input);
    case WR_H1_LENGTH:
    case WR_H1_CHUNK_DATA:
    case WR_H1_UNTIL_CLOSE:
        return read_content(reader, input, room, content);
    case WR_H1_CHUNK_LINE:
        return read_chunk_line(reader, input);
    case WR_H1_CHUNK_END:
        return read_chunk_end(reader, input);
    case WR_H1_TRAILERS:
        return read_trailers(reader, input);
    case WR_H1_ENDING:
        reader->state = WR_H1_OVER;
        return WR_H1_SAYS_END;
    case WR_H1_HEAD_WHOLE:
    case WR_H1_OVER:
        break; /* the caller does not read on here */
    case WR_H1_FAILED:
        return WR_H1_SAYS_FAILED;
    }
    WR_ASSERT(reader->state != WR_H1_HEAD_WHOLE && reader->state != WR_H1_OVER);
    return WR_H1_SAYS_FAILED;
}

enum wr_h1_event wr_h1_reader_read(struct wr_h1_reader *reader, struct wr_str *input, size_t room,
                                   struct wr_str *content)
{
    enum wr_h1_event event;
    do {
        event = read_step(reader, input, room, content);
    } while (event == WR_H1_SAYS_MORE && input->n > 0);
    return event;
}

bool wr_h1_reader_finish(struct wr_h1_reader *reader)
{
    if (reader->state != WR_H1_UNTIL_CLOSE)
        return false;
    reader->state = WR_H1_OVER;
    return wr_h1_tokens_finish(&reader->tokens);
}
