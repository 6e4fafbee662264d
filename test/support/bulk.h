/* Content of any size whose every byte tells its place, sent and checked on both sides without being kept. */
#ifndef TEST_SUPPORT_BULK_H
#define TEST_SUPPORT_BULK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "support/peer.h"

/* The N bytes of the content at AT, and whether they are that. */
void bulk_fill(void *p, size_t n, uint64_t at);
bool bulk_check(const void *p, size_t n, uint64_t at);

/* How a transfer goes, to be looked at from other threads. Zero is where to begin. */
struct bulk_flow {
    atomic_bool paused; /* set by the test: nothing is read or written for now */
    atomic_bool dead;   /* set by the test: paused or not, it ends */
    _Atomic uint64_t bytes;
    atomic_bool wrong; /* a byte was not what it should be */
    bool unchecked;    /* set by the test: any bytes will do */
};

/* Sends SIZE bytes of content, at most PIECE (0: 64 KiB) a time, as chunks or bare. False when the connection broke. */
bool bulk_send(struct peer *peer, struct bulk_flow *flow, uint64_t size, size_t piece,
               bool chunked);
/* Reads content to its end: SIZE bytes bare, or chunks. False when it was cut short, or framed wrongly. */
bool bulk_receive(struct peer *peer, struct bulk_flow *flow, uint64_t size, bool chunked);
/* The length that HEAD gives; *CHUNKED when it is chunked. 0: neither. */
uint64_t bulk_length(const char *head, bool *chunked);

/* Arguments of bulk_serve(). */
struct bulk_origin {
    uint64_t size; /* of what it answers to a GET */
    bool chunked;
    size_t piece;
    struct bulk_flow in;  /* content of requests; bytes of all of them */
    struct bulk_flow out; /* of responses */
    atomic_uint heads;
    atomic_uint whole; /* requests read to their end, with content */
    atomic_uint cut;   /* requests cut short */
};

/* A server function for origin_start(): what has content is read and answered with 200; the rest gets the origin's content. */
void bulk_serve(struct peer *client, void *origin);

#endif
