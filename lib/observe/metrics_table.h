/* What lies behind metrics.h: the registry's inside and the rows of metrics.def as data. For lib/observe only. */
#ifndef WR_OBSERVE_METRICS_TABLE_H
#define WR_OBSERVE_METRICS_TABLE_H

#include <pthread.h>
#include <stddef.h>

#include "base/list.h"
#include "observe/metrics.h"

struct wr_metrics_registry {
    pthread_mutex_t lock;
    struct wr_list blocks; /* struct wr_metrics_block, oldest first */
    size_t count;
};

enum wr_metric_kind {
    WR_METRIC_COUNTER,
    WR_METRIC_GAUGE,
    WR_METRIC_GAUGE_MOST,
    WR_METRIC_HISTOGRAM
};

struct wr_metric_row {
    enum wr_metrics_scope scope;
    enum wr_metric_kind kind;
    const char *name; /* as Prometheus knows it */
    const char *help;
    size_t offset;                           /* of the field in its scope's block */
    const char *label_key;                   /* COUNTER_BY, else NULL */
    const char *(*label_of)(unsigned index); /* with label_key */
    unsigned count;                          /* values: 1, or those of COUNTER_BY */
};

extern const struct wr_metric_row wr_metric_rows[];
extern const size_t wr_metric_row_count;

#endif
