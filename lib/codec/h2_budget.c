#include "codec/h2_budget.h"

#define TOKEN UINT64_C(1000000)

static void refill(struct wr_h2_bucket *bucket, const struct wr_h2_budget *budget, uint64_t now)
{
    if (now <= bucket->at || budget->per_second == 0)
        return;
    uint64_t passed = now - bucket->at;
    bucket->at = now;
    bool full = passed > bucket->spent / budget->per_second;
    bucket->spent = full ? 0 : bucket->spent - passed * budget->per_second;
}

bool wr_h2_bucket_spend(struct wr_h2_bucket *bucket, const struct wr_h2_budget *budget,
                        uint64_t now)
{
    refill(bucket, budget, now);
    if (bucket->spent + TOKEN > budget->burst * TOKEN)
        return false;
    bucket->spent += TOKEN;
    return true;
}

void wr_h2_bucket_refund(struct wr_h2_bucket *bucket, unsigned count)
{
    uint64_t refund = count * TOKEN;
    bucket->spent = bucket->spent > refund ? bucket->spent - refund : 0;
}
