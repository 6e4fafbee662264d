/* A TLS 1.3 client that costs next to nothing, so that one core of storm outruns any server.
 *
 * The ClientHello is made once and sent by everyone. Its X25519 share is the curve's base point, as of a client whose private key is
 * 1: the shared secret is then the server's own share, which stands in its ServerHello. The server works as for any other client;
 * it cannot tell. There is no secrecy whatsoever. Certificate and signature are hashed and not looked at.
 *
 * What is left is real: keys are derived, records are decrypted, and the Finished is one the server accepts. A close_notify goes with
 * it, and the handshake counts once the server has sent something in answer: a ticket, its own close_notify, or its end.
 *
 * TLS_AES_128_GCM_SHA256 only; a HelloRetryRequest, a request for a client certificate or TLS 1.2 are failures. */
#ifndef BENCH_STORM_TLS_H
#define BENCH_STORM_TLS_H

#include <openssl/aead.h>
#include <openssl/sha.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SECRET 32
#define HELLO_MOST 2048
#define INPUT_MOST 8192
#define OUTPUT_MOST 128

/* What a session ticket brings. */
struct resumption {
    uint8_t secret[SECRET];
    uint8_t ticket[HELLO_MOST / 2];
    size_t length;
};

/* A ClientHello to send, as a record, and what follows from it. */
struct offer {
    uint8_t record[HELLO_MOST];
    size_t length;
    SHA256_CTX transcript;
    uint8_t salt[2][SECRET]; /* of the handshake secret, without and with the resumption taken */
};

/* RESUMPTION may be NULL. */
void offer_make(struct offer *offer, const struct resumption *resumption);

enum record { RECORD_CCS = 20, RECORD_ALERT = 21, RECORD_HANDSHAKE = 22, RECORD_DATA = 23 };

enum tls_state { AWAIT_HELLO, AWAIT_FINISHED, AWAIT_ANSWER };

enum tls_progress {
    TLS_MORE,
    TLS_DONE,   /* the server has shown that it finished the handshake too */
    TLS_ALERT,  /* it sent a fatal alert */
    TLS_BROKEN, /* it sent what this client cannot work with */
};

struct keys {
    EVP_AEAD_CTX aead;
    uint8_t iv[12];
    uint64_t sequence;
};

struct tls {
    const struct offer *offer;
    enum tls_state state;
    bool resumed;
    SHA256_CTX transcript;
    uint8_t handshake[SECRET];
    uint8_t client[SECRET]; /* client_handshake_traffic_secret */
    uint8_t server[SECRET];
    struct keys read;
    uint8_t message[4]; /* the head of the handshake message that is being read, */
    size_t head;        /* so much of it, */
    size_t body;        /* and what is missing of the rest */
    size_t got;
    size_t out_length; /* to be sent */
    uint8_t input[INPUT_MOST];
    uint8_t out[OUTPUT_MOST];
};

void tls_start(struct tls *tls, const struct offer *offer);
void tls_end(struct tls *tls);

/* N bytes were received into input + got. When out_length is not 0 that is to be sent. */
enum tls_progress tls_received(struct tls *tls, size_t n);

#endif
