#include "admission/sources.h"

#include <stdlib.h>

#include "admission/hash.h"
#include "base/assert.h"
#include "base/mem.h"
#include "base/time.h"

/* 1 MiB of cells at most; who comes when they are full is not counted. */
#define HELD_MOST 32768u
#define LIARS 1024u
/* Long enough that it has a ticket of ours meanwhile. */
#define DISTRUST (60 * WR_SEC)

struct cell {
    uint64_t key;
    uint32_t count; /* 0: free */
};

struct liar {
    uint64_t key;
    uint64_t until; /* 0: nobody */
};

/* A hash table by linear probing, never more than half full. */
struct wr_sources {
    uint64_t seed;
    uint32_t mask;
    uint32_t used;
    struct liar liars[LIARS];
    struct cell cells[];
};

struct wr_sources *wr_sources_new(uint32_t held, uint64_t seed)
{
    uint32_t size = 16;
    while (size / 2 < held && size / 2 < HELD_MOST)
        size *= 2;
    struct wr_sources *sources =
        wr_new_zero(1, sizeof(struct wr_sources) + size * sizeof(struct cell));
    sources->seed = seed;
    sources->mask = size - 1;
    return sources;
}

void wr_sources_free(struct wr_sources *sources)
{
    free(sources);
}

static uint32_t hash(const struct wr_sources *sources, uint64_t key)
{
    return wr_hash64(key, sources->seed);
}

/* The cell of KEY, or the free one where it would be. */
static uint32_t find(const struct wr_sources *sources, uint64_t key)
{
    uint32_t i = hash(sources, key) & sources->mask;
    while (sources->cells[i].count > 0 && sources->cells[i].key != key)
        i = (i + 1) & sources->mask;
    return i;
}

uint32_t wr_sources_count(const struct wr_sources *sources, uint64_t key)
{
    return sources->cells[find(sources, key)].count;
}

bool wr_sources_add(struct wr_sources *sources, uint64_t key)
{
    struct cell *cell = &sources->cells[find(sources, key)];
    if (cell->count == 0) {
        if (sources->used > sources->mask / 2)
            return false;
        cell->key = key;
        sources->used++;
    }
    cell->count++;
    return true;
}

/* Cell I is free: who was pushed past it comes back, so that no probe ends too early. */
static void close_gap(struct wr_sources *sources, uint32_t i)
{
    uint32_t mask = sources->mask;
    for (uint32_t j = (i + 1) & mask; sources->cells[j].count > 0; j = (j + 1) & mask) {
        uint32_t home = hash(sources, sources->cells[j].key) & mask;
        if (((j - home) & mask) < ((j - i) & mask))
            continue;
        sources->cells[i] = sources->cells[j];
        sources->cells[j].count = 0;
        i = j;
    }
}

void wr_sources_drop(struct wr_sources *sources, uint64_t key)
{
    uint32_t i = find(sources, key);
    WR_ASSERT(sources->cells[i].count > 0);
    if (--sources->cells[i].count > 0)
        return;
    sources->used--;
    close_gap(sources, i);
}

void wr_sources_note_false_claim(struct wr_sources *sources, uint64_t key, uint64_t now)
{
    sources->liars[hash(sources, key) % LIARS] =
        (struct liar){.key = key, .until = wr_time_add(now, DISTRUST)};
}

bool wr_sources_believes(const struct wr_sources *sources, uint64_t key, uint64_t now)
{
    const struct liar *liar = &sources->liars[hash(sources, key) % LIARS];
    return liar->key != key || now >= liar->until;
}
