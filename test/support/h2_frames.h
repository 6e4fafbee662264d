/* HTTP/2 with weir, frame by frame, played by a test: what is sent is any frame of h2_wire.h, what comes is a log of them. */
#ifndef TEST_SUPPORT_H2_FRAMES_H
#define TEST_SUPPORT_H2_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "support/h2_wire.h"
#include "support/peer.h"

struct h2_peer {
    struct peer *peer;
    struct h2_reader *reader;
    struct text out; /* what h2_peer_send() sends */
    struct text log; /* what has come (h2_reader_read()) */
    enum peer_end end;
};

/* Connects by ALPN or with prior knowledge. The second has also said the preface and SETTINGS ("id=value" pairs ended by id 0, NULL: of
 * nothing), and has heard and acknowledged weir's. Owner: the caller. */
struct h2_peer *h2_peer_connect(int port, bool tls);
struct h2_peer *h2_peer_open(int port, bool tls, const uint32_t *settings);
void h2_peer_free(struct h2_peer *h2);

/* Sends `out`; it may be refused on its way. */
void h2_peer_send(struct h2_peer *h2);
/* Sends `out`, and reads until the log has TEXT in it; false: the connection ended or was silent before that. */
bool h2_peer_hears(struct h2_peer *h2, const char *text);
/* Sends `out`, and reads what comes next; false: the connection ended or was silent. */
bool h2_peer_reads(struct h2_peer *h2);
/* Sends `out`, and reads until the answer to a PING comes: everything sent before has been read. */
bool h2_peer_settles(struct h2_peer *h2);
/* Sends `out`, and reads to the end; true when it is a GOAWAY with CODE as the last word, and a close in good order. */
bool h2_peer_is_over(struct h2_peer *h2, unsigned code);
/* What has come so far, for messages; never NULL. */
const char *h2_peer_log(const struct h2_peer *h2);

/* ---- requests: appended to `out` ---- */

/* HEADERS of METHOD, PATH, the scheme and an authority, and MORE fields ("name: value\n..."). */
void h2_peer_ask(struct h2_peer *h2, uint32_t id, unsigned flags, const char *method,
                 const char *path, const char *more);
/* A GET with END_STREAM. */
void h2_peer_get(struct h2_peer *h2, uint32_t id, const char *path);

#endif
