/* What targets of requests are held to whatever the version of HTTP. */
#ifndef WR_CODEC_TARGET_H
#define WR_CODEC_TARGET_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/str.h"

/* Visible ASCII without "#" and "%00", at least one byte (behaviour row 57). */
bool wr_target_is_clean(struct wr_str target);
/* A copy in lower case: of authorities and protocol names. */
struct wr_str wr_target_lower(struct wr_arena *arena, struct wr_str s);

#endif
