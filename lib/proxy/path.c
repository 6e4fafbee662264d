#include "proxy/path.h"

/* What a first look finds; a path with none of these is used as it is. */
enum { HAS_ESCAPE = 1, HAS_DOT_SEGMENT = 2, HAS_DOUBLE_SLASH = 4, HAS_BACKSLASH = 8, IS_BAD = 16 };

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = wr_lower(c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The value of the escape at P (N bytes are left), or -1. */
static int escape_value(const char *p, size_t n)
{
    if (n < 3 || hex_digit(p[1]) < 0 || hex_digit(p[2]) < 0)
        return -1;
    return hex_digit(p[1]) * 16 + hex_digit(p[2]);
}

/* RFC 3986 section 2.3. */
static bool is_unreserved(int c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_' || c == '~';
}

static bool is_bad_byte(char c)
{
    return c < 0x21 || c > 0x7e || c == '#';
}

/* The length of the path without query goes to *PATH_N. */
static unsigned look(struct wr_str path, size_t *path_n)
{
    unsigned found = 0;
    size_t i = 0;
    for (; i < path.n && path.p[i] != '?'; i++) {
        char c = path.p[i];
        if (is_bad_byte(c))
            found |= IS_BAD;
        else if (c == '%')
            found |= escape_value(path.p + i, path.n - i) == 0 ? HAS_ESCAPE | IS_BAD : HAS_ESCAPE;
        else if (c == '\\')
            found |= HAS_BACKSLASH;
        else if (i > 0 && path.p[i - 1] == '/')
            found |= c == '.' ? HAS_DOT_SEGMENT : c == '/' ? HAS_DOUBLE_SLASH : 0;
    }
    *path_n = i;
    for (; i < path.n; i++) {
        if (is_bad_byte(path.p[i]))
            found |= IS_BAD;
    }
    return found;
}

/* Decodes unreserved escapes from FROM (its path part) to TO. False: a malformed escape. */
static bool decode(struct wr_str from, char *to, size_t *to_n)
{
    size_t n = 0;
    for (size_t i = 0; i < from.n; i++) {
        if (from.p[i] != '%') {
            to[n++] = from.p[i];
            continue;
        }
        int value = escape_value(from.p + i, from.n - i);
        if (value < 0)
            return false;
        if (is_unreserved(value)) {
            to[n++] = (char)value;
        } else {
            memcpy(to + n, from.p + i, 3);
            n += 3;
        }
        i += 2;
    }
    *to_n = n;
    return true;
}

static size_t merge_slashes(char *p, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        if (p[i] == '/' && kept > 0 && p[kept - 1] == '/')
            continue;
        p[kept++] = p[i];
    }
    return kept;
}

/* In place. P begins with "/". False: above the root. */
static bool resolve_dots(char *p, size_t *n)
{
    size_t length = *n;
    size_t kept = 0; /* of whole segments, each with the slash before it */
    size_t at = 0;
    while (at < length) {
        size_t end = at + 1;
        while (end < length && p[end] != '/')
            end++;
        struct wr_str segment = wr_str(p + at + 1, end - at - 1);
        bool last = end == length;
        bool up = wr_str_eq(segment, WR_STR(".."));
        if (up) {
            if (kept == 0)
                return false;
            do
                kept--;
            while (p[kept] != '/');
        }
        if (!up && !wr_str_eq(segment, WR_STR("."))) {
            memmove(p + kept, p + at, end - at);
            kept += end - at;
        } else if (last) {
            p[kept++] = '/';
        }
        at = end;
    }
    *n = kept;
    return true;
}

enum wr_err wr_path_normalise(struct wr_str path, enum wr_path_policy policy,
                              struct wr_arena *arena, struct wr_str *out)
{
    size_t path_n;
    unsigned found = look(path, &path_n);
    if ((found & IS_BAD) != 0)
        return WR_ERR_BAD_REQUEST;
    if (policy == WR_PATH_RAW || wr_str_eq(path, WR_STR("*"))) {
        *out = path;
        return WR_OK;
    }
    if ((found & HAS_BACKSLASH) != 0 || path.n == 0 || path.p[0] != '/')
        return WR_ERR_BAD_REQUEST;
    if (policy == WR_PATH_STRICT)
        found &= ~(unsigned)HAS_DOUBLE_SLASH;
    if (found == 0) {
        *out = path;
        return WR_OK;
    }

    char *made = wr_arena_alloc(arena, path.n);
    size_t n;
    if (!decode(wr_str(path.p, path_n), made, &n))
        return WR_ERR_BAD_REQUEST;
    if (policy == WR_PATH_MERGE_SLASHES)
        n = merge_slashes(made, n);
    if (!resolve_dots(made, &n))
        return WR_ERR_BAD_REQUEST;
    memcpy(made + n, path.p + path_n, path.n - path_n);
    *out = wr_str(made, n + path.n - path_n);
    return WR_OK;
}
