#include "config/report.h"

#include <stdarg.h>
#include <stdio.h>

#define REPORT_TEXT 1024

void wr_errors_add(struct wr_errors *errors, struct wr_mark mark, const char *format, ...)
{
    char what[REPORT_TEXT];
    char text[REPORT_TEXT + 512];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(what, sizeof(what), format, args);
    va_end(args);
    if (mark.line > 0)
        (void)snprintf(text, sizeof(text), "%s:%u:%u: %s", errors->name, mark.line, mark.column,
                       what);
    else
        (void)snprintf(text, sizeof(text), "%s: %s", errors->name, what);
    errors->count++;
    errors->report->error(errors->report->arg, text);
}
