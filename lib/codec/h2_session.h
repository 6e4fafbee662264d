/* What both HTTP/2 codecs stand on: an nghttp2 session on a transport. It feeds nghttp2 what comes, writes what nghttp2 wants
 * sent once a turn, counts what the peer wastes, and tells the codec what happens to streams.
 *
 * Owner: the codec that embeds it. nghttp2 must not be entered from within its own callbacks, so whatever happens there
 * only submits frames; they are written by a task at the end of the turn, when the codec may end things as well. */
#ifndef WR_CODEC_H2_SESSION_H
#define WR_CODEC_H2_SESSION_H

#include <nghttp2/nghttp2.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/err.h"
#include "codec/h2.h"
#include "codec/h2_arena.h"
#include "codec/h2_budget.h"
#include "codec/h2_head.h"
#include "io/loop.h"
#include "transport/transport.h"

struct wr_h2_session;
struct wr_h2_stream;

/* The codec implements. All but over() and settled() are called from within nghttp2. */
struct wr_h2_session_events {
    /* A peer's stream begins with the header block that comes now. NULL: it is refused, or nobody cares. Server only. */
    struct wr_h2_stream *(*begun)(struct wr_h2_session *session, int32_t id);
    /* The header block in STREAM's `block` is complete: a head or trailers; LAST: END_STREAM was on it. */
    void (*head)(struct wr_h2_stream *stream, bool last);
    /* N bytes have come that nobody wants; the stream's window is not given back. May be NULL. */
    void (*unwanted)(struct wr_h2_stream *stream, size_t n);
    /* END_STREAM has come, and the message knows. May be NULL. */
    void (*got_end)(struct wr_h2_stream *stream);
    /* GOAWAY with the last stream id there is has been written. May be NULL. */
    void (*sent_notice)(struct wr_h2_session *session);
    /* END_STREAM has been written. */
    void (*sent_end)(struct wr_h2_stream *stream);
    /* nghttp2 has forgotten the stream: both sides have ended, or one has reset it with CODE. */
    void (*closed)(struct wr_h2_stream *stream, uint32_t code);
    /* SETTINGS, GOAWAY or PING has come. */
    void (*frame)(struct wr_h2_session *session, const nghttp2_frame *frame);
    /* The budget of KIND is used up; the session ends. */
    void (*flooded)(struct wr_h2_session *session, enum wr_flood kind);
    /* The last GOAWAY is with the transport, or the peer's was the last: nothing more is read or written. */
    void (*over)(struct wr_h2_session *session);
    /* The end of a turn in which something happened. */
    void (*settled)(struct wr_h2_session *session);
    /* It sleeps no more. */
    void (*woken)(struct wr_h2_session *session);
};

struct wr_h2_session {
    nghttp2_session *ng;     /* NULL while it sleeps: wr_h2_session_ng() */
    nghttp2_session *asleep; /* then it is this */
    struct wr_transport *transport;
    struct wr_loop *loop;
    const struct wr_h2_options *options;
    const struct wr_h2_session_events *events;
    struct wr_h2_limits limits;   /* of heads that come */
    struct wr_list streams;       /* struct wr_h2_stream, those with an exchange */
    unsigned count;               /* of them */
    struct wr_bytes passing;      /* from a message to the transport; empty between calls */
    struct wr_task task;          /* writes, then settles */
    struct wr_h2_stream *fields;  /* whose header block is on its way, or NULL */
    struct wr_h2_arena arena;     /* all that nghttp2 has allocated, and the */
    struct wr_h2_bucket *buckets; /* WR_FLOOD__COUNT */
    uint8_t *frame_buffer;        /* shared; NULL: nghttp2 has one of its own */
    size_t stream_window;         /* that SETTINGS gave each stream */
    size_t extra;                 /* bytes that windows of streams have grown by, in all */
    unsigned probe;               /* for h2_window.c: counts its PINGs and their answers */
    unsigned pardons;             /* so many frames of streams that are over are not counted */
    bool prioritised; /* the header block on its way is of a stream the peer has given a priority */
    bool server;
    bool entered;    /* nghttp2 is on the stack */
    bool heard;      /* anything has come */
    bool greeted;    /* the peer's SETTINGS have come */
    bool ending;     /* a GOAWAY that ends it is on its way: no stream matters any more */
    bool closed;     /* nothing is called any more */
    enum wr_err err; /* why it must end; WR_OK so far */
};

/* SERVER: faces a client. The other members but LIMITS are for the session alone. */
void wr_h2_session_init(struct wr_h2_session *session, bool server, struct wr_transport *transport,
                        struct wr_loop *loop, const struct wr_h2_options *options,
                        const struct wr_h2_session_events *events);
/* What nghttp2 is to call (h2_frames.c). Owner: the caller. */
nghttp2_session_callbacks *wr_h2_callbacks_new(void);
/* Silences at once; its memory goes with wr_h2_session_free(), when no nghttp2 function is on the stack. */
void wr_h2_session_close(struct wr_h2_session *session);
void wr_h2_session_free(struct wr_h2_session *session);

/* Its memory is compressed until something is done with it: bytes, or anything that needs nghttp2. False: nothing was done, it is at
 * work. */
WR_MUST_USE bool wr_h2_session_sleep(struct wr_h2_session *session);
static inline bool wr_h2_session_sleeps(const struct wr_h2_session *session)
{
    return session->asleep != NULL;
}
nghttp2_session *wr_h2_session_wake(struct wr_h2_session *session);
/* The one way to nghttp2: wakes it if it sleeps. */
static inline nghttp2_session *wr_h2_session_ng(struct wr_h2_session *session)
{
    return WR_LIKELY(session->ng != NULL) ? session->ng : wr_h2_session_wake(session);
}

/* The first SETTINGS: STREAM_WINDOW bytes a stream, and the connection's window. */
void wr_h2_session_greet(struct wr_h2_session *session, size_t stream_window);

/* Bytes from the transport. */
void wr_h2_session_receive(struct wr_h2_session *session, const uint8_t *p, size_t n);
/* Something is to be written, or to be settled. */
void wr_h2_session_later(struct wr_h2_session *session);
/* Writes at once, as much as there is room for. Nothing happens from within nghttp2. */
void wr_h2_session_write(struct wr_h2_session *session);

/* GOAWAY with CODE as the last word, with all streams up to the last that was seen; over() follows. */
void wr_h2_session_end(struct wr_h2_session *session, uint32_t code);
/* The same, all at once, even if the transport has no room; what was queued before, but for content, is said first (nghttp2 forgets
 * RST_STREAM when a session ends). Nothing is said when it is closed, or from within nghttp2. */
void wr_h2_session_part(struct wr_h2_session *session, uint32_t code);
/* The same as wr_h2_session_end(), because of what the peer did. */
void wr_h2_session_fail(struct wr_h2_session *session, enum wr_err err);
/* The peer did something of KIND: counts against its budget. */
void wr_h2_session_charge(struct wr_h2_session *session, enum wr_flood kind);
/* The session ends because of a flood of KIND. */
void wr_h2_session_flooded(struct wr_h2_session *session, enum wr_flood kind);

#endif
