#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "http/fields.h"

#define WR_FIELD_H 1
#define WR_FIELD_T 2

static const struct {
    enum wr_field_id id;
    const char *text;
    int flags;
} rows[] = {
#define FIELD(name, text, flags) {WR_FIELD_##name, text, flags},
#include "http/fields.def"
#undef FIELD
};

Test(fields, every_row_is_found_by_its_name_and_named_by_its_id)
{
    for (size_t i = 0; i < WR_COUNT_OF(rows); i++) {
        struct wr_str name = wr_str_from(rows[i].text);
        cr_expect_eq(wr_field_lookup(name), rows[i].id, "%s is not found", rows[i].text);
        cr_expect(wr_str_eq(wr_field_name(rows[i].id), name));
        cr_expect_eq(wr_field_is_hop_by_hop(rows[i].id), (rows[i].flags & WR_FIELD_H) != 0);
        struct wr_field field = {.name = name, .id = rows[i].id};
        cr_expect_eq(wr_field_may_trail(&field), (rows[i].flags & WR_FIELD_T) == 0);
    }
}

Test(fields, nothing_that_says_who_the_client_is_may_trail)
{
    struct wr_field port = {.name = WR_STR("x-forwarded-port"), .id = WR_FIELD_OTHER};
    struct wr_field other = {.name = WR_STR("x-forwarded"), .id = WR_FIELD_OTHER};
    cr_expect_not(wr_field_may_trail(&port));
    cr_expect(wr_field_may_trail(&other));
}

Test(fields, any_other_name_is_other)
{
    static const char *const others[] = {"",
                                         "x",
                                         "HOST",
                                         "hos",
                                         "hostt",
                                         "content-lengtg",
                                         "bontent-length",
                                         "proxy-authorizatiom",
                                         "a-name-that-is-longer-than-all-known-ones"};
    for (size_t i = 0; i < WR_COUNT_OF(others); i++)
        cr_expect_eq(wr_field_lookup(wr_str_from(others[i])), WR_FIELD_OTHER, "%s", others[i]);
    for (size_t i = 0; i < WR_COUNT_OF(rows); i++) {
        char changed[32];
        size_t n = strlen(rows[i].text);
        memcpy(changed, rows[i].text, n);
        for (size_t k = 0; k < n; k++) {
            changed[k] = (char)(changed[k] ^ 0x01);
            cr_expect_eq(wr_field_lookup(wr_str(changed, n)), WR_FIELD_OTHER);
            changed[k] = rows[i].text[k];
        }
    }
}

Test(fields, order_and_duplicates_are_kept_through_growth)
{
    struct wr_arena arena;
    struct wr_fields fields;
    wr_arena_init(&arena);
    wr_fields_init(&fields);
    for (int i = 0; i < 200; i++)
        wr_fields_add(&fields, &arena, WR_STR("x-same"), wr_arena_printf(&arena, "%d", i));
    uint32_t at = 0;
    const struct wr_field *field;
    int seen = 0;
    for (; (field = wr_fields_next(&fields, &at)) != NULL; seen++) {
        char text[8];
        int n = snprintf(text, sizeof(text), "%d", seen);
        cr_assert(wr_str_eq(field->value, wr_str(text, (size_t)n)));
    }
    cr_assert_eq(seen, 200);
    wr_arena_free(&arena);
}

Test(fields, removed_fields_are_skipped_by_all)
{
    struct wr_arena arena;
    struct wr_fields fields;
    wr_arena_init(&arena);
    wr_fields_init(&fields);
    wr_fields_add(&fields, &arena, WR_STR("via"), WR_STR("1"));
    wr_fields_add_known(&fields, &arena, WR_FIELD_VIA, WR_STR("2"));
    wr_fields_add(&fields, &arena, WR_STR("x-a"), WR_STR("3"));
    wr_fields_add(&fields, &arena, WR_STR("x-a"), WR_STR("4"));
    wr_fields_add(&fields, &arena, WR_STR("date"), WR_STR("5"));

    cr_assert(wr_str_eq(wr_fields_find(&fields, WR_FIELD_VIA)->value, WR_STR("1")));
    wr_field_drop(wr_fields_find(&fields, WR_FIELD_VIA));
    cr_assert(wr_str_eq(wr_fields_find(&fields, WR_FIELD_VIA)->value, WR_STR("2")));
    cr_assert_eq(wr_fields_remove(&fields, WR_FIELD_VIA), 1);
    cr_assert_eq(wr_fields_remove(&fields, WR_FIELD_VIA), 0);
    cr_assert_null(wr_fields_find(&fields, WR_FIELD_VIA));

    cr_assert(wr_str_eq(wr_fields_find_name(&fields, WR_STR("x-a"))->value, WR_STR("3")));
    cr_assert_eq(wr_fields_remove_name(&fields, WR_STR("x-a")), 2);
    cr_assert_null(wr_fields_find_name(&fields, WR_STR("x-a")));
    cr_assert_null(wr_fields_find_name(&fields, WR_STR_EMPTY), "a dropped field has no name");

    uint32_t at = 0;
    cr_assert_eq(wr_fields_next(&fields, &at)->id, WR_FIELD_DATE);
    cr_assert_null(wr_fields_next(&fields, &at));
    wr_arena_free(&arena);
}
