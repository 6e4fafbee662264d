/* Numbers as people read them: 4,312   0.3   2.5 ms   25 %. */
#ifndef WR_SERVER_FIGURES_H
#define WR_SERVER_FIGURES_H

#include <stdint.h>

/* By value, so that one can be made where it is printed: printf("%s", wr_figure_count(n).text). */
struct wr_figure {
    char text[32];
};

struct wr_figure wr_figure_count(uint64_t n);
/* N in USEC, as a number a second, with a decimal when it is small; nothing that happened shows as 0. */
struct wr_figure wr_figure_rate(uint64_t n, uint64_t usec);
/* Microseconds in the unit that fits; "infinity". */
struct wr_figure wr_figure_duration(uint64_t usec);

#endif
