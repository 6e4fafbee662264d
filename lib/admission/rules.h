/* The rules themselves, each a question with a yes or no, and the controller's state that they look at. For lib/admission only. */
#ifndef WR_ADMISSION_RULES_H
#define WR_ADMISSION_RULES_H

#include "admission/adaptive.h"
#include "admission/admission.h"
#include "admission/budget.h"
#include "admission/delay.h"
#include "admission/sources.h"

/* Waiters stand in lanes; in a lane the one that came first is in front. */
enum wr_lane { WR_LANE_TRUSTED, WR_LANE_RESUME, WR_LANE_FULL, WR_LANE__COUNT };

struct wr_admission {
    struct wr_admission_options options;
    const struct wr_admission_events *events;
    void *owner;
    struct wr_list silent; /* oldest first */
    struct wr_list lanes[WR_LANE__COUNT];
    uint32_t lane_count[WR_LANE__COUNT];
    uint32_t silent_count;
    uint32_t waiting_count;
    uint32_t handshaking_count;
    uint32_t untrusted_pending;
    uint32_t pending_peak;
    uint64_t busy_since; /* the backlog was empty before; of no meaning while it is */
    int64_t owed; /* microseconds that full handshakes have coming, for those that went before */
    struct wr_handshake_budget budget;
    struct wr_delay delay;
    struct wr_adaptive_limit adaptive;
    struct wr_sources *sources;
};

static inline uint32_t wr_admission_pending(const struct wr_admission *admission)
{
    return admission->waiting_count + admission->handshaking_count;
}

/* Rules 1 and 2: how many may be pending as of now. */
uint32_t wr_rules_limit(const struct wr_admission *admission);
/* Which of the two it is that has no slot left. */
enum wr_refusal_cause wr_rules_cause_of_full(const struct wr_admission *admission);
/* Rules 1 and 7: whether the backlog has no slot left for one who is TRUSTED or not. */
bool wr_rules_is_full(const struct wr_admission *admission, bool trusted);
/* Rule 6: whether SOURCE holds its share of a backlog that is half full. */
bool wr_rules_holds_its_share(const struct wr_admission *admission,
                              const struct wr_admission_source *source);
/* Rules 5 and 7: what one that claims CLAIMED is taken for. */
enum wr_handshake_class wr_rules_class(const struct wr_admission *admission,
                                       const struct wr_admission_source *source,
                                       enum wr_handshake_class claimed, uint64_t now);
enum wr_lane wr_rules_lane(const struct wr_admission *admission, enum wr_handshake_class class);
/* Rule 5: whoever gives way to one of CLASS when the backlog is full; NULL: nobody. */
struct wr_ticket *wr_rules_giving_way(const struct wr_admission *admission,
                                      enum wr_handshake_class class);
/* Rules 3, 5 and 7: who goes next; NULL: nobody waits. */
struct wr_ticket *wr_rules_next(const struct wr_admission *admission);
/* Rule 5: TICKET goes, at COST. */
void wr_rules_settle_lanes(struct wr_admission *admission, const struct wr_ticket *ticket,
                           uint32_t cost);
/* Rules 2 and 3: one that has waited for longer than it may, when the delay is exceeded; NULL: nobody. */
struct wr_ticket *wr_rules_expired(const struct wr_admission *admission, uint64_t now);
/* Microseconds that the longest waiter has waited. */
uint64_t wr_rules_oldest_wait(const struct wr_admission *admission, uint64_t now);

#endif
