/* Threads that make the signatures of TLS handshakes, so that no event loop stands still for one (an RSA signature takes 0.5 to
 * 4 ms). One pool a process, lent to the workers' transport hosts; no lock is held while a signature is made.
 *
 * A signing is what a loop has ordered: owned by that loop's thread from wr_signers_submit() to wr_signing_drop(), which may come
 * at any time and from then on nothing is told. Who orders and who signs share only the queue.
 *
 *   made -> [submit and drop, by any number of loops] -> stopped (threads joined) -> loops freed -> freed
 *
 * Owner of the pool: whoever made it. */
#ifndef WR_TRANSPORT_SIGNER_H
#define WR_TRANSPORT_SIGNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/err.h"
#include "io/mailbox.h"
#include "observe/metrics.h"

struct evp_pkey_st; /* EVP_PKEY */
struct wr_signers;
struct wr_signing;

struct wr_signers_options {
    unsigned threads; /* 0: no pool, every signature is made where it is needed */
    bool
        all_keys; /* false: RSA keys only; a P-256 signature costs less than the way to another thread and back */
    size_t queue; /* signings that may wait; 0: 256 a thread */
};

/* *OUT is NULL when no threads are wanted. Each thread has a block of metrics of its own. */
WR_MUST_USE enum wr_err wr_signers_new(const struct wr_signers_options *options,
                                       struct wr_metrics_registry *registry,
                                       struct wr_signers **out);
/* Ends and joins the threads. What is still in the queue stays there until it is dropped; submitting fails from now on. NULL is fine. */
void wr_signers_stop(struct wr_signers *signers);
/* Stopped, and all signings dropped. NULL is fine. */
void wr_signers_free(struct wr_signers *signers);

/* What is to be signed. KEY is referenced and INPUT copied where that is needed; ALGORITHM is one of SSL_SIGN_*. */
struct wr_signature_order {
    struct evp_pkey_st *key;
    uint16_t algorithm;
    const uint8_t *input;
    size_t input_length;
};

/* Makes the signature on this thread; false: it cannot be made, or needs more than ROOM bytes. */
bool wr_sign(const struct wr_signature_order *order, uint8_t *out, size_t room, size_t *length);

/* DONE is called on the loop of MAILBOX, never from within this call. NULL: the pool is not for such keys, is stopped or has its
 * queue full, and the caller signs for itself. SIGNERS may be NULL. */
struct wr_signing *wr_signers_submit(struct wr_signers *signers,
                                     const struct wr_signature_order *order,
                                     struct wr_mailbox *mailbox, void (*done)(void *owner),
                                     void *owner);
/* After DONE: the signature; false as for wr_sign(). */
bool wr_signing_result(const struct wr_signing *signing, uint8_t *out, size_t room, size_t *length);
/* Gives it up, before or after DONE: one that waits is not made at all. NULL is fine. */
void wr_signing_drop(struct wr_signing *signing);

#endif
