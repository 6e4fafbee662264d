/* The states of a served connection, with a codec that only notes what it is told. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/mem.h"
#include "codec/h1_server.h"
#include "support/downstream_world.h"

/* ---- the fake codec: stands before the real one when this program is linked ---- */

struct fake {
    struct wr_server_codec codec;
    struct wr_transport *transport;
    const struct wr_client_info *client;
    const struct wr_server_codec_events *events;
    void *owner;
    unsigned drains;
    unsigned timeouts;
    enum wr_err timed_out_why;
    bool closed;
    enum wr_err closed_why;
    struct wr_garbage garbage;
};

static struct fake fake; /* the one connection of each test */
static unsigned fakes_made;
static bool end_on_drain;
static bool end_on_timeout;
static bool end_on_read_end;

static void done(enum wr_err why)
{
    if (why == WR_OK)
        wr_transport_end(fake.transport);
    fake.events->done(fake.owner, why);
}

static void fake_timed_out(struct wr_server_codec *codec, enum wr_err why)
{
    (void)codec;
    fake.timeouts++;
    fake.timed_out_why = why;
    if (end_on_timeout)
        done(WR_OK);
}

static void fake_drain(struct wr_server_codec *codec)
{
    (void)codec;
    fake.drains++;
    if (end_on_drain)
        done(WR_OK);
}

static void fake_close(struct wr_server_codec *codec, enum wr_err why)
{
    (void)codec;
    cr_assert_not(fake.closed);
    fake.closed = true;
    fake.closed_why = why;
}

static const struct wr_server_codec_ops fake_ops = {
    .name = "fake", .timed_out = fake_timed_out, .drain = fake_drain, .close = fake_close};

static size_t on_readable(void *owner, const uint8_t *p, size_t n)
{
    (void)owner;
    (void)p;
    return n;
}

static void on_read_end(void *owner, bool clean)
{
    (void)owner;
    (void)clean;
    if (end_on_read_end)
        done(WR_OK);
}

static void on_closed(void *owner, enum wr_err why, const char *detail)
{
    (void)owner;
    (void)detail;
    done(why);
}

static const struct wr_transport_events fake_events = {
    .readable = on_readable, .read_end = on_read_end, .closed = on_closed};

struct wr_server_codec *wr_h1_server_new(struct wr_transport *transport,
                                         const struct wr_server_codec_options *options,
                                         struct wr_exchange_host *host,
                                         const struct wr_client_info *client,
                                         const struct wr_server_codec_events *events, void *owner)
{
    (void)options;
    (void)host;
    fake = (struct fake){.codec = {&fake_ops},
                         .transport = transport,
                         .client = client,
                         .events = events,
                         .owner = owner};
    fakes_made++;
    wr_transport_set_events(transport, &fake_events, &fake);
    return &fake.codec;
}

/* ---- a plain listener and one client ---- */

static struct world *world;
static struct client *client;

static void start(void)
{
    fakes_made = 0;
    end_on_drain = false;
    end_on_timeout = false;
    end_on_read_end = false;
    world_start(world);
    client = world_connect_bare(world);
    world_settle(world);
    cr_assert_eq(fakes_made, 1);
}

static uint64_t gauge(const _Atomic uint64_t *metric)
{
    return wr_metric_get(metric);
}

static void setup(void)
{
    world = world_new(false);
}

static void teardown(void)
{
    world_end(world);
}

TestSuite(connection, .init = setup, .fini = teardown);

Test(connection, a_plain_one_is_idle_at_once)
{
    start();
    cr_assert_eq(gauge(&world->env.metrics->connections_idle), 1);
    cr_assert_eq(gauge(&world->env.metrics->connections_silent), 0);
    cr_assert_not(fake.client->tls);
    cr_assert_str_eq(fake.client->tls_version, "");
    cr_assert(wr_str_eq(fake.client->host_slice, WR_STR("127.0.0.1")));
    cr_assert(wr_str_starts(fake.client->address_slice, WR_STR("127.0.0.1:")));
    cr_assert(wr_str_eq(fake.client->listener, WR_STR("edge")));
}

Test(connection, states_are_counted)
{
    start();
    struct wr_listener_metrics *metrics = world->env.metrics;
    fake.events->head_begun(fake.owner);
    cr_assert_eq(gauge(&metrics->connections_idle), 0);
    cr_assert_eq(gauge(&metrics->connections_active), 1);
    fake.events->head_complete(fake.owner);
    cr_assert_eq(gauge(&metrics->connections_active), 1);
    fake.events->idle(fake.owner);
    cr_assert_eq(gauge(&metrics->connections_active), 0);
    cr_assert_eq(gauge(&metrics->connections_idle), 1);
    done(WR_OK);
    cr_assert_eq(gauge(&metrics->connections_idle), 0);
    cr_assert_eq(gauge(&metrics->connections_closing), 1);
    world_check_account(world);
}

Test(connection, idle_for_too_long)
{
    world->options.timeouts.keep_alive = 3 * WR_SEC;
    start();
    end_on_timeout = true;
    world_pass(world, 2900 * WR_MSEC);
    cr_assert_eq(fake.timeouts, 0);
    /* A request starts the time anew. */
    fake.events->head_begun(fake.owner);
    fake.events->head_complete(fake.owner);
    fake.events->idle(fake.owner);
    world_pass(world, 2900 * WR_MSEC);
    cr_assert_eq(fake.timeouts, 0);
    world_pass(world, 200 * WR_MSEC);
    cr_assert_eq(fake.timeouts, 1);
    cr_assert_eq(fake.timed_out_why, WR_ERR_KEEP_ALIVE_TIMEOUT);
    client_look(client);
    cr_assert(client->ended);
    client_close(client);
    world_settle(world);
    cr_assert_eq(world_ended(world, WR_ERR_KEEP_ALIVE_TIMEOUT), 1);
}

Test(connection, a_head_has_its_own_time)
{
    world->options.timeouts.request_header = 2 * WR_SEC;
    world->options.timeouts.keep_alive = WR_NEVER;
    start();
    world_pass(world, 100 * WR_SEC);
    fake.events->head_begun(fake.owner);
    world_pass(world, 1900 * WR_MSEC);
    cr_assert_eq(fake.timeouts, 0);
    world_pass(world, 200 * WR_MSEC);
    cr_assert_eq(fake.timeouts, 1);
    cr_assert_eq(fake.timed_out_why, WR_ERR_REQUEST_HEADER_TIMEOUT);
}

Test(connection, a_request_in_flight_has_no_time_here)
{
    start();
    fake.events->head_begun(fake.owner);
    fake.events->head_complete(fake.owner);
    world_pass(world, 1000 * WR_SEC);
    cr_assert_eq(fake.timeouts, 0);
    cr_assert_eq(fake.drains, 0);
}

Test(connection, age_drains_but_does_not_cut)
{
    world->options.timeouts.max_connection_age = 100 * WR_SEC;
    start();
    fake.events->head_begun(fake.owner);
    fake.events->head_complete(fake.owner);
    world_pass(world, 89 * WR_SEC);
    cr_assert_eq(fake.drains, 0, "at most a tenth earlier");
    world_pass(world, 12 * WR_SEC);
    cr_assert_eq(fake.drains, 1);
    world_pass(world, 1000 * WR_SEC);
    cr_assert_eq(fake.drains, 1);
    cr_assert_not(fake.closed);
    cr_assert_eq(gauge(&world->env.metrics->connections_active), 1);
}

Test(connection, age_of_an_idle_one)
{
    world->options.timeouts.max_connection_age = 10 * WR_SEC;
    start();
    end_on_drain = true;
    world_pass(world, 11 * WR_SEC);
    cr_assert_eq(fake.drains, 1);
    cr_assert(fake.closed);
    client_look(client);
    cr_assert(client->ended);
}

Test(connection, age_of_a_closing_one)
{
    world->options.timeouts.max_connection_age = 10 * WR_SEC;
    start();
    world_pass(world, 8 * WR_SEC);
    done(WR_OK);
    world_settle(world);
    world_pass(world, 3 * WR_SEC);
    cr_assert_eq(fake.drains, 0);
    cr_assert_eq(gauge(&world->env.metrics->connections_closing), 1);
}

Test(connection, lingers_for_the_peers_end)
{
    start();
    wr_transport_write(fake.transport, "bye", 3);
    done(WR_OK);
    world_settle(world);
    client_look(client);
    cr_assert_eq(client->length, 3);
    cr_assert(client->ended);
    client_say(client, "more that nobody wants");
    world_settle(world);
    cr_assert_eq(wr_downstream_connections(world->downstream), 1);
    client_look(client);
    cr_assert_not(client->broken);
    client_close(client);
    world_settle(world);
    cr_assert_eq(wr_downstream_connections(world->downstream), 0);
    cr_assert_eq(world_ended(world, WR_OK), 1);
}

Test(connection, lingers_no_longer_than_allowed)
{
    world->options.timeouts.linger = 2 * WR_SEC;
    start();
    done(WR_OK);
    world_settle(world);
    world_pass(world, 1900 * WR_MSEC);
    cr_assert_eq(wr_downstream_connections(world->downstream), 1);
    world_pass(world, 200 * WR_MSEC);
    cr_assert_eq(wr_downstream_connections(world->downstream), 0);
    cr_assert_eq(world_ended(world, WR_OK), 1);
}

Test(connection, a_peer_that_ended_first_is_not_waited_for)
{
    start();
    end_on_read_end = true;
    cr_assert_eq(shutdown(client->fd, SHUT_WR), 0);
    world_settle(world);
    cr_assert_eq(wr_downstream_connections(world->downstream), 0, "without the clock moving");
    client_look(client);
    cr_assert(client->ended);
}

Test(connection, last_words_to_one_that_does_not_read)
{
    world->options.timeouts.inactivity = 30 * WR_SEC;
    world->options.timeouts.linger = 1 * WR_SEC;
    start();
    size_t n = (size_t)32 << 20;
    char *much = wr_new_zero(1, n);
    wr_transport_write(fake.transport, much, n);
    free(much);
    done(WR_OK);
    world_settle(world);
    world_pass(world, 29 * WR_SEC);
    cr_assert_eq(wr_downstream_connections(world->downstream), 1, "linger begins with the FIN");
    world_pass(world, 2 * WR_SEC);
    cr_assert_eq(wr_downstream_connections(world->downstream), 1, "the kernel took some meanwhile");
    world_pass(world, 30 * WR_SEC);
    cr_assert_eq(wr_downstream_connections(world->downstream), 0);
    cr_assert_eq(world_ended(world, WR_ERR_CLIENT_READ_TIMEOUT), 1);
}

Test(connection, what_broke_it_is_counted_and_reset)
{
    start();
    fake.events->head_begun(fake.owner);
    fake.events->head_complete(fake.owner);
    wr_transport_write(fake.transport, "half", 4);
    fake.events->done(fake.owner, WR_ERR_RESPONSE_INCOMPLETE);
    cr_assert(fake.closed);
    world_settle(world);
    cr_assert_eq(world_ended(world, WR_ERR_RESPONSE_INCOMPLETE), 1);
    client_look(client);
    cr_assert(client->broken, "a part must not look like the whole");
}

Test(connection, drain_tells_each_by_its_state)
{
    start();
    fake.events->head_begun(fake.owner);
    wr_downstream_drain(world->downstream);
    wr_downstream_drain(world->downstream); /* twice is fine */
    cr_assert_eq(fake.drains, 1);
    cr_assert_eq(wr_downstream_connections(world->downstream), 1);
    /* Nobody can come any more. */
    struct client bare = {.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    cr_assert_eq(
        connect(bare.fd, (const struct sockaddr *)&world->address.storage, world->address.length),
        -1);
    client_close(&bare);
    done(WR_OK);
    client_close(client);
    world_settle(world);
    cr_assert_eq(wr_downstream_connections(world->downstream), 0);
}

Test(connection, free_ends_what_is_left)
{
    start();
    fake.events->head_begun(fake.owner);
    fake.events->head_complete(fake.owner);
    wr_downstream_free(world->downstream);
    world->downstream = NULL;
    wr_loop_turn(world->loop, 0);
    cr_assert(fake.closed);
    cr_assert_eq(fake.closed_why, WR_ERR_DRAINING);
    world_check_account(world);
    cr_assert_eq(world_ended(world, WR_ERR_DRAINING), 1);
    client_look(client);
    cr_assert(client->broken);
}

Test(connection, too_many_connections)
{
    world->options.max_connections = 1;
    start();
    struct client *second = world_connect_bare(world);
    world_settle(world);
    cr_assert_eq(fakes_made, 1);
    cr_assert_eq(world_refused(world, WR_REFUSAL_TOO_MANY_CONNECTIONS), 1);
    client_look(second);
    cr_assert(second->broken, "reset");
    cr_assert(world_logged(world, "\"too_many_connections\""));
    /* Room is made by one that goes. */
    fake.events->done(fake.owner, WR_ERR_CLIENT_CLOSED);
    (void)world_connect_bare(world);
    world_settle(world);
    cr_assert_eq(fakes_made, 2);
}

Test(connection, refused_by_close)
{
    world->options.max_connections = 1;
    world->options.refuse_with = WR_REFUSE_CLOSE;
    start();
    struct client *second = world_connect_bare(world);
    world_settle(world);
    client_look(second);
    cr_assert(second->ended);
    cr_assert_not(second->broken);
}

Test(connection, the_accept_queue_is_sampled)
{
    start();
    wr_metric_set(&world->env.metrics->accept_queue, 77);
    wr_downstream_sample(world->downstream);
    cr_assert_eq(gauge(&world->env.metrics->accept_queue), 0);
    /* The loop does not turn: it stays in the queue. */
    (void)world_connect_bare(world);
    wr_downstream_sample(world->downstream);
    cr_assert_eq(gauge(&world->env.metrics->accept_queue), 1);
    cr_assert_gt(gauge(&world->env.metrics->accept_queue_limit), 0);
}
