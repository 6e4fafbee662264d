#include <criterion/criterion.h>

#include <stdlib.h>

#include "base/compiler.h"
#include "base/mem.h"
#include "base/wheel.h"

#define TICK WR_WHEEL_TICK

/* A deadline beside what a naive timer would know of it. */
struct timer {
    struct wr_deadline deadline;
    uint64_t at; /* WR_NEVER = not set */
    unsigned fired;
    uint64_t fired_now;
    void (*then)(struct timer *timer, uint64_t now);
};

static struct wr_wheel wheel;

static void expired(struct wr_deadline *deadline, uint64_t now)
{
    struct timer *timer = WR_CONTAINER_OF(deadline, struct timer, deadline);
    if (timer->at > now)
        cr_assert_fail("due at %llu, fired at %llu", (unsigned long long)timer->at,
                       (unsigned long long)now);
    timer->at = WR_NEVER;
    timer->fired++;
    timer->fired_now = now;
    if (timer->then != NULL)
        timer->then(timer, now);
}

static void timer_init(struct timer *timer)
{
    *timer = (struct timer){.at = WR_NEVER};
    wr_deadline_init(&timer->deadline, expired);
}

static void timer_set(struct timer *timer, uint64_t at)
{
    timer->at = at;
    wr_wheel_set(&wheel, &timer->deadline, at);
}

static uint64_t seed;

static uint64_t random_u64(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

/* Any order of magnitude below 2^BITS is as likely. */
static uint64_t random_span(unsigned bits)
{
    return random_u64() & ((UINT64_C(1) << random_u64() % (bits + 1)) - 1);
}

Test(wheel, an_empty_wheel_wants_nothing)
{
    wr_wheel_init(&wheel, 123456789);
    cr_assert_eq(wr_wheel_next(&wheel), WR_NEVER);
    wr_wheel_advance(&wheel, WR_NEVER - 1);
    cr_assert_eq(wr_wheel_next(&wheel), WR_NEVER);
}

Test(wheel, fires_once_not_early_and_within_two_ticks)
{
    static const uint64_t spans[] = {0,
                                     1,
                                     999,
                                     1000,
                                     1001,
                                     63000,
                                     64000,
                                     65000,
                                     4095999,
                                     4096000,
                                     4097001,
                                     262144000,
                                     262145000,
                                     UINT64_C(16777216000),
                                     UINT64_C(16777217000),
                                     UINT64_C(50000000000),
                                     UINT64_C(3000000000000)};
    for (size_t i = 0; i < WR_COUNT_OF(spans); i++) {
        uint64_t start = 777777 + i * 4321;
        struct timer timer;
        timer_init(&timer);
        wr_wheel_init(&wheel, start);
        timer_set(&timer, start + spans[i]);
        unsigned turns = 0;
        while (timer.fired == 0) {
            uint64_t next = wr_wheel_next(&wheel);
            cr_assert_neq(next, WR_NEVER);
            cr_assert_lt(turns++, 200000);
            wr_wheel_advance(&wheel, next);
        }
        cr_assert_leq(timer.fired_now, start + spans[i] + 2 * TICK);
        cr_assert_lt(turns, 300, "%u turns for one deadline", turns);
        wr_wheel_advance(&wheel, timer.fired_now + 3600 * WR_SEC);
        cr_assert_eq(timer.fired, 1);
        cr_assert_eq(wr_wheel_next(&wheel), WR_NEVER);
    }
}

Test(wheel, later_is_only_a_store)
{
    struct timer timer;
    timer_init(&timer);
    wr_wheel_init(&wheel, 0);
    timer_set(&timer, 10 * TICK);
    struct wr_wheel before = wheel;
    struct wr_list link = timer.deadline.link;
    for (uint64_t at = 11 * TICK; at < 10 * WR_SEC; at += 777)
        timer_set(&timer, at);
    cr_assert_arr_eq(&before, &wheel, sizeof(wheel));
    cr_assert_arr_eq(&link, &timer.deadline.link, sizeof(link));

    wr_wheel_advance(&wheel, 9 * WR_SEC);
    cr_assert_eq(timer.fired, 0);
    wr_wheel_advance(&wheel, 10 * WR_SEC);
    cr_assert_eq(timer.fired, 1);
}

Test(wheel, sooner_moves_it)
{
    struct timer timer;
    timer_init(&timer);
    wr_wheel_init(&wheel, 0);
    timer_set(&timer, 100 * WR_SEC);
    timer_set(&timer, 20 * TICK);
    cr_assert_leq(wr_wheel_next(&wheel), 20 * TICK);
    wr_wheel_advance(&wheel, 20 * TICK);
    cr_assert_eq(timer.fired, 1);
}

Test(wheel, never_clears_and_removal_may_be_asked_for_twice)
{
    struct timer timer;
    timer_init(&timer);
    wr_wheel_init(&wheel, 0);
    timer_set(&timer, 5 * TICK);
    timer_set(&timer, WR_NEVER);
    wr_wheel_advance(&wheel, WR_SEC);
    cr_assert_eq(timer.fired, 0);
    cr_assert_eq(wr_wheel_next(&wheel), WR_NEVER);

    timer_set(&timer, 2 * WR_SEC);
    wr_wheel_remove(&wheel, &timer.deadline);
    wr_wheel_remove(&wheel, &timer.deadline);
    cr_assert_eq(timer.deadline.at, WR_NEVER);
    cr_assert_eq(wr_wheel_next(&wheel), WR_NEVER);
    wr_wheel_advance(&wheel, 3 * WR_SEC);
    cr_assert_eq(timer.fired, 0);
}

Test(wheel, a_clock_that_steps_back_does_nothing)
{
    struct timer timer;
    timer_init(&timer);
    wr_wheel_init(&wheel, 100 * WR_SEC);
    timer_set(&timer, 101 * WR_SEC);
    wr_wheel_advance(&wheel, 3 * WR_SEC);
    wr_wheel_advance(&wheel, 0);
    cr_assert_eq(timer.fired, 0);
    wr_wheel_advance(&wheel, 101 * WR_SEC);
    cr_assert_eq(timer.fired, 1);
}

static struct timer pair[2];

static void remove_other(struct timer *timer, uint64_t now)
{
    (void)now;
    struct timer *other = timer == &pair[0] ? &pair[1] : &pair[0];
    other->at = WR_NEVER;
    wr_wheel_remove(&wheel, &other->deadline);
}

static void set_other_now(struct timer *timer, uint64_t now)
{
    timer_set(timer == &pair[0] ? &pair[1] : &pair[0], now);
}

static void set_self_later(struct timer *timer, uint64_t now)
{
    timer_set(timer, now + 10 * TICK);
}

static void set_pair(void (*then)(struct timer *timer, uint64_t now), uint64_t first,
                     uint64_t second)
{
    wr_wheel_init(&wheel, 0);
    timer_init(&pair[0]);
    timer_init(&pair[1]);
    pair[0].then = then;
    timer_set(&pair[0], first);
    timer_set(&pair[1], second);
}

Test(wheel, one_callback_may_remove_another_due_at_the_same_time)
{
    set_pair(remove_other, 5 * TICK, 5 * TICK);
    wr_wheel_advance(&wheel, WR_SEC);
    cr_assert_eq(pair[0].fired, 1);
    cr_assert_eq(pair[1].fired, 0);
    cr_assert_eq(wr_wheel_next(&wheel), WR_NEVER);
}

Test(wheel, what_a_callback_sets_to_now_fires_soon)
{
    set_pair(set_other_now, 5 * TICK, 3600 * WR_SEC);
    wr_wheel_advance(&wheel, 5 * TICK);
    cr_assert_eq(pair[0].fired, 1);
    wr_wheel_advance(&wheel, 6 * TICK);
    cr_assert_eq(pair[1].fired, 1);
}

Test(wheel, a_callback_may_set_its_own_deadline)
{
    set_pair(set_self_later, 5 * TICK, WR_NEVER);
    for (uint64_t now = 0; now <= 105 * TICK; now += TICK)
        wr_wheel_advance(&wheel, now);
    cr_assert_eq(pair[0].fired, 11);
}

/* After a leap a repeating deadline fires once, not once for each period missed. */
Test(wheel, a_leap_fires_a_repeating_deadline_once)
{
    set_pair(set_self_later, 5 * TICK, WR_NEVER);
    wr_wheel_advance(&wheel, 10 * 3600 * WR_SEC);
    cr_assert_eq(pair[0].fired, 1);
}

/* Against the naive model: everything set, whose tick has come, fires; nothing else does. */
#define TIMERS 60

static struct timer timers[TIMERS];

static void check_next(uint64_t first_tick_ahead)
{
    uint64_t next = wr_wheel_next(&wheel);
    for (size_t i = 0; i < TIMERS; i++) {
        if (timers[i].at == WR_NEVER)
            continue;
        uint64_t due = timers[i].at / TICK + (timers[i].at % TICK != 0);
        if (due < first_tick_ahead)
            due = first_tick_ahead;
        if (next > due * TICK)
            cr_assert_fail("wants %llu, timer %zu is due at %llu", (unsigned long long)next, i,
                           (unsigned long long)timers[i].at);
    }
}

static uint64_t step_clock(uint64_t now)
{
    switch (random_u64() % 8) {
    case 0:
        return now - random_span(23) % (now + 1);
    case 1:
        return now + random_span(38);
    case 2: {
        uint64_t next = wr_wheel_next(&wheel);
        return next == WR_NEVER ? now : next;
    }
    default:
        return now + random_span(16);
    }
}

static void run_against_model(unsigned rounds)
{
    uint64_t now = random_span(50);
    uint64_t reached = now / TICK;
    wr_wheel_init(&wheel, now);
    for (size_t i = 0; i < TIMERS; i++)
        timer_init(&timers[i]);
    for (unsigned round = 0; round < rounds; round++) {
        for (unsigned sets = (unsigned)(random_u64() % 12); sets > 0; sets--) {
            struct timer *timer = &timers[random_u64() % TIMERS];
            if (random_u64() % 8 == 0) {
                timer->at = WR_NEVER;
                wr_wheel_remove(&wheel, &timer->deadline);
            } else if (random_u64() % 16 == 0) {
                timer_set(timer, WR_NEVER);
            } else if (random_u64() % 16 == 0) {
                timer_set(timer, now - random_span(24) % (now + 1));
            } else {
                timer_set(timer, now + random_span(38));
            }
        }
        check_next(reached + 1);
        now = step_clock(now);
        wr_wheel_advance(&wheel, now);
        if (now / TICK <= reached)
            continue; /* the callback has checked that nothing fired early */
        reached = now / TICK;
        for (size_t i = 0; i < TIMERS; i++) {
            if (timers[i].at <= reached * TICK)
                cr_assert_fail("round %u: timer %zu is late", round, i);
        }
    }
}

Test(wheel, agrees_with_a_naive_model)
{
    for (uint64_t run = 1; run <= 60; run++) {
        seed = run * UINT64_C(0x9e3779b97f4a7c15);
        run_against_model(1500);
    }
}

/* Callbacks that set, remove and free at random, their own deadline too; the sanitizer sees what is used after. */
static struct timer *loose[TIMERS];

static void drop(size_t i)
{
    wr_wheel_remove(&wheel, &loose[i]->deadline);
    free(loose[i]);
    loose[i] = NULL;
}

static void meddle(struct timer *timer, uint64_t now)
{
    for (unsigned times = (unsigned)(random_u64() % 4); times > 0; times--) {
        size_t i = random_u64() % TIMERS;
        if (loose[i] == NULL || (loose[i] == timer && times > 1))
            continue;
        if (random_u64() % 2 == 0)
            drop(i);
        else
            timer_set(loose[i], random_u64() % 8 == 0 ? WR_NEVER : now + random_span(34));
    }
}

Test(wheel, callbacks_may_do_anything_to_any_deadline)
{
    seed = 4711;
    uint64_t now = 0;
    unsigned fired = 0;
    wr_wheel_init(&wheel, now);
    for (unsigned round = 0; round < 30000; round++) {
        size_t i = random_u64() % TIMERS;
        if (loose[i] == NULL) {
            loose[i] = wr_new_bytes(sizeof(struct timer));
            timer_init(loose[i]);
            loose[i]->then = meddle;
        }
        timer_set(loose[i], now + random_span(30));
        now += random_span(26);
        wr_wheel_advance(&wheel, now);
        for (size_t k = 0; k < TIMERS; k++) {
            if (loose[k] == NULL)
                continue;
            fired += loose[k]->fired;
            loose[k]->fired = 0;
            if (loose[k]->at != WR_NEVER && loose[k]->at + 2 * TICK <= now)
                cr_assert_fail("round %u: timer %zu is late", round, k);
        }
    }
    cr_assert_gt(fired, 1000);
    for (size_t k = 0; k < TIMERS; k++) {
        if (loose[k] != NULL)
            drop(k);
    }
    cr_assert_eq(wr_wheel_next(&wheel), WR_NEVER);
}
