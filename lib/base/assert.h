/* WR_ASSERT guards our own invariants and is always on. Bytes from a peer never reach one. */
#ifndef WR_BASE_ASSERT_H
#define WR_BASE_ASSERT_H

#include "base/compiler.h"

/* Writes the broken invariant to standard error and aborts. */
WR_NORETURN void wr_assert_failed(const char *expression, const char *file, int line);

#define WR_ASSERT(expression) \
    (WR_LIKELY(expression) ? (void)0 : wr_assert_failed(#expression, __FILE__, __LINE__))

#endif
