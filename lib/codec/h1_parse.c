#include "codec/h1_parse.h"

#include <string.h>

#include "base/assert.h"
#include "codec/target.h"

#define VERSION_LENGTH 8 /* "HTTP/1.1" */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* False: not HTTP/DIGIT.DIGIT. */
static bool parse_version(struct wr_str text, unsigned *major, uint8_t *minor)
{
    if (text.n != VERSION_LENGTH || memcmp(text.p, "HTTP/", 5) != 0 || !is_digit(text.p[5]) ||
        text.p[6] != '.' || !is_digit(text.p[7]))
        return false;
    *major = (unsigned)(text.p[5] - '0');
    *minor = (uint8_t)(text.p[7] - '0');
    return true;
}

enum wr_err wr_h1_parse_request_line(struct wr_str line, size_t target_limit,
                                     struct wr_h1_request_line *out)
{
    *out = (struct wr_h1_request_line){WR_STR_EMPTY, WR_STR_EMPTY, 1};
    const char *space = memchr(line.p, ' ', line.n);
    if (space == NULL)
        return WR_ERR_BAD_REQUEST;
    struct wr_str method = wr_str(line.p, (size_t)(space - line.p));
    if (!wr_is_token(method))
        return WR_ERR_BAD_REQUEST;
    out->method = method;

    struct wr_str rest = wr_str(space + 1, line.n - method.n - 1);
    space = memchr(rest.p, ' ', rest.n);
    if (space == NULL) /* HTTP/0.9 */
        return rest.n > target_limit ? WR_ERR_URI_TOO_LONG : WR_ERR_BAD_REQUEST;
    struct wr_str target = wr_str(rest.p, (size_t)(space - rest.p));
    if (target.n > target_limit)
        return WR_ERR_URI_TOO_LONG;
    if (!wr_target_is_clean(target))
        return WR_ERR_BAD_REQUEST;
    out->target = target;

    unsigned major;
    uint8_t minor;
    if (!parse_version(wr_str(space + 1, rest.n - target.n - 1), &major, &minor))
        return WR_ERR_BAD_REQUEST;
    if (major != 1)
        return major > 1 ? WR_ERR_VERSION_NOT_SUPPORTED : WR_ERR_BAD_REQUEST;
    out->version_minor = minor;

    return wr_method_lookup(method) == WR_METHOD_TRACE ? WR_ERR_METHOD_NOT_ALLOWED : WR_OK;
}

enum wr_err wr_h1_parse_status_line(struct wr_str line, struct wr_h1_status_line *out)
{
    unsigned major;
    if (line.n < VERSION_LENGTH + 4 ||
        !parse_version(wr_str(line.p, VERSION_LENGTH), &major, &out->version_minor) || major != 1)
        return WR_ERR_BAD_RESPONSE;
    const char *p = line.p + VERSION_LENGTH;
    if (p[0] != ' ' || !is_digit(p[1]) || !is_digit(p[2]) || !is_digit(p[3]))
        return WR_ERR_BAD_RESPONSE;
    if (line.n > VERSION_LENGTH + 4 && p[4] != ' ')
        return WR_ERR_BAD_RESPONSE;
    out->status = (uint16_t)((p[1] - '0') * 100 + (p[2] - '0') * 10 + (p[3] - '0'));
    return out->status >= 100 && out->status <= 599 ? WR_OK : WR_ERR_BAD_RESPONSE;
}

static bool starts_nocase(struct wr_str s, struct wr_str prefix)
{
    return s.n >= prefix.n && wr_str_eq_nocase(wr_str(s.p, prefix.n), prefix);
}

/* RFC 9112 section 3.2.3. */
static enum wr_err parse_authority_form(struct wr_str target, struct wr_h1_target *out)
{
    *out = (struct wr_h1_target){target, WR_STR_EMPTY};
    return wr_target_has_port(target) && wr_authority_is_valid(target) ? WR_OK : WR_ERR_BAD_REQUEST;
}

enum wr_err wr_h1_parse_target(enum wr_method method, struct wr_str target,
                               struct wr_h1_target *out)
{
    if (method == WR_METHOD_CONNECT)
        return parse_authority_form(target, out);
    *out = (struct wr_h1_target){WR_STR_EMPTY, target};
    if (target.n > 0 && target.p[0] == '/')
        return WR_OK;
    if (wr_str_eq(target, WR_STR("*")))
        return method == WR_METHOD_OPTIONS ? WR_OK : WR_ERR_BAD_REQUEST;

    size_t scheme = 0;
    if (starts_nocase(target, WR_STR("http://")))
        scheme = 7;
    else if (starts_nocase(target, WR_STR("https://")))
        scheme = 8;
    else
        return WR_ERR_BAD_REQUEST;
    struct wr_str rest = wr_str(target.p + scheme, target.n - scheme);
    size_t n = 0;
    while (n < rest.n && rest.p[n] != '/' && rest.p[n] != '?')
        n++;
    out->authority = wr_str(rest.p, n);
    out->path = wr_str(rest.p + n, rest.n - n);
    if (out->path.n == 0 && method == WR_METHOD_OPTIONS)
        out->path = WR_STR("*"); /* RFC 9112 section 3.2.4 */
    return wr_authority_is_valid(out->authority) ? WR_OK : WR_ERR_BAD_REQUEST;
}

/* -1: none. */
static int hex_value(char c)
{
    if (is_digit(c))
        return c - '0';
    char lower = wr_lower(c);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

bool wr_h1_parse_chunk_line(struct wr_str line, struct wr_str *digits, uint64_t *size)
{
    WR_ASSERT(line.n >= 2);
    struct wr_str text = wr_str(line.p, line.n - 2);
    uint64_t value = 0;
    size_t n = 0;
    while (n < text.n) {
        int digit = hex_value(text.p[n]);
        if (digit < 0)
            break;
        if (value > (uint64_t)INT64_MAX >> 4)
            return false;
        value = value << 4 | (uint64_t)digit;
        n++;
    }
    if (n == 0 || (n < text.n && text.p[n] != ';') || !wr_is_field_value(text))
        return false;
    *digits = wr_str(text.p, n);
    *size = value;
    return true;
}

void wr_h1_parse_connection(struct wr_str value, unsigned *options)
{
    struct wr_str option;
    while (wr_str_next_element(&value, &option)) {
        if (wr_str_eq_nocase(option, WR_STR("close")))
            *options |= WR_H1_CLOSE;
        else if (wr_str_eq_nocase(option, WR_STR("keep-alive")))
            *options |= WR_H1_KEEP_ALIVE;
        else if (wr_str_eq_nocase(option, WR_STR("upgrade")))
            *options |= WR_H1_UPGRADE;
    }
}

bool wr_h1_list_has(struct wr_str value, struct wr_str word)
{
    struct wr_str element;
    while (wr_str_next_element(&value, &element)) {
        if (wr_str_eq_nocase(element, word))
            return true;
    }
    return false;
}
