/* Collects what is wrong with one configuration: every error in one pass, each with its place, told in the order of the file. */
#ifndef WR_CONFIG_REPORT_H
#define WR_CONFIG_REPORT_H

#include <stddef.h>

#include "base/compiler.h"
#include "base/str.h"
#include "config/snapshot.h"

/* A place in the file, both from 1. Line 0: the file as a whole. */
struct wr_mark {
    unsigned line;
    unsigned column;
};

struct wr_error_note {
    struct wr_mark mark;
    size_t order; /* in which it was found */
    char *text;
};

struct wr_errors {
    const struct wr_config_report *report;
    const char *name; /* of the file */
    unsigned count;
    struct wr_error_note *notes;
    size_t capacity;
};

void wr_errors_add(struct wr_errors *errors, struct wr_mark mark, const char *format, ...)
    WR_PRINTF(3, 4);

/* Reports what was added, by place, and frees it. `count` stays. */
void wr_errors_tell(struct wr_errors *errors);

#endif
