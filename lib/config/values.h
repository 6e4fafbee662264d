/* Single values as a person writes them. Each returns false when TEXT is not one; the schema says what was expected. */

#ifndef WR_CONFIG_VALUES_H
#define WR_CONFIG_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

/* "250ms", "15s", "5m", "1h", "0"; "infinity" is WR_NEVER. Microseconds. */
bool wr_value_duration(struct wr_str text, uint64_t *usec);
/* "512", "64KiB", "1MiB", "2GiB"; "infinity" is UINT64_MAX. Bytes. */
bool wr_value_size(struct wr_str text, uint64_t *bytes);
/* "100"; "infinity" is UINT64_MAX. */
bool wr_value_count(struct wr_str text, uint64_t *count);
/* "20%" or "20", at most 100. */
bool wr_value_percent(struct wr_str text, uint64_t *percent);
/* The other way round, as a person would write it: in the largest unit that says it exactly. */
#define WR_VALUE_TEXT 32
void wr_value_duration_text(uint64_t usec, char out[WR_VALUE_TEXT]);
void wr_value_size_text(uint64_t bytes, char out[WR_VALUE_TEXT]);
void wr_value_count_text(uint64_t count, char out[WR_VALUE_TEXT]);
void wr_value_percent_text(uint64_t percent, char out[WR_VALUE_TEXT]);

/* true false on off yes no */
bool wr_value_bool(struct wr_str text, bool *value);

/* How far two words are apart (insert, delete, replace), at most LIMIT; for "did you mean". */
unsigned wr_value_distance(struct wr_str a, struct wr_str b, unsigned limit);

#endif
