#include "support/peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct peer {
    int fd;
    int wait_ms;
    SSL *ssl;
    SSL_CTX *ctx;
    SSL_SESSION *session;
    int alert;
    /* Read ahead of what was asked for. */
    char *ahead;
    size_t ahead_at;
    size_t ahead_n;
};

struct peer *peer_adopt(int fd)
{
    struct peer *peer = calloc(1, sizeof(*peer));
    struct timeval wait = {PEER_WAIT_MS / 1000, 0};
    int on = 1;

    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
    peer->fd = fd;
    peer->wait_ms = PEER_WAIT_MS;
    return peer;
}

struct peer *peer_connect_from(const char *source, int port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    struct sockaddr_in from = {.sin_family = AF_INET};

    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (source) {
        (void)inet_pton(AF_INET, source, &from.sin_addr);
        (void)bind(fd, (struct sockaddr *)&from, sizeof(from));
    }
    if (connect(fd, (struct sockaddr *)&to, sizeof(to)) != 0) {
        (void)close(fd);
        return NULL;
    }
    return peer_adopt(fd);
}

struct peer *peer_connect(int port)
{
    return peer_connect_from(NULL, port);
}

void peer_set_wait(struct peer *peer, int ms)
{
    struct timeval wait = {ms / 1000, (ms % 1000) * 1000};

    peer->wait_ms = ms;
    (void)setsockopt(peer->fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
    (void)setsockopt(peer->fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
}

static int keep_session(SSL *ssl, SSL_SESSION *session)
{
    struct peer *peer = SSL_get_app_data(ssl);
    if (peer->session)
        SSL_SESSION_free(peer->session);
    peer->session = session;
    return 1;
}

static void note_error(struct peer *peer)
{
    uint32_t code = ERR_peek_last_error();
    int reason = ERR_GET_REASON(code);

    if (ERR_GET_LIB(code) == ERR_LIB_SSL && reason >= SSL_AD_REASON_OFFSET)
        peer->alert = reason - SSL_AD_REASON_OFFSET;
    ERR_clear_error();
}

bool peer_start_tls(struct peer *peer, const struct peer_tls *options)
{
    static const struct peer_tls none;
    const struct peer_tls *o = options ? options : &none;
    const char *sni = o->sni ? o->sni : "localhost";

    peer->ctx = SSL_CTX_new(TLS_method());
    SSL_CTX_set_session_cache_mode(peer->ctx, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(peer->ctx, keep_session);
    peer->ssl = SSL_new(peer->ctx);
    SSL_set_app_data(peer->ssl, peer);
    SSL_set_fd(peer->ssl, peer->fd);
    if (*sni)
        SSL_set_tlsext_host_name(peer->ssl, sni);
    if (o->alpn)
        (void)SSL_set_alpn_protos(peer->ssl, (const uint8_t *)o->alpn, (unsigned)strlen(o->alpn));
    if (o->max_version)
        SSL_set_max_proto_version(peer->ssl, o->max_version);
    if (o->session)
        SSL_set_session(peer->ssl, o->session);
    if (SSL_connect(peer->ssl) == 1)
        return true;
    note_error(peer);
    return false;
}

struct peer *peer_connect_tls(int port, const struct peer_tls *options)
{
    struct peer *peer = peer_connect(port);

    if (peer && !peer_start_tls(peer, options)) {
        peer_free(peer);
        return NULL;
    }
    return peer;
}

bool peer_accept_tls(struct peer *peer, const char *dir)
{
    char path[512];

    peer->ctx = SSL_CTX_new(TLS_method());
    (void)snprintf(path, sizeof(path), "%s/cert.pem", dir);
    if (SSL_CTX_use_certificate_chain_file(peer->ctx, path) != 1)
        return false;
    (void)snprintf(path, sizeof(path), "%s/key.pem", dir);
    if (SSL_CTX_use_PrivateKey_file(peer->ctx, path, SSL_FILETYPE_PEM) != 1)
        return false;
    peer->ssl = SSL_new(peer->ctx);
    SSL_set_fd(peer->ssl, peer->fd);
    if (SSL_accept(peer->ssl) == 1)
        return true;
    note_error(peer);
    return false;
}

void peer_free(struct peer *peer)
{
    if (!peer)
        return;
    if (peer->ssl)
        SSL_free(peer->ssl);
    if (peer->session)
        SSL_SESSION_free(peer->session);
    if (peer->ctx)
        SSL_CTX_free(peer->ctx);
    if (peer->fd >= 0)
        (void)close(peer->fd);
    free(peer->ahead);
    free(peer);
}

int peer_fd(const struct peer *peer)
{
    return peer->fd;
}

int peer_local_port(const struct peer *peer)
{
    struct sockaddr_in address;
    socklen_t length = sizeof(address);

    (void)getsockname(peer->fd, (struct sockaddr *)&address, &length);
    return ntohs(address.sin_port);
}

bool peer_resumed(const struct peer *peer)
{
    return SSL_session_reused(peer->ssl) == 1;
}

SSL_SESSION *peer_session(struct peer *peer)
{
    if (peer->session)
        SSL_SESSION_up_ref(peer->session);
    return peer->session;
}

void peer_session_free(SSL_SESSION *session)
{
    SSL_SESSION_free(session);
}

int peer_alert(const struct peer *peer)
{
    return peer->alert;
}

const char *peer_alpn(const struct peer *peer, unsigned *length)
{
    const uint8_t *name;
    SSL_get0_alpn_selected(peer->ssl, &name, length);
    return (const char *)name;
}

/* ---- bytes ---- */

bool peer_write(struct peer *peer, const void *p, size_t n)
{
    const char *at = p;

    while (n > 0) {
        ssize_t sent = peer->ssl ? SSL_write(peer->ssl, at, n > 1 << 20 ? 1 << 20 : (int)n)
                                 : send(peer->fd, at, n, MSG_NOSIGNAL);
        if (sent <= 0) {
            if (peer->ssl)
                note_error(peer);
            return false;
        }
        at += sent;
        n -= (size_t)sent;
    }
    return true;
}

bool peer_say(struct peer *peer, const char *text)
{
    return peer_write(peer, text, strlen(text));
}

static enum peer_end why_plain(ssize_t got)
{
    if (got == 0)
        return PEER_EOF;
    if (errno == ECONNRESET || errno == EPIPE)
        return PEER_RESET;
    return errno == EAGAIN || errno == EWOULDBLOCK ? PEER_WAITED : PEER_BROKEN;
}

static size_t read_socket(struct peer *peer, void *p, size_t n, enum peer_end *end)
{
    *end = PEER_OPEN;
    if (!peer->ssl) {
        ssize_t got = recv(peer->fd, p, n, 0);
        if (got > 0)
            return (size_t)got;
        *end = why_plain(got);
        return 0;
    }
    errno = 0;
    int got = SSL_read(peer->ssl, p, n > 1 << 20 ? 1 << 20 : (int)n);
    if (got > 0)
        return (size_t)got;
    int code = SSL_get_error(peer->ssl, got);
    if (code == SSL_ERROR_ZERO_RETURN)
        *end = PEER_EOF;
    else if (code == SSL_ERROR_SYSCALL)
        *end = errno == 0 ? PEER_BROKEN : why_plain(-1);
    else
        *end = code == SSL_ERROR_WANT_READ ? PEER_WAITED : PEER_BROKEN;
    note_error(peer);
    return 0;
}

size_t peer_read(struct peer *peer, void *p, size_t n, enum peer_end *end)
{
    size_t kept = peer->ahead_n - peer->ahead_at;

    if (kept == 0)
        return read_socket(peer, p, n, end);
    if (n > kept)
        n = kept;
    memcpy(p, peer->ahead + peer->ahead_at, n);
    peer->ahead_at += n;
    *end = PEER_OPEN;
    return n;
}

bool peer_read_exactly(struct peer *peer, void *p, size_t n)
{
    enum peer_end end;
    char *at = p;

    while (n > 0) {
        size_t got = peer_read(peer, at, n, &end);
        if (got == 0)
            return false;
        at += got;
        n -= got;
    }
    return true;
}

void peer_notify_close(struct peer *peer)
{
    (void)SSL_shutdown(peer->ssl);
}

bool peer_update_keys(struct peer *peer)
{
    return SSL_key_update(peer->ssl, SSL_KEY_UPDATE_REQUESTED) == 1 &&
           SSL_write(peer->ssl, "", 0) >= 0;
}

void peer_half_close(struct peer *peer)
{
    if (peer->ssl)
        (void)SSL_shutdown(peer->ssl);
    (void)shutdown(peer->fd, SHUT_WR);
}

void peer_reset(struct peer *peer)
{
    struct linger linger = {1, 0};

    (void)setsockopt(peer->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
    (void)close(peer->fd);
    peer->fd = -1;
}

enum peer_end peer_wait_end(struct peer *peer)
{
    char junk[16384];
    enum peer_end end;

    while (peer_read(peer, junk, sizeof(junk), &end) > 0)
        continue;
    return end;
}
