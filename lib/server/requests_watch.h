/* What the page /admission knows of requests: the counters of each listener's and each cluster's request admission once a second for ten
 * seconds, and what is so just now. Facts only: requests_words.h says what they mean. */
#ifndef WR_SERVER_REQUESTS_WATCH_H
#define WR_SERVER_REQUESTS_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/snapshot.h"
#include "observe/metrics.h"

/* What was counted in USEC microseconds, by all workers. Nothing but uint64_t: one is taken from another word by word. */
struct wr_requests_counts {
    uint64_t usec;
    uint64_t admitted;
    uint64_t refused[WR_SHED__COUNT];
    uint64_t rate_limited; /* by a route; 0 of clusters */
    uint64_t waits[WR_HISTOGRAM_BUCKETS];
};

/* What is so just now, summed over workers. */
struct wr_requests_now {
    uint64_t in_flight;
    uint64_t waiting;
    uint64_t limit; /* 0: none */
    uint64_t full;  /* workers in which as many are in flight as may, or somebody waits */
};

struct wr_requests_view {
    const char *name;
    const struct wr_requests_options *options;
    const struct wr_route_table *routes; /* whose rates count here; NULL: of a cluster */
    unsigned workers;
    struct wr_requests_counts last;  /* the last second or so */
    struct wr_requests_counts ten;   /* ten seconds or so; less in the first ten */
    struct wr_requests_counts total; /* since the start */
    struct wr_requests_now now;
};

struct wr_requests_watch;

/* Both outlive the watch. Owner: the caller. Not for threads. */
struct wr_requests_watch *wr_requests_watch_new(struct wr_metrics_registry *registry,
                                                const struct wr_snapshot *snapshot, uint64_t now);
void wr_requests_watch_free(struct wr_requests_watch *watch); /* NULL is fine */
/* To be called several times a second: a sample is taken when the last one is a second old. */
void wr_requests_watch_look(struct wr_requests_watch *watch, uint64_t now);
/* Of listener or cluster I of the snapshot; what it points to is the snapshot's. */
void wr_requests_watch_listener(const struct wr_requests_watch *watch, size_t i, uint64_t now,
                                struct wr_requests_view *view);
void wr_requests_watch_cluster(const struct wr_requests_watch *watch, size_t i, uint64_t now,
                               struct wr_requests_view *view);

/* Refused by the limit or by a rate. */
uint64_t wr_requests_counts_refused(const struct wr_requests_counts *counts);

#endif
