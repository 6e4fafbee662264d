/* What both HTTP/2 codecs (RFC 9113, on nghttp2) are told, and what one connection may cost. Budgets are token buckets: `burst`
 * at once and `per_second` on the long run; past it GOAWAY ENHANCE_YOUR_CALM, counted by kind (base/flood.def). */
#ifndef WR_CODEC_H2_H
#define WR_CODEC_H2_H

#include <stdbool.h>
#include <stdint.h>

#include "base/flood.h"

struct wr_h2_budget {
    uint32_t burst;
    uint32_t per_second;
};

struct wr_h2_options {
    uint32_t max_concurrent_streams;
    uint32_t connection_window; /* bytes; at least the message's limit is given */
    uint32_t
        stream_window; /* client side: bytes that SETTINGS give a stream, the least limit there is of a message */
    uint32_t
        stream_window_max; /* bytes a stream's window may grow to; it begins at the message's limit */
    uint32_t header_table_size; /* bytes, HPACK, both directions */
    /* Client side: microseconds of silence before a PING asks whether the peer is there (WR_NEVER: off), and how long it may
     * take to answer before the connection counts as broken. */
    uint64_t ping_interval;
    uint64_t ping_timeout;
    struct wr_h2_budget budgets[WR_FLOOD__COUNT];
};

#endif
