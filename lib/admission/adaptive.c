#include "admission/adaptive.h"

#include "base/time.h"

#define WINDOW (100 * WR_MSEC)
/* Not so low that a few clients with long ways hold all of it. */
#define LEAST 8u
/* Where it begins when the ceiling is higher. */
#define START 1000u
/* The target when none was given. */
#define TARGET (50 * WR_MSEC)

static uint32_t at_most(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

void wr_adaptive_init(struct wr_adaptive_limit *adaptive, uint32_t ceiling, uint64_t target)
{
    *adaptive = (struct wr_adaptive_limit){
        .ceiling = ceiling,
        .start = at_most(ceiling, START),
        .target = target != WR_NEVER ? target : TARGET,
    };
    adaptive->limit = adaptive->start;
}

/* By half at most: one long turn of the loop is not yet a trend. */
static uint32_t lowered(const struct wr_adaptive_limit *adaptive)
{
    uint64_t fitting = adaptive->limit * adaptive->target / adaptive->worst_wait;
    uint64_t half = adaptive->limit / 2;
    uint64_t limit = fitting > half ? fitting : half;
    return limit > LEAST ? (uint32_t)limit : at_most(LEAST, adaptive->ceiling);
}

static uint32_t raised(uint32_t limit, uint32_t part, uint32_t most)
{
    uint64_t more = (uint64_t)limit + limit / part + 1;
    return more < most ? (uint32_t)more : most;
}

/* In peace no window need have been seen while it passed. */
static void creep_back(struct wr_adaptive_limit *adaptive, uint64_t windows)
{
    for (; windows > 0 && adaptive->limit < adaptive->start; windows--)
        adaptive->limit = raised(adaptive->limit, 8, adaptive->start);
}

static void move(struct wr_adaptive_limit *adaptive, uint64_t windows)
{
    if (adaptive->worst_wait > adaptive->target)
        adaptive->limit = lowered(adaptive);
    else if (adaptive->worst_wait > adaptive->target / 2)
        return;
    else if (adaptive->bound)
        adaptive->limit = raised(adaptive->limit, 4, adaptive->ceiling);
    else
        creep_back(adaptive, windows);
}

void wr_adaptive_observe(struct wr_adaptive_limit *adaptive, uint64_t wait, uint64_t now)
{
    if (wait > adaptive->worst_wait)
        adaptive->worst_wait = wait;
    /* A clock that stepped back begins anew. */
    bool began = adaptive->window_ends != 0 && now + WINDOW >= adaptive->window_ends;
    if (began && now < adaptive->window_ends)
        return;
    if (began)
        move(adaptive, 1 + (now - adaptive->window_ends) / WINDOW);
    adaptive->window_ends = wr_time_add(now, WINDOW);
    adaptive->worst_wait = 0;
    adaptive->bound = false;
}

void wr_adaptive_refused(struct wr_adaptive_limit *adaptive)
{
    adaptive->bound = true;
}
