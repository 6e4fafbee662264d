/* Many connections of HTTP/1.1 or HTTP/2 over TLS 1.3 that are opened, asked once, and kept. */
#ifndef BENCH_CROWD_H
#define BENCH_CROWD_H

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ANSWER_ROOM 20000 /* of one answer, and of one HTTP/2 frame with its head */

enum verdict { MORE, ANSWERED, BROKEN };

/* One exchange on a connection, while it lasts: what has been received of it and is not yet looked at. */
struct answer {
    size_t got;
    bool ended; /* HTTP/2: the stream has */
    uint8_t bytes[ANSWER_ROOM];
};

/* Writes the next request, for PATH, of a connection that has made REQUESTS so far. False: it does not take it. */
bool ask(SSL *ssl, bool http2, size_t requests, const char *path);

/* What the bytes so far mean. HTTP/2: answers SETTINGS and PING on the way. The answer must be 2xx. */
enum verdict judge(SSL *ssl, bool http2, struct answer *answer);

#endif
