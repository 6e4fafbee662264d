/* How many slots of the backlog each source holds, and which sources claimed to resume without being able to (rules 5 and 6 of the
 * README). Memory is fixed when made, whatever the number of sources. */
#ifndef WR_ADMISSION_SOURCES_H
#define WR_ADMISSION_SOURCES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct wr_sources;

/* Room for HELD slots at once. SEED: unknown outside, so that nobody can choose addresses that collide. Owner: the caller. */
struct wr_sources *wr_sources_new(uint32_t held, uint64_t seed);
void wr_sources_free(struct wr_sources *sources); /* NULL is fine */

/* Slots that KEY holds. */
uint32_t wr_sources_count(const struct wr_sources *sources, uint64_t key);
/* One more. False: there is no room, it is not counted. */
bool wr_sources_add(struct wr_sources *sources, uint64_t key);
/* One less, of one that was counted. */
void wr_sources_drop(struct wr_sources *sources, uint64_t key);

/* KEY has claimed a session that was not one: for a while its claims are not believed. The newest liar of a cell is known. */
void wr_sources_note_false_claim(struct wr_sources *sources, uint64_t key, uint64_t now);
bool wr_sources_believes(const struct wr_sources *sources, uint64_t key, uint64_t now);

#endif
