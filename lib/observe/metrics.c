#include "observe/metrics.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "observe/metrics_table.h"

#define CACHE_LINE 64

const uint64_t wr_histogram_bounds[WR_HISTOGRAM_BUCKETS] = {
    50,     100,    250,    500,     1000,    2500,    5000,     10000,    25000,    50000,
    100000, 250000, 500000, 1000000, 2500000, 5000000, 10000000, 30000000, 60000000, UINT64_MAX,
};

#define BLOCK_WORKER struct wr_worker_metrics
#define BLOCK_LISTENER struct wr_listener_metrics
#define BLOCK_CLUSTER struct wr_cluster_metrics

#define ROW(scope, kind, field, name, help, key, label_fn, count) \
    {WR_SCOPE_##scope,                                            \
     WR_METRIC_##kind,                                            \
     name,                                                        \
     help,                                                        \
     offsetof(BLOCK_##scope, field),                              \
     key,                                                         \
     label_fn,                                                    \
     count},
#define COUNTER(scope, field, name, help) ROW(scope, COUNTER, field, name, help, NULL, NULL, 1)
#define GAUGE(scope, field, name, help) ROW(scope, GAUGE, field, name, help, NULL, NULL, 1)
#define GAUGE_MOST(scope, field, name, help) \
    ROW(scope, GAUGE_MOST, field, name, help, NULL, NULL, 1)
#define HISTOGRAM(scope, field, name, help) ROW(scope, HISTOGRAM, field, name, help, NULL, NULL, 1)
#define COUNTER_BY(scope, field, name, key, count, label_fn, help) \
    ROW(scope, COUNTER, field, name, help, key, label_fn, count)

const struct wr_metric_row wr_metric_rows[] = {
#include "observe/metrics.def"
};

const size_t wr_metric_row_count = WR_COUNT_OF(wr_metric_rows);

struct wr_metrics_registry *wr_metrics_registry_new(void)
{
    struct wr_metrics_registry *registry = WR_NEW(struct wr_metrics_registry);
    int failed = pthread_mutex_init(&registry->lock, NULL);
    WR_ASSERT(failed == 0);
    wr_list_init(&registry->blocks);
    return registry;
}

void wr_metrics_registry_free(struct wr_metrics_registry *registry)
{
    struct wr_list *link;
    if (registry == NULL)
        return;
    while ((link = wr_list_pop_front(&registry->blocks)) != NULL) {
        struct wr_metrics_block *block = WR_CONTAINER_OF(link, struct wr_metrics_block, link);
        free(block->label);
        free(block);
    }
    pthread_mutex_destroy(&registry->lock);
    free(registry);
}

/* A cleared block of SIZE bytes, alone on its cache lines, so that no thread's counting slows another's. Every block
 * starts with its struct wr_metrics_block. */
static void *new_block(struct wr_metrics_registry *registry, enum wr_metrics_scope scope,
                       const char *label, size_t size)
{
    size_t rounded = (size + CACHE_LINE - 1) & ~(size_t)(CACHE_LINE - 1);
    struct wr_metrics_block *block = wr_new_aligned(CACHE_LINE, rounded);
    memset(block, 0, rounded);
    block->scope = scope;
    block->label = label != NULL ? wr_copy_string(label) : NULL;

    pthread_mutex_lock(&registry->lock);
    wr_list_push_back(&registry->blocks, &block->link);
    registry->count++;
    pthread_mutex_unlock(&registry->lock);
    return block;
}

_Static_assert(offsetof(struct wr_worker_metrics, block) == 0, "see new_block");
_Static_assert(offsetof(struct wr_listener_metrics, block) == 0, "see new_block");
_Static_assert(offsetof(struct wr_cluster_metrics, block) == 0, "see new_block");

struct wr_worker_metrics *wr_metrics_new_worker(struct wr_metrics_registry *registry)
{
    return new_block(registry, WR_SCOPE_WORKER, NULL, sizeof(struct wr_worker_metrics));
}

struct wr_listener_metrics *wr_metrics_new_listener(struct wr_metrics_registry *registry,
                                                    const char *label)
{
    return new_block(registry, WR_SCOPE_LISTENER, label, sizeof(struct wr_listener_metrics));
}

struct wr_cluster_metrics *wr_metrics_new_cluster(struct wr_metrics_registry *registry,
                                                  const char *label)
{
    return new_block(registry, WR_SCOPE_CLUSTER, label, sizeof(struct wr_cluster_metrics));
}

void wr_metrics_each_listener(struct wr_metrics_registry *registry, const char *label,
                              void (*each)(const struct wr_listener_metrics *metrics, void *arg),
                              void *arg)
{
    pthread_mutex_lock(&registry->lock);
    for (struct wr_list *link = registry->blocks.next; link != &registry->blocks;
         link = link->next) {
        struct wr_metrics_block *block = WR_CONTAINER_OF(link, struct wr_metrics_block, link);
        if (block->scope == WR_SCOPE_LISTENER && strcmp(block->label, label) == 0)
            each(WR_CONTAINER_OF(block, struct wr_listener_metrics, block), arg);
    }
    pthread_mutex_unlock(&registry->lock);
}

void wr_metrics_each_worker(struct wr_metrics_registry *registry,
                            void (*each)(const struct wr_worker_metrics *metrics, void *arg),
                            void *arg)
{
    pthread_mutex_lock(&registry->lock);
    for (struct wr_list *link = registry->blocks.next; link != &registry->blocks;
         link = link->next) {
        struct wr_metrics_block *block = WR_CONTAINER_OF(link, struct wr_metrics_block, link);
        if (block->scope == WR_SCOPE_WORKER)
            each(WR_CONTAINER_OF(block, struct wr_worker_metrics, block), arg);
    }
    pthread_mutex_unlock(&registry->lock);
}

void wr_histogram_record(struct wr_histogram *histogram, uint64_t usec)
{
    unsigned bucket = 0;
    while (usec > wr_histogram_bounds[bucket]) /* ends: the last bound is UINT64_MAX */
        bucket++;
    wr_metric_inc(&histogram->buckets[bucket]);
    wr_metric_add(&histogram->sum_usec, usec);
}

const char *wr_metrics_refusal_label(unsigned index)
{
    return wr_refusal_label((enum wr_refusal)index);
}

const char *wr_metrics_cause_label(unsigned index)
{
    return index == WR_CAUSE_NONE ? "none" : wr_refusal_cause_label((enum wr_refusal_cause)index);
}

const char *wr_metrics_err_label(unsigned index)
{
    return wr_err_info((enum wr_err)index)->label;
}

const char *wr_metrics_eviction_label(unsigned index)
{
    return wr_eviction_label((enum wr_eviction)index);
}

const char *wr_metrics_flood_label(unsigned index)
{
    return wr_flood_label((enum wr_flood)index);
}

const char *wr_metrics_shed_label(unsigned index)
{
    return wr_shed_label((enum wr_shed)index);
}

const char *wr_metrics_status_label(unsigned index)
{
    static const char *const labels[] = {"none", "1xx", "2xx", "3xx", "4xx", "5xx"};
    WR_ASSERT(index < WR_COUNT_OF(labels));
    return labels[index];
}

const char *wr_metrics_signed_label(unsigned index)
{
    static const char *const labels[WR_SIGNED_BY__COUNT] = {"worker", "signer"};
    WR_ASSERT(index < WR_SIGNED_BY__COUNT);
    return labels[index];
}
