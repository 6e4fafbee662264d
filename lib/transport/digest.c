#include "transport/digest.h"

#include <openssl/base64.h>
#include <openssl/sha.h>

void wr_digest_sha1(struct wr_str data, unsigned char out[WR_SHA1_BYTES])
{
    (void)SHA1((const uint8_t *)data.p, data.n, out);
}

void wr_digest_base64(const void *p, size_t n, char *out)
{
    (void)EVP_EncodeBlock((uint8_t *)out, p, n);
}
