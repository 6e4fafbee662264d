/* The limit on pending handshakes: whom it refuses, how, and that every refusal is counted. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/edge.h"
#include "support/flood.h"

#define RUNNING "weir_handshakes_running{listener=\"edge\"}"
#define SILENT "weir_connections_silent{listener=\"edge\"}"
#define OPEN "weir_connections_idle{listener=\"edge\"}"
#define BY_BACKLOG "weir_handshakes_refused_total{listener=\"edge\",cause=\"backlog\"}"
#define WAIT_MS 5000

static const uint8_t alert_record[] = {21, 3, 3, 0, 2, 2, 80};

/* COUNT clients that have sent a whole ClientHello and say no more. */
static void stall(const struct weir *weir, int *fds, unsigned count)
{
    uint8_t hello[FLOOD_HELLO_MAX];
    size_t n = flood_hello(hello, NULL);
    int port = weir_port(weir, "edge");

    for (unsigned i = 0; i < count; i++) {
        fds[i] = flood_connect(port, i);
        cr_assert_geq(fds[i], 0);
        cr_assert(flood_send(fds[i], hello, n));
    }
}

static void expect_reset(int port, unsigned index)
{
    int fd = flood_connect(port, index);
    size_t n = 0;

    if (fd < 0) /* the reset was faster */
        return;
    enum peer_end end = flood_end(fd, NULL, 0, &n, edge_ms(WAIT_MS));
    cr_assert_eq(end, PEER_RESET, "connection %u ended with %d, not by a reset", index, end);
    cr_expect_eq(n, 0, "%zu bytes before the reset", n);
    (void)close(fd);
}

Test(limit, zero_refuses_every_connection_and_counts_each)
{
    struct edge_options options = {.workers = 2, .admission = "max_pending_handshakes: 0"};
    struct weir *weir = edge_start(&options);
    int port = weir_port(weir, "edge");

    for (unsigned i = 0; i < 500; i++)
        expect_reset(port, i);
    edge_expect_refused(weir, "too_many_handshakes", 500);
    cr_expect_eq(weir_metric(weir, BY_BACKLOG), 500);
    cr_expect_eq(weir_metric(weir, "weir_handshakes_full_total{listener=\"edge\"}"), 0);
    edge_expect_balance(weir, 500, 0);
    edge_expect_log_lines(weir, "\"reason\":\"too_many_handshakes\"", 500);
    cr_expect_eq(edge_log_lines(weir, "\"cause\":\"backlog\""), 500);
    cr_expect_eq(edge_log_lines(weir, "\"type\":\"refused\""), 500);
    weir_stop(weir);
}

Test(limit, infinity_refuses_nobody)
{
    enum { COUNT = 600 };
    struct edge_options options = {
        .admission = "max_pending_handshakes: infinity, max_handshake_delay: infinity",
        .timeouts = "handshake: 1h"};
    struct weir *weir = edge_start(&options);
    int fds[COUNT];

    stall(weir, fds, COUNT);
    cr_expect(weir_metric_becomes(weir, RUNNING, COUNT, edge_ms(WAIT_MS)));
    cr_expect(edge_serves(weir));
    edge_expect_refused(weir, "too_many_handshakes", 0);
    edge_expect_balance(weir, COUNT + 1, COUNT);
    flood_close(fds, COUNT);
    edge_expect_refused(weir, "abandoned", COUNT);
    edge_expect_balance(weir, COUNT + 1, 0);
    weir_stop(weir);
}

Test(limit, a_number_is_exact_and_slots_come_back)
{
    enum { LIMIT = 25, MORE = 40 };
    struct edge_options options = {.admission = "max_pending_handshakes: 25",
                                   .timeouts = "handshake: 1h"};
    struct weir *weir = edge_start(&options);
    int port = weir_port(weir, "edge");
    int fds[LIMIT];

    stall(weir, fds, LIMIT);
    cr_assert(weir_metric_becomes(weir, RUNNING, LIMIT, edge_ms(WAIT_MS)));
    for (unsigned i = 0; i < MORE; i++)
        expect_reset(port, i);
    edge_expect_refused(weir, "too_many_handshakes", MORE);
    edge_expect_balance(weir, LIMIT + MORE, LIMIT);
    /* One slot is one handshake. */
    flood_close(fds, 1);
    cr_assert(weir_metric_becomes(weir, RUNNING, LIMIT - 1, edge_ms(WAIT_MS)));
    cr_expect(edge_serves(weir));
    stall(weir, fds, 1);
    cr_assert(weir_metric_becomes(weir, RUNNING, LIMIT, edge_ms(WAIT_MS)));
    expect_reset(port, 0);
    flood_close(fds, LIMIT);
    cr_expect(weir_metric_becomes(weir, RUNNING, 0, edge_ms(WAIT_MS)));
    for (unsigned i = 0; i < 2 * LIMIT; i++)
        cr_assert(edge_serves(weir), "not served after the others left");
    weir_stop(weir);
}

Test(limit, of_silent_clients_that_speak_at_once_the_number_is_served)
{
    enum { LIMIT = 10, COUNT = 64 };
    struct edge_options options = {.admission = "max_pending_handshakes: 10",
                                   .timeouts = "handshake: 1h, client_hello: 1h"};
    struct weir *weir = edge_start(&options);
    int port = weir_port(weir, "edge");
    uint8_t hello[FLOOD_HELLO_MAX];
    size_t n = flood_hello(hello, NULL);
    int fds[COUNT];
    unsigned reset = 0;

    /* All pass the first gate, since nobody holds a slot yet. */
    for (unsigned i = 0; i < COUNT; i++)
        fds[i] = flood_connect(port, i);
    cr_assert(weir_metric_becomes(weir, SILENT, COUNT, edge_ms(WAIT_MS)));
    for (unsigned i = 0; i < COUNT; i++)
        cr_expect(flood_send(fds[i], hello, n));
    edge_expect_refused(weir, "too_many_handshakes", COUNT - LIMIT);
    edge_expect_balance(weir, COUNT, LIMIT);
    for (unsigned i = 0; i < COUNT; i++)
        reset += flood_end(fds[i], NULL, 0, NULL, 200) == PEER_RESET;
    cr_expect_eq(reset, COUNT - LIMIT, "%u clients saw a reset", reset);
    /* Who was refused with a ClientHello is logged with its name. */
    edge_expect_log_lines(weir, "\"sni\":\"localhost\"", COUNT - LIMIT);
    flood_close(fds, COUNT);
    weir_stop(weir);
}

Test(limit, neither_silence_nor_half_a_hello_holds_a_slot)
{
    enum { COUNT = 50 };
    struct edge_options options = {.admission = "max_pending_handshakes: 1",
                                   .timeouts = "handshake: 1h, client_hello: 1h"};
    struct weir *weir = edge_start(&options);
    int port = weir_port(weir, "edge");
    uint8_t hello[FLOOD_HELLO_MAX];
    size_t n = flood_hello(hello, NULL);
    int fds[2 * COUNT];

    for (unsigned i = 0; i < 2 * COUNT; i++) {
        fds[i] = flood_connect(port, i);
        if (i % 2)
            cr_assert(flood_send(fds[i], hello, 1 + i * (n - 2) / (2 * COUNT)));
    }
    cr_assert(weir_metric_becomes(weir, SILENT, 2 * COUNT, edge_ms(WAIT_MS)));
    cr_expect_eq(weir_metric(weir, RUNNING), 0);
    for (int i = 0; i < 10; i++)
        cr_assert(edge_serves(weir));
    edge_expect_refused(weir, "too_many_handshakes", 0);
    flood_close(fds, 2 * COUNT);
    edge_expect_refused(weir, "abandoned", 2 * COUNT);
    weir_stop(weir);
}

/* ---- resumption ---- */

#define BY_RESUMPTION "weir_handshakes_refused_total{listener=\"edge\",cause=\"resumption\"}"

static struct ssl_session_st *ticket_of(const struct weir *weir)
{
    struct peer *peer = peer_connect_tls(weir_port(weir, "edge"), NULL);

    cr_assert_not_null(peer);
    cr_assert(peer_say(peer, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    struct reply reply = peer_reply(peer, false);
    struct ssl_session_st *session = peer_session(peer);
    cr_assert_eq(reply.status, 200);
    cr_assert_not_null(session, "no ticket came");
    reply_free(&reply);
    peer_free(peer);
    return session;
}

/* What comes meanwhile is met in one turn of the loop, in which nobody has been let go yet. */
static void stand_still(const struct weir *weir)
{
    int status;

    cr_assert_eq(kill(weir_pid(weir), SIGSTOP), 0);
    cr_assert_eq(waitpid(weir_pid(weir), &status, WUNTRACED), weir_pid(weir));
    cr_assert(WIFSTOPPED(status));
}

/* LIMIT full handshakes fill the backlog while weir stands still, and then comes one with a ticket. One is too many. */
static void fill_and_resume(const struct weir *weir, int *fds, unsigned limit)
{
    struct ssl_session_st *session = ticket_of(weir);
    struct peer_tls resuming = {.session = session};
    uint8_t hello[FLOOD_HELLO_MAX];
    size_t n = flood_hello(hello, &resuming);

    cr_assert(weir_metric_becomes(weir, OPEN, 0, edge_ms(WAIT_MS)));
    stand_still(weir);
    stall(weir, fds, limit);
    fds[limit] = flood_connect(weir_port(weir, "edge"), limit);
    cr_assert(flood_send(fds[limit], hello, n));
    cr_assert_eq(kill(weir_pid(weir), SIGCONT), 0);
    edge_expect_refused(weir, "too_many_handshakes", 1);
    cr_expect(weir_metric_becomes(weir, RUNNING, limit, edge_ms(WAIT_MS)));
    peer_session_free(session);
}

static void expect_answered(int fd)
{
    uint8_t type = 0;
    size_t n = 0;

    (void)flood_end(fd, &type, 1, &n, 200);
    cr_expect(n > 0 && type == 22, "%zu bytes are no ServerHello", n);
}

static void expect_refused(int fd)
{
    size_t n = 0;

    cr_expect_eq(flood_end(fd, NULL, 0, &n, edge_ms(WAIT_MS)), PEER_RESET);
    cr_expect_eq(n, 0);
}

Test(resumption, takes_the_place_of_the_full_one_that_would_be_served_last)
{
    enum { LIMIT = 4 };
    struct edge_options options = {.admission = "max_pending_handshakes: 4, "
                                                "max_handshake_delay: infinity",
                                   .timeouts = "handshake: 1h"};
    struct weir *weir = edge_start(&options);
    int fds[LIMIT + 1];

    fill_and_resume(weir, fds, LIMIT);
    cr_expect_eq(weir_metric(weir, BY_RESUMPTION), 1);
    cr_expect_eq(weir_metric(weir, BY_BACKLOG), 0);
    expect_refused(fds[LIMIT - 1]);
    expect_answered(fds[LIMIT]);
    for (unsigned i = 0; i < LIMIT - 1; i++)
        expect_answered(fds[i]);
    edge_expect_log_lines(weir, "\"cause\":\"resumption\"", 1);
    flood_close(fds, LIMIT + 1);
    weir_stop(weir);
}

Test(resumption, when_it_is_not_first_is_refused_like_any_other)
{
    enum { LIMIT = 4 };
    struct edge_options options = {.admission = "max_pending_handshakes: 4, "
                                                "max_handshake_delay: infinity, "
                                                "resumption_first: false",
                                   .timeouts = "handshake: 1h"};
    struct weir *weir = edge_start(&options);
    int fds[LIMIT + 1];

    fill_and_resume(weir, fds, LIMIT);
    cr_expect_eq(weir_metric(weir, BY_RESUMPTION), 0);
    cr_expect_eq(weir_metric(weir, BY_BACKLOG), 1);
    expect_refused(fds[LIMIT]);
    flood_close(fds, LIMIT + 1);
    weir_stop(weir);
}

/* ---- refuse_with ---- */

static struct weir *start_refusing(const char *how)
{
    char admission[80];
    struct edge_options options = {.admission = admission, .timeouts = "linger: 1h"};

    (void)snprintf(admission, sizeof(admission), "max_pending_handshakes: 0, refuse_with: %s", how);
    return edge_start(&options);
}

Test(refuse_with, reset)
{
    struct weir *weir = start_refusing("reset");

    for (unsigned i = 0; i < 20; i++)
        expect_reset(weir_port(weir, "edge"), i);
    edge_expect_refused(weir, "too_many_handshakes", 20);
    weir_stop(weir);
}

Test(refuse_with, close_ends_without_a_word)
{
    struct weir *weir = start_refusing("close");

    for (unsigned i = 0; i < 20; i++) {
        int fd = flood_connect(weir_port(weir, "edge"), i);
        size_t n = 0;
        enum peer_end end = flood_end(fd, NULL, 0, &n, edge_ms(WAIT_MS));
        cr_assert(end == PEER_EOF && n == 0, "ended with %d after %zu bytes", end, n);
        (void)close(fd);
    }
    edge_expect_refused(weir, "too_many_handshakes", 20);
    edge_expect_balance(weir, 20, 0);
    weir_stop(weir);
}

/* What CLIENT sends: N bytes; the alert must come whole and be followed by FIN, and no reset may erase it. */
static void expect_alert(int port, const uint8_t *p, size_t n)
{
    int fd = flood_connect(port, 0);
    uint8_t got[64];
    size_t length = 0;

    cr_assert_geq(fd, 0);
    cr_expect(flood_send(fd, p, n));
    enum peer_end end = flood_end(fd, got, sizeof(got), &length, edge_ms(WAIT_MS));
    cr_assert_eq(end, PEER_EOF, "ended with %d", end);
    cr_expect(length == sizeof(alert_record) && memcmp(got, alert_record, length) == 0,
              "%zu bytes are no alert", length);
    (void)close(fd);
}

Test(refuse_with, alert_is_read_by_a_client_and_followed_by_the_end)
{
    struct weir *weir = start_refusing("alert");
    int port = weir_port(weir, "edge");
    uint8_t hello[FLOOD_HELLO_MAX + 4096] = {0};
    size_t n = flood_hello(hello, NULL);

    for (unsigned i = 0; i < 50; i++)
        expect_alert(port, hello, n);
    /* More than was asked for, and less. */
    for (unsigned i = 0; i < 50; i++)
        expect_alert(port, hello, n + 4096);
    for (unsigned i = 0; i < 50; i++)
        expect_alert(port, hello, n / 2);
    for (unsigned i = 0; i < 10; i++) {
        struct peer *peer = peer_connect(port);
        cr_expect_not(peer_start_tls(peer, NULL));
        cr_expect_eq(peer_alert(peer), 80, "alert %d", peer_alert(peer));
        peer_free(peer);
    }
    edge_expect_refused(weir, "too_many_handshakes", 160);
    edge_expect_balance(weir, 160, 0);
    edge_expect_log_lines(weir, "\"reason\":\"too_many_handshakes\"", 160);
    weir_stop(weir);
}

Test(refuse_with, alert_after_the_hello)
{
    enum { COUNT = 40 };
    struct edge_options options = {.admission = "max_pending_handshakes: 1, refuse_with: alert",
                                   .timeouts = "handshake: 1h, client_hello: 1h"};
    struct weir *weir = edge_start(&options);
    uint8_t hello[FLOOD_HELLO_MAX];
    size_t n = flood_hello(hello, NULL);
    int fds[COUNT];
    unsigned alerts = 0;

    for (unsigned i = 0; i < COUNT; i++)
        fds[i] = flood_connect(weir_port(weir, "edge"), i);
    cr_assert(weir_metric_becomes(weir, SILENT, COUNT, edge_ms(WAIT_MS)));
    for (unsigned i = 0; i < COUNT; i++)
        cr_expect(flood_send(fds[i], hello, n));
    edge_expect_refused(weir, "too_many_handshakes", COUNT - 1);
    for (unsigned i = 0; i < COUNT; i++) {
        uint8_t got[64];
        size_t length = 0;
        enum peer_end end = flood_end(fds[i], got, sizeof(got), &length, 200);
        alerts += end == PEER_EOF && length == sizeof(alert_record) &&
                  memcmp(got, alert_record, length) == 0;
    }
    cr_expect_eq(alerts, COUNT - 1, "%u clients saw the alert and the end", alerts);
    flood_close(fds, COUNT);
    weir_stop(weir);
}

Test(refuse_with, alert_is_not_kept_for_many_that_do_not_leave)
{
    enum { COUNT = 1000 };
    struct weir *weir = start_refusing("alert");
    int port = weir_port(weir, "edge");
    int fds[COUNT];
    unsigned reset = 0;

    for (unsigned i = 0; i < COUNT; i++)
        fds[i] = flood_connect(port, i);
    edge_expect_refused(weir, "too_many_handshakes", COUNT);
    edge_expect_balance(weir, COUNT, 0);
    for (unsigned i = 0; i < COUNT; i++)
        reset += fds[i] < 0 || flood_end(fds[i], NULL, 0, NULL, 0) == PEER_RESET;
    cr_expect_geq(reset, COUNT - 256, "%u were reset", reset);
    flood_close(fds, COUNT);
    weir_stop(weir);
}
