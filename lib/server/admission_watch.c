#include "server/admission_watch.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/compiler.h"
#include "base/mem.h"
#include "base/time.h"
#include "config/cores.h"
#include "server/history.h"

#define WORDS (sizeof(struct wr_admission_counts) / sizeof(uint64_t))

struct wr_admission_watch {
    struct wr_metrics_registry *registry;
    const struct wr_snapshot *snapshot;
    uint64_t started;
    unsigned cores;
    struct wr_history *history; /* of listeners, of all time; usec: when */
    uint64_t *
        refused_at; /* by listener: when a refusal was last seen to have been counted; WR_NEVER: never */
};

/* ---- reading ---- */

static void add_all(uint64_t *to, const _Atomic uint64_t *from, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] += wr_metric_get(&from[i]);
}

static void add_counts(const struct wr_listener_metrics *metrics, void *arg)
{
    struct wr_admission_counts *counts = arg;
    counts->accepted += wr_metric_get(&metrics->connections_accepted);
    add_all(counts->refused, metrics->connections_refused, WR_REFUSAL__COUNT);
    add_all(counts->by_cause, metrics->handshakes_refused_by_cause, WR_CAUSE__COUNT);
    counts->full += wr_metric_get(&metrics->handshakes_full);
    counts->resumed += wr_metric_get(&metrics->handshakes_resumed);
    counts->failed += wr_metric_get(&metrics->handshakes_failed);
    counts->false_claims += wr_metric_get(&metrics->false_claims);
    counts->dropped += wr_metric_get(&metrics->accept_drops);
    counts->paused += wr_metric_get(&metrics->accept_paused);
    add_all(counts->waits, metrics->handshake_wait.buckets, WR_HISTOGRAM_BUCKETS);
    counts->took_usec += wr_metric_get(&metrics->handshake_duration.sum_usec);
}

static void add_lag(const struct wr_worker_metrics *metrics, void *arg)
{
    struct wr_admission_counts *counts = arg;
    add_all(counts->lag, metrics->loop_lag.buckets, WR_HISTOGRAM_BUCKETS);
}

static struct wr_admission_counts read_counts(const struct wr_admission_watch *watch, size_t i,
                                              uint64_t now)
{
    struct wr_admission_counts counts = {.usec = now};
    wr_metrics_each_listener(watch->registry, watch->snapshot->listeners[i].downstream.name,
                             add_counts, &counts);
    wr_metrics_each_worker(watch->registry, add_lag, &counts);
    return counts;
}

/* A gauge is counted up and down by its worker alone, so it is never below 0. */
static uint64_t keep_most(uint64_t *most, uint64_t value)
{
    if (value > *most)
        *most = value;
    return value;
}

static void add_now(const struct wr_listener_metrics *metrics, void *arg)
{
    struct wr_admission_now *now = arg;
    uint64_t silent = wr_metric_get(&metrics->connections_silent);
    uint64_t waiting = wr_metric_get(&metrics->handshakes_waiting);
    uint64_t running = wr_metric_get(&metrics->handshakes_running);
    uint64_t idle = wr_metric_get(&metrics->connections_idle);
    uint64_t served = idle + wr_metric_get(&metrics->connections_active) +
                      wr_metric_get(&metrics->connections_closing);
    uint64_t limit = wr_metric_get(&metrics->handshakes_limit);
    now->silent += keep_most(&now->silent_most, silent);
    now->waiting += waiting;
    now->running += running;
    now->idle += idle;
    now->served += served;
    (void)keep_most(&now->open_most, silent + waiting + running + served);
    now->limit = limit == WR_ADMISSION_NO_LIMIT ? WR_NEVER : wr_time_add(now->limit, limit);
    now->peak += wr_metric_get(&metrics->handshakes_peak);
    now->delayed += wr_metric_get(&metrics->handshakes_delayed);
    now->queue += wr_metric_get(&metrics->accept_queue);
    now->queue_limit += wr_metric_get(&metrics->accept_queue_limit);
    (void)keep_most(&now->queue_age_most, wr_metric_get(&metrics->accept_queue_age));
    (void)keep_most(&now->wait_most, wr_metric_get(&metrics->oldest_wait));
    (void)keep_most(&now->busy_most, wr_metric_get(&metrics->backlog_busy));
    (void)keep_most(&now->cost_full_most, wr_metric_get(&metrics->cost_full));
    (void)keep_most(&now->cost_resumed_most, wr_metric_get(&metrics->cost_resumed));
    (void)keep_most(&now->cost_trusted_most, wr_metric_get(&metrics->cost_trusted));
}

/* ---- reckoning ---- */

_Static_assert(sizeof(struct wr_admission_counts) % sizeof(uint64_t) == 0, "see its comment");

/* What was counted from BEFORE to AFTER. */
static struct wr_admission_counts between(const uint64_t *before,
                                          const struct wr_admission_counts *after)
{
    struct wr_admission_counts difference = *after;
    wr_history_take((uint64_t *)&difference, before, WORDS);
    return difference;
}

bool wr_admission_is_rule(enum wr_refusal reason)
{
    switch (reason) {
    case WR_REFUSAL_TOO_MANY_HANDSHAKES:
    case WR_REFUSAL_TOO_MANY_CONNECTIONS:
    case WR_REFUSAL_RATE_LIMITED:
    case WR_REFUSAL_DENIED:
    case WR_REFUSAL_NO_DESCRIPTORS:
    case WR_REFUSAL_DRAINING:
        return true;
    default:
        return false;
    }
}

uint64_t wr_admission_counts_refused(const struct wr_admission_counts *counts)
{
    uint64_t refused = 0;
    for (unsigned i = 0; i < WR_REFUSAL__COUNT; i++)
        refused += wr_admission_is_rule((enum wr_refusal)i) ? counts->refused[i] : 0;
    return refused;
}

uint64_t wr_admission_quantile(const uint64_t buckets[WR_HISTOGRAM_BUCKETS], unsigned per_mille)
{
    uint64_t total = 0;
    for (unsigned i = 0; i < WR_HISTOGRAM_BUCKETS; i++)
        total += buckets[i];
    if (total == 0)
        return 0;
    uint64_t below = 0;
    for (unsigned i = 0; i < WR_HISTOGRAM_BUCKETS; i++) {
        below += buckets[i];
        if (below >= total - total * (1000 - per_mille) / 1000)
            return wr_histogram_bounds[i];
    }
    return WR_NEVER;
}

/* ---- the watch ---- */

static void note_refusals(struct wr_admission_watch *watch, size_t i, const uint64_t *before,
                          const struct wr_admission_counts *now)
{
    struct wr_admission_counts since = between(before, now);
    if (wr_admission_counts_refused(&since) > 0)
        watch->refused_at[i] = now->usec;
}

static void take(struct wr_admission_watch *watch, uint64_t now, bool first)
{
    for (size_t i = 0; i < watch->snapshot->listener_count; i++) {
        struct wr_admission_counts counts = read_counts(watch, i, now);
        if (!first)
            note_refusals(watch, i, wr_history_newest(watch->history, i), &counts);
        memcpy(wr_history_next(watch->history, i), &counts, sizeof(counts));
    }
    wr_history_advance(watch->history);
}

void wr_admission_watch_look(struct wr_admission_watch *watch, uint64_t now)
{
    if (wr_history_is_due(watch->history, now))
        take(watch, now, false);
}

struct wr_admission_watch *wr_admission_watch_new(struct wr_metrics_registry *registry,
                                                  const struct wr_snapshot *snapshot, uint64_t now)
{
    struct wr_admission_watch *watch = WR_NEW(struct wr_admission_watch);
    watch->registry = registry;
    watch->snapshot = snapshot;
    watch->started = now;
    watch->cores = wr_cores_available();
    watch->history = wr_history_new(snapshot->listener_count, WORDS);
    watch->refused_at = wr_new_zero(snapshot->listener_count, sizeof(uint64_t));
    for (size_t i = 0; i < snapshot->listener_count; i++)
        watch->refused_at[i] = WR_NEVER;
    take(watch, now, true);
    return watch;
}

void wr_admission_watch_free(struct wr_admission_watch *watch)
{
    if (watch == NULL)
        return;
    wr_history_free(watch->history);
    free(watch->refused_at);
    free(watch);
}

static uint64_t files_allowed(void)
{
    struct rlimit limit;
    bool known = getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
    return known ? limit.rlim_cur : WR_NEVER;
}

void wr_admission_watch_view(struct wr_admission_watch *watch, size_t i, bool draining,
                             uint64_t now, struct wr_admission_view *view)
{
    const struct wr_snapshot *snapshot = watch->snapshot;
    const struct wr_downstream_options *options = &snapshot->listeners[i].downstream;
    struct wr_admission_counts current = read_counts(watch, i, now);
    note_refusals(watch, i, wr_history_newest(watch->history, i), &current);
    uint64_t refused_at = watch->refused_at[i];
    *view = (struct wr_admission_view){
        .name = options->name,
        .options = options,
        .workers = snapshot->workers,
        .cores = watch->cores,
        .files = files_allowed(),
        .tls = options->tls != NULL,
        .tickets = options->tls != NULL && wr_tls_server_resumes(options->tls),
        .rsa = options->tls != NULL && wr_tls_server_is_rsa(options->tls),
        .signers = snapshot->signers.threads > 0,
        .access_log = snapshot->access_log != NULL,
        .draining = draining,
        .calm = refused_at == WR_NEVER ? WR_NEVER : wr_time_since(refused_at, now),
        .last = between(wr_history_second_ago(watch->history, i, now), &current),
        .ten = between(wr_history_oldest(watch->history, i), &current),
        .total = current,
    };
    view->total.usec = wr_time_since(watch->started, now);
    wr_metrics_each_listener(watch->registry, options->name, add_now, &view->now);
}
