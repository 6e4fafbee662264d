/* Millions of random steps of request admission, against a plain model, and what must hold after each of them. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "admission/requests.h"
#include "base/compiler.h"

#define CLIENTS 120
#define STEPS 2000000

struct client {
    struct wr_request_ticket ticket;
    enum wr_request_state expected; /* by what was told */
    uint64_t order;                 /* of arrivals */
    bool told;                      /* by a callback, in this step */
};

struct world {
    struct wr_requests *requests;
    struct wr_requests_options options;
    struct client clients[CLIENTS];
    uint64_t random;
    uint64_t now;
    uint64_t orders;
    struct client *arriving; /* in this step */
    bool expiring;           /* in this step */
    bool jumps;              /* the clock does */
    uint64_t arrived;
    uint64_t granted;
    uint64_t refused;
    uint64_t left;
    uint64_t shed[WR_SHED__COUNT];
};

static uint64_t draw(struct world *world, uint64_t below)
{
    world->random ^= world->random << 13;
    world->random ^= world->random >> 7;
    world->random ^= world->random << 17;
    return world->random % below;
}

static struct client *client_of(struct wr_request_ticket *ticket)
{
    return WR_CONTAINER_OF(ticket, struct client, ticket);
}

static uint32_t limit(const struct world *world)
{
    return wr_requests_gauges(world->requests).limit;
}

static uint32_t count(const struct world *world, enum wr_request_state state)
{
    uint32_t n = 0;
    for (size_t i = 0; i < CLIENTS; i++)
        n += world->clients[i].expected == state;
    return n;
}

/* What one of PRIORITY may bring the number in flight to, worked out another way than by the controller. */
static uint32_t share(const struct world *world, enum wr_priority priority)
{
    uint64_t wanted = (uint64_t)limit(world) * world->options.share[priority];
    return (uint32_t)(wanted / 100 + (wanted % 100 != 0));
}

/* Whoever waits in vain while CLIENT gets a slot has a lower priority, or the same and came later, or may not have it. */
static void check_order(const struct world *world, const struct client *client, uint32_t in_flight)
{
    enum wr_priority mine = client->ticket.priority;
    for (size_t i = 0; i < CLIENTS; i++) {
        const struct client *other = &world->clients[i];
        if (other == client || other->expected != WR_REQUEST_WAITING)
            continue;
        enum wr_priority theirs = other->ticket.priority;
        bool after = theirs > mine || (theirs == mine && other->order > client->order);
        bool may_not = in_flight >= share(world, theirs);
        cr_assert(after || may_not, "overtaken");
    }
}

static void takes_slot(struct world *world, struct client *client)
{
    uint32_t in_flight = count(world, WR_REQUEST_IN_FLIGHT);
    if (limit(world) > 0) {
        cr_assert_lt(in_flight, limit(world), "the limit is exceeded");
        cr_assert_lt(in_flight, share(world, client->ticket.priority), "more than its share");
    }
    check_order(world, client, in_flight);
    client->expected = WR_REQUEST_IN_FLIGHT;
    world->granted++;
}

static void on_grant(void *owner, struct wr_request_ticket *ticket)
{
    struct client *client = client_of(ticket);
    cr_assert_eq(client->expected, WR_REQUEST_WAITING);
    cr_assert_eq(ticket->state, WR_REQUEST_IN_FLIGHT);
    cr_assert_lt(ticket->waited, UINT64_MAX / 2, "a wait is never negative");
    takes_slot(owner, client);
}

/* Who gives way does so for a higher priority, and nobody lower, or later of the same, is left. */
static void check_gave_way(const struct world *world, const struct client *client)
{
    cr_assert_not_null(world->arriving);
    cr_assert_lt(world->arriving->ticket.priority, client->ticket.priority);
    cr_assert_eq(count(world, WR_REQUEST_WAITING), world->options.max_waiting);
    for (size_t i = 0; i < CLIENTS; i++) {
        const struct client *other = &world->clients[i];
        if (other == client || other->expected != WR_REQUEST_WAITING)
            continue;
        cr_assert(
            other->ticket.priority < client->ticket.priority ||
            (other->ticket.priority == client->ticket.priority && other->order < client->order));
    }
}

static void on_refuse(void *owner, struct wr_request_ticket *ticket, enum wr_shed cause)
{
    struct world *world = owner;
    struct client *client = client_of(ticket);
    cr_assert_eq(client->expected, WR_REQUEST_WAITING);
    cr_assert_eq(ticket->state, WR_REQUEST_NONE);
    if (cause == WR_SHED_PRIORITY) {
        check_gave_way(world, client);
    } else {
        cr_assert_eq(cause, WR_SHED_WAIT);
        cr_assert(world->expiring);
        cr_assert_geq(world->now, ticket->arrived + world->options.max_wait, "too early");
    }
    client->expected = WR_REQUEST_NONE;
    world->refused++;
    world->shed[cause]++;
}

static const struct wr_requests_events events = {.grant = on_grant, .refuse = on_refuse};

/* ---- steps ---- */

static void arrive(struct world *world, struct client *client)
{
    enum wr_shed cause = WR_SHED__COUNT;
    client->order = ++world->orders;
    client->ticket.priority = (enum wr_priority)draw(world, WR_PRIORITY__COUNT);
    world->arriving = client;
    wr_requests_arrive(world->requests, &client->ticket, client->ticket.priority, world->now,
                       &cause);
    world->arriving = NULL;
    world->arrived++;
    if (client->ticket.state == WR_REQUEST_IN_FLIGHT) {
        takes_slot(world, client);
        return;
    }
    client->expected = client->ticket.state;
    bool waits = world->options.max_wait > 0 && world->options.max_waiting > 0;
    if (client->ticket.state == WR_REQUEST_WAITING) {
        cr_assert(waits);
        return;
    }
    cr_assert_eq(cause, waits ? WR_SHED_QUEUE : WR_SHED_LIMIT);
    cr_assert(!waits || count(world, WR_REQUEST_WAITING) == world->options.max_waiting);
    world->refused++;
    world->shed[cause]++;
}

static void leave(struct world *world, struct client *client)
{
    if (client->expected == WR_REQUEST_IN_FLIGHT) {
        uint64_t latency = draw(world, 20000) * (1 + count(world, WR_REQUEST_IN_FLIGHT));
        wr_requests_observe(world->requests, &client->ticket, latency, draw(world, 8) > 0,
                            world->now);
        world->left++;
    } else if (client->expected == WR_REQUEST_WAITING) {
        world->refused++; /* by itself */
    }
    client->expected = WR_REQUEST_NONE;
    wr_requests_leave(world->requests, &client->ticket, world->now);
}

static void expire(struct world *world)
{
    world->expiring = true;
    wr_requests_expire(world->requests, world->now);
    world->expiring = false;
}

static void tick(struct world *world)
{
    if (world->jumps && draw(world, 5000) == 0)
        world->now = draw(world, 2) > 0 ? world->now / 2 : world->now + 3600 * WR_SEC;
    world->now += draw(world, 400);
}

/* ---- what holds ---- */

static void check_expiry(const struct world *world)
{
    uint64_t next = wr_requests_next_expiry(world->requests);
    uint64_t earliest = WR_NEVER;
    for (size_t i = 0; i < CLIENTS; i++) {
        const struct client *client = &world->clients[i];
        if (client->expected == WR_REQUEST_WAITING &&
            client->ticket.arrived + world->options.max_wait < earliest)
            earliest = client->ticket.arrived + world->options.max_wait;
    }
    if (world->jumps) /* the front of a lane came first, whatever the clock said */
        cr_assert((next == WR_NEVER) == (earliest == WR_NEVER));
    else
        cr_assert_eq(next, earliest);
}

static void check(const struct world *world)
{
    struct wr_requests_gauges gauges = wr_requests_gauges(world->requests);
    cr_assert_eq(gauges.in_flight, count(world, WR_REQUEST_IN_FLIGHT));
    cr_assert_eq(gauges.waiting, count(world, WR_REQUEST_WAITING));
    cr_assert_leq(gauges.waiting, world->options.max_waiting);
    if (world->options.mode == WR_REQUESTS_FIXED) {
        cr_assert_eq(gauges.limit, world->options.max);
        cr_assert(gauges.limit == 0 || gauges.in_flight <= gauges.limit);
    } else {
        uint32_t floor = world->options.max < 4 ? world->options.max : 4;
        cr_assert_geq(gauges.limit, floor, "%u", gauges.limit);
        cr_assert_leq(gauges.limit, world->options.max);
    }
    for (size_t i = 0; i < CLIENTS; i++) {
        const struct client *client = &world->clients[i];
        cr_assert_eq(client->ticket.state, client->expected);
        if (client->expected == WR_REQUEST_WAITING)
            cr_assert_geq(gauges.in_flight, share(world, client->ticket.priority),
                          "one waits for whom there is room");
    }
    check_expiry(world);
}

static void step(struct world *world)
{
    struct client *client = &world->clients[draw(world, CLIENTS)];
    tick(world);
    switch (draw(world, 8)) {
    case 0:
        expire(world);
        break;
    case 1:
    case 2:
    case 3:
        if (client->expected != WR_REQUEST_NONE || draw(world, 30) == 0)
            leave(world, client); /* one without a place too */
        break;
    default:
        if (client->expected == WR_REQUEST_NONE)
            arrive(world, client);
        break;
    }
}

static void walk(struct wr_requests_options options, uint64_t seed, bool jumps, unsigned steps)
{
    struct world *world = calloc(1, sizeof(*world));
    world->options = options;
    world->random = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    world->now = 10000 * WR_SEC;
    world->jumps = jumps;
    world->requests = wr_requests_new(&options, &events, world);
    for (size_t i = 0; i < CLIENTS; i++)
        wr_request_ticket_init(&world->clients[i].ticket);
    for (unsigned i = 0; i < steps; i++) {
        step(world);
        if (i % 8 == 0)
            check(world);
    }
    for (size_t i = 0; i < CLIENTS; i++)
        leave(world, &world->clients[i]);
    check(world);
    cr_assert_eq(world->left, world->granted, "every slot came back once");
    cr_assert_eq(world->arrived, world->granted + world->refused);
    cr_assert_gt(world->granted, steps / 1000);
    if (options.max > 0 && options.max_waiting > 0 && !jumps) {
        cr_assert_gt(world->shed[WR_SHED_QUEUE], 0);
        cr_assert_gt(world->shed[WR_SHED_PRIORITY], 0);
        cr_assert_gt(world->shed[WR_SHED_WAIT], 0);
    }
    wr_requests_free(world->requests);
    free(world);
}

#define SHARES      \
    {               \
        100, 90, 70 \
    }

Test(requests_property, a_fixed_limit)
{
    static const uint32_t limits[] = {1, 2, 7, 10, 33};
    for (unsigned i = 0; i < WR_COUNT_OF(limits); i++)
        walk(
            (struct wr_requests_options){
                .max = limits[i], .max_wait = 6000, .max_waiting = 20, .share = SHARES},
            i + 1, false, STEPS / 5);
}

Test(requests_property, a_limit_that_finds_itself)
{
    static const uint32_t limits[] = {3, 8, 40};
    for (unsigned i = 0; i < WR_COUNT_OF(limits); i++)
        walk((struct wr_requests_options){.mode = WR_REQUESTS_ADAPTIVE,
                                          .max = limits[i],
                                          .max_wait = 6000,
                                          .max_waiting = 15,
                                          .share = SHARES},
             i + 11, false, STEPS / 3);
}

Test(requests_property, a_clock_that_jumps)
{
    for (unsigned i = 0; i < 2; i++)
        walk((struct wr_requests_options){.mode = (enum wr_requests_mode)i,
                                          .max = 12,
                                          .max_wait = 6000,
                                          .max_waiting = 15,
                                          .share = SHARES},
             i + 21, true, STEPS / 2);
}

Test(requests_property, nobody_waits_or_nothing_is_limited)
{
    walk((struct wr_requests_options){.max = 12, .share = SHARES}, 31, false, STEPS / 4);
    walk((struct wr_requests_options){.max = 12, .max_wait = 6000, .share = SHARES}, 33, false,
         STEPS / 4);
    walk((struct wr_requests_options){.max = 12, .max_waiting = 5, .share = SHARES}, 34, true,
         STEPS / 4);
    walk((struct wr_requests_options){.max = 0, .max_wait = 6000, .max_waiting = 5}, 32, false,
         STEPS / 4);
}
