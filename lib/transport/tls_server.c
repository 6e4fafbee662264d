/* TLS settings of a listener: a context a certificate, chosen by server name. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/sha.h>
#include <openssl/x509v3.h>

#include "base/mem.h"
#include "transport/tls_internal.h"

struct certificate {
    SSL_CTX *context;
    EVP_PKEY *key; /* a reference; the context's data, since it signs by our method */
    char **names;  /* of the leaf: DNS names of the SAN (RFC 9525 section 6) */
    size_t name_count;
};

struct wr_tls_server {
    atomic_size_t references;
    bool tickets;
    uint8_t *alpn; /* wire form, in our order; NULL: none */
    size_t alpn_length;
    size_t certificate_count;
    struct certificate certificates[]; /* the first is the default */
};

/* ---- certificates ---- */

static void add_name(struct certificate *certificate, const uint8_t *p, size_t n)
{
    if (n == 0 || memchr(p, '\0', n) != NULL)
        return;
    char *name = wr_new_bytes(n + 1);
    memcpy(name, p, n);
    name[n] = '\0';
    size_t count = certificate->name_count + 1;
    certificate->names = wr_resize(certificate->names, count * sizeof *certificate->names);
    certificate->names[certificate->name_count] = name;
    certificate->name_count = count;
}

static void read_names(struct certificate *certificate, const X509 *leaf)
{
    GENERAL_NAMES *names = X509_get_ext_d2i(leaf, NID_subject_alt_name, NULL, NULL);
    for (size_t i = 0; i < sk_GENERAL_NAME_num(names); i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
        if (name->type == GEN_DNS)
            add_name(certificate, ASN1_STRING_get0_data(name->d.dNSName),
                     (size_t)ASN1_STRING_length(name->d.dNSName));
    }
    GENERAL_NAMES_free(names);
    ERR_clear_error();
}

/* A session made under one certificate is not resumed under another: a client must not get to a name by way of a ticket. */
static bool bind_sessions(SSL_CTX *context, const X509 *leaf)
{
    uint8_t digest[SHA256_DIGEST_LENGTH];
    unsigned n;
    return X509_digest(leaf, EVP_sha256(), digest, &n) &&
           SSL_CTX_set_session_id_context(context, digest, sizeof digest);
}

/* Every signature comes by way of gate 3, wherever it is made then. */
static void take_key(struct certificate *certificate)
{
    SSL_CTX *context = certificate->context;
    certificate->key = SSL_CTX_get0_privatekey(context);
    EVP_PKEY_up_ref(certificate->key);
    SSL_CTX_set_app_data(context, certificate->key);
    SSL_CTX_set_private_key_method(context, &wr_tls_key_method);
}

EVP_PKEY *wr_tls_server_key(const SSL *ssl)
{
    return SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
}

static int choose_alpn(SSL *ssl, const uint8_t **out, uint8_t *out_length, const uint8_t *offered,
                       unsigned offered_length, void *arg)
{
    const struct wr_tls_server *server = arg;
    (void)ssl;
    for (size_t i = 0; i < server->alpn_length; i += 1U + server->alpn[i]) {
        struct wr_str ours = wr_str((const char *)server->alpn + i + 1, server->alpn[i]);
        for (size_t j = 0; j < offered_length && j + 1 + offered[j] <= offered_length;
             j += 1U + offered[j]) {
            if (wr_str_eq(ours, wr_str((const char *)offered + j + 1, offered[j]))) {
                *out = server->alpn + i + 1;
                *out_length = server->alpn[i];
                return SSL_TLSEXT_ERR_OK;
            }
        }
    }
    return SSL_TLSEXT_ERR_ALERT_FATAL; /* no_application_protocol, RFC 7301 section 3.2 */
}

static enum wr_err load(struct wr_tls_server *server, const struct wr_tls_server_options *options,
                        size_t i, char error[WR_TLS_ERROR_TEXT])
{
    struct certificate *certificate = &server->certificates[i];
    certificate->context = wr_tls_context_new(options->min_version, options->max_version);
    if (certificate->context == NULL) {
        ERR_clear_error();
        (void)snprintf(error, WR_TLS_ERROR_TEXT, "TLS versions or memory do not suffice");
        return WR_ERR_INVALID;
    }
    server->certificate_count = i + 1;
    SSL_CTX *context = certificate->context;
    const char *chain_path = options->certificates[i].chain_path;
    enum wr_err err =
        wr_tls_context_use(context, chain_path, options->certificates[i].key_path, error);
    if (err != WR_OK)
        return err;
    const X509 *leaf = SSL_CTX_get0_certificate(context);
    if (leaf == NULL || !bind_sessions(context, leaf)) {
        wr_tls_describe(chain_path, error);
        return WR_ERR_INVALID;
    }
    read_names(certificate, leaf);
    take_key(certificate);
    SSL_CTX_set_select_certificate_cb(context, wr_tls_on_client_hello);
    if (!options->tickets)
        SSL_CTX_set_options(context, SSL_OP_NO_TICKET);
    if (server->alpn != NULL)
        SSL_CTX_set_alpn_select_cb(context, choose_alpn, server);
    return WR_OK;
}

/* ---- life ---- */

static void server_free(struct wr_tls_server *server)
{
    for (size_t i = 0; i < server->certificate_count; i++) {
        struct certificate *certificate = &server->certificates[i];
        for (size_t j = 0; j < certificate->name_count; j++)
            free(certificate->names[j]);
        free(certificate->names);
        SSL_CTX_free(certificate->context);
        EVP_PKEY_free(certificate->key);
    }
    free(server->alpn);
    free(server);
}

enum wr_err wr_tls_server_new(const struct wr_tls_server_options *options,
                              char error[WR_TLS_ERROR_TEXT], struct wr_tls_server **out)
{
    *out = NULL;
    error[0] = '\0';
    if (options->certificate_count == 0) {
        (void)snprintf(error, WR_TLS_ERROR_TEXT, "no certificate");
        return WR_ERR_INVALID;
    }
    struct wr_tls_server *server =
        wr_new_zero(1, sizeof *server + options->certificate_count * sizeof(struct certificate));
    atomic_init(&server->references, 1);
    server->tickets = options->tickets;
    enum wr_err err = wr_tls_alpn_encode(options->alpn, options->alpn_count, error, &server->alpn,
                                         &server->alpn_length);
    for (size_t i = 0; err == WR_OK && i < options->certificate_count; i++)
        err = load(server, options, i, error);
    if (err != WR_OK) {
        server_free(server);
        return err;
    }
    *out = server;
    return WR_OK;
}

struct wr_tls_server *wr_tls_server_retain(struct wr_tls_server *server)
{
    atomic_fetch_add_explicit(&server->references, 1, memory_order_relaxed);
    return server;
}

void wr_tls_server_release(struct wr_tls_server *server)
{
    if (server != NULL &&
        atomic_fetch_sub_explicit(&server->references, 1, memory_order_acq_rel) == 1)
        server_free(server);
}

SSL *wr_tls_server_ssl(struct wr_tls_server *server)
{
    SSL *ssl = SSL_new(server->certificates[0].context);
    if (ssl == NULL)
        return NULL;
    SSL_set_accept_state(ssl);
    SSL_set_shed_handshake_config(ssl, 1);
    return ssl;
}

/* ---- server names ---- */

/* PATTERN is a name of a certificate: an exact one, or "*." and the rest, where the star is one whole label (RFC 9525
 * section 6.3). */
static bool matches_wildcard(const char *pattern, struct wr_str name)
{
    if (pattern[0] != '*' || pattern[1] != '.')
        return false;
    const char *dot = memchr(name.p, '.', name.n);
    if (dot == NULL || dot == name.p)
        return false;
    size_t label = (size_t)(dot - name.p);
    return wr_str_eq_nocase(wr_str_from(pattern + 1), wr_str(dot, name.n - label));
}

static bool has_name(const struct certificate *certificate, struct wr_str name, bool wildcard)
{
    for (size_t i = 0; i < certificate->name_count; i++) {
        const char *pattern = certificate->names[i];
        if (wildcard ? matches_wildcard(pattern, name)
                     : wr_str_eq_nocase(wr_str_from(pattern), name))
            return true;
    }
    return false;
}

static SSL_CTX *find_context(const struct wr_tls_server *server, struct wr_str name)
{
    for (int wildcard = 0; wildcard < 2; wildcard++) {
        for (size_t i = 0; i < server->certificate_count; i++) {
            if (has_name(&server->certificates[i], name, wildcard))
                return server->certificates[i].context;
        }
    }
    return server->certificates[0].context;
}

bool wr_tls_server_choose(const struct wr_tls_server *server, SSL *ssl)
{
    const char *sni = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
    if (server->certificate_count == 1 || sni == NULL)
        return true;
    struct wr_str name = wr_str_from(sni);
    if (name.n > 0 && name.p[name.n - 1] == '.') /* the root's dot: the same host */
        name.n--;
    return SSL_set_SSL_CTX(ssl, find_context(server, name)) != NULL;
}

bool wr_tls_server_is_rsa(const struct wr_tls_server *server)
{
    for (size_t i = 0; i < server->certificate_count; i++) {
        if (EVP_PKEY_id(server->certificates[i].key) != EVP_PKEY_RSA)
            return false;
    }
    return true;
}

bool wr_tls_server_resumes(const struct wr_tls_server *server)
{
    return server->tickets;
}
