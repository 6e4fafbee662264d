/* Idle connections make room when connections, descriptors or memory run short: who goes, who stays, what it is told and how it is counted. */
#include <criterion/criterion.h>
#include <string.h>
#include <sys/socket.h>
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

/* The request is in the socket, and no event has told it yet. */
Test(eviction, nobody_goes_whose_request_has_come_unseen)
{
    static const char request[] = REQUEST;
    world_end(world);
    begin(false);
    world_start(world);
    struct client *client = world_connect_bare(world);
    world_settle(world);
    cr_assert_eq(wr_metric_get(&metrics->connections_idle), 1);
    world_pass(world, 2 * WR_SEC);
    cr_assert_eq(send(client->fd, request, sizeof(request) - 1, 0), sizeof(request) - 1);
    cr_assert_eq(wr_downstream_evict(world->downstream, 1), 0);
    world_settle(world);
    client_look(client);
    cr_assert_not(client->ended || client->broken);
    cr_assert_not_null(strstr(client->text, "HTTP/1.1 200 OK"), "%s", client->text);
    world_pass(world, 2 * WR_SEC);
    cr_assert_eq(wr_downstream_evict(world->downstream, 1), 1);
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

/* The end of a line belongs to no request: it wakes the connection, which is idle all the same. */
Test(eviction, one_that_was_woken_has_been_idle_for_longest_still)
{
    world->options.max_connections = 2;
    world_start(world);
    struct client *first = come();
    client_say(first, REQUEST);
    world_settle(world);
    world_pass(world, 16 * WR_SEC);
    cr_assert_eq(wr_metric_get(&metrics->connections_hibernated), 1);
    struct client *second = come();
    client_say(second, REQUEST);
    world_settle(world);
    client_say(first, "\r\n");
    world_settle(world);
    cr_assert_eq(wr_metric_get(&metrics->wakes), 1);
    cr_assert_eq(wr_metric_get(&metrics->connections_idle), 2);
    expect_one_new_client_for(first);
    cr_assert_not(second->ended);
}

#define BODY ((size_t)120 * 1024) /* fits in what a transport holds */

/* The server's end of CLIENT, which is of this process too, and the client's own: kernel buffers that hold less than BODY. */
static void narrow(const struct client *client)
{
    struct sockaddr_storage own = {0};
    struct sockaddr_storage peer = {0};
    socklen_t n = sizeof(own);
    int little = 4096;
    bool found = false;
    cr_assert_eq(getsockname(client->fd, (struct sockaddr *)&own, &n), 0);
    cr_assert_eq(setsockopt(client->fd, SOL_SOCKET, SO_RCVBUF, &little, sizeof(little)), 0);
    for (int fd = 0; fd < 1000; fd++) {
        socklen_t length = sizeof(peer);
        if (getpeername(fd, (struct sockaddr *)&peer, &length) != 0 || length != n ||
            memcmp(&peer, &own, n) != 0)
            continue;
        found = true;
        cr_assert_eq(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &little, sizeof(little)), 0);
    }
    cr_assert(found);
}

/* All of it, however long it takes to come. */
static size_t take(const struct client *client, size_t wanted)
{
    static char bytes[4096];
    size_t taken = 0;
    uint64_t end = wr_time_monotonic() + 10 * WR_SEC;
    while (taken < wanted && wr_time_monotonic() < end) {
        ssize_t n = recv(client->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
        if (n == 0)
            break;
        taken += n > 0 ? (size_t)n : 0;
        wr_loop_turn(world->loop, n > 0 ? 0 : WR_MSEC);
    }
    return taken;
}

/* The codec has said all, the client has not taken it. */
Test(eviction, nobody_goes_whose_response_has_not_left)
{
    static char body[BODY];
    static const struct wr_route route = {
        .name = "much",
        .host = {"", 0},
        .path = {"", 0},
        .action = WR_ROUTE_RESPOND,
        .respond = {.status = 200, .content_type = {"", 0}, .body = {body, BODY}}};
    world_end(world);
    begin(false);
    world->options.max_connections = 1;
    world->options.proxy.routes = (struct wr_route_table){.routes = &route, .count = 1};
    world_start(world);
    struct client *slow = world_connect_bare(world);
    world_settle(world);
    narrow(slow);
    client_say(slow, REQUEST);
    world_settle(world);
    world_pass(world, 2 * WR_SEC);
    cr_assert_eq(wr_metric_get(&metrics->connections_idle), 1);
    cr_assert_lt(wr_metric_get(&metrics->bytes_sent), BODY, "some of it waits");
    expect_refused_for(WR_REFUSAL_TOO_MANY_CONNECTIONS);
    cr_assert_geq(take(slow, BODY), BODY);
    world_pass(world, 2 * WR_SEC);
    (void)world_connect_bare(world);
    world_settle(world);
    cr_assert_eq(evicted(WR_EVICTION_CONNECTIONS), 1, "now it may");
}
