#include "admission/rate.h"

#include <stdlib.h>

#include "admission/hash.h"
#include "base/mem.h"
#include "base/time.h"

#define WAYS 8u

struct cell {
    uint64_t key;
    struct wr_bucket bucket;
};

struct wr_rate_table {
    struct wr_rate rate;
    uint64_t seed;
    uint64_t set_count; /* at least 1 */
    struct cell sets[][WAYS];
};

/* Above a million a second every token takes a microsecond. */
static uint64_t token(const struct wr_rate *rate)
{
    return rate->per_second < WR_SEC ? WR_SEC / rate->per_second : 1;
}

/* How far in the future a bucket may be full again that still has a token. */
static uint64_t tolerance(const struct wr_rate *rate)
{
    uint64_t others = rate->burst > 0 ? rate->burst - 1 : 0;
    return others < WR_NEVER / 2 / token(rate) ? others * token(rate) : WR_NEVER / 2;
}

uint64_t wr_bucket_wait(const struct wr_bucket *bucket, const struct wr_rate *rate, uint64_t now)
{
    if (rate->per_second == 0)
        return 0;
    uint64_t ahead = wr_time_since(now, bucket->full_at);
    uint64_t allowed = tolerance(rate);
    /* After the clock has stepped back nobody waits longer than from an empty bucket. */
    if (ahead > allowed + token(rate))
        ahead = allowed + token(rate);
    return ahead > allowed ? ahead - allowed : 0;
}

bool wr_bucket_take(struct wr_bucket *bucket, const struct wr_rate *rate, uint64_t now)
{
    if (rate->per_second == 0)
        return true;
    uint64_t most = wr_time_add(now, tolerance(rate) + token(rate));
    if (bucket->full_at > most)
        bucket->full_at = most;
    if (wr_bucket_wait(bucket, rate, now) > 0)
        return false;
    uint64_t from = bucket->full_at > now ? bucket->full_at : now;
    bucket->full_at = wr_time_add(from, token(rate));
    return true;
}

struct wr_rate_table *wr_rate_table_new(const struct wr_rate *rate, uint32_t keys, uint64_t seed)
{
    if (rate->per_second == 0)
        return NULL;
    size_t sets = keys / WAYS + (keys % WAYS != 0);
    sets = sets > 0 ? sets : 1;
    struct wr_rate_table *table = wr_new_zero(1, sizeof(*table) + sets * sizeof(table->sets[0]));
    table->set_count = sets;
    table->rate = *rate;
    table->seed = seed;
    return table;
}

void wr_rate_table_free(struct wr_rate_table *table)
{
    free(table);
}

/* Its index in SET: of the cell of KEY, or of the one nearest to full. A cell nobody has used looks like one of key 0 that is full:
 * both mean the same. */
static size_t find(const struct cell *set, uint64_t key)
{
    size_t fullest = 0;
    for (size_t i = 0; i < WAYS; i++) {
        if (set[i].key == key)
            return i;
        if (set[i].bucket.full_at < set[fullest].bucket.full_at)
            fullest = i;
    }
    return fullest;
}

static size_t set_of(const struct wr_rate_table *table, uint64_t key)
{
    return wr_hash64(key, table->seed) % table->set_count;
}

bool wr_rate_table_take(struct wr_rate_table *table, uint64_t key, uint64_t now)
{
    if (table == NULL)
        return true;
    struct cell *set = table->sets[set_of(table, key)];
    struct cell *cell = &set[find(set, key)];
    if (cell->key != key)
        *cell = (struct cell){.key = key};
    return wr_bucket_take(&cell->bucket, &table->rate, now);
}

uint64_t wr_rate_table_wait(const struct wr_rate_table *table, uint64_t key, uint64_t now)
{
    if (table == NULL)
        return 0;
    const struct cell *set = table->sets[set_of(table, key)];
    const struct cell *cell = &set[find(set, key)];
    return cell->key == key ? wr_bucket_wait(&cell->bucket, &table->rate, now) : 0;
}
