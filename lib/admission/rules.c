#include "admission/rules.h"

#include "base/compiler.h"

/* Per cent that full handshakes keep beside resumed ones, of the processor time and of the backlog: after ticket keys were lost
 * everyone is full, whatever they claim. */
#define FULL_FLOOR 25

static uint32_t part_of(uint32_t whole, uint32_t per_cent)
{
    return (uint32_t)((uint64_t)whole * per_cent / 100);
}

static struct wr_ticket *front(const struct wr_list *lane)
{
    return wr_list_empty(lane) ? NULL : WR_CONTAINER_OF(lane->next, struct wr_ticket, link);
}

static struct wr_ticket *back(const struct wr_list *lane)
{
    return wr_list_empty(lane) ? NULL : WR_CONTAINER_OF(lane->prev, struct wr_ticket, link);
}

/* ---- who gets a slot ---- */

static uint32_t limit_by_count(const struct wr_admission *admission)
{
    return admission->options.mode == WR_ADMISSION_ADAPTIVE
               ? admission->adaptive.limit
               : admission->options.max_pending_handshakes;
}

/* While the queue stands nobody is let in who could not be served in time. */
uint32_t wr_rules_limit(const struct wr_admission *admission)
{
    uint32_t limit = limit_by_count(admission);
    if (!admission->delay.exceeded)
        return limit;
    uint32_t in_time = admission->handshaking_count + wr_delay_room(&admission->delay);
    return in_time < limit ? in_time : limit;
}

enum wr_refusal_cause wr_rules_cause_of_full(const struct wr_admission *admission)
{
    return wr_rules_limit(admission) < limit_by_count(admission) ? WR_CAUSE_DELAY
                                                                 : WR_CAUSE_BACKLOG;
}

/* Slots that only trusted ones get; a reserve that is the whole limit would be another way to refuse everyone. */
static uint32_t reserve_within(const struct wr_admission *admission, uint32_t limit)
{
    uint32_t reserve = admission->options.trusted_reserve;
    return reserve < limit / 2 ? reserve : limit / 2;
}

bool wr_rules_is_full(const struct wr_admission *admission, bool trusted)
{
    uint32_t limit = wr_rules_limit(admission);
    if (limit == WR_ADMISSION_NO_LIMIT)
        return false;
    if (wr_admission_pending(admission) >= limit)
        return true;
    return !trusted && admission->untrusted_pending >= limit - reserve_within(admission, limit);
}

bool wr_rules_holds_its_share(const struct wr_admission *admission,
                              const struct wr_admission_source *source)
{
    uint32_t limit = wr_rules_limit(admission);
    uint32_t share = admission->options.max_source_share;
    if (source->trusted || share >= 100 || limit == WR_ADMISSION_NO_LIMIT ||
        wr_admission_pending(admission) < limit - limit / 2)
        return false;
    uint32_t slots = part_of(limit, share);
    return wr_sources_count(admission->sources, source->key) >= (slots > 0 ? slots : 1);
}

/* ---- what it is taken for ---- */

/* Who could not do what it claimed is not believed for a while. */
enum wr_handshake_class wr_rules_class(const struct wr_admission *admission,
                                       const struct wr_admission_source *source,
                                       enum wr_handshake_class claimed, uint64_t now)
{
    if (source->trusted)
        return WR_CLASS_TRUSTED;
    if (claimed == WR_CLASS_RESUME && !wr_sources_believes(admission->sources, source->key, now))
        return WR_CLASS_FULL;
    return claimed;
}

enum wr_lane wr_rules_lane(const struct wr_admission *admission, enum wr_handshake_class class)
{
    if (class == WR_CLASS_TRUSTED)
        return WR_LANE_TRUSTED;
    bool first = class == WR_CLASS_RESUME && admission->options.resumption_first;
    return first ? WR_LANE_RESUME : WR_LANE_FULL;
}

/* No cryptography was spent on a waiter: ten resumed handshakes are worth more than it. The one that would be served last. */
struct wr_ticket *wr_rules_giving_way(const struct wr_admission *admission,
                                      enum wr_handshake_class class)
{
    uint32_t floor = part_of(wr_rules_limit(admission), FULL_FLOOR);
    if (wr_rules_lane(admission, class) != WR_LANE_RESUME ||
        admission->lane_count[WR_LANE_FULL] <= floor)
        return NULL;
    const struct wr_list *lane = &admission->lanes[WR_LANE_FULL];
    return admission->delay.exceeded && admission->options.newest_first ? front(lane) : back(lane);
}

/* ---- who goes next ---- */

/* First come, first served while the queue is short. When it is not, the one that came last is the one that will still be there. */
static struct wr_ticket *next_in(const struct wr_admission *admission, enum wr_lane lane)
{
    const struct wr_list *list = &admission->lanes[lane];
    return admission->delay.exceeded && admission->options.newest_first ? back(list) : front(list);
}

struct wr_ticket *wr_rules_next(const struct wr_admission *admission)
{
    struct wr_ticket *full = next_in(admission, WR_LANE_FULL);
    if (full != NULL && admission->owed >= (int64_t)wr_budget_cost(&admission->budget, full->class))
        return full;
    for (enum wr_lane lane = WR_LANE_TRUSTED; lane < WR_LANE_FULL; lane++) {
        struct wr_ticket *ticket = next_in(admission, lane);
        if (ticket != NULL)
            return ticket;
    }
    return full;
}

/* For what goes before them, those who stand in the slow lane have their floor coming; a debt to nobody is forgotten. */
void wr_rules_settle_lanes(struct wr_admission *admission, const struct wr_ticket *ticket,
                           uint32_t cost)
{
    if (wr_rules_lane(admission, ticket->class) != WR_LANE_FULL)
        admission->owed += (int64_t)cost * FULL_FLOOR / (100 - FULL_FLOOR);
    else
        admission->owed -= cost;
    if (admission->owed < 0 || admission->lane_count[WR_LANE_FULL] == 0)
        admission->owed = 0;
}

/* ---- who waits too long ---- */

struct wr_ticket *wr_rules_expired(const struct wr_admission *admission, uint64_t now)
{
    if (!admission->delay.exceeded)
        return NULL;
    for (enum wr_lane lane = 0; lane < WR_LANE__COUNT; lane++) {
        struct wr_ticket *ticket = front(&admission->lanes[lane]);
        if (ticket != NULL && wr_time_since(ticket->queued, now) > admission->options.max_delay)
            return ticket;
    }
    return NULL;
}

uint64_t wr_rules_oldest_wait(const struct wr_admission *admission, uint64_t now)
{
    uint64_t oldest = 0;
    for (enum wr_lane lane = 0; lane < WR_LANE__COUNT; lane++) {
        const struct wr_ticket *ticket = front(&admission->lanes[lane]);
        uint64_t waited = ticket != NULL ? wr_time_since(ticket->queued, now) : 0;
        if (waited > oldest)
            oldest = waited;
    }
    return oldest;
}
