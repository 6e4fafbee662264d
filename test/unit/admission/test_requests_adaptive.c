/* The limit that finds itself, against a service on a simulated clock. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "admission/requests.h"
#include "base/compiler.h"

#define CALLERS 400
#define NOBODY UINT64_MAX

/* A service that works on KNEE requests at once, each for BASE microseconds; of more, each takes longer in proportion. */
struct service {
    double base;
    double knee;
    bool noisy; /* latency varies by as much as its mean */
};

struct caller {
    struct wr_request_ticket ticket;
    uint64_t sent;
    uint64_t done_at; /* its response; NOBODY: none is out */
    bool hangs;       /* has no response, and leaves */
};

struct world {
    struct wr_requests *requests;
    struct service service;
    struct caller callers[CALLERS];
    unsigned active; /* callers that ask again as soon as they have an answer */
    uint64_t now;
    uint64_t random;
    uint64_t served;
};

static double draw(struct world *world)
{
    world->random ^= world->random << 13;
    world->random ^= world->random >> 7;
    world->random ^= world->random << 17;
    return ((double)(world->random >> 11) + 1) / 9007199254740993.0;
}

static struct world *current;

static void send_out(struct world *world, struct caller *caller)
{
    double in_flight = wr_requests_gauges(world->requests).in_flight;
    double pressed = in_flight > world->service.knee ? in_flight / world->service.knee : 1;
    double latency = world->service.base * pressed;
    if (world->service.noisy) {
        double u = draw(world);
        latency *= 3 * u * u;
    }
    caller->sent = world->now;
    caller->done_at = world->now + (uint64_t)latency + 1;
}

static void on_grant(void *owner, struct wr_request_ticket *ticket)
{
    (void)owner;
    send_out(current, WR_CONTAINER_OF(ticket, struct caller, ticket));
}

static void on_refuse(void *owner, struct wr_request_ticket *ticket, enum wr_shed cause)
{
    (void)owner;
    (void)ticket;
    (void)cause;
}

static const struct wr_requests_events events = {.grant = on_grant, .refuse = on_refuse};

static struct world *world_new(struct service service, uint32_t ceiling)
{
    struct world *world = calloc(1, sizeof(*world));
    struct wr_requests_options options = {.mode = WR_REQUESTS_ADAPTIVE,
                                          .max = ceiling,
                                          .max_wait = WR_SEC,
                                          .max_waiting = CALLERS,
                                          .share = {100, 100, 70}};
    world->requests = wr_requests_new(&options, &events, NULL);
    world->service = service;
    world->random = 88172645463325252u;
    world->now = 1000000000;
    for (size_t i = 0; i < CALLERS; i++) {
        wr_request_ticket_init(&world->callers[i].ticket);
        world->callers[i].done_at = NOBODY;
    }
    current = world;
    return world;
}

static void world_free(struct world *world)
{
    wr_requests_free(world->requests);
    free(world);
}

static void ask(struct world *world, struct caller *caller)
{
    enum wr_shed cause;
    wr_requests_arrive(world->requests, &caller->ticket, WR_PRIORITY_NORMAL, world->now, &cause);
    if (caller->ticket.state == WR_REQUEST_IN_FLIGHT)
        send_out(world, caller);
}

static void answer(struct world *world, struct caller *caller)
{
    caller->done_at = NOBODY;
    wr_requests_observe(world->requests, &caller->ticket, world->now - caller->sent, !caller->hangs,
                        world->now);
    wr_requests_leave(world->requests, &caller->ticket, world->now);
    world->served++;
}

/* In steps of a millisecond. */
static void run(struct world *world, uint64_t usec)
{
    for (uint64_t end = world->now + usec; world->now < end; world->now += WR_MSEC) {
        for (size_t i = 0; i < CALLERS; i++)
            if (world->callers[i].done_at <= world->now)
                answer(world, &world->callers[i]);
        wr_requests_expire(world->requests, world->now);
        for (size_t i = 0; i < world->active; i++)
            if (world->callers[i].ticket.state == WR_REQUEST_NONE)
                ask(world, &world->callers[i]);
    }
}

/* Least, mean and most of the limit, looks left out. */
struct seen {
    double least;
    double mean;
    double most;
};

static struct seen watch(struct world *world, uint64_t usec)
{
    struct seen seen = {.least = 1e9};
    unsigned count = 0;
    for (uint64_t end = world->now + usec; world->now < end;) {
        run(world, 50 * WR_MSEC);
        double limit = wr_requests_gauges(world->requests).limit;
        seen.mean += limit;
        seen.most = limit > seen.most ? limit : seen.most;
        seen.least = limit < seen.least ? limit : seen.least;
        count++;
    }
    seen.mean /= count;
    cr_log_info("limit %.1f .. %.1f .. %.1f", seen.least, seen.mean, seen.most);
    return seen;
}

/* The service can do 20 at once: the limit stays near, minute after minute, whatever is asked for. */
Test(requests_adaptive, settles_around_what_the_service_can_do)
{
    struct world *world = world_new((struct service){.base = 10 * WR_MSEC, .knee = 20}, 0);
    world->active = 300;
    run(world, 20 * WR_SEC);
    for (unsigned minute = 0; minute < 10; minute++) {
        struct seen seen = watch(world, 60 * WR_SEC);
        cr_expect(seen.mean > 20 && seen.mean < 36, "minute %u: %.1f", minute, seen.mean);
        cr_expect_lt(seen.most, 45, "minute %u", minute);
    }
    /* And what it can do is had: 2,000 a second. */
    uint64_t before = world->served;
    run(world, 30 * WR_SEC);
    cr_expect_gt(world->served - before, 30 * 1700, "%llu",
                 (unsigned long long)(world->served - before));
    world_free(world);
}

Test(requests_adaptive, noise_does_not_wear_it_down)
{
    struct world *world =
        world_new((struct service){.base = 20 * WR_MSEC, .knee = 50, .noisy = true}, 0);
    world->active = 300;
    run(world, 60 * WR_SEC);
    struct seen seen = watch(world, 120 * WR_SEC);
    cr_expect(seen.mean > 40 && seen.mean < 100, "%.1f", seen.mean);
    world_free(world);
}

Test(requests_adaptive, a_service_that_was_pressed_from_the_first_moment_is_found_out)
{
    struct world *world = world_new((struct service){.base = 10 * WR_MSEC, .knee = 5}, 0);
    world->active = 300;
    run(world, 60 * WR_SEC);
    struct seen seen = watch(world, 60 * WR_SEC);
    cr_expect(seen.mean >= 4 && seen.mean < 15, "%.1f", seen.mean);
    world_free(world);
}

Test(requests_adaptive, comes_back_when_the_service_does_more)
{
    struct world *world = world_new((struct service){.base = 10 * WR_MSEC, .knee = 20}, 0);
    world->active = 300;
    run(world, 60 * WR_SEC);
    world->service.knee = 120;
    run(world, 30 * WR_SEC);
    struct seen more = watch(world, 30 * WR_SEC);
    cr_expect(more.mean > 110 && more.mean < 220, "%.1f", more.mean);
    world->service.knee = 20;
    run(world, 60 * WR_SEC);
    struct seen again = watch(world, 30 * WR_SEC);
    cr_expect(again.mean > 18 && again.mean < 36, "%.1f", again.mean);
    world_free(world);
}

/* Slower in itself, not by being pressed: that is its latency now, and no reason to refuse. Quicker likewise. */
Test(requests_adaptive, another_latency_is_learnt_in_both_directions)
{
    struct world *world = world_new((struct service){.base = 10 * WR_MSEC, .knee = 40}, 0);
    world->active = 300;
    run(world, 60 * WR_SEC);
    world->service.base = 50 * WR_MSEC;
    run(world, 60 * WR_SEC);
    struct seen slower = watch(world, 60 * WR_SEC);
    cr_expect(slower.mean > 36 && slower.mean < 75, "%.1f", slower.mean);
    world->service.base = 5 * WR_MSEC;
    run(world, 90 * WR_SEC);
    struct seen quicker = watch(world, 60 * WR_SEC);
    cr_expect(quicker.mean > 36 && quicker.mean < 75, "%.1f", quicker.mean);
    world_free(world);
}

Test(requests_adaptive, falls_to_its_floor_and_no_further_and_comes_back)
{
    struct world *world = world_new((struct service){.base = 10 * WR_MSEC, .knee = 20}, 0);
    world->active = 300;
    run(world, 30 * WR_SEC);
    world->service.knee = 0.5;
    run(world, 30 * WR_SEC);
    cr_expect_geq(watch(world, 30 * WR_SEC).least, 4);
    world->service.knee = 20;
    run(world, 60 * WR_SEC);
    cr_expect_gt(watch(world, 30 * WR_SEC).mean, 18);
    world_free(world);
}

Test(requests_adaptive, never_goes_above_its_ceiling)
{
    struct world *world = world_new((struct service){.base = 10 * WR_MSEC, .knee = 200}, 50);
    world->active = 300;
    run(world, 60 * WR_SEC);
    struct seen seen = watch(world, 30 * WR_SEC);
    cr_expect_eq(seen.most, 50);
    cr_expect_gt(seen.mean, 45);
    world_free(world);
}

/* Who has a use for half of it only has no say in it. */
Test(requests_adaptive, does_not_move_while_little_is_in_flight)
{
    struct world *world = world_new((struct service){.base = 10 * WR_MSEC, .knee = 100}, 0);
    world->active = 9;
    run(world, 20 * WR_SEC);
    struct seen seen = watch(world, 60 * WR_SEC);
    cr_expect_eq(seen.most, 20);
    world->service.base = 100 * WR_MSEC;
    seen = watch(world, 60 * WR_SEC);
    cr_expect_eq(seen.most, 20);
    cr_expect_geq(seen.least, 9, "looks are in nobody's way: %.0f", seen.least);
    world_free(world);
}

/* Requests that have no response are slow ones: else a service that hangs would look like one that has nothing to do. */
Test(requests_adaptive, what_hangs_counts)
{
    struct world *world = world_new((struct service){.base = 10 * WR_MSEC, .knee = 60}, 0);
    world->active = 300;
    run(world, 30 * WR_SEC);
    double before = wr_requests_gauges(world->requests).limit;
    for (size_t i = 0; i < CALLERS; i++)
        world->callers[i].hangs = true;
    world->service.knee = 1;
    run(world, 2 * WR_SEC);
    cr_expect_lt(wr_requests_gauges(world->requests).limit, before / 2);
    world_free(world);
}

/* What fails at once says nothing about how fast the service is. */
Test(requests_adaptive, what_fails_at_once_does_not_count)
{
    struct world *world = world_new((struct service){.base = 10 * WR_MSEC, .knee = 20}, 0);
    world->active = 300;
    run(world, 60 * WR_SEC);
    for (size_t i = 0; i < CALLERS; i++)
        world->callers[i].hangs = true;
    world->service.base = WR_MSEC;
    struct seen failing = watch(world, 60 * WR_SEC);
    cr_expect_lt(failing.most, 45);
    world_free(world);
}

/* Who holds a place for hours (an event stream) and has long had its response head is no pressure that a look could take away: looks
 * do not shut the door to others on its account, and end though nothing else happens. */
Test(requests_adaptive, long_ones_in_flight_do_not_keep_others_out)
{
    struct world *world = world_new((struct service){.base = 5 * WR_MSEC, .knee = 100}, 0);
    uint64_t waits = 0;
    unsigned refused = 0;
    for (unsigned i = 0; i < 12; i++) {
        ask(world, &world->callers[CALLERS - 1 - i]);
        world->callers[CALLERS - 1 - i].done_at = NOBODY;
    }
    /* One request at a time, for two minutes: there is always room for it but in looks. */
    for (unsigned i = 0; i < 2400; i++) {
        struct caller *caller = &world->callers[0];
        uint64_t until = world->now + 50 * WR_MSEC;
        ask(world, caller);
        while (caller->ticket.state == WR_REQUEST_WAITING) {
            waits++;
            world->now = wr_requests_next_expiry(world->requests);
            wr_requests_expire(world->requests, world->now);
        }
        refused += caller->ticket.state == WR_REQUEST_NONE;
        if (caller->ticket.state == WR_REQUEST_IN_FLIGHT) {
            world->now = caller->done_at;
            answer(world, caller);
        }
        world->now = until > world->now ? until : world->now;
    }
    cr_expect_eq(refused, 0, "%u", refused);
    cr_expect(waits > 0 && waits < 20, "at most once a look: %u", (unsigned)waits);
    cr_expect_geq(wr_requests_gauges(world->requests).limit, 16);
    world_free(world);
}
