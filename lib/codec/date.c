#include "codec/date.h"

#include <stdio.h>
#include <time.h>

#include "base/time.h"

#define TEXT_LENGTH 29

static const char days[7][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
static const char months[12][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                   "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

struct memo {
    uint64_t second;
    char text[TEXT_LENGTH + 1];
};

/* Nothing but the last answer; a thread has its own, so that nothing is shared. */
static _Thread_local struct memo memo;

struct wr_str wr_date_text(uint64_t wall_usec)
{
    uint64_t second = wall_usec / WR_SEC;
    if (memo.second != second || memo.text[0] == '\0') {
        time_t seconds = (time_t)second;
        struct tm tm;
        char text[64];
        gmtime_r(&seconds, &tm);
        snprintf(text, sizeof(text), "%s, %02d %s %04d %02d:%02d:%02d GMT", days[tm.tm_wday],
                 tm.tm_mday, months[tm.tm_mon], tm.tm_year + 1900, tm.tm_hour, tm.tm_min,
                 tm.tm_sec);
        memcpy(memo.text, text, TEXT_LENGTH);
        memo.second = second;
    }
    return wr_str(memo.text, TEXT_LENGTH);
}
