/* Millions of random steps, and what must hold after each of them. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "admission/admission.h"
#include "base/compiler.h"

#define CLIENTS 400
#define SOURCES 12
#define STEPS 1000000
#define FULL_FLOOR 25 /* per cent */

struct client {
    struct wr_ticket ticket;
    uint64_t order; /* of ClientHellos */
};

/* What the test believes, beside what the controller says. */
struct world {
    struct wr_admission *admission;
    struct wr_admission_options options;
    struct client clients[CLIENTS];
    uint64_t random;
    uint64_t now;
    uint64_t hellos;
    uint64_t arrived;
    uint64_t left;
    uint64_t grants;
    uint64_t charged; /* in this run() */
    uint64_t other;   /* time of this run() */
    unsigned granted; /* in this run() */
    bool refunded;
    bool running;
    bool displaced; /* the last one let in took the place of another */
    bool delayed;   /* as of the begin of the run's grants */
};

static uint64_t draw(struct world *world, uint64_t below)
{
    world->random ^= world->random << 13;
    world->random ^= world->random >> 7;
    world->random ^= world->random << 17;
    return world->random % below;
}

static struct client *client_of(struct wr_ticket *ticket)
{
    return WR_CONTAINER_OF(ticket, struct client, ticket);
}

static struct wr_admission_gauges gauges_of(const struct world *world)
{
    return wr_admission_gauges(world->admission, world->now);
}

static void leave(struct world *world, struct client *client, enum wr_handshake_outcome outcome,
                  bool resumed, uint64_t cost)
{
    cr_assert_neq(client->ticket.state, WR_TICKET_NONE);
    if (client->ticket.state == WR_TICKET_HANDSHAKING && cost < client->ticket.charged)
        world->refunded = true;
    wr_admission_leave(world->admission, &client->ticket, outcome, resumed, cost, world->now);
    cr_assert_eq(client->ticket.state, WR_TICKET_NONE);
    world->left++;
}

static bool is_pending(const struct client *client)
{
    return client->ticket.state == WR_TICKET_WAITING ||
           client->ticket.state == WR_TICKET_HANDSHAKING;
}

/* Those of SOURCE, or of the trusted or not, or all that wait in CLASS. */
static unsigned count_if(const struct world *world, bool (*is)(const struct client *, uint64_t),
                         uint64_t argument)
{
    unsigned n = 0;
    for (unsigned i = 0; i < CLIENTS; i++)
        n += is(&world->clients[i], argument);
    return n;
}

static bool pending_of_source(const struct client *client, uint64_t key)
{
    return is_pending(client) && client->ticket.source.key == key;
}

static bool pending_untrusted(const struct client *client, uint64_t unused)
{
    (void)unused;
    return is_pending(client) && !client->ticket.source.trusted;
}

static bool in_state(const struct client *client, uint64_t state)
{
    return client->ticket.state == state;
}

static bool waits_in_class(const struct client *client, uint64_t class)
{
    return client->ticket.state == WR_TICKET_WAITING && client->ticket.class == class;
}

/* ---- what the controller says ---- */

/* In its lane, the one granted is at the end that the order of the moment takes from. */
static void check_order(const struct world *world, const struct client *granted)
{
    bool newest = world->delayed && world->options.newest_first;
    for (unsigned i = 0; i < CLIENTS; i++) {
        const struct client *other = &world->clients[i];
        bool lane = other->ticket.class == granted->ticket.class ||
                    (!world->options.resumption_first && other->ticket.class != WR_CLASS_TRUSTED &&
                     granted->ticket.class != WR_CLASS_TRUSTED);
        if (other->ticket.state != WR_TICKET_WAITING || !lane)
            continue;
        cr_assert_eq(other->order < granted->order, newest);
    }
}

static void on_grant(void *owner, struct wr_ticket *ticket)
{
    struct world *world = owner;
    struct client *client = client_of(ticket);
    cr_assert(world->running);
    cr_assert_eq(ticket->state, WR_TICKET_HANDSHAKING);
    if (world->granted == 0)
        world->delayed = gauges_of(world).delayed;
    check_order(world, client);
    world->charged += ticket->charged;
    world->granted++;
    world->grants++;
    uint64_t share = world->other * world->options.min_share / (100 - world->options.min_share);
    uint64_t budget = share > world->options.turn_budget ? share : world->options.turn_budget;
    cr_assert(
        world->granted == 1 || world->refunded || world->charged <= budget,
        "a turn goes over its budget by one handshake at most, and only when it is the first");
    if (draw(world, 8) == 0)
        leave(world, client, WR_HANDSHAKE_GONE, false, 0);
}

static void on_refuse(void *owner, struct wr_ticket *ticket, struct wr_admission_decision why)
{
    struct world *world = owner;
    uint64_t waited = wr_time_since(ticket->queued, world->now);
    cr_assert(why.refused);
    switch (why.cause) {
    case WR_CAUSE_NONE:
        cr_assert_eq(ticket->state, WR_TICKET_SILENT);
        break;
    case WR_CAUSE_DELAY:
        cr_assert_eq(ticket->state, WR_TICKET_WAITING);
        cr_assert_gt(waited, world->options.max_delay);
        break;
    case WR_CAUSE_RESUMPTION:
        cr_assert_eq(ticket->state, WR_TICKET_WAITING);
        cr_assert_neq(ticket->class, WR_CLASS_RESUME);
        world->displaced = true;
        cr_assert_neq(ticket->class, WR_CLASS_TRUSTED);
        uint64_t floor = (uint64_t)gauges_of(world).limit * FULL_FLOOR / 100;
        cr_assert_gt(count_if(world, waits_in_class, WR_CLASS_FULL), floor,
                     "full ones keep their floor");
        break;
    default:
        cr_assert_fail("%d is no reason to go", why.cause);
    }
    leave(world, client_of(ticket), WR_HANDSHAKE_FAILED, false, 0);
}

static const struct wr_admission_events events = {.grant = on_grant, .refuse = on_refuse};

/* ---- invariants ---- */

static void check(const struct world *world, bool thoroughly)
{
    struct wr_admission_gauges gauges = gauges_of(world);
    uint64_t pending = (uint64_t)gauges.waiting + gauges.handshaking;
    cr_assert_leq(pending, world->options.max_pending_handshakes);
    cr_assert_leq(gauges.limit, world->options.max_pending_handshakes);
    cr_assert_leq(pending, gauges.pending_peak);
    cr_assert_leq(gauges.silent, world->options.max_silent);
    cr_assert_eq(world->arrived - world->left, gauges.silent + pending);
    if (!thoroughly)
        return;
    cr_assert_eq(gauges.silent, count_if(world, in_state, WR_TICKET_SILENT));
    cr_assert_eq(gauges.waiting, count_if(world, in_state, WR_TICKET_WAITING));
    cr_assert_eq(gauges.handshaking, count_if(world, in_state, WR_TICKET_HANDSHAKING));
}

static uint32_t reserve_of(const struct world *world, uint32_t limit)
{
    uint32_t reserve = world->options.trusted_reserve;
    return reserve < limit / 2 ? reserve : limit / 2;
}

/* One has just been let into the backlog: nobody's right was passed over. */
static void check_admitted(const struct world *world, const struct client *client)
{
    struct wr_admission_gauges gauges = gauges_of(world);
    uint32_t limit = gauges.limit;
    if (limit == WR_ADMISSION_NO_LIMIT || client->ticket.source.trusted)
        return;
    /* A limit that has been lowered may lie below what is pending, but then nobody is let in, except for another. */
    uint32_t pending = gauges.waiting + gauges.handshaking;
    cr_assert(pending <= limit || world->displaced);
    if (!world->displaced)
        cr_assert_leq(count_if(world, pending_untrusted, 0), limit - reserve_of(world, limit),
                      "the reserve is the trusted ones'");
    unsigned held = count_if(world, pending_of_source, client->ticket.source.key);
    uint64_t share = (uint64_t)limit * world->options.max_source_share / 100;
    bool half = pending > limit - limit / 2;
    cr_assert(!half || held <= (share > 0 ? share : 1), "%u of %u in the hands of one source", held,
              limit);
}

/* ---- what happens ---- */

static void arrive(struct world *world, struct client *client)
{
    uint64_t key = draw(world, 3) ? draw(world, SOURCES) : 1;
    struct wr_admission_source source = {key, key == 0};
    enum wr_handshake_class claimed = (enum wr_handshake_class)draw(world, WR_CLASS_TRUSTED);
    if (wr_admission_ask(world->admission, &source, claimed, world->now).refused && draw(world, 4))
        return; /* a guest that comes in by another way is judged at its ClientHello */
    world->arrived += !wr_admission_arrive(world->admission, &client->ticket, &source).refused;
}

static void hello(struct world *world, struct client *client)
{
    enum wr_handshake_class claimed = draw(world, 2) ? WR_CLASS_FULL : WR_CLASS_RESUME;
    client->order = ++world->hellos;
    world->displaced = false;
    if (wr_admission_hello(world->admission, &client->ticket, claimed, world->now).refused)
        leave(world, client, WR_HANDSHAKE_FAILED, false, 0);
    else
        check_admitted(world, client);
}

static void run(struct world *world)
{
    uint32_t waiting = gauges_of(world).waiting;
    uint64_t before = world->left + world->grants;
    world->charged = 0;
    world->granted = 0;
    world->refunded = false;
    world->running = true;
    world->other = draw(world, 3) ? 0 : draw(world, 20000);
    bool more = wr_admission_run(world->admission, world->other, world->now);
    world->running = false;
    cr_assert_eq(more, gauges_of(world).waiting > 0);
    cr_assert(waiting == 0 || world->left + world->grants > before, "one at least");
}

static void step(struct world *world)
{
    struct client *client = &world->clients[draw(world, CLIENTS)];
    uint64_t dice = draw(world, 1000);
    if (dice < 30)
        run(world);
    else if (dice < 80)
        world->now += draw(world, 5000);
    else if (dice < 82)
        world->now += draw(world, 2 * WR_SEC); /* a jump ahead */
    else if (dice < 84)
        world->now -= draw(world, world->now > WR_SEC ? WR_SEC : world->now); /* a step back */
    else if (client->ticket.state == WR_TICKET_NONE)
        arrive(world, client);
    else if (client->ticket.state == WR_TICKET_SILENT && dice < 800)
        hello(world, client);
    else if (client->ticket.state == WR_TICKET_HANDSHAKING && dice < 800)
        leave(world, client, WR_HANDSHAKE_DONE, draw(world, 2), draw(world, 1500));
    else if (dice < 900)
        leave(world, client, WR_HANDSHAKE_GONE, false, draw(world, 3) ? 0 : 400);
}

static void live(struct wr_admission_options options, unsigned steps)
{
    struct world *world = calloc(1, sizeof(*world));
    world->random = UINT64_C(88172645463325252) + options.max_pending_handshakes +
                    options.turn_budget + options.max_delay;
    world->now = 10 * WR_SEC;
    world->options = options;
    world->options.seed = world->random;
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
    cr_assert(options.max_pending_handshakes == 0 || world->grants > 0);
    wr_admission_free(world->admission);
    free(world);
}

static const struct wr_admission_options all_rules = {
    .max_pending_handshakes = 100,
    .max_silent = 200,
    .max_delay = 20 * WR_MSEC,
    .newest_first = true,
    .resumption_first = true,
    .max_source_share = 25,
    .trusted_reserve = 10,
    .turn_budget = 2000,
    .min_share = 20,
};

Test(admission_property, all_rules, .timeout = 120)
{
    live(all_rules, STEPS);
}

Test(admission_property, adaptive, .timeout = 120)
{
    struct wr_admission_options options = all_rules;
    options.mode = WR_ADMISSION_ADAPTIVE;
    live(options, STEPS);
    options.max_pending_handshakes = WR_ADMISSION_NO_LIMIT;
    live(options, STEPS / 4);
}

Test(admission_property, small_limits, .timeout = 120)
{
    for (uint32_t limit = 0; limit < 8; limit++) {
        struct wr_admission_options options = all_rules;
        options.max_pending_handshakes = limit;
        options.max_silent = 1 + limit;
        options.turn_budget = limit;
        live(options, STEPS / 8);
    }
}

Test(admission_property, no_limit, .timeout = 120)
{
    struct wr_admission_options options = all_rules;
    options.max_pending_handshakes = WR_ADMISSION_NO_LIMIT;
    live(options, STEPS / 4);
}

Test(admission_property, each_rule_off, .timeout = 120)
{
    for (unsigned rule = 0; rule < 6; rule++) {
        struct wr_admission_options options = all_rules;
        if (rule == 0)
            options.max_delay = WR_NEVER;
        else if (rule == 1)
            options.newest_first = false;
        else if (rule == 2)
            options.resumption_first = false;
        else if (rule == 3)
            options.max_source_share = 100;
        else if (rule == 4)
            options.trusted_reserve = 0;
        else
            options.turn_budget = WR_NEVER;
        live(options, STEPS / 4);
    }
}
