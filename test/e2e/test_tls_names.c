/* Rows 47 and 48 of the table of hostile input: server names and application protocols. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/certificate.h"
#include "support/edge.h"
#include "support/flood.h"
#include "support/hand.h"

static char dir[] = "/tmp/weir-names-XXXXXX";

/* Three certificates: a is the default, b has one name, c has a wildcard. */
static struct weir *start(void)
{
    cr_assert_not_null(mkdtemp(dir));
    certificate_make(dir, "a", "DNS:a.test");
    certificate_make(dir, "b", "DNS:b.test,DNS:exact.wild.test");
    certificate_make(dir, "c", "DNS:*.wild.test");
    return weir_start("workers: 1\n"
                      "admin: 127.0.0.1:0\n"
                      "access_log: access.log\n"
                      "listeners:\n"
                      "  - name: edge\n"
                      "    bind: 127.0.0.1:0\n"
                      "    routes: [{respond: {body: hello}}]\n"
                      "    tls:\n"
                      "      certificates:\n"
                      "        - {chain: %s/acert.pem, key: %s/akey.pem}\n"
                      "        - {chain: %s/bcert.pem, key: %s/bkey.pem}\n"
                      "        - {chain: %s/ccert.pem, key: %s/ckey.pem}\n",
                      dir, dir, dir, dir, dir, dir);
}

static void stop(struct weir *weir)
{
    char command[64];

    weir_stop(weir);
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", dir);
    (void)!system(command);
}

/* ---- names ---- */

static void expect_certificate(int port, const char *sni, char which, uint16_t version)
{
    char path[128];
    struct hand_options options = {.sni = sni, .min_version = version, .max_version = version};
    struct hand *hand = hand_connect(port, &options);

    (void)snprintf(path, sizeof(path), "%s/%ccert.pem", dir, which);
    cr_expect(hand->done, "%s: no handshake, alert %d", sni ? sni : "none", hand->alert);
    cr_expect(hand_met(hand, path), "%s: not certificate %c", sni ? sni : "none", which);
    cr_expect_eq(hand_get(hand), 200);
    hand_free(hand);
}

Test(row_47, the_name_picks_the_certificate)
{
    static const struct {
        const char *sni;
        char which;
    } names[] = {
        {"a.test", 'a'},
        {"b.test", 'b'},
        {"B.TesT", 'b'},
        {"b.test.", 'b'},
        {"one.wild.test", 'c'},
        {"ONE.WILD.TEST.", 'c'},
        {"exact.wild.test", 'b'},
        {"wild.test", 'a'},
        {"two.one.wild.test", 'a'},
        {".wild.test", 'a'},
        {"*.wild.test", 'c'},
        {"unknown.example", 'a'},
        {"b.test.evil", 'a'},
        {"xb.test", 'a'},
        {"b.tes", 'a'},
        {"b.test..", 'a'},
        {".", 'a'},
        {"..", 'a'},
        {"127.0.0.1", 'a'},
        {"::1", 'a'},
        {"[::1]", 'a'},
        {"b.test:443", 'a'},
        {"b.test/../a", 'a'},
        {"b.test\r\nX: y", 'a'},
        {"\xff\xfe", 'a'},
        {"\"b.test\"", 'a'},
        {NULL, 'a'},
    };
    struct weir *weir = start();
    int port = weir_port(weir, "edge");

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        expect_certificate(port, names[i].sni, names[i].which, TLS1_3_VERSION);
        expect_certificate(port, names[i].sni, names[i].which, TLS1_2_VERSION);
    }
    edge_expect_refused(weir, "tls_error", 0);
    stop(weir);
}

Test(row_47, the_longest_name)
{
    char name[256];
    struct weir *weir = start();

    memset(name, 'x', 255);
    name[255] = '\0';
    name[63] = name[127] = name[191] = '.';
    expect_certificate(weir_port(weir, "edge"), name, 'a', TLS1_3_VERSION);
    stop(weir);
}

static size_t put16(uint8_t *at, size_t value)
{
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
    return 2;
}

static size_t get16(const uint8_t *at)
{
    return (size_t)at[0] << 8 | at[1];
}

/* Behind the other extensions of a ClientHello: the extension TYPE with N bytes of CONTENT. Returns the new length. */
static size_t add_extension(uint8_t *hello, size_t n, uint8_t type, const uint8_t *content,
                            size_t content_n)
{
    size_t at = 5 + 4 + 2 + 32;

    at += 1 + (size_t)hello[at];
    at += 2 + get16(hello + at);
    at += 1 + (size_t)hello[at];
    (void)put16(hello + at, get16(hello + at) + 4 + content_n);
    hello[n] = 0;
    hello[n + 1] = type;
    (void)put16(hello + n + 2, content_n);
    memcpy(hello + n + 4, content, content_n);
    n += 4 + content_n;
    (void)put16(hello + 3, n - 5);
    hello[6] = 0;
    (void)put16(hello + 7, n - 9);
    return n;
}

/* A server_name extension whose list has COUNT entries of TYPE with N bytes of NAME, and JUNK bytes behind it. */
static size_t hello_with_names(uint8_t *hello, unsigned count, uint8_t type, const char *name,
                               size_t n, size_t junk)
{
    struct peer_tls tls = {.sni = ""};
    uint8_t content[8192] = {0};
    size_t at = 2;

    for (unsigned i = 0; i < count; i++) {
        content[at++] = type;
        at += put16(content + at, n);
        memcpy(content + at, name, n);
        at += n;
    }
    (void)put16(content, at - 2);
    size_t hello_n = flood_hello(hello, &tls);
    return add_extension(hello, hello_n, 0, content, at + junk);
}

/* What the server says to it: 22 a ServerHello, 21 a fatal alert, after which it ends in order. */
static int answer_to(int port, const uint8_t *hello, size_t n)
{
    uint8_t got[7] = {0};
    int fd = flood_connect(port, 1);

    cr_assert(flood_send(fd, hello, n));
    ssize_t first = recv(fd, got, sizeof(got), MSG_WAITALL);
    if (first == sizeof(got) && got[0] == 21) {
        cr_expect_eq(got[5], 2, "the alert is not fatal");
        cr_expect_eq(flood_end(fd, NULL, 0, NULL, edge_ms(10000)), PEER_EOF);
    }
    (void)close(fd);
    return got[0];
}

Test(row_47, malformed_names_are_told_by_an_alert)
{
    struct weir *weir = start();
    int port = weir_port(weir, "edge");
    uint8_t hello[FLOOD_HELLO_MAX];
    char name[4000];
    struct {
        unsigned count;
        uint8_t type;
        size_t n;
        size_t junk;
        int answer;
    } cases[] = {
        {1, 0, 6, 0, 22},   /* this one is well formed */
        {1, 0, 0, 0, 21},   /* empty name */
        {0, 0, 0, 0, 21},   /* empty list */
        {1, 0, 6, 3, 21},   /* bytes behind the list */
        {2, 0, 6, 0, 21},   /* two names */
        {1, 9, 6, 0, 21},   /* a type nobody knows */
        {1, 0, 256, 0, 21}, /* longer than any host */
        {1, 0, 4000, 0, 21},
    };
    unsigned refused = 0;

    memset(name, 'b', sizeof(name));
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        size_t n =
            hello_with_names(hello, cases[i].count, cases[i].type, name, cases[i].n, cases[i].junk);
        int answer = answer_to(port, hello, n);
        cr_expect_eq(answer, cases[i].answer, "case %zu: answer %d", i, answer);
        refused += cases[i].answer == 21;
    }
    size_t n = hello_with_names(hello, 1, 0, "a\0test", 6, 0);
    cr_expect_eq(answer_to(port, hello, n), 21, "NUL in a name");
    char sample[] = "weir_connections_refused_total{listener=\"edge\",reason=\"tls_error\"}";
    cr_expect(weir_metric_becomes(weir, sample, refused + 1, edge_ms(10000)), "%g counted",
              edge_refused(weir, "tls_error"));
    cr_expect(edge_serves(weir));
    stop(weir);
}

/* ---- protocols ---- */

static void expect_alpn(int port, const char *offered, const char *chosen, uint16_t version)
{
    struct hand_options options = {.alpn = offered, .max_version = version};
    struct hand *hand = hand_connect(port, &options);

    cr_expect(hand->done, "alert %d", hand->alert);
    cr_expect_str_eq(hand_alpn(hand), chosen);
    if (strcmp(chosen, "h2") != 0)
        cr_expect_eq(hand_get(hand), 200);
    hand_free(hand);
}

Test(row_48, the_one_the_listener_likes_best_is_chosen)
{
    static const struct edge_options options = {.tls = "alpn: [http/1.1, h2]"};
    struct weir *weirs[] = {edge_start(NULL), edge_start(&options)};
    const uint16_t versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};

    for (int i = 0; i < 4; i++) {
        int port = weir_port(weirs[i / 2], "edge");
        const char *best = i / 2 == 0 ? "h2" : "http/1.1";
        expect_alpn(port, "\x02h2", "h2", versions[i % 2]);
        expect_alpn(port, "\x08http/1.1", "http/1.1", versions[i % 2]);
        expect_alpn(port, "\x02h2\x08http/1.1", best, versions[i % 2]);
        expect_alpn(port, "\x08http/1.1\x02h2", best, versions[i % 2]);
        expect_alpn(port, NULL, "", versions[i % 2]);
    }
    for (int i = 0; i < 2; i++) {
        edge_expect_refused(weirs[i], "tls_error", 0);
        weir_stop(weirs[i]);
    }
}

static const struct edge_options http1_only = {.tls = "alpn: [http/1.1]"};

Test(row_48, http_1_1_is_chosen)
{
    struct weir *weir = edge_start(&http1_only);
    int port = weir_port(weir, "edge");
    const uint16_t versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};

    for (int i = 0; i < 2; i++) {
        expect_alpn(port, "\x08http/1.1", "http/1.1", versions[i]);
        expect_alpn(port, "\x02h2\x08http/1.1", "http/1.1", versions[i]);
        expect_alpn(port, "\x08http/1.1\x02h2", "http/1.1", versions[i]);
        expect_alpn(port, NULL, "", versions[i]);
    }
    edge_expect_refused(weir, "tls_error", 0);
    weir_stop(weir);
}

Test(row_48, no_common_protocol_is_alert_120)
{
    static const char *const offers[] = {"\x02h2", "\x08http/1.0", "\x02h2\x08HTTP/1.1\x02h3",
                                         "\x09http/1.1x", "\x07http/1."};
    enum { COUNT = sizeof(offers) / sizeof(*offers) };
    struct weir *weir = edge_start(&http1_only);
    int port = weir_port(weir, "edge");

    for (int i = 0; i < 2 * COUNT; i++) {
        struct hand_options options = {.alpn = offers[i / 2],
                                       .max_version = i % 2 ? TLS1_3_VERSION : TLS1_2_VERSION};
        struct hand *hand = hand_connect(port, &options);
        cr_expect(!hand->done && hand->alert == 120, "%s: alert %d", offers[i / 2] + 1,
                  hand->alert);
        hand_free(hand);
    }
    edge_expect_refused(weir, "tls_error", 2 * COUNT);
    edge_expect_log_lines(weir, "NO_APPLICATION_PROTOCOL", 2 * COUNT);
    weir_stop(weir);
}
