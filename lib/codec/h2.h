/* What both HTTP/2 codecs (RFC 9113, on nghttp2) are told, and what one connection may cost. Budgets are token buckets: `burst`
 * at once and `per_second` on the long run; past it GOAWAY ENHANCE_YOUR_CALM, counted by kind. */
#ifndef WR_CODEC_H2_H
#define WR_CODEC_H2_H

#include <stdbool.h>
#include <stdint.h>

struct wr_h2_budget {
    uint32_t burst;
    uint32_t per_second;
};

/* What a peer can do that costs us and brings it nothing (behaviour rows 34 to 38). */
enum wr_h2_flood {
    WR_H2_FLOOD_RESET,        /* RST_STREAM of streams whose response had not ended, and resets it made us send (rows 34, 35) */
    WR_H2_FLOOD_CONTINUATION, /* row 36 */
    WR_H2_FLOOD_PING,         /* row 37 */
    WR_H2_FLOOD_SETTINGS,
    WR_H2_FLOOD_PRIORITY,
    WR_H2_FLOOD_EMPTY, /* DATA without content or end, HEADERS without end */
    WR_H2_FLOOD_WINDOW, /* WINDOW_UPDATEs of next to nothing */
    WR_H2_FLOOD__COUNT
};

const char *wr_h2_flood_label(unsigned index);

struct wr_h2_options {
    uint32_t max_concurrent_streams;
    uint32_t connection_window; /* bytes; a stream's window is the message's limit */
    uint32_t header_table_size; /* bytes, HPACK, both directions */
    uint64_t ping_interval;     /* microseconds idle before a PING asks whether the peer is there; client side; WR_NEVER off */
    uint64_t ping_timeout;      /* then it is broken */
    struct wr_h2_budget budgets[WR_H2_FLOOD__COUNT];
};

#endif
