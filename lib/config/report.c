#include "config/report.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"

#define REPORT_TEXT 1024

/* An error is one line, and does nothing to a terminal, whatever the file has in its keys and values. */
static void tame(char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            *text = '?';
}

void wr_errors_add(struct wr_errors *errors, struct wr_mark mark, const char *format, ...)
{
    char text[REPORT_TEXT];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    tame(text);
    if (errors->count == errors->capacity) {
        errors->capacity = errors->capacity == 0 ? 16 : errors->capacity * 2;
        errors->notes = wr_resize(errors->notes, errors->capacity * sizeof(*errors->notes));
    }
    errors->notes[errors->count] = (struct wr_error_note){
        .mark = mark,
        .order = errors->count,
        .text = wr_copy_string(text),
    };
    errors->count++;
}

static int by_place(const void *left, const void *right)
{
    const struct wr_error_note *a = left;
    const struct wr_error_note *b = right;

    if (a->mark.line != b->mark.line)
        return a->mark.line < b->mark.line ? -1 : 1;
    if (a->mark.column != b->mark.column)
        return a->mark.column < b->mark.column ? -1 : 1;
    return a->order < b->order ? -1 : 1;
}

void wr_errors_tell(struct wr_errors *errors)
{
    char line[REPORT_TEXT + 512];

    if (errors->notes != NULL)
        qsort(errors->notes, errors->count, sizeof(*errors->notes), by_place);
    for (unsigned i = 0; errors->notes != NULL && i < errors->count; i++) {
        const struct wr_error_note *note = &errors->notes[i];
        if (note->mark.line > 0)
            (void)snprintf(line, sizeof(line), "%s:%u:%u: %s", errors->name, note->mark.line,
                           note->mark.column, note->text);
        else
            (void)snprintf(line, sizeof(line), "%s: %s", errors->name, note->text);
        errors->report->error(errors->report->arg, line);
        free(note->text);
    }
    free(errors->notes);
    errors->notes = NULL;
    errors->capacity = 0;
}
