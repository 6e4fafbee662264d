/* The page /admission: why connections and requests are not served just now, in words and numbers, and what would change that. */
#ifndef WR_SERVER_ADMISSION_PAGE_H
#define WR_SERVER_ADMISSION_PAGE_H

#include "server/admission_watch.h"
#include "server/requests_watch.h"

enum wr_admission_format { WR_ADMISSION_TEXT, WR_ADMISSION_JSON };

/* What it is made from; both watch SNAPSHOT. */
struct wr_admission_sources {
    const struct wr_snapshot *snapshot;
    struct wr_admission_watch *connections;
    struct wr_requests_watch *requests;
    bool draining;
};

/* Owner of the returned text, terminated and LENGTH bytes long: the caller (free()). */
char *wr_admission_page_render(const struct wr_admission_sources *from,
                               enum wr_admission_format format, uint64_t now, size_t *length);

#endif
