#include "admission/gradient.h"

#include "base/time.h"

/* A window is at least so long, and as long as what it measures; with fewer samples it says nothing. */
#define WINDOW (100 * WR_MSEC)
#define SAMPLES 30u
#define WINDOW_MOST (10 * WR_SEC)

/* The limit: where it begins, and the least it falls to, so that there is always something to measure. */
#define START 20.0
#define FLOOR 4.0
/* So much slower than unhurried is near enough. */
#define TOLERANCE 1.25
/* Of the way to where a window points. */
#define SMOOTHING 0.2
/* By half at most in one window. */
#define STEEPEST 0.5

/* Looks are frequent in the beginning, when what is known is what the first window happened to see. */
#define LOOK_FIRST (1 * WR_SEC)
#define LOOK_SELDOM (16 * WR_SEC)
/* Long ones in flight are not waited for. */
#define EBB_MOST (1 * WR_SEC)
#define LOOK_MOST (5 * WR_SEC)

static double between(double x, double least, double most)
{
    x = x < most ? x : most;
    return x > least ? x : least;
}

static double bounded(const struct wr_gradient *gradient, double limit)
{
    double floor = gradient->ceiling < FLOOR ? gradient->ceiling : FLOOR;
    return between(limit, floor, gradient->ceiling);
}

void wr_gradient_init(struct wr_gradient *gradient, uint32_t ceiling)
{
    *gradient =
        (struct wr_gradient){.ceiling = ceiling, .look_due = WR_NEVER, .look_every = LOOK_FIRST};
    gradient->limit = bounded(gradient, START);
}

uint32_t wr_gradient_limit(const struct wr_gradient *gradient)
{
    bool looking = gradient->look != WR_LOOK_NONE;
    return (uint32_t)bounded(gradient, looking ? gradient->look_limit : gradient->limit);
}

/* ---- windows ---- */

static void close_window(struct wr_gradient *gradient)
{
    gradient->samples = 0;
    gradient->sum = 0;
    gradient->busiest = 0;
}

static double latency_of(const struct wr_gradient *gradient)
{
    return gradient->sum / gradient->samples;
}

static bool is_complete(const struct wr_gradient *gradient, uint64_t now)
{
    if (gradient->samples < SAMPLES)
        return false;
    double open = (double)wr_time_since(gradient->opened, now);
    return open >= (double)WINDOW && open >= latency_of(gradient);
}

static bool is_stale(const struct wr_gradient *gradient, uint64_t now)
{
    return gradient->samples > 0 && gradient->samples < SAMPLES &&
           wr_time_since(gradient->opened, now) > WINDOW_MOST;
}

/* Unhurried it is not much slower than under pressure, or the service has become quicker since the last look. */
static void correct(struct wr_gradient *gradient)
{
    double most = TOLERANCE * latency_of(gradient);
    if (gradient->unhurried > most)
        gradient->unhurried = most;
}

/* What nobody needs is not moved: a limit that half would do for says nothing about the latency. */
static void move(struct wr_gradient *gradient)
{
    if (2.0 * gradient->busiest < gradient->limit)
        return;
    double slope = between(TOLERANCE * gradient->unhurried / latency_of(gradient), STEEPEST, 1.0);
    double headroom = 2.0 + gradient->limit / 8.0;
    double target = gradient->limit * slope + headroom;
    gradient->limit = bounded(gradient, gradient->limit + SMOOTHING * (target - gradient->limit));
}

/* ---- looks ---- */

static void plan_look(struct wr_gradient *gradient, uint64_t now)
{
    gradient->limit_at_look = gradient->limit;
    gradient->look_due = wr_time_add(now, gradient->look_every);
    if (gradient->look_every < LOOK_SELDOM)
        gradient->look_every *= 2;
}

/* A limit that has fallen by half since the last one was taken may have fallen for a service that has become another. */
static bool is_look_due(const struct wr_gradient *gradient, uint64_t now)
{
    return gradient->unhurried > 0 &&
           (now >= gradient->look_due || 2.0 * gradient->limit < gradient->limit_at_look);
}

/* Half of what is in flight when the limit is in use, else half of the limit, which then is in nobody's way. */
static void begin_look(struct wr_gradient *gradient, uint32_t in_flight, uint64_t now)
{
    bool in_use = 2.0 * in_flight >= gradient->limit;
    gradient->look_limit = (in_use ? between(in_flight, 0, gradient->limit) : gradient->limit) / 2;
    gradient->look = WR_LOOK_EBBING;
    gradient->look_began = now;
    close_window(gradient);
}

/* Long ones are not waited for, but they are not to keep out those that are to be measured: a few are let in beside them. */
static void begin_measuring(struct wr_gradient *gradient, uint32_t in_flight, uint64_t now)
{
    if (in_flight > wr_gradient_limit(gradient))
        gradient->look_limit = between(in_flight + FLOOR, 0, gradient->limit);
    gradient->look = WR_LOOK_MEASURING;
    gradient->look_began = now;
    close_window(gradient);
}

static void end_look(struct wr_gradient *gradient, uint64_t now)
{
    gradient->look = WR_LOOK_NONE;
    close_window(gradient);
    plan_look(gradient, now);
}

/* ---- what the owner tells ---- */

static void learn(struct wr_gradient *gradient)
{
    double seen = latency_of(gradient);
    gradient->unhurried = gradient->unhurried > 0 ? (gradient->unhurried + seen) / 2 : seen;
}

static void go_on_looking(struct wr_gradient *gradient, uint32_t in_flight, uint64_t now)
{
    uint64_t since = wr_time_since(gradient->look_began, now);
    if (gradient->look == WR_LOOK_EBBING) {
        if (in_flight <= wr_gradient_limit(gradient) || since >= EBB_MOST)
            begin_measuring(gradient, in_flight, now);
        return;
    }
    bool complete = is_complete(gradient, now);
    if (complete)
        learn(gradient);
    if (complete || since >= LOOK_MOST)
        end_look(gradient, now);
}

static void go_on(struct wr_gradient *gradient, uint32_t in_flight, uint64_t now)
{
    if (is_look_due(gradient, now)) {
        begin_look(gradient, in_flight, now);
        return;
    }
    if (!is_complete(gradient, now))
        return;
    if (gradient->unhurried > 0) {
        correct(gradient);
        move(gradient);
    } else {
        learn(gradient);
        plan_look(gradient, now);
    }
    close_window(gradient);
}

uint64_t wr_gradient_look_ends(const struct wr_gradient *gradient)
{
    switch (gradient->look) {
    case WR_LOOK_EBBING:
        return wr_time_add(gradient->look_began, EBB_MOST);
    case WR_LOOK_MEASURING:
        return wr_time_add(gradient->look_began, LOOK_MOST);
    case WR_LOOK_NONE:
        break;
    }
    return WR_NEVER;
}

void wr_gradient_note(struct wr_gradient *gradient, uint32_t in_flight)
{
    if (in_flight > gradient->busiest)
        gradient->busiest = in_flight;
}

void wr_gradient_turn(struct wr_gradient *gradient, uint32_t in_flight, uint64_t now)
{
    /* A clock that stepped back does not put looks off for longer. */
    if (gradient->look_due != WR_NEVER && gradient->look_due > wr_time_add(now, LOOK_SELDOM))
        gradient->look_due = wr_time_add(now, LOOK_SELDOM);
    if (gradient->look_began > now)
        gradient->look_began = now;
    if (is_stale(gradient, now))
        close_window(gradient);
    wr_gradient_note(gradient, in_flight);
    if (gradient->look == WR_LOOK_NONE)
        go_on(gradient, in_flight, now);
    else
        go_on_looking(gradient, in_flight, now);
}

void wr_gradient_observe(struct wr_gradient *gradient, uint64_t latency, bool answered,
                         uint64_t began, uint64_t now)
{
    if (!answered && (double)latency <= gradient->unhurried)
        return;
    if (gradient->look == WR_LOOK_EBBING ||
        (gradient->look == WR_LOOK_MEASURING && began < gradient->look_began))
        return;
    if (gradient->samples == 0)
        gradient->opened = now;
    gradient->samples++;
    gradient->sum += (double)latency;
}
