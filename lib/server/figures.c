#include "server/figures.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "base/time.h"

struct wr_figure wr_figure_count(uint64_t n)
{
    char digits[24];
    struct wr_figure figure = {""};
    size_t length = (size_t)snprintf(digits, sizeof(digits), "%" PRIu64, n);
    char *out = figure.text;
    for (size_t i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0)
            *out++ = ',';
        *out++ = digits[i];
    }
    *out = '\0';
    return figure;
}

struct wr_figure wr_figure_rate(uint64_t n, uint64_t usec)
{
    struct wr_figure figure = {"0"};
    uint64_t tenths = usec > 0 ? (n * 10 * WR_SEC + usec / 2) / usec : 0;
    if (tenths >= 100)
        return wr_figure_count((tenths + 5) / 10);
    if (n > 0 && tenths == 0)
        (void)snprintf(figure.text, sizeof(figure.text), "%s", usec > 0 ? "<0.1" : "?");
    else if (n > 0)
        (void)snprintf(figure.text, sizeof(figure.text), "%" PRIu64 ".%" PRIu64, tenths / 10,
                       tenths % 10);
    return figure;
}

struct wr_figure wr_figure_duration(uint64_t usec)
{
    static const struct {
        uint64_t from;
        uint64_t unit;
        const char *name;
    } units[] = {
        {3 * 3600 * WR_SEC, 3600 * WR_SEC, "h"},
        {180 * WR_SEC, 60 * WR_SEC, "min"},
        {WR_SEC, WR_SEC, "s"},
        {WR_MSEC, WR_MSEC, "ms"},
        {0, WR_USEC, "us"},
    };
    struct wr_figure figure = {"infinity"};
    size_t i = 0;
    if (usec == WR_NEVER)
        return figure;
    while (usec < units[i].from) /* ends: the last begins at 0 */
        i++;
    uint64_t whole = usec / units[i].unit;
    uint64_t tenth = usec % units[i].unit * 10 / units[i].unit;
    if (tenth > 0 && whole < 100)
        (void)snprintf(figure.text, sizeof(figure.text), "%" PRIu64 ".%" PRIu64 " %s", whole, tenth,
                       units[i].name);
    else
        (void)snprintf(figure.text, sizeof(figure.text), "%" PRIu64 " %s", whole, units[i].name);
    return figure;
}
