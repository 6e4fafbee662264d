/* What the page /admission knows: the counters of each listener once a second for ten seconds, so that rates can be told, and what
 * is so just now. Facts only: admission_signs.h draws conclusions, admission_words.h says them. */
#ifndef WR_SERVER_ADMISSION_WATCH_H
#define WR_SERVER_ADMISSION_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/snapshot.h"
#include "observe/metrics.h"

/* What was counted in USEC microseconds, by all workers. Nothing but uint64_t: one is taken from another word by word. */
struct wr_admission_counts {
    uint64_t usec;
    uint64_t accepted;
    uint64_t refused[WR_REFUSAL__COUNT];
    uint64_t by_cause[WR_CAUSE__COUNT]; /* of too_many_handshakes */
    uint64_t full;                      /* handshakes finished */
    uint64_t resumed;
    uint64_t failed;
    uint64_t false_claims;
    uint64_t dropped; /* by the kernel */
    uint64_t paused;  /* accepting, for want of descriptors */
    uint64_t waits[WR_HISTOGRAM_BUCKETS];
    uint64_t took_usec; /* accept to finished, of all that finished */
    uint64_t lag[WR_HISTOGRAM_BUCKETS];
};

/* What is so just now. Sums of all workers, unless it says `most`: the worker's that has most. Microseconds. */
struct wr_admission_now {
    uint64_t silent;
    uint64_t waiting;
    uint64_t running;
    uint64_t served; /* open and past the gate */
    uint64_t idle;   /* of those */
    uint64_t limit;  /* of pending handshakes; WR_NEVER: none in one worker at least */
    uint64_t peak;
    uint64_t delayed; /* workers in which the queue stands */
    uint64_t queue;   /* in the kernel */
    uint64_t queue_limit;
    uint64_t queue_age_most;
    uint64_t wait_most;
    uint64_t busy_most;
    uint64_t cost_full_most; /* 0: not enough were measured */
    uint64_t cost_resumed_most;
    uint64_t cost_trusted_most;
    uint64_t silent_most;
    uint64_t open_most;
};

struct wr_admission_view {
    const char *name;
    const struct wr_downstream_options *options;
    unsigned workers;
    unsigned cores; /* that the process may use */
    uint64_t files; /* descriptors that the process may have */
    bool tls;
    bool tickets;
    bool rsa;     /* all keys */
    bool signers; /* some thread makes signatures for the workers */
    bool access_log;
    bool draining;
    uint64_t calm; /* microseconds since weir was last seen to refuse; WR_NEVER: it never did */
    struct wr_admission_counts last;  /* the last second or so */
    struct wr_admission_counts ten;   /* ten seconds or so; less in the first ten */
    struct wr_admission_counts total; /* since the start */
    struct wr_admission_now now;
};

struct wr_admission_watch;

/* Both outlive the watch. Owner: the caller. Not for threads. */
struct wr_admission_watch *wr_admission_watch_new(struct wr_metrics_registry *registry,
                                                  const struct wr_snapshot *snapshot, uint64_t now);
void wr_admission_watch_free(struct wr_admission_watch *watch); /* NULL is fine */
/* To be called several times a second: a sample is taken when the last one is a second old. */
void wr_admission_watch_look(struct wr_admission_watch *watch, uint64_t now);
/* Of listener I; what it points to is the snapshot's. */
void wr_admission_watch_view(struct wr_admission_watch *watch, size_t i, bool draining,
                             uint64_t now, struct wr_admission_view *view);

/* Connections that weir turned away by one of its own rules, not those that came to nothing by their clients' doing. */
uint64_t wr_admission_counts_refused(const struct wr_admission_counts *counts);
bool wr_admission_is_rule(enum wr_refusal reason);
/* The bound of a histogram's bucket below which PER_MILLE of its samples are; WR_NEVER: above all bounds; 0: no samples. */
uint64_t wr_admission_quantile(const uint64_t buckets[WR_HISTOGRAM_BUCKETS], unsigned per_mille);

#endif
