#include "base/str.h"

#include <endian.h>

/* A token byte in lower case, 0 for any other byte. */
/* clang-format off */
static const char token_lower[256] = {
    ['!'] = '!', ['#'] = '#', ['$'] = '$', ['%'] = '%', ['&'] = '&', ['\''] = '\'', ['*'] = '*', ['+'] = '+',
    ['-'] = '-', ['.'] = '.', ['^'] = '^', ['_'] = '_', ['`'] = '`', ['|'] = '|', ['~'] = '~',
    ['0'] = '0', ['1'] = '1', ['2'] = '2', ['3'] = '3', ['4'] = '4', ['5'] = '5', ['6'] = '6', ['7'] = '7',
    ['8'] = '8', ['9'] = '9',
    ['a'] = 'a', ['b'] = 'b', ['c'] = 'c', ['d'] = 'd', ['e'] = 'e', ['f'] = 'f', ['g'] = 'g', ['h'] = 'h',
    ['i'] = 'i', ['j'] = 'j', ['k'] = 'k', ['l'] = 'l', ['m'] = 'm', ['n'] = 'n', ['o'] = 'o', ['p'] = 'p',
    ['q'] = 'q', ['r'] = 'r', ['s'] = 's', ['t'] = 't', ['u'] = 'u', ['v'] = 'v', ['w'] = 'w', ['x'] = 'x',
    ['y'] = 'y', ['z'] = 'z',
    ['A'] = 'a', ['B'] = 'b', ['C'] = 'c', ['D'] = 'd', ['E'] = 'e', ['F'] = 'f', ['G'] = 'g', ['H'] = 'h',
    ['I'] = 'i', ['J'] = 'j', ['K'] = 'k', ['L'] = 'l', ['M'] = 'm', ['N'] = 'n', ['O'] = 'o', ['P'] = 'p',
    ['Q'] = 'q', ['R'] = 'r', ['S'] = 's', ['T'] = 't', ['U'] = 'u', ['V'] = 'v', ['W'] = 'w', ['X'] = 'x',
    ['Y'] = 'y', ['Z'] = 'z',
};
/* clang-format on */

bool wr_is_token(struct wr_str s)
{
    bool all = s.n > 0;
    for (size_t i = 0; i < s.n; i++)
        all &= token_lower[(unsigned char)s.p[i]] != '\0';
    return all;
}

bool wr_token_to_lower(char *p, size_t n)
{
    bool all = n > 0;
    for (size_t i = 0; i < n; i++) {
        char lower = token_lower[(unsigned char)p[i]];
        all &= lower != '\0';
        p[i] = lower;
    }
    return all;
}

static bool is_control(char c)
{
    return (unsigned char)c < 0x20 || c == 0x7f;
}

#define EACH_BYTE(x) (UINT64_C(0x0101010101010101) * (x))

/* Of eight bytes the highest bits of those that are control bytes: what is below 0x20 borrows into it, 0x7f carries into it. Bits
 * above the lowest may be wrong. */
static uint64_t control_bits(uint64_t word)
{
    uint64_t below = word - EACH_BYTE(0x20);
    uint64_t del = (word & EACH_BYTE(0x7f)) + EACH_BYTE(0x01);
    return (below | del) & ~word & EACH_BYTE(0x80);
}

size_t wr_str_find_control(struct wr_str s, size_t from)
{
    uint64_t word;
    size_t i = from;
    for (; s.n - i >= sizeof(word); i += sizeof(word)) {
        memcpy(&word, s.p + i, sizeof(word));
        uint64_t bits = control_bits(le64toh(word));
        if (bits != 0)
            return i + (size_t)__builtin_ctzll(bits) / 8;
    }
    while (i < s.n && !is_control(s.p[i]))
        i++;
    return i;
}

bool wr_is_field_value(struct wr_str s)
{
    size_t at = wr_str_find_control(s, 0);
    while (at < s.n && s.p[at] == '\t')
        at = wr_str_find_control(s, at + 1);
    return at == s.n;
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
