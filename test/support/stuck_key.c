#include "support/stuck_key.h"

#include <criterion/criterion.h>
#include <openssl/bn.h>
#include <openssl/engine.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>

static sem_t begun;
static sem_t released;
static atomic_bool makes;

static void wait_for(sem_t *semaphore)
{
    while (sem_wait(semaphore) != 0) {
    }
}

static int transform(RSA *rsa, uint8_t *out, const uint8_t *in, size_t n)
{
    (void)rsa;
    sem_post(&begun);
    wait_for(&released);
    memcpy(out, in, n);
    return atomic_load(&makes);
}

struct evp_pkey_st *stuck_key_new(void)
{
    static const RSA_METHOD method = {.common = {.is_static = 1}, .private_transform = transform};
    RSA *real = RSA_new();
    BIGNUM *e = BN_new();
    cr_assert(BN_set_word(e, RSA_F4) && RSA_generate_key_ex(real, 2048, e, NULL));
    ENGINE *engine = ENGINE_new();
    cr_assert(ENGINE_set_RSA_method(engine, &method, sizeof method));
    RSA *stuck = RSA_new_method(engine);
    cr_assert(RSA_set0_key(stuck, BN_dup(RSA_get0_n(real)), e, NULL));
    EVP_PKEY *key = EVP_PKEY_new();
    cr_assert(EVP_PKEY_assign_RSA(key, stuck));
    ENGINE_free(engine);
    RSA_free(real);
    sem_init(&begun, 0, 0);
    sem_init(&released, 0, 0);
    return key;
}

void stuck_key_wait_begun(void)
{
    wait_for(&begun);
}

void stuck_key_release(bool made)
{
    atomic_store(&makes, made);
    sem_post(&released);
}
