/* Whole heads to neutral form (h1_reader.h). */
#include <string.h>

#include "base/assert.h"
#include "codec/h1_parse.h"
#include "codec/h1_reader.h"
#include "codec/h1_websocket.h"
#include "codec/target.h"

/* The first line of PART, which has one, without its CR LF; *REST is what follows. */
static struct wr_str first_line(struct wr_str part)
{
    const char *lf = memchr(part.p, '\n', part.n);
    WR_ASSERT(lf != NULL && lf > part.p);
    return wr_str(part.p, (size_t)(lf - part.p) - 1);
}

/* Runs llhttp over TEXT, a whole head in the arena, and leaves its fields in HEAD. */
static enum wr_h1_ran run_head(struct wr_h1_reader *reader, struct wr_str text,
                               struct wr_head *head)
{
    struct wr_h1_tokens *tokens = &reader->tokens;
    unsigned count = reader->section.lines - 2; /* start line, empty line */
    unsigned room = count + WR_FIELDS_ADDED;
    tokens->fields = wr_arena_alloc(reader->arena, room * sizeof(*tokens->fields));
    tokens->capacity = count;
    enum wr_h1_ran ran = wr_h1_tokens_run(tokens, text);
    head->fields = (struct wr_fields){tokens->fields, tokens->count, room};
    if (ran == WR_H1_RAN_OK && tokens->count != count)
        ran = WR_H1_RAN_BAD;
    return ran;
}

/* ---- request ---- */

static void set_request_line(struct wr_head *head, const struct wr_h1_request_line *line)
{
    head->method_text = line->method;
    head->method = wr_method_lookup(line->method);
    head->path = line->target;
    head->version_minor = line->version_minor > 0 ? 1 : 0;
}

/* The Host of a CONNECT often has no port. */
static bool names_same_host(const struct wr_head *head, struct wr_str authority, struct wr_str host)
{
    if (head->method == WR_METHOD_CONNECT && wr_authority_host(host).n == host.n)
        authority = wr_authority_host(authority);
    return wr_str_eq_nocase(authority, host);
}

/* Target and Host (RFC 9112 section 3.2, behaviour row 10). */
static enum wr_err settle_target(struct wr_arena *arena, const struct wr_h1_facts *facts,
                                 struct wr_head *head)
{
    struct wr_h1_target target;
    enum wr_err err = wr_h1_parse_target(head->method, head->path, &target);
    if (err != WR_OK)
        return err;
    if (facts->hosts > 1 || (facts->hosts == 0 && head->version_minor > 0))
        return WR_ERR_BAD_REQUEST;
    if (facts->hosts == 1 && !wr_authority_is_valid(facts->host))
        return WR_ERR_BAD_REQUEST;
    struct wr_str authority = facts->host;
    if (target.authority.n > 0) {
        if (facts->hosts == 1 && !names_same_host(head, target.authority, facts->host))
            return WR_ERR_BAD_REQUEST;
        authority = target.authority;
    }
    if (authority.n > 0)
        head->authority = wr_target_lower(arena, authority);
    if (head->method == WR_METHOD_CONNECT)
        head->path = WR_STR_EMPTY;
    else if (target.path.n == 0)
        head->path = WR_STR("/");
    else if (target.path.p[0] == '?')
        head->path = wr_arena_printf(arena, "/%.*s", WR_STR_ARG(target.path));
    else
        head->path = target.path;
    return WR_OK;
}

/* RFC 9112 section 6, behaviour rows 1 to 4 and 26. */
static enum wr_err settle_request_framing(const struct wr_h1_facts *facts, struct wr_head *head)
{
    if (facts->unknown_coding)
        return WR_ERR_NOT_IMPLEMENTED;
    if (facts->malformed || (facts->chunked && (facts->length_given || head->version_minor == 0)))
        return WR_ERR_BAD_REQUEST;
    head->upgrade = facts->upgrade && (facts->connection & WR_H1_UPGRADE) != 0;
    bool has_none = head->upgrade || head->method == WR_METHOD_CONNECT;
    if (has_none && (facts->chunked || facts->length_given))
        return WR_ERR_BAD_REQUEST;
    head->length_given = facts->length_given;
    head->content_length = facts->chunked ? WR_LENGTH_UNKNOWN : (int64_t)facts->length;
    return WR_OK;
}

/* What the request asks to become (RFC 9110 sections 7.8, 9.3.6). An Upgrade that is not quite one of those weir could answer for
 * stays what it is without: a request. */
static void settle_tunnel(const struct wr_h1_reader *reader, const struct wr_h1_facts *facts,
                          struct wr_head *head)
{
    struct wr_str key;
    if (head->method == WR_METHOD_CONNECT) {
        head->tunnel = WR_TUNNEL_CONNECT;
    } else if (head->upgrade && head->method == WR_METHOD_GET && head->version_minor > 0 &&
               facts->protocols == 1 && wr_is_token(facts->protocol)) {
        head->tunnel = WR_TUNNEL_UPGRADE;
        head->protocol = wr_target_lower(reader->arena, facts->protocol);
        if (wr_h1_is_websocket(head) && !wr_h1_websocket_key(&head->fields, &key))
            head->tunnel = WR_TUNNEL_NONE;
    }
    if (head->tunnel != WR_TUNNEL_NONE)
        head->content_length = WR_LENGTH_UNKNOWN;
}

static enum wr_err settle_request(struct wr_h1_reader *reader, struct wr_head *head)
{
    struct wr_h1_facts facts;
    wr_h1_fields_settle(&head->fields, reader->limits.underscores, &facts);
    enum wr_err err = settle_request_framing(&facts, head);
    if (err == WR_OK)
        err = settle_target(reader->arena, &facts, head);
    if (err != WR_OK)
        return err;
    bool modern = head->version_minor > 0;
    if (facts.expect_unknown && modern)
        return WR_ERR_EXPECTATION_FAILED;
    /* RFC 9110 section 10.1.1: without meaning in HTTP/1.0 and where no content follows. */
    head->expect_continue = facts.expects && modern && head->content_length != 0;
    head->accepts_trailers = facts.accepts_trailers;
    /* RFC 9112 section 9.3 */
    reader->keep_alive = (facts.connection & WR_H1_CLOSE) == 0 &&
                         (modern || (facts.connection & WR_H1_KEEP_ALIVE) != 0);
    settle_tunnel(reader, &facts, head);
    return WR_OK;
}

static enum wr_h1_framing request_framing(const struct wr_head *head)
{
    if (head->tunnel != WR_TUNNEL_NONE)
        return WR_H1_BY_NOTHING;
    if (head->content_length == WR_LENGTH_UNKNOWN)
        return WR_H1_BY_CHUNKS;
    return head->content_length > 0 ? WR_H1_BY_LENGTH : WR_H1_BY_NOTHING;
}

/* Why llhttp stopped. The start line is good, so it is about the method, which it has a list of, or about the fields. A
 * Transfer-Encoding it does not take is told apart as always; its value was not seen to the end. */
static enum wr_err request_error(struct wr_h1_reader *reader, enum wr_h1_ran ran,
                                 struct wr_str text, struct wr_fields *fields)
{
    if (ran == WR_H1_RAN_UNKNOWN_METHOD)
        return WR_ERR_NOT_IMPLEMENTED;
    if (ran != WR_H1_RAN_UNKNOWN_CODING || fields->count == 0)
        return WR_ERR_BAD_REQUEST;
    struct wr_field *last = &fields->v[fields->count - 1];
    const char *value = last->name.p + last->name.n + 1;
    const char *end = memchr(value, '\r', (size_t)(text.p + text.n - value));
    last->value = wr_str(value, (size_t)(end - value));
    struct wr_h1_facts facts;
    wr_h1_fields_settle(fields, reader->limits.underscores, &facts);
    return facts.unknown_coding ? WR_ERR_NOT_IMPLEMENTED : WR_ERR_BAD_REQUEST;
}

enum wr_err wr_h1_reader_request(struct wr_h1_reader *reader, struct wr_arena *arena,
                                 struct wr_head *head)
{
    WR_ASSERT(reader->state == WR_H1_HEAD_WHOLE);
    wr_head_init(head);
    reader->arena = arena;
    reader->state = WR_H1_FAILED;
    struct wr_str text = wr_arena_copy(arena, reader->whole);

    struct wr_h1_request_line line;
    enum wr_err err = wr_h1_parse_request_line(first_line(text), reader->limits.target, &line);
    set_request_line(head, &line);
    if (err != WR_OK)
        return err;
    if (!wr_h1_lines_are_clean(text))
        return WR_ERR_BAD_REQUEST;
    enum wr_h1_ran ran = run_head(reader, text, head);
    if (ran != WR_H1_RAN_OK) {
        err = request_error(reader, ran, text, &head->fields);
        wr_fields_init(&head->fields);
        return err;
    }
    err = settle_request(reader, head);
    if (err != WR_OK)
        return err;
    uint64_t length = head->content_length > 0 ? (uint64_t)head->content_length : 0;
    return wr_h1_reader_expect(reader, request_framing(head), length) ? WR_OK : WR_ERR_BAD_REQUEST;
}

void wr_h1_reader_partial_request(const struct wr_h1_reader *reader, struct wr_arena *arena,
                                  struct wr_head *head)
{
    const struct wr_h1_section *section = &reader->section;
    wr_head_init(head);
    if (section->first_line < 2 || section->first_line > section->held_count)
        return;
    struct wr_str text = wr_arena_copy(arena, wr_str(section->held, section->first_line - 2));
    struct wr_h1_request_line line;
    /* Whatever is wrong with it was said already, or comes second. */
    if (wr_h1_parse_request_line(text, reader->limits.target, &line) == WR_OK)
        set_request_line(head, &line);
}

/* ---- response ---- */

/* Behaviour row 26: only 101 with the one protocol that was asked for, and any 2xx to CONNECT (RFC 9110 section 9.3.6: whatever it
 * says of content, there is none). */
static enum wr_err settle_acceptance(const struct wr_head *request, const struct wr_h1_facts *facts,
                                     struct wr_head *head)
{
    bool connected =
        request->tunnel == WR_TUNNEL_CONNECT && head->status >= 200 && head->status < 300;
    if (head->status != 101 && !connected)
        return WR_OK;
    if (head->status == 101 && (request->tunnel != WR_TUNNEL_UPGRADE || head->version_minor == 0 ||
                                (facts->connection & WR_H1_UPGRADE) == 0 || facts->protocols != 1 ||
                                !wr_str_eq_nocase(facts->protocol, request->protocol)))
        return WR_ERR_UNASKED_UPGRADE;
    head->tunnel = request->tunnel;
    head->status = 200;
    head->length_given = false;
    head->content_length = WR_LENGTH_UNKNOWN;
    return WR_OK;
}

/* Behaviour rows 16 and 18. */
static enum wr_err settle_response(struct wr_h1_reader *reader, const struct wr_head *request,
                                   struct wr_head *head, bool no_content,
                                   enum wr_h1_framing *framing)
{
    struct wr_h1_facts facts;
    wr_h1_fields_settle(&head->fields, reader->limits.underscores, &facts);
    if (facts.malformed || facts.unknown_coding ||
        (facts.chunked && (facts.length_given || head->version_minor == 0)))
        return WR_ERR_BAD_RESPONSE;
    head->length_given = facts.length_given;
    head->content_length = (int64_t)facts.length;
    *framing = WR_H1_BY_NOTHING;
    if (!no_content && facts.chunked) {
        *framing = WR_H1_BY_CHUNKS;
        head->content_length = WR_LENGTH_UNKNOWN;
    } else if (!no_content && !facts.length_given) {
        *framing = WR_H1_BY_CLOSE;
        head->content_length = WR_LENGTH_UNKNOWN;
    } else if (!no_content && facts.length > 0) {
        *framing = WR_H1_BY_LENGTH;
    }
    reader->keep_alive = *framing != WR_H1_BY_CLOSE && (facts.connection & WR_H1_CLOSE) == 0 &&
                         (head->version_minor > 0 || (facts.connection & WR_H1_KEEP_ALIVE) != 0);
    return settle_acceptance(request, &facts, head);
}

static bool has_no_content(const struct wr_head *request, uint16_t status)
{
    return wr_response_has_no_content(request->method, status) ||
           (request->tunnel == WR_TUNNEL_CONNECT && status < 300);
}

enum wr_err wr_h1_reader_response(struct wr_h1_reader *reader, struct wr_arena *arena,
                                  const struct wr_head *request, struct wr_head *head)
{
    WR_ASSERT(reader->state == WR_H1_HEAD_WHOLE);
    wr_head_init(head);
    reader->arena = arena;
    reader->state = WR_H1_FAILED;
    struct wr_str text = wr_arena_copy(arena, reader->whole);

    struct wr_h1_status_line line;
    enum wr_err err = wr_h1_parse_status_line(first_line(text), &line);
    if (err != WR_OK)
        return err;
    if (!wr_h1_lines_are_clean(text))
        return WR_ERR_BAD_RESPONSE;
    head->status = line.status;
    head->version_minor = line.version_minor > 0 ? 1 : 0;
    if (line.status == 101 && request->tunnel != WR_TUNNEL_UPGRADE)
        return WR_ERR_UNASKED_UPGRADE;

    bool no_content = has_no_content(request, line.status);
    reader->tokens.skip_content = no_content;
    if (run_head(reader, text, head) != WR_H1_RAN_OK)
        return WR_ERR_BAD_RESPONSE;
    enum wr_h1_framing framing;
    err = settle_response(reader, request, head, no_content, &framing);
    if (err != WR_OK)
        return err;
    bool counted = framing == WR_H1_BY_LENGTH;
    uint64_t length = counted ? (uint64_t)head->content_length : 0;
    return wr_h1_reader_expect(reader, framing, length) ? WR_OK : WR_ERR_BAD_RESPONSE;
}
