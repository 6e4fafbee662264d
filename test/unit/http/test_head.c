#include <criterion/criterion.h>

#include "base/compiler.h"
#include "http/head.h"

Test(head, methods_are_case_sensitive)
{
    static const struct {
        const char *text;
        enum wr_method method;
        bool idempotent;
    } rows[] = {
        {"GET", WR_METHOD_GET, true},         {"HEAD", WR_METHOD_HEAD, true},
        {"POST", WR_METHOD_POST, false},      {"PUT", WR_METHOD_PUT, true},
        {"DELETE", WR_METHOD_DELETE, true},   {"CONNECT", WR_METHOD_CONNECT, false},
        {"OPTIONS", WR_METHOD_OPTIONS, true}, {"TRACE", WR_METHOD_TRACE, true},
        {"PATCH", WR_METHOD_PATCH, false},    {"get", WR_METHOD_OTHER, false},
        {"GETS", WR_METHOD_OTHER, false},     {"", WR_METHOD_OTHER, false},
    };
    for (size_t i = 0; i < WR_COUNT_OF(rows); i++) {
        enum wr_method method = wr_method_lookup(wr_str_from(rows[i].text));
        cr_expect_eq(method, rows[i].method, "%s", rows[i].text);
        cr_expect_eq(wr_method_is_idempotent(method), rows[i].idempotent, "%s", rows[i].text);
    }
}

Test(head, a_clone_is_edited_apart)
{
    struct wr_arena arena;
    struct wr_head head;
    wr_arena_init(&arena);
    wr_head_init(&head);
    cr_assert_eq(head.content_length, 0);
    cr_assert_eq(head.path.n, 0);
    struct wr_head *empty = wr_head_clone(&head, &arena);
    wr_fields_add(&empty->fields, &arena, WR_STR("x-a"), WR_STR("1"));
    cr_assert_eq(head.fields.count, 0);

    wr_fields_add(&head.fields, &arena, WR_STR("x-a"), WR_STR("1"));
    head.status = 200;
    struct wr_head *clone = wr_head_clone(&head, &arena);
    cr_assert_eq(clone->status, 200);
    wr_fields_remove_name(&clone->fields, WR_STR("x-a"));
    for (int i = 0; i < 100; i++)
        wr_fields_add(&clone->fields, &arena, WR_STR("x-b"), WR_STR("2"));
    cr_assert_eq(head.fields.count, 1);
    cr_assert_not_null(wr_fields_find_name(&head.fields, WR_STR("x-a")));
    wr_arena_free(&arena);
}

Test(head, responses_without_content)
{
    cr_expect(wr_response_has_no_content(WR_METHOD_HEAD, 200));
    cr_expect(wr_response_has_no_content(WR_METHOD_GET, 100));
    cr_expect(wr_response_has_no_content(WR_METHOD_GET, 103));
    cr_expect(wr_response_has_no_content(WR_METHOD_GET, 204));
    cr_expect(wr_response_has_no_content(WR_METHOD_GET, 304));
    cr_expect_not(wr_response_has_no_content(WR_METHOD_GET, 200));
    cr_expect_not(wr_response_has_no_content(WR_METHOD_POST, 205));
    cr_expect_not(wr_response_has_no_content(WR_METHOD_GET, 404));
}

Test(head, reasons)
{
    cr_expect(wr_str_eq(wr_status_reason(200), WR_STR("OK")));
    cr_expect(wr_str_eq(wr_status_reason(431), WR_STR("Request Header Fields Too Large")));
    cr_expect(wr_str_eq(wr_status_reason(511), WR_STR("Network Authentication Required")));
    cr_expect_eq(wr_status_reason(0).n, 0);
    cr_expect_eq(wr_status_reason(299).n, 0);
    cr_expect_eq(wr_status_reason(512).n, 0);
    cr_expect_eq(wr_status_reason(65535).n, 0);
}

Test(head, host_of_an_authority)
{
    static const char *const rows[][2] = {
        {"a.example:80", "a.example"},
        {"a.example", "a.example"},
        {"[::1]:443", "[::1]"},
        {"[::1]", "[::1]"},
        {"", ""},
        {":80", ""},
        {"[::1", "[::1"},
        {"a:1:2", "a"},
    };
    for (size_t i = 0; i < WR_COUNT_OF(rows); i++) {
        struct wr_str host = wr_authority_host(wr_str_from(rows[i][0]));
        cr_expect(wr_str_eq(host, wr_str_from(rows[i][1])), "%s", rows[i][0]);
    }
}

Test(head, valid_authorities)
{
    static const char *const valid[] = {
        "example.com",      "example.com:8443", "example.com:",  "127.0.0.1:80",    "[::1]",
        "[::1]:443",        "[::1]:",           "a_b-c~d",       "%41%2f.example",  "a:65535",
        "[::ffff:1.2.3.4]", "EXAMPLE",          "x!$&'()*+,;=y", "localhost:00080",
    };
    for (size_t i = 0; i < WR_COUNT_OF(valid); i++)
        cr_expect(wr_authority_is_valid(wr_str_from(valid[i])), "%s", valid[i]);
}

Test(head, invalid_authorities)
{
    static const char *const invalid[] = {
        "",
        ":80",
        "user@host",
        "a/b",
        "a?b",
        "a#b",
        "a b",
        "a:b",
        "a:-1",
        "a:65536",
        "a:+1",
        "a:80:80",
        "[::1",
        "[::1]x",
        "::1",
        "[]",
        "[x]",
        "[v1.a]",
        "[fe80::1%1]",
        "%",
        "%4",
        "%zz",
        "a\\b",
        "a\"b",
        "<a>",
        "a\x7f",
        "\xc3\xa9",
        "[1.2.3.4]",
        "a:999999999999999999999",
        "a\tb",
        "[::1]]",
        "a[",
        "^",
    };
    for (size_t i = 0; i < WR_COUNT_OF(invalid); i++)
        cr_expect_not(wr_authority_is_valid(wr_str_from(invalid[i])), "%s", invalid[i]);
    cr_expect_not(wr_authority_is_valid(wr_str("a\0b", 3)));
    cr_expect_not(wr_authority_is_valid(wr_str("[::1\0]", 6)));
}
