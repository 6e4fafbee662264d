/* The opening handshake of WebSocket over HTTP/1.1 (RFC 6455 section 4). HTTP/2 has no use for it (RFC 8441 section 5), so it belongs to the
 * wire format: the codec of each connection asks, answers and checks for itself, and no key goes through weir. */
#ifndef WR_CODEC_H1_WEBSOCKET_H
#define WR_CODEC_H1_WEBSOCKET_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/str.h"
#include "http/head.h"

/* A request for a tunnel of that protocol. */
bool wr_h1_is_websocket(const struct wr_head *request);

/* The one Sec-WebSocket-Key, which is 16 bytes in base64. False: none, several, or something else. */
bool wr_h1_websocket_key(const struct wr_fields *fields, struct wr_str *key);
/* 16 random bytes in base64, in ARENA. */
struct wr_str wr_h1_websocket_new_key(struct wr_arena *arena);
/* The value of Sec-WebSocket-Accept that belongs to KEY, in ARENA. */
struct wr_str wr_h1_websocket_accept(struct wr_str key, struct wr_arena *arena);
/* Whether the one Sec-WebSocket-Accept in FIELDS is VALUE. */
bool wr_h1_websocket_is_accepted(const struct wr_fields *fields, struct wr_str value);

#endif
