/* A served connection with the real codec and proxy: each phase's time, and what the client sees of it. */
#include <criterion/criterion.h>
#include <string.h>
#include <sys/socket.h>

#include "base/compiler.h"
#include "support/downstream_world.h"

#define REQUEST "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"

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

TestSuite(serving, .init = setup, .fini = teardown);

static struct client *come(void)
{
    world_start(world);
    struct client *client = world_connect(world);
    world_until(world, &client->established);
    world_settle(world);
    return client;
}

static void ask(struct client *client, const char *text)
{
    client_say(client, text);
    world_settle(world);
}

static bool heard(const struct client *client, const char *text)
{
    return strstr(client->text, text) != NULL;
}

static uint64_t gauge(const _Atomic uint64_t *metric)
{
    return wr_metric_get(metric);
}

Test(serving, a_request_is_answered_and_the_connection_kept)
{
    struct client *client = come();
    ask(client, REQUEST);
    cr_assert(heard(client, "HTTP/1.1 200 OK\r\n"));
    cr_assert(heard(client, "\r\n\r\nfine"));
    cr_assert_not(heard(client, "onnection: close"));
    cr_assert_eq(gauge(&metrics->connections_idle), 1);
    ask(client, REQUEST REQUEST);
    cr_assert_eq(gauge(&metrics->requests[2]), 3);
    cr_assert(world_logged(world, "\"TLSv1.3\""));
    cr_assert(world_logged(world, "\"127.0.0.1:"));
}

Test(serving, a_plain_listener_serves_too)
{
    wr_tls_server_release(world->tls);
    wr_tls_client_release(world->tls_client);
    world->tls = NULL;
    world->tls_client = NULL;
    world->options.tls = NULL;
    struct client *client = come();
    ask(client, REQUEST);
    cr_assert(heard(client, "HTTP/1.1 200 OK\r\n"));
    cr_assert_eq(gauge(&metrics->handshakes_full), 0);
}

Test(serving, a_slow_head_is_told_408)
{
    world->options.timeouts.keep_alive = WR_NEVER;
    struct client *client = come();
    world_pass(world, 100 * WR_SEC);
    for (const char *p = "GET / HTTP"; *p != '\0'; p++) { /* a byte a second does not help */
        char byte[2] = {*p, '\0'};
        ask(client, byte);
        cr_assert_eq(gauge(&metrics->connections_active), 1);
        world_pass(world, 990 * WR_MSEC);
    }
    cr_assert_eq(client->length, 0);
    world_pass(world, 200 * WR_MSEC);
    cr_assert(heard(client, "HTTP/1.1 408 "));
    cr_assert(client->ended && client->clean);
    cr_assert_eq(gauge(&metrics->connections_closing), 1);
    client_close(client);
    world_settle(world);
    cr_assert_eq(world_ended(world, WR_ERR_REQUEST_HEADER_TIMEOUT), 1);
}

Test(serving, a_client_that_never_asks_is_closed_in_silence)
{
    struct client *client = come();
    world_pass(world, 59 * WR_SEC);
    cr_assert_not(client->ended);
    world_pass(world, 2 * WR_SEC);
    cr_assert(client->ended && client->clean);
    cr_assert_eq(client->length, 0);
    client_close(client);
    world_settle(world);
    cr_assert_eq(world_ended(world, WR_ERR_KEEP_ALIVE_TIMEOUT), 1);
}

Test(serving, keep_alive_counts_from_the_last_response)
{
    struct client *client = come();
    world_pass(world, 50 * WR_SEC);
    ask(client, REQUEST);
    world_pass(world, 50 * WR_SEC);
    cr_assert_not(client->ended);
    world_pass(world, 11 * WR_SEC);
    cr_assert(client->ended);
}

Test(serving, one_that_does_not_close_is_lingered_for)
{
    struct client *client = come();
    ask(client, "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    cr_assert(heard(client, "onnection: close"));
    cr_assert(client->ended && client->clean);
    cr_assert_eq(gauge(&metrics->connections_closing), 1);
    world_pass(world, 4900 * WR_MSEC);
    cr_assert_eq(gauge(&metrics->connections_closing), 1);
    world_pass(world, 200 * WR_MSEC);
    cr_assert_eq(gauge(&metrics->connections_closing), 0);
    cr_assert_eq(world_ended(world, WR_OK), 1);
}

Test(serving, a_client_that_goes_first_leaves_nothing)
{
    struct client *client = come();
    ask(client, REQUEST);
    wr_transport_end(client->transport);
    world_settle(world);
    cr_assert_eq(wr_downstream_connections(world->downstream), 0, "without the clock moving");
    cr_assert_eq(world_ended(world, WR_OK), 1);
    cr_assert(client->ended);
}

Test(serving, a_reset_is_counted)
{
    struct client *client = come();
    ask(client, REQUEST);
    wr_transport_reset(client->transport);
    client->transport = NULL;
    world_settle(world);
    cr_assert_eq(wr_downstream_connections(world->downstream), 0);
    cr_assert_eq(world_ended(world, WR_ERR_CLIENT_RESET) + world_ended(world, WR_ERR_CLIENT_CLOSED),
                 1);
}

Test(serving, age_says_close_on_the_next_response)
{
    world->options.timeouts.max_connection_age = 30 * WR_SEC;
    struct client *client = come();
    world_pass(world, 26 * WR_SEC);
    ask(client, "GET / HT");
    world_pass(world, 5 * WR_SEC);
    cr_assert_not(client->ended);
    ask(client, "TP/1.1\r\nHost: localhost\r\n\r\n");
    cr_assert(heard(client, "HTTP/1.1 200 OK\r\n"));
    cr_assert(heard(client, "onnection: close"));
    cr_assert(client->ended && client->clean);
}

Test(serving, drain_ends_idle_ones)
{
    struct client *client = come();
    wr_downstream_drain(world->downstream);
    world_settle(world);
    cr_assert(client->ended && client->clean);
    client_close(client);
    world_settle(world);
    cr_assert_eq(wr_downstream_connections(world->downstream), 0);
}

Test(serving, drain_lets_a_request_in_flight_be_answered)
{
    struct client *client = come();
    ask(client, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-");
    wr_downstream_drain(world->downstream);
    world_settle(world);
    cr_assert_not(client->ended);
    ask(client, "Length: 3\r\n\r\nabc");
    cr_assert(heard(client, "HTTP/1.1 200 OK\r\n"));
    cr_assert(heard(client, "onnection: close"));
    cr_assert(client->ended && client->clean);
}

Test(serving, drain_lets_a_handshake_finish_and_serves_it_once)
{
    world_start(world);
    struct client *client = world_connect(world);
    while (gauge(&metrics->handshakes_running) == 0)
        wr_loop_turn(world->loop, WR_MSEC);
    wr_downstream_drain(world->downstream);
    world_until(world, &client->established);
    world_settle(world);
    cr_assert_eq(gauge(&metrics->connections_idle), 1);
    ask(client, REQUEST);
    cr_assert(heard(client, "HTTP/1.1 200 OK\r\n"));
    cr_assert(heard(client, "onnection: close"));
    client_close(client);
    world_settle(world);
    cr_assert_eq(wr_downstream_connections(world->downstream), 0);
    cr_assert_eq(world_refused_in_all(world), 0);
}

Test(serving, free_in_the_middle_of_a_request)
{
    struct client *client = come();
    ask(client, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 30\r\n\r\nabc");
    wr_downstream_free(world->downstream);
    world->downstream = NULL;
    wr_loop_turn(world->loop, 0);
    world_check_account(world);
    cr_assert_eq(gauge(&metrics->connections_closed), 1);
}
