#include "base/err.h"

static const struct wr_err_info infos[] = {
#define ERR(name, side, http_status, h2_code, retry, label, proxy_status, text) \
    [WR_ERR_##name] = {WR_SIDE_##side, http_status,  h2_code, WR_RETRY_##retry, \
                       label,          proxy_status, text},
#include "base/err.def"
#undef ERR
};

const struct wr_err_info *wr_err_info(enum wr_err err)
{
    if ((unsigned)err >= WR_ERR__COUNT)
        return &infos[WR_ERR_INTERNAL];
    return &infos[err];
}
