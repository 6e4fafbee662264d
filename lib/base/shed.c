#include "base/shed.h"

#include "base/assert.h"

static const struct {
    const char *label;
    const char *text;
} sheds[] = {
#define SHED(name, label, text) [WR_SHED_##name] = {label, text},
#include "base/shed.def"
#undef SHED
};

const char *wr_shed_label(enum wr_shed cause)
{
    WR_ASSERT((unsigned)cause < WR_SHED__COUNT);
    return sheds[cause].label;
}

const char *wr_shed_text(enum wr_shed cause)
{
    WR_ASSERT((unsigned)cause < WR_SHED__COUNT);
    return sheds[cause].text;
}
