/* Connections of HTTP/2 that hibernate are told what others are told when they end. */
#include <criterion/criterion.h>
#include <string.h>
#include <sys/socket.h>

#include "support/downstream_guests.h"

/* SETTINGS without entries; HEADERS on stream 1, END_STREAM, END_HEADERS: GET http a / */
#define OPENING                                      \
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"               \
    "\0\0\0\x04\0\0\0\0\0"                           \
    "\0\0\x06\x01\x05\0\0\0\x01\x82\x86\x84\x41\x01" \
    "a"
#define PING "\0\0\x08\x06\0\0\0\0\0abcdefgh"
#define PONG "\0\0\x08\x06\x01\0\0\0\0abcdefgh"
#define GOAWAY "\0\0\x08\x07\0\0\0\0\0"
#define DRAIN_PONG "\0\0\x08\x06\x01\0\0\0\0weirlast"

static struct world *world;
static struct wr_listener_metrics *metrics;
static struct client *client;

static void send_bytes(const void *p, size_t n)
{
    client_send(client, p, n);
    world_settle(world);
    client_look(client);
}

static bool hibernates(void)
{
    return wr_metric_get(&metrics->connections_hibernated) == 1;
}

static void setup(void)
{
    world = world_new(false);
    metrics = world->env.metrics;
    world->options.plain_http2 = true;
    world->options.codec.h2 = (struct wr_h2_options){.max_concurrent_streams = 10,
                                                     .connection_window = 1 << 20,
                                                     .header_table_size = 4096,
                                                     .ping_interval = WR_NEVER,
                                                     .ping_timeout = WR_NEVER};
    for (size_t i = 0; i < WR_FLOOD__COUNT; i++)
        world->options.codec.h2.budgets[i] = (struct wr_h2_budget){100, 100};
    world->options.evict_idle_after = WR_SEC;
    world->options.timeouts.max_connection_age = 40 * WR_SEC;
    world_start(world);
    client = world_connect_bare(world);
    world_settle(world);
    send_bytes(OPENING, sizeof(OPENING) - 1);
    cr_assert_eq(wr_metric_get(&metrics->requests[2]), 1);
    world_pass(world, 16 * WR_SEC);
    cr_assert(hibernates());
    client->length = 0;
}

static void teardown(void)
{
    world_end(world);
}

TestSuite(hibernation_h2, .init = setup, .fini = teardown);

static bool heard(const char *p, size_t n)
{
    client_look(client);
    return memmem(client->text, client->length, p, n) != NULL;
}

#define HEARD(frame) heard(frame, sizeof(frame) - 1)

static void expect_the_end(void)
{
    client_look(client);
    cr_assert(client->ended && client->clean && !client->broken);
    cr_assert_not(hibernates());
    world_check_account(world);
}

Test(hibernation_h2, evicted_with_goaway)
{
    cr_assert_eq(wr_downstream_evict(world->downstream, 1), 1);
    world_settle(world);
    cr_assert(HEARD(GOAWAY));
    expect_the_end();
    cr_assert_eq(world_ended(world, WR_ERR_EVICTED), 1);
    cr_assert_eq(wr_downstream_connections(world->downstream), 0);
}

Test(hibernation_h2, a_ping_wakes_it_and_changes_nothing_else)
{
    send_bytes(PING, sizeof(PING) - 1);
    cr_assert(HEARD(PONG));
    cr_assert_not(hibernates());
    world_pass(world, 16 * WR_SEC);
    cr_assert(hibernates());
    cr_assert_eq(wr_metric_get(&metrics->wakes), 1);
    cr_assert_eq(wr_downstream_evict(world->downstream, 1), 1);
}

Test(hibernation_h2, drained_in_two_steps)
{
    wr_downstream_drain(world->downstream);
    world_settle(world);
    cr_assert(HEARD(GOAWAY "\x7f\xff\xff\xff"));
    cr_assert_not(client->ended);
    send_bytes(DRAIN_PONG, sizeof(DRAIN_PONG) - 1);
    cr_assert(HEARD(GOAWAY "\0\0\0\x01"));
    expect_the_end();
}

Test(hibernation_h2, the_greatest_age)
{
    world_pass(world, 25 * WR_SEC);
    cr_assert(HEARD(GOAWAY "\x7f\xff\xff\xff"));
    world_pass(world, 2 * WR_SEC);
    cr_assert(HEARD(GOAWAY "\0\0\0\x01"));
    expect_the_end();
}

Test(hibernation_h2, keep_alive)
{
    world->options.timeouts.max_connection_age = WR_NEVER; /* for those that come now */
    client_close(client);
    world_settle(world);
    client = world_connect_bare(world);
    world_settle(world);
    send_bytes(OPENING, sizeof(OPENING) - 1);
    client->length = 0;
    world_pass(world, 59 * WR_SEC);
    cr_assert(hibernates());
    world_pass(world, 2 * WR_SEC);
    cr_assert(HEARD(GOAWAY));
    expect_the_end();
    client_close(client);
    world_settle(world);
    cr_assert_eq(world_ended(world, WR_ERR_KEEP_ALIVE_TIMEOUT), 1);
}

Test(hibernation_h2, the_clients_end)
{
    client_close(client);
    world_settle(world);
    cr_assert_not(hibernates());
    cr_assert_eq(wr_metric_get(&metrics->connections_closed), 1);
}

Test(hibernation_h2, the_clients_reset)
{
    struct linger at_once = {1, 0};
    cr_assert_eq(setsockopt(client->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)), 0);
    client_close(client);
    world_settle(world);
    cr_assert_not(hibernates());
    cr_assert_eq(world_ended(world, WR_ERR_CLIENT_RESET), 1);
}
