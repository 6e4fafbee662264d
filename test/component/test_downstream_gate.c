/* From accept to the finished handshake: real sockets and TLS, a simulated clock. After every step the account must
 * be right: accepted = refused + closed + open. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/ssl.h>

#include "support/downstream_guests.h"

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
    (void)world_come_and_be_served(world);
    cr_assert_eq(gauge(&metrics->connections_idle), 1);
    cr_assert_eq(gauge(&metrics->handshakes_running), 0);
    cr_assert_eq(gauge(&metrics->handshakes_full), 1);
    cr_assert_eq(gauge(&metrics->handshakes_resumed), 0);
    cr_assert_eq(records(&metrics->handshake_wait), 1);
    cr_assert_eq(records(&metrics->handshake_duration), 1);
    cr_assert_eq(world_refused_in_all(world), 0);
}

static SSL_CTX *client_context(const char *alpn)
{
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    cr_assert_eq(SSL_CTX_set_alpn_protos(context, (const uint8_t *)alpn, (unsigned)strlen(alpn)),
                 0);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_CLIENT);
    return context;
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

/* The first ClientHello had no key share that suits, so there was a second one: it is not judged, and gate 1 not asked again. */
Test(gate, a_hello_retry_request_is_one_handshake)
{
    world->options.admission.max_pending_handshakes = 1;
    world_start(world);
    SSL_CTX *context = client_context("\x08http/1.1");
    cr_assert_eq(SSL_CTX_set1_curves_list(context, "P-384:P-256"), 1);
    SSL *ssl = connect_with(context);
    cr_assert_eq(SSL_get_curve_id(ssl), SSL_CURVE_SECP256R1, "no HelloRetryRequest");
    cr_assert_eq(gauge(&metrics->handshakes_full), 1);
    cr_assert_eq(gauge(&metrics->handshakes_running), 0);
    cr_assert_eq(gauge(&metrics->handshakes_waiting), 0);
    SSL_free(ssl);
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
    (void)world_come_and_be_served(world);
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
    (void)world_come_and_stall(world);
    struct client *second = world_come_silent(world);
    client_say_hello(second);
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
    struct client *first = world_come_and_stall(world);
    (void)world_come_and_stall(world);
    cr_assert_eq(gauge(&metrics->handshakes_running), 2);
    struct client *third = world_come_silent(world);
    cr_assert(client_was_reset(third));
    cr_assert_eq(world_refused(world, WR_REFUSAL_TOO_MANY_HANDSHAKES), 1);
    cr_assert_eq(gauge(&metrics->handshakes_refused_by_cause[WR_CAUSE_BACKLOG]), 1);
    cr_assert(world_logged(world, "\"too_many_handshakes\""));
    cr_assert(world_logged(world, "\"backlog\""));
    /* One that leaves makes room. */
    client_close(first);
    world_settle(world);
    (void)world_come_and_be_served(world);
    cr_assert_eq(world_refused(world, WR_REFUSAL_TOO_MANY_HANDSHAKES), 1);
}

Test(gate, a_full_backlog_refuses_a_late_hello)
{
    world->options.admission.max_pending_handshakes = 1;
    world_start(world);
    struct client *late = world_come_silent(world);
    (void)world_come_and_stall(world);
    client_say_hello(late);
    world_settle(world);
    cr_assert(client_was_reset(late));
    cr_assert_eq(world_refused(world, WR_REFUSAL_TOO_MANY_HANDSHAKES), 1);
    cr_assert(world_logged(world, "\"localhost\""), "gate 1 knows the name");
}

Test(gate, a_limit_of_zero_refuses_everyone)
{
    world->options.admission.max_pending_handshakes = 0;
    world_start(world);
    for (unsigned i = 0; i < 20; i++)
        cr_assert(client_was_reset(world_come_silent(world)));
    cr_assert_eq(world_refused(world, WR_REFUSAL_TOO_MANY_HANDSHAKES), 20);
    cr_assert_eq(wr_downstream_connections(world->downstream), 0);
}

/* ---- the share of the time for refusing ---- */

static void come_with_a_hello(unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        client_say_hello(world_connect_bare(world));
}

/* Eight hold all slots, some of whom wait, and 40 come. */
static void crowd(enum wr_overflow overflow)
{
    world->options.admission.max_pending_handshakes = 8;
    world->options.admission.turn_budget = 0;
    world->options.refusal_share = 1;
    world->options.overflow = overflow;
    world_start(world);
    come_with_a_hello(8);
    for (unsigned i = 0; i < 100 && gauge(&metrics->handshakes_waiting) < 6; i++)
        wr_loop_turn(world->loop, WR_MSEC);
    come_with_a_hello(40);
    wr_loop_turn(world->loop, WR_SEC);
    cr_assert_gt(gauge(&metrics->handshakes_waiting), 0);
    cr_assert_gt(world_refused(world, WR_REFUSAL_TOO_MANY_HANDSHAKES), 0);
}

/* What one more is told: 0 when it is connected. */
static int knock(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const struct sockaddr *address = (const struct sockaddr *)&world->address.storage;
    int error = connect(fd, address, world->address.length) == 0 ? 0 : errno;
    close(fd);
    return error;
}

static void leave_all(void)
{
    for (size_t i = 0; i < world->client_count; i++)
        client_close(&world->clients[i]);
    world_settle(world);
}

Test(gate, beyond_its_share_of_the_time_the_kernel_refuses)
{
    crowd(WR_OVERFLOW_RESET);
    cr_assert_eq(gauge(&metrics->connections_accepted), 48, "all of the batch are told by us");
    cr_assert_eq(knock(), ECONNREFUSED);
    cr_assert_eq(gauge(&metrics->accept_shut), 0);
    world_pass(world, 100 * WR_MSEC);
    cr_assert_eq(gauge(&metrics->accept_shut), 1);
    cr_assert_eq(gauge(&metrics->connections_accepted), 48);
    leave_all();
    (void)world_come_and_be_served(world);
}

Test(gate, nobody_waits_for_the_processor_so_all_are_told_again)
{
    crowd(WR_OVERFLOW_RESET);
    world_settle(world); /* on a clock that stands still */
    cr_assert_eq(gauge(&metrics->handshakes_waiting), 0);
    cr_assert_eq(gauge(&metrics->accept_shut), 1);
    cr_assert_eq(gauge(&metrics->accept_shut_time), 0);
    cr_assert(client_was_reset(world_come_silent(world)));
}

Test(gate, beyond_its_share_of_the_time_they_queue)
{
    crowd(WR_OVERFLOW_QUEUE);
    uint64_t accepted = gauge(&metrics->connections_accepted);
    cr_assert_lt(accepted, 48);
    cr_assert_eq(knock(), 0);
    cr_assert_eq(gauge(&metrics->connections_accepted), accepted);
    world_pass(world, 100 * WR_MSEC);
    cr_assert_eq(gauge(&metrics->connections_accepted), 49);
    cr_assert_eq(gauge(&metrics->accept_shut), 0);
}

Test(gate, a_socket_of_others_too_is_not_shut)
{
    world->env.shared_socket = true;
    crowd(WR_OVERFLOW_RESET);
    cr_assert_eq(knock(), 0);
    world_pass(world, 100 * WR_MSEC);
    cr_assert_eq(gauge(&metrics->connections_accepted), 49);
    cr_assert_eq(gauge(&metrics->accept_shut), 0);
}

Test(gate, drain_while_the_kernel_refuses)
{
    crowd(WR_OVERFLOW_RESET);
    wr_downstream_drain(world->downstream);
    cr_assert_eq(knock(), ECONNREFUSED);
    world_pass(world, 100 * WR_MSEC);
    cr_assert_eq(knock(), ECONNREFUSED);
    cr_assert_gt(world_refused(world, WR_REFUSAL_DRAINING), 0);
}

Test(gate, the_end_while_the_kernel_refuses)
{
    crowd(WR_OVERFLOW_RESET);
}

Test(gate, refusal_by_close)
{
    world->options.admission.max_pending_handshakes = 0;
    world->options.refuse_with = WR_REFUSE_CLOSE;
    world_start(world);
    struct client *client = world_come_silent(world);
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
    struct client *late = world_come_silent(world);
    (void)world_come_and_stall(world);
    client_say_hello(late);
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
    cr_assert(client_was_reset(&world->clients[299]));
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
    struct client *client = world_come_silent(world);
    world_pass(world, 4900 * WR_MSEC);
    cr_assert_eq(gauge(&metrics->connections_silent), 1);
    world_pass(world, 200 * WR_MSEC);
    cr_assert_eq(gauge(&metrics->connections_silent), 0);
    cr_assert_eq(world_refused(world, WR_REFUSAL_CLIENT_HELLO_TIMEOUT), 1);
    client_look(client);
    cr_assert(client->ended);
    cr_assert(world_logged(world, "\"client_hello_timeout\""));
}

/* Each timeout is effective alone. */
Test(gate, silence_does_not_outlast_the_handshake_timeout)
{
    world->options.timeouts.client_hello = WR_NEVER;
    world->options.timeouts.handshake = 2 * WR_SEC;
    world_start(world);
    (void)world_come_silent(world);
    world_pass(world, 1900 * WR_MSEC);
    cr_assert_eq(gauge(&metrics->connections_silent), 1);
    world_pass(world, 200 * WR_MSEC);
    cr_assert_eq(gauge(&metrics->connections_silent), 0);
    cr_assert_eq(world_refused(world, WR_REFUSAL_HANDSHAKE_TIMEOUT), 1);
    cr_assert_eq(world_refused_in_all(world), 1);
}

Test(gate, half_a_hello_is_silence_too)
{
    world_start(world);
    uint8_t hello[2048];
    size_t n = client_make_hello("\x08http/1.1", hello, sizeof(hello));
    struct client *client = world_come_silent(world);
    for (size_t i = 0; i < 49; i++) {
        client_send(client, hello + i, 1);
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
    size_t n = client_make_hello("\x08http/1.1", hello, sizeof(hello));
    struct client *client = world_come_silent(world);
    for (size_t i = 0; i < n; i++) {
        client_send(client, hello + i, 1);
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
    struct client *client = world_come_silent(world);
    world_pass(world, 4 * WR_SEC);
    client_say_hello(client);
    world_settle(world);
    cr_assert_eq(gauge(&metrics->handshakes_running), 1);
    world_pass(world, 5900 * WR_MSEC);
    cr_assert_eq(gauge(&metrics->handshakes_running), 1);
    world_pass(world, 200 * WR_MSEC);
    cr_assert_eq(gauge(&metrics->handshakes_running), 0);
    cr_assert_eq(world_refused(world, WR_REFUSAL_HANDSHAKE_TIMEOUT), 1);
}
