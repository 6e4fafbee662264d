/* A byte stream to a peer, plain or TLS, client or upstream side alike.
 *
 * A transport is a descriptor, one event, an SSL* or none, and, only while bytes are pending, a pipeline (output the socket
 * would not take, plaintext gathered for the next record, input the owner has not taken). An idle one has no pipeline.
 *
 * Writes are gathered and sent at the end of the loop turn, several small pieces in one record and several records in
 * one system call. Reads come from per-worker scratch buffers straight to the owner.
 *
 * Owner: whoever made it; wr_transport_close() ends it, silences callbacks at once and can be called twice; memory returns
 * at the end of the loop turn. Owners must not touch it after close. Not for threads. */
#ifndef WR_TRANSPORT_TRANSPORT_H
#define WR_TRANSPORT_TRANSPORT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "io/bytes.h"
#include "io/loop.h"
#include "io/mailbox.h"
#include "io/socket.h"
#include "transport/signer.h"
#include "transport/tls.h"

/* What all transports of one worker share: loop, chunk pool, scratch buffers. */
struct wr_transport_host;

struct wr_transport_host_options {
    uint64_t buffer_shrink_after; /* microseconds: wr_chunk_pool_init() */
    size_t output_high; /* bytes; above it a writer should wait for writable(). 0: 128 KiB */
    size_t output_low;  /* writable() is called when output falls to it. 0: 32 KiB */
    struct wr_signers *signers; /* lent; NULL: all signatures are made on the loop's thread */
    struct wr_mailbox *mailbox; /* of the loop; what SIGNERS answer by */
    _Atomic uint64_t
        *signed_here; /* counts signatures made on the loop's thread; NULL: nobody does */
};
WR_MUST_USE enum wr_err wr_transport_host_new(struct wr_loop *loop,
                                              const struct wr_transport_host_options *options,
                                              struct wr_transport_host **out);
void wr_transport_host_free(struct wr_transport_host *host); /* after all its transports */
struct wr_loop *wr_transport_host_loop(struct wr_transport_host *host);
struct wr_chunk_pool *wr_transport_host_chunks(struct wr_transport_host *host);

struct wr_transport;

enum wr_transport_state {
    WR_TRANSPORT_CONNECTING, /* TCP connect in progress */
    WR_TRANSPORT_SILENT,     /* TLS server, not one byte yet */
    WR_TRANSPORT_HANDSHAKE, /* TLS, either side; a server's SSL* is made when gate 1 lets its client in */
    WR_TRANSPORT_OPEN,
    WR_TRANSPORT_ENDED,  /* our end sent or on its way: wr_transport_end() was called */
    WR_TRANSPORT_FAILED, /* closed() was called; only wr_transport_close() is left */
};

/* The owner's verdict on a ClientHello (gate 1). */
enum wr_gate_verdict { WR_GATE_ADMIT, WR_GATE_WAIT, WR_GATE_REFUSE };

/* How a connection is turned away before it is open. ALERT: what the peer sent is drained, then a fatal TLS alert, then
 * FIN, so that the alert is not erased by a reset. */
enum wr_refuse_with { WR_REFUSE_RESET, WR_REFUSE_CLOSE, WR_REFUSE_ALERT };

/* Called on the loop's thread, never from within a call of the owner unless said. A NULL entry is not called. Every
 * callback may close the transport. */
struct wr_transport_events {
    /* TLS server, SILENT: bytes have come; handshaking begins unless this refuses or closes. */
    void (*first_byte)(void *owner);
    /* TLS server, gate 1, once: the ClientHello is whole, or is none that the library would take (then the facts are empty, and
     * the library will say so). WAIT: paused until wr_transport_admit() or _refuse(). REFUSE: the owner has called or will call
     * wr_transport_refuse(). */
    enum wr_gate_verdict (*client_hello)(void *owner, const struct wr_client_hello *hello);
    /* Connected, and the handshake is done. Not called for a plain accepted transport, which is OPEN when made. */
    void (*established)(void *owner);
    /* Bytes in order, in pieces of any size. Returns how many were taken; fewer than N only after wr_transport_pause():
     * the rest is kept and offered again after the resume. */
    size_t (*readable)(void *owner, const uint8_t *p, size_t n);
    /* The peer's end of stream. CLEAN: FIN on a plain stream, close_notify on TLS. Writing is still possible. Called after
     * all bytes were taken, not while paused. */
    void (*read_end)(void *owner, bool clean);
    /* Output has fallen to the low mark after having been above the high mark. */
    void (*writable)(void *owner);
    /* After wr_transport_end(): all output and the FIN are with the kernel. */
    void (*flushed)(void *owner);
    /* Broken: nothing can be read or written any more. DETAIL: e.g. the TLS alert's name; "" = none; borrowed. */
    void (*closed)(void *owner, enum wr_err why, const char *detail);
};

/* Where bytes on the wire are counted; of the thread that owns the metrics block. Either may be NULL. */
struct wr_transport_counters {
    _Atomic uint64_t *received;
    _Atomic uint64_t *sent;
};

/* Takes over FD, a connected socket. TLS NULL: plain, OPEN at once; else SILENT. TLS is retained. */
WR_MUST_USE enum wr_err wr_transport_accept(struct wr_transport_host *host, int fd,
                                            struct wr_tls_server *tls,
                                            struct wr_transport_counters counters,
                                            const struct wr_transport_events *events, void *owner,
                                            struct wr_transport **out);
/* Starts to connect; established() or closed() follows, never from within this call. TLS NULL: plain. The connect deadline
 * is the owner's. */
WR_MUST_USE enum wr_err wr_transport_connect(struct wr_transport_host *host,
                                             const struct wr_address *address,
                                             struct wr_tls_client *tls,
                                             struct wr_transport_counters counters,
                                             const struct wr_transport_events *events, void *owner,
                                             struct wr_transport **out);
/* As a TLS client (or plain, TLS NULL) on FD, already connected: for tests over a socket pair. established() follows. */
WR_MUST_USE enum wr_err wr_transport_adopt_client(struct wr_transport_host *host, int fd,
                                                  struct wr_tls_client *tls,
                                                  struct wr_transport_counters counters,
                                                  const struct wr_transport_events *events,
                                                  void *owner, struct wr_transport **out);

/* Hands callbacks to another owner (downstream to its codec, and back). From within readable(): what that call leaves is offered to
 * the new owner at once. After flushed() was called: the new owner hears it too. */
void wr_transport_set_events(struct wr_transport *transport,
                             const struct wr_transport_events *events, void *owner);

enum wr_transport_state wr_transport_state(const struct wr_transport *transport);
int wr_transport_fd(const struct wr_transport *transport);
/* Bytes on the wire so far, of this transport. */
uint64_t wr_transport_bytes_received(const struct wr_transport *transport);
uint64_t wr_transport_bytes_sent(const struct wr_transport *transport);
/* False for plain ones or before the handshake is done. */
bool wr_transport_tls_info(const struct wr_transport *transport, struct wr_tls_info *info);

/* ---- gate ---- */
/* SILENT, just accepted: reads at once what may have come already, instead of when the loop says so. Of callbacks client_hello() and
 * closed() may come from within this call, which is made from the loop's context only (a listener's accepted()). */
void wr_transport_look(struct wr_transport *transport);
/* Goes on with a handshake paused by WAIT. */
void wr_transport_admit(struct wr_transport *transport);
/* Before OPEN only. RESET and CLOSE close at once (as wr_transport_close()). ALERT drains, says so and ends: flushed()
 * follows, the owner then waits for the peer's end under its own deadline and closes. */
void wr_transport_refuse(struct wr_transport *transport, enum wr_refuse_with how);

/* From within readable(), by who has looked and hands over: N bytes of earlier calls, to be offered again before all else. This
 * call then takes nothing. */
void wr_transport_put_back(struct wr_transport *transport, const void *p, size_t n);

/* ---- reading ---- Reasons are bits; reading goes on when none is left (in a later turn, never from within the call). */
#define WR_PAUSE_BUSY 1u  /* the codec is not ready for the next message */
#define WR_PAUSE_FULL 2u  /* content buffer at its limit */
#define WR_PAUSE_OWNER 4u /* whoever owns the connection */
void wr_transport_pause(struct wr_transport *transport, unsigned reason);
void wr_transport_resume(struct wr_transport *transport, unsigned reason);
/* From now on input is read and thrown away (lingering close, RFC 9112 section 9.6): read_end() or closed() still come. */
void wr_transport_discard_input(struct wr_transport *transport);
/* True when read_end() has been called. */
bool wr_transport_read_ended(const struct wr_transport *transport);
/* True when nothing unread is known: no kept input, no unprocessed plaintext, and the socket has said nothing new. */
bool wr_transport_is_quiet(struct wr_transport *transport);

/* ---- writing ---- sent at the end of the turn, in order */
void wr_transport_write(struct wr_transport *transport, const void *p, size_t n);
/* Moves up to N bytes from the front of BYTES (same worker's pool), returns how many (all that were asked for). */
size_t wr_transport_write_bytes(struct wr_transport *transport, struct wr_bytes *bytes, size_t n);
/* Bytes written by the owner and not yet with the kernel. */
size_t wr_transport_output(const struct wr_transport *transport);
/* How many more bytes fit under the high mark; 0 = wait for writable(). */
size_t wr_transport_output_room(const struct wr_transport *transport);
/* Sends now what is gathered, instead of at the end of the turn. */
void wr_transport_flush(struct wr_transport *transport);

/* ---- ending ---- */
/* After the output: close_notify (TLS) and FIN. Reading goes on. Can be called twice. */
void wr_transport_end(struct wr_transport *transport);
/* Now, with what is unsent thrown away. NULL is fine. */
void wr_transport_close(struct wr_transport *transport);
/* As close, by RST: the peer must not take what it got for the whole. */
void wr_transport_reset(struct wr_transport *transport);
/* For who uses the transport but does not own it: a close is a reset from now on / no longer. */
void wr_transport_spoil(struct wr_transport *transport);
void wr_transport_unspoil(struct wr_transport *transport);

#endif
