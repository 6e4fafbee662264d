/* The head of a message in neutral form (RFC 9110 section 6): what all four codecs convert to and from.
 * Framing is told by members, never by fields: codecs take content-length, transfer-encoding, host and expect out of the
 * fields when they read and put them in when they write. */
#ifndef WR_HTTP_HEAD_H
#define WR_HTTP_HEAD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/str.h"
#include "http/fields.h"

enum wr_method {
    WR_METHOD_OTHER,
    WR_METHOD_GET,
    WR_METHOD_HEAD,
    WR_METHOD_POST,
    WR_METHOD_PUT,
    WR_METHOD_DELETE,
    WR_METHOD_CONNECT,
    WR_METHOD_OPTIONS,
    WR_METHOD_TRACE,
    WR_METHOD_PATCH,
};

enum wr_method wr_method_lookup(struct wr_str text);
/* Safe or idempotent by RFC 9110 section 9.2. */
bool wr_method_is_idempotent(enum wr_method method);

/* Length of content: a number of bytes, or */
#define WR_LENGTH_UNKNOWN INT64_C(-1) /* chunked, or until the end of the stream */

/* A request to turn the exchange into a tunnel, and a response that accepts it. Content is then the tunnel's bytes both ways,
 * of unknown length and unframed, and end() is a half-close. A request for a tunnel is not LAST; its content may come only
 * after a final response head with `tunnel` set. A response without `tunnel` declines: the request has no content then.
 * The neutral form is that of HTTP/2: an accepting response has status 200; h1 codecs write and read 101 for UPGRADE. */
enum wr_tunnel {
    WR_TUNNEL_NONE,
    WR_TUNNEL_UPGRADE, /* to `protocol`: Upgrade (RFC 9110 section 7.8), extended CONNECT (RFC 8441); method GET here */
    WR_TUNNEL_CONNECT, /* RFC 9110 section 9.3.6; `path` is "" */
};

struct wr_head {
    enum wr_tunnel tunnel;
    struct wr_str protocol; /* of UPGRADE, lower case, one token */
    /* request */
    enum wr_method method;
    struct wr_str method_text;
    struct wr_str scheme;    /* "https", "http" */
    struct wr_str authority; /* host[:port], lower case; "" only for HTTP/1.0 */
    struct wr_str path;      /* path and query, origin form; "*" for OPTIONS */
    bool expect_continue;    /* Expect: 100-continue */
    bool accepts_trailers;   /* TE: trailers */
    bool upgrade; /* Upgrade over HTTP/1.1: without a tunnel it is a request like any other */
    /* response */
    uint16_t status;
    /* both */
    uint8_t version_minor; /* of the HTTP/1 peer that sent it; HTTP/2 counts as 1 */
    bool http2;            /* it came over HTTP/2 */
    bool length_given; /* a Content-Length was there, even where no content follows (HEAD, 304) */
    int64_t content_length; /* bytes, 0 = none, WR_LENGTH_UNKNOWN */
    struct wr_fields fields;
};

/* An empty head: everything "", content_length 0. */
void wr_head_init(struct wr_head *head);
/* A copy in ARENA whose field array and scalars can be edited apart; text is shared, so both need the same lifetime. */
struct wr_head *wr_head_clone(const struct wr_head *head, struct wr_arena *arena);

/* A response that has no content whatever its fields say (RFC 9110 section 6.4.1): to HEAD, 1xx, 204, 304. */
bool wr_response_has_no_content(enum wr_method request_method, uint16_t status);
/* Reason phrase of a registered status, or "". */
struct wr_str wr_status_reason(uint16_t status);

/* Host of AUTHORITY without port, brackets kept. */
struct wr_str wr_authority_host(struct wr_str authority);
/* host[:port] as RFC 3986 section 3.2 allows it, without userinfo. */
bool wr_authority_is_valid(struct wr_str authority);

#endif
