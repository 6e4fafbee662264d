/* The text of a Date field (RFC 9110 section 5.6.7). */
#ifndef WR_CODEC_DATE_H
#define WR_CODEC_DATE_H

#include <stdint.h>

#include "base/str.h"

/* "Sun, 06 Nov 1994 08:49:37 GMT" for WALL_USEC since the epoch. Made once a second a thread; valid until the next call. */
struct wr_str wr_date_text(uint64_t wall_usec);

#endif
