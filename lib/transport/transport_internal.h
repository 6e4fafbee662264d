/* Inside of transports, for this layer only. */
#ifndef WR_TRANSPORT_TRANSPORT_INTERNAL_H
#define WR_TRANSPORT_TRANSPORT_INTERNAL_H

#include <sys/uio.h>

#include <openssl/ssl.h>

#include "base/slab.h"
#include "transport/hello.h"
#include "transport/tls_internal.h"
#include "transport/transport.h"

/* What one system call brings at most, and what the library makes of it: a whole record more, its begin may have come before. */
#define WR_RECEIVED_SIZE ((size_t)64 * 1024)
#define WR_PLAIN_SIZE (WR_RECEIVED_SIZE + 32 * 1024)
#define WR_SEALED_SIZE ((size_t)256 * 1024)
/* No record and no handshake message flight that goes with it is larger. */
#define WR_SEAL_ROOM ((size_t)20 * 1024)

/* What has come of a ClientHello that is not whole, or of one that waits at gate 1, and all behind it: as large as the bytes are,
 * where a chunk of the pipeline would be many times that. */
struct wr_kept_hello {
    struct wr_hello_progress progress;
    size_t length;
    size_t room;
    uint8_t bytes[];
};

/* Bytes pending on a transport. Exists only while one of the queues holds some. */
struct wr_pipeline {
    struct wr_pipeline *next; /* free list */
    struct wr_bytes out;      /* written by the owner, not yet sealed or sent */
    struct wr_bytes sealed;   /* ciphertext that the socket would not take */
    struct wr_bytes cipher;   /* received, not yet given to the library */
    struct wr_bytes input;    /* to be taken by the owner, before CIPHER */
};

struct wr_transport_host {
    struct wr_loop *loop;
    struct wr_chunk_pool chunks;
    size_t output_high;
    size_t output_low;
    struct wr_signers *signers;
    struct wr_mailbox *mailbox;
    _Atomic uint64_t *signed_here;
    struct wr_pipeline *free_pipelines;
    size_t free_pipeline_count;
    struct wr_slab transports;
    struct wr_slab codecs;    /* what is lent */
    bool freed;               /* by its owner; goes with its last transport */
    struct wr_list gathering; /* transports with output for the end of the turn, oldest first */
    size_t gathering_count;
    /* Scratch of whichever transport works just now. */
    const uint8_t *feed; /* ciphertext that the library may read, rest of RECEIVED */
    size_t feed_length;
    size_t sealed_length;
    uint8_t *received;
    uint8_t *plain;
    uint8_t *sealed;
};

/* Where a TLS server's handshake can stand still: at gate 1 for its owner, later at gate 3 for a signature. */
enum wr_gate_state {
    WR_GATE_READING, /* the ClientHello is not whole: there is no SSL */
    WR_GATE_WAITING, /* nothing happens until the owner speaks: there is no SSL */
    WR_GATE_PASSED,  /* from here on cryptography is spent */
    WR_GATE_SIGNING, /* nothing happens until a signer has answered */
    WR_GATE_SIGNED,  /* it has, the handshake goes on in the task; then PASSED */
};

/* How far reading has come. */
enum wr_input_state {
    WR_INPUT_OPEN,
    WR_INPUT_CLEAN,  /* ended; the owner is told when it has taken everything */
    WR_INPUT_CUT,    /* the same, without close_notify */
    WR_INPUT_BROKEN, /* the same, but closed() is what it is told */
    WR_INPUT_TOLD,
};

/* How far writing has come. */
enum wr_output_state {
    WR_OUTPUT_OPEN,
    WR_OUTPUT_ENDING,   /* wr_transport_end() was called */
    WR_OUTPUT_NOTIFIED, /* close_notify is sealed */
    WR_OUTPUT_FIN,      /* FIN is with the kernel */
    WR_OUTPUT_TOLD,     /* flushed() was called */
    WR_OUTPUT_BROKEN,   /* the socket takes no more; what is left of the input is still read */
};

/* Thousands of them may be idle: every byte counts. */
struct wr_transport {
    struct wr_io io;
    struct wr_transport_host *host;
    const struct wr_transport_events *events;
    void *owner;
    SSL *ssl;
    struct wr_pipeline *pipeline;
    struct wr_kept_hello *hello;          /* or NULL */
    union {                               /* NULL: plain */
        struct wr_tls_server *tls_server; /* ACCEPTED */
        struct wr_tls_client *tls_client; /* else */
    };
    struct wr_signing *signing; /* ordered, or answered and not yet used */
    struct wr_transport_counters counters;
    uint64_t received;
    uint64_t sent;
    struct wr_task output_task; /* end of turn: sends, tells */
    struct wr_task input_task;  /* reads on */
    union {
        struct wr_list gathering;  /* in the host's list, or in none; */
        struct wr_garbage garbage; /* CLOSED: waits for the end of the turn */
    };
    const char *fail_detail; /* static */
    uint32_t handshake_usec;
    unsigned paused; /* WR_PAUSE_ bits */
    unsigned ready;  /* WR_IO_ bits: what the socket is known to be good for */
    enum wr_err fail_err : 8;
    enum wr_transport_state phase : 8; /* CONNECTING to OPEN, FAILED; ENDED is in OUTPUT */
    enum wr_gate_state gate : 8;
    enum wr_input_state input : 8;
    enum wr_output_state output : 8;
    bool accepted; /* the peer is a client */
    bool closed;
    bool spoilt;     /* what the peer got is not the whole */
    bool discarding; /* input is thrown away */
    bool put_back;   /* by the owner, in the call of this moment */
    bool over_high;  /* output was above the high mark: writable() is due */
};

/* ---- transport.c ---- */
struct wr_pipeline *wr_transport_pipeline(
    struct wr_transport *transport); /* made when there is none */
void wr_transport_settle(
    struct wr_transport *transport); /* gives the pipeline back when it is empty */
/* Broken: closed(WHY) follows from the output task. DETAIL is static. */
void wr_transport_fail(struct wr_transport *transport, enum wr_err why, const char *detail);
/* The same, but what an upstream has sent before is handed to the owner first. */
void wr_transport_fail_after_input(struct wr_transport *transport, enum wr_err why,
                                   const char *detail);
/* Connected, handshake done. Loop context: calls the owner. */
void wr_transport_established(struct wr_transport *transport);

static inline bool wr_transport_is_live(const struct wr_transport *transport)
{
    return !transport->closed && transport->phase != WR_TRANSPORT_FAILED;
}

static inline bool wr_transport_stands_still(const struct wr_transport *transport)
{
    return transport->gate == WR_GATE_WAITING || transport->gate == WR_GATE_SIGNING;
}

/* The handshake goes on though nothing has come. */
static inline bool wr_transport_goes_on(const struct wr_transport *transport)
{
    return transport->gate == WR_GATE_SIGNED;
}

/* Not one that was refused by alert: its bytes are bytes. */
static inline bool wr_transport_is_tls(const struct wr_transport *transport)
{
    return transport->ssl != NULL || transport->phase == WR_TRANSPORT_SILENT ||
           transport->phase == WR_TRANSPORT_HANDSHAKE;
}

/* ---- transport_gate.c ---- */
/* Loop context, gate READING: reads the ClientHello in what is fed, and asks the owner when it is whole. True: passed, the
 * library goes on. False: all that is fed has been kept, or nobody needs it any more. */
bool wr_transport_gate_read(struct wr_transport *transport);
void wr_transport_gate_forget(struct wr_transport *transport); /* what is kept of the hello */

/* ---- transport_read.c ---- */
/* Loop context: reads, hands up and goes on until there is nothing or it may not. */
void wr_transport_read(struct wr_transport *transport);
/* Asks for wr_transport_read() in the next turn when it has something to do. */
void wr_transport_read_later(struct wr_transport *transport);
bool wr_transport_may_read(const struct wr_transport *transport);
/* Bytes that are here but not taken. */
bool wr_transport_has_kept(const struct wr_transport *transport);
/* Hands N bytes up; what is not taken is kept. */
void wr_transport_deliver(struct wr_transport *transport, const uint8_t *p, size_t n);

/* ---- transport_write.c ---- */
void wr_transport_stop_gathering(struct wr_transport *transport); /* can be called twice */
/* Seals and sends what it can. Never calls the owner. */
void wr_transport_push(struct wr_transport *transport);
/* Loop context: tells the owner what came of it. */
void wr_transport_tell_output(struct wr_transport *transport);
/* The scratch goes to the socket, what it does not take to the pipeline. */
void wr_transport_send_sealed(struct wr_transport *transport);

/* ---- transport_tls.c ---- */
/* Loop context: gives the library what is fed: goes on with the handshake, then decrypts and hands up. Makes the SSL when there
 * is none. */
void wr_transport_tls_advance(struct wr_transport *transport);
/* Seals up to N bytes in one record, returns how many; 0: failed. */
size_t wr_transport_tls_seal(struct wr_transport *transport, const void *p, size_t n);
void wr_transport_tls_notify(struct wr_transport *transport); /* seals close_notify */
/* Puts a fatal internal_error alert into the output: the last of TLS, the SSL is freed. */
void wr_transport_tls_alert(struct wr_transport *transport);
/* Nobody waits for the signature any more. Can be called twice. */
void wr_transport_tls_stop_signing(struct wr_transport *transport);

#endif
