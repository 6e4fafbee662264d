/* The processor time that handshakes may have (rule 4 of the README), in microseconds rather than in handshakes: one costs
 * fifty times another. */
#ifndef WR_ADMISSION_BUDGET_H
#define WR_ADMISSION_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#include "admission/admission.h"

struct wr_handshake_budget {
    int64_t quantum; /* of every turn, however little else there is to do */
    uint32_t min_share;
    int64_t left; /* of this turn; below 0: more was spent than expected, the next turn pays */
    int64_t turn; /* what this turn began with, at most */
    uint64_t mean_cost[WR_CLASS__COUNT]; /* in sixteenths of a microsecond */
    uint32_t learned[WR_CLASS__COUNT];   /* measurements in that, until they are enough */
};

/* QUANTUM: microseconds a turn, WR_NEVER = no limit. MIN_SHARE: per cent of the time, below 100. */
void wr_budget_init(struct wr_handshake_budget *budget, uint64_t quantum, uint32_t min_share);
/* A new turn, in which OTHER microseconds went to everything else: handshakes get the quantum, or their share beside OTHER. */
void wr_budget_renew(struct wr_handshake_budget *budget, uint64_t other);
/* What a handshake of CLASS will cost, as far as anyone can know. */
uint32_t wr_budget_cost(const struct wr_handshake_budget *budget, enum wr_handshake_class class);
/* Whether that comes from measurements, and the first guess no longer has a say. */
bool wr_budget_is_measured(const struct wr_handshake_budget *budget, enum wr_handshake_class class);
bool wr_budget_allows(const struct wr_handshake_budget *budget, enum wr_handshake_class class);
void wr_budget_charge(struct wr_handshake_budget *budget, uint32_t cost);
/* Gives back what was CHARGED and pays what was SPENT: a claim to resume that was false costs as full. */
void wr_budget_settle(struct wr_handshake_budget *budget, uint32_t charged, uint64_t spent);
void wr_budget_learn(struct wr_handshake_budget *budget, enum wr_handshake_class class,
                     uint64_t spent);

#endif
