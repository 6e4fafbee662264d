/* An HTTP/2 codec under test between raw frames and a test: on one end of a socket pair the codec on a real transport, on the
 * other the test as wire peer; above the codec the test as proxy, with any number of exchanges. The clock is simulated. */
#ifndef TEST_SUPPORT_H2_RIG_H
#define TEST_SUPPORT_H2_RIG_H

#include "codec/h2_client.h"
#include "codec/h2_server.h"
#include "support/h2_wire.h"
#include "support/message_ends.h"

#define H2_MOST_CALLS 512

struct h2_rig;

/* An exchange as the test sees it. */
struct h2_call {
    struct h2_rig *rig;
    struct wr_exchange *exchange; /* NULL: finished */
    struct collector collector;   /* server: of the request, client: of the response */
    struct feeder feeder;         /* the other message's source */
    enum wr_err refused;
    enum wr_err ended; /* as the exchange had it at its end */
    bool unsent;       /* client: request_unsent when the response was aborted */
};

struct h2_rig {
    struct wr_loop *loop;
    struct wr_transport_host *transports;
    struct wr_worker_metrics worker_metrics;
    struct wr_listener_metrics listener_metrics;
    struct wr_exchange_host host;
    struct wr_client_info client_info;
    struct wr_server_codec_options server_options;
    struct wr_client_codec_options client_options;
    struct wr_transport *transport;
    int peer; /* the test's end; -1: closed */
    struct wr_server_codec *server;
    struct wr_client_codec *client;
    bool is_client;
    const char *sensitive; /* client: name of a field that is, or NULL */
    bool holds;            /* requests are not taken: see collector_take() */

    struct text out;    /* what h2_rig_send() sends */
    struct text frames; /* what came to the wire peer (h2_wire.h) */
    struct h2_reader *reader;
    struct text *raw; /* what came, byte for byte; NULL: nobody wants it */
    bool deaf;        /* nothing is read from the codec */
    bool heard_end;
    struct text events;   /* what the codec told its owner */
    struct text requests; /* server: a line for each request that came whole */

    struct h2_call calls[H2_MOST_CALLS];
    unsigned count;
    unsigned finished;
    unsigned wakes; /* how often the codec has told its owner */
    /* Server: what is done with a new exchange; NULL: the request is echoed as 200 when it is whole. What is refused is answered
     * with the status of its error. */
    void (*on_exchange)(struct h2_call *call);
    void (*on_over)(struct h2_call *call); /* the collector is over; may be NULL */
};

/* Options may be changed before h2_rig_start(), which also says the peer's preface and SETTINGS of nothing. */
struct h2_rig *h2_rig_new(bool client);
void h2_rig_start(struct h2_rig *rig);
void h2_rig_start_silent(struct h2_rig *rig); /* without the latter */
/* Checks that no exchange is left. */
void h2_rig_free(struct h2_rig *rig);

/* Turns until nothing happens any more, and hears. */
void h2_rig_settle(struct h2_rig *rig);
/* Sends `out`, and settles. */
void h2_rig_send(struct h2_rig *rig);
void h2_rig_forget(struct h2_rig *rig);
void h2_rig_peer_ends(struct h2_rig *rig);
void h2_rig_peer_closes(struct h2_rig *rig);
/* Sends HEADERS of GET / with MORE fields, END_STREAM. */
void h2_rig_get(struct h2_rig *rig, uint32_t id, const char *more);
bool h2_rig_heard(const struct h2_rig *rig, const char *frame);
bool h2_rig_told(const struct h2_rig *rig, const char *event);

/* The next of `calls`, for EXCHANGE; its handler is the rig. For the rig itself. */
struct h2_call *h2_rig_new_call(struct h2_rig *rig, struct wr_exchange *exchange);

/* ---- the server's exchanges (h2_call.c) ---- */
void h2_rig_collect(struct h2_call *call);
/* A response head with fields "name: value\n..."; LENGTH as in struct wr_head. */
void h2_rig_answer_head(struct h2_call *call, unsigned status, int64_t length, const char *fields,
                        unsigned flags);
void h2_rig_answer(struct h2_call *call, unsigned status, const char *body);
/* An on_exchange function: collects the request, and leaves the answer to the test. */
void h2_rig_wait(struct h2_call *call);

/* ---- the client's exchanges ---- */
struct h2_call *h2_rig_open(struct h2_rig *rig, const char *method, int64_t length,
                            const char *fields);
struct h2_call *h2_rig_open_tunnel(struct h2_rig *rig, enum wr_tunnel tunnel);
/* The server codec's part at the end. */
void h2_rig_finish(struct h2_call *call, enum wr_err why);

#endif
