/* Inside of h1_server*.c. */
#ifndef WR_CODEC_H1_SERVER_INTERNAL_H
#define WR_CODEC_H1_SERVER_INTERNAL_H

#include "codec/date.h"
#include "codec/h1_reader.h"
#include "codec/h1_server.h"
#include "codec/h1_write.h"

/* What the request of this moment is; README.md has the table of both together. */
enum wr_h1_request_state {
    WR_H1_REQUEST_NONE,     /* between requests, or in a head */
    WR_H1_REQUEST_OPEN,     /* its content goes to the message */
    WR_H1_REQUEST_UNWANTED, /* its content is read and thrown away */
    WR_H1_REQUEST_WHOLE,    /* received */
    WR_H1_REQUEST_ASKING, /* for a tunnel: nothing is read before the response head tells what it would be */
    WR_H1_REQUEST_TUNNEL,  /* accepted: bytes go to the message as they come */
    WR_H1_REQUEST_REFUSED, /* nothing of this connection is parsed any more */
};

enum wr_h1_response_state {
    WR_H1_RESPONSE_NONE,
    WR_H1_RESPONSE_WAITING, /* for the final head */
    WR_H1_RESPONSE_CONTENT,
    /* All of it is with the transport; the rest of the request, or the other direction of a tunnel, is still to come. */
    WR_H1_RESPONSE_DONE,
};

struct wr_h1_server {
    struct wr_server_codec base;
    struct wr_transport *transport;
    struct wr_transport_host *lender; /* of this memory */
    const struct wr_server_codec_options *options;
    struct wr_exchange_host *host;
    const struct wr_client_info *client;
    const struct wr_server_codec_events *events;
    void *owner;

    struct wr_h1_reader reader;
    struct wr_h1_writer writer;
    struct wr_exchange *exchange; /* in flight, or NULL */
    enum wr_h1_request_state request;
    enum wr_h1_response_state response;
    uint64_t requests; /* begun */
    uint64_t began;    /* first byte of the head; WR_NEVER: none yet */
    bool expects;      /* the client may be waiting for 100 */
    bool keep;         /* the connection goes on after this response */
    bool draining;
    bool client_ended;
    struct wr_str websocket_key; /* of a request for a tunnel of that protocol; in its arena */
    bool over;                   /* done() was said, or close() called: nothing happens any more */
    bool released;
    struct wr_garbage garbage;
};

extern const struct wr_transport_events wr_h1_server_transport_events;
extern const struct wr_source_ops wr_h1_server_source_ops; /* of requests */
extern const struct wr_sink_ops wr_h1_server_sink_ops;     /* of responses */
extern const struct wr_exchange_owner wr_h1_server_owner_ops;

/* ---- h1_server.c: endings ---- */
/* All is said: FIN, and the owner lingers. */
void wr_h1_server_end(struct wr_h1_server *server);
/* The client cannot be told any more, or must not be: the owner resets. */
void wr_h1_server_give_up(struct wr_h1_server *server, enum wr_err why);
/* The response is with the transport: on to the next request, the rest of this one, or the end. */
void wr_h1_server_response_done(struct wr_h1_server *server);
/* Both are over, and all is in order: finishes the exchange, and the next request may come. */
void wr_h1_server_next(struct wr_h1_server *server);
/* The response is done and the rest of the request will not come: finishes the exchange and ends. */
void wr_h1_server_forgo_rest(struct wr_h1_server *server);

/* ---- h1_server_read.c ---- */
/* An exchange for a request that cannot be served; nothing is parsed after it. */
void wr_h1_server_refuse(struct wr_h1_server *server, enum wr_err err);

/* ---- h1_server_tunnel.c ---- */
/* The final head of a response to one that is ASKING: written here. */
void wr_h1_server_accept_tunnel(struct wr_h1_server *server, struct wr_head *head);
/* There will be none, so there is no content: the request is WHOLE. */
void wr_h1_server_decline_tunnel(struct wr_h1_server *server);
/* N bytes from the client, who is in a tunnel; returns how many were taken. */
size_t wr_h1_server_tunnel_read(struct wr_h1_server *server, const uint8_t *p, size_t n);
/* The client's end. */
void wr_h1_server_tunnel_ended(struct wr_h1_server *server, bool clean);
/* Nobody wants its bytes any more / all bytes of the other direction are with the transport. */
void wr_h1_server_tunnel_stopped(struct wr_h1_server *server);
void wr_h1_server_tunnel_said(struct wr_h1_server *server);
/* The response has accepted one. */
bool wr_h1_server_is_tunnel(const struct wr_h1_server *server);
/* The upstream has all that came from the client; whether that was all, and of a tunnel, is seen here. */
void wr_h1_server_tunnel_passed_on(struct wr_h1_server *server);

/* ---- h1_server_write.c ---- */
void wr_h1_server_pump(struct wr_h1_server *server);

#endif
