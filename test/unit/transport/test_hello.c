/* ClientHellos of real clients, whole, cut off at each byte, split in all ways and with each byte changed, held against what
 * BoringSSL sees in them. */
#include "transport/hello.h"

#include <criterion/criterion.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/certificate.h"
#include "support/hello_view.h"

static const uint8_t alpn[] = "\x02h2\x08http/1.1";

static const struct hello_options clients[] = {
    {.sni = NULL},
    {.sni = "a.test"},
    {.sni = "a.test", .alpn = alpn, .alpn_length = sizeof alpn - 1},
    {.sni = "a.test", .alpn = alpn, .alpn_length = sizeof alpn - 1, .resume = true},
    {.sni = "a.test", .no_ticket = true},
    {.version = TLS1_2_VERSION},
    {.version = TLS1_2_VERSION, .sni = "b.test", .alpn = alpn, .alpn_length = sizeof alpn - 1},
    {.version = TLS1_2_VERSION, .sni = "b.test", .resume = true},
    {.version = TLS1_2_VERSION, .no_ticket = true},
};
#define CLIENTS (sizeof clients / sizeof *clients)

static uint8_t scratch[WR_HELLO_MESSAGE_MOST];

/* From a buffer of exactly N bytes, so that the sanitizer sees what is read behind them. FACTS' slices point into it: *HELD, the
 * caller's. */
static enum wr_hello_result read_exactly(const uint8_t *p, size_t n, struct wr_client_hello *facts,
                                         uint8_t **held)
{
    struct wr_hello_progress progress = {0};
    *held = malloc(n > 0 ? n : 1);
    cr_assert_not_null(*held);
    memcpy(*held, p, n);
    return wr_hello_read(&progress, *held, n, scratch, facts);
}

static enum wr_hello_result result_of(const uint8_t *p, size_t n)
{
    struct wr_client_hello facts;
    uint8_t *held;
    enum wr_hello_result result = read_exactly(p, n, &facts, &held);
    if (result != WR_HELLO_WHOLE)
        cr_assert(facts.sni.n == 0 && facts.alpn.n == 0 && !facts.claims_resumption);
    free(held);
    return result;
}

static void expect_agreement(const uint8_t *p, size_t n)
{
    struct wr_client_hello facts;
    struct hello_view view;
    uint8_t *held;
    hello_view(p, n, &view);
    cr_assert(view.asked);
    cr_assert_eq(read_exactly(p, n, &facts, &held), WR_HELLO_WHOLE);
    cr_assert(hello_view_agrees(&view, &facts), "%s, %.*s", view.sni, WR_STR_ARG(facts.sni));
    free(held);
}

Test(hello, facts)
{
    static uint8_t wire[HELLO_MOST];
    for (size_t i = 0; i < CLIENTS; i++) {
        struct wr_client_hello facts;
        uint8_t *held;
        size_t n = hello_make(&clients[i], wire);
        expect_agreement(wire, n);
        cr_assert_eq(read_exactly(wire, n, &facts, &held), WR_HELLO_WHOLE);
        const char *sni = clients[i].sni != NULL ? clients[i].sni : "";
        cr_expect(wr_str_eq(facts.sni, wr_str_from(sni)), "client %zu", i);
        cr_expect_eq(facts.claims_resumption, clients[i].resume, "client %zu", i);
        cr_expect(wr_str_eq(facts.alpn, wr_str((const char *)alpn, clients[i].alpn_length)));
        free(held);
    }
}

Test(hello, cut_off_anywhere_it_needs_more)
{
    static uint8_t wire[HELLO_MOST];
    for (size_t i = 0; i < CLIENTS; i++) {
        size_t n = hello_make(&clients[i], wire);
        for (size_t j = 0; j < n; j++)
            cr_assert_eq(result_of(wire, j), WR_HELLO_NEED_MORE, "client %zu, %zu of %zu bytes", i,
                         j, n);
    }
}

Test(hello, what_comes_behind_is_not_looked_at)
{
    static uint8_t wire[HELLO_MOST];
    for (size_t i = 0; i < CLIENTS; i++) {
        size_t n = hello_make(&clients[i], wire);
        memset(wire + n, 0xff, 100);
        expect_agreement(wire, n + 1);
        expect_agreement(wire, n + 100);
    }
}

Test(hello, in_many_records_and_piece_by_piece)
{
    static const size_t sizes[] = {1, 2, 3, 4, 5, 7, 16, 100, 511, 1000};
    static uint8_t wire[HELLO_MOST];
    static uint8_t split[HELLO_MOST];
    for (size_t i = 0; i < CLIENTS * (sizeof sizes / sizeof *sizes); i++) {
        struct wr_hello_progress progress = {0};
        struct wr_client_hello facts;
        struct hello_view view;
        size_t n = hello_make(&clients[i % CLIENTS], wire);
        size_t total = hello_wrap(wire + 5, n - 5, sizes[i / CLIENTS], split);
        expect_agreement(split, total);
        hello_view(split, total, &view);
        for (size_t j = 0; j < total; j++)
            cr_assert_eq(wr_hello_read(&progress, split, j, scratch, &facts), WR_HELLO_NEED_MORE);
        cr_assert_eq(wr_hello_read(&progress, split, total, scratch, &facts), WR_HELLO_WHOLE);
        cr_assert(hello_view_agrees(&view, &facts));
    }
}

/* Whatever the library takes is whole to us, with the same facts. */
static void expect_no_less(const uint8_t *p, size_t n, size_t changed)
{
    struct wr_client_hello facts;
    struct hello_view view;
    uint8_t *held;
    hello_view(p, n, &view);
    enum wr_hello_result result = read_exactly(p, n, &facts, &held);
    if (view.asked) {
        cr_assert_eq(result, WR_HELLO_WHOLE, "byte %zu", changed);
        cr_assert(hello_view_agrees(&view, &facts), "byte %zu", changed);
    }
    free(held);
}

Test(hello, each_byte_changed, .timeout = 120)
{
    static const uint8_t change[] = {0x01, 0x80, 0xff};
    static uint8_t wire[HELLO_MOST];
    static uint8_t split[HELLO_MOST];
    for (size_t i = 0; i < CLIENTS; i++) {
        size_t n = hello_make(&clients[i], wire);
        for (size_t j = 0; j < n * sizeof change; j++) {
            uint8_t *byte = &wire[j / sizeof change];
            *byte ^= change[j % sizeof change];
            expect_no_less(wire, n, j / sizeof change);
            expect_no_less(split, hello_wrap(wire + 5, n - 5, 400, split), j / sizeof change);
            *byte ^= change[j % sizeof change];
        }
    }
}

/* ---- bytes by hand ---- */

#define EXPECT(result, ...)                                   \
    do {                                                      \
        const uint8_t given[] = {__VA_ARGS__};                \
        cr_expect_eq(result_of(given, sizeof given), result); \
    } while (0)

Test(hello, as_early_as_possible)
{
    cr_expect_eq(result_of(scratch, 0), WR_HELLO_NEED_MORE);
    EXPECT(WR_HELLO_NOT_TLS, 'G');
    EXPECT(WR_HELLO_NOT_TLS, 21);
    EXPECT(WR_HELLO_NOT_TLS, 0x80, 0x2e, 1);
    EXPECT(WR_HELLO_NEED_MORE, 22);
    EXPECT(WR_HELLO_NEED_MORE, 22, 3);
    EXPECT(WR_HELLO_MALFORMED, 22, 2);
    EXPECT(WR_HELLO_NEED_MORE, 22, 3, 9, 0);
    EXPECT(WR_HELLO_MALFORMED, 22, 3, 1, 0, 0);        /* an empty record */
    EXPECT(WR_HELLO_NEED_MORE, 22, 3, 1, 0x40, 0);     /* of 16384 bytes */
    EXPECT(WR_HELLO_MALFORMED, 22, 3, 1, 0x40, 1);     /* one too many */
    EXPECT(WR_HELLO_NEED_MORE, 22, 3, 1, 0, 1, 1);     /* message type and no more */
    EXPECT(WR_HELLO_MALFORMED, 22, 3, 1, 0, 1, 2);     /* a ServerHello */
    EXPECT(WR_HELLO_MALFORMED, 22, 3, 1, 0, 1, 1, 21); /* an alert in the middle */
    EXPECT(WR_HELLO_NEED_MORE, 22, 3, 1, 0, 4, 1, 0, 0x40, 0);
    EXPECT(WR_HELLO_MALFORMED, 22, 3, 1, 0, 4, 1, 0, 0x40, 1); /* longer than the library takes */
    EXPECT(WR_HELLO_MALFORMED, 22, 3, 1, 0, 4, 1, 0, 0, 0);    /* says nothing */
}

/* The longest that the library takes is the longest that we take. */
Test(hello, the_longest)
{
    static uint8_t wire[HELLO_MOST];
    static uint8_t message[WR_HELLO_MESSAGE_MOST + 1];
    struct hello_view view;
    size_t n = hello_make(&clients[1], wire) - 5;
    memcpy(message, wire + 5, n);
    /* An extension nobody knows fills it up. */
    size_t extensions = 4 + 2 + 32 + 1 + message[38];
    extensions += 2 + ((size_t)message[extensions] << 8 | message[extensions + 1]);
    extensions += 1 + message[extensions];
    size_t more = WR_HELLO_MESSAGE_MOST - n - 4;
    const uint8_t head[] = {0xfa, 0xce, (uint8_t)(more >> 8), (uint8_t)more};
    memcpy(message + n, head, sizeof head);
    size_t length = WR_HELLO_MESSAGE_MOST - extensions - 2;
    message[extensions] = (uint8_t)(length >> 8);
    message[extensions + 1] = (uint8_t)length;
    message[2] = 0x40;
    message[3] = 0;
    size_t total = hello_wrap(message, WR_HELLO_MESSAGE_MOST, 8000, wire);
    expect_agreement(wire, total);
    for (size_t j = 0; j < total; j += 97)
        cr_assert_eq(result_of(wire, j), WR_HELLO_NEED_MORE);
    message[3] = 1;
    total = hello_wrap(message, WR_HELLO_MESSAGE_MOST + 1, 8000, wire);
    hello_view(wire, total, &view);
    cr_assert_not(view.asked);
    cr_assert_eq(result_of(wire, total), WR_HELLO_MALFORMED);
}

Test(hello, in_very_small_records_it_is_held_no_further)
{
    static uint8_t wire[HELLO_MOST];
    uint8_t message[10000] = {1, 0, 0x30, 0};
    size_t total = hello_wrap(message, sizeof message, 1, wire);
    cr_assert_eq(result_of(wire, WR_HELLO_WIRE_MOST), WR_HELLO_NEED_MORE);
    cr_assert_eq(result_of(wire, total), WR_HELLO_MALFORMED);
}

/* ---- on a socket ---- */

static struct wr_tls_server *make_server(bool tickets)
{
    char dir[] = "/tmp/weir-hello-XXXXXX";
    char chain[64];
    char key[64];
    char command[64];
    char error[WR_TLS_ERROR_TEXT];
    struct wr_tls_server *server;
    cr_assert_not_null(mkdtemp(dir));
    certificate_make(dir, "", "DNS:localhost");
    (void)snprintf(chain, sizeof chain, "%s/cert.pem", dir);
    (void)snprintf(key, sizeof key, "%s/key.pem", dir);
    struct wr_tls_certificate_options certificate = {.chain_path = chain, .key_path = key};
    struct wr_tls_server_options options = {.certificates = &certificate,
                                            .certificate_count = 1,
                                            .min_version = WR_TLS_1_2,
                                            .max_version = WR_TLS_1_3,
                                            .tickets = tickets};
    cr_assert_eq(wr_tls_server_new(&options, error, &server), WR_OK, "%s", error);
    (void)snprintf(command, sizeof command, "rm -rf '%s'", dir);
    cr_assert_eq(system(command), 0);
    return server;
}

static void expect_claim(const struct wr_tls_server *tls, const uint8_t *p, size_t n,
                         enum wr_hello_claim claim)
{
    static uint8_t read[HELLO_MOST];
    int fds[2];
    bool unread = n == 0;
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    cr_assert(n == 0 || send(fds[0], p, n, 0) == (ssize_t)n);
    cr_expect_eq(wr_hello_peek(fds[1], tls, &unread), claim);
    cr_expect_eq(unread, n > 0);
    cr_expect(n == 0 || recv(fds[1], read, sizeof read, 0) == (ssize_t)n, "it stays there");
    close(fds[0]);
    cr_expect_eq(wr_hello_peek(fds[1], tls, &unread), WR_CLAIM_UNKNOWN);
    cr_expect_not(unread, "an end is not unread");
    close(fds[1]);
}

Test(hello, peeked_at)
{
    static uint8_t wire[HELLO_MOST];
    struct wr_tls_server *tls = make_server(true);
    struct wr_tls_server *without = make_server(false);
    expect_claim(tls, NULL, 0, WR_CLAIM_UNKNOWN);
    expect_claim(tls, (const uint8_t *)"GET /", 5, WR_CLAIM_NOT_TLS);
    for (size_t i = 0; i < CLIENTS; i++) {
        size_t n = hello_make(&clients[i], wire);
        expect_claim(tls, wire, n, clients[i].resume ? WR_CLAIM_RESUME : WR_CLAIM_FULL);
        expect_claim(without, wire, n, WR_CLAIM_FULL);
        expect_claim(tls, wire, n - 1, WR_CLAIM_UNKNOWN);
        expect_claim(tls, wire, 1, WR_CLAIM_UNKNOWN);
    }
    wire[1] = 9;
    expect_claim(tls, wire, 100, WR_CLAIM_FULL);
    wr_tls_server_release(tls);
    wr_tls_server_release(without);
}
