/* TLS over a transport: one BIO method joins the library to the scratch buffers and the pipeline; the handshake and its
 * signatures; sealing and opening of records. */
#include <limits.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/x509.h>

#include "base/assert.h"
#include "observe/metrics.h"
#include "transport/transport_internal.h"

/* ---- the BIO ---- */

/* What was kept comes before what the scratch feeds. */
static size_t take_cipher(struct wr_transport *transport, char *out, size_t n)
{
    struct wr_bytes *kept = transport->pipeline != NULL ? &transport->pipeline->cipher : NULL;
    if (kept != NULL && kept->length > 0) {
        struct wr_str piece = wr_bytes_front(kept);
        size_t taken = piece.n < n ? piece.n : n;
        memcpy(out, piece.p, taken);
        wr_bytes_consume(kept, taken);
        return taken;
    }
    struct wr_transport_host *host = transport->host;
    size_t taken = host->feed_length < n ? host->feed_length : n;
    if (taken > 0) {
        memcpy(out, host->feed, taken);
        host->feed += taken;
        host->feed_length -= taken;
    }
    return taken;
}

static int bio_read(BIO *bio, char *out, int n)
{
    BIO_clear_retry_flags(bio);
    size_t taken = take_cipher(BIO_get_data(bio), out, (size_t)n);
    if (taken == 0) {
        BIO_set_retry_read(bio);
        return -1;
    }
    return (int)taken;
}

/* Takes everything. Behind what the socket would not take there is no use in trying. */
static int bio_write(BIO *bio, const char *p, int n)
{
    struct wr_transport *transport = BIO_get_data(bio);
    struct wr_transport_host *host = transport->host;
    size_t length = (size_t)n;
    BIO_clear_retry_flags(bio);
    if (WR_SEALED_SIZE - host->sealed_length < length)
        wr_transport_send_sealed(transport);
    bool waiting = transport->pipeline != NULL && transport->pipeline->sealed.length > 0;
    if (waiting || length > WR_SEALED_SIZE) {
        wr_bytes_append(&wr_transport_pipeline(transport)->sealed, p, length);
        return n;
    }
    memcpy(host->sealed + host->sealed_length, p, length);
    host->sealed_length += length;
    return n;
}

static long bio_ctrl(BIO *bio, int command, long number, void *pointer)
{
    (void)bio;
    (void)number;
    (void)pointer;
    return command == BIO_CTRL_FLUSH;
}

static BIO_METHOD *bio_method;

static void make_bio_method(void)
{
    bio_method = BIO_meth_new(0, "weir transport");
    bool ok = bio_method != NULL && BIO_meth_set_read(bio_method, bio_read) &&
              BIO_meth_set_write(bio_method, bio_write) && BIO_meth_set_ctrl(bio_method, bio_ctrl);
    WR_ASSERT(ok);
}

static bool make_ssl(struct wr_transport *transport)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, make_bio_method);
    BIO *bio = BIO_new(bio_method);
    transport->ssl = transport->accepted
                         ? wr_tls_server_ssl(transport->tls_server)
                         : wr_tls_client_ssl(transport->tls_client, transport->io.fd);
    if (bio == NULL || transport->ssl == NULL) {
        ERR_clear_error();
        BIO_free(bio);
        SSL_free(transport->ssl);
        transport->ssl = NULL;
        wr_transport_fail(transport,
                          transport->accepted ? WR_ERR_NO_MEMORY : WR_ERR_UPSTREAM_TLS_FAILED, "");
        return false;
    }
    BIO_set_data(bio, transport);
    BIO_set_init(bio, 1);
    SSL_set_bio(transport->ssl, bio, bio);
    return true;
}

static struct wr_transport *transport_of(const SSL *ssl)
{
    return BIO_get_data(SSL_get_rbio(ssl));
}

/* ---- failures ---- */

/* Of an upstream: whose certificate is wrong is another matter than who speaks TLS wrongly. */
static enum wr_err failure(const struct wr_transport *transport, const char **detail)
{
    uint32_t packed = ERR_peek_error();
    bool certificate = ERR_GET_LIB(packed) == ERR_LIB_SSL &&
                       ERR_GET_REASON(packed) == SSL_R_CERTIFICATE_VERIFY_FAILED;
    *detail = wr_tls_take_reason();
    if (transport->accepted)
        return WR_ERR_TLS_FAILED;
    if (!certificate)
        return WR_ERR_UPSTREAM_TLS_FAILED;
    *detail = X509_verify_cert_error_string(SSL_get_verify_result(transport->ssl));
    return WR_ERR_UPSTREAM_CERTIFICATE;
}

/* ---- the certificate ---- */

/* Gate 1 has been passed; asked again for the ClientHello that follows a HelloRetryRequest. */
enum ssl_select_cert_result_t wr_tls_on_client_hello(const SSL_CLIENT_HELLO *hello)
{
    const struct wr_transport *transport = transport_of(hello->ssl);
    return wr_tls_server_choose(transport->tls_server, hello->ssl) ? ssl_select_cert_success
                                                                   : ssl_select_cert_error;
}

/* ---- signatures: gate 3 ---- */

static void on_signed(void *owner)
{
    struct wr_transport *transport = owner;
    transport->gate = WR_GATE_SIGNED;
    if (wr_transport_is_live(transport))
        wr_loop_defer(transport->host->loop, &transport->input_task);
}

static enum ssl_private_key_result_t key_sign(SSL *ssl, uint8_t *out, size_t *length, size_t room,
                                              uint16_t algorithm, const uint8_t *input,
                                              size_t input_length)
{
    struct wr_transport *transport = transport_of(ssl);
    struct wr_transport_host *host = transport->host;
    const struct wr_signature_order order = {
        .key = wr_tls_server_key(ssl),
        .algorithm = algorithm,
        .input = input,
        .input_length = input_length,
    };
    transport->signing =
        wr_signers_submit(host->signers, &order, host->mailbox, on_signed, transport);
    if (transport->signing != NULL) {
        transport->gate = WR_GATE_SIGNING;
        return ssl_private_key_retry;
    }
    if (host->signed_here != NULL)
        wr_metric_inc(host->signed_here);
    return wr_sign(&order, out, room, length) ? ssl_private_key_success : ssl_private_key_failure;
}

/* Only for RSA key exchange, and no cipher that we offer has it. */
static enum ssl_private_key_result_t key_decrypt(SSL *ssl WR_UNUSED, uint8_t *out WR_UNUSED,
                                                 size_t *length WR_UNUSED, size_t room WR_UNUSED,
                                                 const uint8_t *input WR_UNUSED,
                                                 size_t input_length WR_UNUSED)
{
    return ssl_private_key_failure;
}

static enum ssl_private_key_result_t key_complete(SSL *ssl, uint8_t *out, size_t *length,
                                                  size_t room)
{
    struct wr_transport *transport = transport_of(ssl);
    if (transport->gate == WR_GATE_SIGNING)
        return ssl_private_key_retry;
    bool made = wr_signing_result(transport->signing, out, room, length);
    wr_transport_tls_stop_signing(transport);
    return made ? ssl_private_key_success : ssl_private_key_failure;
}

const SSL_PRIVATE_KEY_METHOD wr_tls_key_method = {
    .sign = key_sign,
    .decrypt = key_decrypt,
    .complete = key_complete,
};

void wr_transport_tls_stop_signing(struct wr_transport *transport)
{
    wr_signing_drop(transport->signing);
    transport->signing = NULL;
}

/* ---- steps of the handshake ---- */

/* After a fatal alert: FIN behind it, and nothing unread that would turn the close into a reset and erase it. */
static void fail_tls(struct wr_transport *transport, enum wr_err why, const char *detail)
{
    if (!wr_transport_is_live(transport))
        return;
    if (wr_transport_output(transport) == 0) {
        (void)shutdown(transport->io.fd, SHUT_WR);
        (void)recv(transport->io.fd, transport->host->plain, WR_PLAIN_SIZE, 0);
    }
    wr_transport_fail_after_input(transport, why, detail);
}

/* The library reads no more: what it has not taken is worth nothing. */
static void drop_cipher(struct wr_transport *transport)
{
    transport->host->feed_length = 0;
    if (transport->pipeline != NULL)
        wr_bytes_clear(&transport->pipeline->cipher);
}

static uint64_t thread_usec(void)
{
    struct timespec spent;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
    return (uint64_t)spent.tv_sec * WR_SEC + (uint64_t)spent.tv_nsec / 1000;
}

static void step_handshake(struct wr_transport *transport)
{
    if (wr_transport_goes_on(transport))
        transport->gate = WR_GATE_PASSED;
    uint64_t before = thread_usec();
    if (transport->ssl == NULL && !make_ssl(transport))
        return;
    int done = SSL_do_handshake(transport->ssl);
    transport->handshake_usec += (uint32_t)(thread_usec() - before);
    int error = SSL_get_error(transport->ssl, done);
    const char *detail = "";
    enum wr_err why = WR_OK;
    if (done != 1 && error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_PRIVATE_KEY_OPERATION)
        why = failure(transport, &detail);
    wr_transport_send_sealed(transport);
    if (why != WR_OK)
        fail_tls(transport, why, detail);
    else if (done == 1 && wr_transport_is_live(transport))
        wr_transport_established(transport);
}

void wr_transport_tls_alert(struct wr_transport *transport)
{
    if (transport->ssl != NULL) {
        (void)SSL_send_fatal_alert(transport->ssl, SSL_AD_INTERNAL_ERROR);
        ERR_clear_error();
        wr_transport_send_sealed(transport);
        wr_transport_tls_stop_signing(transport);
        SSL_free(transport->ssl);
        transport->ssl = NULL;
        return;
    }
    /* Nothing was negotiated: a plain record (RFC 8446 section 5.1 and 6). internal_error is the one whose definition fits,
     * "an internal error unrelated to the peer or the correctness of the protocol": the client did nothing wrong. */
    static const uint8_t record[] = {21, 3, 3, 0, 2, SSL3_AL_FATAL, SSL_AD_INTERNAL_ERROR};
    wr_bytes_append(&wr_transport_pipeline(transport)->sealed, record, sizeof record);
}

/* ---- records ---- */

size_t wr_transport_tls_seal(struct wr_transport *transport, const void *p, size_t n)
{
    int sealed = SSL_write(transport->ssl, p, n < INT_MAX ? (int)n : INT_MAX);
    return sealed > 0 ? (size_t)sealed : 0;
}

void wr_transport_tls_notify(struct wr_transport *transport)
{
    (void)SSL_shutdown(transport->ssl);
    ERR_clear_error();
}

/* Bytes that the library has not opened, be they here or in it. */
static bool has_records(const struct wr_transport *transport)
{
    const struct wr_pipeline *pipeline = transport->pipeline;
    return transport->host->feed_length > 0 || SSL_has_pending(transport->ssl) ||
           (pipeline != NULL && pipeline->cipher.length > 0);
}

/* Opens records until the library wants more or the scratch is full; returns how many bytes there are. After the last byte it is
 * not asked again: to hear that it wants more costs as much as a quarter of a small record. */
static size_t open_records(struct wr_transport *transport, int *error)
{
    uint8_t *plain = transport->host->plain;
    size_t n = 0;
    while (n < WR_PLAIN_SIZE) {
        int got = SSL_read(transport->ssl, plain + n, (int)(WR_PLAIN_SIZE - n));
        if (got <= 0) {
            *error = SSL_get_error(transport->ssl, got);
            return n;
        }
        n += (size_t)got;
        if (!has_records(transport)) {
            *error = SSL_ERROR_WANT_READ;
            return n;
        }
    }
    *error = SSL_ERROR_NONE;
    return n;
}

/* Whether the owner wants more; order is kept: nothing newer goes up past what it has left. */
static bool may_decrypt(const struct wr_transport *transport)
{
    return wr_transport_is_live(transport) && !transport->discarding && transport->paused == 0 &&
           (transport->pipeline == NULL || transport->pipeline->input.length == 0);
}

static void decrypt(struct wr_transport *transport)
{
    int error = SSL_ERROR_NONE;
    while (error == SSL_ERROR_NONE && may_decrypt(transport)) {
        size_t n = open_records(transport, &error);
        bool over = error != SSL_ERROR_NONE && error != SSL_ERROR_WANT_READ;
        const char *detail = "";
        enum wr_err why = WR_OK;
        if (over && error != SSL_ERROR_ZERO_RETURN)
            why = failure(transport, &detail);
        if (over)
            drop_cipher(transport);
        wr_transport_send_sealed(transport); /* an alert */
        if (n > 0)
            wr_transport_deliver(transport, transport->host->plain, n);
        if (!wr_transport_is_live(transport))
            return;
        if (error == SSL_ERROR_ZERO_RETURN && transport->input == WR_INPUT_OPEN)
            transport->input = WR_INPUT_CLEAN;
        if (why != WR_OK)
            fail_tls(transport, why, detail);
    }
}

void wr_transport_tls_advance(struct wr_transport *transport)
{
    if (transport->phase == WR_TRANSPORT_HANDSHAKE)
        step_handshake(transport);
    if (transport->phase == WR_TRANSPORT_OPEN && wr_transport_is_tls(transport) &&
        !transport->closed)
        decrypt(transport);
}

bool wr_transport_tls_info(const struct wr_transport *transport, struct wr_tls_info *info)
{
    const SSL *ssl = transport->ssl;
    if (ssl == NULL || SSL_in_init(ssl))
        return false;
    const uint8_t *alpn = NULL;
    unsigned alpn_length = 0;
    SSL_get0_alpn_selected(ssl, &alpn, &alpn_length);
    const char *sni = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
    *info = (struct wr_tls_info){
        .version = SSL_get_version(ssl),
        .cipher = SSL_CIPHER_get_name(SSL_get_current_cipher(ssl)),
        .alpn = alpn_length > 0 ? wr_str((const char *)alpn, alpn_length) : WR_STR_EMPTY,
        .sni = sni != NULL ? wr_str_from(sni) : WR_STR_EMPTY,
        .resumed = SSL_session_reused(ssl),
        .cpu_usec = transport->handshake_usec,
    };
    return true;
}
