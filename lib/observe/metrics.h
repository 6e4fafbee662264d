/* Counters, gauges and histograms. A block belongs to one thread, which alone writes it; any thread may read (relaxed
 * atomics). Blocks of one scope with equal labels are shown as one. metrics.def lists what there is. */
#ifndef WR_OBSERVE_METRICS_H
#define WR_OBSERVE_METRICS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/eviction.h"
#include "base/flood.h"
#include "base/list.h"
#include "base/refusal.h"
#include "base/shed.h"

/* Upper bounds, in microseconds, of histogram buckets; the last is +Inf. */
#define WR_HISTOGRAM_BUCKETS 20
extern const uint64_t wr_histogram_bounds[WR_HISTOGRAM_BUCKETS];

struct wr_histogram {
    _Atomic uint64_t buckets[WR_HISTOGRAM_BUCKETS];
    _Atomic uint64_t sum_usec;
};

/* Where a handshake's signature was made. */
enum wr_signed_by { WR_SIGNED_BY_WORKER, WR_SIGNED_BY_SIGNER, WR_SIGNED_BY__COUNT };

enum wr_metrics_scope { WR_SCOPE_WORKER, WR_SCOPE_LISTENER, WR_SCOPE_CLUSTER };

/* The head of a block; the fields of each scope's block follow from metrics.def. */
struct wr_metrics_block {
    enum wr_metrics_scope scope;
    char *label; /* name of the listener or cluster; NULL for WORKER */
    struct wr_list link;
};

#define WR_IF_WORKER_WORKER(x) x
#define WR_IF_WORKER_LISTENER(x)
#define WR_IF_WORKER_CLUSTER(x)
#define WR_IF_LISTENER_WORKER(x)
#define WR_IF_LISTENER_LISTENER(x) x
#define WR_IF_LISTENER_CLUSTER(x)
#define WR_IF_CLUSTER_WORKER(x)
#define WR_IF_CLUSTER_LISTENER(x)
#define WR_IF_CLUSTER_CLUSTER(x) x

#define HISTOGRAM(scope, name, prometheus, help) WR_PICK(scope, struct wr_histogram name;)
#define COUNTER(scope, name, prometheus, help) WR_PICK(scope, _Atomic uint64_t name;)
#define GAUGE(scope, name, prometheus, help) WR_PICK(scope, _Atomic uint64_t name;)
#define GAUGE_MOST(scope, name, prometheus, help) WR_PICK(scope, _Atomic uint64_t name;)
#define COUNTER_BY(scope, name, prometheus, key, count, label_fn, help) \
    WR_PICK(scope, _Atomic uint64_t name[count];)

struct wr_worker_metrics {
    struct wr_metrics_block block;
#define WR_PICK(scope, member) WR_IF_WORKER_##scope(member)
#include "observe/metrics.def"
#undef WR_PICK
};

struct wr_listener_metrics {
    struct wr_metrics_block block;
#define WR_PICK(scope, member) WR_IF_LISTENER_##scope(member)
#include "observe/metrics.def"
#undef WR_PICK
};

struct wr_cluster_metrics {
    struct wr_metrics_block block;
#define WR_PICK(scope, member) WR_IF_CLUSTER_##scope(member)
#include "observe/metrics.def"
#undef WR_PICK
};

#undef HISTOGRAM
#undef COUNTER
#undef GAUGE
#undef GAUGE_MOST
#undef COUNTER_BY

/* All blocks of the process. Registering takes a lock: at start-up and reload, never on the request path. */
struct wr_metrics_registry;

struct wr_metrics_registry *wr_metrics_registry_new(void);
void wr_metrics_registry_free(struct wr_metrics_registry *registry);

/* New blocks, zeroed. Owner: the registry; they stay until it is freed, so counters never go backwards. LABEL is copied. */
struct wr_worker_metrics *wr_metrics_new_worker(struct wr_metrics_registry *registry);
struct wr_listener_metrics *wr_metrics_new_listener(struct wr_metrics_registry *registry,
                                                    const char *label);
struct wr_cluster_metrics *wr_metrics_new_cluster(struct wr_metrics_registry *registry,
                                                  const char *label);

/* Prometheus text exposition format 0.0.4 of the whole process. Owner of the returned text: the caller (free()). */
char *wr_metrics_render(struct wr_metrics_registry *registry, size_t *length);

/* Calls EACH for all blocks of the listener LABEL, or of all workers. Any thread; blocks are counted in meanwhile. */
void wr_metrics_each_listener(struct wr_metrics_registry *registry, const char *label,
                              void (*each)(const struct wr_listener_metrics *metrics, void *arg),
                              void *arg);
void wr_metrics_each_worker(struct wr_metrics_registry *registry,
                            void (*each)(const struct wr_worker_metrics *metrics, void *arg),
                            void *arg);

/* For the owning thread only. */
static inline void wr_metric_add(_Atomic uint64_t *metric, uint64_t n)
{
    atomic_store_explicit(metric, atomic_load_explicit(metric, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

static inline void wr_metric_inc(_Atomic uint64_t *metric)
{
    wr_metric_add(metric, 1);
}

static inline void wr_metric_dec(_Atomic uint64_t *metric)
{
    wr_metric_add(metric, UINT64_MAX);
}

static inline void wr_metric_set(_Atomic uint64_t *metric, uint64_t value)
{
    atomic_store_explicit(metric, value, memory_order_relaxed);
}

static inline uint64_t wr_metric_get(const _Atomic uint64_t *metric)
{
    return atomic_load_explicit(metric, memory_order_relaxed);
}

void wr_histogram_record(struct wr_histogram *histogram, uint64_t usec);

/* Label values of the COUNTER_BY rows; INDEX is below the row's count. Index 0 of the status label is "none". */
const char *wr_metrics_refusal_label(unsigned index);
const char *wr_metrics_cause_label(unsigned index);
const char *wr_metrics_err_label(unsigned index);
const char *wr_metrics_flood_label(unsigned index);
const char *wr_metrics_eviction_label(unsigned index);
const char *wr_metrics_shed_label(unsigned index);
const char *wr_metrics_status_label(unsigned index);
const char *wr_metrics_signed_label(unsigned index);

#endif
