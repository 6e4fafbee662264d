#include "admission/refusing.h"

#include "base/time.h"

#define HUNDREDTHS 100
#define FIRST_GUESS (12 * HUNDREDTHS)
/* Of the mean, in which so many refusals have a say. */
#define WEIGHT 16
/* Refusals that can be saved up: few enough that the rest which saves them is shorter than it takes to serve a backlog. */
#define AT_ONCE 4
/* A rest is no longer, whatever the debt. */
#define MOST_REST (50 * WR_MSEC)

void wr_refusing_init(struct wr_refusing *refusing, uint32_t share)
{
    *refusing = (struct wr_refusing){
        .share = share > 0 ? share : 1,
        .cost = FIRST_GUESS,
        .turn = UINT64_MAX,
    };
}

/* Between two refusals of a turn lies the second one, and now and then something else: so none counts for more than twice the mean. */
static void learn_cost(struct wr_refusing *refusing, uint64_t between)
{
    uint64_t most = 2 * (uint64_t)refusing->cost / HUNDREDTHS + 1;
    uint32_t cost = (uint32_t)(between < most ? between : most) * HUNDREDTHS;
    refusing->cost = (refusing->cost * (WEIGHT - 1) + cost) / WEIGHT;
    if (refusing->cost < HUNDREDTHS)
        refusing->cost = HUNDREDTHS;
}

static void pay(struct wr_refusing *refusing, uint64_t since)
{
    int64_t saved = -(int64_t)refusing->cost * AT_ONCE;
    int64_t earned = (int64_t)(since < WR_SEC ? since : WR_SEC) * refusing->share;
    refusing->debt -= earned;
    if (refusing->debt < saved)
        refusing->debt = saved;
}

bool wr_refusing_note(struct wr_refusing *refusing, uint64_t turn, uint64_t now, uint64_t *rest)
{
    if (refusing->share >= 100)
        return false;
    uint64_t since = wr_time_since(refusing->last, now);
    if (refusing->turn == turn)
        learn_cost(refusing, since);
    pay(refusing, since);
    refusing->turn = turn;
    refusing->last = now;
    refusing->debt += refusing->cost;
    if (refusing->debt <= 0)
        return false;
    uint64_t most = MOST_REST * refusing->share;
    if (refusing->debt > (int64_t)most)
        refusing->debt = (int64_t)most;
    *rest = ((uint64_t)refusing->debt + (uint64_t)refusing->cost * AT_ONCE) / refusing->share;
    return true;
}
