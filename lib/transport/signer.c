#include "transport/signer.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>
#include <openssl/ssl.h>

#include "base/assert.h"
#include "base/list.h"
#include "base/mem.h"
#include "base/time.h"

#define QUEUE_A_THREAD \
    256 /* above what the default limit of pending handshakes lets a worker order */

struct signer {
    struct wr_signers *pool;
    struct wr_worker_metrics *metrics; /* of this thread alone */
    pthread_t thread;
    unsigned index;
};

struct wr_signers {
    bool all_keys;
    size_t queue_most;
    pthread_mutex_t lock; /* of what follows, and of the links of the queued */
    pthread_cond_t filled;
    struct wr_list queue; /* oldest first */
    size_t queue_length;
    bool stopped;
    unsigned running; /* of the owner's thread: started and not joined */
    struct signer signers[];
};

/* Once it is out of the queue the signer alone has it until the mail is run, save for DROPPED. */
struct wr_signing {
    struct wr_signers *pool;
    struct wr_list link; /* in the queue, or in none */
    struct wr_mail mail;
    struct wr_mailbox *mailbox;
    void (*done)(void *owner);
    void *owner;
    bool told;    /* of the loop's thread: DONE was called */
    bool dropped; /* of the loop's thread: nobody waits for the mail */
    bool made;
    uint64_t queued_at;
    struct wr_signature_order order; /* its input is in BYTES */
    size_t signature_length;
    size_t room;
    uint8_t bytes[]; /* input, then ROOM for the signature */
};

/* ---- signatures ---- */

/* RFC 8446 section 4.2.3: PSS is salted with as many bytes as the digest has. */
static bool prepare(EVP_MD_CTX *context, const struct wr_signature_order *order)
{
    EVP_PKEY_CTX *key;
    const EVP_MD *digest = SSL_get_signature_algorithm_digest(order->algorithm);
    if (!EVP_DigestSignInit(context, &key, digest, NULL, order->key))
        return false;
    return !SSL_is_signature_algorithm_rsa_pss(order->algorithm) ||
           (EVP_PKEY_CTX_set_rsa_padding(key, RSA_PKCS1_PSS_PADDING) &&
            EVP_PKEY_CTX_set_rsa_pss_saltlen(key, -1));
}

bool wr_sign(const struct wr_signature_order *order, uint8_t *out, size_t room, size_t *length)
{
    EVP_MD_CTX context;
    EVP_MD_CTX_init(&context);
    *length = room;
    bool made = prepare(&context, order) &&
                EVP_DigestSign(&context, out, length, order->input, order->input_length);
    EVP_MD_CTX_cleanup(&context);
    if (!made)
        ERR_clear_error();
    return made;
}

/* ---- signings ---- */

static void signing_free(struct wr_signing *signing)
{
    EVP_PKEY_free(signing->order.key);
    free(signing);
}

static void run_done(struct wr_mail *mail)
{
    struct wr_signing *signing = WR_CONTAINER_OF(mail, struct wr_signing, mail);
    if (signing->dropped) {
        signing_free(signing);
        return;
    }
    signing->told = true;
    signing->done(signing->owner);
}

static struct wr_signing *signing_new(struct wr_signers *pool,
                                      const struct wr_signature_order *order)
{
    size_t room = (size_t)EVP_PKEY_size(order->key);
    struct wr_signing *signing = wr_new_zero(1, sizeof(*signing) + order->input_length + room);
    signing->pool = pool;
    signing->mail.run = run_done;
    signing->order = *order;
    signing->room = room;
    EVP_PKEY_up_ref(order->key);
    memcpy(signing->bytes, order->input, order->input_length);
    signing->order.input = signing->bytes;
    wr_list_init(&signing->link);
    return signing;
}

static bool enqueue(struct wr_signers *pool, struct wr_signing *signing)
{
    pthread_mutex_lock(&pool->lock);
    bool room = !pool->stopped && pool->queue_length < pool->queue_most;
    if (room) {
        wr_list_push_back(&pool->queue, &signing->link);
        pool->queue_length++;
    }
    pthread_mutex_unlock(&pool->lock);
    if (room)
        pthread_cond_signal(&pool->filled);
    return room;
}

/* False: a signer has it, or has had it. */
static bool dequeue(struct wr_signing *signing)
{
    struct wr_signers *pool = signing->pool;
    pthread_mutex_lock(&pool->lock);
    bool queued = !wr_list_empty(&signing->link);
    if (queued) {
        wr_list_remove(&signing->link);
        pool->queue_length--;
    }
    pthread_mutex_unlock(&pool->lock);
    return queued;
}

struct wr_signing *wr_signers_submit(struct wr_signers *signers,
                                     const struct wr_signature_order *order,
                                     struct wr_mailbox *mailbox, void (*done)(void *owner),
                                     void *owner)
{
    if (signers == NULL || !(signers->all_keys || EVP_PKEY_id(order->key) == EVP_PKEY_RSA))
        return NULL;
    struct wr_signing *signing = signing_new(signers, order);
    signing->mailbox = mailbox;
    signing->done = done;
    signing->owner = owner;
    signing->queued_at = wr_time_monotonic();
    if (!enqueue(signers, signing)) {
        signing_free(signing);
        return NULL;
    }
    return signing;
}

bool wr_signing_result(const struct wr_signing *signing, uint8_t *out, size_t room, size_t *length)
{
    WR_ASSERT(signing->told);
    if (!signing->made || signing->signature_length > room)
        return false;
    memcpy(out, signing->bytes + signing->order.input_length, signing->signature_length);
    *length = signing->signature_length;
    return true;
}

void wr_signing_drop(struct wr_signing *signing)
{
    if (signing == NULL)
        return;
    if (signing->told || dequeue(signing))
        signing_free(signing);
    else
        signing->dropped = true;
}

/* ---- threads ---- */

/* The oldest; NULL: it is over. */
static struct wr_signing *take(struct wr_signers *pool)
{
    pthread_mutex_lock(&pool->lock);
    while (!pool->stopped && wr_list_empty(&pool->queue))
        pthread_cond_wait(&pool->filled, &pool->lock);
    struct wr_list *link = pool->stopped ? NULL : wr_list_pop_front(&pool->queue);
    if (link != NULL)
        pool->queue_length--;
    pthread_mutex_unlock(&pool->lock);
    return link != NULL ? WR_CONTAINER_OF(link, struct wr_signing, link) : NULL;
}

static void *run(void *arg)
{
    struct signer *signer = arg;
    struct wr_signing *signing;
    char name[16];
    (void)snprintf(name, sizeof(name), "weir-s%u", signer->index);
    (void)pthread_setname_np(pthread_self(), name);
    while ((signing = take(signer->pool)) != NULL) {
        wr_histogram_record(&signer->metrics->signer_wait,
                            wr_time_monotonic() - signing->queued_at);
        signing->made = wr_sign(&signing->order, signing->bytes + signing->order.input_length,
                                signing->room, &signing->signature_length);
        wr_metric_inc(&signer->metrics->signatures[WR_SIGNED_BY_SIGNER]);
        wr_mailbox_post(signing->mailbox, &signing->mail); /* the loop's from here on */
    }
    return NULL;
}

static enum wr_err start(struct wr_signers *pool, unsigned threads,
                         struct wr_metrics_registry *registry)
{
    for (unsigned i = 0; i < threads; i++) {
        struct signer *signer = &pool->signers[i];
        signer->pool = pool;
        signer->index = i;
        signer->metrics = wr_metrics_new_worker(registry);
        wr_metric_set(&signer->metrics->signers, 1);
        if (pthread_create(&signer->thread, NULL, run, signer) != 0)
            return WR_ERR_SYSTEM;
        pool->running++;
    }
    return WR_OK;
}

enum wr_err wr_signers_new(const struct wr_signers_options *options,
                           struct wr_metrics_registry *registry, struct wr_signers **out)
{
    *out = NULL;
    if (options->threads == 0)
        return WR_OK;
    struct wr_signers *pool =
        wr_new_zero(1, sizeof(*pool) + options->threads * sizeof(struct signer));
    pool->all_keys = options->all_keys;
    pool->queue_most =
        options->queue > 0 ? options->queue : (size_t)options->threads * QUEUE_A_THREAD;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->filled, NULL);
    wr_list_init(&pool->queue);
    enum wr_err err = start(pool, options->threads, registry);
    if (err != WR_OK) {
        wr_signers_stop(pool);
        wr_signers_free(pool);
        return err;
    }
    *out = pool;
    return WR_OK;
}

void wr_signers_stop(struct wr_signers *signers)
{
    if (signers == NULL)
        return;
    pthread_mutex_lock(&signers->lock);
    signers->stopped = true;
    pthread_mutex_unlock(&signers->lock);
    pthread_cond_broadcast(&signers->filled);
    for (; signers->running > 0; signers->running--)
        (void)pthread_join(signers->signers[signers->running - 1].thread, NULL);
}

void wr_signers_free(struct wr_signers *signers)
{
    if (signers == NULL)
        return;
    WR_ASSERT(signers->running == 0 && wr_list_empty(&signers->queue));
    pthread_cond_destroy(&signers->filled);
    pthread_mutex_destroy(&signers->lock);
    free(signers);
}
