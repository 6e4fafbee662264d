#include <criterion/criterion.h>

#include <string.h>

#include "base/shed.h"

Test(shed, each_cause_has_a_label_of_its_own)
{
    for (unsigned i = 0; i < WR_SHED__COUNT; i++) {
        const char *label = wr_shed_label((enum wr_shed)i);
        cr_expect_gt(strlen(label), 0);
        cr_expect_gt(strlen(wr_shed_text((enum wr_shed)i)), 0);
        for (unsigned j = 0; j < i; j++)
            cr_expect_str_neq(label, wr_shed_label((enum wr_shed)j));
    }
}
