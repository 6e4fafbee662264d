/* Collects what is wrong with one configuration: every error in one pass, each with its place. */
#ifndef WR_CONFIG_REPORT_H
#define WR_CONFIG_REPORT_H

#include "base/compiler.h"
#include "config/snapshot.h"

/* A place in the file, both from 1. Line 0: the file as a whole. */
struct wr_mark {
    unsigned line;
    unsigned column;
};

struct wr_errors {
    const struct wr_config_report *report;
    const char *name; /* of the file */
    unsigned count;
};

void wr_errors_add(struct wr_errors *errors, struct wr_mark mark, const char *format, ...)
    WR_PRINTF(3, 4);

#endif
