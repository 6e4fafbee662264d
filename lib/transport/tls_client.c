/* TLS settings of a cluster: what is trusted, which name must be shown, and the last session for resumption. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include "base/mem.h"
#include "transport/tls_internal.h"

struct wr_tls_client {
    atomic_size_t references;
    SSL_CTX *context;
    char *sni; /* NULL: the address's text is what must be verified */
    bool verify;
    pthread_mutex_t lock; /* of SESSION; once a connection, not a request */
    SSL_SESSION *session; /* the newest one, or NULL */
};

/* ---- sessions ---- */

/* Takes over SESSION. */
static int keep_session(SSL *ssl, SSL_SESSION *session)
{
    struct wr_tls_client *client = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
    pthread_mutex_lock(&client->lock);
    SSL_SESSION *old = client->session;
    client->session = session;
    pthread_mutex_unlock(&client->lock);
    SSL_SESSION_free(old);
    return 1;
}

static void offer_session(struct wr_tls_client *client, SSL *ssl)
{
    pthread_mutex_lock(&client->lock);
    SSL_SESSION *session = client->session;
    if (session != NULL)
        SSL_SESSION_up_ref(session);
    pthread_mutex_unlock(&client->lock);
    if (session == NULL)
        return;
    /* Failure means a full handshake. */
    if (!SSL_set_session(ssl, session))
        ERR_clear_error();
    SSL_SESSION_free(session);
}

/* ---- settings ---- */

/* Where systems keep their bundle of authorities. */
static const char *system_bundle(void)
{
    static const char *const places[] = {
        "/etc/ssl/certs/ca-certificates.crt",
        "/etc/pki/tls/certs/ca-bundle.crt",
        "/etc/ssl/ca-bundle.pem",
        "/etc/ssl/cert.pem",
    };
    for (size_t i = 0; i < WR_COUNT_OF(places); i++) {
        if (access(places[i], R_OK) == 0)
            return places[i];
    }
    return NULL;
}

/* Names count only in the SAN (RFC 9525 section 2). */
static bool require_name(X509_VERIFY_PARAM *param, const char *name)
{
    if (wr_tls_is_ip_literal(name))
        return X509_VERIFY_PARAM_set1_ip_asc(param, name);
    X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS |
                                               X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
    return X509_VERIFY_PARAM_set1_host(param, name, strlen(name));
}

static enum wr_err set_trust(struct wr_tls_client *client,
                             const struct wr_tls_client_options *options,
                             char error[WR_TLS_ERROR_TEXT])
{
    if (!options->verify) {
        SSL_CTX_set_verify(client->context, SSL_VERIFY_NONE, NULL);
        return WR_OK;
    }
    SSL_CTX_set_verify(client->context, SSL_VERIFY_PEER, NULL);
    const char *path = options->ca_path != NULL ? options->ca_path : system_bundle();
    if (path == NULL) {
        (void)snprintf(error, WR_TLS_ERROR_TEXT, "no bundle of authorities found on this system");
        return WR_ERR_INVALID;
    }
    ERR_clear_error();
    if (!SSL_CTX_load_verify_locations(client->context, path, NULL)) {
        wr_tls_describe(path, error);
        return WR_ERR_INVALID;
    }
    if (client->sni != NULL && !require_name(SSL_CTX_get0_param(client->context), client->sni)) {
        wr_tls_describe(client->sni, error);
        return WR_ERR_INVALID;
    }
    return WR_OK;
}

static enum wr_err set_alpn(struct wr_tls_client *client,
                            const struct wr_tls_client_options *options,
                            char error[WR_TLS_ERROR_TEXT])
{
    uint8_t *list;
    size_t length;
    enum wr_err err = wr_tls_alpn_encode(options->alpn, options->alpn_count, error, &list, &length);
    if (err != WR_OK || list == NULL)
        return err;
    /* This one function returns 0 for success. */
    int failed = SSL_CTX_set_alpn_protos(client->context, list, (unsigned)length);
    free(list);
    return failed ? WR_ERR_NO_MEMORY : WR_OK;
}

static enum wr_err configure(struct wr_tls_client *client,
                             const struct wr_tls_client_options *options,
                             char error[WR_TLS_ERROR_TEXT])
{
    enum wr_err err = set_trust(client, options, error);
    if (err == WR_OK)
        err = set_alpn(client, options, error);
    if (err == WR_OK && options->chain_path != NULL && options->key_path != NULL)
        err = wr_tls_context_use(client->context, options->chain_path, options->key_path, error);
    return err;
}

/* ---- life ---- */

static void client_free(struct wr_tls_client *client)
{
    SSL_SESSION_free(client->session);
    SSL_CTX_free(client->context);
    pthread_mutex_destroy(&client->lock);
    free(client->sni);
    free(client);
}

enum wr_err wr_tls_client_new(const struct wr_tls_client_options *options,
                              char error[WR_TLS_ERROR_TEXT], struct wr_tls_client **out)
{
    *out = NULL;
    error[0] = '\0';
    SSL_CTX *context = wr_tls_context_new(WR_TLS_1_2, WR_TLS_1_3);
    if (context == NULL) {
        ERR_clear_error();
        return WR_ERR_NO_MEMORY;
    }
    struct wr_tls_client *client = WR_NEW(struct wr_tls_client);
    atomic_init(&client->references, 1);
    pthread_mutex_init(&client->lock, NULL);
    client->context = context;
    client->verify = options->verify;
    if (options->sni != NULL && options->sni[0] != '\0')
        client->sni = wr_copy_string(options->sni);
    SSL_CTX_set_app_data(context, client);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(context, keep_session);
    enum wr_err err = configure(client, options, error);
    if (err != WR_OK) {
        client_free(client);
        return err;
    }
    *out = client;
    return WR_OK;
}

struct wr_tls_client *wr_tls_client_retain(struct wr_tls_client *client)
{
    atomic_fetch_add_explicit(&client->references, 1, memory_order_relaxed);
    return client;
}

void wr_tls_client_release(struct wr_tls_client *client)
{
    if (client != NULL &&
        atomic_fetch_sub_explicit(&client->references, 1, memory_order_acq_rel) == 1)
        client_free(client);
}

/* A unix socket has no name that a certificate could show: "unix:" then fails to verify, as it should. */
static bool require_address(SSL *ssl, int fd)
{
    struct wr_address peer = {.length = sizeof peer.storage};
    char text[WR_ADDRESS_TEXT] = "";
    if (getpeername(fd, (struct sockaddr *)&peer.storage, &peer.length) != 0)
        return false;
    struct wr_str host = wr_address_text(&peer, true, text);
    if (host.n >= sizeof text)
        return false;
    text[host.n] = '\0';
    return require_name(SSL_get0_param(ssl), text);
}

/* Without a name of its own a cluster verifies each endpoint by address, and a session with one must not vouch for another. */
SSL *wr_tls_client_ssl(struct wr_tls_client *client, int fd)
{
    SSL *ssl = SSL_new(client->context);
    if (ssl == NULL)
        return NULL;
    SSL_set_connect_state(ssl);
    SSL_set_shed_handshake_config(ssl, 1);
    bool ok = true;
    if (client->sni != NULL) {
        if (!wr_tls_is_ip_literal(client->sni)) /* RFC 6066 section 3: no literals */
            ok = SSL_set_tlsext_host_name(ssl, client->sni);
        offer_session(client, ssl);
    } else if (client->verify) {
        ok = require_address(ssl, fd);
    } else {
        offer_session(client, ssl);
    }
    if (!ok) {
        SSL_free(ssl);
        ERR_clear_error();
        return NULL;
    }
    return ssl;
}
