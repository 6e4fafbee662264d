/* How a listener is, in one sentence. */
#include "base/assert.h"
#include "base/compiler.h"
#include "base/time.h"
#include "server/admission_words.h"
#include "server/figures.h"

#define COUNT(n) (wr_figure_count(n).text)
#define TIME(usec) (wr_figure_duration(usec).text)
#define RATE(n, usec) (wr_figure_rate(n, usec).text)

const char *wr_words_state_label(enum wr_admission_state state)
{
    static const char *const labels[] = {
        [WR_ADMISSION_DRAINING] = "draining", [WR_ADMISSION_REFUSING] = "refusing",
        [WR_ADMISSION_REFUSED] = "refused",   [WR_ADMISSION_UNCOUNTED] = "dropped",
        [WR_ADMISSION_IDLE] = "idle",         [WR_ADMISSION_SERVING] = "serving",
    };
    WR_ASSERT((unsigned)state < WR_COUNT_OF(labels));
    return labels[state];
}

/* Among COUNTS, of those that weir turned away. */
static enum wr_refusal most_frequent(const struct wr_admission_counts *counts)
{
    enum wr_refusal most = WR_REFUSAL_TOO_MANY_HANDSHAKES;
    for (unsigned i = 0; i < WR_REFUSAL__COUNT; i++) {
        if (wr_admission_is_rule((enum wr_refusal)i) && counts->refused[i] > counts->refused[most])
            most = (enum wr_refusal)i;
    }
    return most;
}

static enum wr_refusal_cause most_frequent_cause(const struct wr_admission_counts *counts)
{
    enum wr_refusal_cause most = WR_CAUSE_NONE;
    for (unsigned i = 0; i < WR_CAUSE__COUNT; i++) {
        if (counts->by_cause[i] > counts->by_cause[most])
            most = (enum wr_refusal_cause)i;
    }
    return most;
}

/* A refusal may be of one that came before the time that is looked at, so the parts may be more than the whole. */
static void say_refusing(FILE *out, const struct wr_admission_view *view)
{
    const struct wr_admission_counts *last = &view->last;
    uint64_t refused = wr_admission_counts_refused(last);
    enum wr_refusal reason = most_frequent(last);
    if (refused <= last->accepted)
        (void)fprintf(out, "refusing %s of %s connections a second", RATE(refused, last->usec),
                      RATE(last->accepted, last->usec));
    else
        (void)fprintf(out, "refusing %s connections a second, with %s new ones a second",
                      RATE(refused, last->usec), RATE(last->accepted, last->usec));
    (void)fprintf(out, ": %s%s", last->refused[reason] < refused ? "most often " : "",
                  wr_refusal_label(reason));
    enum wr_refusal_cause cause = most_frequent_cause(last);
    if (reason == WR_REFUSAL_TOO_MANY_HANDSHAKES && cause != WR_CAUSE_NONE)
        (void)fprintf(out, " (%s%s)",
                      last->by_cause[cause] < last->refused[reason] ? "mostly " : "",
                      wr_refusal_cause_label(cause));
}

static void say_past(FILE *out, const struct wr_admission_view *view)
{
    uint64_t refused = wr_admission_counts_refused(&view->total);
    if (refused > 0 && view->calm != WR_NEVER)
        (void)fprintf(out, "; %s were refused since the start, the last %s ago", COUNT(refused),
                      TIME(view->calm));
}

static uint64_t came_to_nothing(const struct wr_admission_counts *counts)
{
    uint64_t count = 0;
    for (unsigned i = 0; i < WR_REFUSAL__COUNT; i++)
        count += wr_admission_is_rule((enum wr_refusal)i) ? 0 : counts->refused[i];
    return count;
}

static void say_serving(FILE *out, const struct wr_admission_view *view)
{
    const struct wr_admission_counts *ten = &view->ten;
    uint64_t lost = came_to_nothing(ten);
    (void)fprintf(out, "serving everything, %s connections a second",
                  RATE(ten->accepted, ten->usec));
    if (lost > 0)
        (void)fprintf(out, "; %s a second came to nothing, for reasons told below",
                      RATE(lost, ten->usec));
}

void wr_words_state(FILE *out, const struct wr_admission_view *view)
{
    const struct wr_admission_now *now = &view->now;
    switch (wr_signs_state(view)) {
    case WR_ADMISSION_DRAINING:
        (void)fprintf(out, "draining: takes no new connection, %s are open",
                      COUNT(now->silent + now->waiting + now->running + now->served));
        return;
    case WR_ADMISSION_REFUSING:
        say_refusing(out, view);
        return;
    case WR_ADMISSION_REFUSED:
        (void)fprintf(out,
                      "serving everything again: of those refused in the last %s none was in "
                      "the last %s",
                      TIME(view->ten.usec), TIME(view->last.usec));
        say_past(out, view);
        return;
    case WR_ADMISSION_UNCOUNTED:
        (void)fprintf(
            out,
            "serving everything that comes through; the kernel dropped %s attempts in the "
            "last %s",
            COUNT(view->ten.dropped), TIME(view->ten.usec));
        say_past(out, view);
        return;
    case WR_ADMISSION_IDLE:
        (void)fprintf(out, "idle: nobody has connected in the last %s", TIME(view->ten.usec));
        say_past(out, view);
        return;
    case WR_ADMISSION_SERVING:
        say_serving(out, view);
        say_past(out, view);
        return;
    }
}
