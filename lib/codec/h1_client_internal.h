/* Inside of h1_client*.c. */
#ifndef WR_CODEC_H1_CLIENT_INTERNAL_H
#define WR_CODEC_H1_CLIENT_INTERNAL_H

#include "codec/h1_client.h"
#include "codec/h1_reader.h"
#include "codec/h1_write.h"

enum wr_h1_sending {
    WR_H1_SENDING_NOTHING, /* no exchange, or the request message is given up */
    WR_H1_SENDING_OPEN,    /* sink of the request */
    WR_H1_SENDING_WHOLE,   /* all of it is with the transport */
    WR_H1_SENDING_ASKING, /* for a tunnel: nothing more goes before the response head tells what it would be */
};

struct wr_h1_client {
    struct wr_client_codec base;
    struct wr_transport *transport;
    struct wr_transport_host *lender; /* of this memory */
    struct wr_loop *loop;
    const struct wr_client_codec_events *events;
    void *owner;

    struct wr_h1_reader reader;
    struct wr_h1_writer writer;
    struct wr_exchange *exchange; /* in flight, or NULL */
    enum wr_h1_sending sending;
    bool receiving; /* source of the response */
    bool finishing; /* the response is whole, and the rest of its request still goes out */
    struct wr_deadline rest_deadline;
    unsigned interim_heads;
    uint64_t sent_before;           /* bytes on the wire when the exchange was opened */
    struct wr_str websocket_accept; /* what the upstream has to say; in the exchange's arena */
    bool asked;  /* for a tunnel: the connection is not used for anything else (behaviour row 26) */
    bool tunnel; /* and got it: bytes are bytes, and each direction ends by itself */
    bool dead;   /* no exchange will be opened any more */
    bool released;
    struct wr_garbage garbage;
};

/* How long the rest of a request that was answered early may take to come, however it comes: enough for a slow link, and far less
 * than a client may take that has yet to be answered. */
#define WR_H1_REST_TIME (5 * WR_SEC)

/* So many 1xx a response; each is held until the exchange ends. */
#define WR_H1_MOST_INTERIM_HEADS 32

extern const struct wr_transport_events wr_h1_client_transport_events;
extern const struct wr_sink_ops wr_h1_client_sink_ops;     /* of requests */
extern const struct wr_source_ops wr_h1_client_source_ops; /* of responses */

/* ---- h1_client.c: endings ---- */
/* The response will not become whole: tells it WHY, and the owner that this connection is spent. */
void wr_h1_client_fail(struct wr_h1_client *client, enum wr_err why);
/* The exchange is taken away or over before its time. */
void wr_h1_client_drop(struct wr_h1_client *client);
/* The response is whole; SURPLUS: bytes came after it. */
void wr_h1_client_response_done(struct wr_h1_client *client, bool surplus);
/* What is missing of the request, which is OPEN, is worth sending though it has been answered. */
bool wr_h1_client_rest_is_short(const struct wr_h1_client *client);
/* The rest of the request is with the transport too. */
void wr_h1_client_rest_done(struct wr_h1_client *client);

/* ---- h1_client_tunnel.c ---- */
/* Writes the head of a request for a tunnel. */
void wr_h1_client_ask(struct wr_h1_client *client, const struct wr_head *head);
/* Whether HEAD, which accepts, is the answer to what was asked. */
bool wr_h1_client_is_accepted(struct wr_h1_client *client, struct wr_head *head);
/* Before the response head is passed on. */
void wr_h1_client_begin_tunnel(struct wr_h1_client *client);
/* N bytes of the upstream; returns how many were taken. */
size_t wr_h1_client_tunnel_read(struct wr_h1_client *client, const char *p, size_t n);
/* The upstream's end / all bytes of the other direction are with the transport. */
void wr_h1_client_tunnel_ended(struct wr_h1_client *client, bool clean);
void wr_h1_client_tunnel_said(struct wr_h1_client *client);

#endif
