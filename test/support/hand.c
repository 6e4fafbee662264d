#include "support/hand.h"

#include <errno.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "support/flood.h"

#define WAIT_SECONDS 20

static int keep_session(SSL *ssl, SSL_SESSION *session)
{
    struct hand *hand = SSL_get_app_data(ssl);

    SSL_SESSION_free(hand->session);
    hand->session = session;
    return 1;
}

static void note_alert(struct hand *hand)
{
    uint32_t code = ERR_peek_last_error();
    int reason = ERR_GET_REASON(code);

    if (ERR_GET_LIB(code) == ERR_LIB_SSL && reason >= SSL_AD_REASON_OFFSET)
        hand->alert = reason - SSL_AD_REASON_OFFSET;
    ERR_clear_error();
}

static size_t take_written(struct hand *hand, uint8_t *out, size_t room)
{
    int n = BIO_read(SSL_get_wbio(hand->ssl), out, (int)room);
    return n > 0 ? (size_t)n : 0;
}

bool hand_flush(struct hand *hand)
{
    uint8_t piece[32768];
    size_t n;

    while ((n = take_written(hand, piece, sizeof(piece))) > 0)
        if (!flood_send(hand->fd, piece, n))
            return false;
    return true;
}

/* Waits for bytes and gives them to the library. */
static bool feed(struct hand *hand)
{
    uint8_t piece[32768];
    ssize_t n = recv(hand->fd, piece, sizeof(piece), 0);

    if (n <= 0) {
        hand->over = n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
        return false;
    }
    return BIO_write(SSL_get_rbio(hand->ssl), piece, (int)n) == n;
}

static void handshake(struct hand *hand, const struct hand_options *options)
{
    uint8_t hello[FLOOD_HELLO_MAX];
    int result = SSL_do_handshake(hand->ssl);
    size_t n = take_written(hand, hello, sizeof(hello));

    if (n == 0 || !(options->send ? options->send(hand->fd, hello, n, options->arg)
                                  : flood_send(hand->fd, hello, n)))
        return;
    while (result != 1 && SSL_get_error(hand->ssl, result) == SSL_ERROR_WANT_READ) {
        ERR_clear_error();
        if (!feed(hand))
            return;
        result = SSL_do_handshake(hand->ssl);
        if (!hand_flush(hand))
            return;
    }
    hand->done = result == 1;
    note_alert(hand);
}

static void set_up(struct hand *hand, const struct hand_options *options)
{
    struct timeval wait = {WAIT_SECONDS, 0};

    (void)setsockopt(hand->fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
    (void)setsockopt(hand->fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
    hand->ctx = SSL_CTX_new(TLS_method());
    SSL_CTX_set_session_cache_mode(hand->ctx, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(hand->ctx, keep_session);
    hand->ssl = SSL_new(hand->ctx);
    SSL_set_app_data(hand->ssl, hand);
    SSL_set_bio(hand->ssl, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    SSL_set_connect_state(hand->ssl);
    if (options->sni)
        SSL_set_tlsext_host_name(hand->ssl, options->sni);
    if (options->alpn)
        (void)SSL_set_alpn_protos(hand->ssl, (const uint8_t *)options->alpn,
                                  (unsigned)strlen(options->alpn));
    (void)SSL_set_min_proto_version(hand->ssl, options->min_version);
    (void)SSL_set_max_proto_version(hand->ssl, options->max_version);
    if (options->session)
        SSL_set_session(hand->ssl, options->session);
}

struct hand *hand_connect(int port, const struct hand_options *options)
{
    static const struct hand_options none;
    struct hand *hand = calloc(1, sizeof(*hand));

    hand->fd = flood_connect(port, 0);
    set_up(hand, options ? options : &none);
    if (hand->fd >= 0)
        handshake(hand, options ? options : &none);
    return hand;
}

void hand_free(struct hand *hand)
{
    SSL_SESSION_free(hand->session);
    SSL_free(hand->ssl);
    SSL_CTX_free(hand->ctx);
    if (hand->fd >= 0)
        (void)close(hand->fd);
    free(hand);
}

bool hand_write(struct hand *hand, const void *p, size_t n)
{
    int written = SSL_write(hand->ssl, p, (int)n);

    note_alert(hand);
    return written == (int)n && hand_flush(hand);
}

size_t hand_read(struct hand *hand, void *p, size_t n)
{
    for (;;) {
        int got = SSL_read(hand->ssl, p, (int)n);
        int error = SSL_get_error(hand->ssl, got);
        note_alert(hand);
        (void)hand_flush(hand);
        if (got > 0)
            return (size_t)got;
        if (error != SSL_ERROR_WANT_READ || !feed(hand))
            return 0;
    }
}

int hand_get(struct hand *hand)
{
    static const char request[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    char answer[4096] = "";
    int status = 0;

    if (!hand_write(hand, request, sizeof(request) - 1))
        return 0;
    size_t n = hand_read(hand, answer, sizeof(answer) - 1);
    answer[n] = '\0';
    return sscanf(answer, "HTTP/1.1 %3d", &status) == 1 ? status : 0;
}

bool hand_met(const struct hand *hand, const char *path)
{
    FILE *file = fopen(path, "re");
    X509 *expected = file ? PEM_read_X509(file, NULL, NULL, NULL) : NULL;
    X509 *met = SSL_get_peer_certificate(hand->ssl);
    bool same = expected && met && X509_cmp(expected, met) == 0;

    X509_free(expected);
    X509_free(met);
    if (file)
        (void)fclose(file);
    return same;
}

const char *hand_alpn(const struct hand *hand)
{
    static _Thread_local char name[256];
    const uint8_t *p = NULL;
    unsigned n = 0;

    SSL_get0_alpn_selected(hand->ssl, &p, &n);
    (void)snprintf(name, sizeof(name), "%.*s", (int)n, p ? (const char *)p : "");
    return name;
}
