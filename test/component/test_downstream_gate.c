/* From accept to the finished handshake: real sockets and TLS, a simulated clock. After every step the account must
 * be right: accepted = refused + closed + open. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/bio.h>
#include <openssl/ssl.h>

#include "base/mem.h"
#include "support/downstream_world.h"

static struct world *world;
static struct wr_listener_metrics *metrics;

static void setup(void)
{
    world = world_new(true);
    metrics = world->env.metrics;
}

static void teardown(void)
{
    world_end(world);
}

TestSuite(gate, .init = setup, .fini = teardown);

/* ---- what a client may say ---- */

static SSL_CTX *client_context(const char *alpn)
{
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    cr_assert_eq(SSL_CTX_set_alpn_protos(context, (const uint8_t *)alpn, (unsigned)strlen(alpn)),
                 0);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_CLIENT);
    return context;
}

/* A ClientHello without the rest of the client. Returns its length. */
static size_t make_hello(const char *alpn, uint8_t *out, size_t room)
{
    SSL_CTX *context = client_context(alpn);
    SSL *ssl = SSL_new(context);
    BIO *to_server = BIO_new(BIO_s_mem());
    SSL_set_bio(ssl, BIO_new(BIO_s_mem()), to_server);
    SSL_set_tlsext_host_name(ssl, "localhost");
    (void)SSL_connect(ssl);
    int n = BIO_read(to_server, out, (int)room);
    cr_assert_gt(n, 100);
    SSL_free(ssl);
    SSL_CTX_free(context);
    return (size_t)n;
}

static void send_bytes(struct client *client, const void *p, size_t n)
{
    cr_assert_eq(send(client->fd, p, n, MSG_NOSIGNAL), (ssize_t)n);
}

static void say_hello(struct client *client)
{
    uint8_t hello[2048];
    send_bytes(client, hello, make_hello("\x08http/1.1", hello, sizeof(hello)));
}

/* One that is silent, and one that stops after its ClientHello: it holds a slot. */
static struct client *come_silent(void)
{
    struct client *client = world_connect_bare(world);
    world_settle(world);
    return client;
}

static struct client *come_and_stall(void)
{
    struct client *client = world_connect_bare(world);
    say_hello(client);
    world_settle(world);
    return client;
}

static struct client *come_and_be_served(void)
{
    struct client *client = world_connect(world);
    world_until(world, &client->established);
    world_settle(world);
    return client;
}

static bool was_reset(struct client *client)
{
    client_look(client);
    return client->broken;
}

static uint64_t gauge(const _Atomic uint64_t *metric)
{
    return wr_metric_get(metric);
}

static uint64_t records(const struct wr_histogram *histogram)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < WR_HISTOGRAM_BUCKETS; i++)
        sum += wr_metric_get(&histogram->buckets[i]);
    return sum;
}

/* ---- those who come in ---- */

Test(gate, a_handshake_is_counted)
{
    world_start(world);
    (void)come_and_be_served();
    cr_assert_eq(gauge(&metrics->connections_idle), 1);
    cr_assert_eq(gauge(&metrics->handshakes_running), 0);
    cr_assert_eq(gauge(&metrics->handshakes_full), 1);
    cr_assert_eq(gauge(&metrics->handshakes_resumed), 0);
    cr_assert_eq(records(&metrics->handshake_wait), 1);
    cr_assert_eq(records(&metrics->handshake_duration), 1);
    cr_assert_eq(world_refused_in_all(world), 0);
}

static SSL_SESSION *kept_session;

static int keep_session(SSL *ssl, SSL_SESSION *session)
{
    (void)ssl;
    SSL_SESSION_free(kept_session);
    kept_session = session;
    return 1;
}

/* Handshakes and has a request answered. */
static SSL *connect_with(SSL_CTX *context)
{
    struct client *client = world_connect_bare(world);
    SSL *ssl = SSL_new(context);
    cr_assert_eq(SSL_set_fd(ssl, client->fd), 1);
    struct timeval brief = {0, 1000};
    cr_assert_eq(setsockopt(client->fd, SOL_SOCKET, SO_RCVTIMEO, &brief, sizeof(brief)), 0);
    if (kept_session != NULL)
        SSL_set_session(ssl, kept_session);
    for (unsigned i = 0; i < 1000 && SSL_connect(ssl) != 1; i++)
        world_settle(world);
    cr_assert(SSL_is_init_finished(ssl));
    /* The library sends its tickets with the first bytes of an answer. */
    static const char request[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    cr_assert_gt(SSL_write(ssl, request, sizeof(request) - 1), 0);
    char answer[1024];
    world_settle(world);
    cr_assert_gt(SSL_read(ssl, answer, sizeof(answer)), 0);
    return ssl;
}

Test(gate, a_resumed_handshake_is_counted_as_such)
{
    world_start(world);
    SSL_CTX *context = client_context("\x08http/1.1");
    SSL_CTX_sess_set_new_cb(context, keep_session);
    SSL *first = connect_with(context);
    cr_assert_not_null(kept_session, "no ticket came");
    SSL *second = connect_with(context);
    cr_assert(SSL_session_reused(second));
    cr_assert_eq(gauge(&metrics->handshakes_full), 1);
    cr_assert_eq(gauge(&metrics->handshakes_resumed), 1);
    SSL_free(first);
    SSL_free(second);
    SSL_SESSION_free(kept_session);
    SSL_CTX_free(context);
}

Test(gate, silent_ones_hold_no_slot)
{
    world->options.admission.max_pending_handshakes = 1;
    world_start(world);
    for (unsigned i = 0; i < 100; i++)
        (void)world_connect_bare(world);
    world_settle(world);
    cr_assert_eq(gauge(&metrics->connections_silent), 100);
    (void)come_and_be_served();
    cr_assert_eq(gauge(&metrics->connections_silent), 100);
}

Test(gate, all_who_wait_get_their_turn)
{
    world->options.admission.turn_budget = 0;
    world_start(world);
    struct client *clients[40];
    for (unsigned i = 0; i < 40; i++)
        clients[i] = world_connect(world);
    for (unsigned i = 0; i < 40; i++)
        world_until(world, &clients[i]->established);
    world_settle(world);
    cr_assert_eq(gauge(&metrics->connections_idle), 40);
    cr_assert_eq(gauge(&metrics->handshakes_waiting), 0);
    cr_assert_eq(records(&metrics->handshake_wait), 40);
    cr_assert_eq(world_refused_in_all(world), 0);
}

Test(gate, each_turn_has_a_budget_of_its_own)
{
    world->options.admission.turn_budget = 350; /* one full handshake, as first guessed */
    world_start(world);
    (void)come_and_stall();
    struct client *second = come_silent();
    say_hello(second);
    while (gauge(&metrics->handshakes_running) < 2) {
        wr_loop_turn(world->loop, WR_MSEC);
        cr_assert_eq(gauge(&metrics->handshakes_waiting), 0, "it is the first of its turn");
    }
}

/* ---- the backlog limit ---- */

Test(gate, a_full_backlog_refuses_at_accept)
{
    world->options.admission.max_pending_handshakes = 2;
    world_start(world);
    struct client *first = come_and_stall();
    (void)come_and_stall();
    cr_assert_eq(gauge(&metrics->handshakes_running), 2);
    struct client *third = come_silent();
    cr_assert(was_reset(third));
    cr_assert_eq(world_refused(world, WR_REFUSAL_TOO_MANY_HANDSHAKES), 1);
    cr_assert_eq(gauge(&metrics->handshakes_refused_by_cause[WR_CAUSE_BACKLOG]), 1);
    cr_assert(world_logged(world, "\"too_many_handshakes\""));
    cr_assert(world_logged(world, "\"backlog\""));
    /* One that leaves makes room. */
    client_close(first);
    world_settle(world);
    (void)come_and_be_served();
    cr_assert_eq(world_refused(world, WR_REFUSAL_TOO_MANY_HANDSHAKES), 1);
}

Test(gate, a_full_backlog_refuses_a_late_hello)
{
    world->options.admission.max_pending_handshakes = 1;
    world_start(world);
    struct client *late = come_silent();
    (void)come_and_stall();
    say_hello(late);
    world_settle(world);
    cr_assert(was_reset(late));
    cr_assert_eq(world_refused(world, WR_REFUSAL_TOO_MANY_HANDSHAKES), 1);
    cr_assert(world_logged(world, "\"localhost\""), "gate 1 knows the name");
}

Test(gate, a_limit_of_zero_refuses_everyone)
{
    world->options.admission.max_pending_handshakes = 0;
    world_start(world);
    for (unsigned i = 0; i < 20; i++)
        cr_assert(was_reset(come_silent()));
    cr_assert_eq(world_refused(world, WR_REFUSAL_TOO_MANY_HANDSHAKES), 20);
    cr_assert_eq(wr_downstream_connections(world->downstream), 0);
}

Test(gate, refusal_by_close)
{
    world->options.admission.max_pending_handshakes = 0;
    world->options.refuse_with = WR_REFUSE_CLOSE;
    world_start(world);
    struct client *client = come_silent();
    client_look(client);
    cr_assert(client->ended);
    cr_assert_not(client->broken);
}

Test(gate, refusal_by_alert_at_accept)
{
    world->options.admission.max_pending_handshakes = 0;
    world->options.refuse_with = WR_REFUSE_ALERT;
    world_start(world);
    struct client *client = world_connect(world);
    world_until(world, &client->broken);
    cr_assert_eq(client->why, WR_ERR_UPSTREAM_TLS_FAILED);
    cr_assert_str_eq(client->detail, "internal error", "an alert and not a reset");
    cr_assert_eq(world_refused(world, WR_REFUSAL_TOO_MANY_HANDSHAKES), 1);
    world_settle(world);
    client_close(client);
    world_settle(world);
    cr_assert_eq(wr_downstream_connections(world->downstream), 0);
    cr_assert_eq(world_refused_in_all(world), 1);
}

Test(gate, refusal_by_alert_at_the_hello)
{
    world->options.admission.max_pending_handshakes = 1;
    world->options.refuse_with = WR_REFUSE_ALERT;
    world_start(world);
    struct client *late = come_silent();
    (void)come_and_stall();
    say_hello(late);
    world_settle(world);
    client_look(late);
    cr_assert(late->ended);
    cr_assert_not(late->broken, "a reset would have erased the alert");
    cr_assert_geq(late->length, 7);
    cr_assert_eq(late->text[0], 21, "an alert record");
    cr_assert_eq(late->text[5], 2, "a fatal one");
    cr_assert_eq(world_refused(world, WR_REFUSAL_TOO_MANY_HANDSHAKES), 1);
    client_close(late);
    world_settle(world);
    cr_assert_eq(wr_downstream_connections(world->downstream), 1);
}

Test(gate, alerts_are_bounded_in_number_and_time)
{
    world->options.admission.max_pending_handshakes = 0;
    world->options.refuse_with = WR_REFUSE_ALERT;
    world_start(world);
    for (unsigned i = 0; i < 300; i++)
        (void)world_connect_bare(world);
    world_settle(world);
    cr_assert_eq(world_refused(world, WR_REFUSAL_TOO_MANY_HANDSHAKES), 300);
    cr_assert_eq(wr_downstream_connections(world->downstream), 256);
    cr_assert(was_reset(&world->clients[299]));
    world_pass(world, 4900 * WR_MSEC);
    cr_assert_eq(wr_downstream_connections(world->downstream), 256);
    world_pass(world, 200 * WR_MSEC);
    cr_assert_eq(wr_downstream_connections(world->downstream), 0);
    cr_assert_eq(world_refused_in_all(world), 300, "counted once");
}

/* ---- time ---- */

Test(gate, silence_is_bounded)
{
    world_start(world);
    struct client *client = come_silent();
    world_pass(world, 4900 * WR_MSEC);
    cr_assert_eq(gauge(&metrics->connections_silent), 1);
    world_pass(world, 200 * WR_MSEC);
    cr_assert_eq(gauge(&metrics->connections_silent), 0);
    cr_assert_eq(world_refused(world, WR_REFUSAL_CLIENT_HELLO_TIMEOUT), 1);
    client_look(client);
    cr_assert(client->ended);
    cr_assert(world_logged(world, "\"client_hello_timeout\""));
}

Test(gate, half_a_hello_is_silence_too)
{
    world_start(world);
    uint8_t hello[2048];
    size_t n = make_hello("\x08http/1.1", hello, sizeof(hello));
    struct client *client = come_silent();
    for (size_t i = 0; i < 49; i++) {
        send_bytes(client, hello + i, 1);
        world_pass(world, 100 * WR_MSEC);
    }
    cr_assert_eq(gauge(&metrics->connections_silent), 1);
    world_pass(world, 200 * WR_MSEC);
    cr_assert_eq(world_refused(world, WR_REFUSAL_CLIENT_HELLO_TIMEOUT), 1);
    cr_assert_gt(n, 49);
}

Test(gate, a_hello_may_come_in_pieces)
{
    world_start(world);
    uint8_t hello[2048];
    size_t n = make_hello("\x08http/1.1", hello, sizeof(hello));
    struct client *client = come_silent();
    for (size_t i = 0; i < n; i++) {
        send_bytes(client, hello + i, 1);
        wr_loop_turn(world->loop, WR_MSEC);
    }
    world_settle(world);
    cr_assert_eq(gauge(&metrics->handshakes_running), 1);
    client_look(client);
    cr_assert_eq(client->text[0], 22, "the server's flight");
}

Test(gate, a_handshake_is_bounded_from_accept)
{
    world_start(world);
    struct client *client = come_silent();
    world_pass(world, 4 * WR_SEC);
    say_hello(client);
    world_settle(world);
    cr_assert_eq(gauge(&metrics->handshakes_running), 1);
    world_pass(world, 5900 * WR_MSEC);
    cr_assert_eq(gauge(&metrics->handshakes_running), 1);
    world_pass(world, 200 * WR_MSEC);
    cr_assert_eq(gauge(&metrics->handshakes_running), 0);
    cr_assert_eq(world_refused(world, WR_REFUSAL_HANDSHAKE_TIMEOUT), 1);
}

/* ---- those who go, and those who do not belong here ---- */

Test(gate, gone_while_silent)
{
    world_start(world);
    client_close(come_silent());
    world_settle(world);
    cr_assert_eq(world_refused(world, WR_REFUSAL_ABANDONED), 1);
    cr_assert_eq(wr_downstream_connections(world->downstream), 0);
}

Test(gate, gone_in_the_handshake)
{
    world->options.admission.max_pending_handshakes = 1;
    world_start(world);
    client_close(come_and_stall());
    world_settle(world);
    cr_assert_eq(world_refused(world, WR_REFUSAL_ABANDONED), 1);
    (void)come_and_be_served(); /* the slot is free */
}

Test(gate, gone_while_waiting)
{
    world->options.admission.turn_budget = 0;
    world_start(world);
    struct client *clients[20];
    for (unsigned i = 0; i < 20; i++)
        clients[i] = come_silent();
    for (unsigned i = 0; i < 20; i++)
        say_hello(clients[i]);
    /* One turn: all have said hello, nobody has been granted. */
    while (gauge(&metrics->handshakes_waiting) < 15)
        wr_loop_turn(world->loop, WR_MSEC);
    for (unsigned i = 0; i < 20; i++)
        client_close(clients[i]);
    world_settle(world);
    cr_assert_eq(world_refused(world, WR_REFUSAL_ABANDONED), 20);
    cr_assert_eq(gauge(&metrics->handshakes_waiting), 0);
}

static struct client *leaver;

static void leave_now(struct wr_task *task)
{
    (void)task;
    client_close(leaver);
}

Test(gate, gone_just_before_its_turn)
{
    world->options.admission.turn_budget = 0;
    world_start(world);
    leaver = come_silent();
    say_hello(leaver);
    while (gauge(&metrics->handshakes_waiting) == 0) {
        /* Before the controller's turn, and after the loop has looked at its sockets. */
        static struct wr_task task;
        wr_task_init(&task, leave_now);
        wr_loop_turn(world->loop, WR_MSEC);
        if (gauge(&metrics->handshakes_waiting) == 1)
            wr_loop_defer(world->loop, &task);
    }
    uint64_t received = gauge(&metrics->bytes_received);
    wr_loop_turn(world->loop, 0);
    cr_assert_eq(world_refused(world, WR_REFUSAL_ABANDONED), 1);
    cr_assert_eq(gauge(&metrics->bytes_sent), 0, "no cryptography for one that has left");
    cr_assert_eq(gauge(&metrics->bytes_received), received);
}

Test(gate, not_tls)
{
    world_start(world);
    struct client *client = world_connect_bare(world);
    client_say(client, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    world_settle(world);
    cr_assert_eq(world_refused(world, WR_REFUSAL_NOT_TLS), 1);
    cr_assert(world_logged(world, "\"not_tls\""));
}

Test(gate, no_common_protocol)
{
    world_start(world);
    uint8_t hello[2048];
    struct client *client = world_connect_bare(world);
    send_bytes(client, hello, make_hello("\x02h2", hello, sizeof(hello)));
    world_settle(world);
    cr_assert_eq(world_refused(world, WR_REFUSAL_TLS_ERROR), 1);
    client_look(client);
    cr_assert_eq(client->text[0], 21, "an alert record");
    cr_assert_eq(client->text[6], 120, "no_application_protocol");
    cr_assert(world_logged(world, "\"tls_error\""));
}

Test(gate, a_broken_hello)
{
    world_start(world);
    struct client *client = world_connect_bare(world);
    send_bytes(client, "\x16\x03\x01\x00\x05hello", 10);
    world_settle(world);
    cr_assert_eq(world_refused(world, WR_REFUSAL_TLS_ERROR), 1);
}

/* ---- room ---- */

Test(gate, too_many_silent_ones_evict_the_oldest)
{
    world->options.admission.max_silent = 3;
    world_start(world);
    struct client *first = come_silent();
    for (unsigned i = 0; i < 3; i++)
        (void)come_silent();
    cr_assert_eq(gauge(&metrics->connections_silent), 3);
    cr_assert_eq(world_refused(world, WR_REFUSAL_TOO_MANY_CONNECTIONS), 1);
    cr_assert(was_reset(first));
    (void)come_and_be_served();
}

Test(gate, without_descriptors)
{
    world_start(world);
    struct client *before = come_silent();
    struct client *next = world_connect_bare(world);
    struct rlimit limit;
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    struct rlimit low = {.rlim_cur = (rlim_t)next->fd + 1, .rlim_max = limit.rlim_max};
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &low), 0);
    world_settle(world);
    cr_assert_eq(world_refused(world, WR_REFUSAL_NO_DESCRIPTORS), 1);
    cr_assert_geq(gauge(&metrics->accept_paused), 1);
    cr_assert(was_reset(next));
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    world_pass(world, 200 * WR_MSEC);
    (void)come_and_be_served();
    client_look(before);
    cr_assert_not(before->broken);
}

/* ---- drain ---- */

Test(gate, drain_refuses_those_who_have_cost_nothing)
{
    world_start(world);
    struct client *silent = come_silent();
    struct client *stalled = come_and_stall();
    wr_downstream_drain(world->downstream);
    world_settle(world);
    cr_assert_eq(world_refused(world, WR_REFUSAL_DRAINING), 1);
    cr_assert(was_reset(silent));
    cr_assert_eq(gauge(&metrics->handshakes_running), 1);
    client_look(stalled);
    cr_assert_not(stalled->broken);
}

Test(gate, free_in_every_state)
{
    world->options.admission.turn_budget = 0;
    world->options.refuse_with = WR_REFUSE_ALERT;
    world_start(world);
    (void)come_and_be_served();
    (void)come_silent();
    (void)come_and_stall();
    (void)come_and_stall();
    wr_downstream_free(world->downstream);
    world->downstream = NULL;
    wr_loop_turn(world->loop, 0);
    world_check_account(world);
    cr_assert_eq(world_refused(world, WR_REFUSAL_DRAINING), 3);
    cr_assert_eq(world_ended(world, WR_ERR_DRAINING), 1);
}

/* ---- whatever happens ---- */

static unsigned draw(unsigned below)
{
    static uint64_t state = UINT64_C(0x2545f4914f6cdd1d);
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)(state % below);
}

static void do_something(struct client *client)
{
    switch (draw(8)) {
    case 0:
        client_say(client, "not TLS at all");
        break;
    case 1:
        client_close(client);
        break;
    case 2:
        send_bytes(client, "\x16\x03\x01\x00\x05hello", 10);
        break;
    case 3:
    case 4:
        say_hello(client);
        break;
    default:
        break;
    }
}

Test(gate, the_account_is_right_whatever_happens)
{
    world->options.admission.max_pending_handshakes = 5;
    world->options.admission.max_silent = 20;
    world->options.admission.turn_budget = 400;
    world->options.max_connections = 40;
    world->options.refuse_with = WR_REFUSE_ALERT;
    world_start(world);
    for (unsigned i = 0; i < WORLD_CLIENTS; i++) {
        if (draw(3) == 0)
            (void)world_connect(world);
        else
            (void)world_connect_bare(world);
        struct client *client = &world->clients[draw((unsigned)world->client_count)];
        client_look(client);
        if (client->fd >= 0 && !client->broken && !client->ended)
            do_something(client);
        else if (draw(2) == 0)
            client_close(client);
        wr_loop_turn(world->loop, 0);
        world_check_account(world);
        if (draw(4) == 0)
            wr_loop_advance(world->loop, draw(700) * WR_MSEC);
        world_check_account(world);
    }
    wr_downstream_drain(world->downstream);
    world_pass(world, 20 * WR_SEC);
    for (unsigned i = 0; i < WORLD_CLIENTS; i++)
        client_close(&world->clients[i]);
    world_pass(world, 20 * WR_SEC);
    cr_assert_eq(wr_downstream_connections(world->downstream), 0);
    cr_assert_eq(gauge(&metrics->connections_accepted),
                 world_refused_in_all(world) + gauge(&metrics->connections_closed));
}
