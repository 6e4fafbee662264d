#include "support/histogram.h"

/* Below HISTOGRAM_STEPS a bucket a value; above, HISTOGRAM_STEPS buckets a doubling. */
static unsigned bucket_of(uint64_t value)
{
    if (value < HISTOGRAM_STEPS)
        return (unsigned)value;
    unsigned doublings = 63u - (unsigned)__builtin_clzll(value) - 5u;
    unsigned bucket =
        (doublings + 1) * HISTOGRAM_STEPS + (unsigned)(value >> doublings) - HISTOGRAM_STEPS;
    return bucket < HISTOGRAM_BUCKETS ? bucket : HISTOGRAM_BUCKETS - 1;
}

static uint64_t end_of(unsigned bucket)
{
    if (bucket < HISTOGRAM_STEPS)
        return bucket;
    unsigned doublings = bucket / HISTOGRAM_STEPS - 1;
    uint64_t start = (uint64_t)(bucket % HISTOGRAM_STEPS + HISTOGRAM_STEPS) << doublings;
    return start + (UINT64_C(1) << doublings) - 1;
}

void histogram_record(struct histogram *histogram, uint64_t microseconds)
{
    histogram->count++;
    histogram->buckets[bucket_of(microseconds)]++;
    if (microseconds > histogram->greatest)
        histogram->greatest = microseconds;
}

void histogram_add(struct histogram *histogram, const struct histogram *other)
{
    histogram->count += other->count;
    if (other->greatest > histogram->greatest)
        histogram->greatest = other->greatest;
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
        histogram->buckets[i] += other->buckets[i];
}

double histogram_quantile(const struct histogram *histogram, double share)
{
    uint64_t wanted = (uint64_t)(share * (double)histogram->count);
    uint64_t seen = 0;

    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
        seen += histogram->buckets[i];
        if (seen > wanted) {
            uint64_t end = end_of(i);
            return (double)(end < histogram->greatest ? end : histogram->greatest) / 1e3;
        }
    }
    return (double)histogram->greatest / 1e3;
}

void histogram_print(const struct histogram *histogram, FILE *to)
{
    (void)fprintf(to,
                  "{\"count\": %llu, \"p50\": %.3f, \"p90\": %.3f, \"p99\": %.3f, \"max\": %.3f}",
                  (unsigned long long)histogram->count, histogram_quantile(histogram, 0.5),
                  histogram_quantile(histogram, 0.9), histogram_quantile(histogram, 0.99),
                  (double)histogram->greatest / 1e3);
}
