/* WebSocket (RFC 6455) played by a test: raw frames over a peer. */
#ifndef TEST_SUPPORT_WEBSOCKET_H
#define TEST_SUPPORT_WEBSOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "support/peer.h"

enum ws_opcode {
    WS_TEXT = 1,
    WS_BINARY = 2,
    WS_CLOSE = 8,
    WS_PING = 9,
    WS_PONG = 10,
    WS_NONE = -1
};

#define WS_KEY "dGhlIHNhbXBsZSBub25jZQ=="
#define WS_ASK(path)                                                                            \
    "GET " path " HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" \
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " WS_KEY "\r\n\r\n"

/* The Sec-WebSocket-Accept for N bytes of KEY, in OUT. */
void ws_accept(const char *key, size_t n, char out[29]);

/* As a client: asks with WS_ASK("/chat"); true when it was answered as it should be. */
bool ws_open(struct peer *peer);
/* MASKED: as a client does. False when the connection is broken. */
bool ws_send(struct peer *peer, enum ws_opcode opcode, const void *p, size_t n, bool masked);
/* The next frame, unmasked; its payload, at most SIZE bytes, in P. WS_NONE: none came, or it was larger. */
enum ws_opcode ws_receive(struct peer *peer, void *p, size_t size, size_t *n);

/* As a server: answers the request of HEAD as asked, with 101. */
bool ws_accept_request(struct peer *peer, const char *head);

/* A server function for origin_start(): echoes messages, answers a Close with one and ends. */
#define WS_MOST ((size_t)1024 * 1024)
void ws_echo(struct peer *client, void *arg);

#endif
