#include "support/flood.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/bio.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SOURCES 64
#define RECORD_HEAD 5

int flood_connect(int port, unsigned index)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    struct sockaddr_in from = {.sin_family = AF_INET};
    int on = 1;

    if (fd < 0)
        return -1;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1 + index % SOURCES);
    /* The port is chosen at connect(), from those of this pair of addresses. */
    (void)setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (bind(fd, (struct sockaddr *)&from, sizeof(from)) == 0 &&
        connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0)
        return fd;
    int why = errno;
    (void)close(fd);
    errno = why;
    return -1;
}

bool flood_send(int fd, const void *p, size_t n)
{
    return send(fd, p, n, MSG_NOSIGNAL) == (ssize_t)n;
}

enum peer_end flood_end(int fd, void *out, size_t room, size_t *n, int wait_ms)
{
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    char piece[16384];
    size_t total = 0;
    enum peer_end end = PEER_OPEN;

    while (end == PEER_OPEN) {
        ssize_t got = -1;
        errno = EAGAIN;
        if (poll(&wait, 1, wait_ms) > 0)
            got = recv(fd, piece, sizeof(piece), 0);
        if (got > 0) {
            size_t keep = total < room ? room - total : 0;
            if (keep > 0)
                memcpy((char *)out + total, piece, (size_t)got < keep ? (size_t)got : keep);
            total += (size_t)got;
        } else if (got == 0) {
            end = PEER_EOF;
        } else if (errno == ECONNRESET) {
            end = PEER_RESET;
        } else {
            end = errno == EAGAIN ? PEER_WAITED : PEER_BROKEN;
        }
    }
    if (n)
        *n = total;
    return end;
}

void flood_reset(int fd)
{
    struct linger now = {1, 0};

    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    (void)close(fd);
}

void flood_close(int *fds, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (fds[i] >= 0)
            (void)close(fds[i]);
        fds[i] = -1;
    }
}

/* ---- ClientHellos ---- */

size_t flood_hello(uint8_t out[FLOOD_HELLO_MAX], const struct peer_tls *options)
{
    static const struct peer_tls none;
    const struct peer_tls *o = options ? options : &none;
    SSL_CTX *ctx = SSL_CTX_new(TLS_method());
    SSL *ssl = SSL_new(ctx);
    BIO *written = BIO_new(BIO_s_mem());

    SSL_set_bio(ssl, BIO_new(BIO_s_mem()), written);
    if (!o->sni || *o->sni)
        SSL_set_tlsext_host_name(ssl, o->sni ? o->sni : "localhost");
    if (o->alpn)
        (void)SSL_set_alpn_protos(ssl, (const uint8_t *)o->alpn, (unsigned)strlen(o->alpn));
    if (o->max_version)
        SSL_set_max_proto_version(ssl, o->max_version);
    if (o->session)
        SSL_set_session(ssl, o->session);
    (void)SSL_connect(ssl);
    int n = BIO_read(written, out, FLOOD_HELLO_MAX);
    SSL_free(ssl);
    SSL_CTX_free(ctx);
    return n > 0 ? (size_t)n : 0;
}

uint8_t *flood_cut_records(const uint8_t *records, size_t n, size_t piece, size_t *cut_n)
{
    uint8_t *cut = malloc(n * (RECORD_HEAD + 1));
    size_t out = 0;

    for (size_t at = 0; at + RECORD_HEAD <= n;) {
        size_t length = (size_t)records[at + 3] << 8 | records[at + 4];
        const uint8_t *content = records + at + RECORD_HEAD;
        for (size_t done = 0; done < length;) {
            size_t part = length - done < piece ? length - done : piece;
            memcpy(cut + out, records + at, 3);
            cut[out + 3] = (uint8_t)(part >> 8);
            cut[out + 4] = (uint8_t)part;
            memcpy(cut + out + RECORD_HEAD, content + done, part);
            out += RECORD_HEAD + part;
            done += part;
        }
        at += RECORD_HEAD + length;
    }
    *cut_n = out;
    return cut;
}
