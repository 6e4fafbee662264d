#include <string.h>

#include "observe/access_log.h"

/* What a byte means to the inside of a JSON string. */
enum { CLEAN, ESCAPE, LEAD2, LEAD3, LEAD4, BAD };

/* clang-format off */
#define ROW_OF(x) x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x
static const uint8_t byte_kind[256] = {
    ROW_OF(ESCAPE), ROW_OF(ESCAPE),
    CLEAN, CLEAN, ESCAPE /* " */, CLEAN, CLEAN, CLEAN, CLEAN, CLEAN, CLEAN, CLEAN, CLEAN, CLEAN, CLEAN, CLEAN, CLEAN, CLEAN,
    ROW_OF(CLEAN), ROW_OF(CLEAN),
    CLEAN, CLEAN, CLEAN, CLEAN, CLEAN, CLEAN, CLEAN, CLEAN, CLEAN, CLEAN, CLEAN, CLEAN, ESCAPE /* \ */, CLEAN, CLEAN, CLEAN,
    ROW_OF(CLEAN),
    CLEAN, CLEAN, CLEAN, CLEAN, CLEAN, CLEAN, CLEAN, CLEAN, CLEAN, CLEAN, CLEAN, CLEAN, CLEAN, CLEAN, CLEAN, ESCAPE /* DEL */,
    ROW_OF(BAD), ROW_OF(BAD), ROW_OF(BAD), ROW_OF(BAD), /* continuation bytes */
    BAD, BAD, LEAD2, LEAD2, LEAD2, LEAD2, LEAD2, LEAD2, LEAD2, LEAD2, LEAD2, LEAD2, LEAD2, LEAD2, LEAD2, LEAD2,
    ROW_OF(LEAD2),
    ROW_OF(LEAD3),
    LEAD4, LEAD4, LEAD4, LEAD4, LEAD4, BAD, BAD, BAD, BAD, BAD, BAD, BAD, BAD, BAD, BAD, BAD,
};
/* clang-format on */

static char *put_u(char *out, uint32_t code_unit)
{
    static const char hex[] = "0123456789abcdef";
    *out++ = '\\';
    *out++ = 'u';
    for (unsigned shift = 16; shift > 0;) {
        shift -= 4;
        *out++ = hex[code_unit >> shift & 15];
    }
    return out;
}

static char *put_escaped(char *out, unsigned char c)
{
    if (c != '"' && c != '\\')
        return put_u(out, c);
    *out++ = '\\';
    *out++ = (char)c;
    return out;
}

/* Whether C may follow LEAD at once: RFC 3629 section 4. This is where overlong forms, surrogates and what is above
 * U+10FFFF fall out. */
static bool may_follow_lead(unsigned char lead, unsigned char c)
{
    unsigned char low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    unsigned char high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    return c >= low && c <= high;
}

/* C1 controls, and the two separators that many readers take for an end of line. */
static bool needs_escape(uint32_t code_point)
{
    return code_point < 0xa0 || code_point == 0x2028 || code_point == 0x2029;
}

/* One character of more than one byte at *AT, or what could have been the start of one. */
static char *put_multibyte(char *out, const unsigned char **at, const unsigned char *end)
{
    static const char replacement[] = {'\xef', '\xbf', '\xbd'};
    const unsigned char *start = *at;
    const unsigned char *p = start + 1;
    unsigned kind = byte_kind[*start];
    size_t n = kind == BAD ? 0 : kind - LEAD2 + 2;
    uint32_t code_point = *start & (0x7fU >> n);

    while (p < end && (size_t)(p - start) < n) {
        if (p == start + 1 ? !may_follow_lead(*start, *p) : (*p & 0xc0) != 0x80)
            break;
        code_point = code_point << 6 | (*p++ & 0x3f);
    }
    *at = p;
    if ((size_t)(p - start) != n) {
        memcpy(out, replacement, sizeof(replacement));
        return out + sizeof(replacement);
    }
    if (needs_escape(code_point))
        return put_u(out, code_point);
    memcpy(out, start, n);
    return out + n;
}

size_t wr_json_escape(struct wr_str s, char *out)
{
    char *to = out;
    const unsigned char *at = (const unsigned char *)s.p;
    const unsigned char *end = at + s.n;
    while (at < end) {
        const unsigned char *run = at;
        while (at < end && byte_kind[*at] == CLEAN)
            at++;
        memcpy(to, run, (size_t)(at - run));
        to += at - run;
        if (at == end)
            break;
        if (byte_kind[*at] == ESCAPE)
            to = put_escaped(to, *at++);
        else
            to = put_multibyte(to, &at, end);
    }
    return (size_t)(to - out);
}
