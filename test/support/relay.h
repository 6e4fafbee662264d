/* Two proxies in a row, so that every message is translated twice:
 *
 *   client --HTTP/1.1--> edge --HTTP/2--> mid --HTTP/1.1--> origin
 *
 * Real codecs, proxies, pools and sockets on one loop; client and origin are raw bytes, played by the test. The clock stands still.
 * Neither proxy allows a tunnel. For fuzzers: aborts when something goes wrong. */
#ifndef TEST_SUPPORT_RELAY_H
#define TEST_SUPPORT_RELAY_H

#include <stdbool.h>

#include "http/exchange.h"
#include "support/message_ends.h"

/* Of what client and origin may say. */
#define RELAY_HEAD 2048
#define RELAY_TARGET 512
#define RELAY_FIELDS 24
#define RELAY_CHUNK_OVERHEAD 256

#define RELAY_ORIGINS 256

/* The test's end of a connection. */
struct relay_end {
    int fd;
    struct text heard;
    size_t at;      /* for the test: how much of it was dealt with, */
    size_t message; /* and whose the rest is */
    bool ended;     /* FIN or RST came */
};

/* What it has heard and not dealt with. */
struct wr_str relay_rest(const struct relay_end *end);

struct relay;

struct relay_events {
    /* The edge has read a request's head, or will refuse it; before anything becomes of it. May be NULL. */
    void (*asked)(void *owner, struct wr_exchange *exchange);
    /* Bytes have come. */
    void (*origin_heard)(void *owner, struct relay_end *origin);
};

struct relay *relay_new(const struct relay_events *events, void *owner);
/* Checks that no exchange and no content is left. */
void relay_free(struct relay *relay);

struct relay_end *relay_client(struct relay *relay);
/* All connections the origin has accepted so far. */
const struct relay_end *relay_origins(const struct relay *relay, size_t *count);
/* Turns until nothing happens any more. */
void relay_settle(struct relay *relay);
/* In pieces of so many bytes, each with a turn of its own; then settles. */
void relay_say(struct relay *relay, struct relay_end *end, struct wr_str bytes, size_t piece);
/* FIN; settles. */
void relay_finish(struct relay *relay, struct relay_end *end);

#endif
