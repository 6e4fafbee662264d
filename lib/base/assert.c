#include "base/assert.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* One write(2), not stdio: the process may be in any state, other threads may hold stdio's lock. */
void wr_assert_failed(const char *expression, const char *file, int line)
{
    char text[512];
    int n =
        snprintf(text, sizeof(text), "weir: %s:%d: broken invariant: %s\n", file, line, expression);
    if (n > 0) {
        size_t length = (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1;
        ssize_t written = write(STDERR_FILENO, text, length);
        (void)written;
    }
    abort();
}
