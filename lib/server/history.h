/* Counters as they were once a second for the last ten, of several subjects, so that rates can be told. A sample is a row of words, of
 * which the first is the time it was taken at. The time is an argument. Not for threads. */
#ifndef WR_SERVER_HISTORY_H
#define WR_SERVER_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct wr_history;

/* Rows of WORDS each. Owner: the caller. */
struct wr_history *wr_history_new(size_t subjects, size_t words);
void wr_history_free(struct wr_history *history); /* NULL is fine */

/* The last sample is a second old, or there is none. */
bool wr_history_is_due(const struct wr_history *history, uint64_t now);
/* Room for the next sample of subject I; once all subjects have theirs, wr_history_advance() makes them the newest. */
uint64_t *wr_history_next(struct wr_history *history, size_t i);
void wr_history_advance(struct wr_history *history);

/* Of subject I; to be asked when a sample was taken. */
const uint64_t *wr_history_newest(const struct wr_history *history, size_t i);
const uint64_t *wr_history_oldest(const struct wr_history *history, size_t i);
/* The youngest that is a second old, or else the oldest there is. */
const uint64_t *wr_history_second_ago(const struct wr_history *history, size_t i, uint64_t now);

/* Takes BEFORE from AFTER, word by word. What counts may begin anew: that is no number below 0. */
void wr_history_take(uint64_t *after, const uint64_t *before, size_t words);

#endif
