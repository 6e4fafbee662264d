/* Thousands of clients of all sorts at once, blocking, from a few threads. */
#ifndef TEST_SUPPORT_STORM_H
#define TEST_SUPPORT_STORM_H

#include <pthread.h>
#include <stdatomic.h>

#include "support/flood.h"
#include "support/weir.h"

enum storm_kind {
    GOOD_CLOSE,  /* a request that asks for the end */
    GOOD_KEEP,   /* two requests, and the client ends */
    SILENT,      /* not a byte */
    HALF,        /* of a ClientHello */
    ABORT_HELLO, /* RST behind the ClientHello */
    ABORT_LATER, /* RST behind handshake and request */
    JUNK,        /* no TLS */
    STORM_KINDS,
};

#define STORM_THREADS 16

struct storm {
    int port;
    unsigned total;
    unsigned kinds;                 /* those below */
    struct ssl_session_st *session; /* with which good ones try to resume, or NULL; borrowed */
    atomic_uint next;
    atomic_uint came[STORM_KINDS];
    atomic_uint served;
    uint8_t hello[FLOOD_HELLO_MAX];
    size_t hello_n;
    pthread_t threads[STORM_THREADS];
};

/* TOTAL clients of the first KINDS kinds on listener "edge", and goes on. Owner: the caller, by storm_free(). */
struct storm *storm_begin(const struct weir *weir, unsigned total, unsigned kinds,
                          struct ssl_session_st *session);
/* Waits until COUNT have begun. */
void storm_wait_for(struct storm *storm, unsigned count);
/* No further client begins. */
void storm_cut(struct storm *storm);
/* Waits until all have ended. */
void storm_end(struct storm *storm);
void storm_free(struct storm *storm);
unsigned storm_came(const struct storm *storm, enum storm_kind kind);
/* Those who wanted an answer. */
unsigned storm_good(const struct storm *storm);

#endif
