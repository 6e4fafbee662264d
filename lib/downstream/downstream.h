/* A listener of one worker and its client connections: accept, gate, handshake, idle, drain, linger.
 *
 *   accepted -> SILENT -> WAITING -> HANDSHAKING -> IDLE <-> HEAD/ACTIVE -> FLUSHING -> CLOSING -> gone
 *                  `--------`------------`-> refused, by alert: REFUSING -> REFUSED -> gone
 *
 * Each state has a list, a gauge and a deadline (connection.c: the one table). Not for threads. */
#ifndef WR_DOWNSTREAM_DOWNSTREAM_H
#define WR_DOWNSTREAM_DOWNSTREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "admission/admission.h"
#include "base/err.h"
#include "codec/codec.h"
#include "downstream/access.h"
#include "io/listener.h"
#include "io/socket.h"
#include "observe/access_log.h"
#include "observe/metrics.h"
#include "proxy/proxy.h"
#include "transport/transport.h"

/* Durations in microseconds, WR_NEVER = infinity. */
struct wr_downstream_timeouts {
    uint64_t client_hello;   /* accept to a whole ClientHello */
    uint64_t handshake;      /* accept to finished handshake */
    uint64_t request_header; /* first byte of a head to its end */
    uint64_t keep_alive; /* between requests; also from established to the first byte of a head */
    uint64_t inactivity; /* of an exchange */
    uint64_t request;    /* of an exchange, in all */
    uint64_t tunnel;     /* of a tunnel: no byte in either direction */
    /* From established; up to a tenth earlier, so that a crowd does not return as one. */
    uint64_t max_connection_age;
    uint64_t linger; /* our FIN to the peer's; until our FIN is out, `inactivity` */
};

struct wr_downstream_options {
    const char *name;
    struct wr_tls_server *tls; /* NULL: plain */
    bool
        plain_http2; /* a plain one takes HTTP/2 too, from who begins with its preface (prior knowledge) */
    struct wr_admission_options admission;
    enum wr_refuse_with refuse_with;
    uint32_t
        refusal_share; /* per cent of the time that turning away may take while handshakes wait; 100: no limit */
    struct wr_access_options access;
    struct wr_downstream_timeouts timeouts;
    uint32_t max_connections;  /* a worker */
    uint64_t evict_idle_after; /* microseconds; WR_NEVER: none */
    size_t content_limit;      /* bytes of content held a message */
    uint64_t request_rate;     /* bytes a second of content that a client owes; 0: none */
    struct wr_server_codec_options codec;
    struct wr_proxy_options proxy;
};

/* What a worker lends. */
struct wr_downstream_env {
    struct wr_loop *loop;
    struct wr_transport_host *transports;
    struct wr_access_log *access_log;
    struct wr_worker_metrics *worker_metrics;
    struct wr_listener_metrics *metrics;
    struct wr_cluster *const *clusters;
    /* Clients get no descriptor with this number or a higher one (NO_DESCRIPTORS): what is above is for upstream connections,
     * the log and the admin server. 0: any. */
    int descriptor_ceiling;
};

struct wr_downstream;

/* Takes over the listening FD. OPTIONS and what ENV points to outlive the object. Owner: the caller. */
WR_MUST_USE enum wr_err wr_downstream_new(const struct wr_downstream_env *env,
                                          const struct wr_downstream_options *options, int fd,
                                          struct wr_downstream **out);
/* Stops accepting; idle connections end, others after their response; handshakes in progress go on to be told the same. */
void wr_downstream_drain(struct wr_downstream *downstream);
/* Connections of any state. 0 after a drain: it is over. */
size_t wr_downstream_connections(const struct wr_downstream *downstream);
/* Ends what is left; memory returns at the end of the turn. NULL is fine. */
void wr_downstream_free(struct wr_downstream *downstream);
/* Memory is short: of the connections that are idle one in SHARE ends, those idle for longest first. Returns how many did. */
size_t wr_downstream_evict(struct wr_downstream *downstream, unsigned share);
/* Brings the gauges that are read off elsewhere (accept queue) up to date: about once a second. */
void wr_downstream_sample(struct wr_downstream *downstream);

#endif
