/* Gate 3 over real TLS: handshakes that stand still while a signer thread works, and all that can happen meanwhile. */
#include <criterion/criterion.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/time.h"
#include "support/certificate.h"
#include "support/stuck_key.h"
#include "support/transport_lab.h"
#include "transport/transport_internal.h"

#define NAMES "DNS:localhost"
#define MADE "\nweir_signatures_total{where=\"signer\"} "

static struct lab lab;
static struct lab_end server;
static struct lab_end client;
static struct wr_tls_server *server_tls;
static struct wr_tls_client *client_tls;
static struct wr_metrics_registry *registry;
static struct wr_mailbox *mailbox;
static struct wr_signers *signers;
static _Atomic uint64_t signed_here;
static EVP_PKEY *stuck; /* NULL: not made yet */
static struct wr_signing *held;
static int peer; /* the raw socket opposite SERVER, or -1 */

static void set_up(void)
{
    lab_open(&lab);
    server = (struct lab_end){0};
    client = (struct lab_end){0};
    registry = wr_metrics_registry_new();
    cr_assert_eq(wr_mailbox_new(lab.loop, &mailbox), WR_OK);
    signers = NULL;
    stuck = NULL;
    held = NULL;
    peer = -1;
    server_tls = NULL;
    client_tls = NULL;
    signed_here = 0;
}

/* In the order of the process: threads, mail, transports, pool. */
static void tear_down(void)
{
    wr_signers_stop(signers);
    wr_mailbox_free(mailbox);
    wr_signing_drop(held);
    lab_end_free(&server);
    lab_end_free(&client);
    wr_loop_turn(lab.loop, 0);
    wr_signers_free(signers);
    if (peer >= 0)
        close(peer);
    wr_tls_server_release(server_tls);
    wr_tls_client_release(client_tls);
    EVP_PKEY_free(stuck);
    wr_metrics_registry_free(registry);
    lab_close(&lab);
}

TestSuite(transport_signer, .init = set_up, .fini = tear_down, .timeout = 100);

/* A host with signers as OPTIONS say, and a server with a key of KIND (NULL: the lab's P-256). */
static void begin(struct wr_signers_options options, const char *kind)
{
    cr_assert_eq(wr_signers_new(&options, registry, &signers), WR_OK);
    const struct wr_transport_host_options host = {
        .signers = signers,
        .mailbox = mailbox,
        .signed_here = &signed_here,
    };
    wr_transport_host_free(lab.host);
    cr_assert_eq(wr_transport_host_new(lab.loop, &host, &lab.host), WR_OK);
    if (kind != NULL)
        certificate_make_of(kind, lab.dir, "", NAMES);
    server_tls = lab_server(&lab, true, NULL, 0);
    client_tls = lab_client(&lab, NULL, NULL, 0);
}

#define ONE ((struct wr_signers_options){.threads = 1})
#define RSA_2048 "rsa:2048"

/* Only 1.2 is offered from now on. */
static void old_version_only(void)
{
    char chain[128];
    char key[128];
    char error[WR_TLS_ERROR_TEXT];
    (void)snprintf(chain, sizeof chain, "%s/cert.pem", lab.dir);
    (void)snprintf(key, sizeof key, "%s/key.pem", lab.dir);
    struct wr_tls_certificate_options certificate = {.chain_path = chain, .key_path = key};
    struct wr_tls_server_options options = {
        .certificates = &certificate,
        .certificate_count = 1,
        .min_version = WR_TLS_1_2,
        .max_version = WR_TLS_1_2,
    };
    wr_tls_server_release(server_tls);
    cr_assert_eq(wr_tls_server_new(&options, error, &server_tls), WR_OK, "%s", error);
}

static double made_by_signers(void)
{
    char *text = wr_metrics_render(registry, &(size_t){0});
    char *at = strstr(text, MADE);
    double value = at != NULL ? strtod(at + strlen(MADE), NULL) : -1;
    free(text);
    return value;
}

static void nobody(void *owner)
{
    (void)owner;
}

/* The one signer is busy until stuck_key_release(). */
static void hold_up(void)
{
    static const uint8_t input[] = "x";
    if (stuck == NULL)
        stuck = stuck_key_new();
    const struct wr_signature_order order = {stuck, SSL_SIGN_RSA_PKCS1_SHA256, input, 1};
    held = wr_signers_submit(signers, &order, mailbox, nobody, NULL);
    cr_assert_not_null(held);
    stuck_key_wait_begun();
}

static void connect_pair(struct lab_end *a, struct lab_end *b)
{
    int fds[2];
    lab_tcp_pair(&fds[0], &fds[1]);
    lab_accept(&lab, a, fds[0], server_tls);
    lab_adopt(&lab, b, fds[1], client_tls);
}

static void connect_until_signing(void)
{
    connect_pair(&server, &client);
    LAB_WAIT(&lab, server.transport->gate == WR_GATE_SIGNING);
}

/* SERVER's own signature is at the signer when this returns, and stays there until stuck_key_release(). */
static void connect_until_being_made(void)
{
    stuck = stuck_key_new();
    server.verdict = WR_GATE_WAIT;
    connect_pair(&server, &client);
    LAB_WAIT(&lab, server.hellos == 1);
    SSL *any = wr_tls_server_ssl(server_tls);
    SSL_CTX *context = SSL_get_SSL_CTX(any);
    SSL_free(any);
    void *key = SSL_CTX_get_app_data(context);
    SSL_CTX_set_app_data(context, stuck);
    LAB_CALL(&lab, wr_transport_admit(server.transport));
    LAB_WAIT(&lab, server.transport->gate == WR_GATE_SIGNING);
    SSL_CTX_set_app_data(context, key);
    stuck_key_wait_begun();
}

static void expect_echo(struct lab_end *a, struct lab_end *b)
{
    size_t before = b->got_length;
    a->echo = true;
    wr_transport_write(b->transport, "ping", 4);
    LAB_WAIT(&lab, b->got_length == before + 4);
}

/* ---- handshakes that succeed ---- */

static void expect_handshake(const char *version, unsigned by_signers)
{
    struct wr_tls_info info;
    double before = made_by_signers();
    uint64_t here = signed_here;
    connect_pair(&server, &client);
    LAB_WAIT(&lab, client.established == 1 && server.established == 1);
    cr_assert(wr_transport_tls_info(client.transport, &info));
    cr_expect_str_eq(info.version, version);
    expect_echo(&server, &client);
    cr_expect_eq(made_by_signers(), before + by_signers);
    cr_expect_eq(signed_here, here + 1 - by_signers);
    cr_expect_null(server.transport->signing);
    lab_end_free(&server);
    lab_end_free(&client);
    server = (struct lab_end){0};
    client = (struct lab_end){0};
}

static void expect_both_versions(const char *kind, bool all_keys, unsigned by_signers)
{
    begin((struct wr_signers_options){.threads = 1, .all_keys = all_keys}, kind);
    expect_handshake("TLSv1.3", by_signers);
    old_version_only();
    expect_handshake("TLSv1.2", by_signers);
}

Test(transport_signer, rsa_2048)
{
    expect_both_versions(RSA_2048, false, 1);
}

Test(transport_signer, rsa_4096)
{
    expect_both_versions("rsa:4096", false, 1);
}

Test(transport_signer, p256_when_all_keys_are_meant)
{
    expect_both_versions(NULL, true, 1);
}

Test(transport_signer, p256_else)
{
    expect_both_versions(NULL, false, 0);
}

Test(transport_signer, a_resumed_session_needs_no_signature)
{
    begin(ONE, RSA_2048);
    expect_handshake("TLSv1.3", 1);
    double before = made_by_signers();
    connect_pair(&server, &client);
    LAB_WAIT(&lab, client.established == 1 && server.established == 1);
    struct wr_tls_info info;
    cr_assert(wr_transport_tls_info(client.transport, &info));
    cr_expect(info.resumed);
    cr_expect_eq(made_by_signers(), before);
    cr_expect_eq(signed_here, 0);
}

Test(transport_signer, others_go_on_meanwhile)
{
    struct lab_end server2 = {0};
    struct lab_end client2 = {0};
    begin(ONE, RSA_2048);
    connect_pair(&server2, &client2);
    LAB_WAIT(&lab, client2.established == 1 && server2.established == 1);
    hold_up();
    wr_tls_client_release(client_tls); /* without the session */
    client_tls = lab_client(&lab, NULL, NULL, 0);
    connect_until_signing();
    expect_echo(&server2, &client2);
    lab_settle(&lab);
    cr_expect_eq(server.transport->gate, WR_GATE_SIGNING);
    cr_expect_eq(server.established + client.established, 0);
    stuck_key_release(true);
    LAB_WAIT(&lab, client.established == 1 && server.established == 1);
    expect_echo(&server, &client);
    lab_end_free(&server2);
    lab_end_free(&client2);
}

Test(transport_signer, a_full_queue_is_gone_round)
{
    struct lab_end server2 = {0};
    struct lab_end client2 = {0};
    begin((struct wr_signers_options){.threads = 1, .queue = 1}, RSA_2048);
    hold_up();
    connect_until_signing();
    connect_pair(&server2, &client2);
    LAB_WAIT(&lab, client2.established == 1 && server2.established == 1);
    cr_expect_eq(signed_here, 1);
    cr_expect_eq(server.transport->gate, WR_GATE_SIGNING);
    stuck_key_release(true);
    LAB_WAIT(&lab, client.established == 1 && server.established == 1);
    cr_expect_eq(signed_here, 1);
    lab_end_free(&server2);
    lab_end_free(&client2);
}

Test(transport_signer, after_the_pool_has_stopped_the_loop_signs)
{
    begin(ONE, RSA_2048);
    wr_signers_stop(signers);
    connect_pair(&server, &client);
    LAB_WAIT(&lab, client.established == 1 && server.established == 1);
    cr_expect_eq(signed_here, 1);
}

/* ---- handshakes that end meanwhile ---- */

/* Whatever becomes of the transport: the signer is alive, and the next handshake is done by it. */
static void expect_signer_alive(double made)
{
    lab_end_free(&server);
    lab_end_free(&client);
    stuck_key_release(true);
    server = (struct lab_end){0};
    client = (struct lab_end){0};
    connect_pair(&server, &client);
    LAB_WAIT(&lab, client.established == 1 && server.established == 1);
    cr_expect_eq(made_by_signers(), made + 1);
    cr_expect_eq(signed_here, 0);
}

static void client_goes(void (*go)(struct wr_transport *transport), bool being_made)
{
    begin(ONE, RSA_2048);
    if (being_made) {
        connect_until_being_made();
    } else {
        hold_up();
        connect_until_signing();
    }
    LAB_CALL(&lab, go(client.transport));
    client.transport = NULL;
    LAB_WAIT(&lab, server.closes == 1);
    cr_expect(server.why == WR_ERR_CLIENT_CLOSED || server.why == WR_ERR_CLIENT_RESET);
    cr_expect_eq(server.established, 0);
    expect_signer_alive(1); /* the held one, or the one being made; not the one in the queue */
}

Test(transport_signer, the_client_closes_while_its_signature_waits)
{
    client_goes(wr_transport_close, false);
}

Test(transport_signer, the_client_resets_while_its_signature_waits)
{
    client_goes(wr_transport_reset, false);
}

Test(transport_signer, the_client_closes_while_its_signature_is_made)
{
    client_goes(wr_transport_close, true);
}

Test(transport_signer, the_client_resets_while_its_signature_is_made)
{
    client_goes(wr_transport_reset, true);
}

/* As at a handshake timeout. */
static void owner_closes(bool being_made)
{
    begin(ONE, RSA_2048);
    if (being_made) {
        connect_until_being_made();
    } else {
        hold_up();
        connect_until_signing();
    }
    LAB_CALL(&lab, wr_transport_refuse(server.transport, WR_REFUSE_RESET));
    server.transport = NULL;
    LAB_WAIT(&lab, client.closes == 1);
    expect_signer_alive(1);
    cr_expect_eq(server.closes, 0);
}

Test(transport_signer, closed_while_the_signature_waits)
{
    owner_closes(false);
}

Test(transport_signer, closed_while_the_signature_is_made)
{
    owner_closes(true);
}

static void owner_says_alert(bool old_version, bool being_made)
{
    begin(ONE, RSA_2048);
    if (old_version)
        old_version_only();
    if (being_made) {
        connect_until_being_made();
    } else {
        hold_up();
        connect_until_signing();
    }
    LAB_CALL(&lab, wr_transport_refuse(server.transport, WR_REFUSE_ALERT));
    cr_expect_null(server.transport->signing);
    LAB_WAIT(&lab, client.closes == 1 && server.flushes == 1);
    cr_expect_str_eq(client.detail, "internal error");
    if (being_made) { /* nothing comes of it, though the transport is still there */
        stuck_key_release(true);
        lab_settle(&lab);
    }
    expect_signer_alive(1);
}

Test(transport_signer, refused_by_alert_while_the_signature_waits)
{
    owner_says_alert(false, false);
}

Test(transport_signer, refused_by_alert_while_the_signature_is_made)
{
    owner_says_alert(false, true);
}

Test(transport_signer, refused_by_alert_in_tls_1_2)
{
    owner_says_alert(true, false);
}

Test(transport_signer, a_signature_that_cannot_be_made_fails_the_handshake)
{
    begin(ONE, RSA_2048);
    connect_until_being_made();
    stuck_key_release(false);
    LAB_WAIT(&lab, server.closes == 1 && client.closes == 1);
    cr_expect_eq(server.why, WR_ERR_TLS_FAILED);
    cr_expect_eq(server.established + client.established, 0);
}

Test(transport_signer, a_signature_that_is_wrong_is_noticed_by_the_client)
{
    begin(ONE, RSA_2048);
    connect_until_being_made();
    stuck_key_release(true);
    LAB_WAIT(&lab, server.closes == 1 && client.closes == 1);
    cr_expect_eq(client.why, WR_ERR_UPSTREAM_TLS_FAILED);
    cr_expect_eq(server.established, 0);
}

/* ---- input meanwhile ---- */

Test(transport_signer, what_comes_meanwhile_is_looked_at_afterwards)
{
    uint8_t hello[4096];
    int fds[2];
    struct lab_end end = {0};
    begin(ONE, RSA_2048);
    lab_tcp_pair(&fds[0], &fds[1]);
    lab_adopt(&lab, &end, fds[1], client_tls);
    lab_settle(&lab);
    ssize_t n = recv(fds[0], hello, sizeof hello, 0);
    cr_assert_gt(n, 100);
    close(fds[0]);
    lab_end_free(&end);

    hold_up();
    lab_tcp_pair(&fds[0], &peer);
    lab_accept(&lab, &server, fds[0], server_tls);
    cr_assert_eq(send(peer, hello, (size_t)n, MSG_NOSIGNAL), n);
    LAB_WAIT(&lab, server.transport->gate == WR_GATE_SIGNING);
    cr_assert_eq(send(peer, "no record", 9, MSG_NOSIGNAL), 9);
    lab_settle(&lab);
    cr_expect_eq(server.closes, 0);
    cr_expect_eq(wr_transport_bytes_received(server.transport), (uint64_t)n, "left in the kernel");
    stuck_key_release(true);
    LAB_WAIT(&lab, server.closes == 1);
    cr_expect_eq(server.why, WR_ERR_TLS_FAILED);
}

/* ---- the end of the process ---- */

#define LEFT 6

/* Mail in the mailbox, a signature at the signer, more in the queue: all is taken down in the order of the process. */
Test(transport_signer, shut_down_in_the_middle)
{
    struct lab_end ends[2 * LEFT] = {0};
    begin((struct wr_signers_options){.threads = 1}, RSA_2048);
    for (int i = 0; i < LEFT; i++) {
        connect_pair(&ends[2 * i], &ends[2 * i + 1]);
        LAB_WAIT(&lab,
                 ends[2 * i].transport->gate >= WR_GATE_SIGNING || ends[2 * i].established == 1);
        if (i == LEFT / 2)
            hold_up();
    }
    stuck_key_release(true);
    wr_signers_stop(signers);
    wr_mailbox_free(mailbox);
    mailbox = NULL;
    for (int i = 0; i < 2 * LEFT; i++)
        lab_end_free(&ends[i]);
    wr_loop_turn(lab.loop, 0);
}
