/* llhttp, and what its callbacks said. It tells fields, content and ends apart; whether that is acceptable is judged by
 * others, and where both could know (lengths, framing) they must agree, or the message is malformed. The only user of
 * llhttp. */
#ifndef WR_CODEC_H1_TOKENS_H
#define WR_CODEC_H1_TOKENS_H

#include <llhttp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "http/fields.h"

struct wr_h1_tokens {
    llhttp_t parser;
    /* Set by the user before a part with fields is run: room for them, of the caller. */
    struct wr_field *fields;
    uint32_t capacity;
    uint32_t count;
    bool
        skip_content; /* set before a response head is run: none follows, whatever the fields say */

    /* What the last run said. */
    const char *content; /* one contiguous piece, or NULL */
    size_t content_count;
    bool headers;  /* a head is complete */
    bool chunk;    /* a chunk size is complete */
    bool message;  /* the message is complete */
    bool confused; /* more fields than there is room for, or content in pieces */
};

enum wr_h1_ran {
    WR_H1_RAN_OK,
    WR_H1_RAN_BAD,
    WR_H1_RAN_UNKNOWN_METHOD,
    WR_H1_RAN_UNKNOWN_CODING,
};

/* Before each message. */
void wr_h1_tokens_start(struct wr_h1_tokens *tokens, bool requests);
enum wr_h1_ran wr_h1_tokens_run(struct wr_h1_tokens *tokens, struct wr_str p);
/* The stream has ended: whether that is the end of the message. */
bool wr_h1_tokens_finish(struct wr_h1_tokens *tokens);
/* Of the chunk, when `chunk` was said. */
static inline uint64_t wr_h1_tokens_chunk_size(const struct wr_h1_tokens *tokens)
{
    return tokens->parser.content_length;
}

#endif
