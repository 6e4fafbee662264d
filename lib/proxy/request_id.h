/* Identifiers of requests: 128 random bits in hexadecimal. They tell requests apart and are no secret. */
#ifndef WR_PROXY_REQUEST_ID_H
#define WR_PROXY_REQUEST_ID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/str.h"

#define WR_REQUEST_ID_BYTES 16

/* Random bytes are asked of the kernel for many identifiers at once. All zero is a valid start. */
struct wr_request_ids {
    uint8_t bytes[WR_REQUEST_ID_BYTES * 64];
    size_t left; /* bytes not yet used, at the end */
};

struct wr_str wr_request_id_new(struct wr_request_ids *ids, struct wr_arena *arena);
/* One that another proxy has given may be kept: a token of at most 128 bytes. */
bool wr_request_id_is_sane(struct wr_str id);

#endif
