/* Every reason for which a connection is not served has a counter of its own, and a line in the log. */
#include <criterion/criterion.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/edge.h"
#include "support/flood.h"

#define SILENT "weir_connections_silent{listener=\"edge\"}"
#define WAIT_MS 5000

static void expect_only(const struct weir *weir, const char *reason, unsigned n, unsigned accepted)
{
    char label[80];

    edge_expect_refused(weir, reason, n);
    edge_expect_balance(weir, accepted, accepted - n);
    (void)snprintf(label, sizeof(label), "\"reason\":\"%s\"", reason);
    edge_expect_log_lines(weir, label, n);
    cr_expect_eq(edge_log_lines(weir, "\"type\":\"refused\""), n, "%u refusals logged, not %u",
                 edge_log_lines(weir, "\"type\":\"refused\""), n);
}

/* The end comes MS after SINCE, or a little later, and not by a reset. */
static void expect_end_after(int fd, long since, int ms)
{
    enum peer_end end = flood_end(fd, NULL, 0, NULL, edge_ms(WAIT_MS));
    long took = edge_now_ms() - since;

    cr_assert_eq(end, PEER_EOF, "ended with %d", end);
    cr_expect(took >= ms - 20 && took < ms + edge_ms(1000), "ended after %ld ms, not %d", took, ms);
    (void)close(fd);
}

Test(reason, client_hello_timeout)
{
    enum { COUNT = 40 };
    struct edge_options options = {.timeouts = "client_hello: 500ms, handshake: 1h"};
    struct weir *weir = edge_start(&options);
    uint8_t hello[FLOOD_HELLO_MAX];
    size_t n = flood_hello(hello, NULL);
    int fds[COUNT];
    long since = edge_now_ms();

    for (unsigned i = 0; i < COUNT; i++) {
        fds[i] = flood_connect(weir_port(weir, "edge"), i);
        if (i % 2)
            cr_assert(flood_send(fds[i], hello, n - i));
    }
    for (unsigned i = 0; i < COUNT; i++)
        expect_end_after(fds[i], since, 500);
    expect_only(weir, "client_hello_timeout", COUNT, COUNT);
    weir_stop(weir);
}

/* Another byte of the handshake is no reason to wait longer. */
static void trickle(int fd, long since, int ms)
{
    static const uint8_t record[] = {23, 3, 3, 64, 0};
    uint8_t byte = 0;
    bool sent = flood_send(fd, record, sizeof(record));

    while (sent && edge_now_ms() < since + 3 * ms) {
        edge_nap(20);
        sent = flood_send(fd, &byte, 1);
    }
    long took = edge_now_ms() - since;
    cr_expect(took >= ms - 20 && took < 2 * ms + edge_ms(500), "ended after %ld ms", took);
    (void)close(fd);
}

Test(reason, handshake_timeout)
{
    enum { COUNT = 20, MS = 700 };
    struct edge_options options = {.timeouts = "client_hello: 300ms, handshake: 700ms"};
    struct weir *weir = edge_start(&options);
    uint8_t hello[FLOOD_HELLO_MAX];
    int fds[COUNT + 1];
    long since = edge_now_ms();

    for (unsigned i = 0; i <= COUNT; i++) {
        struct peer_tls tls = {.max_version = i % 2 ? TLS1_2_VERSION : TLS1_3_VERSION};
        size_t n = flood_hello(hello, &tls);
        fds[i] = flood_connect(weir_port(weir, "edge"), i);
        cr_assert(flood_send(fds[i], hello, n));
    }
    trickle(fds[COUNT], since, MS);
    for (unsigned i = 0; i < COUNT; i++) {
        cr_assert_eq(flood_end(fds[i], NULL, 0, NULL, edge_ms(WAIT_MS)), PEER_EOF);
        (void)close(fds[i]);
    }
    expect_only(weir, "handshake_timeout", COUNT + 1, COUNT + 1);
    weir_stop(weir);
}

Test(reason, abandoned)
{
    enum { EACH = 20 };
    struct edge_options options = {.timeouts = "client_hello: 1h, handshake: 1h"};
    struct weir *weir = edge_start(&options);
    uint8_t hello[FLOOD_HELLO_MAX];
    size_t n = flood_hello(hello, NULL);
    const size_t said[] = {0, 1, n / 2, n};
    unsigned count = 0;

    for (unsigned i = 0; i < EACH; i++) {
        for (size_t j = 0; j < sizeof(said) / sizeof(*said); j++) {
            for (int reset = 0; reset < 2; reset++) {
                int fd = flood_connect(weir_port(weir, "edge"), count++);
                cr_assert(said[j] == 0 || flood_send(fd, hello, said[j]));
                if (i % 2) /* let weir see one before the other */
                    edge_expect_balance(weir, count, 1);
                if (reset)
                    flood_reset(fd);
                else
                    (void)close(fd);
                if (i % 2)
                    edge_expect_balance(weir, count, 0);
            }
        }
    }
    expect_only(weir, "abandoned", count, count);
    weir_stop(weir);
}

Test(reason, not_tls)
{
    static const struct {
        const char *bytes;
        size_t n;
    } said[] = {
        {"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 35},
        {"\r\n", 2},
        {"\0", 1},
        {"\x15\x03\x01\x00\x02\x01\x00", 7},         /* an alert first */
        {"\x17\x03\x03\x00\x01x", 6},                /* data first */
        {"\x80\x2e\x01\x00\x02\x00\x15\x00\x00", 9}, /* SSL 2 */
        {"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n", 32},
        {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24},
    };
    enum { KINDS = sizeof(said) / sizeof(*said), COUNT = 10 * KINDS };
    struct weir *weir = edge_start(NULL);

    for (unsigned i = 0; i < COUNT; i++) {
        int fd = flood_connect(weir_port(weir, "edge"), i);
        size_t n = 1;
        cr_assert(flood_send(fd, said[i % KINDS].bytes, said[i % KINDS].n));
        enum peer_end end = flood_end(fd, NULL, 0, &n, edge_ms(1000));
        cr_assert(n == 0 && (end == PEER_EOF || end == PEER_RESET), "%zu bytes, %d", n, end);
        (void)close(fd);
    }
    expect_only(weir, "not_tls", COUNT, COUNT);
    cr_expect(edge_serves(weir));
    weir_stop(weir);
}

/* A record of 22 with garbage, in several shapes; each must be told by a fatal alert, read whole. */
static void expect_fatal(const struct weir *weir, unsigned index, const void *p, size_t n)
{
    int fd = flood_connect(weir_port(weir, "edge"), index);
    uint8_t got[64] = {0};
    size_t length = 0;

    cr_assert(flood_send(fd, p, n));
    enum peer_end end = flood_end(fd, got, sizeof(got), &length, edge_ms(WAIT_MS));
    cr_expect_eq(end, PEER_EOF, "%u ended with %d", index, end);
    cr_expect(length == 7 && got[0] == 21 && got[5] == 2, "%u got %zu bytes, not an alert", index,
              length);
    (void)close(fd);
}

Test(reason, tls_error)
{
    static const uint8_t no_hello[] = {22, 3, 1, 0, 8, 11, 0, 0, 4, 1, 2, 3, 4};
    static const uint8_t empty_hello[] = {22, 3, 1, 0, 4, 1, 0, 0, 0};
    static const uint8_t huge_hello[] = {22, 3, 1, 0, 4, 1, 255, 255, 255};
    static const uint8_t huge_record[] = {22, 3, 1, 255, 255, 1, 0, 0, 0};
    static const uint8_t bad_version[] = {22, 9, 9, 0, 4, 1, 0, 0, 0};
    uint8_t hello[FLOOD_HELLO_MAX];
    struct peer_tls old = {.max_version = TLS1_1_VERSION};
    struct weir *weir = edge_start(NULL);

    expect_fatal(weir, 0, no_hello, sizeof(no_hello));
    expect_fatal(weir, 1, empty_hello, sizeof(empty_hello));
    expect_fatal(weir, 2, huge_hello, sizeof(huge_hello));
    expect_fatal(weir, 3, huge_record, sizeof(huge_record));
    expect_fatal(weir, 4, bad_version, sizeof(bad_version));
    size_t n = flood_hello(hello, &old);
    expect_fatal(weir, 5, hello, n);
    n = flood_hello(hello, NULL);
    hello[n / 3] ^= 0xff; /* somewhere among ciphers and extensions */
    hello[43] ^= 0xff;    /* length of the session id */
    expect_fatal(weir, 6, hello, n);
    expect_only(weir, "tls_error", 7, 7);
    /* Why is in the log. */
    cr_expect_eq(edge_log_lines(weir, "\"detail\":\""), 7);
    cr_expect_eq(edge_log_lines(weir, "UNSUPPORTED_PROTOCOL"), 1);
    weir_stop(weir);
}

Test(reason, too_many_connections)
{
    enum { LIMIT = 8, MORE = 30 };
    struct edge_options options = {.limits = "connections: 8, evict_idle_after: infinity"};
    struct weir *weir = edge_start(&options);
    struct peer *served[LIMIT];

    for (int i = 0; i < LIMIT; i++) {
        served[i] = peer_connect_tls(weir_port(weir, "edge"), NULL);
        cr_assert_not_null(served[i]);
    }
    for (unsigned i = 0; i < MORE; i++) {
        int fd = flood_connect(weir_port(weir, "edge"), i);
        cr_expect(fd < 0 || flood_end(fd, NULL, 0, NULL, edge_ms(WAIT_MS)) == PEER_RESET);
        (void)close(fd);
    }
    expect_only(weir, "too_many_connections", MORE, LIMIT + MORE);
    cr_expect_eq(
        weir_metric(weir, "weir_handshakes_refused_total{listener=\"edge\",cause=\"backlog\"}"), 0);
    peer_free(served[0]);
    edge_expect_balance(weir, LIMIT + MORE, LIMIT - 1);
    cr_expect(edge_serves(weir));
    for (int i = 1; i < LIMIT; i++)
        peer_free(served[i]);
    weir_stop(weir);
}

Test(reason, the_oldest_of_too_many_silent_ones)
{
    enum { LIMIT = 10, COUNT = 25 };
    struct edge_options options = {.admission = "max_silent: 10",
                                   .timeouts = "client_hello: 1h, handshake: 1h"};
    struct weir *weir = edge_start(&options);
    int fds[COUNT];

    for (unsigned i = 0; i < COUNT; i++) {
        fds[i] = flood_connect(weir_port(weir, "edge"), i);
        cr_assert_geq(fds[i], 0);
    }
    expect_only(weir, "too_many_connections", COUNT - LIMIT, COUNT);
    cr_expect_eq(weir_metric(weir, SILENT), LIMIT);
    for (unsigned i = 0; i < COUNT; i++) {
        enum peer_end end = flood_end(fds[i], NULL, 0, NULL, 50);
        cr_expect_eq(end, i < COUNT - LIMIT ? PEER_RESET : PEER_WAITED, "%u ended with %d", i, end);
    }
    cr_expect(edge_serves(weir));
    flood_close(fds, COUNT);
    weir_stop(weir);
}

Test(reason, none_for_those_that_are_served)
{
    enum { COUNT = 50 };
    struct weir *weir = edge_start(NULL);

    for (int i = 0; i < COUNT; i++)
        cr_expect(edge_serves(weir));
    edge_expect_balance(weir, COUNT, 0);
    edge_expect_refused(weir, "tls_error", 0);
    cr_expect_eq(weir_metric(weir, "weir_connections_closed_total{listener=\"edge\"}"), COUNT);
    cr_expect_eq(weir_metric(weir, "weir_connections_ended_total{listener=\"edge\",reason=\"ok\"}"),
                 COUNT);
    edge_expect_log_lines(weir, "\"type\":\"request\"", COUNT);
    cr_expect_eq(edge_log_lines(weir, "\"type\":\"refused\""), 0);
    weir_stop(weir);
}
