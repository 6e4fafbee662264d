#include "server/requests_words.h"

#include "base/assert.h"
#include "base/compiler.h"
#include "base/time.h"
#include "server/figures.h"
#include "server/requests_signs.h"

#define COUNT(n) (wr_figure_count(n).text)
#define TIME(usec) (wr_figure_duration(usec).text)
#define RATE(n, usec) (wr_figure_rate(n, usec).text)

/* ---- how it is ---- */

enum wr_requests_condition wr_requests_condition(const struct wr_requests_view *view)
{
    if (wr_requests_counts_refused(&view->last) > 0)
        return WR_REQUESTS_REFUSING;
    if (wr_requests_counts_refused(&view->ten) > 0)
        return WR_REQUESTS_REFUSED;
    if (view->now.waiting > 0)
        return WR_REQUESTS_WAITING;
    return view->ten.admitted == 0 && view->now.in_flight == 0 ? WR_REQUESTS_AT_REST
                                                               : WR_REQUESTS_LETTING_IN;
}

const char *wr_requests_condition_label(enum wr_requests_condition condition)
{
    static const char *const labels[] = {
        [WR_REQUESTS_REFUSING] = "refusing",     [WR_REQUESTS_REFUSED] = "refused",
        [WR_REQUESTS_WAITING] = "waiting",       [WR_REQUESTS_AT_REST] = "at_rest",
        [WR_REQUESTS_LETTING_IN] = "letting_in",
    };
    WR_ASSERT((unsigned)condition < WR_COUNT_OF(labels));
    return labels[condition];
}

/* The label of the cause that counted most in the last second. */
static const char *most_frequent(const struct wr_requests_view *view, uint64_t *count)
{
    struct wr_requests_finding most = wr_requests_finding(0, view);
    for (size_t i = 1; i < wr_requests_causes(); i++) {
        struct wr_requests_finding finding = wr_requests_finding(i, view);
        if (finding.last > most.last)
            most = finding;
    }
    *count = most.last;
    return most.cause;
}

static void say_refusing(FILE *out, const struct wr_requests_view *view)
{
    const struct wr_requests_counts *last = &view->last;
    uint64_t refused = wr_requests_counts_refused(last);
    uint64_t most;
    const char *cause = most_frequent(view, &most);
    (void)fprintf(out, "refusing %s of %s requests a second: %s%s", RATE(refused, last->usec),
                  RATE(refused + last->admitted, last->usec), most < refused ? "most often " : "",
                  cause);
}

void wr_requests_say_condition(FILE *out, const struct wr_requests_view *view)
{
    const struct wr_requests_counts *ten = &view->ten;
    switch (wr_requests_condition(view)) {
    case WR_REQUESTS_REFUSING:
        say_refusing(out, view);
        return;
    case WR_REQUESTS_REFUSED:
        (void)fprintf(out,
                      "letting in everything again: of %s refused in the last %s none was in the "
                      "last %s",
                      COUNT(wr_requests_counts_refused(ten)), TIME(ten->usec),
                      TIME(view->last.usec));
        return;
    case WR_REQUESTS_WAITING:
        (void)fprintf(out, "letting in everything, %s a second; %s wait for a place",
                      RATE(ten->admitted, ten->usec), COUNT(view->now.waiting));
        return;
    case WR_REQUESTS_AT_REST:
        (void)fprintf(out, "none in the last %s", TIME(ten->usec));
        return;
    case WR_REQUESTS_LETTING_IN:
        (void)fprintf(out, "letting in everything, %s a second", RATE(ten->admitted, ten->usec));
        return;
    }
}

/* ---- sentences ---- */

/* What is said when it is so; WHEN is NULL for what always is. */
struct sentence {
    bool (*when)(const struct wr_requests_view *view);
    void (*say)(FILE *out, const struct wr_requests_view *view);
};

#define SAY(name) static void name(FILE *out, const struct wr_requests_view *view)
/* One without a number. */
#define SAY_TEXT(name, text)    \
    SAY(name)                   \
    {                           \
        (void)view;             \
        (void)fputs(text, out); \
    }

SAY_TEXT(limit_reached, "As many were in flight as may, and requests do not wait here.")
SAY_TEXT(gave_way, "As many waited as may, and these gave way to requests of higher priority "
                   "(priority of the route).")
SAY_TEXT(closed, "The cluster they waited for went away.")

SAY(queue_full)
{
    (void)fprintf(out,
                  "All places were taken, and as many waited for one as may: requests.max_waiting "
                  "lets %s wait in a worker. A higher one takes up bursts, not a load that is too "
                  "high for long.",
                  COUNT(view->options->max_waiting));
}

SAY(waited)
{
    (void)fprintf(out,
                  "They waited for requests.max_wait (%s) and got no place. A longer one serves "
                  "clients that have the patience, and bursts, not a load that is too high for "
                  "long.",
                  TIME(view->options->max_wait));
}

SAY(limit_fixed)
{
    (void)fprintf(out, "requests.max lets %s be in flight in a worker.", COUNT(view->options->max));
}

SAY(limit_adapts)
{
    (void)fprintf(out,
                  "With requests.mode adaptive the limit follows the latency of responses, %s over "
                  "all workers just now: it falls while they take longer than with little in "
                  "flight, and rises by itself when they do not.",
                  COUNT(view->now.limit));
}

SAY(ceiling)
{
    (void)fprintf(out, "Its ceiling is requests.max, %s in a worker.", COUNT(view->options->max));
}

SAY_TEXT(at_ceiling, "It is there: a higher one would let in more.")

SAY(shares)
{
    (void)fprintf(out,
                  "Requests of normal priority may bring what is in flight to %u %% of the limit "
                  "(requests.normal_share), sheddable ones to %u %% (requests.sheddable_share).",
                  view->options->share[WR_PRIORITY_NORMAL],
                  view->options->share[WR_PRIORITY_SHEDDABLE]);
}

SAY_TEXT(let_wait, "Where requests.max_wait and requests.max_waiting are not 0, bursts wait for "
                   "a place instead.")

SAY(full_now)
{
    (void)fprintf(out, "Just now there is no place in %s of %u workers.", COUNT(view->now.full),
                  view->workers);
}

SAY(held)
{
    (void)fprintf(out,
                  "A request holds its place for some %s; for all that are asked for that makes "
                  "some %s places a worker (Little's law).",
                  TIME(wr_requests_held(view)), COUNT(wr_requests_needed(view)));
}

SAY_TEXT(raise, "If what is behind can work on so many at once, raise requests.max above it; if "
                "not, only more of what is behind helps, or quicker responses.")

SAY(rates)
{
    struct wr_requests_rates found = wr_requests_rates(view);
    (void)fprintf(out,
                  "More came than the rate of their route allows a worker; they were answered 429. "
                  "Routes with a rate: %s, ",
                  COUNT(found.routes));
    if (found.least < found.most)
        (void)fprintf(out, "of %s to ", COUNT(found.least));
    (void)fprintf(
        out, "%s a second. For a load that lasts raise rate.per_second, for bursts rate.burst.",
        COUNT(found.most));
}

SAY(rates_shared)
{
    (void)fprintf(out,
                  "In %s of them all clients share one rate, which one client can use up: with "
                  "rate.key client each has its own.",
                  COUNT(wr_requests_rates(view).shared));
}

/* ---- which sentences a cause has ---- */

static const struct sentence on_limit[] = {{NULL, limit_reached}, {NULL, let_wait}};
static const struct sentence on_queue[] = {{NULL, queue_full}};
static const struct sentence on_priority[] = {{NULL, gave_way}};
static const struct sentence on_wait[] = {{NULL, waited}};
static const struct sentence on_closed[] = {{NULL, closed}};
static const struct sentence on_rate[] = {
    {NULL, rates},
    {wr_requests_rates_are_shared, rates_shared},
};

/* Of whatever was refused for want of a place. */
static const struct sentence on_places[] = {
    {wr_requests_is_fixed, limit_fixed}, {wr_requests_is_adaptive, limit_adapts},
    {wr_requests_has_ceiling, ceiling},  {wr_requests_is_at_ceiling, at_ceiling},
    {wr_requests_keeps_shares, shares},  {wr_requests_is_full, full_now},
    {wr_requests_needed_is_known, held}, {wr_requests_more_would_do, raise},
};

#define RATES WR_SHED__COUNT /* the cause after those of base/shed.def */
#define SENTENCES(list) .sentences = (list), .count = WR_COUNT_OF(list)

static const struct {
    const struct sentence *sentences;
    size_t count;
    bool places; /* and what there is to be said of places */
} causes[] = {
    [WR_SHED_LIMIT] = {SENTENCES(on_limit), .places = true},
    [WR_SHED_QUEUE] = {SENTENCES(on_queue), .places = true},
    [WR_SHED_PRIORITY] = {SENTENCES(on_priority), .places = true},
    [WR_SHED_WAIT] = {SENTENCES(on_wait), .places = true},
    [WR_SHED_CLOSED] = {SENTENCES(on_closed)},
    [RATES] = {SENTENCES(on_rate)},
};

_Static_assert(WR_COUNT_OF(causes) == WR_SHED__COUNT + 1, "a row for each cause");

/* ---- the interface ---- */

size_t wr_requests_causes(void)
{
    return WR_COUNT_OF(causes);
}

static uint64_t counted(size_t i, const struct wr_requests_counts *counts)
{
    return i == RATES ? counts->rate_limited : counts->refused[i];
}

struct wr_requests_finding wr_requests_finding(size_t i, const struct wr_requests_view *view)
{
    WR_ASSERT(i < WR_COUNT_OF(causes));
    return (struct wr_requests_finding){
        .cause = i == RATES ? "rate" : wr_shed_label((enum wr_shed)i),
        .last = counted(i, &view->last),
        .ten = counted(i, &view->ten),
    };
}

static void say_all(FILE *out, const struct sentence *sentences, size_t count,
                    const struct wr_requests_view *view, const char **space)
{
    for (size_t i = 0; i < count; i++) {
        if (sentences[i].when != NULL && !sentences[i].when(view))
            continue;
        (void)fputs(*space, out);
        sentences[i].say(out, view);
        *space = " ";
    }
}

void wr_requests_explain(FILE *out, size_t i, const struct wr_requests_view *view)
{
    const char *space = "";
    WR_ASSERT(i < WR_COUNT_OF(causes));
    say_all(out, causes[i].sentences, causes[i].count, view, &space);
    if (causes[i].places)
        say_all(out, on_places, WR_COUNT_OF(on_places), view, &space);
}
