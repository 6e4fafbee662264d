/* Token buckets: what a peer may make us do for nothing (codec/h2.h). Pure; the caller brings the time. */
#ifndef WR_CODEC_H2_BUDGET_H
#define WR_CODEC_H2_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#include "codec/h2.h"

struct wr_h2_bucket {
    uint64_t spent; /* in millionths of a token: with microseconds, per_second counts these */
    uint64_t at;    /* when that was so */
};

/* Spends one token at NOW (microseconds); false: none was left. A cleared bucket is full. */
bool wr_h2_bucket_spend(struct wr_h2_bucket *bucket, const struct wr_h2_budget *budget,
                        uint64_t now);
/* Gives back up to COUNT tokens. */
void wr_h2_bucket_refund(struct wr_h2_bucket *bucket, unsigned count);

#endif
