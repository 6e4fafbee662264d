/* Gate 1 and what comes before it: silence, verdicts, refusals, peers that are no TLS or are gone. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/time.h"
#include "support/transport_lab.h"
#include "transport/transport_internal.h"

static struct lab lab;
static struct lab_end server;
static struct lab_end client;
static struct wr_tls_server *server_tls;
static struct wr_tls_client *client_tls;
static int peer; /* the raw socket opposite SERVER, or -1 */

static void set_up(void)
{
    lab_open(&lab);
    server = (struct lab_end){0};
    client = (struct lab_end){0};
    server_tls = lab_server(&lab, true, NULL, 0);
    client_tls = lab_client(&lab, NULL, NULL, 0);
    peer = -1;
}

static void tear_down(void)
{
    lab_end_free(&server);
    lab_end_free(&client);
    if (peer >= 0)
        close(peer);
    wr_tls_server_release(server_tls);
    wr_tls_client_release(client_tls);
    lab_close(&lab);
}

TestSuite(transport_gate, .init = set_up, .fini = tear_down, .timeout = 60);

static void accept_raw(void)
{
    int a;
    lab_tcp_pair(&a, &peer);
    lab_accept(&lab, &server, a, server_tls);
}

static void accept_client(void)
{
    int a;
    int b;
    lab_tcp_pair(&a, &b);
    lab_accept(&lab, &server, a, server_tls);
    lab_adopt(&lab, &client, b, client_tls);
}

static void say(const void *p, size_t n)
{
    cr_assert_eq(send(peer, p, n, MSG_NOSIGNAL), (ssize_t)n);
}

/* What the peer gets until its end; -1 at the end: a reset. */
static ssize_t hear(uint8_t *p, size_t size)
{
    size_t n = 0;
    uint64_t until = wr_time_monotonic() + 5 * WR_SEC;
    while (wr_time_monotonic() < until) {
        ssize_t got = recv(peer, p + n, size - n, 0);
        if (got == 0)
            return (ssize_t)n;
        if (got < 0 && errno != EAGAIN)
            return -1;
        if (got > 0)
            n += (size_t)got;
        wr_loop_turn(lab.loop, 1 * WR_MSEC);
    }
    cr_assert_fail("no end came");
    return -1;
}

static const uint8_t alert[] = {21, 3, 3, 0, 2, 2, 80};

static void expect_alert_and_fin(void)
{
    uint8_t got[64];
    cr_assert_eq(hear(got, sizeof got), (ssize_t)sizeof alert);
    cr_assert_arr_eq(got, alert, sizeof alert);
    LAB_WAIT(&lab, server.flushes == 1);
    cr_assert_eq(server.closes, 0);
}

/* A ClientHello as our own client sends it. */
static size_t capture_hello(uint8_t *p, size_t size)
{
    int a;
    int b;
    struct lab_end end = {0};
    lab_tcp_pair(&a, &b);
    lab_adopt(&lab, &end, b, client_tls);
    lab_settle(&lab);
    ssize_t n = recv(a, p, size, 0);
    cr_assert_gt(n, 100);
    close(a);
    lab_end_free(&end);
    wr_loop_turn(lab.loop, 0);
    return (size_t)n;
}

Test(transport_gate, a_silent_connection_has_no_tls_object)
{
    accept_raw();
    lab_settle(&lab);
    cr_assert_eq(wr_transport_state(server.transport), WR_TRANSPORT_SILENT);
    cr_assert_null(server.transport->ssl);
    cr_assert_null(server.transport->pipeline);
    cr_assert_eq(server.first_bytes, 0);
}

Test(transport_gate, a_silent_client_that_goes_is_told)
{
    accept_raw();
    close(peer);
    peer = -1;
    LAB_WAIT(&lab, server.closes == 1);
    cr_assert_eq(server.why, WR_ERR_CLIENT_CLOSED);
}

Test(transport_gate, waiting_and_admitted)
{
    server.verdict = WR_GATE_WAIT;
    accept_client();
    LAB_WAIT(&lab, server.hellos == 1);
    lab_settle(&lab);
    cr_assert_eq(server.hellos, 1);
    cr_assert_eq(server.established, 0);
    cr_assert_eq(wr_transport_state(server.transport), WR_TRANSPORT_HANDSHAKE);
    LAB_CALL(&lab, wr_transport_admit(server.transport));
    LAB_WAIT(&lab, server.established == 1 && client.established == 1);
    cr_assert_eq(server.hellos, 1, "asked once");
    wr_transport_write(client.transport, "x", 1);
    LAB_WAIT(&lab, server.got_length == 1);
}

Test(transport_gate, a_waiter_that_goes_is_told)
{
    uint8_t hello[4096];
    size_t n = capture_hello(hello, sizeof hello);
    server.verdict = WR_GATE_WAIT;
    accept_raw();
    say(hello, n);
    LAB_WAIT(&lab, server.hellos == 1);
    say("more, unread", 12);
    lab_settle(&lab);
    close(peer);
    peer = -1;
    LAB_WAIT(&lab, server.closes == 1);
    cr_assert_eq(server.why, WR_ERR_CLIENT_CLOSED);
    cr_assert_eq(server.established, 0);
}

Test(transport_gate, no_cryptography_for_a_client_that_has_gone)
{
    uint8_t hello[4096];
    size_t n = capture_hello(hello, sizeof hello);
    accept_raw();
    say(hello, n);
    close(peer);
    peer = -1;
    LAB_WAIT(&lab, server.closes == 1);
    cr_assert_eq(server.why, WR_ERR_CLIENT_CLOSED);
    cr_assert_eq(server.hellos, 0);
}

/* Behaviour row 49. */
Test(transport_gate, a_hello_in_single_bytes)
{
    uint8_t hello[4096];
    size_t n = capture_hello(hello, sizeof hello);
    accept_raw();
    for (size_t i = 0; i < n; i++) {
        cr_assert_eq(server.hellos, 0);
        say(hello + i, 1);
        LAB_WAIT(&lab, wr_transport_bytes_received(server.transport) == i + 1);
    }
    LAB_WAIT(&lab, server.hellos == 1);
    cr_assert_eq(server.first_bytes, 1);
    LAB_WAIT(&lab, wr_transport_bytes_sent(server.transport) > 500);
    cr_assert_eq(server.closes, 0);
}

/* One handshake message cut into records of a few bytes each. */
Test(transport_gate, a_hello_in_many_records)
{
    uint8_t hello[4096];
    size_t n = capture_hello(hello, sizeof hello);
    accept_raw();
    for (size_t at = 5; at < n; at += 16) {
        size_t part = n - at < 16 ? n - at : 16;
        uint8_t header[5] = {22, 3, 1, 0, (uint8_t)part};
        say(header, sizeof header);
        say(hello + at, part);
    }
    LAB_WAIT(&lab, wr_transport_bytes_sent(server.transport) > 500);
    cr_assert_eq(server.hellos, 1);
}

Test(transport_gate, refused_by_reset)
{
    uint8_t hello[4096];
    uint8_t got[64];
    size_t n = capture_hello(hello, sizeof hello);
    server.refuse_in_hello = WR_REFUSE_RESET + 1;
    accept_raw();
    say(hello, n);
    cr_assert_eq(hear(got, sizeof got), -1);
    cr_assert_eq(server.closes, 0, "silent after the owner's own close");
}

Test(transport_gate, refused_by_close)
{
    uint8_t hello[4096];
    uint8_t got[64];
    size_t n = capture_hello(hello, sizeof hello);
    server.refuse_in_hello = WR_REFUSE_CLOSE + 1;
    accept_raw();
    say(hello, n);
    cr_assert_eq(hear(got, sizeof got), 0);
}

Test(transport_gate, refused_by_alert_in_the_gate)
{
    uint8_t hello[4096];
    size_t n = capture_hello(hello, sizeof hello);
    server.refuse_in_hello = WR_REFUSE_ALERT + 1;
    accept_raw();
    say(hello, n);
    expect_alert_and_fin();
    cr_assert_null(server.transport->ssl);
    say("more, to be thrown away", 23);
    lab_settle(&lab);
    close(peer);
    peer = -1;
    LAB_WAIT(&lab, server.read_ends == 1);
    cr_assert_eq(server.readable_calls, 0);
}

Test(transport_gate, refused_by_alert_while_waiting)
{
    uint8_t hello[4096];
    size_t n = capture_hello(hello, sizeof hello);
    server.verdict = WR_GATE_WAIT;
    accept_raw();
    say(hello, n);
    LAB_WAIT(&lab, server.hellos == 1);
    LAB_CALL(&lab, wr_transport_refuse(server.transport, WR_REFUSE_ALERT));
    expect_alert_and_fin();
}

Test(transport_gate, refused_by_alert_in_silence)
{
    uint8_t hello[4096];
    size_t n = capture_hello(hello, sizeof hello);
    accept_raw();
    say(hello, n); /* drained, so that the alert is not erased */
    LAB_CALL(&lab, wr_transport_refuse(server.transport, WR_REFUSE_ALERT));
    expect_alert_and_fin();
    cr_assert_eq(server.first_bytes, 0);
    cr_assert_eq(wr_transport_bytes_received(server.transport), n);
}

Test(transport_gate, refused_by_alert_before_anything_came)
{
    uint8_t hello[4096];
    size_t n = capture_hello(hello, sizeof hello);
    accept_raw();
    LAB_CALL(&lab, wr_transport_refuse(server.transport, WR_REFUSE_ALERT));
    lab_settle(&lab);
    say(hello, n);
    expect_alert_and_fin();
    lab_settle(&lab);
    cr_assert_eq(wr_transport_bytes_received(server.transport), n);
    close(peer);
    peer = -1;
    LAB_WAIT(&lab, server.read_ends == 1);
}

Test(transport_gate, our_client_hears_the_alert)
{
    server.refuse_in_hello = WR_REFUSE_ALERT + 1;
    accept_client();
    LAB_WAIT(&lab, client.closes == 1);
    cr_assert_eq(client.why, WR_ERR_UPSTREAM_TLS_FAILED);
    cr_assert_str_eq(client.detail, "internal error");
}

Test(transport_gate, refused_by_alert_after_the_gate)
{
    uint8_t hello[4096];
    uint8_t got[16384];
    size_t n = capture_hello(hello, sizeof hello);
    accept_raw();
    say(hello, n);
    LAB_WAIT(&lab, wr_transport_bytes_sent(server.transport) > 500);
    LAB_CALL(&lab, wr_transport_refuse(server.transport, WR_REFUSE_ALERT));
    ssize_t length = hear(got, sizeof got);
    cr_assert_gt(length, 500); /* the flight, then an encrypted alert */
    LAB_WAIT(&lab, server.flushes == 1);
}

Test(transport_gate, an_open_or_plain_transport_is_closed_by_refusal)
{
    int a;
    uint8_t got[8];
    lab_tcp_pair(&a, &peer);
    lab_accept(&lab, &server, a, NULL);
    LAB_CALL(&lab, wr_transport_refuse(server.transport, WR_REFUSE_ALERT));
    server.transport = NULL;
    cr_assert_eq(hear(got, sizeof got), 0);
}

Test(transport_gate, what_is_not_tls_is_told_as_such)
{
    static const char *const first[] = {"GET / HTTP/1.1\r\n\r\n", "\x80\x2e\x01\x03\x01",
                                        "\x15\x03\x01", "SSH-2.0-x\r\n", "\n"};
    for (size_t i = 0; i < sizeof first / sizeof *first; i++) {
        server = (struct lab_end){0};
        accept_raw();
        say(first[i], strlen(first[i]));
        if (i % 2 == 1)
            shutdown(peer, SHUT_WR);
        LAB_WAIT(&lab, server.closes == 1);
        cr_assert_eq(server.why, WR_ERR_TLS_NOT_TLS);
        cr_assert_eq(server.first_bytes, 0);
        cr_assert_null(server.transport->ssl);
        lab_end_free(&server);
        close(peer);
        peer = -1;
    }
}

Test(transport_gate, garbage_in_a_handshake_record_is_a_tls_error)
{
    uint8_t garbage[] = {22, 3, 1, 0, 5, 1, 0, 0, 1, 9};
    uint8_t got[64];
    accept_raw();
    say(garbage, sizeof garbage);
    LAB_WAIT(&lab, server.closes == 1);
    cr_assert_eq(server.why, WR_ERR_TLS_FAILED);
    cr_assert_str_neq(server.detail, "");
    lab_end_free(&server);
    cr_assert_eq(hear(got, sizeof got), 7, "a fatal alert, not erased");
    cr_assert_eq(got[0], 21);
}

Test(transport_gate, a_pause_of_the_owner_does_not_stop_the_handshake)
{
    accept_client();
    wr_transport_pause(server.transport, WR_PAUSE_OWNER);
    wr_transport_write(client.transport, "x", 1);
    LAB_WAIT(&lab, server.established == 1);
    lab_settle(&lab);
    cr_assert_eq(server.got_length, 0);
    wr_transport_resume(server.transport, WR_PAUSE_OWNER);
    LAB_WAIT(&lab, server.got_length == 1);
}
