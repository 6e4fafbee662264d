/* weir with signer threads and an RSA key: storms of clients that stay, go and time out while signatures are made, and the ends
 * of the process in the middle of one. */
#include <criterion/criterion.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/certificate.h"
#include "support/edge.h"
#include "support/flood.h"

#define THREADS 8
#define FULL "weir_handshakes_full_total{listener=\"edge\"}"
#define BY_SIGNERS "weir_signatures_total{where=\"signer\"}"
#define BY_WORKERS "weir_signatures_total{where=\"worker\"}"

static char dir[] = "/tmp/weir-signers-XXXXXX";

static struct weir *start(const char *kind, const char *signers, const char *timeouts)
{
    char tls[256];
    struct edge_options options = {
        .workers = 2,
        .admission = "max_pending_handshakes: infinity",
        .timeouts = timeouts,
        .tls = tls,
        .own_certificates = true,
        .more = signers,
    };
    cr_assert_not_null(mkdtemp(dir));
    certificate_make_of(kind, dir, "", "DNS:localhost");
    (void)snprintf(tls, sizeof(tls), "certificates: [{chain: %s/cert.pem, key: %s/key.pem}]", dir,
                   dir);
    return edge_start(&options);
}

static void clean_up(void)
{
    char command[64];
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", dir);
    (void)!system(command);
}

TestSuite(signers, .fini = clean_up, .timeout = 240);

/* ---- clients ---- */

struct storm {
    int port;
    unsigned total; /* UINT_MAX: until STOP */
    atomic_uint next;
    atomic_uint served; /* handshakes that the client saw finished, and an answer */
    atomic_bool stop;
    uint8_t hello[FLOOD_HELLO_MAX];
    size_t hello_n;
    pthread_t threads[THREADS];
};

static void stay(struct storm *storm, unsigned index)
{
    const struct peer_tls old = {.max_version = 0x0303};
    struct peer *peer = peer_connect_tls(storm->port, index % 4 == 0 ? &old : NULL);
    if (peer && peer_say(peer, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")) {
        struct reply reply = peer_reply(peer, false);
        if (reply.status == 200 && reply.whole)
            atomic_fetch_add(&storm->served, 1);
        reply_free(&reply);
    }
    peer_free(peer);
}

/* Behind its ClientHello: at once or some milliseconds later, by FIN or RST. */
static void go(struct storm *storm, unsigned index)
{
    int fd = flood_connect(storm->port, index);
    if (fd < 0)
        return;
    (void)flood_send(fd, storm->hello, storm->hello_n);
    if (index % 3)
        edge_nap((int)(index % 11));
    if (index % 2)
        flood_reset(fd);
    else
        (void)close(fd);
}

static void *run(void *arg)
{
    struct storm *storm = arg;
    unsigned index;
    while (!atomic_load(&storm->stop) &&
           (index = atomic_fetch_add(&storm->next, 1)) < storm->total) {
        if ((index * 2654435761u >> 16) % 2)
            stay(storm, index);
        else
            go(storm, index);
    }
    return NULL;
}

static struct storm *begin(const struct weir *weir, unsigned total)
{
    struct storm *storm = calloc(1, sizeof(*storm));
    storm->port = weir_port(weir, "edge");
    storm->total = total;
    storm->hello_n = flood_hello(storm->hello, NULL);
    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&storm->threads[i], NULL, run, storm), 0);
    return storm;
}

static void end(struct storm *storm)
{
    for (int i = 0; i < THREADS; i++)
        (void)pthread_join(storm->threads[i], NULL);
}

static unsigned stayed(unsigned total)
{
    unsigned n = 0;
    for (unsigned i = 0; i < total; i++)
        n += (i * 2654435761u >> 16) % 2;
    return n;
}

/* ---- tests ---- */

Test(signers, all_who_stay_are_served_and_signed_for_by_signers)
{
    unsigned total = edge_is_slow() ? 300 : 1500;
    struct weir *weir = start("rsa:2048", "signers: 2\n", "handshake: 1h, client_hello: 1h");
    struct storm *storm = begin(weir, total);
    end(storm);
    cr_expect_eq(atomic_load(&storm->served), stayed(total));
    edge_expect_balance(weir, total, 0);
    cr_expect_eq(weir_metric(weir, "weir_signers"), 2);
    cr_expect_eq(weir_metric(weir, FULL), stayed(total));
    cr_expect_geq(weir_metric(weir, BY_SIGNERS), stayed(total));
    cr_expect_leq(weir_metric(weir, BY_SIGNERS), total);
    cr_expect_eq(weir_metric(weir, BY_WORKERS), 0, "the queue was never full");
    cr_expect_eq(weir_metric(weir, "weir_signer_wait_seconds_count"),
                 weir_metric(weir, BY_SIGNERS));
    cr_expect_eq(weir_metric(weir, "weir_handshakes_running{listener=\"edge\"}"), 0);
    cr_expect(edge_serves(weir));
    weir_stop(weir);
    free(storm);
}

/* The time of many is over while they wait for a signature. */
Test(signers, timeouts_while_signatures_are_made)
{
    unsigned total = edge_is_slow() ? 300 : 1000;
    struct weir *weir = start("rsa:4096", "signers: 1\n", "handshake: 15ms, client_hello: 15ms");
    struct storm *storm = begin(weir, total);
    end(storm);
    edge_expect_balance(weir, total, 0);
    cr_expect_gt(edge_refused(weir, "handshake_timeout"), 0);
    cr_expect_gt(weir_metric(weir, BY_SIGNERS), 0);
    cr_expect_eq(weir_metric(weir, "weir_handshakes_running{listener=\"edge\"}"), 0);
    weir_stop(weir);
    free(storm);
}

static void expect_signers(const char *kind, const char *signers, double threads, const char *where)
{
    struct weir *weir = start(kind, signers, NULL);
    cr_expect(edge_serves(weir));
    cr_expect_eq(weir_metric(weir, "weir_signers"), threads);
    cr_expect_eq(weir_metric(weir, where), 1);
    weir_stop(weir);
}

Test(signers, off)
{
    expect_signers("rsa:2048", "signers: off\n", 0, BY_WORKERS);
}

Test(signers, a_number_is_for_all_keys)
{
    expect_signers("ec -pkeyopt ec_paramgen_curve:P-256", "signers: 3\n", 3, BY_SIGNERS);
}

/* A client that is at it when SIGTERM comes may finish; then all ends in good order. */
Test(signers, drained_in_a_storm)
{
    struct weir *weir = start("rsa:4096", "signers: 2\n", NULL);
    struct storm *storm = begin(weir, UINT_MAX);
    while (weir_metric(weir, BY_SIGNERS) < 20)
        edge_nap(5);
    cr_expect_eq(weir_wait(weir, SIGTERM, edge_ms(20000)), 0);
    atomic_store(&storm->stop, true);
    end(storm);
    weir_stop(weir);
    free(storm);
}

/* Cut off: signatures are waiting, being made and in the mailboxes when everything is taken down. */
Test(signers, ended_at_once_in_a_storm)
{
    struct weir *weir = start("rsa:4096", "signers: 1\n", "handshake: 1h, client_hello: 1h");
    struct storm *storm = begin(weir, UINT_MAX);
    while (weir_metric(weir, BY_SIGNERS) < 20)
        edge_nap(5);
    (void)kill(weir_pid(weir), SIGTERM);
    int status = weir_wait(weir, SIGINT, edge_ms(20000));
    cr_expect(status == 0 || status == 3, "ended with %d", status);
    atomic_store(&storm->stop, true);
    end(storm);
    weir_stop(weir);
    free(storm);
}
