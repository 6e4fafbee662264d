/* Sentences on connections: rates and lists, limits, what clients do, the kernel. */
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

/* ---- rates and lists ---- */

static void say_rate(FILE *out, const char *name, const struct wr_rate *rate)
{
    if (rate->per_second > 0)
        (void)fprintf(out, " %s %s a second, %s at once;", name, COUNT(rate->per_second),
                      COUNT(rate->burst));
}

/* Whoever is refused for a rate, there is one. */
WR_SAY(rates)
{
    const struct wr_access_options *access = &view->options->access;
    (void)fputs("More came than one of admission.rates allows a worker:", out);
    say_rate(out, "connections", &access->connections);
    say_rate(out, "connections_per_source", &access->connections_per_source);
    say_rate(out, "handshakes", &access->handshakes);
    say_rate(out, "handshakes_per_source", &access->handshakes_per_source);
    (void)fputs(" raise it, or name peers that are to have no rate in admission.trusted.", out);
}

WR_SAY(denied)
{
    (void)fprintf(out, "Peers in admission.deny (%zu entries) are turned away.",
                  view->options->access.deny_count);
}

WR_SAY(not_allowed)
{
    (void)fprintf(out, "Peers that are not in admission.allow (%zu entries) are turned away.",
                  view->options->access.allow_count);
}

WR_SAY_TEXT(who_is_logged, "The access log has their addresses.")
WR_SAY_TEXT(why_is_logged, "The access log says for each what was wrong.")

/* ---- connections and descriptors ---- */

WR_SAY(connections_full)
{
    (void)fprintf(out,
                  "limits.connections lets %s be open in a worker, and %s are: raise it if memory "
                  "and descriptors allow.",
                  COUNT(view->options->max_connections), COUNT(view->now.open_most));
}

WR_SAY(mostly_idle)
{
    (void)fprintf(out,
                  "Most of them, %s, are idle between requests: a shorter timeouts.keep_alive (%s) "
                  "frees them sooner.",
                  COUNT(view->now.idle), TIME(view->options->timeouts.keep_alive));
}

WR_SAY(silent_full)
{
    (void)fprintf(out,
                  "admission.max_silent lets %s that have said nothing be open in a worker, and %s "
                  "are: the oldest are ended. timeouts.client_hello (%s) ends them in any case.",
                  COUNT(controller(view)->max_silent), COUNT(view->now.silent_most),
                  TIME(view->options->timeouts.client_hello));
}

WR_SAY(connections_were_full)
{
    (void)fprintf(out, "limits.connections (%s a worker)", COUNT(view->options->max_connections));
    if (view->tls)
        (void)fprintf(out, " or admission.max_silent (%s a worker)",
                      COUNT(controller(view)->max_silent));
    (void)fputs(" was reached. Just now it is not.", out);
}

WR_SAY(descriptors)
{
    (void)fprintf(out,
                  "The process may have %s descriptors open, of which a part is kept for upstream "
                  "connections and logs: raise the limit (ulimit -n, LimitNOFILE), or lower "
                  "limits.connections (%s a worker) so that it is met first.",
                  COUNT(view->files), COUNT(view->options->max_connections));
}

WR_SAY(paused)
{
    (void)fprintf(out, "Accepting paused %s times for want of them.", COUNT(view->ten.paused));
}
WR_SAY_TEXT(
    drain, "weir was told to end: it takes no new connection, and who had not finished a handshake "
           "was sent away. A process in its place would serve them.")

/* ---- clients ---- */

WR_SAY(hello_late)
{
    (void)fprintf(out,
                  "Clients connected and sent no whole ClientHello within timeouts.client_hello "
                  "(%s). Health checks that only open a connection do so, port scans, and "
                  "connections opened ahead of need. They hold no slot, but a descriptor. A health "
                  "check that speaks TLS is not among them.",
                  TIME(view->options->timeouts.client_hello));
}

WR_SAY(handshake_late)
{
    (void)fprintf(out, "Handshakes were not finished within timeouts.handshake (%s) from accept.",
                  TIME(view->options->timeouts.handshake));
}

WR_SAY_TEXT(late_by_clients,
            "They need not wait long for the processor here, so it is clients that "
            "stopped half-way, or a network that loses packets.")

WR_SAY_TEXT(abandoned,
            "Clients left before their handshake was done. Health checks that only open a "
            "connection do so, port scans, and clients with less patience than it took.")
WR_SAY_TEXT(not_tls, "The first bytes were not TLS: mostly plain HTTP sent to this port.")
WR_SAY_TEXT(tls_error,
            "Handshakes failed: no version, cipher or protocol in common, or a client that does "
            "not accept the certificate.")

/* ---- the kernel ---- */

WR_SAY(dropped)
{
    (void)fprintf(
        out,
        "The kernel dropped connection attempts before weir saw them, as it does when the "
        "accept queue is full (backlog; it has room for %s, %s are in it). Clients that "
        "try again are not lost.",
        COUNT(view->now.queue_limit), COUNT(view->now.queue));
}

WR_SAY(rests)
{
    bool shut = view->options->overflow == WR_OVERFLOW_RESET;
    (void)fprintf(out,
                  "While handshakes wait, no more is taken from the queue than can be refused in "
                  "admission.refusal_share (%u %%) of the time: that is what protects those that "
                  "are served.%s",
                  view->options->refusal_share,
                  shut ? " Beyond it the socket is shut for moments, and the kernel resets who "
                         "comes then, in no count of weir's (admission.overflow: reset)."
                       : "");
}

WR_SAY_TEXT(bursts, "A higher backlog takes up bursts, not a load that is too high for long.")

/* ---- which are said together ---- */

static const struct wr_sentence connections_sentences[] = {
    {wr_signs_connections_are_full, connections_full},
    {wr_signs_most_are_idle, mostly_idle},
    {wr_signs_silent_are_full, silent_full},
    {wr_signs_neither_is_full, connections_were_full},
};

static const struct wr_sentence denied_sentences[] = {
    {wr_signs_denies, denied},
    {wr_signs_allows, not_allowed},
    {wr_signs_is_logged, who_is_logged},
};

static const struct wr_sentence handshake_sentences[] = {
    {NULL, handshake_late},
    {wr_signs_waits_are_short, late_by_clients},
};

static const struct wr_sentence tls_error_sentences[] = {
    {NULL, tls_error},
    {wr_signs_is_logged, why_is_logged},
};

static const struct wr_sentence descriptors_sentences[] = {
    {NULL, descriptors},
    {wr_signs_accepting_paused, paused},
};

static const struct wr_sentence kernel_sentences[] = {
    {NULL, dropped},
    {wr_signs_refusing_rests, rests},
    {wr_signs_refusing_does_not_rest, bursts},
};

const struct wr_words_part wr_words_on_connections = WR_PART(NULL, connections_sentences);
const struct wr_words_part wr_words_on_denied = WR_PART(NULL, denied_sentences);
const struct wr_words_part wr_words_on_handshake = WR_PART(NULL, handshake_sentences);
const struct wr_words_part wr_words_on_tls_error = WR_PART(NULL, tls_error_sentences);
const struct wr_words_part wr_words_on_descriptors = WR_PART(NULL, descriptors_sentences);
const struct wr_words_part wr_words_on_kernel = WR_PART(NULL, kernel_sentences);
const struct wr_words_part wr_words_on_rates = WR_PART_OF_ONE(rates);
const struct wr_words_part wr_words_on_hello = WR_PART_OF_ONE(hello_late);
const struct wr_words_part wr_words_on_abandoned = WR_PART_OF_ONE(abandoned);
const struct wr_words_part wr_words_on_not_tls = WR_PART_OF_ONE(not_tls);
const struct wr_words_part wr_words_on_drain = WR_PART_OF_ONE(drain);
