/* Rows 49 and 51 of the table of hostile input: handshakes in pieces, and what TLS lets a client do after one. */
#include <criterion/criterion.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/command.h"
#include "support/edge.h"
#include "support/flood.h"
#include "support/hand.h"

#define RECEIVED "weir_downstream_bytes_received_total{listener=\"edge\"}"
#define FULL "weir_handshakes_full_total{listener=\"edge\"}"

static const uint16_t versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};

/* ---- row 49 ---- */

/* A scrape a byte takes long on a busy machine. */
static const struct edge_options patient = {.timeouts = "client_hello: 1h, handshake: 1h"};

/* Each byte is a segment that weir has read before the next is sent. */
static bool send_bytes(int fd, const uint8_t *p, size_t n, void *arg)
{
    const struct weir *weir = arg;
    double before = weir_metric(weir, RECEIVED);

    for (size_t i = 0; i < n; i++)
        if (!flood_send(fd, p + i, 1) ||
            !weir_metric_becomes(weir, RECEIVED, before + (double)i + 1, edge_ms(5000)))
            return false;
    return true;
}

static size_t record_size;

static bool send_records(int fd, const uint8_t *p, size_t n, void *arg)
{
    size_t cut_n = 0;
    uint8_t *cut = flood_cut_records(p, n, record_size, &cut_n);

    (void)arg;
    cr_expect(cut_n > n || n <= record_size);
    bool sent = flood_send(fd, cut, cut_n);
    free(cut);
    return sent;
}

static bool send_records_and_bytes(int fd, const uint8_t *p, size_t n, void *arg)
{
    size_t cut_n = 0;
    uint8_t *cut = flood_cut_records(p, n, record_size, &cut_n);
    bool sent = send_bytes(fd, cut, cut_n, arg);

    free(cut);
    return sent;
}

static void expect_served(const struct weir *weir, const struct hand_options *options)
{
    struct hand *hand = hand_connect(weir_port(weir, "edge"), options);

    cr_expect(hand->done, "alert %d", hand->alert);
    if (hand->done)
        cr_expect_eq(hand_get(hand), 200);
    hand_free(hand);
}

Test(row_49, hello_in_segments_of_one_byte, .timeout = 120)
{
    struct weir *weir = edge_start(&patient);

    for (int i = 0; i < 2; i++) {
        struct hand_options options = {
            .sni = "localhost", .max_version = versions[i], .send = send_bytes, .arg = weir};
        expect_served(weir, &options);
    }
    weir_stop(weir);
}

Test(row_49, hello_in_many_records, .timeout = 120)
{
    static const size_t sizes[] = {1, 2, 3, 7, 64, 200};
    struct weir *weir = edge_start(&patient);

    for (size_t i = 0; i < 2 * sizeof(sizes) / sizeof(*sizes); i++) {
        struct hand_options options = {
            .sni = "localhost", .max_version = versions[i % 2], .send = send_records, .arg = weir};
        record_size = sizes[i / 2];
        expect_served(weir, &options);
    }
    struct hand_options both = {.sni = "localhost", .send = send_records_and_bytes, .arg = weir};
    record_size = 3;
    expect_served(weir, &both);
    edge_expect_refused(weir, "tls_error", 0);
    weir_stop(weir);
}

/* As large as one with keys against quantum computers, and far larger: names of protocols fill it. */
static size_t make_large(char *alpn, size_t size)
{
    size_t n = 0;

    memcpy(alpn, "\x08http/1.1", 9);
    for (n = 9; n + 201 <= size; n += 201) {
        alpn[n] = (char)200;
        memset(alpn + n + 1, 'x', 200);
    }
    alpn[n] = '\0';
    return n;
}

Test(row_49, large_hello, .timeout = 120)
{
    static const size_t sizes[] = {1300, 1500, 4000, 9000, 15000};
    struct weir *weir = edge_start(&patient);
    char alpn[16384];

    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        struct hand_options options = {.sni = "localhost", .alpn = alpn};
        cr_assert_gt(make_large(alpn, sizes[i]), 1000);
        expect_served(weir, &options);
        record_size = 100;
        options.send = send_records;
        expect_served(weir, &options);
    }
    edge_expect_refused(weir, "tls_error", 0);
    weir_stop(weir);
}

Test(row_49, hello_without_end_is_cut_off)
{
    struct edge_options options = {.timeouts = "client_hello: 1h, handshake: 1h"};
    struct weir *weir = edge_start(&options);
    static const uint8_t head[] = {22, 3, 1, 64, 0, 1, 1, 0, 0, 3, 3}; /* promises 64 KiB */
    static const uint8_t record[5 + 16384] = {22, 3, 1, 64, 0};
    int fd = flood_connect(weir_port(weir, "edge"), 0);
    uint8_t got[7] = {0};

    cr_expect(flood_send(fd, head, sizeof(head)));
    for (int i = 0; i < 8 && flood_send(fd, record, sizeof(record)); i++)
        continue;
    cr_expect(recv(fd, got, sizeof(got), MSG_WAITALL) <= 0 || got[0] == 21);
    (void)close(fd);
    edge_expect_refused(weir, "tls_error", 1);
    cr_expect(edge_serves(weir));
    weir_stop(weir);
}

/* ---- row 51 ---- */

Test(row_51, renegotiation_by_the_client_is_refused)
{
    struct weir *weir = edge_start(NULL);
    char *output;

    /* The letter R makes s_client ask for a new handshake. */
    (void)command_run(20, &output,
                      "(sleep 0.3; echo R; sleep 2) | openssl s_client -connect 127.0.0.1:%d "
                      "-tls1_2 -legacy_renegotiation",
                      weir_port(weir, "edge"));
    cr_expect_not_null(strstr(output, "RENEGOTIATING"), "%s", output);
    cr_expect(strstr(output, "no renegotiation") || strstr(output, "unexpected message"), "%s",
              output);
    free(output);
    cr_expect_eq(weir_metric(weir, FULL), 1, "%g handshakes", weir_metric(weir, FULL));
    edge_expect_balance(weir, 1, 0);
    cr_expect(edge_serves(weir));
    weir_stop(weir);
}

/* KeyUpdates in a row without data between them; weir answers those that ask for it. */
static unsigned key_updates_until_the_end(const struct weir *weir, int request, unsigned most)
{
    struct hand_options options = {.sni = "localhost", .min_version = TLS1_3_VERSION};
    struct hand *hand = hand_connect(weir_port(weir, "edge"), &options);
    char byte;
    unsigned sent = 0;

    cr_assert(hand->done);
    cr_assert_eq(hand_get(hand), 200);
    while (sent < most && SSL_key_update(hand->ssl, request) && hand_write(hand, "", 0))
        sent++;
    cr_expect_eq(hand_read(hand, &byte, 1), 0);
    cr_expect(hand->over || hand->alert, "the connection is still there after %u", sent);
    hand_free(hand);
    return sent;
}

Test(row_51, key_update_flood_ends_the_connection)
{
    struct weir *weir = edge_start(NULL);
    unsigned long before = weir_cpu_ms(weir);

    (void)key_updates_until_the_end(weir, SSL_KEY_UPDATE_NOT_REQUESTED, 3000);
    (void)key_updates_until_the_end(weir, SSL_KEY_UPDATE_REQUESTED, 3000);
    cr_expect_leq(weir_cpu_ms(weir) - before, (unsigned long)edge_ms(100));
    edge_expect_balance(weir, 2, 0);
    cr_expect_eq(
        weir_metric(weir, "weir_connections_ended_total{listener=\"edge\",reason=\"tls_error\"}"),
        2);
    cr_expect(edge_serves(weir));
    weir_stop(weir);
}

Test(row_51, key_updates_between_data_are_fine)
{
    struct hand_options options = {.sni = "localhost", .min_version = TLS1_3_VERSION};
    struct weir *weir = edge_start(NULL);
    struct hand *hand = hand_connect(weir_port(weir, "edge"), &options);

    for (int i = 0; i < 100; i++) {
        cr_expect(SSL_key_update(hand->ssl,
                                 i % 2 ? SSL_KEY_UPDATE_REQUESTED : SSL_KEY_UPDATE_NOT_REQUESTED));
        cr_assert_eq(hand_get(hand), 200, "after %d updates", i);
    }
    hand_free(hand);
    weir_stop(weir);
}

Test(row_51, warning_alert_flood_ends_the_handshake)
{
    static const uint8_t warning[] = {21, 3, 3, 0, 2, 1, 90};
    struct edge_options options = {.timeouts = "client_hello: 1h, handshake: 1h"};
    struct weir *weir = edge_start(&options);
    struct peer_tls tls = {.max_version = TLS1_2_VERSION};
    uint8_t hello[FLOOD_HELLO_MAX];
    size_t n = flood_hello(hello, &tls);
    int fd = flood_connect(weir_port(weir, "edge"), 0);

    cr_assert(flood_send(fd, hello, n));
    for (int i = 0; i < 100; i++)
        (void)flood_send(fd, warning, sizeof(warning));
    enum peer_end end = flood_end(fd, NULL, 0, NULL, edge_ms(5000));
    cr_expect(end == PEER_EOF || end == PEER_RESET, "%d", end);
    (void)close(fd);
    edge_expect_refused(weir, "tls_error", 1);
    weir_stop(weir);
}

Test(row_51, change_cipher_spec_after_the_handshake_ends_the_connection)
{
    struct weir *weir = edge_start(NULL);
    struct hand_options options = {.sni = "localhost", .max_version = TLS1_2_VERSION};
    struct hand *hand = hand_connect(weir_port(weir, "edge"), &options);
    static const uint8_t change[] = {20, 3, 3, 0, 1, 1}; /* unasked for */
    char byte;

    cr_assert(hand->done);
    for (int i = 0; i < 100 && flood_send(hand->fd, change, sizeof(change)); i++)
        continue;
    cr_expect_eq(hand_read(hand, &byte, 1), 0);
    cr_expect(hand->over || hand->alert);
    hand_free(hand);
    edge_expect_balance(weir, 1, 0);
    weir_stop(weir);
}

/* ---- a real client ---- */

static void expect_s_client(const struct weir *weir, const char *version, const char *protocol)
{
    char *output;
    const char *d = weir_dir(weir);
    int port = weir_port(weir, "edge");
    int status = command_run(
        20, &output,
        "printf 'GET / HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n' | "
        "openssl s_client -connect 127.0.0.1:%d -servername localhost -CAfile %s/cert.pem "
        "-verify_hostname localhost -verify_return_error -alpn http/1.1 -ign_eof -sess_out "
        "%s/session %s",
        port, d, d, version);

    cr_expect_eq(status, 0, "%s", output);
    cr_expect_not_null(strstr(output, "HTTP/1.1 200 OK"), "%s", output);
    cr_expect_not_null(strstr(output, "\r\n\r\nhello"), "%s", output);
    cr_expect_not_null(strstr(output, "ALPN protocol: http/1.1"), "%s", output);
    cr_expect_not_null(strstr(output, "Verify return code: 0 (ok)"), "%s", output);
    cr_expect_not_null(strstr(output, protocol), "%s", output);
    cr_expect_not_null(strstr(output, "Secure Renegotiation IS"), "%s", output);
    free(output);
    status = command_run(
        20, &output,
        "printf 'GET / HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n' | "
        "openssl s_client -connect 127.0.0.1:%d -servername localhost -ign_eof "
        "-sess_in %s/session %s",
        port, d, version);
    cr_expect(status == 0 && strstr(output, "Reused, TLSv1."), "%s", output);
    free(output);
}

Test(real_client, openssl_s_client)
{
    struct weir *weir = edge_start(NULL);

    expect_s_client(weir, "-tls1_2", "TLSv1.2");
    expect_s_client(weir, "-tls1_3", "TLSv1.3");
    cr_expect_eq(weir_metric(weir, "weir_handshakes_resumed_total{listener=\"edge\"}"), 2);
    edge_expect_balance(weir, 4, 0);
    weir_stop(weir);
}
