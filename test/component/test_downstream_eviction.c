/* Idle connections make room when connections, descriptors or memory run short: who goes, who stays, what it is told and how it is counted. */
#include <criterion/criterion.h>
#include <string.h>
#include <unistd.h>

#include "base/time.h"
#include "support/downstream_guests.h"
#include "support/downstream_world.h"

#define REQUEST "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
#define LIMIT 4

static struct world *world;
static struct wr_listener_metrics *metrics;

static void begin(bool tls)
{
    world = world_new(tls);
    metrics = world->env.metrics;
    world->options.max_connections = LIMIT;
    world->options.evict_idle_after = WR_SEC;
}

static void setup(void)
{
    begin(true);
}

static void teardown(void)
{
    world_end(world);
}

TestSuite(eviction, .init = setup, .fini = teardown);

static struct client *come(void)
{
    struct client *client = world_connect(world);
    world_until(world, &client->established);
    world_settle(world);
    return client;
}

/* LIMIT clients, each idle for a second longer than the next, the last one for a second. */
static void fill(struct client *clients[LIMIT])
{
    world_start(world);
    for (size_t i = 0; i < LIMIT; i++) {
        clients[i] = come();
        client_say(clients[i], REQUEST);
        world_settle(world);
        world_pass(world, WR_SEC);
    }
}

static uint64_t evicted(enum wr_eviction why)
{
    return wr_metric_get(&metrics->connections_evicted[why]);
}

static void expect_one_new_client_for(struct client *gone)
{
    struct client *next = come();
    client_say(next, REQUEST);
    world_settle(world);
    cr_assert_not_null(strstr(next->text, "HTTP/1.1 200 OK"));
    cr_assert(gone->ended && gone->clean && !gone->broken, "with close_notify and FIN");
    cr_assert_eq(evicted(WR_EVICTION_CONNECTIONS), 1);
    cr_assert_eq(world_ended(world, WR_ERR_EVICTED), 1);
    cr_assert_eq(world_refused_in_all(world), 0);
    world_check_account(world);
}

Test(eviction, who_has_been_idle_for_longest_goes)
{
    struct client *clients[LIMIT];
    fill(clients);
    client_say(clients[0], REQUEST); /* is idle anew */
    world_settle(world);
    expect_one_new_client_for(clients[1]);
    cr_assert_not(clients[0]->ended);
    client_say(clients[0], REQUEST);
    client_say(clients[2], REQUEST);
    world_settle(world);
    cr_assert_not(clients[0]->ended || clients[2]->ended || clients[3]->ended);
}

Test(eviction, on_a_plain_listener_too)
{
    struct client *clients[LIMIT];
    world_end(world);
    begin(false);
    fill(clients);
    expect_one_new_client_for(clients[0]);
}

static void expect_refused_for(enum wr_refusal reason)
{
    (void)world_connect_bare(world);
    world_settle(world);
    cr_assert_eq(world_refused(world, reason), 1);
    cr_assert_eq(world_refused_in_all(world), 1);
    cr_assert_eq(evicted(WR_EVICTION_CONNECTIONS) + evicted(WR_EVICTION_DESCRIPTORS), 0);
    world_check_account(world);
}

Test(eviction, nobody_goes_who_has_just_become_idle)
{
    world_start(world);
    for (size_t i = 0; i < LIMIT; i++)
        (void)come();
    world_pass(world, WR_SEC - 10 * WR_MSEC);
    expect_refused_for(WR_REFUSAL_TOO_MANY_CONNECTIONS);
}

Test(eviction, nobody_goes_who_is_busy)
{
    struct client *clients[LIMIT];
    fill(clients);
    for (size_t i = 0; i < LIMIT; i++)
        client_say(clients[i], "GET / HT");
    world_settle(world);
    expect_refused_for(WR_REFUSAL_TOO_MANY_CONNECTIONS);
}

Test(eviction, nobody_goes_when_told_so)
{
    struct client *clients[LIMIT];
    world->options.evict_idle_after = WR_NEVER;
    fill(clients);
    expect_refused_for(WR_REFUSAL_TOO_MANY_CONNECTIONS);
}

/* Room for one whom the handshake limit turns away anyway is not made. */
Test(eviction, nobody_goes_for_one_who_is_not_let_in)
{
    struct client *clients[LIMIT];
    world->options.admission.max_pending_handshakes = 1;
    fill(clients);
    client_close(clients[3]);
    world_settle(world);
    (void)world_come_and_stall(world);
    expect_refused_for(WR_REFUSAL_TOO_MANY_HANDSHAKES);
}

Test(eviction, for_want_of_descriptors)
{
    int next = dup(STDERR_FILENO);
    cr_assert_geq(next, 0);
    (void)close(next);
    world->options.max_connections = 1000;
    world->env.descriptor_ceiling = next + 12; /* for some clients, whose own ends count here too */
    world_start(world);
    struct client *first = come();
    for (int i = 0; i < 20 && evicted(WR_EVICTION_DESCRIPTORS) == 0; i++) {
        world_pass(world, WR_SEC);
        (void)come();
    }
    cr_assert_eq(evicted(WR_EVICTION_DESCRIPTORS), 1);
    cr_assert_eq(world_refused_in_all(world), 0);
    cr_assert(first->ended);
    (void)world_connect_bare(world); /* at once: nobody has been idle for long enough */
    (void)world_connect_bare(world);
    (void)world_connect_bare(world);
    world_settle(world);
    world_check_account(world);
}

Test(eviction, for_want_of_memory_a_part_of_them)
{
    struct client *clients[LIMIT];
    fill(clients);
    cr_assert_eq(wr_downstream_evict(world->downstream, 2), 2);
    world_settle(world);
    cr_assert(clients[0]->ended && clients[1]->ended);
    cr_assert_not(clients[2]->ended || clients[3]->ended);
    cr_assert_eq(evicted(WR_EVICTION_MEMORY), 2);
    cr_assert_eq(wr_downstream_evict(world->downstream, 8), 1, "at least one");
    client_say(clients[3], "GET");
    world_settle(world);
    cr_assert_eq(wr_downstream_evict(world->downstream, 1), 0, "it is not idle");
    world_check_account(world);
}
