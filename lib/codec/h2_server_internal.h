/* Inside of h2_server*.c. */
#ifndef WR_CODEC_H2_SERVER_INTERNAL_H
#define WR_CODEC_H2_SERVER_INTERNAL_H

#include "base/compiler.h"
#include "codec/h2_server.h"
#include "codec/h2_stream.h"

/* What the owner was told last. */
enum wr_h2_told { WR_H2_TOLD_IDLE, WR_H2_TOLD_HEAD, WR_H2_TOLD_ACTIVE };

struct wr_h2_server {
    struct wr_server_codec base;
    struct wr_h2_session session;
    struct wr_transport *transport;
    const struct wr_server_codec_options *options;
    struct wr_exchange_host *host;
    const struct wr_client_info *client;
    const struct wr_server_codec_events *events;
    void *owner;

    enum wr_h2_told told;
    uint64_t requests; /* begun */
    struct wr_deadline drain_deadline;
    bool draining;     /* the first GOAWAY is said */
    bool drained;      /* the second, too */
    bool client_ended; /* it sends nothing more */
    bool failures;     /* there may be streams that have failed and are not reset yet */
    bool released;
    struct wr_garbage garbage;
};

static inline struct wr_h2_server *wr_h2_server_of(struct wr_h2_session *session)
{
    return WR_CONTAINER_OF(session, struct wr_h2_server, session);
}

extern const struct wr_h2_session_events wr_h2_server_session_events;
extern const struct wr_transport_events wr_h2_server_transport_events;
extern const struct wr_source_ops wr_h2_server_source_ops; /* of requests */
extern const struct wr_sink_ops wr_h2_server_sink_ops;     /* of responses */
extern const struct wr_exchange_owner wr_h2_server_owner_ops;

/* ---- h2_server.c: endings ---- */
/* The exchange is over; nothing is said on the wire. */
void wr_h2_server_finish(struct wr_h2_stream *stream, enum wr_err why);
/* The same with RST_STREAM. */
void wr_h2_server_give_up(struct wr_h2_stream *stream, enum wr_err why);
/* The same at the end of the turn, after its head. */
void wr_h2_server_fail(struct wr_h2_stream *stream, enum wr_err why);
void wr_h2_server_give_up_failed(struct wr_h2_server *server);
/* The client has its response; the rest of its request is not waited for. */
void wr_h2_server_forgo_rest(struct wr_h2_stream *stream);
void wr_h2_server_finish_all(struct wr_h2_server *server, enum wr_err why);
void wr_h2_server_broken(struct wr_h2_server *server, enum wr_err why);
void wr_h2_server_woken(struct wr_h2_session *session);
void wr_h2_server_over(struct wr_h2_session *session);
void wr_h2_server_drain(struct wr_h2_server *server);
void wr_h2_server_sent_notice(struct wr_h2_session *session);
void wr_h2_server_frame(struct wr_h2_session *session, const nghttp2_frame *frame);

/* ---- h2_server_write.c ---- */
/* The response is whole and the request is not, nor is it a tunnel. */
bool wr_h2_server_awaits_rest(const struct wr_h2_stream *stream);
void wr_h2_server_sent_end(struct wr_h2_stream *stream);
void wr_h2_server_unwanted(struct wr_h2_stream *stream, size_t n);
void wr_h2_server_closed(struct wr_h2_stream *stream, uint32_t code);

#endif
