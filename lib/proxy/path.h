/* What becomes of a request's path before routing. The result is both routed and forwarded, so that weir and the upstream
 * never read two paths in one request (behaviour row 57). */
#ifndef WR_PROXY_PATH_H
#define WR_PROXY_PATH_H

#include "base/arena.h"
#include "base/compiler.h"
#include "base/err.h"
#include "proxy/proxy.h"

/* PATH is a path with query, or "*". *OUT is PATH itself when nothing had to change, else it lives in ARENA.
 *
 * Always BAD_REQUEST: bytes outside 0x21..0x7e, "#", and "%00" in the path. Except RAW, which changes nothing else:
 *  - BAD_REQUEST for an escape that is not "%" and two hexadecimal digits, a backslash (not of the URI grammar, and a slash to
 *    some), and a ".." that would leave the root;
 *  - escapes of unreserved characters are decoded, the equivalent form of RFC 3986 section 6.2.2.2, so that "/%61pi"
 *    takes the route of "/api"; all other escapes ("%2f") are kept as sent, as are ";" and what follows it;
 *  - "." and ".." segments are resolved (RFC 3986 section 5.2.4);
 *  - MERGE_SLASHES: "//" becomes "/". STRICT keeps it.
 * The query is kept as sent. */
WR_MUST_USE enum wr_err wr_path_normalise(struct wr_str path, enum wr_path_policy policy,
                                          struct wr_arena *arena, struct wr_str *out);

#endif
