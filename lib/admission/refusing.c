#include "admission/refusing.h"

#include "base/time.h"

/* Few enough that the rest after them is shorter than it takes to serve a backlog. */
#define AT_ONCE 8

void wr_refusing_init(struct wr_refusing *refusing, uint32_t share)
{
    *refusing = (struct wr_refusing){.share = share > 0 ? share : 1};
}

bool wr_refusing_note(struct wr_refusing *refusing, uint64_t turn, uint64_t spent, uint64_t *rest)
{
    if (refusing->share >= 100)
        return false;
    if (refusing->count == 0 || refusing->turn != turn) {
        refusing->turn = turn;
        refusing->before = spent;
        refusing->count = 0;
    }
    if (++refusing->count < AT_ONCE)
        return false;
    refusing->count = 0;
    *rest = wr_time_since(refusing->before, spent) * (100 - refusing->share) / refusing->share;
    return true;
}
