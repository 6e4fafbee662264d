/* What the page /admission says of requests: a sentence on how a listener or a cluster is, and for each cause that counted lately what it
 * means, which key it is, with its value in the running configuration, and what would change it. */
#ifndef WR_SERVER_REQUESTS_WORDS_H
#define WR_SERVER_REQUESTS_WORDS_H

#include <stddef.h>
#include <stdio.h>

#include "server/requests_watch.h"

enum wr_requests_condition {
    WR_REQUESTS_REFUSING, /* in the last second */
    WR_REQUESTS_REFUSED,  /* in the last ten seconds, not in the last one */
    WR_REQUESTS_WAITING,  /* nobody is refused, but somebody waits just now */
    WR_REQUESTS_AT_REST,  /* nobody has come in the last ten seconds */
    WR_REQUESTS_LETTING_IN,
};
enum wr_requests_condition wr_requests_condition(const struct wr_requests_view *view);
const char *wr_requests_condition_label(enum wr_requests_condition condition);
/* No full stop, no end of line. */
void wr_requests_say_condition(FILE *out, const struct wr_requests_view *view);

/* A cause that requests are refused for: one a cause of base/shed.def, and one for the rates of routes. */
size_t wr_requests_causes(void);
struct wr_requests_finding {
    const char *cause; /* label */
    uint64_t last;     /* counted in view->last */
    uint64_t ten;      /* and in view->ten; 0: there is nothing to be said */
};
struct wr_requests_finding wr_requests_finding(size_t i, const struct wr_requests_view *view);
/* Its sentences, each with a full stop, a space between. */
void wr_requests_explain(FILE *out, size_t i, const struct wr_requests_view *view);

#endif
