/* The page /admission: why connections are not served just now, in words and numbers, and what would change that. */
#ifndef WR_SERVER_ADMISSION_PAGE_H
#define WR_SERVER_ADMISSION_PAGE_H

#include "server/admission_watch.h"

enum wr_admission_format { WR_ADMISSION_TEXT, WR_ADMISSION_JSON };

/* Owner of the returned text, terminated and LENGTH bytes long: the caller (free()). */
char *wr_admission_page_render(struct wr_admission_watch *watch, enum wr_admission_format format,
                               bool draining, uint64_t now, size_t *length);

#endif
