/* Reads HTTP/1.1 messages off a byte stream, one after another, for both sides (RFC 9112). It is asked, it does not call:
 *
 *   START --BEGUN--> HEAD --HEAD--> (wr_h1_reader_request() or _response()) --CONTENT...END--> (wr_h1_reader_next()) START
 *
 * A message without content has no END: it is over when its head is read. Any event FAILED is final.
 * How the bytes were cut into reads makes no difference to what is said. */
#ifndef WR_CODEC_H1_READER_H
#define WR_CODEC_H1_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "codec/h1_fields.h"
#include "codec/h1_section.h"
#include "codec/h1_tokens.h"
#include "http/head.h"

struct wr_h1_limits {
    size_t head;           /* bytes of start line and fields, and of a trailer section */
    size_t target;         /* bytes of a request target */
    unsigned fields;       /* number of fields */
    size_t chunk_overhead; /* see h1_reader.c, count_overhead() */
    bool underscores;      /* field names with underscore are kept */
};

enum wr_h1_state {
    WR_H1_START, /* before the first byte of a head */
    WR_H1_HEAD,
    WR_H1_HEAD_WHOLE, /* waits for wr_h1_reader_request() or _response() */
    WR_H1_LENGTH,     /* content of known length */
    WR_H1_CHUNK_LINE,
    WR_H1_CHUNK_DATA,
    WR_H1_CHUNK_END, /* the CR LF after the data */
    WR_H1_TRAILERS,
    WR_H1_UNTIL_CLOSE,
    WR_H1_ENDING, /* END is still to be said */
    WR_H1_OVER,
    WR_H1_FAILED,
};

enum wr_h1_event {
    WR_H1_SAYS_MORE,    /* all input was used */
    WR_H1_SAYS_BEGUN,   /* the first byte of a head is next */
    WR_H1_SAYS_HEAD,    /* a head is whole: read it now */
    WR_H1_SAYS_FULL,    /* content is next and there is no room for it */
    WR_H1_SAYS_CONTENT, /* a piece of content, in the input */
    WR_H1_SAYS_END,     /* content is complete; `trailers` */
    WR_H1_SAYS_FAILED,  /* `err` */
};

struct wr_h1_reader {
    struct wr_h1_limits limits;
    bool requests;
    enum wr_h1_state state;
    struct wr_h1_tokens tokens;
    struct wr_h1_section section;
    struct wr_str whole;    /* a section just gathered */
    struct wr_arena *arena; /* of the message being read, from its head on */
    uint64_t left;          /* bytes of content or chunk still to come */
    uint64_t overhead;
    unsigned empty_lines;       /* skipped before a request line */
    bool keep_alive;            /* this message lets the connection go on */
    struct wr_fields *trailers; /* or NULL */
    enum wr_err err;
};

void wr_h1_reader_init(struct wr_h1_reader *reader, bool requests,
                       const struct wr_h1_limits *limits);
/* Frees what is held. Can be called twice. */
void wr_h1_reader_clear(struct wr_h1_reader *reader);
/* The message is over: on to the next. */
void wr_h1_reader_next(struct wr_h1_reader *reader);

/* Reads on in *INPUT, which is moved past what was used. At most ROOM bytes of content are told at once. */
enum wr_h1_event wr_h1_reader_read(struct wr_h1_reader *reader, struct wr_str *input, size_t room,
                                   struct wr_str *content);

/* After SAYS_HEAD: the head, in ARENA, where trailers will be too. When it fails, HEAD is as far as known.
 * BAD_REQUEST, URI_TOO_LONG, FIELDS_TOO_LARGE, METHOD_NOT_ALLOWED, NOT_IMPLEMENTED, VERSION_NOT_SUPPORTED,
 * EXPECTATION_FAILED. `scheme` is left to the caller. */
WR_MUST_USE enum wr_err wr_h1_reader_request(struct wr_h1_reader *reader, struct wr_arena *arena,
                                             struct wr_head *head);
/* The same for the response to REQUEST. One that accepts a tunnel is OVER with its head: what follows is not for the reader.
 * BAD_RESPONSE, RESPONSE_HEAD_TOO_LARGE, UNASKED_UPGRADE. */
WR_MUST_USE enum wr_err wr_h1_reader_response(struct wr_h1_reader *reader, struct wr_arena *arena,
                                              const struct wr_head *request, struct wr_head *head);
/* What is known of a request whose head never became whole or was too large: its line, if that is there. */
void wr_h1_reader_partial_request(const struct wr_h1_reader *reader, struct wr_arena *arena,
                                  struct wr_head *head);

/* The stream has ended. True: and with it the message, as it should be (content until close). */
bool wr_h1_reader_finish(struct wr_h1_reader *reader);

/* No byte of a message has come. */
static inline bool wr_h1_reader_is_idle(const struct wr_h1_reader *reader)
{
    return reader->state == WR_H1_START;
}

/* Nor anything else that a new reader would not know. */
static inline bool wr_h1_reader_is_fresh(const struct wr_h1_reader *reader)
{
    return reader->state == WR_H1_START && reader->section.seen == 0 && reader->empty_lines == 0;
}

/* For the two functions above: how content is framed, which llhttp must have understood the same way. */
enum wr_h1_framing { WR_H1_BY_NOTHING, WR_H1_BY_LENGTH, WR_H1_BY_CHUNKS, WR_H1_BY_CLOSE };
WR_MUST_USE bool wr_h1_reader_expect(struct wr_h1_reader *reader, enum wr_h1_framing framing,
                                     uint64_t length);

#endif
