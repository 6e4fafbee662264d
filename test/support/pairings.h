/* All pairings of HTTP versions: a client of either before weir, which asks an HTTP/1.1 origin itself, or over HTTP/2 by way of another
 * weir: with prior knowledge, or over TLS with a certificate that is checked, where ALPN chooses. */
#ifndef TEST_SUPPORT_PAIRINGS_H
#define TEST_SUPPORT_PAIRINGS_H

#include <stdbool.h>
#include <stddef.h>

#include "support/h2_frames.h"
#include "support/origin.h"
#include "support/weir.h"

struct pairing {
    const char *name;
    bool h2; /* the client's */
    const char
        *path; /* decides what the upstream speaks, and so does the host, when there is no path */
    const char *host;
    const char *curl; /* the option for it */
};

#define PAIRINGS 6
#define PLAIN_PAIRINGS 4 /* the first; the others are over TLS */
extern const struct pairing pairings[PAIRINGS];

struct pairings_world {
    struct origin *origin;
    struct weir *inner; /* before the origin; listeners "mid" and, with TLS, "midtls" */
    struct weir *outer; /* its listener "edge" is what clients come to */
};

void pairings_start(struct pairings_world *world, void (*serve)(struct peer *, void *), void *arg);
/* The same with more of the outer weir's configuration, in flow style: of its listener, and of each of its clusters. */
void pairings_start_with(struct pairings_world *world, void (*serve)(struct peer *, void *),
                         void *arg, const char *listener, const char *cluster);
/* Expects that nothing is in flight or held any more, in either weir. */
void pairings_expect_rest(const struct pairings_world *world, const char *what);
void pairings_stop(struct pairings_world *world);

/* ---- one exchange, in the same words for both versions ---- */

enum pairing_content { PAIRING_NONE, PAIRING_LENGTH, PAIRING_UNKNOWN };

struct pairing_request {
    const char *method;
    enum pairing_content framing;
    const char *length; /* what is announced */
    const char *content;
    const char *trailer; /* "name: value", with PAIRING_UNKNOWN; NULL: none */
    bool unfinished;     /* more should come after the content, but does not */
    bool expects;        /* 100-continue, and waits for that before the content */
    bool asterisk;       /* the target is "*" */
};

struct pairing_client {
    struct peer *peer; /* HTTP/1.1 */
    struct h2_peer *h2;
    bool continued; /* HTTP/1.1: 100 has come before the content went */
};

/* A connection for one exchange; the second asks, the third waits for TEXT in the content of the response to it. */
struct pairing_client pairing_connect(const struct pairings_world *world,
                                      const struct pairing *pairing);
void pairing_ask(struct pairing_client *client, const struct pairing *pairing,
                 const struct pairing_request *request);
bool pairing_hears(struct pairing_client *client, const char *text);
/* Leaves in the middle: by a reset of the stream, or of the connection (a mere close could be that of a client which still listens). */
void pairing_leave(struct pairing_client *client);
void pairing_close(struct pairing_client *client);

struct pairing_seen {
    int status;          /* 0: none came */
    struct text interim; /* "103 " */
    struct text fields;  /* "name=value;", trailers not among them over HTTP/2 */
    struct text content;
    struct text trailers; /* as fields; over HTTP/1.1 they are among those */
    bool whole;           /* ended as it should, which a cut never looks like */
    bool
        refused; /* RST_STREAM(NO_ERROR), or the connection is closed: no more of the request, please */
};

/* The response, to its end or to where it was cut. Owner: the caller. */
struct pairing_seen pairing_see(struct pairing_client *client, const char *method);
void pairing_seen_free(struct pairing_seen *seen);

#endif
