/* ClientHellos as BoringSSL sends them and as it sees them, to hold lib/transport/hello.c against. */
#ifndef TEST_SUPPORT_HELLO_VIEW_H
#define TEST_SUPPORT_HELLO_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <openssl/ssl.h>

#include "transport/hello.h"

#define HELLO_MOST 65536

/* What a server of the library sees in wire bytes: ASKED when it got as far as to choose a certificate. */
struct hello_view {
    bool asked;
    bool claims_resumption;
    char sni[256];
    uint8_t alpn[2048];
    size_t alpn_length;
};
void hello_view(const uint8_t *wire, size_t n, struct hello_view *out);

/* Whether FACTS are what VIEW says. */
bool hello_view_agrees(const struct hello_view *view, const struct wr_client_hello *facts);

struct hello_options {
    uint16_t version;    /* the highest; 0: TLS 1.3 */
    const char *sni;     /* NULL: none */
    const uint8_t *alpn; /* wire form, NULL: none */
    size_t alpn_length;
    const char *groups; /* NULL: the library's; "P-384:P-256" brings a HelloRetryRequest */
    bool resume;        /* has a ticket, of a server that has gone */
    bool early_data;    /* and may send some with it */
    bool no_ticket;     /* does not even ask for one */
};
/* A client over two memory BIOs that has not begun. Owner: the caller. */
SSL *hello_client(const struct hello_options *options);
/* What such a client sends first, into OUT of HELLO_MOST bytes; returns how many. */
size_t hello_make(const struct hello_options *options, uint8_t *out);

/* MESSAGE in records of at most EACH bytes, into OUT of HELLO_MOST; returns how many; 0: no room. */
size_t hello_wrap(const uint8_t *message, size_t n, size_t each, uint8_t *out);

#endif
