#include <criterion/criterion.h>

#include <ctype.h>
#include <string.h>

#include "base/err.h"

static bool is_label(const char *text)
{
    if (*text == '\0')
        return false;
    for (; *text != '\0'; text++) {
        if (!islower((unsigned char)*text) && !isdigit((unsigned char)*text) && *text != '_')
            return false;
    }
    return true;
}

Test(err, every_row_can_be_told)
{
    for (int i = 0; i < WR_ERR__COUNT; i++) {
        const struct wr_err_info *info = wr_err_info((enum wr_err)i);
        cr_assert(is_label(info->label), "row %d: label '%s'", i, info->label);
        cr_assert(info->text[0] != '\0', "row %d has no text", i);
        cr_assert(info->http_status == 0 || (info->http_status >= 400 && info->http_status < 600),
                  "%s: status %u", info->label, info->http_status);
        cr_assert(info->h2_code <= 0xd, "%s: HTTP/2 code %u", info->label, info->h2_code);
        cr_assert(info->proxy_status[0] == '\0' || is_label(info->proxy_status),
                  "%s: Proxy-Status '%s'", info->label, info->proxy_status);
    }
}

Test(err, labels_are_unique)
{
    for (int i = 0; i < WR_ERR__COUNT; i++) {
        for (int j = 0; j < i; j++)
            cr_assert_str_neq(wr_err_info((enum wr_err)i)->label,
                              wr_err_info((enum wr_err)j)->label);
    }
}

Test(err, an_upstream_failure_is_a_gateway_status)
{
    for (int i = 0; i < WR_ERR__COUNT; i++) {
        const struct wr_err_info *info = wr_err_info((enum wr_err)i);
        if (info->side == WR_SIDE_UPSTREAM)
            cr_assert(info->http_status >= 502 && info->http_status <= 504, "%s", info->label);
    }
}

Test(err, a_value_that_is_no_row_is_an_internal_error)
{
    cr_assert_eq(wr_err_info(WR_ERR__COUNT), wr_err_info(WR_ERR_INTERNAL));
    cr_assert_eq(wr_err_info((enum wr_err) - 1), wr_err_info(WR_ERR_INTERNAL));
    cr_assert_str_eq(wr_err_text(WR_OK), "no error");
}
