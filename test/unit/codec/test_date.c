#include <criterion/criterion.h>

#include "base/time.h"
#include "codec/date.h"

static void check(uint64_t seconds, const char *expected)
{
    struct wr_str text = wr_date_text(seconds * WR_SEC + 999999);
    cr_assert_eq(text.n, 29);
    cr_assert_arr_eq(text.p, expected, 29);
}

Test(date, is_an_imf_fixdate)
{
    check(0, "Thu, 01 Jan 1970 00:00:00 GMT");
    check(784111777, "Sun, 06 Nov 1994 08:49:37 GMT");
    check(784111777, "Sun, 06 Nov 1994 08:49:37 GMT");
    check(951827696, "Tue, 29 Feb 2000 12:34:56 GMT");
    check(4102444799, "Thu, 31 Dec 2099 23:59:59 GMT");
    check(0, "Thu, 01 Jan 1970 00:00:00 GMT");
}
