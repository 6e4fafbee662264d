#include "base/flood.h"

#include "base/assert.h"

static const struct {
    const char *label;
    const char *text;
} floods[] = {
#define FLOOD(name, label, text) [WR_FLOOD_##name] = {label, text},
#include "base/flood.def"
#undef FLOOD
};

const char *wr_flood_label(enum wr_flood kind)
{
    WR_ASSERT((unsigned)kind < WR_FLOOD__COUNT);
    return floods[kind].label;
}

const char *wr_flood_text(enum wr_flood kind)
{
    WR_ASSERT((unsigned)kind < WR_FLOOD__COUNT);
    return floods[kind].text;
}
