#include "codec/h1_tokens.h"

static struct wr_h1_tokens *of(llhttp_t *parser)
{
    return WR_CONTAINER_OF(parser, struct wr_h1_tokens, parser);
}

/* Parts are run whole, so each name and each value comes as one span, unless llhttp stops to look at one: then the spans
 * touch. */
static bool extend(struct wr_str *s, const char *at, size_t n)
{
    if (s->n > 0 && s->p + s->n != at)
        return false;
    if (s->n == 0)
        s->p = at;
    s->n += n;
    return true;
}

static int on_name(llhttp_t *parser, const char *at, size_t n)
{
    struct wr_h1_tokens *tokens = of(parser);
    if (tokens->count == tokens->capacity) {
        tokens->confused = true;
        return HPE_USER;
    }
    tokens->fields[tokens->count++] =
        (struct wr_field){.name = wr_str(at, n), .value = WR_STR_EMPTY, .id = WR_FIELD_OTHER};
    return HPE_OK;
}

static int on_value(llhttp_t *parser, const char *at, size_t n)
{
    struct wr_h1_tokens *tokens = of(parser);
    if (tokens->count == 0 || !extend(&tokens->fields[tokens->count - 1].value, at, n)) {
        tokens->confused = true;
        return HPE_USER;
    }
    return HPE_OK;
}

static int on_headers(llhttp_t *parser)
{
    struct wr_h1_tokens *tokens = of(parser);
    tokens->headers = true;
    return tokens->skip_content ? 1 : 0;
}

static int on_chunk(llhttp_t *parser)
{
    of(parser)->chunk = true;
    return HPE_OK;
}

static int on_content(llhttp_t *parser, const char *at, size_t n)
{
    struct wr_h1_tokens *tokens = of(parser);
    struct wr_str whole = {tokens->content, tokens->content_count};
    if (!extend(&whole, at, n)) {
        tokens->confused = true;
        return HPE_USER;
    }
    tokens->content = whole.p;
    tokens->content_count = whole.n;
    return HPE_OK;
}

static int on_message(llhttp_t *parser)
{
    of(parser)->message = true;
    return HPE_OK;
}

static const llhttp_settings_t settings = {
    .on_header_field = on_name,
    .on_header_value = on_value,
    .on_headers_complete = on_headers,
    .on_chunk_header = on_chunk,
    .on_body = on_content,
    .on_message_complete = on_message,
};

static void forget(struct wr_h1_tokens *tokens)
{
    tokens->content = NULL;
    tokens->content_count = 0;
    tokens->headers = false;
    tokens->chunk = false;
    tokens->message = false;
}

void wr_h1_tokens_start(struct wr_h1_tokens *tokens, bool requests)
{
    llhttp_init(&tokens->parser, requests ? HTTP_REQUEST : HTTP_RESPONSE, &settings);
    /* HTTP/1.x with x > 1 is served as 1.1; start lines are judged before llhttp sees them. */
    tokens->parser.lenient_flags = LENIENT_VERSION;
    tokens->fields = NULL;
    tokens->capacity = 0;
    tokens->count = 0;
    tokens->skip_content = false;
    tokens->confused = false;
    forget(tokens);
}

enum wr_h1_ran wr_h1_tokens_run(struct wr_h1_tokens *tokens, struct wr_str p)
{
    forget(tokens);
    switch (llhttp_execute(&tokens->parser, p.p, p.n)) {
    case HPE_OK:
        break;
    case HPE_PAUSED_UPGRADE:
        /* An Upgrade without content, which weir treats as plain HTTP: the message was complete. */
        if (!tokens->message)
            return WR_H1_RAN_BAD;
        break;
    case HPE_INVALID_METHOD:
    case HPE_INVALID_CONSTANT: /* a method of RTSP */
        return WR_H1_RAN_UNKNOWN_METHOD;
    case HPE_INVALID_TRANSFER_ENCODING:
        return WR_H1_RAN_UNKNOWN_CODING;
    default:
        return WR_H1_RAN_BAD;
    }
    return tokens->confused ? WR_H1_RAN_BAD : WR_H1_RAN_OK;
}

bool wr_h1_tokens_finish(struct wr_h1_tokens *tokens)
{
    forget(tokens);
    return llhttp_finish(&tokens->parser) == HPE_OK && tokens->message;
}
