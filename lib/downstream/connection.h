/* A client connection from accept to its end: the inside of this layer. Owner: its downstream. */
#ifndef WR_DOWNSTREAM_CONNECTION_H
#define WR_DOWNSTREAM_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/slab.h"
#include "downstream/downstream.h"
#include "io/loop.h"

enum wr_connection_state {
    WR_CONNECTION_SILENT,      /* no whole ClientHello yet */
    WR_CONNECTION_WAITING,     /* paused at gate 1 */
    WR_CONNECTION_HANDSHAKING, /* admitted */
    WR_CONNECTION_IDLE,        /* served: no request */
    WR_CONNECTION_HIBERNATED, /* served: no request for a while; what only work needs is given back */
    WR_CONNECTION_HEAD,       /* served: a request head is coming */
    WR_CONNECTION_ACTIVE,     /* served: a request is in flight */
    WR_CONNECTION_FLUSHING,   /* served: the last bytes are on their way */
    WR_CONNECTION_CLOSING,    /* served: our FIN is out, lingering for the peer's */
    WR_CONNECTION_REFUSING,   /* counted as refused: the alert is on its way */
    WR_CONNECTION_REFUSED,    /* counted as refused: lingering for the peer's FIN */
    WR_CONNECTION__COUNT,
    WR_CONNECTION_NONE = WR_CONNECTION__COUNT, /* not yet on a list, or gone */
};

/* What only one that is served has. */
struct wr_serving {
    struct wr_server_codec
        *codec; /* NULL: its first bytes are awaited, it hibernates, or its last words are said */
    struct wr_client_info *client; /* comes and goes with the codec */
    uint64_t retires;              /* max_connection_age; WR_NEVER once it has passed */
    uint64_t requests;             /* begun so far */
    uint64_t idle_since; /* IDLE, HIBERNATED; or when it was seen with output, if that is later */
    union {
        uint64_t hibernates; /* IDLE: when it is tried */
        uint64_t sent_seen;  /* FLUSHING: bytes on the wire when its deadline was set */
    };
};

/* Thousands of them may be idle: every byte counts. */
struct wr_connection {
    union {
        struct wr_list link;       /* in the downstream's list of its state; */
        struct wr_garbage garbage; /* once gone: waits for the end of the turn */
    };
    struct wr_downstream *downstream;
    struct wr_transport *transport;
    struct wr_deadline
        deadline; /* the earliest of what may come: `phase_ends`, `retires`, `hibernates` */
    uint64_t
        phase_ends; /* of the state; one that hibernates is idle as long as it would be otherwise */
    uint64_t accepted;
    union {
        struct wr_ticket ticket;   /* until it is served; */
        struct wr_serving serving; /* from then on */
    };
    struct wr_peer peer;
    enum wr_connection_state state : 8;
    enum wr_err ended : 8;  /* why it ends, the first word stands; WR_OK so far */
    uint8_t preface;        /* sniffing: bytes of the HTTP/2 preface that have come */
    uint8_t protocol;       /* the row of its codec */
    bool claims_resumption; /* its ClientHello did */
    bool was_served;        /* it is gone, and what it had besides itself goes with it */
    bool last_request;      /* the next request is told to be the last one */
};

struct wr_downstream {
    struct wr_downstream_env env;
    const struct wr_downstream_options *options;
    struct wr_listener *listener; /* NULL: drained */
    struct wr_access *access;
    struct wr_admission *admission;
    struct wr_proxy *proxy;
    struct wr_exchange_host exchanges;
    struct wr_list lists[WR_CONNECTION__COUNT];
    struct wr_slab connections;
    struct wr_slab clients; /* of those that are awake */
    size_t count;           /* connections of any state */
    size_t refused;         /* of them REFUSING or REFUSED */
    struct wr_task turn;    /* deferred while someone waits in the controller */
    uint64_t ran_in;        /* the turn of the loop that the controller has had */
    struct wr_refusing refusing;
    bool look; /* the next one accepted is asked how long it has been in the kernel's queue */
    bool draining;
    struct wr_garbage garbage;
};

/* ---- connection.c: states, deadlines, serving ---- */

/* An object in no state with no transport yet. */
struct wr_connection *wr_connection_new(struct wr_downstream *downstream,
                                        const struct wr_address *peer);
/* Gives it a transport on FD, which is taken over in any case. */
WR_MUST_USE enum wr_err wr_connection_open(struct wr_connection *connection, int fd,
                                           const struct wr_transport_events *events);
/* Moves it to the list of STATE, keeps the gauges, sets the deadline. */
void wr_connection_set_state(struct wr_connection *connection, enum wr_connection_state state);
/* Its transport is open: the codec takes over, or on a plain one whoever waits for what its first bytes say. */
void wr_connection_serve(struct wr_connection *connection);
/* Puts its deadline where it belongs, after one of the times it is made of was changed. */
void wr_connection_arm(struct wr_connection *connection);
/* The codec of ALPN's PROTOCOL takes over; "": the one for those who name none. IDLE. */
void wr_connection_speak(struct wr_connection *connection, struct wr_str protocol);
/* A codec as it had before it hibernated. */
void wr_connection_make_codec(struct wr_connection *connection);
/* A served one takes no further request: ends now when idle, after its response otherwise. */
void wr_connection_drain(struct wr_connection *connection);
/* Ends a served one now; counted as closed. WHY is ignored when a reason was known before. */
void wr_connection_end(struct wr_connection *connection, enum wr_err why);
/* Ends an idle one at once, with all that its protocols have to say at an end, but without waiting for the client's. Counted as closed. */
void wr_connection_part(struct wr_connection *connection, enum wr_err why);
/* Lets go of all it has, counting nothing. Memory returns at the end of the turn. */
void wr_connection_destroy(struct wr_connection *connection);

/* ---- evict.c: idle connections make room ---- */

/* FD is one too many, and nobody would make room for it. REASON: what it is refused for. */
bool wr_evict_is_hopeless(struct wr_downstream *downstream, int fd, enum wr_refusal *reason);
/* FD is to be taken: makes room for it when that is needed. */
void wr_evict_for(struct wr_downstream *downstream, int fd);

/* ---- hibernate.c ---- */

/* One that has been IDLE for a while: gives back what it can and is HIBERNATED, or is asked again later. */
void wr_connection_hibernate(struct wr_connection *connection);
/* HIBERNATED: IDLE again, as if it had been all the time. In any other state: nothing. */
void wr_connection_wake(struct wr_connection *connection);

/* ---- gate.c: from accept to the finished handshake ---- */

/* A TLS listener has accepted FD from SOURCE. */
void wr_gate_accept(struct wr_downstream *downstream, int fd, const struct wr_address *peer,
                    const struct wr_admission_source *source);
/* Why and how a connection is turned away; DETAIL and SNI may be "". */
struct wr_gate_refusal {
    enum wr_refusal reason;
    enum wr_refusal_cause cause;
    enum wr_refuse_with how;
    struct wr_str detail;
    struct wr_str sni;
};
/* FD, never made a connection. */
void wr_gate_turn_away(struct wr_downstream *downstream, int fd, const struct wr_address *peer,
                       struct wr_gate_refusal refusal);
/* One that is SILENT, WAITING or HANDSHAKING. */
void wr_gate_refuse(struct wr_connection *connection, struct wr_gate_refusal refusal);
/* Counts a refusal and writes its line; PEER may be NULL. ACCEPTED: when it was accepted. */
void wr_gate_count(struct wr_downstream *downstream, const struct wr_address *peer,
                   struct wr_gate_refusal refusal, uint64_t accepted);
/* The controller's events and its turn. */
extern const struct wr_admission_events wr_gate_admission_events;
void wr_gate_turn(struct wr_task *task);

/* ---- sniff.c: which protocol a plain connection speaks ---- */

/* IDLE, or HEAD when some of it has come; wr_connection_speak() follows. */
void wr_sniff_begin(struct wr_connection *connection);
/* Before that: as an idle one that ends. */
void wr_sniff_end(struct wr_connection *connection);

/* ---- linger.c: the last words ---- */

/* Our end was asked for; waits for it to be sent, then for the peer's end (RFC 9112 section 9.6). */
void wr_linger_begin(struct wr_connection *connection);
/* For a transport that is told to go with an alert. */
extern const struct wr_transport_events wr_linger_events;

#endif
