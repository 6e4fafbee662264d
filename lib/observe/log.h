/* The error log: what a person who runs weir must know. One line an event, to standard error, never a secret. Errors and
 * warnings, which the outside may cause, are rate-limited by place (one line a second, the count of those left out is told);
 * INFO is for what the operator did and is never left out. Any thread. */
#ifndef WR_OBSERVE_LOG_H
#define WR_OBSERVE_LOG_H

#include "base/compiler.h"

enum wr_log_level { WR_LOG_ERROR, WR_LOG_WARN, WR_LOG_INFO, WR_LOG_DEBUG };

/* Lines above LEVEL are not made. Default WR_LOG_INFO. */
void wr_log_set_level(enum wr_log_level level);

/* State of one place that logs; static storage, zeroed. */
struct wr_log_site {
    _Atomic unsigned long long window;  /* second of the last line */
    _Atomic unsigned long long skipped; /* since then */
};

void wr_log_write(struct wr_log_site *site, enum wr_log_level level, const char *module,
                  const char *format, ...) WR_PRINTF(4, 5);

/* MODULE is a word such as "listener". Control bytes in arguments are shown escaped. */
#define wr_log(level, module, ...)                                   \
    do {                                                             \
        static struct wr_log_site wr_log_site_here;                  \
        wr_log_write(&wr_log_site_here, level, module, __VA_ARGS__); \
    } while (0)

#endif
