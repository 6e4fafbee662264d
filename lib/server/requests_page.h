/* Request admission on the page /admission: of each listener, as a part of what is said of it, and of each cluster. */
#ifndef WR_SERVER_REQUESTS_PAGE_H
#define WR_SERVER_REQUESTS_PAGE_H

#include <stdbool.h>
#include <stdio.h>

#include "server/requests_watch.h"

/* Of a listener: lines of its table, and later a paragraph for each cause. */
void wr_requests_put_text(FILE *out, const struct wr_requests_view *view);
void wr_requests_put_causes(FILE *out, const struct wr_requests_view *view);
/* The members of an object. */
void wr_requests_put_json(FILE *out, const struct wr_requests_view *view);

void wr_requests_put_text_cluster(FILE *out, const struct wr_requests_view *view);
void wr_requests_put_json_cluster(FILE *out, const struct wr_requests_view *view, bool first);

#endif
