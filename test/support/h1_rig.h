/* A codec under test between raw bytes and a test: on one end of a socket pair the codec on a real transport, on the other the
 * test as wire peer; above the codec the test as proxy. The clock is simulated. */
#ifndef TEST_SUPPORT_H1_RIG_H
#define TEST_SUPPORT_H1_RIG_H

#include "codec/h1_client.h"
#include "codec/h1_server.h"
#include "support/message_ends.h"

struct rig {
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

    struct text heard; /* what came to the wire peer */
    bool heard_end;
    struct text events; /* what the codec told its owner: "begun complete exchange idle done:ok " */
    struct text requests; /* server: a line for each request that came whole */

    /* the exchange of this moment; server: opened by the codec, client: by rig_open() */
    struct wr_exchange *exchange;
    unsigned finished;
    struct collector collector; /* server: of the request, client: of the response */
    struct feeder feeder;       /* server: of the response, client: of the request */
    /* server: what is done with a new exchange; NULL: the request is echoed as 200 when it is whole, what is refused or broken
     * is answered with the status of its error */
    void (*on_exchange)(struct rig *rig);
    bool tcp;         /* a pair that can reset */
    bool arms_replay; /* client: requests can be rewound */
};

/* Options may be changed before rig_start(). CLIENT: the client codec. */
struct rig *rig_new(bool client);
void rig_start(struct rig *rig);
/* Checks that no exchange is left. */
void rig_free(struct rig *rig);

/* Turns until nothing happens any more, and hears. */
void rig_settle(struct rig *rig);
void rig_say(struct rig *rig, const char *bytes);
void rig_say_n(struct rig *rig, const void *p, size_t n);
/* Everything in pieces of N bytes, each read apart. */
void rig_dribble(struct rig *rig, const void *p, size_t n, size_t piece);
/* FIN from the wire peer / close. */
void rig_peer_ends(struct rig *rig);
void rig_peer_closes(struct rig *rig);
/* What was heard since the last time is thrown away. */
void rig_forget(struct rig *rig);

/* ---- the server's exchange ---- */
/* A response head with fields "name: value\n..."; LENGTH as in struct wr_head. */
void rig_answer_head(struct rig *rig, unsigned status, int64_t length, const char *fields,
                     unsigned flags);
/* The same with BODY, to the end. */
void rig_answer(struct rig *rig, unsigned status, const char *body);
/* Takes the request as a proxy would. */
void rig_collect(struct rig *rig);
/* On_exchange functions. */
void rig_wait_with(struct rig *rig); /* collects the request, and leaves the answer to the test */

/* ---- the client's exchange ---- */
/* Opens an exchange with a request of METHOD and fields and gives it to the codec. LENGTH as in struct wr_head; 0: LAST. */
void rig_open(struct rig *rig, const char *method, int64_t length, const char *fields);
/* The server codec's part at the end. */
void rig_finish(struct rig *rig, enum wr_err why);

#endif
