/* The parts of HTTP/1.1 heads that weir judges by itself: start lines, target, transfer coding, connection options
 * (RFC 9112 sections 3, 4, 6, 9). Pure functions over slices; nothing is copied. */
#ifndef WR_CODEC_H1_PARSE_H
#define WR_CODEC_H1_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "http/head.h"

struct wr_h1_request_line {
    struct wr_str method;
    struct wr_str target;
    uint8_t version_minor;
};

/* LINE without its CR LF: method SP target SP HTTP-version, single spaces, target of visible ASCII without "#" and "%00". OUT
 * holds what could be told apart even when this fails ("" the rest), for the log.
 * BAD_REQUEST, URI_TOO_LONG, METHOD_NOT_ALLOWED (TRACE), VERSION_NOT_SUPPORTED (major version above 1). */
WR_MUST_USE enum wr_err wr_h1_parse_request_line(struct wr_str line, size_t target_limit,
                                                 struct wr_h1_request_line *out);

struct wr_h1_status_line {
    uint16_t status;
    uint8_t version_minor;
};

/* LINE without its CR LF: HTTP-version SP 3DIGIT [SP reason]; the reason may be left out with its space. BAD_RESPONSE. */
WR_MUST_USE enum wr_err wr_h1_parse_status_line(struct wr_str line, struct wr_h1_status_line *out);

struct wr_h1_target {
    struct wr_str authority; /* of the absolute or authority form, else "" */
    struct wr_str
        path; /* begins with "/", or is "*", or begins with "?", or is "": "/" is to be put before */
};

/* Origin form, absolute form with http or https, asterisk form for OPTIONS; for CONNECT the authority form (host:port) and nothing
 * else. BAD_REQUEST. */
WR_MUST_USE enum wr_err wr_h1_parse_target(enum wr_method method, struct wr_str target,
                                           struct wr_h1_target *out);

/* The size of a chunk: LINE is a whole line with its CR LF; *DIGITS is the number as it stands there. Extensions are
 * allowed and without meaning here. False: malformed, or above 2^63-1. */
bool wr_h1_parse_chunk_line(struct wr_str line, struct wr_str *digits, uint64_t *size);

/* Options of Connection fields; OPTIONS gathers over several. */
#define WR_H1_CLOSE 1u
#define WR_H1_KEEP_ALIVE 2u
#define WR_H1_UPGRADE 4u
void wr_h1_parse_connection(struct wr_str value, unsigned *options);
/* Whether the comma list VALUE has WORD in it, case folded. */
bool wr_h1_list_has(struct wr_str value, struct wr_str word);

#endif
