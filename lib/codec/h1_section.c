#include "codec/h1_section.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define FIRST_CAPACITY 1024

void wr_h1_section_clear(struct wr_h1_section *section)
{
    free(section->held);
    *section = (struct wr_h1_section){0};
}

static void hold(struct wr_h1_section *section, struct wr_str p)
{
    size_t needed = section->held_count + p.n;
    if (needed > section->held_capacity) {
        size_t doubled = section->held_capacity == 0 ? FIRST_CAPACITY : section->held_capacity * 2;
        section->held_capacity = doubled > needed ? doubled : needed;
        section->held = wr_resize(section->held, section->held_capacity);
    }
    memcpy(section->held + section->held_count, p.p, p.n);
    section->held_count = needed;
}

/* The byte before P[AT], which may have come earlier; a part does not begin with LF. */
static char byte_before(const struct wr_h1_section *section, struct wr_str p, size_t at)
{
    if (at > 0)
        return p.p[at - 1];
    return section->held_count > 0 ? section->held[section->held_count - 1] : '\0';
}

/* Finds line ends in P. MORE: *USED is all of P. BAD: up to the bad one. */
static enum wr_h1_gathered scan(struct wr_h1_section *section, struct wr_str p, bool lines,
                                size_t *used)
{
    const char *lf;
    size_t at = 0;
    while (at < p.n && (lf = memchr(p.p + at, '\n', p.n - at)) != NULL) {
        size_t before = (size_t)(lf - p.p);
        at = before + 1;
        if (byte_before(section, p, before) != '\r') {
            *used = at;
            return WR_H1_GATHER_BAD;
        }
        size_t line = section->seen + at - section->line_start;
        section->line_start = section->seen + at;
        section->lines++;
        if (section->lines == 1)
            section->first_line = line;
        if (!lines || line == 2) {
            *used = at;
            return WR_H1_GATHER_WHOLE;
        }
    }
    *used = p.n;
    return WR_H1_GATHER_MORE;
}

enum wr_h1_gathered wr_h1_section_gather(struct wr_h1_section *section, struct wr_str p,
                                         size_t limit, bool lines, size_t *used, struct wr_str *out)
{
    *used = 0;
    if (p.n == 0)
        return WR_H1_GATHER_MORE;
    /* One byte above the limit is enough to know. */
    struct wr_str within = p;
    if (section->seen + p.n > limit)
        within.n = limit + 1 - section->seen;

    enum wr_h1_gathered gathered = scan(section, within, lines, used);
    section->seen += *used;
    if (gathered == WR_H1_GATHER_BAD)
        return gathered;
    if (section->seen > limit)
        return WR_H1_GATHER_TOO_LARGE;

    if (gathered == WR_H1_GATHER_WHOLE && section->held_count == 0) {
        *out = wr_str(p.p, *used);
        return gathered;
    }
    hold(section, wr_str(p.p, *used));
    *out = wr_str(section->held, section->held_count);
    return gathered;
}

bool wr_h1_lines_are_clean(struct wr_str part)
{
    size_t at = 0;
    while ((at = wr_str_find_control(part, at)) < part.n) {
        bool ends_line = part.p[at] == '\r' && at + 1 < part.n && part.p[at + 1] == '\n';
        if (!ends_line && part.p[at] != '\t')
            return false;
        at += ends_line ? 2 : 1;
    }
    return part.n == 0 || part.p[part.n - 1] == '\n';
}
