/* What a client costs at gate 1: a ClientHello that is admitted (and its whole handshake), refused, or waits and is dropped.
 * CPU time of the server's loop turns alone, kernel included; the client is the bare library in between. For instructions, of
 * line 1 of 0 to 3 and 500 clients:
 *
 *     valgrind --tool=callgrind --toggle-collect=serve .build/release/bin/gate 100 1
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <openssl/ec_key.h>
#include <openssl/nid.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

#include "transport/transport.h"

#define ROUNDS 5
#define NSEC_A_SEC 1000000000ull

enum fate { FULL, RESET, ALERT, WAIT };

struct server {
    struct wr_loop *loop;
    struct wr_transport_host *host;
    struct wr_tls_server *tls;
    struct wr_transport *transport;
    enum fate fate;
    bool over;
    uint64_t spent; /* nanoseconds */
};

static void must(bool ok, const char *what)
{
    if (ok)
        return;
    (void)fprintf(stderr, "gate: %s\n", what);
    exit(1);
}

/* ---- the server ---- */

static enum wr_gate_verdict on_client_hello(void *owner, const struct wr_client_hello *hello)
{
    struct server *server = owner;
    (void)hello;
    if (server->fate == FULL)
        return WR_GATE_ADMIT;
    server->over = true;
    if (server->fate == WAIT)
        return WR_GATE_WAIT;
    wr_transport_refuse(server->transport,
                        server->fate == RESET ? WR_REFUSE_RESET : WR_REFUSE_ALERT);
    return WR_GATE_REFUSE;
}

static void on_established(void *owner)
{
    ((struct server *)owner)->over = true;
}

static void on_closed(void *owner, enum wr_err why, const char *detail)
{
    (void)owner, (void)why;
    must(false, detail);
}

static const struct wr_transport_events events = {
    .client_hello = on_client_hello, .established = on_established, .closed = on_closed};

static uint64_t now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * NSEC_A_SEC + (uint64_t)t.tv_nsec;
}

void serve(struct server *server);

__attribute__((noinline)) void serve(struct server *server)
{
    uint64_t before = now();
    (void)wr_loop_turn(server->loop, 0);
    server->spent += now() - before;
}

/* ---- one client ---- */

static void pair(int *a, int *b)
{
    struct wr_address address;
    must(wr_address_parse(WR_STR("127.0.0.1:0"), &address) == WR_OK, "address");
    int listener;
    must(wr_socket_listen(&address, &(struct wr_listen_options){0}, &listener) == WR_OK, "listen");
    must(getsockname(listener, (struct sockaddr *)&address.storage, &address.length) == 0, "name");
    *b = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    must(connect(*b, (struct sockaddr *)&address.storage, address.length) == 0, "connect");
    *a = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    must(*a >= 0, "accept");
    close(listener);
}

static void run_one(struct server *server, SSL_CTX *context)
{
    static uint8_t bytes[65536];
    int a;
    int peer;
    pair(&a, &peer);
    SSL *ssl = SSL_new(context);
    SSL_set_connect_state(ssl);
    SSL_set_bio(ssl, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    BIO_set_mem_eof_return(SSL_get_rbio(ssl), -1);
    must(wr_transport_accept(server->host, a, server->tls, (struct wr_transport_counters){0},
                             &events, server, &server->transport) == WR_OK,
         "accept");
    (void)wr_loop_turn(server->loop, 0);
    for (server->over = false; !server->over;) {
        (void)SSL_do_handshake(ssl);
        int n = BIO_read(SSL_get_wbio(ssl), bytes, sizeof bytes);
        must(n <= 0 || send(peer, bytes, (size_t)n, MSG_NOSIGNAL) == n, "send");
        serve(server);
        ssize_t got = recv(peer, bytes, sizeof bytes, MSG_DONTWAIT);
        if (got > 0)
            (void)BIO_write(SSL_get_rbio(ssl), bytes, (int)got);
    }
    if (server->fate != RESET)
        wr_transport_close(server->transport);
    serve(server);
    close(peer);
    SSL_free(ssl);
}

/* ---- all of them ---- */

static void make_certificate(const char *chain, const char *key)
{
    EC_KEY *ec = EC_KEY_new_by_curve_name(NID_X9_62_prime256v1);
    EVP_PKEY *pkey = EVP_PKEY_new();
    X509 *x509 = X509_new();
    FILE *chain_file = fopen(chain, "we");
    FILE *key_file = fopen(key, "we");
    must(chain_file != NULL && key_file != NULL, "files");
    must(EC_KEY_generate_key(ec) && EVP_PKEY_assign_EC_KEY(pkey, ec) &&
             X509_set_version(x509, X509_VERSION_3) && X509_set_pubkey(x509, pkey) &&
             X509_gmtime_adj(X509_getm_notBefore(x509), 0) != NULL &&
             X509_gmtime_adj(X509_getm_notAfter(x509), 3600) != NULL &&
             X509_sign(x509, pkey, EVP_sha256()) > 0 && PEM_write_X509(chain_file, x509) &&
             PEM_write_PrivateKey(key_file, pkey, NULL, NULL, 0, NULL, NULL),
         "certificate");
    (void)fclose(chain_file);
    (void)fclose(key_file);
    X509_free(x509);
    EVP_PKEY_free(pkey);
}

static void open_server(struct server *server)
{
    char dir[] = "/tmp/weir-gate-XXXXXX";
    char chain[64];
    char key[64];
    char error[WR_TLS_ERROR_TEXT] = "";
    must(mkdtemp(dir) != NULL, "folder");
    (void)snprintf(chain, sizeof chain, "%s/cert.pem", dir);
    (void)snprintf(key, sizeof key, "%s/key.pem", dir);
    make_certificate(chain, key);
    struct wr_tls_certificate_options certificate = {.chain_path = chain, .key_path = key};
    struct wr_tls_server_options options = {.certificates = &certificate,
                                            .certificate_count = 1,
                                            .min_version = WR_TLS_1_2,
                                            .max_version = WR_TLS_1_3,
                                            .tickets = true};
    must(wr_tls_server_new(&options, error, &server->tls) == WR_OK, error);
    (void)unlink(chain);
    (void)unlink(key);
    (void)rmdir(dir);
    must(wr_loop_new(WR_CLOCK_MONOTONIC, &server->loop) == WR_OK, "loop");
    must(wr_transport_host_new(server->loop, NULL, &server->host) == WR_OK, "host");
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"full handshake", "refused by reset", "refused by alert",
                                        "waits, then dropped"};
    long count = argc > 1 ? strtol(argv[1], NULL, 10) : 1000;
    long only = argc > 2 ? strtol(argv[2], NULL, 10) : -1;
    struct server server = {.loop = NULL};
    SSL_CTX *context = SSL_CTX_new(TLS_method());
    must(count > 0 && context != NULL, "usage: gate [clients a round [which line]]");
    open_server(&server);
    for (int fate = 0; fate <= WAIT; fate++) {
        uint64_t best = UINT64_MAX;
        if (only >= 0 && fate != only)
            continue;
        server.fate = (enum fate)fate;
        for (int round = 0; round < ROUNDS; round++) {
            server.spent = 0;
            for (long i = 0; i < count; i++)
                run_one(&server, context);
            best = server.spent < best ? server.spent : best;
        }
        printf("%-20s %7.2f us\n", names[fate], (double)best / (double)count / 1000);
    }
    wr_transport_host_free(server.host);
    wr_loop_free(server.loop);
    wr_tls_server_release(server.tls);
    SSL_CTX_free(context);
    return 0;
}
