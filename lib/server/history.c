#include "server/history.h"

#include <stdlib.h>

#include "base/mem.h"
#include "base/time.h"

#define SAMPLE_EVERY WR_SEC
#define SAMPLES 11u /* eleven samples are ten seconds apart */

struct wr_history {
    size_t subjects;
    size_t words;
    unsigned newest;
    unsigned taken;
    uint64_t *rows; /* of sample and subject */
};

struct wr_history *wr_history_new(size_t subjects, size_t words)
{
    struct wr_history *history = WR_NEW(struct wr_history);
    history->subjects = subjects;
    history->words = words;
    history->rows = wr_new_zero(SAMPLES * subjects, words * sizeof(uint64_t));
    return history;
}

void wr_history_free(struct wr_history *history)
{
    if (history == NULL)
        return;
    free(history->rows);
    free(history);
}

static uint64_t *row(const struct wr_history *history, unsigned sample, size_t i)
{
    return history->rows + (sample * history->subjects + i) * history->words;
}

static const uint64_t *aged(const struct wr_history *history, unsigned age, size_t i)
{
    return row(history, (history->newest + SAMPLES - age) % SAMPLES, i);
}

bool wr_history_is_due(const struct wr_history *history, uint64_t now)
{
    if (history->subjects == 0)
        return false;
    return history->taken == 0 || wr_time_since(aged(history, 0, 0)[0], now) >= SAMPLE_EVERY;
}

uint64_t *wr_history_next(struct wr_history *history, size_t i)
{
    return row(history, (history->newest + 1) % SAMPLES, i);
}

void wr_history_advance(struct wr_history *history)
{
    history->newest = (history->newest + 1) % SAMPLES;
    if (history->taken < SAMPLES)
        history->taken++;
}

const uint64_t *wr_history_newest(const struct wr_history *history, size_t i)
{
    return aged(history, 0, i);
}

const uint64_t *wr_history_oldest(const struct wr_history *history, size_t i)
{
    return aged(history, history->taken - 1, i);
}

const uint64_t *wr_history_second_ago(const struct wr_history *history, size_t i, uint64_t now)
{
    unsigned age = 0;
    while (age + 1 < history->taken && wr_time_since(aged(history, age, i)[0], now) < WR_SEC)
        age++;
    return aged(history, age, i);
}

void wr_history_take(uint64_t *after, const uint64_t *before, size_t words)
{
    for (size_t i = 0; i < words; i++)
        after[i] = after[i] > before[i] ? after[i] - before[i] : 0;
}
