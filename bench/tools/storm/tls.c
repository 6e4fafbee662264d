#include "storm/tls.h"

#include <string.h>

#include "storm/secrets.h"

#define RECORD_HEAD 5
#define TAG 16
#define SHARE 32

enum message { SERVER_HELLO = 2, CERTIFICATE_REQUEST = 13, FINISHED = 20 };
enum extension { PRE_SHARED_KEY = 41, KEY_SHARE = 51 };

static size_t get16(const uint8_t *at)
{
    return (size_t)at[0] << 8 | at[1];
}

void tls_start(struct tls *tls, const struct offer *offer)
{
    tls->offer = offer;
    tls->state = AWAIT_HELLO;
    tls->resumed = false;
    tls->transcript = offer->transcript;
    tls->head = 0;
    tls->body = 0;
    tls->got = 0;
    tls->out_length = 0;
    EVP_AEAD_CTX_zero(&tls->read.aead);
}

void tls_end(struct tls *tls)
{
    EVP_AEAD_CTX_cleanup(&tls->read.aead);
}

/* ---- ServerHello ---- */

/* The server's share is the secret, for our own key is 1. */
static void agree(struct tls *tls, const uint8_t share[SHARE])
{
    uint8_t hash[SECRET];

    extract(tls->offer->salt[tls->resumed], share, tls->handshake);
    hash_of(&tls->transcript, hash);
    expand(tls->handshake, "c hs traffic", hash, tls->client, SECRET);
    expand(tls->handshake, "s hs traffic", hash, tls->server, SECRET);
    keys_start(&tls->read, tls->server);
}

static const uint8_t *find_share(struct tls *tls, const uint8_t *at, const uint8_t *end)
{
    const uint8_t *share = NULL;

    while (end - at >= 4) {
        size_t type = get16(at);
        size_t length = get16(at + 2);
        at += 4;
        if ((size_t)(end - at) < length)
            return NULL;
        if (type == PRE_SHARED_KEY)
            tls->resumed = true;
        else if (type == KEY_SHARE && length == 4 + SHARE)
            share = at + 4;
        at += length;
    }
    return share;
}

static enum tls_progress server_hello(struct tls *tls, const uint8_t *message, size_t length)
{
    const size_t fixed = 4 + 2 + 32 + 1 + 2 + 1 + 2; /* with no session id, for we sent none */

    if (length < fixed || message[0] != SERVER_HELLO || get16(message + 2) + 4 != length ||
        message[38] != 0 || get16(message + 39) != 0x1301)
        return TLS_BROKEN;
    const uint8_t *share = find_share(tls, message + fixed, message + length);
    if (!share)
        return TLS_BROKEN;
    SHA256_Update(&tls->transcript, message, length);
    agree(tls, share);
    tls->state = AWAIT_FINISHED;
    return TLS_MORE;
}

/* ---- our Finished ---- */

static void seal(struct tls *tls, struct keys *keys, enum record type, const uint8_t *body,
                 size_t length)
{
    uint8_t inner[64];
    uint8_t nonce[12];
    uint8_t *record = tls->out + tls->out_length;
    size_t sealed;

    memcpy(inner, body, length);
    inner[length] = (uint8_t)type;
    record[0] = RECORD_DATA;
    record[1] = 3;
    record[2] = 3;
    record[3] = 0;
    record[4] = (uint8_t)(length + 1 + TAG);
    keys_nonce(keys, nonce);
    (void)EVP_AEAD_CTX_seal(&keys->aead, record + RECORD_HEAD, &sealed,
                            OUTPUT_MOST - tls->out_length - RECORD_HEAD, nonce, 12, inner,
                            length + 1, record, RECORD_HEAD);
    tls->out_length += RECORD_HEAD + sealed;
}

/* Finished, and close_notify under the next keys. */
static void finish(struct tls *tls)
{
    static const uint8_t close_notify[2] = {1, 0};
    uint8_t hash[SECRET];
    uint8_t secret[SECRET];
    uint8_t finished[4 + SECRET] = {FINISHED, 0, 0, SECRET};
    struct keys write;

    hash_of(&tls->transcript, hash);
    expand(tls->client, "finished", NULL, secret, SECRET);
    hmac(secret, hash, SECRET, finished + 4);
    keys_start(&write, tls->client);
    seal(tls, &write, RECORD_HANDSHAKE, finished, sizeof(finished));
    EVP_AEAD_CTX_cleanup(&write.aead);

    derive_empty(tls->handshake, "derived", secret);
    extract(secret, NULL, tls->handshake); /* now the master secret */
    expand(tls->handshake, "c ap traffic", hash, tls->client, SECRET);
    expand(tls->handshake, "s ap traffic", hash, tls->server, SECRET);
    keys_start(&write, tls->client);
    seal(tls, &write, RECORD_ALERT, close_notify, sizeof(close_notify));
    EVP_AEAD_CTX_cleanup(&write.aead);
    EVP_AEAD_CTX_cleanup(&tls->read.aead);
    keys_start(&tls->read, tls->server);
    tls->state = AWAIT_ANSWER;
}

/* ---- records ---- */

/* Handshake messages up to the server's Finished, in whatever records they come. */
static enum tls_progress flight(struct tls *tls, const uint8_t *bytes, size_t n)
{
    SHA256_Update(&tls->transcript, bytes, n);
    while (n > 0) {
        if (tls->head < 4) {
            tls->message[tls->head++] = *bytes++;
            n--;
            tls->body =
                tls->head == 4 ? (size_t)tls->message[1] << 16 | get16(tls->message + 2) : 1;
        }
        size_t part = tls->head < 4 ? 0 : n < tls->body ? n : tls->body;
        bytes += part;
        n -= part;
        tls->body -= part;
        if (tls->head < 4 || tls->body > 0)
            continue;
        tls->head = 0;
        if (tls->message[0] == CERTIFICATE_REQUEST)
            return TLS_BROKEN;
        if (tls->message[0] == FINISHED) {
            finish(tls);
            return n == 0 ? TLS_MORE : TLS_BROKEN;
        }
    }
    return TLS_MORE;
}

static enum tls_progress alert(const uint8_t *body, size_t length)
{
    return length == 2 && body[1] == 0 ? TLS_DONE : TLS_ALERT;
}

static enum tls_progress opened(struct tls *tls, uint8_t *body, size_t length)
{
    while (length > 0 && body[length - 1] == 0)
        length--;
    if (length == 0)
        return TLS_BROKEN;
    enum record type = body[--length];
    if (tls->state == AWAIT_ANSWER)
        return type == RECORD_ALERT ? alert(body, length) : TLS_DONE;
    if (type == RECORD_ALERT)
        return TLS_ALERT;
    return type == RECORD_HANDSHAKE ? flight(tls, body, length) : TLS_BROKEN;
}

static enum tls_progress record(struct tls *tls, uint8_t *head, size_t length)
{
    uint8_t *body = head + RECORD_HEAD;
    uint8_t nonce[12];

    if (head[0] == RECORD_CCS)
        return TLS_MORE;
    if (head[0] == RECORD_ALERT)
        return TLS_ALERT;
    if (tls->state == AWAIT_HELLO)
        return head[0] == RECORD_HANDSHAKE ? server_hello(tls, body, length) : TLS_BROKEN;
    if (head[0] != RECORD_DATA)
        return TLS_BROKEN;
    keys_nonce(&tls->read, nonce);
    if (!EVP_AEAD_CTX_open(&tls->read.aead, body, &length, length, nonce, 12, body, length, head,
                           RECORD_HEAD))
        return TLS_BROKEN;
    return opened(tls, body, length);
}

/* What comes in one piece with the server's Finished is no answer to ours. */
enum tls_progress tls_received(struct tls *tls, size_t n)
{
    enum tls_progress progress = TLS_MORE;
    bool answers = tls->state == AWAIT_ANSWER;
    size_t at = 0;

    tls->got += n;
    while (progress == TLS_MORE && tls->got - at >= RECORD_HEAD) {
        size_t length = get16(tls->input + at + 3);
        if (RECORD_HEAD + length > INPUT_MOST)
            return TLS_BROKEN;
        if (tls->got - at < RECORD_HEAD + length)
            break;
        progress = record(tls, tls->input + at, length);
        if (progress == TLS_DONE && !answers)
            progress = TLS_MORE;
        at += RECORD_HEAD + length;
    }
    memmove(tls->input, tls->input + at, tls->got - at);
    tls->got -= at;
    return progress;
}
