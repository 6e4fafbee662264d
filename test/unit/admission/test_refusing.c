/* What refusing may cost. */
#include <criterion/criterion.h>

#include "admission/refusing.h"
#include "base/time.h"

/* Refuses COUNT times in TURN, each EACH microseconds after the one before, *NOW going on. The rest that the last one asks for, 0: none. */
static uint64_t refuse(struct wr_refusing *refusing, uint64_t turn, unsigned count, uint64_t each,
                       uint64_t *now)
{
    uint64_t rest = 0;
    for (unsigned i = 0; i < count; i++) {
        *now += each;
        if (!wr_refusing_note(refusing, turn, *now, &rest))
            rest = 0;
    }
    return rest;
}

Test(refusing, rests_until_its_share_is_paid)
{
    struct wr_refusing refusing;
    uint64_t now = WR_SEC;
    wr_refusing_init(&refusing, 10);
    cr_assert_eq(refuse(&refusing, 1, 4, 12, &now), 0, "four are saved up");
    uint64_t rest = refuse(&refusing, 1, 1, 12, &now);
    cr_assert_geq(rest, 4 * 110, "what was spent beyond, and to save four up anew, ten times");
    cr_assert_leq(rest, 5 * 120);
    now += rest - 12;
    cr_assert_eq(refuse(&refusing, 2, 4, 12, &now), 0);
    cr_assert_gt(refuse(&refusing, 2, 1, 12, &now), 0);
}

Test(refusing, has_its_share_of_the_time_whatever_a_turn_holds)
{
    for (unsigned in_a_turn = 1; in_a_turn <= 64; in_a_turn *= 4) {
        struct wr_refusing refusing;
        uint64_t now = WR_SEC;
        uint64_t refused = 0;
        wr_refusing_init(&refusing, 3);
        for (uint64_t turn = 0; now < 6 * WR_SEC; turn++) {
            uint64_t rest = refuse(&refusing, turn, in_a_turn, 10, &now);
            refused += in_a_turn;
            now += rest > 0 ? rest : 500;
        }
        cr_assert_leq(refused * 10, 5 * WR_SEC * 4 / 100, "%u a turn: %lu", in_a_turn,
                      (unsigned long)refused);
        cr_assert_geq(refused * 10, 5 * WR_SEC * 15 / 1000, "%u a turn: %lu", in_a_turn,
                      (unsigned long)refused);
    }
}

Test(refusing, learns_what_one_costs)
{
    struct wr_refusing refusing;
    uint64_t now = WR_SEC;
    wr_refusing_init(&refusing, 50);
    (void)refuse(&refusing, 1, 200, 40, &now);
    cr_assert_geq(refusing.cost, 38 * 100);
    cr_assert_leq(refusing.cost, 40 * 100);
    (void)refuse(&refusing, 1, 200, 5, &now);
    cr_assert_leq(refusing.cost, 6 * 100);
    for (uint64_t turn = 2; turn < 200; turn++)
        (void)refuse(&refusing, turn, 1, 5000, &now);
    cr_assert_leq(refusing.cost, 6 * 100, "what lies between turns is no refusal");
    (void)refuse(&refusing, 200, 1, 0, &now);
    (void)refuse(&refusing, 200, 1, WR_SEC, &now);
    cr_assert_leq(refusing.cost, 8 * 100, "nor is what takes so long");
}

Test(refusing, never_rests_for_long)
{
    struct wr_refusing refusing;
    uint64_t now = WR_SEC;
    wr_refusing_init(&refusing, 1);
    uint64_t rest = refuse(&refusing, 1, 100000, 12, &now);
    cr_assert_geq(rest, 50 * WR_MSEC);
    cr_assert_leq(rest, 60 * WR_MSEC);
}

Test(refusing, whatever_the_clock_does)
{
    struct wr_refusing refusing;
    uint64_t rest = 0;
    static const uint64_t times[] = {0, UINT64_MAX, 0, 1, UINT64_MAX - 1, 17, 17, WR_SEC, 3};
    wr_refusing_init(&refusing, 99);
    for (unsigned i = 0; i < 10000; i++) {
        if (wr_refusing_note(&refusing, i / 5, times[i % 9], &rest))
            cr_assert_leq(rest, 60 * WR_MSEC);
    }
}

Test(refusing, all_the_time_is_no_limit)
{
    struct wr_refusing refusing;
    uint64_t now = WR_SEC;
    wr_refusing_init(&refusing, 100);
    cr_assert_eq(refuse(&refusing, 1, 1000, 10, &now), 0);
    wr_refusing_init(&refusing, 0);
    cr_assert_gt(refuse(&refusing, 1, 100, 10, &now), 0, "none at all would be no way to refuse");
}
