/* Five hundred handshakes by signer threads, half of them ended by one side at a random moment in a random way. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "support/certificate.h"
#include "support/transport_lab.h"
#include "transport/transport_internal.h"

#define HANDSHAKES 500
#define AT_ONCE 12

enum ending {
    NONE, /* established */
    CLIENT_CLOSES,
    CLIENT_RESETS,
    SERVER_CLOSES,
    SERVER_RESETS,
    SERVER_SAYS_ALERT,
    ENDING__COUNT,
};

struct handshake {
    struct lab_end server;
    struct lab_end client;
    enum ending ending;
    uint64_t at; /* when it ends, of the loop's clock */
    bool used;
};

static struct lab lab;
static uint64_t seed;
static struct wr_tls_server *server_tls;
static struct wr_tls_client *client_tls;
static _Atomic uint64_t signed_here;
static unsigned good;
static unsigned cut_while_signing;

static unsigned below(unsigned n)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(seed >> 33) % n;
}

static void start(struct handshake *handshake)
{
    int a;
    int b;
    *handshake = (struct handshake){.used = true};
    handshake->ending = below(2) == 0 ? NONE : 1 + below(ENDING__COUNT - 1);
    handshake->at = wr_time_monotonic() + below(12000);
    lab_tcp_pair(&a, &b);
    lab_accept(&lab, &handshake->server, a, server_tls);
    lab_adopt(&lab, &handshake->client, b, client_tls);
}

static void cut(struct handshake *handshake)
{
    struct wr_transport **server = &handshake->server.transport;
    cut_while_signing += (*server)->gate == WR_GATE_SIGNING;
    lab.no_events = true;
    switch (handshake->ending) {
    case CLIENT_CLOSES:
    case CLIENT_RESETS:
        (handshake->ending == CLIENT_CLOSES ? wr_transport_close
                                            : wr_transport_reset)(handshake->client.transport);
        handshake->client.transport = NULL;
        break;
    case SERVER_SAYS_ALERT:
        if (wr_transport_state(*server) == WR_TRANSPORT_HANDSHAKE) {
            wr_transport_refuse(*server, WR_REFUSE_ALERT);
            break;
        }
        /* fall through */
    default:
        (handshake->ending == SERVER_RESETS ? wr_transport_reset : wr_transport_close)(*server);
        *server = NULL;
        break;
    }
    lab.no_events = false;
}

static bool is_over(const struct handshake *handshake)
{
    const struct lab_end *server = &handshake->server;
    const struct lab_end *client = &handshake->client;
    switch (handshake->ending) {
    case NONE:
        return server->established == 1 && client->established == 1;
    case CLIENT_CLOSES:
    case CLIENT_RESETS:
        return client->transport == NULL && server->closes + server->read_ends > 0;
    default:
        return (server->transport == NULL || server->flushes > 0) &&
               client->closes + client->read_ends > 0;
    }
}

static void step(struct handshake *handshake, unsigned *left)
{
    bool whole = handshake->server.transport != NULL && handshake->client.transport != NULL &&
                 handshake->server.transport->output == WR_OUTPUT_OPEN;
    if (!handshake->used) {
        if (*left == 0)
            return;
        (*left)--;
        start(handshake);
    } else if (is_over(handshake)) {
        good += handshake->ending == NONE;
        lab_end_free(&handshake->server);
        lab_end_free(&handshake->client);
        handshake->used = false;
    } else if (handshake->ending != NONE && whole && handshake->at <= wr_time_monotonic()) {
        cut(handshake);
    }
}

static unsigned run(void)
{
    static struct handshake handshakes[AT_ONCE];
    unsigned left = HANDSHAKES;
    unsigned used = AT_ONCE;
    uint64_t until = wr_time_monotonic() + 80 * WR_SEC;
    while ((left > 0 || used > 0) && wr_time_monotonic() < until) {
        used = 0;
        for (int i = 0; i < AT_ONCE; i++) {
            step(&handshakes[i], &left);
            used += handshakes[i].used;
        }
        wr_loop_turn(lab.loop, below(3) == 0 ? WR_MSEC : 0);
    }
    return left + used;
}

static void storm(struct wr_signers_options options)
{
    struct wr_metrics_registry *registry = wr_metrics_registry_new();
    struct wr_mailbox *mailbox;
    struct wr_signers *signers;
    lab_open(&lab);
    cr_assert_eq(wr_mailbox_new(lab.loop, &mailbox), WR_OK);
    cr_assert_eq(wr_signers_new(&options, registry, &signers), WR_OK);
    const struct wr_transport_host_options host = {
        .signers = signers, .mailbox = mailbox, .signed_here = &signed_here};
    wr_transport_host_free(lab.host);
    cr_assert_eq(wr_transport_host_new(lab.loop, &host, &lab.host), WR_OK);
    certificate_make_of("rsa:2048", lab.dir, "", "DNS:localhost");
    server_tls = lab_server(&lab, false, NULL, 0);
    client_tls = lab_client(&lab, NULL, NULL, 0);

    cr_expect_eq(run(), 0, "handshakes that did not come to an end");
    cr_expect_gt(good, HANDSHAKES / 4);
    cr_expect_gt(cut_while_signing, 0, "none was cut while its signature was under way");

    wr_signers_stop(signers);
    wr_mailbox_free(mailbox);
    wr_loop_turn(lab.loop, 0);
    wr_signers_free(signers);
    wr_tls_server_release(server_tls);
    wr_tls_client_release(client_tls);
    lab_close(&lab);
    wr_metrics_registry_free(registry);
}

Test(transport_signer_random, one_signer, .timeout = 100)
{
    seed = 1;
    storm((struct wr_signers_options){.threads = 1});
    cr_expect_eq(signed_here, 0);
}

Test(transport_signer_random, two_signers_and_a_queue_that_is_often_full, .timeout = 100)
{
    seed = 2;
    storm((struct wr_signers_options){.threads = 2, .queue = 2});
    cr_expect_gt(signed_here, 0);
}
