/* The ClientHello: what it says is fixed, but for the ticket. */
#include <string.h>

#include "storm/secrets.h"
#include "storm/tls.h"

static const uint8_t before_extensions[] = {
    0x16, 3,   1,    0,    0, /* record: handshake, length to be filled in */
    1,    0,   0,    0,       /* ClientHello, length to be filled in */
    3,    3,   's',  't',  'o', 'r', 'm', ' ', 's', 't', 'o', 'r', 'm', ' ', 's', 't', 'o', 'r',
    'm',  ' ', 's',  't',  'o', 'r', 'm', ' ', 's', 't', 'o', 'r', 'm', ' ', 's', 't', /* random */
    0,                     /* no session id, hence no change_cipher_spec */
    0,    2,   0x13, 0x01, /* TLS_AES_128_GCM_SHA256 */
    1,    0,               /* no compression */
    0,    0,               /* length of extensions, to be filled in */
};
#define RECORD_LENGTH_AT 3
#define MESSAGE_AT 5
#define MESSAGE_LENGTH_AT 6
#define EXTENSIONS_LENGTH_AT (sizeof(before_extensions) - 2)

static const uint8_t extensions[] = {
    0, 0,  0, 14, 0, 12, 0, 0,   9,   'l', 'o', 'c', 'a', 'l', 'h', 'o', 's', 't', /* server_name */
    0, 16, 0, 11, 0, 9,  8, 'h', 't', 't', 'p', '/', '1', '.', '1',                /* ALPN */
    0, 43, 0, 3,  2, 3,  4,                                                        /* TLS 1.3 */
    0, 10, 0, 4,  0, 2,  0, 29,                                                    /* X25519 */
    0, 13, 0, 10, 0, 8,  4, 3,   8,   4,   4,   1,   5,   3,                       /* signatures */
    0, 45, 0, 2,  1, 1,                                                            /* psk_dhe_ke */
    0, 51, 0, 38, 0, 36, 0, 29,  0,   32,  9,   0,   0,   0,   0,   0,   0,   0, /* the base point */
    0, 0,  0, 0,  0, 0,  0, 0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0, 0, 0, 0, 0, 0,
};

/* pre_shared_key, the last one: type and length, one identity with its age, one binder. */
#define BINDERS (2 + 1 + SECRET)

static void put16(uint8_t *at, size_t value)
{
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

static void append(struct offer *offer, const void *bytes, size_t n)
{
    memcpy(offer->record + offer->length, bytes, n);
    offer->length += n;
}

static void append16(struct offer *offer, size_t value)
{
    put16(offer->record + offer->length, value);
    offer->length += 2;
}

/* Servers use the age to judge early data only, and there is none. */
static void append_identity(struct offer *offer, const struct resumption *resumption)
{
    static const uint8_t age[4];
    size_t identity = 2 + resumption->length + sizeof(age);

    append16(offer, 41);
    append16(offer, 2 + identity + BINDERS);
    append16(offer, identity);
    append16(offer, resumption->length);
    append(offer, resumption->ticket, resumption->length);
    append(offer, age, sizeof(age));
}

static void fill_in_lengths(struct offer *offer, size_t length)
{
    put16(offer->record + RECORD_LENGTH_AT, length - MESSAGE_AT);
    put16(offer->record + MESSAGE_LENGTH_AT + 1, length - MESSAGE_AT - 4);
    put16(offer->record + EXTENSIONS_LENGTH_AT, length - EXTENSIONS_LENGTH_AT - 2);
}

/* The binder signs everything before it, with the lengths as they will be. */
static void append_binder(struct offer *offer, const uint8_t early[SECRET])
{
    uint8_t binder[SECRET];
    uint8_t key[SECRET];
    uint8_t hash[SECRET];

    SHA256(offer->record + MESSAGE_AT, offer->length - MESSAGE_AT, hash);
    derive_empty(early, "res binder", binder);
    expand(binder, "finished", NULL, key, SECRET);
    hmac(key, hash, SECRET, binder);
    append16(offer, 1 + SECRET);
    append(offer, (const uint8_t[]){SECRET}, 1);
    append(offer, binder, SECRET);
}

void offer_make(struct offer *offer, const struct resumption *resumption)
{
    static const uint8_t zeros[SECRET];
    uint8_t early[SECRET];

    offer->length = 0;
    append(offer, before_extensions, sizeof(before_extensions));
    append(offer, extensions, sizeof(extensions));
    extract(zeros, NULL, early);
    derive_empty(early, "derived", offer->salt[0]);
    if (resumption) {
        append_identity(offer, resumption);
        fill_in_lengths(offer, offer->length + BINDERS);
        extract(zeros, resumption->secret, early);
        derive_empty(early, "derived", offer->salt[1]);
        append_binder(offer, early);
    } else {
        fill_in_lengths(offer, offer->length);
    }
    SHA256_Init(&offer->transcript);
    SHA256_Update(&offer->transcript, offer->record + MESSAGE_AT, offer->length - MESSAGE_AT);
}
