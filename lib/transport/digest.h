/* The little of cryptography that is not TLS: what the opening handshake of WebSocket (RFC 6455 section 4) is made of. */
#ifndef WR_TRANSPORT_DIGEST_H
#define WR_TRANSPORT_DIGEST_H

#include <stddef.h>

#include "base/str.h"

#define WR_SHA1_BYTES 20
/* Characters of N bytes in base64 (RFC 4648 section 4), padding too, without an end. */
#define WR_BASE64_LENGTH(n) (((n) + 2) / 3 * 4)

void wr_digest_sha1(struct wr_str data, unsigned char out[WR_SHA1_BYTES]);
/* OUT has room for WR_BASE64_LENGTH(N) + 1; terminated. */
void wr_digest_base64(const void *p, size_t n, char *out);

#endif
