#include "proxy/request_id.h"

#include <errno.h>
#include <sys/random.h>

#include "base/assert.h"

static void refill(struct wr_request_ids *ids)
{
    size_t got = 0;
    while (got < sizeof(ids->bytes)) {
        ssize_t n = getrandom(ids->bytes + got, sizeof(ids->bytes) - got, 0);
        WR_ASSERT(n >= 0 || errno == EINTR);
        if (n > 0)
            got += (size_t)n;
    }
    ids->left = sizeof(ids->bytes);
}

struct wr_str wr_request_id_new(struct wr_request_ids *ids, struct wr_arena *arena)
{
    static const char digits[] = "0123456789abcdef";
    if (ids->left == 0)
        refill(ids);
    const uint8_t *from = ids->bytes + sizeof(ids->bytes) - ids->left;
    ids->left -= WR_REQUEST_ID_BYTES;

    char *text = wr_arena_alloc(arena, 2 * WR_REQUEST_ID_BYTES);
    for (size_t i = 0; i < WR_REQUEST_ID_BYTES; i++) {
        text[2 * i] = digits[from[i] >> 4];
        text[2 * i + 1] = digits[from[i] & 15];
    }
    return wr_str(text, 2 * WR_REQUEST_ID_BYTES);
}

bool wr_request_id_is_sane(struct wr_str id)
{
    return id.n <= 128 && wr_is_token(id);
}
