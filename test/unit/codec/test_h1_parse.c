#include <criterion/criterion.h>

#include "base/compiler.h"
#include "codec/h1_parse.h"

/* What components cannot see: most rows of start lines and targets are in test/component/test_h1_requests.c. */
Test(h1_parse, a_bad_request_line_tells_what_it_can)
{
    struct wr_h1_request_line line;
    cr_assert_eq(wr_h1_parse_request_line(WR_STR("GET /a HTTP/9.1"), 10, &line),
                 WR_ERR_VERSION_NOT_SUPPORTED);
    cr_assert(wr_str_eq(line.method, WR_STR("GET")));
    cr_assert(wr_str_eq(line.target, WR_STR("/a")));
    cr_assert_eq(line.version_minor, 1);
    cr_assert_eq(wr_h1_parse_request_line(WR_STR("GET /abcdefghij HTTP/1.1"), 10, &line),
                 WR_ERR_URI_TOO_LONG);
    cr_assert(wr_str_eq(line.method, WR_STR("GET")));
    cr_assert_eq(line.target.n, 0);
    cr_assert_eq(wr_h1_parse_request_line(WR_STR(""), 10, &line), WR_ERR_BAD_REQUEST);
    cr_assert_eq(wr_h1_parse_request_line(WR_STR(" "), 10, &line), WR_ERR_BAD_REQUEST);
    cr_assert_eq(wr_h1_parse_request_line(WR_STR("GET "), 10, &line), WR_ERR_BAD_REQUEST);
    cr_assert_eq(wr_h1_parse_request_line(WR_STR("GET  HTTP/1.1"), 10, &line), WR_ERR_BAD_REQUEST);
    cr_assert_eq(wr_h1_parse_request_line(WR_STR("GET /abcdefghij"), 10, &line),
                 WR_ERR_URI_TOO_LONG);
}

static const struct {
    const char *line;
    uint64_t size;
    size_t digits; /* 0: malformed */
} chunk_lines[] = {
    {"0\r\n", 0, 1},
    {"aF\r\n", 0xaf, 2},
    {"7fffffffffffffff\r\n", INT64_MAX, 16},
    {"00007fffffffffffffff\r\n", INT64_MAX, 20},
    {"1;x\r\n", 1, 1},
    {"1;\r\n", 1, 1},
    {"\r\n", 0, 0},
    {";x\r\n", 0, 0},
    {"8000000000000000\r\n", 0, 0},
    {"fffffffffffffffff\r\n", 0, 0},
    {"1 ;x\r\n", 0, 0},
    {"1\t\r\n", 0, 0},
    {"g\r\n", 0, 0},
    {"1;\x01\r\n", 0, 0},
    {"1\r\r\n", 0, 0},
};

Test(h1_parse, chunk_lines)
{
    for (size_t i = 0; i < WR_COUNT_OF(chunk_lines); i++) {
        struct wr_str digits;
        uint64_t size;
        bool good = wr_h1_parse_chunk_line(wr_str_from(chunk_lines[i].line), &digits, &size);
        cr_assert_eq(good, chunk_lines[i].digits > 0, "%s", chunk_lines[i].line);
        if (good) {
            cr_assert_eq(size, chunk_lines[i].size);
            cr_assert_eq(digits.n, chunk_lines[i].digits);
        }
    }
}

Test(h1_parse, connection_options)
{
    unsigned options = 0;
    wr_h1_parse_connection(WR_STR("x, Close ,,upgrade"), &options);
    cr_assert_eq(options, WR_H1_CLOSE | WR_H1_UPGRADE);
    wr_h1_parse_connection(WR_STR("closed, keep-aliv"), &options);
    cr_assert_eq(options, WR_H1_CLOSE | WR_H1_UPGRADE);
    wr_h1_parse_connection(WR_STR("KEEP-ALIVE"), &options);
    cr_assert_eq(options, WR_H1_CLOSE | WR_H1_UPGRADE | WR_H1_KEEP_ALIVE);
    cr_assert(wr_h1_list_has(WR_STR("gzip, Trailers"), WR_STR("trailers")));
    cr_assert_not(wr_h1_list_has(WR_STR("trailersx"), WR_STR("trailers")));
}
