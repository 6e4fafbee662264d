/* Every way a thing can fail, once: err.def is the table, this is how to ask it. */
#ifndef WR_BASE_ERR_H
#define WR_BASE_ERR_H

#include <stdbool.h>
#include <stdint.h>

enum wr_err {
#define ERR(name, side, http_status, h2_code, retry, label, proxy_status, text) WR_ERR_##name,
#include "base/err.def"
#undef ERR
    WR_ERR__COUNT
};

#define WR_OK WR_ERR_OK

enum wr_err_side { WR_SIDE_OURS, WR_SIDE_CLIENT, WR_SIDE_UPSTREAM };

enum wr_err_retry { WR_RETRY_NEVER, WR_RETRY_UNSENT, WR_RETRY_IDEMPOTENT };

struct wr_err_info {
    enum wr_err_side side;
    uint16_t http_status;     /* 0: nothing can be said, close */
    uint32_t h2_code;         /* RFC 9113 section 7 */
    enum wr_err_retry retry;  /* see err.def */
    const char *label;        /* metrics and access log */
    const char *proxy_status; /* RFC 9209 section 2.3 error type, or "" */
    const char *text;         /* for people */
};

/* The row of ERR; never NULL, whatever the value. */
const struct wr_err_info *wr_err_info(enum wr_err err);

static inline const char *wr_err_text(enum wr_err err)
{
    return wr_err_info(err)->text;
}

#endif
