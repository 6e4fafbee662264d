#include "http/head.h"

#include <arpa/inet.h>
#include <string.h>

#include "base/compiler.h"

static const struct wr_str methods[] = {
    [WR_METHOD_GET] = {"GET", 3},         [WR_METHOD_HEAD] = {"HEAD", 4},
    [WR_METHOD_POST] = {"POST", 4},       [WR_METHOD_PUT] = {"PUT", 3},
    [WR_METHOD_DELETE] = {"DELETE", 6},   [WR_METHOD_CONNECT] = {"CONNECT", 7},
    [WR_METHOD_OPTIONS] = {"OPTIONS", 7}, [WR_METHOD_TRACE] = {"TRACE", 5},
    [WR_METHOD_PATCH] = {"PATCH", 5},
};

enum wr_method wr_method_lookup(struct wr_str text)
{
    for (size_t i = WR_METHOD_OTHER + 1; i < WR_COUNT_OF(methods); i++) {
        if (wr_str_eq(methods[i], text))
            return (enum wr_method)i;
    }
    return WR_METHOD_OTHER;
}

bool wr_method_is_idempotent(enum wr_method method)
{
    switch (method) {
    case WR_METHOD_GET:
    case WR_METHOD_HEAD:
    case WR_METHOD_PUT:
    case WR_METHOD_DELETE:
    case WR_METHOD_OPTIONS:
    case WR_METHOD_TRACE:
        return true;
    case WR_METHOD_OTHER:
    case WR_METHOD_POST:
    case WR_METHOD_CONNECT:
    case WR_METHOD_PATCH:
        return false;
    }
    return false;
}

void wr_head_init(struct wr_head *head)
{
    *head = (struct wr_head){
        .protocol = WR_STR_EMPTY,
        .method_text = WR_STR_EMPTY,
        .scheme = WR_STR_EMPTY,
        .authority = WR_STR_EMPTY,
        .path = WR_STR_EMPTY,
    };
}

struct wr_head *wr_head_clone(const struct wr_head *head, struct wr_arena *arena)
{
    struct wr_head *clone = wr_arena_alloc(arena, sizeof(*clone));
    *clone = *head;
    if (head->fields.capacity > 0) {
        size_t n = head->fields.capacity * sizeof(*head->fields.v);
        clone->fields.v = wr_arena_alloc(arena, n);
        memcpy(clone->fields.v, head->fields.v, head->fields.count * sizeof(*head->fields.v));
    }
    return clone;
}

bool wr_response_has_no_content(enum wr_method request_method, uint16_t status)
{
    return request_method == WR_METHOD_HEAD || status < 200 || status == 204 || status == 304;
}

#define LAST_REASON 511

/* RFC 9110 section 15 and the registry of status codes. */
static const char *const reasons[LAST_REASON + 1] = {
    [100] = "Continue",
    [101] = "Switching Protocols",
    [102] = "Processing",
    [103] = "Early Hints",
    [200] = "OK",
    [201] = "Created",
    [202] = "Accepted",
    [203] = "Non-Authoritative Information",
    [204] = "No Content",
    [205] = "Reset Content",
    [206] = "Partial Content",
    [207] = "Multi-Status",
    [208] = "Already Reported",
    [226] = "IM Used",
    [300] = "Multiple Choices",
    [301] = "Moved Permanently",
    [302] = "Found",
    [303] = "See Other",
    [304] = "Not Modified",
    [305] = "Use Proxy",
    [307] = "Temporary Redirect",
    [308] = "Permanent Redirect",
    [400] = "Bad Request",
    [401] = "Unauthorized",
    [402] = "Payment Required",
    [403] = "Forbidden",
    [404] = "Not Found",
    [405] = "Method Not Allowed",
    [406] = "Not Acceptable",
    [407] = "Proxy Authentication Required",
    [408] = "Request Timeout",
    [409] = "Conflict",
    [410] = "Gone",
    [411] = "Length Required",
    [412] = "Precondition Failed",
    [413] = "Content Too Large",
    [414] = "URI Too Long",
    [415] = "Unsupported Media Type",
    [416] = "Range Not Satisfiable",
    [417] = "Expectation Failed",
    [421] = "Misdirected Request",
    [422] = "Unprocessable Content",
    [423] = "Locked",
    [424] = "Failed Dependency",
    [425] = "Too Early",
    [426] = "Upgrade Required",
    [428] = "Precondition Required",
    [429] = "Too Many Requests",
    [431] = "Request Header Fields Too Large",
    [451] = "Unavailable For Legal Reasons",
    [500] = "Internal Server Error",
    [501] = "Not Implemented",
    [502] = "Bad Gateway",
    [503] = "Service Unavailable",
    [504] = "Gateway Timeout",
    [505] = "HTTP Version Not Supported",
    [506] = "Variant Also Negotiates",
    [507] = "Insufficient Storage",
    [508] = "Loop Detected",
    [511] = "Network Authentication Required",
};

struct wr_str wr_status_reason(uint16_t status)
{
    if (status > LAST_REASON || reasons[status] == NULL)
        return WR_STR_EMPTY;
    return wr_str_from(reasons[status]);
}

/* Where the port's colon is, or the length: colons inside brackets are the address's. */
static size_t host_length(struct wr_str authority)
{
    size_t i = 0;
    if (authority.n > 0 && authority.p[0] == '[') {
        while (i < authority.n && authority.p[i] != ']')
            i++;
    }
    while (i < authority.n && authority.p[i] != ':')
        i++;
    return i;
}

struct wr_str wr_authority_host(struct wr_str authority)
{
    return wr_str(authority.p, host_length(authority));
}

static bool is_hex(char c)
{
    c = wr_lower(c);
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

/* unreserved / sub-delims */
static bool is_reg_name_byte(char c)
{
    char lower = wr_lower(c);
    if ((lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9'))
        return true;
    return c != '\0' && strchr("-._~!$&'()*+,;=", c) != NULL;
}

static bool is_reg_name(struct wr_str s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == '%') {
            if (s.n - i < 3 || !is_hex(s.p[i + 1]) || !is_hex(s.p[i + 2]))
                return false;
            i += 2;
        } else if (!is_reg_name_byte(s.p[i])) {
            return false;
        }
    }
    return s.n > 0; /* http and https need a host: RFC 9110 section 4.2.1 */
}

/* "[" IPv6address "]"; no zone, no future version: neither means anything to an HTTP server. */
static bool is_ip_literal(struct wr_str s)
{
    char text[INET6_ADDRSTRLEN];
    struct in6_addr address;
    if (s.n < 4 || s.p[s.n - 1] != ']' || s.n - 2 >= sizeof(text))
        return false;
    memcpy(text, s.p + 1, s.n - 2);
    text[s.n - 2] = '\0';
    return strlen(text) == s.n - 2 && inet_pton(AF_INET6, text, &address) == 1;
}

/* *DIGIT, at most 65535. */
static bool is_port(struct wr_str s)
{
    unsigned port = 0;
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] < '0' || s.p[i] > '9')
            return false;
        port = port * 10 + (unsigned)(s.p[i] - '0');
        if (port > 65535)
            return false;
    }
    return true;
}

bool wr_authority_is_valid(struct wr_str authority)
{
    struct wr_str host = wr_authority_host(authority);
    if (host.n < authority.n) {
        struct wr_str port = wr_str(authority.p + host.n + 1, authority.n - host.n - 1);
        if (!is_port(port))
            return false;
    }
    return host.n > 0 && host.p[0] == '[' ? is_ip_literal(host) : is_reg_name(host);
}
