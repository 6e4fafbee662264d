#include "support/hello_view.h"

#include <stdlib.h>
#include <string.h>

#include <openssl/ec_key.h>
#include <openssl/err.h>
#include <openssl/nid.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

static void must(bool ok)
{
    if (!ok)
        abort();
}

/* ---- the library's view ---- */

static bool extension(const SSL_CLIENT_HELLO *hello, uint16_t type, const uint8_t **p, size_t *n)
{
    return SSL_early_callback_ctx_extension_get(hello, type, p, n) == 1;
}

static enum ssl_select_cert_result_t on_hello(const SSL_CLIENT_HELLO *hello)
{
    struct hello_view *view = SSL_get_app_data(hello->ssl);
    const char *sni = SSL_get_servername(hello->ssl, TLSEXT_NAMETYPE_host_name);
    const uint8_t *p;
    size_t n;
    view->asked = true;
    if (sni != NULL)
        strncpy(view->sni, sni, sizeof view->sni - 1);
    if (extension(hello, TLSEXT_TYPE_application_layer_protocol_negotiation, &p, &n) && n > 2 &&
        n - 2 == ((size_t)p[0] << 8 | p[1]) && n - 2 <= sizeof view->alpn) {
        memcpy(view->alpn, p + 2, n - 2);
        view->alpn_length = n - 2;
    }
    view->claims_resumption = (extension(hello, TLSEXT_TYPE_session_ticket, &p, &n) && n > 0) ||
                              extension(hello, TLSEXT_TYPE_pre_shared_key, &p, &n);
    return ssl_select_cert_error;
}

void hello_view(const uint8_t *wire, size_t n, struct hello_view *out)
{
    static SSL_CTX *context;
    memset(out, 0, sizeof *out);
    if (context == NULL) {
        context = SSL_CTX_new(TLS_method());
        must(context != NULL);
        SSL_CTX_set_select_certificate_cb(context, on_hello);
    }
    SSL *ssl = SSL_new(context);
    BIO *in = BIO_new_mem_buf(wire, (int)n);
    BIO *answer = BIO_new(BIO_s_mem());
    must(ssl != NULL && in != NULL && answer != NULL);
    SSL_set_accept_state(ssl);
    SSL_set_app_data(ssl, out);
    SSL_set_bio(ssl, in, answer);
    (void)SSL_do_handshake(ssl);
    SSL_free(ssl);
    ERR_clear_error();
}

bool hello_view_agrees(const struct hello_view *view, const struct wr_client_hello *facts)
{
    return wr_str_eq(facts->sni, wr_str_from(view->sni)) &&
           (wr_str_eq(facts->alpn, wr_str((const char *)view->alpn, view->alpn_length)) ||
            facts->alpn.n > sizeof view->alpn) &&
           facts->claims_resumption == view->claims_resumption;
}

/* ---- clients ---- */

static EVP_PKEY *make_key(void)
{
    EC_KEY *ec = EC_KEY_new_by_curve_name(NID_X9_62_prime256v1);
    EVP_PKEY *key = EVP_PKEY_new();
    must(ec != NULL && key != NULL && EC_KEY_generate_key(ec) && EVP_PKEY_assign_EC_KEY(key, ec));
    return key;
}

static SSL_CTX *server_context(void)
{
    SSL_CTX *context = SSL_CTX_new(TLS_method());
    EVP_PKEY *key = make_key();
    X509 *x509 = X509_new();
    must(context != NULL && key != NULL && x509 != NULL);
    must(X509_set_version(x509, X509_VERSION_3) && X509_set_pubkey(x509, key) &&
         X509_gmtime_adj(X509_getm_notBefore(x509), 0) != NULL &&
         X509_gmtime_adj(X509_getm_notAfter(x509), 3600) != NULL &&
         X509_sign(x509, key, EVP_sha256()) > 0);
    must(SSL_CTX_use_certificate(context, x509) && SSL_CTX_use_PrivateKey(context, key));
    X509_free(x509);
    EVP_PKEY_free(key);
    return context;
}

static int on_session(SSL *ssl, SSL_SESSION *session)
{
    SSL_SESSION **kept = SSL_get_app_data(ssl);
    if (kept == NULL)
        return 0;
    SSL_SESSION_free(*kept);
    *kept = session;
    return 1;
}

static SSL_CTX *client_context(const struct hello_options *options)
{
    SSL_CTX *context = SSL_CTX_new(TLS_method());
    must(context != NULL);
    must(options->version == 0 || SSL_CTX_set_max_proto_version(context, options->version));
    must(options->groups == NULL || SSL_CTX_set1_curves_list(context, options->groups));
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_CLIENT);
    SSL_CTX_sess_set_new_cb(context, on_session);
    SSL_CTX_set_options(context, options->no_ticket ? SSL_OP_NO_TICKET : 0);
    SSL_CTX_set_early_data_enabled(context, options->early_data);
    if (options->alpn != NULL)
        must(SSL_CTX_set_alpn_protos(context, options->alpn, (unsigned)options->alpn_length) == 0);
    return context;
}

static SSL *client_new(SSL_CTX *context, const struct hello_options *options)
{
    SSL *ssl = SSL_new(context);
    must(ssl != NULL);
    SSL_set_connect_state(ssl);
    if (options->sni != NULL)
        must(SSL_set_tlsext_host_name(ssl, options->sni));
    return ssl;
}

/* Of a handshake with a server that is made for it. */
static SSL_SESSION *earn_session(SSL_CTX *context, const struct hello_options *options)
{
    SSL_CTX *server = server_context();
    SSL *a = client_new(context, options);
    SSL *b = SSL_new(server);
    BIO *a_bio = NULL;
    BIO *b_bio = NULL;
    SSL_SESSION *kept = NULL;
    uint8_t byte;
    must(b != NULL && BIO_new_bio_pair(&a_bio, 0, &b_bio, 0));
    SSL_set_app_data(a, &kept);
    SSL_set_early_data_enabled(b, options->early_data);
    SSL_set_bio(a, a_bio, a_bio);
    SSL_set_bio(b, b_bio, b_bio);
    SSL_set_accept_state(b);
    for (int i = 0; i < 20 && kept == NULL; i++) {
        (void)SSL_do_handshake(a);
        (void)SSL_do_handshake(b);
        if (SSL_is_init_finished(a) && SSL_is_init_finished(b)) {
            (void)SSL_write(b, "x", 1); /* with TLS 1.3 tickets go before it */
            (void)SSL_read(a, &byte, 1);
        }
    }
    must(kept != NULL);
    SSL_free(a);
    SSL_free(b);
    SSL_CTX_free(server);
    return kept;
}

SSL *hello_client(const struct hello_options *options)
{
    SSL_CTX *context = client_context(options);
    SSL_SESSION *session = options->resume ? earn_session(context, options) : NULL;
    SSL *ssl = client_new(context, options);
    BIO *in = BIO_new(BIO_s_mem());
    BIO *out = BIO_new(BIO_s_mem());
    must(in != NULL && out != NULL && (session == NULL || SSL_set_session(ssl, session)));
    BIO_set_mem_eof_return(in, -1);
    SSL_set_bio(ssl, in, out);
    SSL_SESSION_free(session);
    SSL_CTX_free(context);
    ERR_clear_error();
    return ssl;
}

size_t hello_make(const struct hello_options *options, uint8_t *out)
{
    SSL *ssl = hello_client(options);
    (void)SSL_do_handshake(ssl);
    int n = BIO_read(SSL_get_wbio(ssl), out, HELLO_MOST);
    must(n > 0);
    SSL_free(ssl);
    ERR_clear_error();
    return (size_t)n;
}

size_t hello_wrap(const uint8_t *message, size_t n, size_t each, uint8_t *out)
{
    size_t at = 0;
    for (size_t done = 0; done < n;) {
        size_t part = n - done < each ? n - done : each;
        if (at + 5 + part > HELLO_MOST)
            return 0;
        const uint8_t header[] = {22, 3, 1, (uint8_t)(part >> 8), (uint8_t)part};
        memcpy(out + at, header, sizeof header);
        memcpy(out + at + sizeof header, message + done, part);
        at += sizeof header + part;
        done += part;
    }
    return at;
}
