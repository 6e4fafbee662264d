/* An origin at the far end of tunnels: accepts CONNECT and WebSocket upgrades, and passes bare bytes. */
#ifndef TEST_SUPPORT_TUNNEL_ORIGIN_H
#define TEST_SUPPORT_TUNNEL_ORIGIN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "support/bulk.h"

struct tunnel_origin {
    uint64_t size;        /* of what goes through "down" and "up" */
    struct bulk_flow in;  /* what came, of all tunnels but those that echo */
    struct bulk_flow out; /* what went */
    atomic_uint heads;    /* requests */
    atomic_uint eof;      /* tunnels whose client has ended in good order */
    atomic_uint cut;      /* that were reset, or broke */
    char head[16384];     /* of the last request; settled once `heads` has grown */
};

/* A server function for origin_start(). What becomes of a request says the last segment of its path:
 *   down      hears a byte; SIZE bytes of content, its end; then it waits for the client's
 *   up        reads SIZE bytes, says "ok" and ends
 *   ends      says "hello" and ends; what comes is read and counted. "later": the same, when it has heard a byte
 *   breaks    says "part" and resets
 *   declines  403 with "no"; "pretends": 200 with "no"
 * any other: says what it hears; then "bye", when the client ends. */
void tunnel_origin_serve(struct peer *client, void *origin);
/* Waits until COUNTER is at least N. */
bool tunnel_origin_counts(atomic_uint *counter, unsigned n);

#endif
