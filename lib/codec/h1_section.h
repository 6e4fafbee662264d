/* Gathers the parts of an HTTP/1.1 message that consist of lines (head, chunk size, trailers) until one is whole, so that
 * each is checked and parsed in one piece: however the bytes were split on their way, the verdict is the same.
 *
 * A part that comes in one read is not copied. Lines end in CR LF; a bare LF fails at once (behaviour row 5), bare CR is
 * left to wr_h1_lines_are_clean(). Nothing above the limit is ever stored. */
#ifndef WR_CODEC_H1_SECTION_H
#define WR_CODEC_H1_SECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

struct wr_h1_section {
    char *held; /* bytes of a part that is not whole yet */
    size_t held_count;
    size_t held_capacity;
    size_t seen;       /* bytes of this part so far */
    size_t line_start; /* where the last line begins */
    size_t first_line; /* length of the first line with its CR LF; 0: not whole yet */
    unsigned lines;    /* whole ones */
};

enum wr_h1_gathered {
    WR_H1_GATHER_MORE, /* all was taken, more is needed */
    WR_H1_GATHER_WHOLE,
    WR_H1_GATHER_BAD,       /* a line that does not end in CR LF */
    WR_H1_GATHER_TOO_LARGE, /* LIMIT bytes, and no end yet */
};

/* Frees what is held. Can be called twice. */
void wr_h1_section_clear(struct wr_h1_section *section);

/* Takes from P until an empty line has come (LINES false: until one line has come). *USED: bytes taken. WHOLE: *OUT is the
 * part with all its CR LF, valid until P or SECTION changes; wr_h1_section_clear() before the next part. */
enum wr_h1_gathered wr_h1_section_gather(struct wr_h1_section *section, struct wr_str p,
                                         size_t limit, bool lines, size_t *used,
                                         struct wr_str *out);

/* No control byte but HTAB in any line of a whole part: no bare CR, no NUL. */
bool wr_h1_lines_are_clean(struct wr_str part);

#endif
