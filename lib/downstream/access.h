/* Who may connect at all, and how often: lists of addresses, and rates that are charged at accept, before anything is spent. */
#ifndef WR_DOWNSTREAM_ACCESS_H
#define WR_DOWNSTREAM_ACCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "admission/admission.h"
#include "admission/rate.h"
#include "base/refusal.h"
#include "io/socket.h"

struct wr_access_options {
    const struct wr_cidr *deny; /* these never, */
    size_t deny_count;
    const struct wr_cidr *allow; /* and only these, when there are any */
    size_t allow_count;
    const struct wr_cidr
        *trusted; /* class `trusted` of the admission controller; no rate limits them */
    size_t trusted_count;
    unsigned source_bits_ipv4;  /* leading bits of a peer's address that make a source, 1 to 32 */
    unsigned source_bits_ipv6;  /* 1 to 64 */
    struct wr_rate connections; /* of the listener in this worker */
    struct wr_rate connections_per_source;
    struct wr_rate handshakes;
    struct wr_rate handshakes_per_source;
    uint64_t seed; /* unknown outside */
};

struct wr_access;

/* OPTIONS outlives the object. Owner: the caller. */
struct wr_access *wr_access_new(const struct wr_access_options *options);
void wr_access_free(struct wr_access *access); /* NULL is fine */

/* The source that PEER counts for. A unix socket's peers are one source. */
struct wr_admission_source wr_access_source(const struct wr_access *access,
                                            const struct wr_address *peer);
/* A connection from PEER, of SOURCE. False: REASON is DENIED or RATE_LIMITED. */
bool wr_access_connection(struct wr_access *access, const struct wr_address *peer,
                          const struct wr_admission_source *source, uint64_t now,
                          enum wr_refusal *reason);
/* A handshake of SOURCE, of which nothing has been computed yet. False: RATE_LIMITED. */
bool wr_access_handshake(struct wr_access *access, const struct wr_admission_source *source,
                         uint64_t now);

#endif
