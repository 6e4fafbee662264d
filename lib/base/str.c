#include "base/str.h"

/* What a byte may be part of. Every token byte may be in a field value too. */
#define V 1       /* field value: VCHAR, obs-text, SP, HTAB */
#define T (2 | V) /* token */

/* clang-format off */
static const uint8_t byte_class[256] = {
    0, 0, 0, 0, 0, 0, 0, 0, 0, V, 0, 0, 0, 0, 0, 0, /* 0x00 */
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, /* 0x10 */
    V, T, V, T, T, T, T, T, V, V, T, T, V, T, T, V, /* 0x20 */
    T, T, T, T, T, T, T, T, T, T, V, V, V, V, V, V, /* 0x30 */
    V, T, T, T, T, T, T, T, T, T, T, T, T, T, T, T, /* 0x40 */
    T, T, T, T, T, T, T, T, T, T, T, V, V, V, T, T, /* 0x50 */
    T, T, T, T, T, T, T, T, T, T, T, T, T, T, T, T, /* 0x60 */
    T, T, T, T, T, T, T, T, T, T, T, V, T, V, T, 0, /* 0x70 */
    V, V, V, V, V, V, V, V, V, V, V, V, V, V, V, V, /* 0x80 */
    V, V, V, V, V, V, V, V, V, V, V, V, V, V, V, V, /* 0x90 */
    V, V, V, V, V, V, V, V, V, V, V, V, V, V, V, V, /* 0xa0 */
    V, V, V, V, V, V, V, V, V, V, V, V, V, V, V, V, /* 0xb0 */
    V, V, V, V, V, V, V, V, V, V, V, V, V, V, V, V, /* 0xc0 */
    V, V, V, V, V, V, V, V, V, V, V, V, V, V, V, V, /* 0xd0 */
    V, V, V, V, V, V, V, V, V, V, V, V, V, V, V, V, /* 0xe0 */
    V, V, V, V, V, V, V, V, V, V, V, V, V, V, V, V, /* 0xf0 */
};
/* clang-format on */

static bool all_of_class(struct wr_str s, unsigned wanted)
{
    unsigned common = wanted;
    for (size_t i = 0; i < s.n; i++)
        common &= byte_class[(unsigned char)s.p[i]];
    return common == wanted;
}

bool wr_is_token(struct wr_str s)
{
    return s.n > 0 && all_of_class(s, T);
}

bool wr_is_field_value(struct wr_str s)
{
    return all_of_class(s, V);
}

bool wr_str_eq_nocase(struct wr_str a, struct wr_str b)
{
    if (a.n != b.n)
        return false;
    for (size_t i = 0; i < a.n; i++) {
        if (a.p[i] != b.p[i] && wr_lower(a.p[i]) != wr_lower(b.p[i]))
            return false;
    }
    return true;
}

bool wr_str_starts(struct wr_str s, struct wr_str prefix)
{
    return s.n >= prefix.n && wr_str_eq(wr_str(s.p, prefix.n), prefix);
}

bool wr_str_ends(struct wr_str s, struct wr_str suffix)
{
    return s.n >= suffix.n &&
           (suffix.n == 0 || wr_str_eq(wr_str(s.p + (s.n - suffix.n), suffix.n), suffix));
}

static bool is_ows(char c)
{
    return c == ' ' || c == '\t';
}

struct wr_str wr_str_trim(struct wr_str s)
{
    while (s.n > 0 && is_ows(s.p[0])) {
        s.p++;
        s.n--;
    }
    while (s.n > 0 && is_ows(s.p[s.n - 1]))
        s.n--;
    return s;
}

bool wr_str_next_element(struct wr_str *rest, struct wr_str *element)
{
    while (rest->n > 0) {
        const char *comma = memchr(rest->p, ',', rest->n);
        size_t n = comma != NULL ? (size_t)(comma - rest->p) : rest->n;
        size_t taken = comma != NULL ? n + 1 : n;
        *element = wr_str_trim(wr_str(rest->p, n));
        rest->p += taken;
        rest->n -= taken;
        if (element->n > 0)
            return true;
    }
    return false;
}

bool wr_str_parse_u63(struct wr_str s, uint64_t *out)
{
    uint64_t value = 0;
    if (s.n == 0)
        return false;
    for (size_t i = 0; i < s.n; i++) {
        unsigned digit = (unsigned)(unsigned char)s.p[i] - '0';
        if (digit > 9 || value > ((uint64_t)INT64_MAX - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    *out = value;
    return true;
}
