/* Inside of h2_client*.c. */
#ifndef WR_CODEC_H2_CLIENT_INTERNAL_H
#define WR_CODEC_H2_CLIENT_INTERNAL_H

#include "base/compiler.h"
#include "codec/h2_client.h"
#include "codec/h2_stream.h"

struct wr_h2_client {
    struct wr_client_codec base;
    struct wr_h2_session session;
    struct wr_transport *transport;
    struct wr_loop *loop;
    const struct wr_client_codec_events *events;
    void *owner;

    struct wr_deadline ping_deadline;
    uint64_t last_heard; /* when bytes came */
    unsigned limit;      /* while the session sleeps */
    bool asked;          /* a PING is out since */
    bool lowered;        /* the peer has told a limit below what is open */
    bool dead;           /* no exchange will be opened any more */
    bool released;
    struct wr_garbage garbage;
};

/* So many 1xx a response; each is held until the exchange ends. */
#define WR_H2_MOST_INTERIM_HEADS 32

static inline struct wr_h2_client *wr_h2_client_of(struct wr_h2_session *session)
{
    return WR_CONTAINER_OF(session, struct wr_h2_client, session);
}

extern const struct wr_h2_session_events wr_h2_client_session_events;
extern const struct wr_transport_events wr_h2_client_transport_events;
extern const struct wr_sink_ops wr_h2_client_sink_ops;     /* of requests */
extern const struct wr_source_ops wr_h2_client_source_ops; /* of responses */

/* How many exchanges at once it takes as of now; 0: none for now, or none any more. */
unsigned wr_h2_client_limit(const struct wr_h2_client *client);

/* ---- h2_client.c: endings ---- */
void wr_h2_client_woken(struct wr_h2_session *session);
void wr_h2_client_tell_closed(struct wr_h2_client *client);
/* The exchange is over, and its response whole. */
void wr_h2_client_drop(struct wr_h2_stream *stream);
/* Lets go of a tunnel once both its messages are over, although its last END_STREAM may not be written yet: the exchange ends then. */
void wr_h2_client_settle_tunnel(struct wr_h2_stream *stream);
/* The response will not become whole: tells it WHY. Nothing is said on the wire. */
void wr_h2_client_fail(struct wr_h2_stream *stream, enum wr_err why);
/* Every exchange, and the connection; BEFORE_HEAD: why, of responses that have not begun. */
void wr_h2_client_broken(struct wr_h2_client *client, enum wr_err before_head);

/* ---- h2_client_write.c ---- */
/* The peer's SETTINGS have come: requests that waited for them go, or cannot. */
void wr_h2_client_release_waiting(struct wr_h2_client *client);
/* Requests that are not on the wire and may not go there for now go elsewhere. */
void wr_h2_client_give_back(struct wr_h2_client *client);

#endif
