/* What targets of requests are held to whatever the version of HTTP. */
#ifndef WR_CODEC_TARGET_H
#define WR_CODEC_TARGET_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/str.h"

/* Visible ASCII without "#" and "%00", at least one byte (behaviour row 57). */
bool wr_target_is_clean(struct wr_str target);
/* RFC 9110 section 9.3.6: what CONNECT asks for has a port, for there is no scheme to tell one. */
bool wr_target_has_port(struct wr_str authority);
/* A copy in lower case: of authorities and protocol names. */
struct wr_str wr_target_lower(struct wr_arena *arena, struct wr_str s);

#endif
