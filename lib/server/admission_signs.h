/* What can be concluded from the facts of a listener, each a question with a yes or no, or a number. Pure. A yes is certain enough to be
 * told to someone who will act on it: what the numbers do not support is a no. */
#ifndef WR_SERVER_ADMISSION_SIGNS_H
#define WR_SERVER_ADMISSION_SIGNS_H

#include "server/admission_watch.h"

enum wr_admission_state {
    WR_ADMISSION_DRAINING,
    WR_ADMISSION_REFUSING,  /* in the last second */
    WR_ADMISSION_REFUSED,   /* in the last ten seconds, not in the last one */
    WR_ADMISSION_UNCOUNTED, /* weir refuses nobody, but the kernel drops attempts */
    WR_ADMISSION_IDLE,
    WR_ADMISSION_SERVING,
};
enum wr_admission_state wr_signs_state(const struct wr_admission_view *view);

/* ---- numbers ---- */

/* Handshakes that were asked for: finished, failed, or refused by the controller. */
uint64_t wr_signs_wanted(const struct wr_admission_counts *counts);
uint64_t wr_signs_finished(const struct wr_admission_counts *counts);
/* Processor time of one of the handshakes that finish here, as they are mixed; 0: not known. */
uint64_t wr_signs_cost(const struct wr_admission_view *view);
/* Of those a worker can do so many a second at most; 0: not known. */
uint64_t wr_signs_capacity(const struct wr_admission_view *view);
/* Asked for, a second and worker, in COUNTS of VIEW. */
uint64_t wr_signs_demand(const struct wr_admission_view *view,
                         const struct wr_admission_counts *counts);
/* Finished, a second and worker. */
uint64_t wr_signs_done(const struct wr_admission_view *view);
/* From accept to finished, of those that finished in the last second. */
uint64_t wr_signs_mean_duration(const struct wr_admission_view *view);
/* Little's law, a worker: so many are pending when all that are asked for take as long as those that finish now. */
uint64_t wr_signs_slots_needed(const struct wr_admission_view *view);
/* Of a worker, for trusted peers only; 0: none, or no such number. */
uint64_t wr_signs_reserve(const struct wr_admission_view *view);
/* Of a worker, that one source may hold; WR_NEVER: no such number. */
uint64_t wr_signs_share_slots(const struct wr_admission_view *view);

/* ---- the configuration ---- */

bool wr_signs_limit_is_zero(const struct wr_admission_view *view);
bool wr_signs_limit_is_number(const struct wr_admission_view *view); /* and not 0 */
bool wr_signs_is_adaptive(const struct wr_admission_view *view);
bool wr_signs_has_reserve(const struct wr_admission_view *view);
bool wr_signs_groups_addresses(const struct wr_admission_view *view); /* into sources */
bool wr_signs_share_is_small(const struct wr_admission_view *view);
bool wr_signs_denies(const struct wr_admission_view *view);
bool wr_signs_allows(const struct wr_admission_view *view);
bool wr_signs_is_logged(const struct wr_admission_view *view);

/* ---- what is short ---- */

bool wr_signs_queue_stands(const struct wr_admission_view *view); /* just now */
/* Not the opposite: a wait may be too long before the controller has had its turn to see it. */
bool wr_signs_queue_is_over(const struct wr_admission_view *view);
/* Handshakes need not wait for the processor: it is not what is short. */
bool wr_signs_waits_are_short(const struct wr_admission_view *view);
bool wr_signs_cost_is_known(const struct wr_admission_view *view);
/* More is asked for than the processor could do if it did nothing else. */
bool wr_signs_demand_exceeds(const struct wr_admission_view *view);
/* And less than half of what it could do is done: the rest of its time is not spent on those that finish. */
bool wr_signs_time_goes_elsewhere(const struct wr_admission_view *view);
/* Handshakes wait, and have done for a while, though a good deal fewer are asked for than the processor could do. */
bool wr_signs_other_work_holds_up(const struct wr_admission_view *view);
bool wr_signs_processor_is_short(const struct wr_admission_view *view);
/* Slots are held by clients that do not go on. */
bool wr_signs_clients_stall(const struct wr_admission_view *view);
/* Slots are held by clients that go on, but whose answers take their time. */
bool wr_signs_clients_are_far(const struct wr_admission_view *view);

/* ---- what would help the processor ---- */

bool wr_signs_has_cores_left(const struct wr_admission_view *view);
bool wr_signs_is_rsa(const struct wr_admission_view *view); /* and that is what costs */
bool wr_signs_tickets_are_off(const struct wr_admission_view *view);
bool wr_signs_few_resume(const struct wr_admission_view *view);
bool wr_signs_claims_are_false(const struct wr_admission_view *view); /* most of them */

/* ---- connections ---- */

bool wr_signs_connections_are_full(const struct wr_admission_view *view);
bool wr_signs_silent_are_full(const struct wr_admission_view *view);
bool wr_signs_neither_is_full(const struct wr_admission_view *view);
bool wr_signs_most_are_idle(const struct wr_admission_view *view);
bool wr_signs_accepting_paused(const struct wr_admission_view *view);
/* weir takes connections from the kernel no faster than refusing them may cost. */
bool wr_signs_refusing_rests(const struct wr_admission_view *view);
bool wr_signs_refusing_does_not_rest(const struct wr_admission_view *view);

#endif
