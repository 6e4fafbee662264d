#include "support/transport_lab.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/time.h"
#include "support/certificate.h"

/* ---- the owner ---- */

static bool told(struct lab_end *end, unsigned *count, enum lab_close_in where)
{
    cr_assert_not(end->lab->no_events, "nested in a call of the owner");
    cr_assert_not_null(end->transport, "called after close");
    (*count)++;
    if (end->close_in != where)
        return false;
    wr_transport_close(end->transport);
    end->transport = NULL;
    return true;
}

static void on_first_byte(void *owner)
{
    struct lab_end *end = owner;
    (void)told(end, &end->first_bytes, LAB_CLOSE_FIRST_BYTE);
}

static enum wr_gate_verdict on_client_hello(void *owner, const struct wr_client_hello *hello)
{
    struct lab_end *end = owner;
    end->claims_resumption = hello->claims_resumption;
    (void)snprintf(end->sni, sizeof end->sni, "%.*s", WR_STR_ARG(hello->sni));
    end->alpn_length = hello->alpn.n < sizeof end->alpn ? hello->alpn.n : sizeof end->alpn;
    memcpy(end->alpn, hello->alpn.p, end->alpn_length);
    if (told(end, &end->hellos, LAB_CLOSE_HELLO))
        return WR_GATE_REFUSE;
    if (end->refuse_in_hello == 0)
        return end->verdict;
    enum wr_refuse_with how = (enum wr_refuse_with)(end->refuse_in_hello - 1);
    wr_transport_refuse(end->transport, how);
    if (how != WR_REFUSE_ALERT)
        end->transport = NULL;
    return WR_GATE_REFUSE;
}

static void on_established(void *owner)
{
    struct lab_end *end = owner;
    (void)told(end, &end->established, LAB_CLOSE_ESTABLISHED);
}

static size_t on_readable(void *owner, const uint8_t *p, size_t n)
{
    struct lab_end *end = owner;
    cr_assert_gt(n, 0);
    size_t taken = end->take > 0 && end->take < n ? end->take : n;
    end->got = wr_resize(end->got, end->got_length + taken);
    memcpy(end->got + end->got_length, p, taken);
    end->got_length += taken;
    if (told(end, &end->readable_calls, LAB_CLOSE_READABLE))
        return n;
    if (end->take > 0)
        wr_transport_pause(end->transport, WR_PAUSE_FULL);
    if (end->echo)
        wr_transport_write(end->transport, p, taken);
    return taken;
}

static void on_read_end(void *owner, bool clean)
{
    struct lab_end *end = owner;
    end->clean = clean;
    (void)told(end, &end->read_ends, LAB_CLOSE_READ_END);
}

static void on_writable(void *owner)
{
    struct lab_end *end = owner;
    (void)told(end, &end->writables, LAB_CLOSE_WRITABLE);
}

static void on_flushed(void *owner)
{
    struct lab_end *end = owner;
    (void)told(end, &end->flushes, LAB_CLOSE_FLUSHED);
}

static void on_closed(void *owner, enum wr_err why, const char *detail)
{
    struct lab_end *end = owner;
    end->why = why;
    (void)snprintf(end->detail, sizeof end->detail, "%s", detail);
    (void)told(end, &end->closes, LAB_CLOSE_CLOSED);
}

const struct wr_transport_events lab_events = {
    .first_byte = on_first_byte,
    .client_hello = on_client_hello,
    .established = on_established,
    .readable = on_readable,
    .read_end = on_read_end,
    .writable = on_writable,
    .flushed = on_flushed,
    .closed = on_closed,
};

/* ---- the lab ---- */

void lab_open(struct lab *lab)
{
    *lab = (struct lab){0};
    cr_assert_eq(wr_loop_new(WR_CLOCK_MONOTONIC, &lab->loop), WR_OK);
    cr_assert_eq(wr_transport_host_new(lab->loop, NULL, &lab->host), WR_OK);
    (void)snprintf(lab->dir, sizeof lab->dir, "/tmp/weir-lab-XXXXXX");
    cr_assert_not_null(mkdtemp(lab->dir));
    certificate_make(lab->dir, "", "DNS:localhost,DNS:*.example.com,IP:127.0.0.1");
}

void lab_close(struct lab *lab)
{
    char command[128];
    wr_loop_turn(lab->loop, 0);
    wr_transport_host_free(lab->host);
    wr_loop_free(lab->loop);
    (void)snprintf(command, sizeof command, "rm -rf '%s'", lab->dir);
    cr_assert_eq(system(command), 0);
}

struct wr_tls_server *lab_server(struct lab *lab, bool tickets, const char *const *alpn,
                                 size_t alpn_count)
{
    char chain[128];
    char key[128];
    char error[WR_TLS_ERROR_TEXT];
    (void)snprintf(chain, sizeof chain, "%s/cert.pem", lab->dir);
    (void)snprintf(key, sizeof key, "%s/key.pem", lab->dir);
    struct wr_tls_certificate_options certificate = {.chain_path = chain, .key_path = key};
    struct wr_tls_server_options options = {
        .certificates = &certificate,
        .certificate_count = 1,
        .min_version = WR_TLS_1_2,
        .max_version = WR_TLS_1_3,
        .alpn = alpn,
        .alpn_count = alpn_count,
        .tickets = tickets,
    };
    struct wr_tls_server *server;
    cr_assert_eq(wr_tls_server_new(&options, error, &server), WR_OK, "%s", error);
    return server;
}

struct wr_tls_client *lab_client(struct lab *lab, const char *sni, const char *const *alpn,
                                 size_t alpn_count)
{
    char bundle[128];
    char error[WR_TLS_ERROR_TEXT];
    (void)snprintf(bundle, sizeof bundle, "%s/cert.pem", lab->dir);
    struct wr_tls_client_options options = {
        .verify = true,
        .ca_path = bundle,
        .sni = sni != NULL ? sni : "localhost",
        .alpn = alpn,
        .alpn_count = alpn_count,
    };
    struct wr_tls_client *client;
    cr_assert_eq(wr_tls_client_new(&options, error, &client), WR_OK, "%s", error);
    return client;
}

static void set_nonblocking(int fd)
{
    cr_assert_eq(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK), 0);
}

void lab_tcp_pair(int *a, int *b)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof address;
    int on = 1;
    int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    cr_assert_eq(bind(listening, (struct sockaddr *)&address, size), 0);
    cr_assert_eq(listen(listening, 1), 0);
    cr_assert_eq(getsockname(listening, (struct sockaddr *)&address, &size), 0);
    *a = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(connect(*a, (struct sockaddr *)&address, size), 0);
    *b = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
    cr_assert_geq(*b, 0);
    close(listening);
    set_nonblocking(*a);
    set_nonblocking(*b);
    (void)setsockopt(*a, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(*b, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

void lab_unix_pair(int *a, int *b)
{
    int pair[2];
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    *a = pair[0];
    *b = pair[1];
}

void lab_accept(struct lab *lab, struct lab_end *end, int fd, struct wr_tls_server *tls)
{
    end->lab = lab;
    LAB_CALL(lab, cr_assert_eq(wr_transport_accept(lab->host, fd, tls,
                                                   (struct wr_transport_counters){NULL, NULL},
                                                   &lab_events, end, &end->transport),
                               WR_OK));
}

void lab_adopt(struct lab *lab, struct lab_end *end, int fd, struct wr_tls_client *tls)
{
    end->lab = lab;
    LAB_CALL(lab, cr_assert_eq(wr_transport_adopt_client(lab->host, fd, tls,
                                                         (struct wr_transport_counters){NULL, NULL},
                                                         &lab_events, end, &end->transport),
                               WR_OK));
}

void lab_establish(struct lab *lab, struct lab_end *server, struct lab_end *client,
                   struct wr_tls_server *server_tls, struct wr_tls_client *client_tls)
{
    int a;
    int b;
    lab_tcp_pair(&a, &b);
    lab_accept(lab, server, a, server_tls);
    lab_adopt(lab, client, b, client_tls);
    LAB_WAIT(lab, client->established == 1 && (server_tls == NULL || server->established == 1));
}

void lab_end_free(struct lab_end *end)
{
    if (end->transport != NULL) {
        LAB_CALL(end->lab, wr_transport_close(end->transport));
        LAB_CALL(end->lab, wr_transport_close(end->transport));
    }
    end->transport = NULL;
    free(end->got);
    end->got = NULL;
    end->got_length = 0;
}

void lab_settle(struct lab *lab)
{
    for (int i = 0; i < 10; i++)
        wr_loop_turn(lab->loop, 5 * WR_MSEC);
}

uint8_t *lab_pattern(size_t n)
{
    uint8_t *p = wr_new_bytes(n);
    for (size_t i = 0; i < n; i++)
        p[i] = (uint8_t)((i * 31) ^ (i >> 8) ^ (i >> 16));
    return p;
}
