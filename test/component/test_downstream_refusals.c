/* Who is not served and why: each under one reason, counted once. */
#include <criterion/criterion.h>
#include <sys/resource.h>

#include "base/compiler.h"
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

TestSuite(refusal, .init = setup, .fini = teardown);

static uint64_t gauge(const _Atomic uint64_t *metric)
{
    return wr_metric_get(metric);
}

/* ---- those who go, and those who do not belong here ---- */

Test(refusal, gone_while_silent)
{
    world_start(world);
    client_close(world_come_silent(world));
    world_settle(world);
    cr_assert_eq(world_refused(world, WR_REFUSAL_ABANDONED), 1);
    cr_assert_eq(wr_downstream_connections(world->downstream), 0);
}

Test(refusal, gone_in_the_handshake)
{
    world->options.admission.max_pending_handshakes = 1;
    world_start(world);
    client_close(world_come_and_stall(world));
    world_settle(world);
    cr_assert_eq(world_refused(world, WR_REFUSAL_ABANDONED), 1);
    (void)world_come_and_be_served(world); /* the slot is free */
}

Test(refusal, gone_while_waiting)
{
    world->options.admission.turn_budget = 0;
    world_start(world);
    struct client *clients[20];
    for (unsigned i = 0; i < 20; i++)
        clients[i] = world_come_silent(world);
    for (unsigned i = 0; i < 20; i++)
        client_say_hello(clients[i]);
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

Test(refusal, gone_just_before_its_turn)
{
    world->options.admission.turn_budget =
        0; /* one a turn: of two that speak at once, the second waits */
    world_start(world);
    struct client *first = world_come_silent(world);
    leaver = world_come_silent(world);
    client_say_hello(first);
    client_say_hello(leaver);
    wr_loop_turn(world->loop, WR_MSEC);
    cr_assert_eq(gauge(&metrics->handshakes_waiting), 1);
    /* Before the controller's turn, and after the loop has looked at its sockets. */
    struct wr_task task;
    wr_task_init(&task, leave_now);
    wr_loop_defer(world->loop, &task);
    wr_loop_turn(world->loop, 0);
    cr_assert_eq(world_refused(world, WR_REFUSAL_ABANDONED), 1);
    cr_assert_eq(gauge(&metrics->handshakes_running), 1);
    cr_assert_eq(gauge(&metrics->handshakes_failed), 0, "no cryptography for one that has left");
}

Test(refusal, not_tls)
{
    world_start(world);
    struct client *client = world_connect_bare(world);
    client_say(client, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    world_settle(world);
    cr_assert_eq(world_refused(world, WR_REFUSAL_NOT_TLS), 1);
    cr_assert(world_logged(world, "\"not_tls\""));
}

Test(refusal, no_common_protocol)
{
    world_start(world);
    uint8_t hello[2048];
    struct client *client = world_connect_bare(world);
    client_send(client, hello, client_make_hello("\x02h2", hello, sizeof(hello)));
    world_settle(world);
    cr_assert_eq(world_refused(world, WR_REFUSAL_TLS_ERROR), 1);
    client_look(client);
    cr_assert_eq(client->text[0], 21, "an alert record");
    cr_assert_eq(client->text[6], 120, "no_application_protocol");
    cr_assert(world_logged(world, "\"tls_error\""));
}

Test(refusal, a_broken_hello)
{
    world_start(world);
    struct client *client = world_connect_bare(world);
    client_send(client, "\x16\x03\x01\x00\x05hello", 10);
    world_settle(world);
    cr_assert_eq(world_refused(world, WR_REFUSAL_TLS_ERROR), 1);
}

/* ---- room ---- */

Test(refusal, too_many_silent_ones_evict_the_oldest)
{
    world->options.admission.max_silent = 3;
    world_start(world);
    struct client *first = world_come_silent(world);
    for (unsigned i = 0; i < 3; i++)
        (void)world_come_silent(world);
    cr_assert_eq(gauge(&metrics->connections_silent), 3);
    cr_assert_eq(world_refused(world, WR_REFUSAL_TOO_MANY_CONNECTIONS), 1);
    cr_assert(client_was_reset(first));
    (void)world_come_and_be_served(world);
}

Test(refusal, without_descriptors)
{
    world_start(world);
    struct client *before = world_come_silent(world);
    struct client *next = world_connect_bare(world);
    struct rlimit limit;
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    struct rlimit low = {.rlim_cur = (rlim_t)next->fd + 1, .rlim_max = limit.rlim_max};
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &low), 0);
    world_settle(world);
    cr_assert_eq(world_refused(world, WR_REFUSAL_NO_DESCRIPTORS), 1);
    cr_assert_geq(gauge(&metrics->accept_paused), 1);
    cr_assert(client_was_reset(next));
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    world_pass(world, 200 * WR_MSEC);
    (void)world_come_and_be_served(world);
    client_look(before);
    cr_assert_not(before->broken);
}

/* ---- drain ---- */

Test(refusal, drain_refuses_those_who_have_cost_nothing)
{
    world_start(world);
    struct client *silent = world_come_silent(world);
    struct client *stalled = world_come_and_stall(world);
    wr_downstream_drain(world->downstream);
    world_settle(world);
    cr_assert_eq(world_refused(world, WR_REFUSAL_DRAINING), 1);
    cr_assert(client_was_reset(silent));
    cr_assert_eq(gauge(&metrics->handshakes_running), 1);
    client_look(stalled);
    cr_assert_not(stalled->broken);
}

Test(refusal, free_in_every_state)
{
    world->options.admission.turn_budget = 0;
    world->options.refuse_with = WR_REFUSE_ALERT;
    world_start(world);
    (void)world_come_and_be_served(world);
    (void)world_come_silent(world);
    (void)world_come_and_stall(world);
    (void)world_come_and_stall(world);
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
        client_send(client, "\x16\x03\x01\x00\x05hello", 10);
        break;
    case 3:
    case 4:
        client_say_hello(client);
        break;
    default:
        break;
    }
}

Test(refusal, the_account_is_right_whatever_happens)
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
