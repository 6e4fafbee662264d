#include "server/admission_words.h"

#include <inttypes.h>

#include "base/assert.h"
#include "base/compiler.h"
#include "base/time.h"
#include "server/figures.h"

#define COUNT(n) (wr_figure_count(n).text)
#define TIME(usec) (wr_figure_duration(usec).text)

/* What is said when it is so; WHEN is NULL for what always is. */
struct sentence {
    bool (*when)(const struct wr_admission_view *view);
    void (*say)(FILE *out, const struct wr_admission_view *view);
};

#define SAY(name) static void name(FILE *out, const struct wr_admission_view *view)
/* One without a number. */
#define SAY_TEXT(name, text)    \
    SAY(name)                   \
    {                           \
        (void)view;             \
        (void)fputs(text, out); \
    }

static const struct wr_admission_options *controller(const struct wr_admission_view *view)
{
    return &view->options->admission;
}

/* ---- the backlog ---- */

SAY_TEXT(limit_zero,
         "admission.max_pending_handshakes is 0, which refuses every handshake: any other "
         "value lets clients in.")

SAY(limit_reached)
{
    (void)fprintf(
        out,
        "The backlog was full: admission.max_pending_handshakes lets %s be pending at once "
        "in a worker.",
        COUNT(controller(view)->max_pending_handshakes));
}

SAY(limit_adapts)
{
    (void)fprintf(out,
                  "With admission.mode adaptive that is the ceiling of a limit that follows the "
                  "waits, %s over all workers just now; it rises by itself while waits are short.",
                  COUNT(view->now.limit));
}

SAY(limit_reserved)
{
    (void)fprintf(
        out, "%s of these (admission.trusted_reserve) are for peers in admission.trusted only.",
        COUNT(wr_signs_reserve(view)));
}

SAY(stalled)
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

SAY(far)
{
    (void)fprintf(
        out,
        "Handshakes need not wait for the processor, yet from accept to its end one takes %s: "
        "clients are far away and hold a slot meanwhile. For all that are asked for that makes "
        "some %s slots a worker (Little's law): raise admission.max_pending_handshakes above it.",
        TIME(wr_signs_mean_duration(view)), COUNT(wr_signs_slots_needed(view)));
}

/* ---- the processor ---- */

SAY(delayed)
{
    (void)fprintf(
        out,
        "Handshakes waited longer than admission.max_handshake_delay (%s) for their turn; "
        "then only those are let in that can be served in that time.",
        TIME(controller(view)->max_delay));
}

SAY(still_delayed)
{
    (void)fprintf(out, "That is so in %s of %u workers just now, where the longest has waited %s.",
                  COUNT(view->now.delayed), view->workers, TIME(view->now.wait_most));
}

SAY_TEXT(no_longer_delayed, "Just now that is so in no worker.")

SAY(capacity)
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

SAY_TEXT(exceeded, "That is more than can be done, whatever the limits are.")

SAY(little_done)
{
    (void)fprintf(out,
                  "No more than %s a second are done: the rest of the time goes to other things, "
                  "refusing among them (admission.refusal_share %u %%).",
                  COUNT(wr_signs_done(view)), view->options->refusal_share);
}

SAY(busy_otherwise)
{
    (void)fprintf(
        out,
        "The %s a second that come just now would fit: the workers' time goes to something "
        "else, to requests, other listeners or other processes. Beside requests without "
        "end handshakes get admission.min_share (%u %%) of it.",
        COUNT(wr_signs_demand(view, &view->last)), controller(view)->min_share);
}

SAY(cores)
{
    (void)fprintf(out, "weir has %u workers and may use %u cores: %s.", view->workers, view->cores,
                  wr_signs_has_cores_left(view) ? "raise workers" : "more of either would help");
}

SAY_TEXT(use_ecdsa,
         "Most of that goes to full handshakes under RSA keys: an ECDSA certificate (P-256) "
         "costs about a fifth of RSA 2048.")
SAY_TEXT(use_tickets,
         "Session tickets are off: with tls.tickets clients that come back can resume, at "
         "a part of the cost.")

SAY(resume_more)
{
    (void)fprintf(
        out,
        "Of %s handshakes only %s resumed a session: clients that keep their tickets cost "
        "a part of it.",
        COUNT(wr_signs_finished(&view->ten)), COUNT(view->ten.resumed));
}

SAY(claims_false)
{
    (void)fprintf(out,
                  "%s of %s full handshakes claimed a session that this process does not know: "
                  "tickets do not outlive a restart, and are not shared with other machines.",
                  COUNT(view->ten.false_claims), COUNT(view->ten.full));
}

/* ---- sources ---- */

SAY(share_held)
{
    (void)fprintf(out,
                  "Half of the backlog was taken, and a source that held its share of it, "
                  "admission.max_share_per_source (%u %%), got no more.",
                  controller(view)->max_source_share);
}

SAY(share_small)
{
    (void)fprintf(out,
                  "With admission.max_pending_handshakes at %s that is %s at once: a higher limit "
                  "makes it more.",
                  COUNT(controller(view)->max_pending_handshakes),
                  COUNT(wr_signs_share_slots(view)));
}

SAY(sources_grouped)
{
    (void)fprintf(out,
                  "Addresses that share their first %u bits count as one source "
                  "(admission.source_bits_ipv4).",
                  view->options->access.source_bits_ipv4);
}

SAY_TEXT(share_advice,
         "Where many clients come from one address, as from a load balancer, raise the "
         "share or name the address in admission.trusted.")
SAY_TEXT(gave_way,
         "The backlog was full, and full handshakes that had cost nothing yet gave way to "
         "clients that claim a session, which cost a part (admission.resumption_first).")

static void say_rate(FILE *out, const char *name, const struct wr_rate *rate)
{
    if (rate->per_second > 0)
        (void)fprintf(out, " %s %s a second, %s at once;", name, COUNT(rate->per_second),
                      COUNT(rate->burst));
}

/* Whoever is refused for a rate, there is one. */
SAY(rates)
{
    const struct wr_access_options *access = &view->options->access;
    (void)fputs("More came than one of admission.rates allows a worker:", out);
    say_rate(out, "connections", &access->connections);
    say_rate(out, "connections_per_source", &access->connections_per_source);
    say_rate(out, "handshakes", &access->handshakes);
    say_rate(out, "handshakes_per_source", &access->handshakes_per_source);
    (void)fputs(" raise it, or name peers that are to have no rate in admission.trusted.", out);
}

SAY(denied)
{
    (void)fprintf(out, "Peers in admission.deny (%zu entries) are turned away.",
                  view->options->access.deny_count);
}

SAY(not_allowed)
{
    (void)fprintf(out, "Peers that are not in admission.allow (%zu entries) are turned away.",
                  view->options->access.allow_count);
}

SAY_TEXT(who_is_logged, "The access log has their addresses.")
SAY_TEXT(why_is_logged, "The access log says for each what was wrong.")

/* ---- connections and descriptors ---- */

SAY(connections_full)
{
    (void)fprintf(out,
                  "limits.connections lets %s be open in a worker, and %s are: raise it if memory "
                  "and descriptors allow.",
                  COUNT(view->options->max_connections), COUNT(view->now.open_most));
}

SAY(mostly_idle)
{
    (void)fprintf(out,
                  "Most of them, %s, are idle between requests: a shorter timeouts.keep_alive (%s) "
                  "frees them sooner.",
                  COUNT(view->now.idle), TIME(view->options->timeouts.keep_alive));
}

SAY(silent_full)
{
    (void)fprintf(out,
                  "admission.max_silent lets %s that have said nothing be open in a worker, and %s "
                  "are: the oldest are ended. timeouts.client_hello (%s) ends them in any case.",
                  COUNT(controller(view)->max_silent), COUNT(view->now.silent_most),
                  TIME(view->options->timeouts.client_hello));
}

SAY(connections_were_full)
{
    (void)fprintf(out, "limits.connections (%s a worker)", COUNT(view->options->max_connections));
    if (view->tls)
        (void)fprintf(out, " or admission.max_silent (%s a worker)",
                      COUNT(controller(view)->max_silent));
    (void)fputs(" was reached. Just now it is not.", out);
}

SAY(descriptors)
{
    (void)fprintf(out,
                  "The process may have %s descriptors open, of which a part is kept for upstream "
                  "connections and logs: raise the limit (ulimit -n, LimitNOFILE), or lower "
                  "limits.connections (%s a worker) so that it is met first.",
                  COUNT(view->files), COUNT(view->options->max_connections));
}

SAY(paused)
{
    (void)fprintf(out, "Accepting paused %s times for want of them.", COUNT(view->ten.paused));
}
SAY_TEXT(drain,
         "weir was told to end: it takes no new connection, and who had not finished a handshake "
         "was sent away. A process in its place would serve them.")

/* ---- clients ---- */

SAY(hello_late)
{
    (void)fprintf(out,
                  "Clients connected and sent no whole ClientHello within timeouts.client_hello "
                  "(%s). Health checks that only open a connection do so, port scans, and "
                  "connections opened ahead of need. They hold no slot, but a descriptor. A health "
                  "check that speaks TLS is not among them.",
                  TIME(view->options->timeouts.client_hello));
}

SAY(handshake_late)
{
    (void)fprintf(out, "Handshakes were not finished within timeouts.handshake (%s) from accept.",
                  TIME(view->options->timeouts.handshake));
}

SAY_TEXT(late_by_clients, "They need not wait long for the processor here, so it is clients that "
                          "stopped half-way, or a network that loses packets.")

SAY_TEXT(abandoned, "Clients left before their handshake was done. Health checks that only open a "
                    "connection do so, port scans, and clients with less patience than it took.")
SAY_TEXT(not_tls, "The first bytes were not TLS: mostly plain HTTP sent to this port.")
SAY_TEXT(tls_error,
         "Handshakes failed: no version, cipher or protocol in common, or a client that does "
         "not accept the certificate.")

/* ---- the kernel ---- */

SAY(dropped)
{
    (void)fprintf(
        out,
        "The kernel dropped connection attempts before weir saw them, as it does when the "
        "accept queue is full (backlog; it has room for %s, %s are in it). Clients that "
        "try again are not lost.",
        COUNT(view->now.queue_limit), COUNT(view->now.queue));
}

SAY(rests)
{
    (void)fprintf(out,
                  "While handshakes wait, no more is taken from the queue than can be refused in "
                  "admission.refusal_share (%u %%) of the time: that is what protects those that "
                  "are served.",
                  view->options->refusal_share);
}

SAY_TEXT(bursts, "A higher backlog takes up bursts, not a load that is too high for long.")

/* ---- which sentences a reason has ---- */

static const struct sentence on_backlog[] = {
    {wr_signs_limit_is_zero, limit_zero},
    {wr_signs_limit_is_number, limit_reached},
    {wr_signs_is_adaptive, limit_adapts},
    {wr_signs_has_reserve, limit_reserved},
};

static const struct sentence on_slots[] = {
    {wr_signs_clients_stall, stalled},
    {wr_signs_clients_are_far, far},
};

static const struct sentence on_delay[] = {
    {NULL, delayed},
    {wr_signs_queue_stands, still_delayed},
    {wr_signs_queue_is_over, no_longer_delayed},
};

static const struct sentence on_processor[] = {
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

static const struct sentence on_share[] = {
    {NULL, share_held},
    {wr_signs_share_is_small, share_small},
    {wr_signs_groups_addresses, sources_grouped},
    {NULL, share_advice},
};

static const struct sentence on_connections[] = {
    {wr_signs_connections_are_full, connections_full},
    {wr_signs_most_are_idle, mostly_idle},
    {wr_signs_silent_are_full, silent_full},
    {wr_signs_neither_is_full, connections_were_full},
};

static const struct sentence on_denied[] = {
    {wr_signs_denies, denied},
    {wr_signs_allows, not_allowed},
    {wr_signs_is_logged, who_is_logged},
};

static const struct sentence on_handshake[] = {
    {NULL, handshake_late},
    {wr_signs_waits_are_short, late_by_clients},
};

static const struct sentence on_tls_error[] = {
    {NULL, tls_error},
    {wr_signs_is_logged, why_is_logged},
};

static const struct sentence on_descriptors[] = {
    {NULL, descriptors},
    {wr_signs_accepting_paused, paused},
};

static const struct sentence on_kernel[] = {
    {NULL, dropped},
    {wr_signs_refusing_rests, rests},
    {wr_signs_refusing_does_not_rest, bursts},
};

/* Sentences that are said together. */
struct part {
    bool (*when)(const struct wr_admission_view *view); /* NULL: always */
    const struct sentence *sentences;
    size_t count;
};

#define PART(when, sentences)                   \
    {                                           \
        when, sentences, WR_COUNT_OF(sentences) \
    }
#define ONE(say)                                     \
    {                                                \
        NULL, &(const struct sentence){NULL, say}, 1 \
    }
#define PARTS 3

static const struct reason {
    enum wr_refusal reason; /* __COUNT: the kernel's drops */
    enum wr_refusal_cause cause;
    struct part parts[PARTS];
} reasons[] = {
    {WR_REFUSAL_TOO_MANY_HANDSHAKES,
     WR_CAUSE_BACKLOG,
     {PART(NULL, on_backlog), PART(NULL, on_slots),
      PART(wr_signs_processor_is_short, on_processor)}},
    {WR_REFUSAL_TOO_MANY_HANDSHAKES,
     WR_CAUSE_DELAY,
     {PART(NULL, on_delay), PART(NULL, on_processor)}},
    {WR_REFUSAL_TOO_MANY_HANDSHAKES, WR_CAUSE_SHARE, {PART(NULL, on_share), PART(NULL, on_slots)}},
    {WR_REFUSAL_TOO_MANY_HANDSHAKES, WR_CAUSE_RESUMPTION, {ONE(gave_way), PART(NULL, on_slots)}},
    {WR_REFUSAL_TOO_MANY_CONNECTIONS, WR_CAUSE_NONE, {PART(NULL, on_connections)}},
    {WR_REFUSAL_RATE_LIMITED, WR_CAUSE_NONE, {ONE(rates)}},
    {WR_REFUSAL_DENIED, WR_CAUSE_NONE, {PART(NULL, on_denied)}},
    {WR_REFUSAL_CLIENT_HELLO_TIMEOUT, WR_CAUSE_NONE, {ONE(hello_late)}},
    {WR_REFUSAL_HANDSHAKE_TIMEOUT, WR_CAUSE_NONE, {PART(NULL, on_handshake)}},
    {WR_REFUSAL_ABANDONED, WR_CAUSE_NONE, {ONE(abandoned)}},
    {WR_REFUSAL_NOT_TLS, WR_CAUSE_NONE, {ONE(not_tls)}},
    {WR_REFUSAL_TLS_ERROR, WR_CAUSE_NONE, {PART(NULL, on_tls_error)}},
    {WR_REFUSAL_NO_DESCRIPTORS, WR_CAUSE_NONE, {PART(NULL, on_descriptors)}},
    {WR_REFUSAL_DRAINING, WR_CAUSE_NONE, {ONE(drain)}},
    {WR_REFUSAL__COUNT, WR_CAUSE_NONE, {PART(NULL, on_kernel)}},
};

/* ---- the interface ---- */

size_t wr_words_count(void)
{
    return WR_COUNT_OF(reasons);
}

static uint64_t counted(const struct reason *reason, const struct wr_admission_counts *counts)
{
    if (reason->reason == WR_REFUSAL__COUNT)
        return counts->dropped;
    return reason->cause != WR_CAUSE_NONE ? counts->by_cause[reason->cause]
                                          : counts->refused[reason->reason];
}

struct wr_words_finding wr_words_finding(size_t i, const struct wr_admission_view *view)
{
    WR_ASSERT(i < WR_COUNT_OF(reasons));
    const struct reason *reason = &reasons[i];
    return (struct wr_words_finding){
        .reason =
            reason->reason == WR_REFUSAL__COUNT ? "accept_queue" : wr_refusal_label(reason->reason),
        .cause = wr_refusal_cause_label(reason->cause),
        .last = counted(reason, &view->last),
        .ten = counted(reason, &view->ten),
    };
}

void wr_words_explain(FILE *out, size_t i, const struct wr_admission_view *view)
{
    WR_ASSERT(i < WR_COUNT_OF(reasons));
    const char *space = "";
    for (const struct part *part = reasons[i].parts; part < reasons[i].parts + PARTS; part++) {
        if (part->when != NULL && !part->when(view))
            continue;
        for (size_t j = 0; j < part->count; j++) {
            const struct sentence *sentence = &part->sentences[j];
            if (sentence->when != NULL && !sentence->when(view))
                continue;
            (void)fputs(space, out);
            sentence->say(out, view);
            space = " ";
        }
    }
}
