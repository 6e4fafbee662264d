#include "server/admission_signs.h"

#include "base/compiler.h"
#include "base/time.h"

/* What a wait is held against when no limit is configured: the default of max_handshake_delay. */
#define USUAL_DELAY (100 * WR_MSEC)
/* With fewer handshakes in ten seconds nothing is said about all of them. */
#define ENOUGH 100
/* A backlog that was never empty for so long is not a burst that has just come. */
#define LASTING (3 * WR_SEC)
#define SMALL_SHARE 4 /* slots */

static const struct wr_admission_options *controller(const struct wr_admission_view *view)
{
    return &view->options->admission;
}

static uint64_t a_second(uint64_t n, uint64_t usec)
{
    return usec > 0 ? n * WR_SEC / usec : 0;
}

enum wr_admission_state wr_signs_state(const struct wr_admission_view *view)
{
    if (view->draining)
        return WR_ADMISSION_DRAINING;
    if (wr_admission_counts_refused(&view->last) > 0)
        return WR_ADMISSION_REFUSING;
    if (wr_admission_counts_refused(&view->ten) > 0)
        return WR_ADMISSION_REFUSED;
    if (view->ten.dropped > 0)
        return WR_ADMISSION_UNCOUNTED;
    return view->ten.accepted == 0 ? WR_ADMISSION_IDLE : WR_ADMISSION_SERVING;
}

/* ---- numbers ---- */

uint64_t wr_signs_finished(const struct wr_admission_counts *counts)
{
    return counts->full + counts->resumed;
}

uint64_t wr_signs_wanted(const struct wr_admission_counts *counts)
{
    return wr_signs_finished(counts) + counts->failed +
           counts->refused[WR_REFUSAL_TOO_MANY_HANDSHAKES];
}

static uint64_t spent_on_full(const struct wr_admission_view *view)
{
    return view->ten.full * view->now.cost_full_most;
}

static uint64_t spent_on_resumed(const struct wr_admission_view *view)
{
    return view->ten.resumed * view->now.cost_resumed_most;
}

uint64_t wr_signs_cost(const struct wr_admission_view *view)
{
    uint64_t finished = wr_signs_finished(&view->ten);
    bool unknown = (view->ten.full > 0 && view->now.cost_full_most == 0) ||
                   (view->ten.resumed > 0 && view->now.cost_resumed_most == 0);
    if (finished == 0 || unknown)
        return 0;
    return (spent_on_full(view) + spent_on_resumed(view)) / finished;
}

uint64_t wr_signs_capacity(const struct wr_admission_view *view)
{
    uint64_t cost = wr_signs_cost(view);
    return cost > 0 ? WR_SEC / cost : 0;
}

uint64_t wr_signs_demand(const struct wr_admission_view *view,
                         const struct wr_admission_counts *counts)
{
    return a_second(wr_signs_wanted(counts), counts->usec) / view->workers;
}

uint64_t wr_signs_done(const struct wr_admission_view *view)
{
    return a_second(wr_signs_finished(&view->ten), view->ten.usec) / view->workers;
}

uint64_t wr_signs_mean_duration(const struct wr_admission_view *view)
{
    uint64_t finished = wr_signs_finished(&view->last);
    return finished > 0 ? view->last.took_usec / finished : 0;
}

uint64_t wr_signs_slots_needed(const struct wr_admission_view *view)
{
    uint64_t a_worker = wr_signs_wanted(&view->last) / view->workers;
    return view->last.usec > 0 ? a_worker * wr_signs_mean_duration(view) / view->last.usec : 0;
}

static bool limit_is_fixed(const struct wr_admission_view *view)
{
    return wr_signs_limit_is_number(view) && controller(view)->mode == WR_ADMISSION_FIXED;
}

uint64_t wr_signs_reserve(const struct wr_admission_view *view)
{
    uint32_t half = controller(view)->max_pending_handshakes / 2;
    uint32_t reserve = controller(view)->trusted_reserve;
    if (!limit_is_fixed(view))
        return 0;
    return reserve < half ? reserve : half;
}

uint64_t wr_signs_share_slots(const struct wr_admission_view *view)
{
    const struct wr_admission_options *options = controller(view);
    if (!limit_is_fixed(view))
        return WR_NEVER;
    uint64_t slots = (uint64_t)options->max_pending_handshakes * options->max_source_share / 100;
    return slots > 0 ? slots : 1;
}

/* ---- the configuration ---- */

bool wr_signs_limit_is_zero(const struct wr_admission_view *view)
{
    return controller(view)->max_pending_handshakes == 0;
}

bool wr_signs_limit_is_number(const struct wr_admission_view *view)
{
    uint32_t limit = controller(view)->max_pending_handshakes;
    return limit > 0 && limit != WR_ADMISSION_NO_LIMIT;
}

bool wr_signs_is_adaptive(const struct wr_admission_view *view)
{
    return controller(view)->mode == WR_ADMISSION_ADAPTIVE && !wr_signs_limit_is_zero(view);
}

bool wr_signs_has_reserve(const struct wr_admission_view *view)
{
    return wr_signs_reserve(view) > 0;
}

bool wr_signs_groups_addresses(const struct wr_admission_view *view)
{
    return view->options->access.source_bits_ipv4 < 32;
}

bool wr_signs_share_is_small(const struct wr_admission_view *view)
{
    return wr_signs_share_slots(view) < SMALL_SHARE;
}

bool wr_signs_denies(const struct wr_admission_view *view)
{
    return view->options->access.deny_count > 0;
}

bool wr_signs_allows(const struct wr_admission_view *view)
{
    return view->options->access.allow_count > 0;
}

bool wr_signs_is_logged(const struct wr_admission_view *view)
{
    return view->access_log;
}

/* ---- what is short ---- */

static uint64_t target(const struct wr_admission_view *view)
{
    uint64_t delay = controller(view)->max_delay;
    return delay == WR_NEVER ? USUAL_DELAY : delay;
}

bool wr_signs_queue_stands(const struct wr_admission_view *view)
{
    return view->now.delayed > 0;
}

bool wr_signs_queue_is_over(const struct wr_admission_view *view)
{
    return view->now.delayed == 0 && view->now.wait_most < target(view);
}

static bool queue_stood(const struct wr_admission_view *view)
{
    return wr_signs_queue_stands(view) || view->last.by_cause[WR_CAUSE_DELAY] > 0;
}

bool wr_signs_waits_are_short(const struct wr_admission_view *view)
{
    return !queue_stood(view) && view->now.wait_most < target(view) / 2 &&
           wr_admission_quantile(view->last.waits, 900) <= target(view) / 2;
}

bool wr_signs_cost_is_known(const struct wr_admission_view *view)
{
    return wr_signs_capacity(view) > 0;
}

bool wr_signs_demand_exceeds(const struct wr_admission_view *view)
{
    return wr_signs_cost_is_known(view) &&
           wr_signs_demand(view, &view->ten) > wr_signs_capacity(view);
}

bool wr_signs_time_goes_elsewhere(const struct wr_admission_view *view)
{
    return wr_signs_demand_exceeds(view) && wr_signs_done(view) * 2 < wr_signs_capacity(view);
}

bool wr_signs_other_work_holds_up(const struct wr_admission_view *view)
{
    return queue_stood(view) && view->now.busy_most >= LASTING && wr_signs_cost_is_known(view) &&
           wr_signs_demand(view, &view->last) * 10 < wr_signs_capacity(view) * 7;
}

bool wr_signs_processor_is_short(const struct wr_admission_view *view)
{
    return queue_stood(view) || wr_signs_demand_exceeds(view);
}

/* Little's law: of those pending in the mean, so many finished. */
static uint64_t pending_that_finish(const struct wr_admission_view *view)
{
    return view->last.usec > 0 ? view->last.took_usec / view->last.usec : 0;
}

/* Who runs has been let go and its own turn is a moment: most of those are waited for. */
static bool clients_are_waited_for(const struct wr_admission_view *view)
{
    return view->now.running > 0 && view->now.running >= 2 * view->now.waiting &&
           wr_signs_waits_are_short(view) && view->last.usec >= WR_SEC;
}

bool wr_signs_clients_stall(const struct wr_admission_view *view)
{
    return clients_are_waited_for(view) && view->now.busy_most >= LASTING &&
           pending_that_finish(view) * 2 < view->now.running;
}

bool wr_signs_clients_are_far(const struct wr_admission_view *view)
{
    return clients_are_waited_for(view) && wr_signs_limit_is_number(view) &&
           pending_that_finish(view) * 2 >= view->now.running && !wr_signs_demand_exceeds(view) &&
           wr_signs_slots_needed(view) > controller(view)->max_pending_handshakes;
}

/* ---- what would help the processor ---- */

bool wr_signs_has_cores_left(const struct wr_admission_view *view)
{
    return view->workers < view->cores;
}

bool wr_signs_is_rsa(const struct wr_admission_view *view)
{
    return view->rsa && !view->signers && wr_signs_cost_is_known(view) &&
           spent_on_full(view) > spent_on_resumed(view);
}

bool wr_signs_tickets_are_off(const struct wr_admission_view *view)
{
    return view->tls && !view->tickets;
}

bool wr_signs_few_resume(const struct wr_admission_view *view)
{
    return view->tls && view->tickets && wr_signs_finished(&view->ten) >= ENOUGH &&
           view->ten.resumed * 10 < wr_signs_finished(&view->ten) &&
           !wr_signs_claims_are_false(view);
}

bool wr_signs_claims_are_false(const struct wr_admission_view *view)
{
    return wr_signs_finished(&view->ten) >= ENOUGH && view->ten.false_claims * 2 > view->ten.full;
}

/* ---- connections ---- */

static bool is_near(uint64_t n, uint32_t limit)
{
    return n >= limit - limit / 10;
}

bool wr_signs_connections_are_full(const struct wr_admission_view *view)
{
    return is_near(view->now.open_most, view->options->max_connections);
}

bool wr_signs_silent_are_full(const struct wr_admission_view *view)
{
    return view->tls && is_near(view->now.silent_most, controller(view)->max_silent);
}

bool wr_signs_neither_is_full(const struct wr_admission_view *view)
{
    return !wr_signs_connections_are_full(view) && !wr_signs_silent_are_full(view);
}

bool wr_signs_most_are_idle(const struct wr_admission_view *view)
{
    return wr_signs_connections_are_full(view) &&
           view->now.idle * 2 >
               view->now.served + view->now.silent + view->now.waiting + view->now.running;
}

bool wr_signs_accepting_paused(const struct wr_admission_view *view)
{
    return view->ten.paused > 0;
}

bool wr_signs_refusing_rests(const struct wr_admission_view *view)
{
    return view->tls && view->options->refusal_share < 100 &&
           view->ten.refused[WR_REFUSAL_TOO_MANY_HANDSHAKES] > 0;
}

bool wr_signs_refusing_does_not_rest(const struct wr_admission_view *view)
{
    return !wr_signs_refusing_rests(view);
}
