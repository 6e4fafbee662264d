#include "config/values.h"

#include <stdio.h>

#include "base/compiler.h"
#include "base/time.h"

struct unit {
    struct wr_str suffix;
    uint64_t factor;
};

static const struct unit duration_units[] = {
    {{"us", 2}, WR_USEC},    {{"ms", 2}, WR_MSEC},         {{"s", 1}, WR_SEC},
    {{"m", 1}, 60 * WR_SEC}, {{"h", 1}, 60 * 60 * WR_SEC}, {{"d", 1}, 24 * 60 * 60 * WR_SEC},
};

static const struct unit size_units[] = {
    {{"B", 1}, 1},
    {{"KiB", 3}, UINT64_C(1) << 10},
    {{"MiB", 3}, UINT64_C(1) << 20},
    {{"GiB", 3}, UINT64_C(1) << 30},
    {{"TiB", 3}, UINT64_C(1) << 40},
};

static bool is_infinity(struct wr_str text)
{
    return wr_str_eq(text, WR_STR("infinity"));
}

/* A whole number with one of UNITS behind it. */
static bool with_unit(struct wr_str text, const struct unit *units, size_t count, uint64_t *out)
{
    size_t digits = 0;
    uint64_t number;

    while (digits < text.n && text.p[digits] >= '0' && text.p[digits] <= '9')
        digits++;
    if (!wr_str_parse_u63(wr_str(text.p, digits), &number))
        return false;
    struct wr_str suffix = wr_str(text.p + digits, text.n - digits);
    for (size_t i = 0; i < count; i++) {
        if (!wr_str_eq(suffix, units[i].suffix))
            continue;
        if (number > (UINT64_MAX >> 1) / units[i].factor)
            return false;
        *out = number * units[i].factor;
        return true;
    }
    return false;
}

bool wr_value_duration(struct wr_str text, uint64_t *usec)
{
    if (is_infinity(text)) {
        *usec = WR_NEVER;
        return true;
    }
    if (wr_str_eq(text, WR_STR("0"))) {
        *usec = 0;
        return true;
    }
    return with_unit(text, duration_units, WR_COUNT_OF(duration_units), usec);
}

bool wr_value_size(struct wr_str text, uint64_t *bytes)
{
    return wr_value_count(text, bytes) ||
           with_unit(text, size_units, WR_COUNT_OF(size_units), bytes);
}

bool wr_value_count(struct wr_str text, uint64_t *count)
{
    if (is_infinity(text)) {
        *count = UINT64_MAX;
        return true;
    }
    return wr_str_parse_u63(text, count);
}

bool wr_value_percent(struct wr_str text, uint64_t *percent)
{
    if (wr_str_ends(text, WR_STR("%")))
        text.n--;
    return wr_str_parse_u63(text, percent) && *percent <= 100;
}

static void text_with_unit(uint64_t value, const struct unit *units, size_t count,
                           char out[WR_VALUE_TEXT])
{
    size_t best = 0;
    for (size_t i = 1; i < count; i++)
        if (value > 0 && value % units[i].factor == 0)
            best = i;
    (void)snprintf(out, WR_VALUE_TEXT, "%llu%s", (unsigned long long)(value / units[best].factor),
                   units[best].suffix.p);
}

void wr_value_duration_text(uint64_t usec, char out[WR_VALUE_TEXT])
{
    if (usec == 0 || usec == WR_NEVER)
        wr_value_count_text(usec, out);
    else
        text_with_unit(usec, duration_units, WR_COUNT_OF(duration_units), out);
}

void wr_value_size_text(uint64_t bytes, char out[WR_VALUE_TEXT])
{
    if (bytes % 1024 != 0 || bytes == 0 || bytes == UINT64_MAX)
        wr_value_count_text(bytes, out);
    else
        text_with_unit(bytes, size_units, WR_COUNT_OF(size_units), out);
}

void wr_value_count_text(uint64_t count, char out[WR_VALUE_TEXT])
{
    if (count == UINT64_MAX)
        (void)snprintf(out, WR_VALUE_TEXT, "infinity");
    else
        (void)snprintf(out, WR_VALUE_TEXT, "%llu", (unsigned long long)count);
}

void wr_value_percent_text(uint64_t percent, char out[WR_VALUE_TEXT])
{
    (void)snprintf(out, WR_VALUE_TEXT, "%llu%%", (unsigned long long)percent);
}

bool wr_value_bool(struct wr_str text, bool *value)
{
    static const struct wr_str yes[] = {{"true", 4}, {"on", 2}, {"yes", 3}};
    static const struct wr_str no[] = {{"false", 5}, {"off", 3}, {"no", 2}};

    for (size_t i = 0; i < WR_COUNT_OF(yes); i++) {
        if (wr_str_eq(text, yes[i]) || wr_str_eq(text, no[i])) {
            *value = wr_str_eq(text, yes[i]);
            return true;
        }
    }
    return false;
}

#define DISTANCE_WORD 48

static unsigned least(unsigned a, unsigned b, unsigned c)
{
    unsigned m = a < b ? a : b;
    return m < c ? m : c;
}

unsigned wr_value_distance(struct wr_str a, struct wr_str b, unsigned limit)
{
    unsigned row[DISTANCE_WORD + 1];

    if (a.n > DISTANCE_WORD || b.n > DISTANCE_WORD)
        return limit;
    for (unsigned j = 0; j <= b.n; j++)
        row[j] = j;
    for (unsigned i = 1; i <= a.n; i++) {
        unsigned diagonal = row[0];
        row[0] = i;
        for (unsigned j = 1; j <= b.n; j++) {
            unsigned above = row[j];
            unsigned replace = diagonal + (a.p[i - 1] == b.p[j - 1] ? 0 : 1);
            row[j] = least(above + 1, row[j - 1] + 1, replace);
            diagonal = above;
        }
    }
    return row[b.n] < limit ? row[b.n] : limit;
}
