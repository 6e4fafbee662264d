/* The ClientHello as bytes: whether all of it is here, and what it says, before there is any object of TLS. Pure, but for
 * wr_hello_peek(). What is called malformed here is for the TLS library to answer; what it would take and we do not (an empty
 * record, an alert in the middle) costs the client its claim, not its connection. */
#ifndef WR_TRANSPORT_HELLO_H
#define WR_TRANSPORT_HELLO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/tls.h"

/* The longest message, with its header of four bytes: BoringSSL takes no longer ones. */
#define WR_HELLO_MESSAGE_MOST ((size_t)(4 + 16384))
/* Bytes on the wire after which nobody waits for a next record: a hello in very small ones is held no further. */
#define WR_HELLO_WIRE_MOST ((size_t)32 * 1024)

enum wr_hello_result {
    WR_HELLO_NEED_MORE,
    WR_HELLO_WHOLE,
    WR_HELLO_NOT_TLS, /* the first byte says so */
    WR_HELLO_MALFORMED,
};

/* How far records (RFC 8446 section 5.1) have been read: bytes that come one by one are looked at once. Starts as zeros. */
struct wr_hello_progress {
    uint32_t wire;    /* bytes of the records that are whole */
    uint32_t message; /* bytes of the handshake message in them */
    uint32_t head;    /* the first four of those: type and length */
};

/* P holds the N bytes received so far, from the first on. *OUT is empty unless WHOLE; its slices point into P, or into SCRATCH
 * (WR_HELLO_MESSAGE_MOST bytes, or N if that is less) when the message is split over records. Bytes behind are not
 * looked at. */
enum wr_hello_result wr_hello_read(struct wr_hello_progress *progress, const uint8_t *p, size_t n,
                                   uint8_t *scratch, struct wr_client_hello *out);

enum wr_hello_claim {
    WR_CLAIM_UNKNOWN, /* nothing has come yet, or too little */
    WR_CLAIM_FULL,
    WR_CLAIM_RESUME,
    WR_CLAIM_NOT_TLS,
};

/* What the first bytes on a just accepted socket claim; they stay there. TLS: who would be asked to resume (as in
 * wr_client_hello). *UNREAD: there are some, so that a mere close() sends RST (RFC 2525 section 2.17). */
enum wr_hello_claim wr_hello_peek(int fd, const struct wr_tls_server *tls, bool *unread);

#endif
