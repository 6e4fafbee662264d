#include "base/refusal.h"

#include "base/assert.h"
#include "base/compiler.h"

static const struct {
    const char *label;
    const char *text;
} refusals[] = {
#define REFUSAL(name, label, text) [WR_REFUSAL_##name] = {label, text},
#include "base/refusal.def"
#undef REFUSAL
};

static const char *const cause_labels[] = {
    [WR_CAUSE_NONE] = "",       [WR_CAUSE_BACKLOG] = "backlog",       [WR_CAUSE_DELAY] = "delay",
    [WR_CAUSE_SHARE] = "share", [WR_CAUSE_RESUMPTION] = "resumption",
};

_Static_assert(WR_COUNT_OF(cause_labels) == WR_CAUSE__COUNT, "a label for each cause");

const char *wr_refusal_label(enum wr_refusal reason)
{
    WR_ASSERT((unsigned)reason < WR_REFUSAL__COUNT);
    return refusals[reason].label;
}

const char *wr_refusal_text(enum wr_refusal reason)
{
    WR_ASSERT((unsigned)reason < WR_REFUSAL__COUNT);
    return refusals[reason].text;
}

const char *wr_refusal_cause_label(enum wr_refusal_cause cause)
{
    WR_ASSERT((unsigned)cause < WR_CAUSE__COUNT);
    return cause_labels[cause];
}
