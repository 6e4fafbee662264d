#include "server/requests_page.h"

#include <inttypes.h>
#include <stdlib.h>

#include "server/admission_watch.h"
#include "server/figures.h"
#include "server/page.h"
#include "server/requests_words.h"

#define COUNT(n) (wr_figure_count(n).text)
#define TIME(usec) (wr_figure_duration(usec).text)
#define RATE(n, usec) (wr_figure_rate(n, usec).text)

/* ---- text ---- */

static void text_limit(FILE *out, const struct wr_requests_view *view)
{
    if (view->now.limit == 0)
        (void)fputs("no limit", out);
    else
        (void)fprintf(out, "limit %s as of now", COUNT(view->now.limit));
    if (view->options->max > 0)
        (void)fprintf(out, " (%s a worker)", COUNT(view->options->max));
}

static void text_places(FILE *out, const struct wr_requests_view *view)
{
    (void)fprintf(out, "  requests in flight      %s, and %s waiting; ", COUNT(view->now.in_flight),
                  COUNT(view->now.waiting));
    text_limit(out, view);
    if (view->ten.admitted > 0)
        (void)fprintf(out, "; waited half <= %s, 99 %% <= %s",
                      TIME(wr_admission_quantile(view->ten.waits, 500)),
                      TIME(wr_admission_quantile(view->ten.waits, 990)));
    (void)fputc('\n', out);
}

static void text_refused(FILE *out, const struct wr_requests_view *view)
{
    (void)fprintf(
        out, "  requests refused        %s a second in the last %s, %s in the last %s, ",
        RATE(wr_requests_counts_refused(&view->last), view->last.usec), TIME(view->last.usec),
        RATE(wr_requests_counts_refused(&view->ten), view->ten.usec), TIME(view->ten.usec));
    (void)fprintf(out, "%s in all\n", COUNT(wr_requests_counts_refused(&view->total)));
}

void wr_requests_put_text(FILE *out, const struct wr_requests_view *view)
{
    (void)fputs("  requests                ", out);
    wr_requests_say_condition(out, view);
    (void)fputc('\n', out);
    text_places(out, view);
    text_refused(out, view);
}

void wr_requests_put_causes(FILE *out, const struct wr_requests_view *view)
{
    for (size_t i = 0; i < wr_requests_causes(); i++) {
        struct wr_requests_finding finding = wr_requests_finding(i, view);
        if (finding.ten == 0)
            continue;
        char *text;
        size_t length;
        FILE *words = wr_page_open(&text, &length);
        wr_requests_explain(words, i, view);
        wr_page_close(words);
        (void)fprintf(out, "\n  requests, %s: %s in the last %s, %s a second just now",
                      finding.cause, COUNT(finding.ten), TIME(view->ten.usec),
                      RATE(finding.last, view->last.usec));
        wr_page_put_wrapped(out, text);
        free(text);
    }
}

void wr_requests_put_text_cluster(FILE *out, const struct wr_requests_view *view)
{
    (void)fputs("cluster ", out);
    wr_page_put_name(out, view->name);
    (void)fputs(": ", out);
    wr_requests_say_condition(out, view);
    (void)fputs("\n\n", out);
    text_places(out, view);
    text_refused(out, view);
    wr_requests_put_causes(out, view);
    (void)fputc('\n', out);
}

/* ---- JSON ---- */

static void json_counts(FILE *out, const char *key, const struct wr_requests_counts *counts)
{
    (void)fprintf(out,
                  "\"%s\":{\"usec\":%" PRIu64 ",\"admitted\":%" PRIu64 ",\"refused\":%" PRIu64
                  ",\"rate_limited\":%" PRIu64 "},",
                  key, counts->usec, counts->admitted, wr_requests_counts_refused(counts),
                  counts->rate_limited);
}

/* A limit that is none is null. */
static void json_now(FILE *out, const struct wr_requests_now *now)
{
    (void)fprintf(out, "\"now\":{\"in_flight\":%" PRIu64 ",\"waiting\":%" PRIu64 ",\"limit\":",
                  now->in_flight, now->waiting);
    if (now->limit == 0)
        (void)fputs("null", out);
    else
        (void)fprintf(out, "%" PRIu64, now->limit);
    (void)fprintf(out, ",\"full\":%" PRIu64 "},", now->full);
}

/* Our own sentences have nothing in them that JSON would want escaped. */
static void json_causes(FILE *out, const struct wr_requests_view *view)
{
    const char *comma = "";
    (void)fputs("\"causes\":[", out);
    for (size_t i = 0; i < wr_requests_causes(); i++) {
        struct wr_requests_finding finding = wr_requests_finding(i, view);
        if (finding.ten == 0)
            continue;
        (void)fprintf(out,
                      "%s{\"cause\":\"%s\",\"last\":%" PRIu64 ",\"ten\":%" PRIu64 ",\"text\":\"",
                      comma, finding.cause, finding.last, finding.ten);
        wr_requests_explain(out, i, view);
        (void)fputs("\"}", out);
        comma = ",";
    }
    (void)fputc(']', out);
}

void wr_requests_put_json(FILE *out, const struct wr_requests_view *view)
{
    (void)fprintf(out, "\"state\":\"%s\",\"text\":\"",
                  wr_requests_condition_label(wr_requests_condition(view)));
    wr_requests_say_condition(out, view);
    (void)fputs("\",", out);
    json_counts(out, "last", &view->last);
    json_counts(out, "ten", &view->ten);
    json_counts(out, "total", &view->total);
    json_now(out, &view->now);
    json_causes(out, view);
}

void wr_requests_put_json_cluster(FILE *out, const struct wr_requests_view *view, bool first)
{
    (void)fputs(first ? "{\"name\":\"" : ",{\"name\":\"", out);
    wr_page_put_name(out, view->name);
    (void)fputs("\",", out);
    wr_requests_put_json(out, view);
    (void)fputc('}', out);
}
