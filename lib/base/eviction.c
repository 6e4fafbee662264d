#include "base/eviction.h"

#include "base/assert.h"

static const char *const labels[] = {
#define EVICTION(name, label, text) [WR_EVICTION_##name] = (label),
#include "base/eviction.def"
#undef EVICTION
};

const char *wr_eviction_label(enum wr_eviction why)
{
    WR_ASSERT((unsigned)why < WR_EVICTION__COUNT);
    return labels[why];
}
