/* What a hostile or odd TLS client can do to a server: floods, renegotiation, names (behaviour rows 47 and 51). The client is
 * the bare library over memory, so that it can do what a transport never would. */
#include <criterion/criterion.h>
#include <errno.h>
#include <openssl/ssl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/time.h"
#include "support/transport_lab.h"
#include "transport/transport_internal.h"

static struct lab lab;
static struct lab_end server;
static struct wr_tls_server *server_tls;
static int peer;
static SSL_CTX *context;
static SSL *ssl;

static void set_up(void)
{
    int a;
    lab_open(&lab);
    server = (struct lab_end){0};
    server_tls = lab_server(&lab, true, NULL, 0);
    lab_tcp_pair(&a, &peer);
    lab_accept(&lab, &server, a, server_tls);
    context = SSL_CTX_new(TLS_method());
    ssl = SSL_new(context);
    SSL_set_connect_state(ssl);
    SSL_set_bio(ssl, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    BIO_set_mem_eof_return(SSL_get_rbio(ssl), -1);
}

static void tear_down(void)
{
    SSL_free(ssl);
    SSL_CTX_free(context);
    lab_end_free(&server);
    if (peer >= 0)
        close(peer);
    wr_tls_server_release(server_tls);
    lab_close(&lab);
}

TestSuite(transport_hostile, .init = set_up, .fini = tear_down, .timeout = 60);

/* Carries bytes between the library's memory and the socket, and lets the server take a turn. */
static void carry(void)
{
    uint8_t bytes[65536];
    int n = BIO_read(SSL_get_wbio(ssl), bytes, sizeof bytes);
    if (n > 0)
        cr_assert_eq(send(peer, bytes, (size_t)n, MSG_NOSIGNAL), n);
    wr_loop_turn(lab.loop, 2 * WR_MSEC);
    ssize_t got = recv(peer, bytes, sizeof bytes, 0);
    if (got > 0)
        BIO_write(SSL_get_rbio(ssl), bytes, (int)got);
}

static void handshake(void)
{
    for (int i = 0; i < 1000 && (SSL_do_handshake(ssl) != 1 || server.established == 0); i++)
        carry();
    cr_assert_eq(server.established, 1);
}

static void update_keys(int count)
{
    for (int i = 0; i < count; i++) {
        cr_assert(SSL_key_update(ssl, SSL_KEY_UPDATE_REQUESTED));
        (void)SSL_write(ssl, "", 0); /* sends it */
    }
    carry();
}

Test(transport_hostile, key_updates_are_answered)
{
    server.echo = true;
    handshake();
    for (int i = 0; i < 5; i++) {
        uint8_t got[8];
        update_keys(10);
        cr_assert_eq(SSL_write(ssl, "ping", 4), 4);
        int n = -1;
        for (int j = 0; j < 1000 && n <= 0; j++) {
            carry();
            n = SSL_read(ssl, got, sizeof got);
        }
        cr_assert_eq(n, 4);
    }
    cr_assert_eq(server.closes, 0);
    cr_assert_null(server.transport->pipeline);
}

Test(transport_hostile, a_flood_of_key_updates_is_ended)
{
    handshake();
    update_keys(32);
    lab_settle(&lab);
    cr_assert_eq(server.closes, 0);
    update_keys(1);
    LAB_WAIT(&lab, server.closes == 1);
    cr_assert_eq(server.why, WR_ERR_TLS_FAILED);
    cr_assert_str_eq(server.detail, "TOO_MANY_KEY_UPDATES");
}

/* OpenSSL CVE-2016-8610. In the middle of a TLS 1.2 handshake alerts are still plain. */
Test(transport_hostile, a_flood_of_warning_alerts_is_ended)
{
    static const uint8_t warning[] = {21, 3, 3, 0, 2, 1, 41};
    cr_assert(SSL_set_max_proto_version(ssl, TLS1_2_VERSION));
    (void)SSL_do_handshake(ssl);
    carry();
    LAB_WAIT(&lab, wr_transport_bytes_sent(server.transport) > 100);
    for (int i = 0; i < 4; i++)
        cr_assert_eq(send(peer, warning, sizeof warning, MSG_NOSIGNAL), (ssize_t)sizeof warning);
    lab_settle(&lab);
    cr_assert_eq(server.closes, 0);
    cr_assert_eq(send(peer, warning, sizeof warning, MSG_NOSIGNAL), (ssize_t)sizeof warning);
    LAB_WAIT(&lab, server.closes == 1);
    cr_assert_eq(server.why, WR_ERR_TLS_FAILED);
    cr_assert_str_eq(server.detail, "TOO_MANY_WARNING_ALERTS");
}

Test(transport_hostile, empty_records_are_ended)
{
    cr_assert(SSL_set_max_proto_version(ssl, TLS1_2_VERSION));
    (void)SSL_do_handshake(ssl);
    carry();
    LAB_WAIT(&lab, wr_transport_bytes_sent(server.transport) > 100);
    for (int i = 0; i < 40 && server.closes == 0; i++) {
        static const uint8_t empty[] = {22, 3, 3, 0, 0};
        (void)send(peer, empty, sizeof empty, MSG_NOSIGNAL);
    }
    LAB_WAIT(&lab, server.closes == 1);
    cr_assert_eq(server.why, WR_ERR_TLS_FAILED);
}

Test(transport_hostile, a_changed_byte_is_noticed_and_nothing_of_it_handed_up)
{
    uint8_t bytes[256];
    handshake();
    cr_assert_eq(SSL_write(ssl, "good", 4), 4);
    carry();
    LAB_WAIT(&lab, server.got_length == 4);
    cr_assert_eq(SSL_write(ssl, "evil", 4), 4);
    int n = BIO_read(SSL_get_wbio(ssl), bytes, sizeof bytes);
    bytes[n - 1] ^= 1;
    cr_assert_eq(send(peer, bytes, (size_t)n, 0), n);
    LAB_WAIT(&lab, server.closes == 1);
    cr_assert_eq(server.why, WR_ERR_TLS_FAILED);
    cr_assert_eq(server.got_length, 4);
    lab_end_free(&server); /* the alert is not erased by the close */
    for (int i = 0; i < 100 && SSL_read(ssl, bytes, sizeof bytes) <= 0; i++) {
        uint32_t packed = ERR_peek_error();
        if (packed != 0 && ERR_GET_REASON(packed) == SSL_R_SSLV3_ALERT_BAD_RECORD_MAC)
            return;
        carry();
    }
    cr_assert_fail("no alert came");
}

Test(transport_hostile, what_comes_after_close_notify_says_nothing)
{
    handshake();
    cr_assert_eq(SSL_write(ssl, "all", 3), 3);
    (void)SSL_shutdown(ssl);
    carry();
    LAB_WAIT(&lab, server.read_ends == 1);
    cr_assert(server.clean);
    cr_assert_eq(send(peer, "junk", 4, 0), 4);
    shutdown(peer, SHUT_WR);
    lab_settle(&lab);
    cr_assert_eq(server.got_length, 3);
    cr_assert_eq(server.read_ends, 1);
    cr_assert_eq(server.closes, 0);
    cr_assert_null(server.transport->pipeline);
}

Test(transport_hostile, junk_in_the_same_segment_as_close_notify)
{
    uint8_t bytes[512];
    handshake();
    cr_assert_eq(SSL_write(ssl, "all", 3), 3);
    (void)SSL_shutdown(ssl);
    int n = BIO_read(SSL_get_wbio(ssl), bytes, 256);
    memset(bytes + n, 'x', 200);
    server.take = 1;
    cr_assert_eq(send(peer, bytes, (size_t)n + 200, 0), n + 200);
    LAB_WAIT(&lab, server.got_length == 1);
    lab_settle(&lab);
    cr_assert_eq(server.read_ends, 0);
    server.take = 0;
    wr_transport_resume(server.transport, WR_PAUSE_FULL);
    LAB_WAIT(&lab, server.read_ends == 1);
    cr_assert_eq(server.got_length, 3);
    lab_settle(&lab);
    cr_assert_null(server.transport->pipeline);
}

/* ---- names ---- */

static uint8_t *put16(uint8_t *p, size_t n)
{
    p[0] = (uint8_t)(n >> 8);
    p[1] = (uint8_t)n;
    return p + 2;
}

/* A TLS 1.2 ClientHello for NAME, written by hand: a library would not send all of these. */
static size_t hello_for(const char *name, size_t n, uint8_t *out)
{
    static const uint8_t rest[] = {
        0, 10, 0, 6, 0, 4, 0,    29,   0, 23,       /* groups */
        0, 13, 0, 8, 0, 6, 4,    3,    8, 4,  4, 1, /* signature algorithms */
        0, 11, 0, 2, 1, 0, 0xff, 0x01, 0, 1,  0,    /* point formats, renegotiation_info */
    };
    static const uint8_t suites[] = {0, 4, 0xc0, 0x2b, 0xc0, 0x2f, 1, 0};
    size_t extensions = 9 + n + sizeof rest;
    size_t body = 2 + 32 + 1 + sizeof suites + 2 + extensions;
    uint8_t *p = out;
    *p++ = 22;
    p = put16(p, 0x0301);
    p = put16(p, body + 4);
    *p++ = 1;
    *p++ = 0;
    p = put16(p, body);
    p = put16(p, 0x0303);
    memset(p, 7, 32);
    p += 32;
    *p++ = 0;
    memcpy(p, suites, sizeof suites);
    p += sizeof suites;
    p = put16(p, extensions);
    p = put16(p, 0);
    p = put16(p, n + 5);
    p = put16(p, n + 3);
    *p++ = 0;
    p = put16(p, n);
    memcpy(p, name, n);
    p += n;
    memcpy(p, rest, sizeof rest);
    return (size_t)(p + sizeof rest - out);
}

/* The first byte of what the server says, and the alert when it is one. */
static uint8_t answer_to(const char *name, size_t n, uint8_t *description)
{
    uint8_t bytes[2048];
    size_t length = hello_for(name, n, bytes);
    ssize_t got = -1;
    cr_assert_eq(send(peer, bytes, length, 0), (ssize_t)length);
    for (int i = 0; i < 1000 && got <= 0; i++) {
        wr_loop_turn(lab.loop, 1 * WR_MSEC);
        got = recv(peer, bytes, sizeof bytes, 0);
    }
    cr_assert_gt(got, 6);
    *description = bytes[6];
    return bytes[0];
}

static void expect_default(const char *name)
{
    uint8_t description;
    cr_assert_eq(answer_to(name, strlen(name), &description), 22, "alert %d", description);
    cr_assert_str_eq(server.sni, name);
}

Test(transport_hostile, an_unknown_name)
{
    expect_default("nobody.test");
}

Test(transport_hostile, an_ipv4_literal)
{
    expect_default("127.0.0.1");
}

Test(transport_hostile, an_ipv6_literal)
{
    expect_default("::1");
}

Test(transport_hostile, a_trailing_dot)
{
    expect_default("localhost.");
}

Test(transport_hostile, bytes_that_are_no_name)
{
    expect_default("..\xff\r\n\x01 \"'");
}

Test(transport_hostile, a_name_of_255_bytes)
{
    char name[256];
    memset(name, 'a', 255);
    name[255] = '\0';
    expect_default(name);
}

/* No name at all by RFC 6066: the library says so (unrecognized_name), when the gate has let it. */
Test(transport_hostile, names_that_are_too_long_empty_or_cut_by_a_zero_byte)
{
    char name[300];
    uint8_t description;
    memset(name, 'a', sizeof name);
    cr_assert_eq(answer_to(name, sizeof name, &description), 21);
    cr_assert_eq(description, 112);
    LAB_WAIT(&lab, server.closes == 1);
    cr_assert_eq(server.why, WR_ERR_TLS_FAILED);
    cr_assert_eq(server.hellos, 1);
    cr_assert_str_eq(server.sni, "");
    for (int i = 0; i < 2; i++) {
        int a;
        lab_end_free(&server);
        close(peer);
        server = (struct lab_end){0};
        lab_tcp_pair(&a, &peer);
        lab_accept(&lab, &server, a, server_tls);
        cr_assert_eq(answer_to("a\0b", i == 0 ? 0 : 3, &description), 21);
        cr_assert_eq(description, 112);
    }
}
