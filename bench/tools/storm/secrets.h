/* The key schedule of TLS 1.3 (RFC 8446 section 7.1) with SHA-256, without an allocation. */
#ifndef BENCH_STORM_SECRETS_H
#define BENCH_STORM_SECRETS_H

#include "storm/tls.h"

void hash_of(const SHA256_CTX *transcript, uint8_t out[SECRET]);
void hmac(const uint8_t key[SECRET], const uint8_t *data, size_t length, uint8_t out[SECRET]);

/* HKDF-Extract; DATA of NULL is a secret of zeros. */
void extract(const uint8_t salt[SECRET], const uint8_t *data, uint8_t out[SECRET]);

/* HKDF-Expand-Label; CONTEXT is a hash or NULL. */
void expand(const uint8_t secret[SECRET], const char *label, const uint8_t *context, uint8_t *out,
            size_t length);

/* Derive-Secret over nothing. */
void derive_empty(const uint8_t secret[SECRET], const char *label, uint8_t out[SECRET]);

void keys_start(struct keys *keys, const uint8_t secret[SECRET]);
void keys_nonce(struct keys *keys, uint8_t nonce[12]); /* of the next record */

#endif
