/* Heads between their neutral form and HTTP/2 header blocks (RFC 9113 section 8). nghttp2 has checked syntax of names and
 * values, order, number and completeness of pseudo-header fields, connection-specific fields, `te` and Content-Length
 * (behaviour rows 28 to 31); what is told of them is checked by tests of ours. Here is what it leaves open. */
#ifndef WR_CODEC_H2_HEAD_H
#define WR_CODEC_H2_HEAD_H

#include <nghttp2/nghttp2.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "http/fields.h"
#include "http/head.h"

struct wr_h2_limits {
    size_t block;    /* bytes of a header block as RFC 9113 section 6.5.2 counts them */
    size_t target;   /* bytes of :path */
    unsigned fields; /* number of fields but pseudo-header fields; crumbs of Cookie are one */
    bool underscores;
};

/* A header block on its way in; what it keeps lives in ARENA. */
struct wr_h2_block {
    struct wr_arena *arena;
    struct wr_fields fields;
    struct wr_str method, scheme, authority, path, protocol; /* p NULL: not there */
    struct wr_str host;
    uint64_t length;
    size_t size;
    unsigned count;
    unsigned crumbs; /* Cookie fields */
    uint16_t status;
    bool length_given;
    bool expects;
    bool expect_unknown;
    bool accepts_trailers;
    bool malformed;       /* in a way nghttp2 lets pass */
    bool target_too_long; /* and not kept */
    bool too_large;       /* nothing more is kept */
};

void wr_h2_block_begin(struct wr_h2_block *block, struct wr_arena *arena);
void wr_h2_block_add(struct wr_h2_block *block, const struct wr_h2_limits *limits,
                     nghttp2_rcbuf *name, nghttp2_rcbuf *value, uint8_t flags);

/* The head of a request; LAST: nothing follows. HEAD holds what there is even if this fails, for the log.
 * BAD_REQUEST, FIELDS_TOO_LARGE, URI_TOO_LONG, METHOD_NOT_ALLOWED, EXPECTATION_FAILED. */
WR_MUST_USE enum wr_err wr_h2_block_request(struct wr_h2_block *block, bool last,
                                            struct wr_head *head);
/* The head of a response (interim ones too) to REQUEST. RESPONSE_HEAD_TOO_LARGE, BAD_RESPONSE. */
WR_MUST_USE enum wr_err wr_h2_block_response(struct wr_h2_block *block,
                                             const struct wr_head *request, bool last,
                                             struct wr_head *head);
/* A trailer section without what is forbidden there; in the arena, NULL when nothing is left. *OUT is not to be used when false
 * is returned: too large. */
WR_MUST_USE bool wr_h2_block_trailers(struct wr_h2_block *block, struct wr_fields **out);

/* Fields as nghttp2 wants them for a submission, which copies the array but not the text: that lives as long as the arena. */
#define WR_H2_USUAL_FIELDS 40
struct wr_h2_fields {
    nghttp2_nv *v; /* `usual`, or in the arena */
    size_t count;
    nghttp2_nv usual[WR_H2_USUAL_FIELDS];
};
void wr_h2_request_fields(struct wr_h2_fields *fields, const struct wr_head *head, bool last,
                          struct wr_arena *arena);
/* LENGTH: of Content-Length, -1 none. DATE: for a response without one, "" none; copied. */
void wr_h2_response_fields(struct wr_h2_fields *fields, const struct wr_head *head, int64_t length,
                           struct wr_str date, struct wr_arena *arena);
void wr_h2_trailer_fields(struct wr_h2_fields *fields, const struct wr_fields *trailers,
                          struct wr_arena *arena);

#endif
