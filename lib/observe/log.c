#include "observe/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/time.h"

#define MESSAGE_ROOM 1024 /* longer ones are cut */
#define LINE_ROOM (MESSAGE_ROOM * 4 + 256)

static _Atomic enum wr_log_level max_level = WR_LOG_INFO;

void wr_log_set_level(enum wr_log_level level)
{
    atomic_store_explicit(&max_level, level, memory_order_relaxed);
}

static const char *level_name(enum wr_log_level level)
{
    switch (level) {
    case WR_LOG_ERROR:
        return "error";
    case WR_LOG_WARN:
        return "warn";
    case WR_LOG_INFO:
        return "info";
    case WR_LOG_DEBUG:
        return "debug";
    }
    return "?";
}

/* True for the first line of a site in a second; *SKIPPED is how many were left out before it. */
static bool may_write(struct wr_log_site *site, unsigned long long *skipped)
{
    unsigned long long now = wr_time_monotonic() / WR_SEC + 1; /* 0 = never written */
    unsigned long long window = atomic_load_explicit(&site->window, memory_order_relaxed);
    if (window == now || !atomic_compare_exchange_strong(&site->window, &window, now)) {
        atomic_fetch_add_explicit(&site->skipped, 1, memory_order_relaxed);
        return false;
    }
    *skipped = atomic_exchange(&site->skipped, 0);
    return true;
}

/* Appends N bytes of TEXT to OUT: printable ASCII as it is, all else as \xNN, so that nothing from outside can break a
 * line or talk to a terminal. OUT has room for four bytes each. */
static size_t put_escaped(char *out, const char *text, size_t n)
{
    static const char hex[] = "0123456789abcdef";
    char *at = out;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c >= 0x20 && c < 0x7f) {
            *at++ = (char)c;
        } else {
            *at++ = '\\';
            *at++ = 'x';
            *at++ = hex[c >> 4];
            *at++ = hex[c & 15];
        }
    }
    return (size_t)(at - out);
}

/* "2026-01-02T03:04:05.678901Z warn listener: " */
static size_t put_head(char *out, size_t room, enum wr_log_level level, const char *module)
{
    uint64_t now = wr_time_wall();
    time_t second = (time_t)(now / WR_SEC);
    struct tm t = {0};
    char date[32] = "";
    if (gmtime_r(&second, &t) != NULL)
        (void)strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &t);
    int n = snprintf(out, room, "%s.%06uZ %s %s: ", date, (unsigned)(now % WR_SEC),
                     level_name(level), module);
    return (size_t)n < room ? (size_t)n : room - 1;
}

void wr_log_write(struct wr_log_site *site, enum wr_log_level level, const char *module,
                  const char *format, ...)
{
    unsigned long long skipped = 0;
    if (level > atomic_load_explicit(&max_level, memory_order_relaxed) ||
        (level <= WR_LOG_WARN && !may_write(site, &skipped)))
        return;

    char message[MESSAGE_ROOM];
    va_list args;
    va_start(args, format);
    int made = vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    if (made < 0)
        return;
    size_t length = (size_t)made < sizeof(message) ? (size_t)made : sizeof(message) - 1;

    char line[LINE_ROOM];
    size_t n = put_head(line, 128, level, module);
    n += put_escaped(line + n, message, length);
    if ((size_t)made > length)
        n += (size_t)snprintf(line + n, 8, " ...");
    if (skipped > 0)
        n += (size_t)snprintf(line + n, 64, " (%llu more left out before)", skipped);
    line[n++] = '\n';

    /* One write, so that lines of threads do not mix. A lost line of the log is no reason to fail. */
    ssize_t written = write(STDERR_FILENO, line, n);
    (void)written;
}
