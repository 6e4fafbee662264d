/* Signer threads: every algorithm, the queue and its limit, signings given up at every moment. */
#include "transport/signer.h"

#include <criterion/criterion.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "support/stuck_key.h"

#define MESSAGES_MOST 600

static struct wr_loop *loop;
static struct wr_mailbox *mailbox;
static struct wr_metrics_registry *registry;
static struct wr_signers *signers;
static EVP_PKEY *rsa;
static EVP_PKEY *p256;
static EVP_PKEY *stuck;
static unsigned told[MESSAGES_MOST];
static unsigned told_count;

static EVP_PKEY *new_key(int type)
{
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_id(type, NULL);
    EVP_PKEY *key = NULL;
    cr_assert(EVP_PKEY_keygen_init(context));
    if (type == EVP_PKEY_EC)
        cr_assert(EVP_PKEY_CTX_set_ec_paramgen_curve_nid(context, NID_X9_62_prime256v1));
    cr_assert(EVP_PKEY_keygen(context, &key));
    EVP_PKEY_CTX_free(context);
    return key;
}

static void set_up(void)
{
    cr_assert_eq(wr_loop_new(WR_CLOCK_MONOTONIC, &loop), WR_OK);
    cr_assert_eq(wr_mailbox_new(loop, &mailbox), WR_OK);
    registry = wr_metrics_registry_new();
    signers = NULL;
    rsa = new_key(EVP_PKEY_RSA);
    p256 = new_key(EVP_PKEY_EC);
    stuck = stuck_key_new();
    told_count = 0;
}

static void tear_down(void)
{
    wr_signers_stop(signers);
    wr_mailbox_free(mailbox);
    wr_signers_free(signers);
    wr_loop_free(loop);
    wr_metrics_registry_free(registry);
    EVP_PKEY_free(rsa);
    EVP_PKEY_free(p256);
    EVP_PKEY_free(stuck);
}

TestSuite(signer, .init = set_up, .fini = tear_down, .timeout = 60);

static void start(struct wr_signers_options options)
{
    cr_assert_eq(wr_signers_new(&options, registry, &signers), WR_OK);
}

static double metric(const char *sample)
{
    char *text = wr_metrics_render(registry, &(size_t){0});
    char *at = strstr(text, sample);
    double value = at != NULL ? strtod(at + strlen(sample), NULL) : -1;
    free(text);
    return value;
}

#define MADE "\nweir_signatures_total{where=\"signer\"} "

static void on_done(void *owner)
{
    cr_assert_lt(told_count, MESSAGES_MOST);
    told[told_count++] = *(unsigned *)owner;
}

static struct wr_signature_order order_of(EVP_PKEY *key, uint16_t algorithm)
{
    static const uint8_t input[] = "what is to be signed";
    return (struct wr_signature_order){key, algorithm, input, sizeof input};
}

static struct wr_signing *submit(EVP_PKEY *key, uint16_t algorithm, unsigned *number)
{
    struct wr_signature_order order = order_of(key, algorithm);
    return wr_signers_submit(signers, &order, mailbox, on_done, number);
}

static void wait_told(unsigned count)
{
    uint64_t until = wr_time_monotonic() + 20 * WR_SEC;
    while (told_count < count && wr_time_monotonic() < until)
        wr_loop_turn(loop, 10 * WR_MSEC);
    cr_assert_eq(told_count, count);
}

/* The one thread of the pool is busy from here to stuck_key_release(). */
static struct wr_signing *hold_up(void)
{
    static unsigned number = 999;
    struct wr_signing *signing = submit(stuck, SSL_SIGN_RSA_PKCS1_SHA256, &number);
    cr_assert_not_null(signing);
    stuck_key_wait_begun();
    return signing;
}

static bool verifies(EVP_PKEY *key, uint16_t algorithm, const uint8_t *signature, size_t n)
{
    struct wr_signature_order order = order_of(key, algorithm);
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    EVP_PKEY_CTX *pkey;
    cr_assert(EVP_DigestVerifyInit(context, &pkey, SSL_get_signature_algorithm_digest(algorithm),
                                   NULL, key));
    if (SSL_is_signature_algorithm_rsa_pss(algorithm))
        cr_assert(EVP_PKEY_CTX_set_rsa_padding(pkey, RSA_PKCS1_PSS_PADDING) &&
                  EVP_PKEY_CTX_set_rsa_pss_saltlen(pkey, -1));
    bool good = EVP_DigestVerify(context, signature, n, order.input, order.input_length);
    EVP_MD_CTX_free(context);
    return good;
}

static void expect_signature(EVP_PKEY *key, uint16_t algorithm)
{
    uint8_t out[1024];
    size_t n = 0;
    unsigned number = algorithm;
    struct wr_signature_order order = order_of(key, algorithm);
    cr_assert(wr_sign(&order, out, sizeof out, &n));
    cr_expect(verifies(key, algorithm, out, n), "%x here", algorithm);
    memset(out, 0, sizeof out);
    told_count = 0;
    struct wr_signing *signing = submit(key, algorithm, &number);
    cr_assert_not_null(signing);
    wait_told(1);
    cr_assert(wr_signing_result(signing, out, sizeof out, &n));
    wr_signing_drop(signing);
    cr_expect(verifies(key, algorithm, out, n), "%x by a signer", algorithm);
    out[n / 2] ^= 1;
    cr_expect_not(verifies(key, algorithm, out, n), "%x: the check is none", algorithm);
}

Test(signer, every_algorithm)
{
    EVP_PKEY *ed25519 = new_key(EVP_PKEY_ED25519);
    start((struct wr_signers_options){.threads = 1, .all_keys = true});
    expect_signature(rsa, SSL_SIGN_RSA_PKCS1_SHA256);
    expect_signature(rsa, SSL_SIGN_RSA_PKCS1_SHA384);
    expect_signature(rsa, SSL_SIGN_RSA_PKCS1_SHA512);
    expect_signature(rsa, SSL_SIGN_RSA_PSS_RSAE_SHA256);
    expect_signature(rsa, SSL_SIGN_RSA_PSS_RSAE_SHA384);
    expect_signature(rsa, SSL_SIGN_RSA_PSS_RSAE_SHA512);
    expect_signature(p256, SSL_SIGN_ECDSA_SECP256R1_SHA256);
    expect_signature(p256, SSL_SIGN_ECDSA_SECP384R1_SHA384); /* TLS 1.2: any curve */
    expect_signature(ed25519, SSL_SIGN_ED25519);
    EVP_PKEY_free(ed25519);
}

Test(signer, what_cannot_be_made_is_said)
{
    uint8_t out[1024];
    size_t n;
    unsigned number = 1;
    struct wr_signature_order order = order_of(p256, SSL_SIGN_RSA_PSS_RSAE_SHA256);
    start((struct wr_signers_options){.threads = 1, .all_keys = true});
    cr_expect_not(wr_sign(&order, out, sizeof out, &n));
    order = order_of(rsa, SSL_SIGN_RSA_PSS_RSAE_SHA256);
    cr_expect_not(wr_sign(&order, out, 255, &n), "no room");
    struct wr_signing *bad = submit(p256, SSL_SIGN_RSA_PSS_RSAE_SHA256, &number);
    struct wr_signing *good = submit(rsa, SSL_SIGN_RSA_PSS_RSAE_SHA256, &number);
    wait_told(2);
    cr_expect_not(wr_signing_result(bad, out, sizeof out, &n));
    cr_expect_not(wr_signing_result(good, out, 255, &n), "no room");
    cr_expect(wr_signing_result(good, out, 256, &n));
    wr_signing_drop(bad);
    wr_signing_drop(good);
}

Test(signer, no_pool_and_no_such_key)
{
    unsigned number = 1;
    start((struct wr_signers_options){.threads = 0, .all_keys = true});
    cr_assert_null(signers);
    cr_expect_null(submit(rsa, SSL_SIGN_RSA_PKCS1_SHA256, &number));
    start((struct wr_signers_options){.threads = 2});
    cr_expect_eq(metric("\nweir_signers "), 2);
    cr_expect_null(submit(p256, SSL_SIGN_ECDSA_SECP256R1_SHA256, &number));
    struct wr_signing *signing = submit(rsa, SSL_SIGN_RSA_PKCS1_SHA256, &number);
    cr_assert_not_null(signing);
    wait_told(1);
    wr_signing_drop(signing);
    wr_signing_drop(NULL);
    cr_expect_eq(metric(MADE), 1);
    cr_expect_eq(metric("\nweir_signer_wait_seconds_count "), 1);
}

Test(signer, a_full_queue_takes_no_more)
{
    unsigned numbers[] = {0, 1, 2};
    start((struct wr_signers_options){.threads = 1, .queue = 2});
    struct wr_signing *held = hold_up();
    struct wr_signing *first = submit(rsa, SSL_SIGN_RSA_PKCS1_SHA256, &numbers[0]);
    struct wr_signing *second = submit(rsa, SSL_SIGN_RSA_PKCS1_SHA256, &numbers[1]);
    cr_assert(first != NULL && second != NULL);
    cr_expect_null(submit(rsa, SSL_SIGN_RSA_PKCS1_SHA256, &numbers[2]));
    wr_signing_drop(second); /* makes room */
    struct wr_signing *third = submit(rsa, SSL_SIGN_RSA_PKCS1_SHA256, &numbers[2]);
    cr_assert_not_null(third);
    stuck_key_release(true);
    wait_told(3);
    cr_expect(told[0] == 999 && told[1] == 0 && told[2] == 2, "oldest first");
    cr_expect_eq(metric(MADE), 3, "the one given up was not made");
    wr_signing_drop(held);
    wr_signing_drop(first);
    wr_signing_drop(third);
}

Test(signer, given_up_while_it_is_made)
{
    unsigned number = 7;
    start((struct wr_signers_options){.threads = 1});
    wr_signing_drop(hold_up());
    stuck_key_release(true);
    struct wr_signing *next = submit(rsa, SSL_SIGN_RSA_PKCS1_SHA256, &number);
    wait_told(1);
    cr_expect_eq(told[0], 7, "nothing is told of the one given up");
    wr_signing_drop(next);
}

/* The mail of the first lies in the mailbox, the second is being made, the third waits. */
Test(signer, stopped_with_work_at_every_stage)
{
    unsigned numbers[] = {0, 1, 2};
    start((struct wr_signers_options){.threads = 1});
    struct wr_signing *made = submit(rsa, SSL_SIGN_RSA_PKCS1_SHA256, &numbers[0]);
    struct wr_signing *held = hold_up();
    struct wr_signing *waits = submit(rsa, SSL_SIGN_RSA_PKCS1_SHA256, &numbers[1]);
    stuck_key_release(true);
    wr_signers_stop(signers);
    cr_expect_null(submit(rsa, SSL_SIGN_RSA_PKCS1_SHA256, &numbers[2]));
    wr_mailbox_free(mailbox);
    mailbox = NULL;
    cr_expect_geq(told_count, 2);
    cr_expect(told[0] == 0 && told[1] == 999);
    wr_signing_drop(made);
    wr_signing_drop(held);
    wr_signing_drop(waits);
}

static void expect_good(struct wr_signing *signing)
{
    uint8_t out[128];
    size_t n;
    cr_assert(wr_signing_result(signing, out, sizeof out, &n));
    cr_assert(verifies(p256, SSL_SIGN_ECDSA_SECP256R1_SHA256, out, n));
    wr_signing_drop(signing);
}

Test(signer, two_threads_and_many_signings_half_of_them_given_up)
{
    static unsigned numbers[MESSAGES_MOST];
    static struct wr_signing *signings[MESSAGES_MOST];
    unsigned kept = 0;
    start((struct wr_signers_options){.threads = 2, .all_keys = true, .queue = MESSAGES_MOST});
    for (unsigned i = 0; i < MESSAGES_MOST; i++) {
        numbers[i] = i;
        signings[i] = submit(p256, SSL_SIGN_ECDSA_SECP256R1_SHA256, &numbers[i]);
        cr_assert_not_null(signings[i]);
        if (i % 2 == 1) {
            wr_signing_drop(signings[i - i % 3 / 2]);
            signings[i - i % 3 / 2] = NULL;
        }
        if (i % 50 == 0)
            wr_loop_turn(loop, 0);
    }
    for (unsigned i = 0; i < MESSAGES_MOST; i++)
        kept += signings[i] != NULL;
    uint64_t until = wr_time_monotonic() + 20 * WR_SEC;
    for (unsigned i = 0; kept > 0 && wr_time_monotonic() < until; wr_loop_turn(loop, WR_MSEC)) {
        for (; i < told_count; i++) {
            struct wr_signing *signing = signings[told[i]];
            if (signing == NULL) /* told, and given up later */
                continue;
            expect_good(signing);
            signings[told[i]] = NULL;
            kept--;
        }
    }
    cr_expect_eq(kept, 0);
}
