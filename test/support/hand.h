/* A TLS client worked by hand: a test sees and cuts up what it sends. For what support/peer.h hides. */
#ifndef TEST_SUPPORT_HAND_H
#define TEST_SUPPORT_HAND_H

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hand_options {
    const char *sni;      /* NULL: none */
    const char *alpn;     /* wire form; NULL: none */
    uint16_t min_version; /* 0: oldest */
    uint16_t max_version; /* 0: newest */
    SSL_SESSION *session; /* to resume, or NULL; not consumed */
    /* Sends the ClientHello; NULL: as it is, in one go. */
    bool (*send)(int fd, const uint8_t *p, size_t n, void *arg);
    void *arg;
};

struct hand {
    int fd;
    SSL *ssl;
    SSL_CTX *ctx;
    bool done;            /* the handshake succeeded */
    bool over;            /* FIN or RST has come */
    int alert;            /* the fatal alert that ended it; 0: none */
    SSL_SESSION *session; /* the last ticket that came, or NULL */
};

/* Connects to 127.0.0.1:PORT and tries a handshake, every wait bounded. Never NULL: look at done. Owner: the caller. */
struct hand *hand_connect(int port, const struct hand_options *options);
void hand_free(struct hand *hand);
/* Sends what the library has written; false when the connection is broken. */
bool hand_flush(struct hand *hand);
bool hand_write(struct hand *hand, const void *p, size_t n);
/* Up to N bytes; 0: none came any more. */
size_t hand_read(struct hand *hand, void *p, size_t n);
/* GET / and its status; 0: no answer. Tickets that come before are taken. */
int hand_get(struct hand *hand);
/* The server has proved to have the certificate in the file PATH. */
bool hand_met(const struct hand *hand, const char *path);
const char *hand_alpn(const struct hand *hand); /* "" none; static buffer */

#endif
