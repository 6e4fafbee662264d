#include "upstream/budget.h"

#include "base/time.h"

static unsigned slot_of(uint64_t second)
{
    return (unsigned)(second % WR_RETRY_BUDGET_SECONDS);
}

/* Forgets the seconds that have left the window. */
static unsigned roll(struct wr_retry_budget *budget, uint64_t now)
{
    uint64_t second = now / WR_SEC;
    uint64_t steps = second > budget->second ? second - budget->second : 0;
    if (steps > WR_RETRY_BUDGET_SECONDS)
        steps = WR_RETRY_BUDGET_SECONDS;
    for (; steps > 0; steps--) {
        unsigned slot = slot_of(second - steps + 1);
        budget->request_sum -= budget->requests[slot];
        budget->retry_sum -= budget->retries[slot];
        budget->requests[slot] = 0;
        budget->retries[slot] = 0;
    }
    if (second > budget->second)
        budget->second = second;
    return slot_of(budget->second);
}

void wr_retry_budget_request(struct wr_retry_budget *budget, uint64_t now)
{
    budget->requests[roll(budget, now)]++;
    budget->request_sum++;
}

bool wr_retry_budget_take(struct wr_retry_budget *budget, uint32_t percent, uint64_t now)
{
    unsigned slot = roll(budget, now);
    if (percent == 0)
        return false;
    bool free_one = budget->retries[slot] < WR_RETRY_BUDGET_FREE;
    if (!free_one && (budget->retry_sum + 1) * 100 > budget->request_sum * percent)
        return false;
    budget->retries[slot]++;
    budget->retry_sum++;
    return true;
}
