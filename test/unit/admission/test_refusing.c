/* What refusing may cost. */
#include <criterion/criterion.h>

#include "admission/refusing.h"

Test(refusing, rests_until_its_share_is_paid)
{
    struct wr_refusing refusing;
    uint64_t rest = 0;

    wr_refusing_init(&refusing, 5);
    for (uint64_t i = 0; i < 7; i++)
        cr_assert_not(wr_refusing_note(&refusing, 1, 1000 + 10 * i, &rest));
    cr_assert(wr_refusing_note(&refusing, 1, 1070, &rest));
    cr_assert_eq(rest, 70 * 19, "70 of 1400 microseconds are 5 per cent");
    cr_assert_not(wr_refusing_note(&refusing, 1, 1080, &rest), "counted anew");
}

Test(refusing, what_another_turn_spent_is_not_counted)
{
    struct wr_refusing refusing;
    uint64_t rest = 0;

    wr_refusing_init(&refusing, 50);
    for (uint64_t i = 0; i < 7; i++)
        cr_assert_not(wr_refusing_note(&refusing, 1, 5000 + i, &rest));
    for (uint64_t i = 0; i < 7; i++)
        cr_assert_not(wr_refusing_note(&refusing, 2, 100 + i, &rest));
    cr_assert(wr_refusing_note(&refusing, 2, 107, &rest));
    cr_assert_eq(rest, 7);
}

Test(refusing, all_the_time_is_no_limit)
{
    struct wr_refusing refusing;
    uint64_t rest = 0;

    wr_refusing_init(&refusing, 100);
    for (uint64_t i = 0; i < 1000; i++)
        cr_assert_not(wr_refusing_note(&refusing, 1, i, &rest));
    wr_refusing_init(&refusing, 0);
    for (uint64_t i = 0; i < 8; i++)
        (void)wr_refusing_note(&refusing, 1, i, &rest);
    cr_assert_eq(rest, 7 * 99, "none at all would be no way to refuse");
}
