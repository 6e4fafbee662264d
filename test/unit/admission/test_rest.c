/* While nobody is pending the controller has no turns, and still time passes. */
#include <criterion/criterion.h>

#include "support/admission_rig.h"

static struct admission_rig rig;

Test(rest, ends_the_delay)
{
    struct wr_admission_options options = controller_options(WR_ADMISSION_NO_LIMIT);
    options.max_delay = 50 * WR_MSEC;
    controller_start(&rig, &options);
    controller_queue(&rig, 0, 4, WR_CLASS_FULL);
    rig.now += 51 * WR_MSEC;
    (void)controller_run(&rig);
    cr_assert(controller_gauges(&rig).delayed);
    for (unsigned i = 0; i < 4; i++)
        controller_leave(&rig, i, WR_HANDSHAKE_DONE, false, 0);
    rig.now += 99 * WR_MSEC;
    cr_assert(controller_gauges(&rig).delayed);
    rig.now += 3600 * WR_SEC;
    unsigned before = rig.refusals;
    controller_queue(&rig, 10, 60, WR_CLASS_FULL);
    cr_assert_eq(rig.refusals, before, "a burst, an hour later");
    cr_assert_not(controller_gauges(&rig).delayed);
    controller_stop(&rig);
}
