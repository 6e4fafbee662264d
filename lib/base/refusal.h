/* Why a connection was not served (refusal.def). */
#ifndef WR_BASE_REFUSAL_H
#define WR_BASE_REFUSAL_H

enum wr_refusal {
#define REFUSAL(name, label, text) WR_REFUSAL_##name,
#include "base/refusal.def"
#undef REFUSAL
    WR_REFUSAL__COUNT
};

/* Which of the controller's rules refused: the label `cause` beside the reason. */
enum wr_refusal_cause {
    WR_CAUSE_NONE,
    WR_CAUSE_BACKLOG,
    WR_CAUSE_DELAY,
    WR_CAUSE_SHARE,
    WR_CAUSE_RESUMPTION,
    WR_CAUSE__COUNT
};

const char *wr_refusal_label(enum wr_refusal reason);
const char *wr_refusal_text(enum wr_refusal reason);
const char *wr_refusal_cause_label(enum wr_refusal_cause cause); /* "" for WR_CAUSE_NONE */

#endif
