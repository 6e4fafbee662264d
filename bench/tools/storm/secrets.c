#include "storm/secrets.h"

#include <string.h>

#define BLOCK 64

void hash_of(const SHA256_CTX *transcript, uint8_t out[SECRET])
{
    SHA256_CTX copy = *transcript;
    SHA256_Final(out, &copy);
}

void hmac(const uint8_t key[SECRET], const uint8_t *data, size_t length, uint8_t out[SECRET])
{
    uint8_t inner[BLOCK];
    uint8_t outer[BLOCK];
    SHA256_CTX hash;

    memset(inner, 0x36, BLOCK);
    memset(outer, 0x5c, BLOCK);
    for (size_t i = 0; i < SECRET; i++) {
        inner[i] ^= key[i];
        outer[i] ^= key[i];
    }
    SHA256_Init(&hash);
    SHA256_Update(&hash, inner, BLOCK);
    SHA256_Update(&hash, data, length);
    SHA256_Final(out, &hash);
    SHA256_Init(&hash);
    SHA256_Update(&hash, outer, BLOCK);
    SHA256_Update(&hash, out, SECRET);
    SHA256_Final(out, &hash);
}

void extract(const uint8_t salt[SECRET], const uint8_t *data, uint8_t out[SECRET])
{
    static const uint8_t zeros[SECRET];
    hmac(salt, data ? data : zeros, SECRET, out);
}

void expand(const uint8_t secret[SECRET], const char *label, const uint8_t *context, uint8_t *out,
            size_t length)
{
    uint8_t info[128] = {0, (uint8_t)length};
    uint8_t block[SECRET];
    size_t named = strlen(label);
    size_t n = 2;

    info[n++] = (uint8_t)(6 + named);
    memcpy(info + n, "tls13 ", 6);
    memcpy(info + n + 6, label, named);
    n += 6 + named;
    info[n++] = context ? SECRET : 0;
    if (context) {
        memcpy(info + n, context, SECRET);
        n += SECRET;
    }
    info[n++] = 1; /* the first block of HKDF-Expand, and there is no second one */
    hmac(secret, info, n, block);
    memcpy(out, block, length);
}

void derive_empty(const uint8_t secret[SECRET], const char *label, uint8_t out[SECRET])
{
    uint8_t nothing[SECRET];

    SHA256((const uint8_t *)"", 0, nothing);
    expand(secret, label, nothing, out, SECRET);
}

void keys_start(struct keys *keys, const uint8_t secret[SECRET])
{
    uint8_t key[16];

    expand(secret, "key", NULL, key, sizeof(key));
    expand(secret, "iv", NULL, keys->iv, sizeof(keys->iv));
    keys->sequence = 0;
    (void)EVP_AEAD_CTX_init(&keys->aead, EVP_aead_aes_128_gcm(), key, sizeof(key), 16, NULL);
}

void keys_nonce(struct keys *keys, uint8_t nonce[12])
{
    uint64_t sequence = keys->sequence++;

    memcpy(nonce, keys->iv, 12);
    for (int i = 0; i < 8; i++)
        nonce[11 - i] ^= (uint8_t)(sequence >> (8 * i));
}
