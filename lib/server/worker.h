/* One worker: a thread with a loop, and on it its own listeners, clusters, access log and metrics. Workers share nothing
 * but the snapshot, the writer and the metrics registry; the home thread talks to them by mail only.
 *
 *   made -> started -> [draining -> drained] -> stopped -> joined -> freed
 *
 * Owner: the home thread, which calls all of these. */
#ifndef WR_SERVER_WORKER_H
#define WR_SERVER_WORKER_H

#include <stddef.h>

#include "base/compiler.h"
#include "base/err.h"
#include "config/snapshot.h"
#include "io/mailbox.h"
#include "observe/metrics.h"
#include "observe/writer.h"
#include "server/sockets.h"
#include "transport/signer.h"

/* Run on the home thread, each at most once a worker. */
struct wr_worker_events {
    void (*started)(void *owner); /* its loop runs */
    void (*drained)(void *owner); /* draining, and its last connection is gone */
};

/* All of it outlives the worker. */
struct wr_worker_options {
    const struct wr_snapshot *snapshot;
    struct wr_metrics_registry *registry;
    struct wr_writer *writer;   /* NULL: no access log */
    struct wr_signers *signers; /* NULL: none; stopped after the join and before wr_worker_free() */
    struct wr_mailbox *home; /* runs the events; freed after the join and before wr_worker_free() */
    int descriptor_ceiling;  /* as of wr_downstream_env */
    const struct wr_worker_events *events;
    void *owner;
};

struct wr_worker;

/* Makes everything the worker needs and takes its listening sockets; nothing runs yet. */
WR_MUST_USE enum wr_err wr_worker_new(const struct wr_worker_options *options, unsigned index,
                                      struct wr_sockets *sockets, struct wr_worker **out);
WR_MUST_USE enum wr_err wr_worker_start(struct wr_worker *worker);
/* Stops accepting and lets what is open end; drained() follows. Once. */
void wr_worker_drain(struct wr_worker *worker);
/* Asks the thread to end, whatever is open; nothing when it never started. */
void wr_worker_stop(struct wr_worker *worker);
void wr_worker_join(struct wr_worker *worker); /* after wr_worker_stop() */
/* Connections that were open when the thread ended. After the join. */
size_t wr_worker_connections(const struct wr_worker *worker);
/* Cuts off what is left and frees. Joined or never started; NULL is fine. */
void wr_worker_free(struct wr_worker *worker);

#endif
