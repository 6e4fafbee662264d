/* Why idle client connections give way (eviction.def). */
#ifndef WR_BASE_EVICTION_H
#define WR_BASE_EVICTION_H

enum wr_eviction {
#define EVICTION(name, label, text) WR_EVICTION_##name,
#include "base/eviction.def"
#undef EVICTION
    WR_EVICTION__COUNT
};

const char *wr_eviction_label(enum wr_eviction why);

#endif
