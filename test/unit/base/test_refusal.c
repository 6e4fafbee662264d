#include <criterion/criterion.h>

#include <signal.h>

#include "base/refusal.h"

Test(refusal, labels_are_unique_and_none_is_empty)
{
    for (int i = 0; i < WR_REFUSAL__COUNT; i++) {
        cr_assert_str_not_empty(wr_refusal_label((enum wr_refusal)i));
        cr_assert_str_not_empty(wr_refusal_text((enum wr_refusal)i));
        for (int j = 0; j < i; j++)
            cr_assert_str_neq(wr_refusal_label((enum wr_refusal)i),
                              wr_refusal_label((enum wr_refusal)j));
    }
}

Test(refusal, causes_have_labels_but_none)
{
    cr_assert_str_eq(wr_refusal_cause_label(WR_CAUSE_NONE), "");
    cr_assert_str_eq(wr_refusal_cause_label(WR_CAUSE_BACKLOG), "backlog");
    cr_assert_str_eq(wr_refusal_cause_label(WR_CAUSE_DELAY), "delay");
    cr_assert_str_eq(wr_refusal_cause_label(WR_CAUSE_SHARE), "share");
}

Test(refusal, no_label_beyond_the_table, .signal = SIGABRT)
{
    (void)wr_refusal_label(WR_REFUSAL__COUNT);
}
