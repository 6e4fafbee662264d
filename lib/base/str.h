/* A slice of bytes that someone else owns: not terminated, any byte may be inside. */
#ifndef WR_BASE_STR_H
#define WR_BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct wr_str {
    const char *p;
    size_t n;
};

#define WR_STR(literal) ((struct wr_str){("" literal), sizeof(literal) - 1})
#define WR_STR_EMPTY ((struct wr_str){"", 0})
/* For printf's "%.*s". */
#define WR_STR_ARG(s) (int)(s).n, (s).p

static inline struct wr_str wr_str(const char *p, size_t n)
{
    return (struct wr_str){p, n};
}

static inline struct wr_str wr_str_from(const char *terminated)
{
    return (struct wr_str){terminated, strlen(terminated)};
}

static inline bool wr_str_eq(struct wr_str a, struct wr_str b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

static inline char wr_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

/* ASCII case folded. */
bool wr_str_eq_nocase(struct wr_str a, struct wr_str b);
bool wr_str_starts(struct wr_str s, struct wr_str prefix);
bool wr_str_ends(struct wr_str s, struct wr_str suffix);

/* Without leading and trailing SP and HTAB (OWS of RFC 9110 section 5.6.3). */
struct wr_str wr_str_trim(struct wr_str s);

/* The next element of a comma list (RFC 9110 section 5.6.1), trimmed, empty ones skipped; false at the end. *REST starts as
 * the whole list. For lists of tokens: a comma in a quoted string divides too. */
bool wr_str_next_element(struct wr_str *rest, struct wr_str *element);

/* The whole of S as a decimal number of at most 2^63-1: digits only. */
bool wr_str_parse_u63(struct wr_str s, uint64_t *out);

/* Character classes of RFC 9110 and 9112. */
bool wr_is_token(struct wr_str s);       /* section 5.6.2, at least one byte */
bool wr_is_field_value(struct wr_str s); /* section 5.5: no control byte but HTAB */
/* Makes N bytes lower case; false: they were no token, and are spoilt. */
bool wr_token_to_lower(char *p, size_t n);
/* Where the first control byte (HTAB is one) at or after FROM is, or S.n. */
size_t wr_str_find_control(struct wr_str s, size_t from);

#endif
