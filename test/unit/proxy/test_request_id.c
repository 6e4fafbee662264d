#include <criterion/criterion.h>

#include <string.h>

#include "proxy/request_id.h"

Test(request_id, all_differ_and_are_hexadecimal)
{
    enum { COUNT = 300 };
    static struct wr_request_ids ids;
    struct wr_arena arena;
    wr_arena_init(&arena);
    struct wr_str made[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        made[i] = wr_request_id_new(&ids, &arena);
        cr_assert_eq(made[i].n, 32);
        for (size_t at = 0; at < made[i].n; at++)
            cr_assert_not_null(memchr("0123456789abcdef", made[i].p[at], 16));
        for (size_t j = 0; j < i; j++)
            cr_assert_not(wr_str_eq(made[i], made[j]));
    }
    wr_arena_free(&arena);
}

Test(request_id, a_given_one_is_kept_when_it_is_a_short_token)
{
    char text[129];
    memset(text, 'a', sizeof(text));
    cr_assert(wr_request_id_is_sane(wr_str(text, 128)));
    cr_assert_not(wr_request_id_is_sane(wr_str(text, 129)));
    cr_assert(wr_request_id_is_sane(WR_STR("7f2c-0.x_y~z")));
    cr_assert_not(wr_request_id_is_sane(WR_STR("")));
    cr_assert_not(wr_request_id_is_sane(WR_STR("a b")));
    cr_assert_not(wr_request_id_is_sane(WR_STR("a\"b")));
    cr_assert_not(wr_request_id_is_sane(WR_STR("a,b")));
}
