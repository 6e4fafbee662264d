/* What contexts of both sides share: versions, ciphers, groups, files, error texts. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/pem.h>

#include "base/mem.h"
#include "transport/tls_compat.h"
#include "transport/tls_internal.h"

/* TLS 1.2: forward secrecy and AEAD only. Within brackets the peer's preference decides: all are strong, and a client without
 * AES in hardware puts ChaCha20 first. The suites of TLS 1.3 are the library's. */
#define CIPHERS                                                                                    \
    "[ECDHE-ECDSA-AES128-GCM-SHA256|ECDHE-ECDSA-AES256-GCM-SHA384|ECDHE-ECDSA-CHACHA20-POLY1305]:" \
    "[ECDHE-RSA-AES128-GCM-SHA256|ECDHE-RSA-AES256-GCM-SHA384|ECDHE-RSA-CHACHA20-POLY1305]"

SSL_CTX *wr_tls_context_new(enum wr_tls_version min_version, enum wr_tls_version max_version)
{
    SSL_CTX *context = SSL_CTX_new(TLS_method());
    if (context == NULL)
        return NULL;
    if (!SSL_CTX_set_min_proto_version(context, (uint16_t)min_version) ||
        !SSL_CTX_set_max_proto_version(context, (uint16_t)max_version) ||
        !SSL_CTX_set_strict_cipher_list(context, CIPHERS) ||
        !SSL_CTX_set1_curves_list(context, wr_tls_groups)) {
        SSL_CTX_free(context);
        return NULL;
    }
    SSL_CTX_set_options(context, SSL_OP_CIPHER_SERVER_PREFERENCE);
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_early_data_enabled(context, 0);
    return context;
}

const char *wr_tls_take_reason(void)
{
    uint32_t packed = ERR_peek_error();
    ERR_clear_error();
    if (packed == 0)
        return "";
    int reason = ERR_GET_REASON(packed);
    if (ERR_GET_LIB(packed) == ERR_LIB_SSL && reason >= SSL_AD_REASON_OFFSET)
        return SSL_alert_desc_string_long(reason - SSL_AD_REASON_OFFSET);
    const char *text = ERR_reason_error_string(packed);
    return text != NULL ? text : "";
}

void wr_tls_describe(const char *path, char error[WR_TLS_ERROR_TEXT])
{
    uint32_t packed = ERR_peek_error();
    const char *reason = wr_tls_take_reason();
    if (ERR_GET_LIB(packed) == ERR_LIB_PEM || strstr(reason, "NO_CERTIFICATE") != NULL)
        (void)snprintf(error, WR_TLS_ERROR_TEXT, "%s: %s", path,
                       ERR_GET_REASON(packed) == PEM_R_BAD_PASSWORD_READ
                           ? "is encrypted, expected a private key without a password"
                           : "nothing fitting in it, expected PEM: -----BEGIN ...");
    else
        (void)snprintf(error, WR_TLS_ERROR_TEXT, "%s: %s", path,
                       *reason != '\0' ? reason : "not usable");
}

enum wr_err wr_tls_context_use(SSL_CTX *context, const char *chain_path, const char *key_path,
                               char error[WR_TLS_ERROR_TEXT])
{
    ERR_clear_error();
    if (!SSL_CTX_use_certificate_chain_file(context, chain_path)) {
        wr_tls_describe(chain_path, error);
        return WR_ERR_INVALID;
    }
    if (SSL_CTX_use_PrivateKey_file(context, key_path, SSL_FILETYPE_PEM) &&
        SSL_CTX_check_private_key(context))
        return WR_OK;
    uint32_t packed = ERR_peek_error();
    if (ERR_GET_LIB(packed) == ERR_LIB_X509 || packed == 0) {
        ERR_clear_error();
        (void)snprintf(error, WR_TLS_ERROR_TEXT, "%s: not the key of the certificate in %s",
                       key_path, chain_path);
    } else {
        wr_tls_describe(key_path, error);
    }
    return WR_ERR_INVALID;
}

enum wr_err wr_tls_alpn_encode(const char *const *alpn, size_t count, char error[WR_TLS_ERROR_TEXT],
                               uint8_t **out, size_t *length)
{
    *out = NULL;
    *length = 0;
    size_t total = 0;
    for (size_t i = 0; i < count; i++) {
        size_t n = strlen(alpn[i]);
        if (n == 0 || n > UINT8_MAX || total + 1 + n > UINT16_MAX) {
            (void)snprintf(error, WR_TLS_ERROR_TEXT, "ALPN name %zu: must have 1 to 255 bytes",
                           i + 1);
            return WR_ERR_INVALID;
        }
        total += 1 + n;
    }
    if (total == 0)
        return WR_OK;
    uint8_t *at = wr_new_bytes(total);
    *out = at;
    *length = total;
    for (size_t i = 0; i < count; i++) {
        size_t n = strlen(alpn[i]);
        *at++ = (uint8_t)n;
        memcpy(at, alpn[i], n);
        at += n;
    }
    return WR_OK;
}

bool wr_tls_is_ip_literal(const char *name)
{
    unsigned char bytes[sizeof(struct in6_addr)];
    return inet_pton(AF_INET, name, bytes) == 1 || inet_pton(AF_INET6, name, bytes) == 1;
}
