#include "admission/budget.h"

#include "base/time.h"

/* A mean of the last 16 or so, in sixteenths of a microsecond so that small differences are not lost to rounding. */
#define MEAN_SPAN 16
/* After so many the first guess makes less than a fiftieth of the mean. */
#define ENOUGH (4 * MEAN_SPAN)
/* One measurement counts for no more: a handshake that was held up must not stop all others. */
#define COST_MOST (1 * WR_SEC)
/* "No budget" without an overflow when it is added to. */
#define BUDGET_MOST (INT64_MAX / 4)
/* A turn that was held up by something else does not become a turn of handshakes only. */
#define OTHER_MOST (100 * WR_MSEC)

/* Before anything was measured: RSA-2048 or P-256 on a slow core. */
static const uint32_t first_guess[WR_CLASS__COUNT] = {
    [WR_CLASS_UNKNOWN] = 350,
    [WR_CLASS_FULL] = 350,
    [WR_CLASS_RESUME] = 120,
    [WR_CLASS_TRUSTED] = 350,
};

void wr_budget_init(struct wr_handshake_budget *budget, uint64_t quantum, uint32_t min_share)
{
    *budget = (struct wr_handshake_budget){
        .quantum = quantum < BUDGET_MOST ? (int64_t)quantum : BUDGET_MOST,
        .min_share = min_share < 99 ? min_share : 99,
    };
    budget->turn = budget->quantum;
    budget->left = budget->quantum;
    for (unsigned i = 0; i < WR_CLASS__COUNT; i++)
        budget->mean_cost[i] = (uint64_t)first_guess[i] * MEAN_SPAN;
}

/* Debt is paid from the new turn, and what that does not cover is forgiven. */
void wr_budget_renew(struct wr_handshake_budget *budget, uint64_t other)
{
    uint64_t counted = other < OTHER_MOST ? other : OTHER_MOST;
    int64_t share = (int64_t)(counted * budget->min_share / (100 - budget->min_share));
    int64_t debt = budget->left < 0 ? -budget->left : 0;
    budget->turn = share > budget->quantum ? share : budget->quantum;
    budget->left = debt < budget->turn ? budget->turn - debt : 0;
}

uint32_t wr_budget_cost(const struct wr_handshake_budget *budget, enum wr_handshake_class class)
{
    return (uint32_t)(budget->mean_cost[class] / MEAN_SPAN);
}

bool wr_budget_is_measured(const struct wr_handshake_budget *budget, enum wr_handshake_class class)
{
    return budget->learned[class] >= ENOUGH;
}

bool wr_budget_allows(const struct wr_handshake_budget *budget, enum wr_handshake_class class)
{
    return (int64_t)wr_budget_cost(budget, class) <= budget->left;
}

void wr_budget_charge(struct wr_handshake_budget *budget, uint32_t cost)
{
    budget->left -= cost;
}

static uint64_t bounded(uint64_t cost)
{
    return cost < COST_MOST ? cost : COST_MOST;
}

void wr_budget_settle(struct wr_handshake_budget *budget, uint32_t charged, uint64_t spent)
{
    budget->left += (int64_t)charged - (int64_t)bounded(spent);
    if (budget->left > budget->turn)
        budget->left = budget->turn;
}

void wr_budget_learn(struct wr_handshake_budget *budget, enum wr_handshake_class class,
                     uint64_t spent)
{
    uint64_t *mean = &budget->mean_cost[class];
    *mean = *mean - *mean / MEAN_SPAN + bounded(spent);
    if (budget->learned[class] < ENOUGH)
        budget->learned[class]++;
}
