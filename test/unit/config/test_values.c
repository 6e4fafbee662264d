#include "config/values.h"

#include <criterion/criterion.h>

#include "base/compiler.h"
#include "base/time.h"

struct number_case {
    const char *text;
    bool fine;
    uint64_t value;
};

static void check(bool (*parse)(struct wr_str, uint64_t *), const struct number_case *cases,
                  size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t value = 0;
        bool fine = parse(wr_str_from(cases[i].text), &value);
        cr_expect(fine == cases[i].fine, "\"%s\" taken: %d", cases[i].text, fine);
        if (fine && cases[i].fine)
            cr_expect(value == cases[i].value, "\"%s\" is %llu", cases[i].text,
                      (unsigned long long)value);
    }
}

struct text_case {
    uint64_t value;
    const char *text;
};

static void check_text(void (*write)(uint64_t, char *), const struct text_case *cases, size_t count)
{
    char text[WR_VALUE_TEXT];
    for (size_t i = 0; i < count; i++) {
        write(cases[i].value, text);
        cr_expect_str_eq(text, cases[i].text);
    }
}

Test(values, are_written_as_a_person_would)
{
    static const struct text_case durations[] = {
        {0, "0"},
        {7, "7us"},
        {1500, "1500us"},
        {250 * WR_MSEC, "250ms"},
        {90 * WR_SEC, "90s"},
        {60 * WR_SEC, "1m"},
        {48 * 3600 * WR_SEC, "2d"},
        {WR_NEVER, "infinity"},
    };
    static const struct text_case sizes[] = {
        {0, "0"},       {512, "512"},      {1024, "1KiB"},
        {1536, "1536"}, {3 << 20, "3MiB"}, {UINT64_MAX, "infinity"},
    };
    check_text(wr_value_duration_text, durations, WR_COUNT_OF(durations));
    check_text(wr_value_size_text, sizes, WR_COUNT_OF(sizes));
    char text[WR_VALUE_TEXT];
    wr_value_percent_text(20, text);
    cr_expect_str_eq(text, "20%");
}

Test(values, durations)
{
    static const struct number_case cases[] = {
        {"250ms", true, 250 * WR_MSEC},
        {"15s", true, 15 * WR_SEC},
        {"5m", true, 300 * WR_SEC},
        {"1h", true, 3600 * WR_SEC},
        {"2d", true, 48 * 3600 * WR_SEC},
        {"7us", true, 7},
        {"0", true, 0},
        {"infinity", true, WR_NEVER},
        {"15", false, 0},
        {"", false, 0},
        {"s", false, 0},
        {"-1s", false, 0},
        {"1.5s", false, 0},
        {"1 s", false, 0},
        {"1S", false, 0},
        {"99999999999999999h", false, 0},
        {"18446744073709551616s", false, 0},
    };
    check(wr_value_duration, cases, WR_COUNT_OF(cases));
}

Test(values, sizes)
{
    static const struct number_case cases[] = {
        {"512", true, 512},         {"512B", true, 512},
        {"64KiB", true, 65536},     {"1MiB", true, 1048576},
        {"2GiB", true, 1ull << 31}, {"infinity", true, UINT64_MAX},
        {"64KB", false, 0},         {"64k", false, 0},
        {"KiB", false, 0},          {"9999999999999TiB", false, 0},
    };
    check(wr_value_size, cases, WR_COUNT_OF(cases));
}

Test(values, percentages)
{
    static const struct number_case cases[] = {
        {"20%", true, 20},  {"0", true, 0},  {"100%", true, 100},
        {"101%", false, 0}, {"%", false, 0}, {"20%%", false, 0},
    };
    check(wr_value_percent, cases, WR_COUNT_OF(cases));
}

Test(values, booleans)
{
    bool value = false;
    cr_expect(wr_value_bool(WR_STR("on"), &value) && value);
    cr_expect(wr_value_bool(WR_STR("false"), &value) && !value);
    cr_expect(!wr_value_bool(WR_STR("maybe"), &value));
    cr_expect(!wr_value_bool(WR_STR("TRUE"), &value));
}

Test(values, distance)
{
    cr_expect_eq(wr_value_distance(WR_STR("listners"), WR_STR("listeners"), 4), 1);
    cr_expect_eq(wr_value_distance(WR_STR("bind"), WR_STR("bind"), 4), 0);
    cr_expect_eq(wr_value_distance(WR_STR(""), WR_STR("abc"), 9), 3);
    cr_expect_eq(wr_value_distance(WR_STR("kitten"), WR_STR("sitting"), 9), 3);
    cr_expect_eq(wr_value_distance(WR_STR("abcdef"), WR_STR("uvwxyz"), 4), 4);
}
