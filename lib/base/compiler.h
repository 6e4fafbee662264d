/* What the compiler is told beyond standard C17. The only home of attributes. */
#ifndef WR_BASE_COMPILER_H
#define WR_BASE_COMPILER_H

#include <stddef.h>

#define WR_MUST_USE __attribute__((warn_unused_result))
#define WR_PRINTF(format_at, args_at) __attribute__((format(printf, format_at, args_at)))
#define WR_NORETURN __attribute__((noreturn))
#define WR_UNUSED __attribute__((unused))
/* Kept out of its callers, which are short without it. */
#define WR_RARE __attribute__((noinline, cold))

#define WR_LIKELY(x) __builtin_expect(!!(x), 1)
#define WR_UNLIKELY(x) __builtin_expect(!!(x), 0)

/* The object of TYPE whose member MEMBER is at PTR. */
#define WR_CONTAINER_OF(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

#define WR_COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

#endif
