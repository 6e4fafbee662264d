/* No SSL is made for a client that waits at gate 1 or is refused there; and whoever has passed it gets its handshake, however
 * its ClientHello came. */
#include <criterion/criterion.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/time.h"
#include "support/hello_view.h"
#include "support/transport_lab.h"
#include "transport/transport_internal.h"

static struct lab lab;
static struct lab_end server;
static struct wr_tls_server *server_tls;
static int peer;
static uint8_t wire[HELLO_MOST];
static size_t allocations; /* of the TLS library */

/* The library's own hooks. */
void *OPENSSL_memory_alloc(size_t size);
void OPENSSL_memory_free(void *p);
size_t OPENSSL_memory_get_size(void *p);

void *OPENSSL_memory_alloc(size_t size)
{
    allocations++;
    return malloc(size);
}

void OPENSSL_memory_free(void *p)
{
    free(p);
}

size_t OPENSSL_memory_get_size(void *p)
{
    return malloc_usable_size(p);
}

static void accept_raw(void)
{
    int a;
    server = (struct lab_end){0};
    lab_tcp_pair(&a, &peer);
    lab_accept(&lab, &server, a, server_tls);
}

static void drop(void)
{
    lab_end_free(&server);
    close(peer);
    peer = -1;
    wr_loop_turn(lab.loop, 0);
}

static void set_up(void)
{
    lab_open(&lab);
    server_tls = lab_server(&lab, true, NULL, 0);
    accept_raw();
}

static void tear_down(void)
{
    lab_end_free(&server);
    if (peer >= 0)
        close(peer);
    wr_tls_server_release(server_tls);
    lab_close(&lab);
}

TestSuite(transport_hello, .init = set_up, .fini = tear_down, .timeout = 120);

static void say(const uint8_t *p, size_t n)
{
    cr_assert_eq(send(peer, p, n, MSG_NOSIGNAL), (ssize_t)n);
}

/* ---- who gets no SSL ---- */

static size_t make_hello(void)
{
    size_t n = hello_make(&(struct hello_options){.sni = "localhost"}, wire);
    allocations = 0;
    return n;
}

static void expect_bare(size_t kept)
{
    cr_assert_null(server.transport->ssl);
    cr_assert_null(server.transport->pipeline);
    cr_assert_not_null(server.transport->hello);
    cr_assert_eq(server.transport->hello->length, kept);
    cr_assert_leq(server.transport->hello->room, 2 * kept);
}

Test(transport_hello, a_waiter_holds_its_hello_and_nothing_else)
{
    size_t n = make_hello();
    server.verdict = WR_GATE_WAIT;
    say(wire, n);
    LAB_WAIT(&lab, server.hellos == 1);
    lab_settle(&lab);
    expect_bare(n);
    cr_assert_eq(server.transport->hello->room, n);
    cr_assert_eq(allocations, 0);
    LAB_CALL(&lab, wr_transport_admit(server.transport));
    LAB_WAIT(&lab, wr_transport_bytes_sent(server.transport) > 500);
    cr_assert_not_null(server.transport->ssl);
    cr_assert_null(server.transport->hello);
    cr_assert_null(server.transport->pipeline);
    cr_assert_gt(allocations, 0, "this is how they are counted");
}

Test(transport_hello, a_hello_that_is_not_whole_is_kept_and_nothing_else)
{
    size_t n = make_hello();
    for (size_t i = 0; i + 1 < n; i++) {
        say(wire + i, 1);
        LAB_WAIT(&lab, wr_transport_bytes_received(server.transport) == i + 1);
        expect_bare(i + 1);
    }
    cr_assert_eq(server.hellos, 0);
    LAB_CALL(&lab, wr_transport_refuse(server.transport, WR_REFUSE_ALERT));
    LAB_WAIT(&lab, server.flushes == 1);
    drop();
    cr_assert_eq(allocations, 0);
}

Test(transport_hello, refused_without_one)
{
    size_t n = make_hello();
    drop();
    for (int i = 0; i < 6; i++) {
        int how = i % 3 + 1;
        accept_raw();
        server.verdict = WR_GATE_WAIT;
        server.refuse_in_hello = i < 3 ? how : 0;
        say(wire, n);
        LAB_WAIT(&lab, server.hellos == 1);
        if (i >= 3) {
            LAB_CALL(&lab, wr_transport_refuse(server.transport, (enum wr_refuse_with)(how - 1)));
            if (how - 1 != WR_REFUSE_ALERT)
                server.transport = NULL;
        }
        if (how - 1 == WR_REFUSE_ALERT) {
            LAB_WAIT(&lab, server.flushes == 1);
            cr_assert_null(server.transport->hello);
        }
        drop();
    }
    cr_assert_eq(allocations, 0);
}

Test(transport_hello, gone_while_waiting_or_just_admitted)
{
    size_t n = make_hello();
    drop();
    for (int i = 0; i < 2; i++) {
        accept_raw();
        server.verdict = WR_GATE_WAIT;
        say(wire, n);
        LAB_WAIT(&lab, server.hellos == 1);
        shutdown(peer, SHUT_WR);
        if (i == 1)
            LAB_CALL(&lab, wr_transport_admit(server.transport));
        LAB_WAIT(&lab, server.closes == 1);
        cr_assert_eq(server.why, WR_ERR_CLIENT_CLOSED);
        drop();
    }
    cr_assert_eq(allocations, 0);
}

Test(transport_hello, gone_in_the_middle_of_it)
{
    size_t n = make_hello();
    say(wire, n / 2);
    LAB_WAIT(&lab, wr_transport_bytes_received(server.transport) == n / 2);
    say(wire + n / 2, n - n / 2);
    shutdown(peer, SHUT_WR);
    LAB_WAIT(&lab, server.closes == 1);
    cr_assert_eq(server.why, WR_ERR_CLIENT_CLOSED);
    cr_assert_eq(server.hellos, 0);
    drop();
    cr_assert_eq(allocations, 0);
}

Test(transport_hello, closed_by_its_owner_in_each_callback)
{
    static const enum lab_close_in where[] = {LAB_CLOSE_FIRST_BYTE, LAB_CLOSE_HELLO};
    size_t n = make_hello();
    drop();
    for (int i = 0; i < 4; i++) {
        accept_raw();
        server.close_in = where[i % 2];
        if (i < 2)
            say(wire, n);
        for (size_t j = 0; i >= 2 && j < n; j += n / 3 + 1) {
            (void)send(peer, wire + j, n / 3 + 1 < n - j ? n / 3 + 1 : n - j, MSG_NOSIGNAL);
            lab_settle(&lab);
        }
        LAB_WAIT(&lab, server.transport == NULL);
        drop();
    }
    cr_assert_eq(allocations, 0);
}

/* ---- what the library has to say ---- */

/* Refused by the library: the gate was asked about a client that claims nothing. */
static void expect_tls_error(const uint8_t *p, size_t n)
{
    say(p, n);
    LAB_WAIT(&lab, server.closes == 1);
    cr_assert_eq(server.why, WR_ERR_TLS_FAILED);
    cr_assert_str_neq(server.detail, "");
    cr_assert_eq(server.hellos, 1);
    cr_assert_not(server.claims_resumption);
}

Test(transport_hello, longer_than_the_library_takes)
{
    static const uint8_t head[] = {22, 3, 1, 0, 4, 1, 0, 0x40, 1};
    expect_tls_error(head, sizeof head);
}

Test(transport_hello, malformed_waits_too)
{
    static const uint8_t head[] = {22, 3, 1, 0, 4, 1, 0, 0, 0};
    server.verdict = WR_GATE_WAIT;
    say(head, sizeof head);
    LAB_WAIT(&lab, server.hellos == 1);
    lab_settle(&lab);
    expect_bare(sizeof head);
    cr_assert_eq(server.closes, 0);
    LAB_CALL(&lab, wr_transport_admit(server.transport));
    LAB_WAIT(&lab, server.closes == 1);
    cr_assert_eq(server.why, WR_ERR_TLS_FAILED);
}

Test(transport_hello, garbage_behind_it)
{
    size_t n = make_hello();
    drop();
    memset(wire + n, 0xee, 100);
    for (int i = 0; i < 2; i++) {
        accept_raw();
        server.verdict = i == 0 ? WR_GATE_ADMIT : WR_GATE_WAIT;
        say(wire, n + 100);
        LAB_WAIT(&lab, server.hellos == 1);
        if (i == 1) {
            lab_settle(&lab);
            expect_bare(n + 100);
            LAB_CALL(&lab, wr_transport_admit(server.transport));
        }
        LAB_WAIT(&lab, server.closes == 1);
        cr_assert_eq(server.why, WR_ERR_TLS_FAILED);
        cr_assert_eq(server.hellos, 1);
        drop();
    }
}

/* ---- handshakes ---- */

enum way { AS_IT_IS, BYTE_BY_BYTE, THREE_RECORDS, ALERT_BETWEEN, WAITS, WAYS };

static size_t between(uint8_t *p, size_t n, size_t first)
{
    static const uint8_t warning[] = {21, 3, 1, 0, 2, 1, 90};
    memmove(p + first + sizeof warning, p + first, n - first);
    memcpy(p + first, warning, sizeof warning);
    return n + sizeof warning;
}

/* The first flight, N bytes in the wire buffer, whose first record is the ClientHello. */
static void say_first(enum way way, size_t n)
{
    static uint8_t split[HELLO_MOST];
    size_t hello = (size_t)wire[3] << 8 | wire[4];
    if (way == BYTE_BY_BYTE) {
        for (size_t i = 0; i < n; i++) {
            say(wire + i, 1);
            LAB_WAIT(&lab, wr_transport_bytes_received(server.transport) == i + 1);
        }
        return;
    }
    if (way != THREE_RECORDS && way != ALERT_BETWEEN) {
        say(wire, n);
        return;
    }
    size_t cut = hello_wrap(wire + 5, hello, hello / 3 + 1, split);
    memcpy(split + cut, wire + 5 + hello, n - 5 - hello);
    cut += n - 5 - hello;
    say(split, way == ALERT_BETWEEN ? between(split, cut, 5 + hello / 3 + 1) : cut);
}

static void shake_hands(SSL *ssl, enum way way)
{
    server.echo = true;
    server.verdict = way == WAITS ? WR_GATE_WAIT : WR_GATE_ADMIT;
    bool early = false;
    for (int i = 0; i < 2000 && !(server.established == 1 && SSL_is_init_finished(ssl)); i++) {
        int done = SSL_do_handshake(ssl);
        if (done == 1 && SSL_in_early_data(ssl) && !early)
            early = SSL_write(ssl, "early", 5) == 5;
        if (SSL_get_error(ssl, done) == SSL_ERROR_EARLY_DATA_REJECTED)
            SSL_reset_early_data_reject(ssl);
        int n = BIO_read(SSL_get_wbio(ssl), wire, sizeof wire);
        if (n > 0 && i == 0)
            say_first(way, (size_t)n);
        else if (n > 0)
            say(wire, (size_t)n);
        wr_loop_turn(lab.loop, 2 * WR_MSEC);
        if (way == WAITS && server.transport->gate == WR_GATE_WAITING) {
            cr_assert_null(server.transport->ssl);
            wr_transport_admit(server.transport);
        }
        ssize_t got = recv(peer, wire, sizeof wire, 0);
        if (got > 0)
            BIO_write(SSL_get_rbio(ssl), wire, (int)got);
    }
}

static void expect_echo(SSL *ssl)
{
    uint8_t got[8];
    int n = -1;
    cr_assert_eq(SSL_write(ssl, "ping", 4), 4);
    for (int i = 0; i < 2000 && n <= 0; i++) {
        int length = BIO_read(SSL_get_wbio(ssl), wire, sizeof wire);
        if (length > 0)
            say(wire, (size_t)length);
        wr_loop_turn(lab.loop, 2 * WR_MSEC);
        ssize_t came = recv(peer, wire, sizeof wire, 0);
        if (came > 0)
            BIO_write(SSL_get_rbio(ssl), wire, (int)came);
        n = SSL_read(ssl, got, sizeof got);
    }
    cr_assert_eq(n, 4);
    cr_assert_arr_eq(got, "ping", 4);
    cr_assert_eq(server.got_length, 4, "early data is thrown away");
}

static void expect_all_ways(const struct hello_options *options)
{
    drop();
    for (enum way way = 0; way < WAYS; way++) {
        SSL *ssl = hello_client(options);
        accept_raw();
        shake_hands(ssl, way);
        cr_assert_eq(server.established, 1, "way %d: %s", way, server.detail);
        cr_assert_eq(server.hellos, 1, "asked once");
        cr_assert_str_eq(server.sni, way == ALERT_BETWEEN ? "" : "localhost");
        cr_assert_eq(server.claims_resumption, options->resume && way != ALERT_BETWEEN);
        expect_echo(ssl);
        SSL_free(ssl);
        drop();
    }
}

Test(transport_hello, of_tls_1_3)
{
    expect_all_ways(&(struct hello_options){.sni = "localhost"});
}

Test(transport_hello, of_tls_1_2)
{
    expect_all_ways(&(struct hello_options){.sni = "localhost", .version = TLS1_2_VERSION});
}

Test(transport_hello, with_a_ticket_of_someone_else)
{
    expect_all_ways(&(struct hello_options){.sni = "localhost", .resume = true});
    accept_raw();
    expect_all_ways(
        &(struct hello_options){.sni = "localhost", .version = TLS1_2_VERSION, .resume = true});
}

Test(transport_hello, with_early_data_behind_it)
{
    expect_all_ways(
        &(struct hello_options){.sni = "localhost", .resume = true, .early_data = true});
}

Test(transport_hello, answered_by_a_hello_retry_request)
{
    expect_all_ways(&(struct hello_options){.sni = "localhost", .groups = "P-384:P-256"});
}

Test(transport_hello, a_server_without_tickets_believes_no_claim)
{
    drop();
    wr_tls_server_release(server_tls);
    server_tls = lab_server(&lab, false, NULL, 0);
    size_t n = hello_make(&(struct hello_options){.sni = "localhost", .resume = true}, wire);
    accept_raw();
    say(wire, n);
    LAB_WAIT(&lab, server.hellos == 1);
    cr_assert_not(server.claims_resumption);
}
