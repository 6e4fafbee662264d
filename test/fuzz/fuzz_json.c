/* What becomes of a text in the access log: the inside of a JSON string of printable UTF-8, that says the same where it was UTF-8. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "observe/access_log.h"

#define STAND_IN "\xef\xbf\xbd" /* U+FFFD */
#define GROWTH 6                /* at most, says wr_json_escape() */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned hex(char c)
{
    const char *digits = "0123456789abcdef";
    const char *found = c != '\0' ? strchr(digits, c | 0x20) : NULL;
    WR_ASSERT(found != NULL);
    return (unsigned)(found - digits);
}

/* Bytes at P, of N, that are a well-formed character (RFC 3629 section 4); if there is none, *WHOLE is false and they are as much of one as
 * there is, at least one: what one U+FFFD stands for (Unicode 3.9, maximal subparts). */
static size_t character(const unsigned char *p, size_t n, bool *whole)
{
    static const struct {
        unsigned char first, last, least, most;
        size_t bytes;
    } rows[] = {
        {0x00, 0x7f, 0x00, 0x00, 1}, {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
        {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
        {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4}};
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        size_t have = 1;
        if (p[0] < rows[r].first || p[0] > rows[r].last)
            continue;
        if (have < rows[r].bytes && have < n && p[1] >= rows[r].least && p[1] <= rows[r].most)
            have++;
        while (have > 1 && have < rows[r].bytes && have < n && (p[have] & 0xc0) == 0x80)
            have++;
        *whole = have == rows[r].bytes;
        return have;
    }
    *whole = false;
    return 1;
}

/* UTF-8 of a character of the basic plane; returns its bytes. */
static size_t encode(unsigned value, char out[4])
{
    WR_ASSERT(value < 0xd800 || value > 0xdfff);
    size_t bytes = value < 0x80 ? 1 : value < 0x800 ? 2 : 3;
    out[0] = (char)(bytes == 1 ? value : bytes == 2 ? 0xc0 | value >> 6 : 0xe0 | value >> 12);
    out[bytes - 1] = (char)(bytes == 1 ? value : 0x80 | (value & 0x3f));
    if (bytes == 3)
        out[1] = (char)(0x80 | (value >> 6 & 0x3f));
    return bytes;
}

/* One character of the escaped text at P as bytes in OUT; *N: how many. Returns how many it took. */
static size_t unescape(const char *p, size_t left, char out[4], size_t *n)
{
    static const char letters[] = "\"\\/bfnrt";
    static const char meanings[] = "\"\\/\b\f\n\r\t";
    WR_ASSERT((unsigned char)*p >= 0x20 && *p != '"' && *p != 0x7f);
    if (*p != '\\') {
        bool whole;
        size_t bytes = character((const unsigned char *)p, left, &whole);
        WR_ASSERT(whole);
        memcpy(out, p, bytes);
        *n = bytes;
        return bytes;
    }
    WR_ASSERT(left >= 2);
    if (p[1] == 'u') {
        WR_ASSERT(left >= 6);
        unsigned value = hex(p[2]) << 12 | hex(p[3]) << 8 | hex(p[4]) << 4 | hex(p[5]);
        *n = encode(value, out);
        return 6;
    }
    const char *letter = strchr(letters, p[1]);
    WR_ASSERT(letter != NULL && p[1] != '\0');
    out[0] = meanings[letter - letters];
    *n = 1;
    return 2;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *out = malloc(size * GROWTH + 1);
    WR_ASSERT(out != NULL);
    size_t n = wr_json_escape(wr_str((const char *)data, size), out);
    WR_ASSERT(n <= size * GROWTH);
    size_t at = 0; /* in DATA */
    for (size_t i = 0; i < n;) {
        char said[4];
        size_t bytes;
        i += unescape(out + i, n - i, said, &bytes);
        WR_ASSERT(at < size);
        bool whole;
        size_t went_in = character(data + at, size - at, &whole);
        if (whole)
            WR_ASSERT(bytes == went_in && memcmp(said, data + at, bytes) == 0);
        else
            WR_ASSERT(bytes == 3 && memcmp(said, STAND_IN, 3) == 0);
        at += went_in;
    }
    WR_ASSERT(at == size);
    free(out);
    return 0;
}
