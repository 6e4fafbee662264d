/* A request and its response: two messages, an arena, one deadline, statistics.
 *
 * Owner: the server codec that opened it. The codec calls wr_exchange_finish() once, when the response is written (or
 * given up) and the request is received (or given up; of a tunnel: passed on); that lets go of whoever is still attached, writes metrics and access
 * log, and releases the memory at the end of the loop turn. */
#ifndef WR_HTTP_EXCHANGE_H
#define WR_HTTP_EXCHANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "http/head.h"
#include "http/message.h"
#include "io/loop.h"
#include "io/socket.h"
#include "observe/access_log.h"
#include "observe/metrics.h"

/* "[" IPv6 "]:65535" and "unix:" fit; a client's own unix socket path is not shown. */
#define WR_CLIENT_TEXT 56

/* Facts of the client connection an exchange came over; owned by downstream, outlives its exchanges. */
struct wr_client_info {
    struct wr_str listener;
    struct wr_address address; /* of the peer */
    char address_text[WR_CLIENT_TEXT];
    struct wr_str address_slice; /* address_text, host and port */
    struct wr_str host_slice;    /* the host alone */
    const char *tls_version;     /* "" for plain */
    uint64_t requests;           /* begun on the connection, as counted by its owner */
    bool tls;
};

/* What exchanges of one worker and listener share; outlives them. */
struct wr_exchange_host {
    struct wr_loop *loop;
    struct wr_chunk_pool *chunks;
    struct wr_access_log *access_log; /* or NULL */
    struct wr_worker_metrics *worker_metrics;
    struct wr_listener_metrics *metrics;
    size_t content_limit;        /* bytes of content held a message */
    uint64_t inactivity_timeout; /* microseconds without progress in either direction */
    uint64_t request_timeout;    /* microseconds from complete head to end, or to a tunnel */
    uint64_t tunnel_timeout;     /* of a tunnel: microseconds without a byte in either direction */
    uint64_t
        request_rate; /* bytes a second of content that a client owes while it may send (behaviour row 52); 0: none */

    /* Exchanges that have ended, kept for the next ones; private to exchange.c. */
    struct wr_exchange *spare;
    unsigned spare_count;
    unsigned spare_limit; /* 0 after wr_exchange_host_clear() */
};

/* Everything empty, WR_NEVER for the timeouts; the owner then sets the members above `spare`. */
void wr_exchange_host_init(struct wr_exchange_host *host);
/* Frees the spare exchanges; those still in flight are freed when they end. Can be called twice. */
void wr_exchange_host_clear(struct wr_exchange_host *host);

struct wr_exchange;

/* Whoever answers exchanges (the proxy): set by its start function. */
struct wr_exchange_handler {
    /* The exchange's deadline has come: WHY is REQUEST_CONTENT_TIMEOUT, RESPONSE_TIMEOUT, CLIENT_READ_TIMEOUT,
     * RESPONSE_CONTENT_TIMEOUT, TUNNEL_TIMEOUT or REQUEST_TIMEOUT, and is blamed already. The handler answers locally (after
     * wr_message_drop_source()) or cancels the response; it must do one, RESPONSE_TIMEOUT and REQUEST_TIMEOUT come but once. Not
     * called when the response is over as a message: see wr_exchange_owner. Without a handler both messages are cancelled. */
    void (*expired)(void *handler, enum wr_err why);
    /* The exchange is over; the handler lets go of everything of its own. Memory from the arena is still there. */
    void (*finished)(void *handler);
};

/* The server codec, which owns the exchange. Optional. */
struct wr_exchange_owner {
    /* The deadline has come when the response message is over but the exchange is not: REQUEST_CONTENT_TIMEOUT when the request
     * message is still open (it was answered early), else CLIENT_READ_TIMEOUT (the last bytes wait in the transport, or the
     * discarded rest of a request does not come), or REQUEST_TIMEOUT, or TUNNEL_TIMEOUT (only one direction is left). The owner
     * gives the client up and finishes. */
    void (*expired)(void *owner, enum wr_err why);
    /* There was progress, and the request is over as a message: taken whole, or nobody wants it. May come more than once. Who has
     * received all of a tunnel finishes the exchange only then: what is left of it would be lost. May be NULL. */
    void (*request_over)(void *owner);
};

enum wr_exchange_phase {
    WR_PHASE_HEAD,     /* the request's head is not whole */
    WR_PHASE_REQUEST,  /* request content still comes, no response head yet */
    WR_PHASE_WAITING,  /* request sent whole, waiting for the response head */
    WR_PHASE_RESPONSE, /* response content */
    WR_PHASE_TUNNEL,   /* the response has accepted a tunnel */
};

struct wr_exchange {
    struct wr_message request;
    struct wr_message response;
    struct wr_arena arena;
    struct wr_exchange_host *host;
    const struct wr_client_info *client;
    const struct wr_exchange_handler *handler_ops;
    void *handler;
    const struct wr_exchange_owner *owner_ops; /* or NULL; set by the server codec */
    void *owner;
    void *snapshot; /* kept alive by the owner of `host`; opaque here */

    /* Set by the server codec when the request cannot be served (400, 408, 431, ...): the handler then answers with that
     * error and nothing goes upstream. The head may be incomplete. */
    enum wr_err refused;
    bool client_keeps; /* the client's connection may be kept after the response */

    struct wr_deadline deadline;
    enum wr_exchange_phase armed_phase; /* which the deadline was set for */
    bool response_expired;              /* RESPONSE_TIMEOUT has been told of this waiting */
    bool request_expired;               /* REQUEST_TIMEOUT has been told */
    uint64_t last_progress;
    uint64_t
        head_timeout; /* from `began` to a whole head; WR_NEVER: whoever owns the connection sees to it */
    uint64_t response_timeout; /* of the cluster; WR_NEVER */
    uint64_t rate_since;    /* what the client owes counts from here on; WR_NEVER: no content yet */
    uint64_t rate_bytes;    /* content that had come by then */
    bool held_up;           /* the client may not send: its content is not taken */
    uint64_t waiting_since; /* request handed over whole, of this attempt; WR_NEVER */

    /* timings, microseconds of the loop's clock; WR_NEVER = did not happen */
    uint64_t began; /* first byte of the head */
    uint64_t head_complete;
    uint64_t attempt_started; /* last asked for an upstream stream */
    uint64_t attempt_attached;
    uint64_t response_head;

    /* for the access log; slices live in the arena or in the snapshot */
    struct wr_str protocol;
    struct wr_str route;
    struct wr_str cluster;
    struct wr_str endpoint;
    struct wr_str request_id;
    struct wr_str forwarded_for;
    bool upstream_reused;
    /* Set by the client codec before it aborts the response: the upstream surely has not processed the request (not one byte
     * was written; REFUSED_STREAM; above GOAWAY's last id), so sending it again is safe whatever the method. */
    bool request_unsent;
    unsigned attempts;
    enum wr_err ended; /* how it ended, WR_OK so far */
    bool finished;

    struct wr_garbage garbage;
    struct wr_exchange *next_spare;
};

/* A new exchange; the deadline runs from now on. `began` and `head_complete` are now; a codec that knows better sets them.
 * Never NULL. */
struct wr_exchange *wr_exchange_open(struct wr_exchange_host *host,
                                     const struct wr_client_info *client);

void wr_exchange_set_handler(struct wr_exchange *exchange, const struct wr_exchange_handler *ops,
                             void *handler);

/* Puts the deadline where phase and timeouts want it. Needed only after timeouts, `began` or `head_complete` were changed: progress and
 * changes of phase are seen by themselves. */
void wr_exchange_rearm(struct wr_exchange *exchange);
/* Progress no message sees: output of the response left the transport, content of an answered request was discarded. */
void wr_exchange_progress(struct wr_exchange *exchange);
/* A tunnel was asked for, and no final response head has come yet. */
bool wr_exchange_awaits_tunnel(const struct wr_exchange *exchange);
enum wr_exchange_phase wr_exchange_phase(const struct wr_exchange *exchange);

/* Notes how it went wrong; the first word stands. */
void wr_exchange_blame(struct wr_exchange *exchange, enum wr_err why);

/* Once, by the owner. WHY: WR_OK when both messages are whole on the wire, else what broke the client side. */
void wr_exchange_finish(struct wr_exchange *exchange, enum wr_err why);

#endif
