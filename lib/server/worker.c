#include "server/worker.h"

#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/time.h"
#include "io/loop.h"
#include "observe/access_log.h"
#include "observe/log.h"
#include "transport/transport.h"
#include "upstream/cluster.h"

#define SAMPLE_EVERY (1 * WR_SEC)
#define TRIM_FROM ((size_t)4 * 1024 * 1024)
#define EVICTION_SHARE 8 /* one in so many, a second */
#define FLUSH_EVERY (100 * WR_MSEC)

struct wr_worker {
    struct wr_worker_options options;
    unsigned index;
    pthread_t thread;
    bool running; /* of the home thread: started and not joined */

    struct wr_loop *loop;
    struct wr_mailbox *mailbox;
    struct wr_transport_host *transports;
    struct wr_worker_metrics *metrics;
    struct wr_access_log *access_log;
    struct wr_cluster **clusters; /* in the snapshot's order, which routes index */
    struct wr_downstream **downstreams;
    struct wr_deadline sample;
    struct wr_deadline flush;
    bool draining;
    bool told; /* that it is drained */
    bool stopped;
    bool trims; /* memory that was freed goes back to the system */

    /* Each is posted once, so none needs memory of its own. */
    struct wr_mail started_mail;
    struct wr_mail drained_mail;
    struct wr_mail drain_mail;
    struct wr_mail stop_mail;
};

/* ---- on the home thread ---- */

static void run_started(struct wr_mail *mail)
{
    struct wr_worker *worker = WR_CONTAINER_OF(mail, struct wr_worker, started_mail);
    worker->options.events->started(worker->options.owner);
}

static void run_drained(struct wr_mail *mail)
{
    struct wr_worker *worker = WR_CONTAINER_OF(mail, struct wr_worker, drained_mail);
    worker->options.events->drained(worker->options.owner);
}

/* ---- on the worker's thread ---- */

static void run_drain(struct wr_mail *mail)
{
    struct wr_worker *worker = WR_CONTAINER_OF(mail, struct wr_worker, drain_mail);
    worker->draining = true;
    for (size_t i = 0; i < worker->options.snapshot->listener_count; i++)
        wr_downstream_drain(worker->downstreams[i]);
}

static void run_stop(struct wr_mail *mail)
{
    WR_CONTAINER_OF(mail, struct wr_worker, stop_mail)->stopped = true;
}

/* What is held, by class; each is counted where it is given out. */
static void sample_memory(struct wr_worker *worker)
{
    const struct wr_snapshot *snapshot = worker->options.snapshot;
    struct wr_worker_metrics *metrics = worker->metrics;
    size_t connections = 0;
    size_t upstream = 0;
    for (size_t i = 0; i < snapshot->listener_count; i++)
        connections += wr_downstream_bytes(worker->downstreams[i]);
    for (size_t i = 0; i < snapshot->cluster_count; i++)
        upstream += wr_cluster_bytes(worker->clusters[i]);
    wr_metric_set(&metrics->connection_bytes, connections);
    wr_metric_set(&metrics->upstream_connection_bytes, upstream);
    wr_metric_set(&metrics->transport_bytes, wr_transport_host_bytes(worker->transports));
    wr_metric_set(&metrics->tls_bytes, wr_tls_bytes());
    wr_metric_set(&metrics->codec_bytes, wr_transport_host_lent_bytes(worker->transports));
}

static void shrink_buffers(struct wr_worker *worker, uint64_t now)
{
    struct wr_chunk_pool *pool = wr_transport_host_chunks(worker->transports);
    size_t released = wr_chunk_pool_shrink(pool, now);
    /* The allocator would keep them for itself. It looks at all its memory, so not for a few. */
    if (released >= TRIM_FROM || worker->trims)
        (void)malloc_trim(0);
    worker->trims = false;
    wr_metric_add(&worker->metrics->chunk_bytes_released, released);
    wr_metric_set(&worker->metrics->chunk_free_bytes, (uint64_t)pool->free_count * WR_CHUNK_SIZE);
    wr_metric_set(&worker->metrics->chunk_bytes, (uint64_t)pool->used_count * WR_CHUNK_SIZE);
}

/* In bytes; 0: not known. */
static uint64_t resident_memory(void)
{
    char line[128]; /* in pages: all, then the resident ones */
    FILE *file = fopen("/proc/self/statm", "re");
    if (file == NULL)
        return 0;
    char *at = fgets(line, sizeof(line), file);
    (void)fclose(file);
    if (at == NULL)
        return 0;
    (void)strtoull(at, &at, 10);
    return strtoull(at, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* A part of what is idle each time, so that it stops when it is enough. */
static void relieve_memory(struct wr_worker *worker)
{
    const struct wr_snapshot *snapshot = worker->options.snapshot;
    if (snapshot->memory_limit == UINT64_MAX || resident_memory() <= snapshot->memory_limit)
        return;
    for (size_t i = 0; i < snapshot->listener_count; i++)
        (void)wr_downstream_evict(worker->downstreams[i], EVICTION_SHARE);
    worker->trims = true;
}

static void on_sample(struct wr_deadline *deadline, uint64_t now)
{
    struct wr_worker *worker = WR_CONTAINER_OF(deadline, struct wr_worker, sample);
    shrink_buffers(worker, now);
    relieve_memory(worker);
    sample_memory(worker);
    for (size_t i = 0; i < worker->options.snapshot->listener_count; i++)
        wr_downstream_sample(worker->downstreams[i]);
    wr_loop_deadline_set(worker->loop, deadline, now + SAMPLE_EVERY);
}

static void on_flush(struct wr_deadline *deadline, uint64_t now)
{
    struct wr_worker *worker = WR_CONTAINER_OF(deadline, struct wr_worker, flush);
    wr_access_log_flush(worker->access_log);
    wr_loop_deadline_set(worker->loop, deadline, now + FLUSH_EVERY);
}

static void set_timers(struct wr_worker *worker)
{
    uint64_t now = wr_loop_now(worker->loop);
    wr_loop_deadline_set(worker->loop, &worker->sample, now);
    if (wr_access_log_enabled(worker->access_log))
        wr_loop_deadline_set(worker->loop, &worker->flush, now + FLUSH_EVERY);
}

/* A connection ends in some turn of the loop, so after each is when to look. */
static void after_turn(struct wr_worker *worker)
{
    wr_metric_inc(&worker->metrics->loop_turns);
    wr_histogram_record(&worker->metrics->loop_lag, wr_loop_lag(worker->loop));
    if (worker->draining && !worker->told && wr_worker_connections(worker) == 0) {
        worker->told = true;
        wr_access_log_flush(worker->access_log);
        wr_mailbox_post(worker->options.home, &worker->drained_mail);
    }
}

static void *run(void *arg)
{
    struct wr_worker *worker = arg;
    char name[16];
    (void)snprintf(name, sizeof(name), "weir-w%u", worker->index);
    (void)pthread_setname_np(pthread_self(), name);
    wr_mailbox_post(worker->options.home, &worker->started_mail);
    set_timers(worker);
    while (!worker->stopped) {
        wr_loop_turn(worker->loop, WR_NEVER);
        after_turn(worker);
    }
    return NULL;
}

/* ---- life ---- */

static void init(struct wr_worker *worker, const struct wr_worker_options *options, unsigned index)
{
    const struct wr_snapshot *snapshot = options->snapshot;
    worker->options = *options;
    worker->index = index;
    worker->started_mail.run = run_started;
    worker->drained_mail.run = run_drained;
    worker->drain_mail.run = run_drain;
    worker->stop_mail.run = run_stop;
    wr_deadline_init(&worker->sample, on_sample);
    wr_deadline_init(&worker->flush, on_flush);
    worker->metrics = wr_metrics_new_worker(options->registry);
    worker->access_log = wr_access_log_new(options->writer, worker->metrics);
    worker->clusters = wr_new_zero(snapshot->cluster_count, sizeof(*worker->clusters));
    worker->downstreams = wr_new_zero(snapshot->listener_count, sizeof(*worker->downstreams));
}

static enum wr_err make_transports(struct wr_worker *worker)
{
    const struct wr_transport_host_options options = {
        .buffer_shrink_after = worker->options.snapshot->buffer_shrink_after,
        .signers = worker->options.signers,
        .mailbox = worker->mailbox,
        .signed_here = &worker->metrics->signatures[WR_SIGNED_BY_WORKER],
    };
    return wr_transport_host_new(worker->loop, &options, &worker->transports);
}

static enum wr_err make_loop(struct wr_worker *worker)
{
    enum wr_err err = wr_loop_new(WR_CLOCK_MONOTONIC, &worker->loop);
    if (err == WR_OK)
        err = wr_mailbox_new(worker->loop, &worker->mailbox);
    if (err == WR_OK)
        err = make_transports(worker);
    return err;
}

static void make_clusters(struct wr_worker *worker)
{
    const struct wr_snapshot *snapshot = worker->options.snapshot;
    for (size_t i = 0; i < snapshot->cluster_count; i++) {
        const struct wr_cluster_options *options = &snapshot->clusters[i];
        worker->clusters[i] =
            wr_cluster_new(worker->transports, options,
                           wr_metrics_new_cluster(worker->options.registry, options->name));
    }
}

static enum wr_err make_downstreams(struct wr_worker *worker, struct wr_sockets *sockets)
{
    const struct wr_snapshot *snapshot = worker->options.snapshot;
    for (size_t i = 0; i < snapshot->listener_count; i++) {
        const struct wr_downstream_options *options = &snapshot->listeners[i].downstream;
        const struct wr_downstream_env env = {
            .loop = worker->loop,
            .transports = worker->transports,
            .access_log = worker->access_log,
            .worker_metrics = worker->metrics,
            .metrics = wr_metrics_new_listener(worker->options.registry, options->name),
            .clusters = worker->clusters,
            .descriptor_ceiling = worker->options.descriptor_ceiling,
            .shared_socket = sockets->shared[i],
        };
        enum wr_err err = wr_downstream_new(
            &env, options, wr_sockets_take(sockets, worker->index, i), &worker->downstreams[i]);
        if (err != WR_OK)
            return err;
    }
    return WR_OK;
}

enum wr_err wr_worker_new(const struct wr_worker_options *options, unsigned index,
                          struct wr_sockets *sockets, struct wr_worker **out)
{
    struct wr_worker *worker = WR_NEW(struct wr_worker);
    init(worker, options, index);
    enum wr_err err = make_loop(worker);
    if (err == WR_OK) {
        make_clusters(worker);
        err = make_downstreams(worker, sockets);
    }
    if (err != WR_OK) {
        wr_log(WR_LOG_ERROR, "server", "worker %u cannot be made: %s", index, wr_err_text(err));
        wr_worker_free(worker);
        worker = NULL;
    }
    *out = worker;
    return err;
}

enum wr_err wr_worker_start(struct wr_worker *worker)
{
    int error = pthread_create(&worker->thread, NULL, run, worker);
    if (error != 0) {
        wr_log(WR_LOG_ERROR, "server", "worker %u cannot be started: %s", worker->index,
               strerror(error));
        return WR_ERR_SYSTEM;
    }
    worker->running = true;
    return WR_OK;
}

void wr_worker_drain(struct wr_worker *worker)
{
    wr_mailbox_post(worker->mailbox, &worker->drain_mail);
}

void wr_worker_stop(struct wr_worker *worker)
{
    if (worker->running)
        wr_mailbox_post(worker->mailbox, &worker->stop_mail);
}

void wr_worker_join(struct wr_worker *worker)
{
    if (worker->running)
        (void)pthread_join(worker->thread, NULL);
    worker->running = false;
}

size_t wr_worker_connections(const struct wr_worker *worker)
{
    size_t count = 0;
    for (size_t i = 0; i < worker->options.snapshot->listener_count; i++)
        count += wr_downstream_connections(worker->downstreams[i]);
    return count;
}

/* Each layer lets go of its memory at the end of a turn, so there is one before the layer below goes. */
static void free_loop(struct wr_worker *worker)
{
    const struct wr_snapshot *snapshot = worker->options.snapshot;
    wr_mailbox_free(worker->mailbox);
    wr_loop_deadline_remove(worker->loop, &worker->sample);
    wr_loop_deadline_remove(worker->loop, &worker->flush);
    for (size_t i = 0; i < snapshot->listener_count; i++)
        wr_downstream_free(worker->downstreams[i]);
    wr_loop_turn(worker->loop, 0);
    for (size_t i = 0; i < snapshot->cluster_count; i++)
        wr_cluster_free(worker->clusters[i]);
    wr_loop_turn(worker->loop, 0);
    if (worker->transports != NULL)
        wr_transport_host_free(worker->transports);
}

void wr_worker_free(struct wr_worker *worker)
{
    if (worker == NULL)
        return;
    if (worker->loop != NULL)
        free_loop(worker);
    wr_access_log_free(worker->access_log);
    wr_loop_free(worker->loop);
    free(worker->clusters);
    free(worker->downstreams);
    free(worker);
}
