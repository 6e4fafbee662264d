#include "support/strict_h1.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_LENGTH_DIGITS 18

struct input {
    const char *p;
    size_t n;
    size_t at;
};

void finding(const char *what, struct wr_str expected, struct wr_str got)
{
    (void)fprintf(stderr, "\nFOUND: %s\n--- expected\n%.*s\n--- got\n%.*s\n---\n", what,
                  WR_STR_ARG(expected), WR_STR_ARG(got));
    abort();
}

void must(bool condition, const char *broken)
{
    if (!condition)
        finding(broken, WR_STR_EMPTY, WR_STR_EMPTY);
}

static _Noreturn void malformed(const char *what, const struct input *input)
{
    finding(what, WR_STR_EMPTY, wr_str(input->p, input->n));
}

static bool is(struct wr_str s, const char *text)
{
    return s.n == strlen(text) && memcmp(s.p, text, s.n) == 0;
}

/* ---- lines ---- */

/* False: not all of it has come. */
static bool next_line(struct input *input, struct wr_str *line)
{
    const char *start = input->p + input->at;
    size_t left = input->n - input->at;
    const char *lf = left > 0 ? memchr(start, '\n', left) : NULL;
    if (lf == NULL)
        return false;
    if (lf == start || lf[-1] != '\r')
        malformed("a line that ends in a bare LF", input);
    *line = wr_str(start, (size_t)(lf - start) - 1);
    for (size_t i = 0; i < line->n; i++) {
        unsigned char c = (unsigned char)line->p[i];
        if ((c < 0x20 && c != '\t') || c == 0x7f)
            malformed("a control byte in a line", input);
    }
    input->at += line->n + 2;
    return true;
}

/* Up to the next space. */
static struct wr_str next_word(struct wr_str *rest, const struct input *input)
{
    const char *space = memchr(rest->p, ' ', rest->n);
    if (space == NULL || space == rest->p)
        malformed("a start line without three parts", input);
    struct wr_str word = wr_str(rest->p, (size_t)(space - rest->p));
    *rest = wr_str(space + 1, rest->n - word.n - 1);
    return word;
}

static bool is_name(struct wr_str s)
{
    static const char allowed[] = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz";
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == '\0' || strchr(allowed, s.p[i]) == NULL)
            return false;
    }
    return s.n > 0;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static void split_field(struct wr_str line, struct strict_field *field, const struct input *input)
{
    const char *colon = memchr(line.p, ':', line.n);
    if (colon == NULL || colon + 1 == line.p + line.n || colon[1] != ' ')
        malformed("a line that is no field", input);
    field->name = wr_str(line.p, (size_t)(colon - line.p));
    field->value = wr_str(colon + 2, line.n - field->name.n - 2);
    if (!is_name(field->name))
        malformed("a field name that is none", input);
    if (field->value.n > 0 &&
        (is_blank(field->value.p[0]) || is_blank(field->value.p[field->value.n - 1])))
        malformed("space around a value", input);
}

static void keep(struct strict_fields *fields, const struct strict_field *field)
{
    if (fields->count == STRICT_FIELDS)
        finding("more fields than can be", WR_STR_EMPTY, field->name);
    fields->v[fields->count++] = *field;
}

const struct strict_field *strict_find(const struct strict_fields *fields, const char *name)
{
    for (size_t i = 0; i < fields->count; i++) {
        if (is(fields->v[i].name, name))
            return &fields->v[i];
    }
    return NULL;
}

/* ---- the head ---- */

static void read_request_line(struct strict_message *out, struct wr_str line,
                              const struct input *input)
{
    out->method = next_word(&line, input);
    out->target = next_word(&line, input);
    if (!is(line, "HTTP/1.1"))
        malformed("a request line that does not end in HTTP/1.1", input);
    for (size_t i = 0; i < out->target.n; i++) {
        if (out->target.p[i] == '#' || (unsigned char)out->target.p[i] > 0x7e)
            malformed("a byte no target has", input);
    }
}

static void read_status_line(struct strict_message *out, struct wr_str line,
                             const struct input *input)
{
    if (!is(next_word(&line, input), "HTTP/1.1"))
        malformed("a status line that does not begin with HTTP/1.1", input);
    struct wr_str code = next_word(&line, input);
    if (code.n != 3 || code.p[0] < '1' || code.p[0] > '5')
        malformed("no status", input);
    for (size_t i = 0; i < 3; i++) {
        if (code.p[i] < '0' || code.p[i] > '9')
            malformed("no status", input);
        out->status = out->status * 10 + (unsigned)(code.p[i] - '0');
    }
}

static void set_length(struct strict_message *out, struct wr_str value, const struct input *input)
{
    if (out->length != STRICT_NO_LENGTH || value.n == 0 || value.n > MOST_LENGTH_DIGITS ||
        (value.p[0] == '0' && value.n > 1))
        malformed("Content-Length", input);
    out->length = 0;
    for (size_t i = 0; i < value.n; i++) {
        if (value.p[i] < '0' || value.p[i] > '9')
            malformed("Content-Length", input);
        out->length = out->length * 10 + (value.p[i] - '0');
    }
}

static void set_coding(struct strict_message *out, struct wr_str value, const struct input *input)
{
    if (out->length != STRICT_NO_LENGTH || !is(value, "chunked"))
        malformed("Transfer-Encoding", input);
    out->length = STRICT_CHUNKED;
}

static void set_host(struct strict_message *out, struct wr_str value, const struct input *input)
{
    if (out->host.p != NULL)
        malformed("Host twice", input);
    out->host = value;
}

static void set_connection(struct strict_message *out, struct wr_str value,
                           const struct input *input)
{
    if (out->closes || (!is(value, "close") && !is(value, "keep-alive")))
        malformed("Connection", input);
    out->closes = is(value, "close");
}

static void set_expectation(struct strict_message *out, struct wr_str value,
                            const struct input *input)
{
    if (out->expects || !is(value, "100-continue"))
        malformed("Expect", input);
    out->expects = true;
}

static bool is_of_a_hop(struct wr_str name)
{
    static const char *const names[] = {"keep-alive", "proxy-connection", "te",
                                        "upgrade",    "http2-settings",   "connection"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (is(name, names[i]))
            return true;
    }
    return false;
}

static void read_field(struct strict_message *out, enum strict_kind kind,
                       const struct strict_field *field, const struct input *input)
{
    bool request = kind == STRICT_REQUEST;
    if (is(field->name, "content-length"))
        set_length(out, field->value, input);
    else if (is(field->name, "transfer-encoding"))
        set_coding(out, field->value, input);
    else if (is(field->name, "host") && request)
        set_host(out, field->value, input);
    else if (is(field->name, "expect") && request)
        set_expectation(out, field->value, input);
    else if (is(field->name, "connection") && !request)
        set_connection(out, field->value, input);
    else if (is_of_a_hop(field->name))
        malformed("a field of another hop", input);
    else if (request && memchr(field->name.p, '_', field->name.n) != NULL)
        malformed("a name that may be read as another", input);
    else
        keep(&out->fields, field);
}

/* Lines up to the empty one. False: not all of them have come. */
static bool read_fields(struct strict_message *out, enum strict_kind kind, bool trailers,
                        struct input *input)
{
    struct wr_str line;
    while (next_line(input, &line)) {
        if (line.n == 0)
            return true;
        struct strict_field field;
        split_field(line, &field, input);
        if (trailers)
            keep(&out->trailers, &field);
        else
            read_field(out, kind, &field, input);
    }
    return false;
}

/* ---- content ---- */

static bool never_has_content(const struct strict_message *out, enum strict_kind kind)
{
    return kind == STRICT_RESPONSE_TO_HEAD || out->status < 200 || out->status == 204 ||
           out->status == 304;
}

/* True: all N bytes have come. */
static bool read_content(struct strict_message *out, size_t n, struct input *input)
{
    size_t left = input->n - input->at;
    size_t k = n < left ? n : left;
    text_add(&out->content, input->p + input->at, k);
    input->at += k;
    return k == n;
}

static size_t chunk_size(struct wr_str line, const struct input *input)
{
    static const char digits[] = "0123456789abcdef";
    size_t size = 0;
    if (line.n == 0 || line.n > 8 || (line.p[0] == '0' && line.n > 1))
        malformed("the size of a chunk", input);
    for (size_t i = 0; i < line.n; i++) {
        const char *digit = line.p[i] != '\0' ? strchr(digits, line.p[i]) : NULL;
        if (digit == NULL)
            malformed("the size of a chunk", input);
        size = size * 16 + (size_t)(digit - digits);
    }
    return size;
}

static bool read_chunks(struct strict_message *out, struct input *input)
{
    struct wr_str line;
    while (next_line(input, &line)) {
        size_t size = chunk_size(line, input);
        if (size == 0)
            return read_fields(out, STRICT_REQUEST, true, input);
        if (!read_content(out, size, input) || !next_line(input, &line))
            return false;
        if (line.n > 0)
            malformed("a chunk that goes on", input);
    }
    return false;
}

static void check_framing(const struct strict_message *out, enum strict_kind kind,
                          const struct input *input)
{
    if (kind == STRICT_REQUEST) {
        if (out->host.p == NULL)
            malformed("no Host", input);
    } else if (never_has_content(out, kind)) {
        if (out->length == STRICT_CHUNKED ||
            (out->length >= 0 && (out->status < 200 || out->status == 204)))
            malformed("framing where no content is", input);
    } else if (out->length == STRICT_NO_LENGTH) {
        malformed("a response without framing", input);
    }
}

size_t strict_read(struct wr_str p, enum strict_kind kind, struct strict_message *out)
{
    struct input input = {p.p, p.n, 0};
    struct wr_str line;
    *out = (struct strict_message){.length = STRICT_NO_LENGTH};
    if (!next_line(&input, &line))
        return 0;
    if (kind == STRICT_REQUEST)
        read_request_line(out, line, &input);
    else
        read_status_line(out, line, &input);
    if (!read_fields(out, kind, false, &input))
        return 0;
    check_framing(out, kind, &input);
    out->has_head = true;
    if (kind != STRICT_REQUEST && never_has_content(out, kind))
        out->whole = true;
    else if (out->length == STRICT_CHUNKED)
        out->whole = read_chunks(out, &input);
    else
        out->whole = read_content(out, out->length > 0 ? (size_t)out->length : 0, &input);
    return out->whole ? input.at : 0;
}

void strict_clear(struct strict_message *message)
{
    text_free(&message->content);
}
