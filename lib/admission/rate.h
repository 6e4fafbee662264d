/* Rates: so many a second on the long run, so many at once. The generic cell rate algorithm (ITU-T I.371): a bucket is one word, the time
 * at which it will be full again, so a table of buckets by source is small, and what it forgets is what is nearest to full. */
#ifndef WR_ADMISSION_RATE_H
#define WR_ADMISSION_RATE_H

#include <stdbool.h>
#include <stdint.h>

struct wr_rate {
    uint64_t per_second; /* 0: no limit */
    uint64_t burst;      /* at once, 1 at least */
};

struct wr_bucket {
    uint64_t full_at; /* microseconds; 0 is a full one */
};

/* Takes a token. False: there is none, and nothing is taken. */
bool wr_bucket_take(struct wr_bucket *bucket, const struct wr_rate *rate, uint64_t now);
/* Microseconds until wr_bucket_take() would succeed. */
uint64_t wr_bucket_wait(const struct wr_bucket *bucket, const struct wr_rate *rate, uint64_t now);

/* A bucket for each key, in memory that is fixed when made: of too many keys that are busy at once, the one nearest to full is
 * forgotten. */
struct wr_rate_table;
/* Of sources that anybody may have: 256 KiB. */
#define WR_RATE_KEYS 16384u
/* RATE is copied. Room for KEYS, 16 bytes each, rounded up to a few. SEED: unknown outside. Owner: the caller. NULL when RATE is no
 * limit. */
struct wr_rate_table *wr_rate_table_new(const struct wr_rate *rate, uint32_t keys, uint64_t seed);
void wr_rate_table_free(struct wr_rate_table *table); /* NULL is fine */
/* As for buckets; TABLE NULL: always true, and 0. */
bool wr_rate_table_take(struct wr_rate_table *table, uint64_t key, uint64_t now);
uint64_t wr_rate_table_wait(const struct wr_rate_table *table, uint64_t key, uint64_t now);

#endif
