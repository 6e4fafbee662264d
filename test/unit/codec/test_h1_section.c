#include <criterion/criterion.h>
#include <string.h>

#include "base/compiler.h"
#include "codec/h1_section.h"

/* Gathers TEXT in pieces of PIECE bytes; *WHOLE is a copy of the part, of at most 255 bytes. */
static enum wr_h1_gathered gather(const char *text, size_t piece, size_t limit, bool lines,
                                  char whole[256], size_t *consumed)
{
    struct wr_h1_section section = {0};
    enum wr_h1_gathered gathered = WR_H1_GATHER_MORE;
    size_t n = strlen(text);
    *consumed = 0;
    whole[0] = '\0';
    while (gathered == WR_H1_GATHER_MORE && *consumed < n) {
        size_t used;
        struct wr_str out;
        size_t k = n - *consumed < piece ? n - *consumed : piece;
        gathered =
            wr_h1_section_gather(&section, wr_str(text + *consumed, k), limit, lines, &used, &out);
        *consumed += used;
        if (gathered == WR_H1_GATHER_WHOLE) {
            memcpy(whole, out.p, out.n);
            whole[out.n] = '\0';
        }
    }
    wr_h1_section_clear(&section);
    return gathered;
}

struct row {
    const char *text;
    size_t limit;
    bool lines;
    enum wr_h1_gathered gathered;
    const char *whole;
};

static const struct row rows[] = {
    {"a\r\nb\r\n\r\nrest", 100, true, WR_H1_GATHER_WHOLE, "a\r\nb\r\n\r\n"},
    {"\r\nrest", 100, true, WR_H1_GATHER_WHOLE, "\r\n"},
    {"a\r\n\r\n", 5, true, WR_H1_GATHER_WHOLE, "a\r\n\r\n"},
    {"a\r\n\r\n", 4, true, WR_H1_GATHER_TOO_LARGE, ""},
    {"a\r\nbcdefghijklm", 10, true, WR_H1_GATHER_TOO_LARGE, ""},
    {"a\nb", 100, true, WR_H1_GATHER_BAD, ""},
    {"a\r\n\n", 100, true, WR_H1_GATHER_BAD, ""},
    {"\n", 100, true, WR_H1_GATHER_BAD, ""},
    {"a\r\nb", 100, true, WR_H1_GATHER_MORE, ""},
    {"a\r\nb", 100, false, WR_H1_GATHER_WHOLE, "a\r\n"},
    {"\r\n", 2, false, WR_H1_GATHER_WHOLE, "\r\n"},
    {"ab\r\n", 2, false, WR_H1_GATHER_TOO_LARGE, ""},
    {"a\rb\r\n", 100, false, WR_H1_GATHER_WHOLE, "a\rb\r\n"},
};

Test(h1_section, gathers_the_same_however_it_is_cut)
{
    for (size_t i = 0; i < WR_COUNT_OF(rows); i++) {
        for (size_t piece = 1; piece <= strlen(rows[i].text); piece++) {
            char whole[256];
            size_t consumed;
            enum wr_h1_gathered gathered =
                gather(rows[i].text, piece, rows[i].limit, rows[i].lines, whole, &consumed);
            cr_assert_eq(gathered, rows[i].gathered, "row %zu piece %zu", i, piece);
            cr_assert_str_eq(whole, rows[i].whole);
            if (gathered == WR_H1_GATHER_WHOLE)
                cr_assert_eq(consumed, strlen(whole), "not a byte of what follows");
        }
    }
}

Test(h1_section, holds_no_more_than_its_limit)
{
    struct wr_h1_section section = {0};
    char noise[4096];
    size_t used;
    struct wr_str out;
    memset(noise, 'x', sizeof(noise));
    cr_assert_eq(wr_h1_section_gather(&section, wr_str(noise, 60), 100, true, &used, &out),
                 WR_H1_GATHER_MORE);
    cr_assert_eq(
        wr_h1_section_gather(&section, wr_str(noise, sizeof(noise)), 100, true, &used, &out),
        WR_H1_GATHER_TOO_LARGE);
    cr_assert_eq(section.held_count, 60);
    wr_h1_section_clear(&section);
    wr_h1_section_clear(&section);
}

Test(h1_section, clean_lines)
{
    cr_assert(wr_h1_lines_are_clean(WR_STR("a\tb \xff\r\n\r\n")));
    cr_assert(wr_h1_lines_are_clean(WR_STR("")));
    cr_assert_not(wr_h1_lines_are_clean(WR_STR("a\rb\r\n")));
    cr_assert_not(wr_h1_lines_are_clean(WR_STR("a\r\r\n")));
    cr_assert_not(wr_h1_lines_are_clean(WR_STR("a\0\r\n")));
    cr_assert_not(wr_h1_lines_are_clean(WR_STR("a\n")));
    cr_assert_not(wr_h1_lines_are_clean(WR_STR("\n")));
    cr_assert_not(wr_h1_lines_are_clean(WR_STR("a")));
    cr_assert_not(wr_h1_lines_are_clean(WR_STR("\x7f\r\n")));
}
