/* Counts of durations in microseconds, each bucket at most 1/32 wide: quantiles to 3 %. Plain memory, so that processes may share it
 * and add theirs up. */
#ifndef BENCH_SUPPORT_HISTOGRAM_H
#define BENCH_SUPPORT_HISTOGRAM_H

#include <stdint.h>
#include <stdio.h>

#define HISTOGRAM_STEPS 32 /* a doubling */
#define HISTOGRAM_BUCKETS (HISTOGRAM_STEPS * 32)

struct histogram {
    uint64_t count;
    uint64_t greatest;
    uint64_t buckets[HISTOGRAM_BUCKETS];
};

void histogram_record(struct histogram *histogram, uint64_t microseconds);
void histogram_add(struct histogram *histogram, const struct histogram *other);
double histogram_quantile(const struct histogram *histogram, double share); /* milliseconds */
void histogram_print(const struct histogram *histogram, FILE *to);          /* a JSON object */

#endif
