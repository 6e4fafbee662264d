/* weir with a plain and a TLS listener before one scripted origin: what most end-to-end tests stand on. */
#ifndef TEST_SUPPORT_STAGE_H
#define TEST_SUPPORT_STAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "support/origin.h"
#include "support/peer.h"
#include "support/script.h"
#include "support/weir.h"

/* Parts of the configuration, in flow style; NULL: nothing. One worker, so that there is one pool of upstream connections. */
struct stage_options {
    const char *listener; /* "timeouts: {inactivity: 1s}", of either listener */
    const char *routes;   /* before the one that leads to the origin: "{match: ..}, {..}" */
    const char *cluster;  /* "timeouts: {response: 1s}", of the origin's */
    const char *clusters; /* more of them: "{name: ..}, {..}" */
    void (*serve)(struct peer *, void *); /* NULL: the script */
    void *arg;
};

struct stage {
    struct script *script;
    struct origin *origin;
    struct weir *weir;
    int plain; /* ports */
    int tls;
};

struct stage *stage_start(const struct stage_options *options); /* OPTIONS may be NULL */
void stage_stop(struct stage *stage);

/* Never NULL. */
struct peer *stage_connect(const struct stage *stage, bool tls);
/* Writes N bytes of REQUEST (0: a string) and reads the answer. Owner of the reply: the caller. */
struct reply stage_ask(struct peer *peer, const char *request, size_t n);
/* As above, over a new plain connection, for the status alone. */
int stage_status(const struct stage *stage, const char *request);
/* True when no byte comes any more and the connection is closed in good order. */
bool stage_is_over(struct peer *peer);
/* Sends a good request, which must be the next that the origin sees: nothing else was on its way there. */
void stage_fence(struct stage *stage);
long stage_now_ms(void);

/* ---- tables ---- */

struct stage_case {
    const char *name;
    const char *bytes;
    size_t n;
    int status;
};
#define STAGE_CASE(name, status, bytes)        \
    {                                          \
        name, bytes, sizeof(bytes) - 1, status \
    }

/* Each case is a request that must be answered with its status and the end of the connection, over plain and TLS, without a
 * byte to the origin, and without what follows it in the same write ever taken for a request. */
void stage_expect_refused(struct stage *stage, const struct stage_case *cases, size_t count);
/* Each case is what follows the first chunk of a request that the origin has begun to read: answered as above, and the
 * connection to the origin is closed with the request incomplete. */
void stage_expect_content_refused(struct stage *stage, const struct stage_case *cases,
                                  size_t count);
/* Each case is what an origin answers to a GET: the client gets the case's status from weir, with Proxy-Status, and nothing of
 * the origin's bytes; the connection to the origin is closed. */
void stage_expect_bad_response(struct stage *stage, const struct stage_case *cases, size_t count);

#endif
