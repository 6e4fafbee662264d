/* How an HTTP/2 peer wastes our work (flood.def). */
#ifndef WR_BASE_FLOOD_H
#define WR_BASE_FLOOD_H

enum wr_flood {
#define FLOOD(name, label, text) WR_FLOOD_##name,
#include "base/flood.def"
#undef FLOOD
    WR_FLOOD__COUNT
};

const char *wr_flood_label(enum wr_flood kind);
const char *wr_flood_text(enum wr_flood kind);

#endif
