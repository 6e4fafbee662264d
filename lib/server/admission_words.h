/* What the page /admission says: one sentence on how a listener is, and for each reason that counted lately what it means, which rule
 * it is, with its value in the running configuration, and what would change it. */
#ifndef WR_SERVER_ADMISSION_WORDS_H
#define WR_SERVER_ADMISSION_WORDS_H

#include <stddef.h>
#include <stdio.h>

#include "server/admission_signs.h"

const char *wr_words_state_label(enum wr_admission_state state);
/* No full stop, no end of line. */
void wr_words_state(FILE *out, const struct wr_admission_view *view);

/* A reason that connections are not served for, of which there is one a reason and cause, and one for what the kernel drops. */
size_t wr_words_count(void);
struct wr_words_finding {
    const char *reason; /* label */
    const char *cause;  /* label; "": none */
    uint64_t last;      /* counted in view->last */
    uint64_t ten;       /* and in view->ten; 0: there is nothing to be said */
};
struct wr_words_finding wr_words_finding(size_t i, const struct wr_admission_view *view);
/* Its sentences, each with a full stop, a space between. */
void wr_words_explain(FILE *out, size_t i, const struct wr_admission_view *view);

#endif
