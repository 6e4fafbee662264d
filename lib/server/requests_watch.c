#include "server/requests_watch.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/time.h"
#include "server/history.h"

#define WORDS (sizeof(struct wr_requests_counts) / sizeof(uint64_t))

_Static_assert(sizeof(struct wr_requests_counts) % sizeof(uint64_t) == 0, "see its comment");

struct wr_requests_watch {
    struct wr_metrics_registry *registry;
    const struct wr_snapshot *snapshot;
    uint64_t started;
    struct wr_history *history; /* of listeners, then of clusters */
};

/* ---- reading ---- */

/* Whoever is admitted has waited, if only for nothing. */
static void add_wait(struct wr_requests_counts *counts, const struct wr_histogram *wait)
{
    for (size_t i = 0; i < WR_HISTOGRAM_BUCKETS; i++) {
        uint64_t waited = wr_metric_get(&wait->buckets[i]);
        counts->waits[i] += waited;
        counts->admitted += waited;
    }
}

static void add_refused(struct wr_requests_counts *counts, const _Atomic uint64_t *refused)
{
    for (size_t i = 0; i < WR_SHED__COUNT; i++)
        counts->refused[i] += wr_metric_get(&refused[i]);
}

static void add_listener_counts(const struct wr_listener_metrics *metrics, void *arg)
{
    struct wr_requests_counts *counts = arg;
    add_wait(counts, &metrics->request_wait);
    add_refused(counts, metrics->requests_refused);
    counts->rate_limited += wr_metric_get(&metrics->requests_rate_limited);
}

static void add_cluster_counts(const struct wr_cluster_metrics *metrics, void *arg)
{
    struct wr_requests_counts *counts = arg;
    add_wait(counts, &metrics->upstream_request_wait);
    add_refused(counts, metrics->upstream_requests_refused);
}

/* Of one worker. */
static void add_now(struct wr_requests_now *now, uint64_t in_flight, uint64_t waiting,
                    uint64_t limit)
{
    now->in_flight += in_flight;
    now->waiting += waiting;
    now->limit += limit;
    now->full += limit > 0 && (waiting > 0 || in_flight >= limit);
}

static void add_listener_now(const struct wr_listener_metrics *metrics, void *arg)
{
    add_now(arg, wr_metric_get(&metrics->requests_in_flight),
            wr_metric_get(&metrics->requests_waiting), wr_metric_get(&metrics->requests_limit));
}

static void add_cluster_now(const struct wr_cluster_metrics *metrics, void *arg)
{
    add_now(arg, wr_metric_get(&metrics->upstream_requests_in_flight),
            wr_metric_get(&metrics->upstream_requests_waiting),
            wr_metric_get(&metrics->upstream_requests_limit));
}

static struct wr_requests_counts read_counts(const struct wr_requests_watch *watch, size_t subject,
                                             uint64_t now)
{
    const struct wr_snapshot *snapshot = watch->snapshot;
    struct wr_requests_counts counts = {.usec = now};
    size_t listeners = snapshot->listener_count;
    if (subject < listeners)
        wr_metrics_each_listener(watch->registry, snapshot->listeners[subject].downstream.name,
                                 add_listener_counts, &counts);
    else
        wr_metrics_each_cluster(watch->registry, snapshot->clusters[subject - listeners].name,
                                add_cluster_counts, &counts);
    return counts;
}

/* ---- the watch ---- */

static size_t subjects(const struct wr_snapshot *snapshot)
{
    return snapshot->listener_count + snapshot->cluster_count;
}

struct wr_requests_watch *wr_requests_watch_new(struct wr_metrics_registry *registry,
                                                const struct wr_snapshot *snapshot, uint64_t now)
{
    struct wr_requests_watch *watch = WR_NEW(struct wr_requests_watch);
    watch->registry = registry;
    watch->snapshot = snapshot;
    watch->started = now;
    watch->history = wr_history_new(subjects(snapshot), WORDS);
    wr_requests_watch_look(watch, now);
    return watch;
}

void wr_requests_watch_free(struct wr_requests_watch *watch)
{
    if (watch == NULL)
        return;
    wr_history_free(watch->history);
    free(watch);
}

void wr_requests_watch_look(struct wr_requests_watch *watch, uint64_t now)
{
    if (!wr_history_is_due(watch->history, now))
        return;
    for (size_t i = 0; i < subjects(watch->snapshot); i++) {
        struct wr_requests_counts counts = read_counts(watch, i, now);
        memcpy(wr_history_next(watch->history, i), &counts, sizeof(counts));
    }
    wr_history_advance(watch->history);
}

uint64_t wr_requests_counts_refused(const struct wr_requests_counts *counts)
{
    uint64_t refused = counts->rate_limited;
    for (size_t i = 0; i < WR_SHED__COUNT; i++)
        refused += counts->refused[i];
    return refused;
}

static void count(const struct wr_requests_watch *watch, size_t subject, uint64_t now,
                  struct wr_requests_view *view)
{
    struct wr_requests_counts current = read_counts(watch, subject, now);
    view->workers = watch->snapshot->workers;
    view->last = view->ten = view->total = current;
    wr_history_take((uint64_t *)&view->last, wr_history_second_ago(watch->history, subject, now),
                    WORDS);
    wr_history_take((uint64_t *)&view->ten, wr_history_oldest(watch->history, subject), WORDS);
    view->total.usec = wr_time_since(watch->started, now);
}

void wr_requests_watch_listener(const struct wr_requests_watch *watch, size_t i, uint64_t now,
                                struct wr_requests_view *view)
{
    const struct wr_downstream_options *options = &watch->snapshot->listeners[i].downstream;
    *view = (struct wr_requests_view){.name = options->name,
                                      .options = &options->proxy.requests,
                                      .routes = &options->proxy.routes};
    count(watch, i, now, view);
    wr_metrics_each_listener(watch->registry, options->name, add_listener_now, &view->now);
}

void wr_requests_watch_cluster(const struct wr_requests_watch *watch, size_t i, uint64_t now,
                               struct wr_requests_view *view)
{
    const struct wr_cluster_options *options = &watch->snapshot->clusters[i];
    *view = (struct wr_requests_view){.name = options->name, .options = &options->requests};
    count(watch, watch->snapshot->listener_count + i, now, view);
    wr_metrics_each_cluster(watch->registry, options->name, add_cluster_now, &view->now);
}
