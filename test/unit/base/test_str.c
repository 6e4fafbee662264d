#include <criterion/criterion.h>

#include "base/str.h"

#define cr_assert_slice(slice, literal) \
    cr_assert(wr_str_eq(slice, WR_STR(literal)), "'%.*s' is not '%s'", WR_STR_ARG(slice), literal)

Test(str, equality)
{
    cr_assert(wr_str_eq(WR_STR(""), wr_str(NULL, 0)));
    cr_assert(wr_str_eq(WR_STR("a\0b"), WR_STR("a\0b")));
    cr_assert_not(wr_str_eq(WR_STR("a\0b"), WR_STR("a\0c")));
    cr_assert_not(wr_str_eq(WR_STR("a"), WR_STR("ab")));
    cr_assert_not(wr_str_eq(WR_STR("a"), WR_STR("A")));
    cr_assert(wr_str_eq_nocase(WR_STR("Keep-ALIVE"), WR_STR("keep-alive")));
    cr_assert_not(wr_str_eq_nocase(WR_STR("keep"), WR_STR("keep-alive")));
}

/* Only letters fold: '[' and '{', '@' and '`' differ in the same bit. */
Test(str, case_folds_for_ascii_letters_only)
{
    for (int a = 0; a < 256; a++) {
        for (int b = 0; b < 256; b++) {
            char x = (char)a;
            char y = (char)b;
            bool letters = (a | 0x20) == (b | 0x20) && (a | 0x20) >= 'a' && (a | 0x20) <= 'z';
            bool same = wr_str_eq_nocase(wr_str(&x, 1), wr_str(&y, 1));
            if (same != (a == b || letters))
                cr_assert_fail("0x%02x and 0x%02x", (unsigned)a, (unsigned)b);
        }
    }
}

Test(str, starts_and_ends)
{
    cr_assert(wr_str_starts(WR_STR("/api/x"), WR_STR("/api")));
    cr_assert(wr_str_starts(WR_STR("/api"), WR_STR("/api")));
    cr_assert(wr_str_starts(WR_STR("/api"), WR_STR("")));
    cr_assert_not(wr_str_starts(WR_STR("/ap"), WR_STR("/api")));
    cr_assert(wr_str_ends(WR_STR("www.example.com"), WR_STR(".example.com")));
    cr_assert(wr_str_ends(WR_STR("x"), WR_STR("")));
    cr_assert(wr_str_ends(WR_STR(""), WR_STR("")));
    cr_assert_not(wr_str_ends(WR_STR("com"), WR_STR(".com")));
    cr_assert_not(wr_str_ends(WR_STR("example.con"), WR_STR(".com")));
}

Test(str, trim_takes_space_and_tab_only)
{
    cr_assert_slice(wr_str_trim(WR_STR(" \t a b \t")), "a b");
    cr_assert_slice(wr_str_trim(WR_STR(" \t ")), "");
    cr_assert_slice(wr_str_trim(WR_STR("")), "");
    cr_assert_slice(wr_str_trim(WR_STR("\r\na\v")), "\r\na\v");
}

Test(str, elements_of_a_list)
{
    struct wr_str rest = WR_STR(" , close,, \t,Keep-Alive ,\tx y\t,");
    struct wr_str element;
    cr_assert(wr_str_next_element(&rest, &element));
    cr_assert_slice(element, "close");
    cr_assert(wr_str_next_element(&rest, &element));
    cr_assert_slice(element, "Keep-Alive");
    cr_assert(wr_str_next_element(&rest, &element));
    cr_assert_slice(element, "x y");
    cr_assert_not(wr_str_next_element(&rest, &element));
    cr_assert_not(wr_str_next_element(&rest, &element));
}

Test(str, a_list_of_nothing_has_no_elements)
{
    struct wr_str element;
    struct wr_str empty = WR_STR("");
    struct wr_str commas = WR_STR(",, ,");
    cr_assert_not(wr_str_next_element(&empty, &element));
    cr_assert_not(wr_str_next_element(&commas, &element));
}

Test(str, numbers)
{
    uint64_t n = 7;
    cr_assert(wr_str_parse_u63(WR_STR("0"), &n));
    cr_assert_eq(n, 0);
    cr_assert(wr_str_parse_u63(WR_STR("0000000000000000000000000042"), &n));
    cr_assert_eq(n, 42);
    cr_assert(wr_str_parse_u63(WR_STR("9223372036854775807"), &n));
    cr_assert_eq(n, (uint64_t)INT64_MAX);
}

Test(str, what_is_no_number_leaves_the_result_alone)
{
    static const char *const bad[] = {
        "",
        " 1",
        "1 ",
        "+1",
        "-1",
        "0x10",
        "1e3",
        "1,2",
        "1.0",
        "/",
        ":",
        "\xb2",
        "1\t",
        "9223372036854775808",
        "9223372036854775810",
        "18446744073709551615",
        "18446744073709551616",
        "92233720368547758070",
        "99999999999999999999999999999999",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        uint64_t n = 7;
        cr_assert_not(wr_str_parse_u63(wr_str_from(bad[i]), &n), "'%s'", bad[i]);
        cr_assert_eq(n, 7);
    }
    uint64_t n = 7;
    cr_assert_not(wr_str_parse_u63(WR_STR("1\0"), &n));
}

Test(str, token_bytes_are_those_of_rfc_9110)
{
    for (int i = 0; i < 256; i++) {
        char c = (char)i;
        bool alnum = (i >= '0' && i <= '9') || (i >= 'A' && i <= 'Z') || (i >= 'a' && i <= 'z');
        bool is = alnum || (i != 0 && strchr("!#$%&'*+-.^_`|~", i) != NULL);
        cr_assert_eq(wr_is_token(wr_str(&c, 1)), is, "byte 0x%02x", (unsigned)i);
    }
    cr_assert_not(wr_is_token(WR_STR("")));
    cr_assert(wr_is_token(WR_STR("x-request-id")));
    cr_assert_not(wr_is_token(WR_STR("x-request-id ")));
    cr_assert_not(wr_is_token(WR_STR("x\0y")));
}

Test(str, field_value_bytes_are_those_of_rfc_9110)
{
    for (int i = 0; i < 256; i++) {
        char c = (char)i;
        bool is = i == '\t' || (i >= 0x20 && i != 0x7f);
        cr_assert_eq(wr_is_field_value(wr_str(&c, 1)), is, "byte 0x%02x", (unsigned)i);
    }
    cr_assert(wr_is_field_value(WR_STR("")));
    cr_assert(wr_is_field_value(WR_STR("caf\xc3\xa9, \"x\"\t;y")));
    cr_assert_not(wr_is_field_value(WR_STR("a\r\nb: c")));
}

/* Every byte at every place, and neighbours that would borrow from it or carry into it. */
Test(str, finds_the_first_control_byte)
{
    static const char neighbours[] = {' ', '!', '~', 'x', '\x80', '\x9f', '\xff'};
    char text[21];
    for (size_t at = 0; at < sizeof(text); at++) {
        for (int i = 0; i < 256; i++) {
            for (size_t k = 0; k < sizeof(neighbours); k++) {
                memset(text, neighbours[k], sizeof(text));
                text[at] = (char)i;
                bool is = i < 0x20 || i == 0x7f;
                struct wr_str s = wr_str(text, sizeof(text));
                cr_assert_eq(wr_str_find_control(s, 0), is ? at : s.n, "0x%02x at %zu", i, at);
                cr_assert_eq(wr_str_find_control(s, at), is ? at : s.n, "0x%02x at %zu", i, at);
                cr_assert_eq(wr_str_find_control(s, at + 1), s.n, "0x%02x at %zu", i, at);
                cr_assert_eq(wr_is_field_value(s), !is || i == '\t', "0x%02x at %zu", i, at);
            }
        }
    }
    cr_assert_eq(wr_str_find_control(WR_STR("\t\t\x7f\x1f\x7e\r\n"), 0), 0);
    cr_assert_eq(wr_str_find_control(WR_STR("\t\t\x7f\x1f\x7e\r\n"), 4), 5);
    cr_assert_eq(wr_str_find_control(WR_STR(""), 0), 0);
}

Test(str, tokens_to_lower_case)
{
    for (int i = 0; i < 256; i++) {
        char c = (char)i;
        bool is = wr_is_token(wr_str(&c, 1));
        char lower = wr_lower(c);
        cr_assert_eq(wr_token_to_lower(&c, 1), is, "byte 0x%02x", (unsigned)i);
        cr_assert(!is || c == lower, "byte 0x%02x", (unsigned)i);
    }
    char name[] = "X-Request-ID";
    cr_assert(wr_token_to_lower(name, sizeof(name) - 1));
    cr_assert_str_eq(name, "x-request-id");
    cr_assert_not(wr_token_to_lower(name, 0));
    char other[] = "Host: a";
    cr_assert_not(wr_token_to_lower(other, sizeof(other) - 1));
}
