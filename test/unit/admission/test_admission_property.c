/* A million random steps, and what must hold after each of them. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "admission/admission.h"
#include "base/compiler.h"

#define CLIENTS 400
#define STEPS 1000000

struct client {
    struct wr_ticket ticket;
    uint64_t hello_order; /* 0: has not said hello */
};

/* What the test believes, beside what the controller says. */
struct world {
    struct wr_admission *admission;
    struct wr_admission_options options;
    struct client clients[CLIENTS];
    uint64_t random;
    uint64_t now;
    uint64_t hellos;
    uint64_t last_granted;
    uint64_t arrived;
    uint64_t left;
    uint64_t turn_charged; /* since the last run() */
    unsigned turn_let_go;
    bool turn_refunded;
};

static uint64_t draw(struct world *world, uint64_t below)
{
    world->random ^= world->random << 13;
    world->random ^= world->random >> 7;
    world->random ^= world->random << 17;
    return world->random % below;
}

static void leave(struct world *world, struct client *client, enum wr_handshake_outcome outcome,
                  bool resumed, uint64_t cost)
{
    cr_assert_neq(client->ticket.state, WR_TICKET_NONE);
    if (client->ticket.state == WR_TICKET_HANDSHAKING && cost < client->ticket.charged)
        world->turn_refunded = true;
    wr_admission_leave(world->admission, &client->ticket, outcome, resumed, cost, world->now);
    cr_assert_eq(client->ticket.state, WR_TICKET_NONE);
    client->hello_order = 0;
    world->left++;
}

static void note_let_go(struct world *world, const struct client *client)
{
    world->turn_charged += client->ticket.charged;
    world->turn_let_go++;
    cr_assert(
        world->turn_let_go <= 1 || world->turn_refunded ||
            world->turn_charged <= world->options.turn_budget,
        "a turn goes over its budget by one handshake at most, and only when it is the first");
}

static void on_grant(void *owner, struct wr_ticket *ticket)
{
    struct world *world = owner;
    struct client *client = WR_CONTAINER_OF(ticket, struct client, ticket);
    cr_assert_gt(client->hello_order, world->last_granted, "first come, first served");
    world->last_granted = client->hello_order;
    note_let_go(world, client);
    if (draw(world, 8) == 0)
        leave(world, client, WR_HANDSHAKE_GONE, false, 0);
}

static void on_evict(void *owner, struct wr_ticket *ticket)
{
    leave(owner, WR_CONTAINER_OF(ticket, struct client, ticket), WR_HANDSHAKE_FAILED, false, 0);
}

static const struct wr_admission_events events = {.grant = on_grant, .evict = on_evict};

static struct wr_admission_gauges count(const struct world *world)
{
    struct wr_admission_gauges counted = {0};
    for (unsigned i = 0; i < CLIENTS; i++) {
        switch (world->clients[i].ticket.state) {
        case WR_TICKET_SILENT:
            counted.silent++;
            break;
        case WR_TICKET_WAITING:
            counted.waiting++;
            break;
        case WR_TICKET_HANDSHAKING:
            counted.handshaking++;
            break;
        case WR_TICKET_NONE:
            break;
        }
    }
    return counted;
}

static void check(const struct world *world, bool thoroughly)
{
    struct wr_admission_gauges gauges = wr_admission_gauges(world->admission, world->now);
    uint64_t pending = (uint64_t)gauges.waiting + gauges.handshaking;
    cr_assert(world->options.max_pending_handshakes == WR_ADMISSION_NO_LIMIT ||
              pending <= world->options.max_pending_handshakes);
    cr_assert_leq(pending, gauges.pending_peak);
    cr_assert_leq(gauges.silent, world->options.max_silent);
    cr_assert_eq(world->arrived - world->left, gauges.silent + pending);
    if (!thoroughly)
        return;
    struct wr_admission_gauges counted = count(world);
    cr_assert_eq(gauges.silent, counted.silent);
    cr_assert_eq(gauges.waiting, counted.waiting);
    cr_assert_eq(gauges.handshaking, counted.handshaking);
}

static void arrive(struct world *world, struct client *client)
{
    struct wr_admission_gauges before = wr_admission_gauges(world->admission, world->now);
    struct wr_admission_source source = {draw(world, 50), draw(world, 10) == 0};
    struct wr_admission_decision decision =
        wr_admission_arrive(world->admission, &client->ticket, source, world->now);
    bool full = world->options.max_pending_handshakes != WR_ADMISSION_NO_LIMIT &&
                before.waiting + before.handshaking >= world->options.max_pending_handshakes;
    cr_assert_eq(decision.verdict, full ? WR_REFUSE : WR_ADMIT);
    world->arrived += decision.verdict == WR_ADMIT;
}

static void hello(struct world *world, struct client *client)
{
    struct wr_admission_gauges before = wr_admission_gauges(world->admission, world->now);
    struct wr_admission_decision decision =
        wr_admission_hello(world->admission, &client->ticket,
                           draw(world, 2) ? WR_CLASS_FULL : WR_CLASS_RESUME, world->now);
    client->hello_order = ++world->hellos;
    switch (decision.verdict) {
    case WR_ADMIT:
        cr_assert_eq(before.waiting, 0, "nobody overtakes");
        note_let_go(world, client);
        break;
    case WR_WAIT:
        break;
    case WR_REFUSE:
        cr_assert_eq(before.waiting + before.handshaking, world->options.max_pending_handshakes);
        leave(world, client, WR_HANDSHAKE_FAILED, false, 0);
        break;
    }
}

static void step(struct world *world)
{
    struct client *client = &world->clients[draw(world, CLIENTS)];
    uint64_t dice = draw(world, 100);
    if (dice < 3) {
        world->turn_charged = 0;
        world->turn_let_go = 0;
        world->turn_refunded = false;
        uint32_t waiting = wr_admission_gauges(world->admission, world->now).waiting;
        uint64_t granted = world->last_granted;
        bool more = wr_admission_run(world->admission, world->now);
        cr_assert_eq(more, wr_admission_gauges(world->admission, world->now).waiting > 0);
        cr_assert(waiting == 0 || world->last_granted > granted, "one at least");
    } else if (dice < 8) {
        world->now += draw(world, 5000);
    } else if (dice < 9) {
        world->now = draw(world, world->now + 1); /* a step back */
    } else if (client->ticket.state == WR_TICKET_NONE) {
        arrive(world, client);
    } else if (client->ticket.state == WR_TICKET_SILENT && dice < 80) {
        hello(world, client);
    } else if (client->ticket.state == WR_TICKET_HANDSHAKING && dice < 80) {
        leave(world, client, WR_HANDSHAKE_DONE, draw(world, 2), draw(world, 1500));
    } else if (dice < 90) {
        leave(world, client, WR_HANDSHAKE_GONE, false, draw(world, 3) ? 0 : 400);
    }
}

static void live(uint32_t limit, uint32_t max_silent, uint64_t budget, unsigned steps)
{
    struct world *world = calloc(1, sizeof(*world));
    world->random = UINT64_C(88172645463325252) + limit + budget;
    world->now = 1000000;
    world->options = (struct wr_admission_options){limit, max_silent, budget};
    world->admission = wr_admission_new(&world->options, &events, world);
    for (unsigned i = 0; i < CLIENTS; i++)
        wr_ticket_init(&world->clients[i].ticket);
    for (unsigned i = 0; i < steps; i++) {
        step(world);
        check(world, i % 64 == 0);
    }
    for (unsigned i = 0; i < CLIENTS; i++) {
        if (world->clients[i].ticket.state != WR_TICKET_NONE)
            leave(world, &world->clients[i], WR_HANDSHAKE_GONE, false, 0);
    }
    check(world, true);
    cr_assert_eq(world->arrived, world->left, "every ticket leaves once");
    cr_assert(limit == 0 || world->last_granted > 0);
    wr_admission_free(world->admission);
    free(world);
}

Test(admission_property, a_usual_limit)
{
    live(100, 200, 2000, STEPS);
}

Test(admission_property, small_limits)
{
    live(1, 1, 1, STEPS / 4);
    live(0, 10, 1000, STEPS / 4);
    live(7, 3, 0, STEPS / 4);
}

Test(admission_property, no_limit)
{
    live(WR_ADMISSION_NO_LIMIT, CLIENTS, 700, STEPS / 4);
}
