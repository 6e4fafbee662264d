/* Sentences on handshakes: the backlog, the processor, sources. */
#include "base/compiler.h"
#include "base/time.h"
#include "server/admission_sentences.h"
#include "server/figures.h"

#define COUNT(n) (wr_figure_count(n).text)
#define TIME(usec) (wr_figure_duration(usec).text)

static const struct wr_admission_options *controller(const struct wr_admission_view *view)
{
    return &view->options->admission;
}

/* ---- the backlog ---- */

WR_SAY_TEXT(limit_zero,
            "admission.max_pending_handshakes is 0, which refuses every handshake: any other "
            "value lets clients in.")

WR_SAY(limit_reached)
{
    (void)fprintf(
        out,
        "The backlog was full: admission.max_pending_handshakes lets %s be pending at once "
        "in a worker.",
        COUNT(controller(view)->max_pending_handshakes));
}

WR_SAY(limit_adapts)
{
    (void)fprintf(out,
                  "With admission.mode adaptive that is the ceiling of a limit that follows the "
                  "waits, %s over all workers just now; it rises by itself while waits are short.",
                  COUNT(view->now.limit));
}

WR_SAY(limit_reserved)
{
    (void)fprintf(
        out, "%s of these (admission.trusted_reserve) are for peers in admission.trusted only.",
        COUNT(wr_signs_reserve(view)));
}

WR_SAY(stalled)
{
    (void)fprintf(
        out,
        "%s handshakes are running, and few of them finish though none has to wait for the "
        "processor: their clients do not go on. timeouts.handshake (%s) ends such, so a "
        "shorter one frees the slots sooner; admission.max_share_per_source (%u %%) "
        "bounds those of one source.",
        COUNT(view->now.running), TIME(view->options->timeouts.handshake),
        controller(view)->max_source_share);
}

WR_SAY(far)
{
    (void)fprintf(
        out,
        "Handshakes need not wait for the processor, yet from accept to its end one takes %s: "
        "clients are far away and hold a slot meanwhile. For all that are asked for that makes "
        "some %s slots a worker (Little's law): raise admission.max_pending_handshakes above it.",
        TIME(wr_signs_mean_duration(view)), COUNT(wr_signs_slots_needed(view)));
}

/* ---- the processor ---- */

WR_SAY(delayed)
{
    (void)fprintf(
        out,
        "Handshakes waited longer than admission.max_handshake_delay (%s) for their turn; "
        "then only those are let in that can be served in that time.",
        TIME(controller(view)->max_delay));
}

WR_SAY(still_delayed)
{
    (void)fprintf(out, "That is so in %s of %u workers just now, where the longest has waited %s.",
                  COUNT(view->now.delayed), view->workers, TIME(view->now.wait_most));
}

WR_SAY_TEXT(no_longer_delayed, "Just now that is so in no worker.")

WR_SAY(capacity)
{
    (void)fprintf(out,
                  "A handshake costs %s of a worker's time here (full %s, resumed %s), so that a "
                  "worker can do %s a second at most; over the last %s, %s a second were asked for "
                  "in each.",
                  TIME(wr_signs_cost(view)),
                  view->now.cost_full_most > 0 ? TIME(view->now.cost_full_most) : "not known",
                  view->now.cost_resumed_most > 0 ? TIME(view->now.cost_resumed_most) : "not known",
                  COUNT(wr_signs_capacity(view)), TIME(view->ten.usec),
                  COUNT(wr_signs_demand(view, &view->ten)));
}

WR_SAY_TEXT(exceeded, "That is more than can be done, whatever the limits are.")

WR_SAY(little_done)
{
    (void)fprintf(out,
                  "No more than %s a second are done: the rest of the time goes to other things, "
                  "refusing among them (admission.refusal_share %u %%).",
                  COUNT(wr_signs_done(view)), view->options->refusal_share);
}

WR_SAY(busy_otherwise)
{
    (void)fprintf(
        out,
        "The %s a second that come just now would fit: the workers' time goes to something "
        "else, to requests, other listeners or other processes. Beside requests without "
        "end handshakes get admission.min_share (%u %%) of it.",
        COUNT(wr_signs_demand(view, &view->last)), controller(view)->min_share);
}

WR_SAY(cores)
{
    (void)fprintf(out, "weir has %u workers and may use %u cores: %s.", view->workers, view->cores,
                  wr_signs_has_cores_left(view) ? "raise workers" : "more of either would help");
}

WR_SAY_TEXT(use_ecdsa,
            "Most of that goes to full handshakes under RSA keys: an ECDSA certificate (P-256) "
            "costs about a fifth of RSA 2048.")
WR_SAY_TEXT(use_tickets,
            "Session tickets are off: with tls.tickets clients that come back can resume, at "
            "a part of the cost.")

WR_SAY(resume_more)
{
    (void)fprintf(
        out,
        "Of %s handshakes only %s resumed a session: clients that keep their tickets cost "
        "a part of it.",
        COUNT(wr_signs_finished(&view->ten)), COUNT(view->ten.resumed));
}

WR_SAY(claims_false)
{
    (void)fprintf(out,
                  "%s of %s full handshakes claimed a session that this process does not know: "
                  "tickets do not outlive a restart, and are not shared with other machines.",
                  COUNT(view->ten.false_claims), COUNT(view->ten.full));
}

/* ---- sources ---- */

WR_SAY(share_held)
{
    (void)fprintf(out,
                  "Half of the backlog was taken, and a source that held its share of it, "
                  "admission.max_share_per_source (%u %%), got no more.",
                  controller(view)->max_source_share);
}

WR_SAY(share_small)
{
    (void)fprintf(out,
                  "With admission.max_pending_handshakes at %s that is %s at once: a higher limit "
                  "makes it more.",
                  COUNT(controller(view)->max_pending_handshakes),
                  COUNT(wr_signs_share_slots(view)));
}

WR_SAY(sources_grouped)
{
    (void)fprintf(out,
                  "Addresses that share their first %u bits count as one source "
                  "(admission.source_bits_ipv4).",
                  view->options->access.source_bits_ipv4);
}

WR_SAY_TEXT(share_advice,
            "Where many clients come from one address, as from a load balancer, raise the "
            "share or name the address in admission.trusted.")
WR_SAY_TEXT(gave_way,
            "The backlog was full, and full handshakes that had cost nothing yet gave way to "
            "clients that claim a session, which cost a part (admission.resumption_first).")

/* ---- which are said together ---- */

static const struct wr_sentence backlog_sentences[] = {
    {wr_signs_limit_is_zero, limit_zero},
    {wr_signs_limit_is_number, limit_reached},
    {wr_signs_is_adaptive, limit_adapts},
    {wr_signs_has_reserve, limit_reserved},
};

static const struct wr_sentence slots_sentences[] = {
    {wr_signs_clients_stall, stalled},
    {wr_signs_clients_are_far, far},
};

static const struct wr_sentence delay_sentences[] = {
    {NULL, delayed},
    {wr_signs_queue_stands, still_delayed},
    {wr_signs_queue_is_over, no_longer_delayed},
};

static const struct wr_sentence processor_sentences[] = {
    {wr_signs_cost_is_known, capacity},
    {wr_signs_demand_exceeds, exceeded},
    {wr_signs_time_goes_elsewhere, little_done},
    {wr_signs_other_work_holds_up, busy_otherwise},
    {NULL, cores},
    {wr_signs_is_rsa, use_ecdsa},
    {wr_signs_tickets_are_off, use_tickets},
    {wr_signs_few_resume, resume_more},
    {wr_signs_claims_are_false, claims_false},
};

static const struct wr_sentence share_sentences[] = {
    {NULL, share_held},
    {wr_signs_share_is_small, share_small},
    {wr_signs_groups_addresses, sources_grouped},
    {NULL, share_advice},
};

const struct wr_words_part wr_words_on_backlog = WR_PART(NULL, backlog_sentences);
const struct wr_words_part wr_words_on_slots = WR_PART(NULL, slots_sentences);
const struct wr_words_part wr_words_on_delay = WR_PART(NULL, delay_sentences);
const struct wr_words_part wr_words_on_processor = WR_PART(NULL, processor_sentences);
const struct wr_words_part wr_words_on_share = WR_PART(NULL, share_sentences);
const struct wr_words_part wr_words_on_short_processor =
    WR_PART(wr_signs_processor_is_short, processor_sentences);
const struct wr_words_part wr_words_on_gave_way = WR_PART_OF_ONE(gave_way);
