#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#include "observe/access_log.h"

static void expect(struct wr_str in, const char *out)
{
    char room[512];
    size_t n = wr_json_escape(in, room);
    cr_assert_leq(n, in.n * 6);
    cr_assert(wr_str_eq(wr_str(room, n), wr_str_from(out)), "'%.*s' is not '%s'", (int)n, room,
              out);
}

#define FFFD "\xef\xbf\xbd"

Test(json, clean_text_is_as_it_was)
{
    expect(WR_STR(""), "");
    expect(wr_str(NULL, 0), "");
    expect(WR_STR("/a?b=c&d=/~!'<>"), "/a?b=c&d=/~!'<>");
    expect(WR_STR("caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"),
           "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80");
    expect(WR_STR("\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf"),
           "\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf");
}

Test(json, controls_and_quotes)
{
    expect(WR_STR("a\"b\\c"), "a\\\"b\\\\c");
    expect(WR_STR("\r\n\t\0\x1b[2J\x7f"), "\\u000d\\u000a\\u0009\\u0000\\u001b[2J\\u007f");
    expect(WR_STR("\xc2\x80\xc2\x9b\xc2\x9f\xc2\xa0"), "\\u0080\\u009b\\u009f\xc2\xa0");
    expect(WR_STR("\xe2\x80\xa8\xe2\x80\xa9\xe2\x80\xaa"), "\\u2028\\u2029\xe2\x80\xaa");
}

Test(json, what_is_not_utf_8_becomes_the_replacement_character)
{
    expect(WR_STR("\x80"), FFFD);
    expect(WR_STR("a\xc3"), "a" FFFD);
    expect(WR_STR("\xc3\"x"), FFFD "\\\"x");
    expect(WR_STR("\xc0\xaf"), FFFD FFFD); /* overlong '/' */
    expect(WR_STR("\xc1\xbf"), FFFD FFFD);
    expect(WR_STR("\xe0\x80\xaf"), FFFD FFFD FFFD); /* overlong '/' */
    expect(WR_STR("\xe0\x9f\xbf"), FFFD FFFD FFFD);
    expect(WR_STR("\xf0\x8f\xbf\xbf"), FFFD FFFD FFFD FFFD);
    expect(WR_STR("\xed\xa0\x80"), FFFD FFFD FFFD); /* surrogate */
    expect(WR_STR("\xed\xbf\xbf"), FFFD FFFD FFFD);
    expect(WR_STR("\xf4\x90\x80\x80"), FFFD FFFD FFFD FFFD); /* above U+10FFFF */
    expect(WR_STR("\xf5\x80\x80\x80"), FFFD FFFD FFFD FFFD);
    expect(WR_STR("\xfe\xff"), FFFD FFFD);
    expect(WR_STR("\xe2\x82"), FFFD); /* cut short: one for what was there */
    expect(WR_STR("\xf0\x9f\x98"
                  "a"),
           FFFD "a");
    expect(WR_STR("\xe2\x82\xc3\xa9"), FFFD "\xc3\xa9");
}

/* Room of exactly six bytes for each: a sanitizer sees one more. */
Test(json, never_more_than_six_bytes_for_one)
{
    for (int i = 0; i < 256; i++) {
        char c = (char)i;
        char *out = malloc(6);
        size_t n = wr_json_escape(wr_str(&c, 1), out);
        cr_assert(n >= 1 && n <= 6);
        for (size_t k = 0; k < n; k++)
            cr_assert((unsigned char)out[k] >= 0x20 && out[k] != 0x7f);
        free(out);
    }
}
