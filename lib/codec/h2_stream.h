/* One exchange on an HTTP/2 connection: what comes on the stream goes to one of its messages, what the other holds goes
 * out. Both codecs share this; heads, failures and endings are theirs. */
#ifndef WR_CODEC_H2_STREAM_H
#define WR_CODEC_H2_STREAM_H

#include "codec/h2_session.h"
#include "http/exchange.h"

/* README.md has the table of both together. */
enum wr_h2_in {
    WR_H2_IN_HEAD,     /* no final head yet */
    WR_H2_IN_HELD,     /* a tunnel was asked for: content waits in `early` until that is accepted */
    WR_H2_IN_OPEN,     /* content goes to the message */
    WR_H2_IN_UNWANTED, /* content is thrown away */
    WR_H2_IN_WHOLE,    /* END_STREAM has come */
};

enum wr_h2_out {
    WR_H2_OUT_HEAD,  /* no final head yet */
    WR_H2_OUT_OPEN,  /* content follows */
    WR_H2_OUT_WHOLE, /* END_STREAM is written */
};

/* Lives in the arena of its exchange. Owner: the session's list, until wr_h2_stream_forget(). */
struct wr_h2_stream {
    struct wr_list link;
    struct wr_h2_session *session;
    struct wr_exchange *exchange;
    struct wr_message *in;
    struct wr_message *out;
    int32_t id;
    enum wr_h2_in incoming;
    enum wr_h2_out outgoing;
    bool early_end;  /* END_STREAM came while HELD */
    bool deferred;   /* nghttp2 waits to be told of more content */
    bool tunnel;     /* accepted: content is unframed, and each side ends by itself */
    bool waiting;    /* for the peer's SETTINGS, before the request can go; client */
    bool head_sent;  /* a HEADERS frame of ours is with the transport */
    bool refused;    /* surely not processed; client */
    bool peer_reset; /* RST_STREAM has come */
    bool charged;    /* its reset has been counted */
    bool limited;    /* for h2_window.c: the peer has used its window up within a round trip, */
    bool judged;     /* whether it does has been looked at */
    bool shrinking;  /* the sink has stalled */
    bool failed;     /* for `why`, when its head is on the way; server */
    bool
        outlived; /* nghttp2 has forgotten it, the tunnel's last bytes are still passed on; server */
    enum wr_err why; /* it was reset for, WR_OK: nothing is known */
    unsigned interim_heads;
    uint64_t discard;     /* so many bytes of unwanted content may still come; server */
    uint64_t left;        /* of the outgoing content; UINT64_MAX: any */
    uint64_t sent_before; /* bytes on the wire when it was opened; client */
    unsigned misses;      /* for h2_window.c: how often it has not, in a row */
    unsigned probe;       /* which of the session's `came` belongs to */
    uint64_t came;
    int64_t kept_back;     /* bytes of the window that were not given back to make it smaller */
    uint64_t behind_since; /* when the sink was last seen to leave much where it is; WR_NEVER */
    struct wr_bytes early;
    struct wr_h2_block block;
};

#define WR_H2_ANY_LENGTH UINT64_MAX

/* In EXCHANGE's arena, on the list. */
struct wr_h2_stream *wr_h2_stream_new(struct wr_h2_session *session, struct wr_exchange *exchange,
                                      struct wr_message *in, struct wr_message *out);
/* Off the list; nghttp2 may go on with it, nobody hears of that. */
void wr_h2_stream_forget(struct wr_h2_stream *stream);
/* The same, when nothing but END_STREAM is still to be said: nghttp2 says it when it can. */
void wr_h2_stream_leave_to_end(struct wr_h2_stream *stream);
/* Whether what nghttp2 keeps for a stream says that. */
bool wr_h2_stream_only_ends(const void *kept);
/* RST_STREAM with CODE. */
void wr_h2_stream_reset(struct wr_h2_stream *stream, uint32_t code);

/* A reset before the response had ended, which the peer asked for or made us send, counts against the budget of them, once a
 * stream. STREAM may be NULL. */
void wr_h2_stream_charge_reset(struct wr_h2_session *session, struct wr_h2_stream *stream);

/* ---- what comes: called by the session ---- */
void wr_h2_stream_data(struct wr_h2_stream *stream, const uint8_t *p, size_t n);
/* END_STREAM on DATA or on trailers. */
void wr_h2_stream_data_end(struct wr_h2_stream *stream, struct wr_fields *trailers);
/* HELD content goes to the message now. */
void wr_h2_stream_release_held(struct wr_h2_stream *stream);
/* Nobody wants what is held, nor what is still to come: its window is given back, or the peer could never send the rest. */
void wr_h2_stream_unwant(struct wr_h2_stream *stream);

/* ---- what goes ---- */
/* For submissions with content. */
extern const nghttp2_data_provider wr_h2_stream_provider;
int wr_h2_stream_send_data(struct wr_h2_stream *stream, const uint8_t *frame_head, size_t n);

/* ---- for tables: the context is the stream ---- */
void wr_h2_stream_on_room(void *source, size_t consumed);
void wr_h2_stream_on_content(void *sink);
void wr_h2_stream_on_end(void *sink, const struct wr_fields *trailers);

#endif
