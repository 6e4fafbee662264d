/* What an idle connection of HTTP/2 over TLS keeps, awake and asleep, and what sleep and waking cost: CPU time, kernel included.
 * The server is weir's transport and codec, without the layers above; its clients are another process. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <openssl/ec_key.h>
#include <openssl/nid.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

#include "base/mem.h"
#include "codec/h2_server_internal.h"

#define ROUNDS 5
#define NSEC_A_SEC 1000000000ull
#define FIRST_FEW 50 /* connections that what all share is ready after */

struct bench {
    struct wr_loop *loop;
    struct wr_transport_host *host;
    struct wr_tls_server *tls;
    struct wr_exchange_host exchanges;
    struct wr_worker_metrics worker_metrics;
    struct wr_listener_metrics metrics;
    struct wr_server_codec_options options;
    struct wr_client_info client;
    struct connection *connections;
    size_t count;
    size_t served;
};

struct connection {
    struct bench *bench;
    struct wr_transport *transport;
    struct wr_server_codec *codec;
};

static void must(bool ok, const char *what)
{
    if (ok)
        return;
    (void)fprintf(stderr, "hibernation: %s\n", what);
    exit(1);
}

/* ---- clients ---- */

struct field {
    const char *name;
    const char *value;
};

static const struct field of_a_tool[] = {{":method", "GET"},
                                         {":scheme", "https"},
                                         {":authority", "bench.test"},
                                         {":path", "/"},
                                         {NULL, NULL}};
static const struct field of_a_browser[] = {
    {":method", "GET"},
    {":scheme", "https"},
    {":authority", "www.bench.test"},
    {":path", "/static/js/app.12345678.js"},
    {"user-agent", "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) "
                   "Chrome/120.0.0.0 Safari/537.36"},
    {"accept", "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,"
               "*/*;q=0.8"},
    {"accept-encoding", "gzip, deflate, br"},
    {"accept-language", "en-US,en;q=0.9"},
    {"cookie", "session=9f8a7d6c5b4a39281706f5e4d3c2b1a0; theme=dark"},
    {"sec-ch-ua", "\"Not_A Brand\";v=\"8\", \"Chromium\";v=\"120\""},
    {"sec-ch-ua-mobile", "?0"},
    {"sec-ch-ua-platform", "\"Linux\""},
    {"sec-fetch-site", "none"},
    {"sec-fetch-mode", "navigate"},
    {"sec-fetch-dest", "document"},
    {"upgrade-insecure-requests", "1"},
    {"referer", "https://www.bench.test/"},
    {NULL, NULL}};

static uint8_t *put_text(uint8_t *p, const char *text)
{
    size_t n = strlen(text);
    *p++ = (uint8_t)n; /* below 127 */
    memcpy(p, text, n);
    return p + n;
}

/* Preface, SETTINGS, their acknowledgement, and one request whose fields go into the table (RFC 7541 section 6.2.1). */
static size_t make_request(uint8_t *out, const struct field *fields)
{
    static const char greeting[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
                                   "\0\0\0\4\0\0\0\0\0"
                                   "\0\0\0\4\1\0\0\0\0";
    uint8_t *head = out + sizeof(greeting) - 1;
    uint8_t *p = head + 9;
    memcpy(out, greeting, sizeof(greeting) - 1);
    for (; fields->name != NULL; fields++) {
        *p++ = 0x40;
        p = put_text(put_text(p, fields->name), fields->value);
    }
    size_t n = (size_t)(p - head - 9);
    const uint8_t frame[9] = {0, (uint8_t)(n >> 8), (uint8_t)n, 1, 5, 0, 0, 0, 1};
    memcpy(head, frame, sizeof(frame));
    return (size_t)(p - out);
}

/* Stays until FINISH is closed. */
static void be_clients(const struct wr_address *address, const struct field *fields, size_t count,
                       int finish)
{
    static uint8_t request[4096];
    size_t n = make_request(request, fields);
    SSL_CTX *context = SSL_CTX_new(TLS_method());
    for (size_t i = 0; i < count; i++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        must(connect(fd, (const struct sockaddr *)&address->storage, address->length) == 0,
             "connect");
        SSL *ssl = SSL_new(context);
        must(SSL_set_fd(ssl, fd) == 1 && SSL_connect(ssl) == 1, "handshake");
        must(SSL_write(ssl, request, (int)n) == (int)n, "request");
        SSL_free(ssl); /* the descriptor stays */
    }
    must(read(finish, request, 1) == 0, "end");
    _exit(0);
}

/* ---- the server ---- */

static void on_finished(void *handler)
{
    ((struct bench *)handler)->served++;
}

static void on_exchange(void *owner, struct wr_exchange *exchange)
{
    static const struct wr_exchange_handler handler = {.finished = on_finished};
    static const struct wr_source_ops source = {.room = NULL};
    struct connection *connection = owner;
    struct wr_head *head = wr_arena_alloc(&exchange->arena, sizeof(*head));
    wr_exchange_set_handler(exchange, &handler, connection->bench);
    wr_head_init(head);
    head->status = 404;
    wr_message_set_source(&exchange->response, &source, exchange);
    wr_message_head(&exchange->response, head, WR_HEAD_LAST);
}

static void on_phase(void *owner)
{
    (void)owner;
}

static void on_done(void *owner, enum wr_err why)
{
    (void)owner, (void)why;
    must(false, "a connection ended");
}

static void on_established(void *owner)
{
    static const struct wr_server_codec_events events = {.exchange = on_exchange,
                                                         .head_begun = on_phase,
                                                         .head_complete = on_phase,
                                                         .idle = on_phase,
                                                         .done = on_done,
                                                         .woken = on_phase};
    struct connection *connection = owner;
    struct bench *bench = connection->bench;
    connection->codec = wr_h2_server_new(connection->transport, &bench->options, &bench->exchanges,
                                         &bench->client, &events, connection);
}

static void accept_one(struct bench *bench, int listener)
{
    static const struct wr_transport_events events = {.established = on_established};
    struct connection *connection = &bench->connections[bench->count];
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0)
        return;
    connection->bench = bench;
    must(wr_transport_accept(bench->host, fd, bench->tls, (struct wr_transport_counters){0},
                             &events, connection, &connection->transport) == WR_OK,
         "accept");
    bench->count++;
}

/* Until so many connections had their answer. */
static void serve(struct bench *bench, int listener, size_t count)
{
    while (bench->served < count) {
        if (bench->count < count)
            accept_one(bench, listener);
        (void)wr_loop_turn(bench->loop, 0);
    }
    (void)wr_loop_turn(bench->loop, 0);
}

/* ---- making ---- */

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

static struct wr_tls_server *make_tls(void)
{
    char dir[] = "/tmp/weir-hibernation-XXXXXX";
    char chain[64];
    char key[64];
    char error[WR_TLS_ERROR_TEXT] = "";
    struct wr_tls_server *tls;
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
    must(wr_tls_server_new(&options, error, &tls) == WR_OK, error);
    (void)unlink(chain);
    (void)unlink(key);
    (void)rmdir(dir);
    return tls;
}

static void open_bench(struct bench *bench, size_t count)
{
    *bench = (struct bench){.tls = make_tls()};
    must(wr_loop_new(WR_CLOCK_MONOTONIC, &bench->loop) == WR_OK, "loop");
    must(wr_transport_host_new(bench->loop, NULL, &bench->host) == WR_OK, "host");
    wr_exchange_host_init(&bench->exchanges);
    bench->exchanges.loop = bench->loop;
    bench->exchanges.chunks = wr_transport_host_chunks(bench->host);
    bench->exchanges.worker_metrics = &bench->worker_metrics;
    bench->exchanges.metrics = &bench->metrics;
    bench->exchanges.content_limit = 65536;
    bench->client.tls_version = "";
    bench->connections = wr_new_zero(count, sizeof(*bench->connections));
    bench->options = (struct wr_server_codec_options){
        .head_limit = 16384,
        .uri_limit = 8192,
        .fields_limit = 100,
        .head_timeout = WR_NEVER,
        .max_requests = UINT64_MAX,
        .h2 = {.max_concurrent_streams = 100,
               .connection_window = 1024 * 1024,
               .header_table_size = 4096},
    };
    for (unsigned i = 0; i < WR_FLOOD__COUNT; i++)
        bench->options.h2.budgets[i] = (struct wr_h2_budget){1000, 100};
}

/* ---- measuring ---- */

static uint64_t now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * NSEC_A_SEC + (uint64_t)t.tv_nsec;
}

/* Of /proc/self/status, in KiB. */
static double kib(const char *what)
{
    char line[256];
    double n = 0;
    FILE *file = fopen("/proc/self/status", "re");
    must(file != NULL, "status");
    while (fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, what, strlen(what)) == 0)
            n = strtod(line + strlen(what), NULL);
    }
    (void)fclose(file);
    return n;
}

static struct wr_h2_session *session_of(const struct connection *connection)
{
    return &WR_CONTAINER_OF(connection->codec, struct wr_h2_server, base)->session;
}

static double sleep_all(const struct bench *bench)
{
    uint64_t before = now();
    for (size_t i = 0; i < bench->count; i++) {
        struct wr_server_codec *codec = bench->connections[i].codec;
        must(codec->ops->hibernate(codec) == WR_HIBERNATION_DONE, "hibernation");
    }
    return (double)(now() - before) / (double)bench->count / 1000;
}

static double wake_all(const struct bench *bench)
{
    uint64_t before = now();
    for (size_t i = 0; i < bench->count; i++)
        (void)wr_h2_session_ng(session_of(&bench->connections[i]));
    return (double)(now() - before) / (double)bench->count / 1000;
}

static double packed(const struct bench *bench)
{
    size_t sum = 0;
    for (size_t i = 0; i < bench->count; i++)
        sum += session_of(&bench->connections[i])->arena.packed_size;
    return (double)sum / (double)bench->count;
}

static void measure(const struct field *fields, const char *who, size_t count)
{
    static struct bench bench;
    struct wr_address address;
    int listener;
    int finish[2];
    open_bench(&bench, count);
    must(wr_address_parse(WR_STR("127.0.0.1:0"), &address) == WR_OK, "address");
    must(wr_socket_listen(&address, &(struct wr_listen_options){0}, &listener) == WR_OK, "listen");
    must(getsockname(listener, (struct sockaddr *)&address.storage, &address.length) == 0, "name");
    must(pipe(finish) == 0, "pipe");
    pid_t clients = fork();
    must(clients >= 0, "fork");
    if (clients == 0) {
        close(finish[1]);
        be_clients(&address, fields, count, finish[0]);
    }
    serve(&bench, listener, FIRST_FEW);
    double first = kib("VmRSS:");
    double tables = kib("VmPTE:");
    double each = (double)(count - FIRST_FEW) / 1024;
    serve(&bench, listener, count);
    printf("%s, %zu connections: %.0f bytes each awake", who, count,
           (kib("VmRSS:") - first) / each);
    double slept = sleep_all(&bench);
    printf(", %.0f asleep (%.0f of them the session), page tables %.0f\n",
           (kib("VmRSS:") - first) / each, packed(&bench), (kib("VmPTE:") - tables) / each);
    double best = slept;
    double best_wake = 1e9;
    for (unsigned round = 0; round < ROUNDS; round++) {
        double woke = wake_all(&bench);
        slept = sleep_all(&bench);
        best = slept < best ? slept : best;
        best_wake = woke < best_wake ? woke : best_wake;
    }
    printf("    to sleep %.1f us, to wake %.1f us\n", best, best_wake);
    (void)fflush(stdout);
    close(finish[1]);
    (void)waitpid(clients, NULL, 0);
    _exit(0);
}

int main(int argc, char **argv)
{
    long count = argc > 1 ? strtol(argv[1], NULL, 10) : 2000;
    must(count > FIRST_FEW, "usage: hibernation [connections, more than 50]");
    for (int browser = 0; browser <= 1; browser++) {
        pid_t child = fork();
        must(child >= 0, "fork");
        if (child == 0)
            measure(browser ? of_a_browser : of_a_tool, browser ? "browsers" : "tools",
                    (size_t)count);
        int status;
        must(waitpid(child, &status, 0) == child && status == 0, "measuring");
    }
    return 0;
}
