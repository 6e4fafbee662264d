#include "server/admission_page.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/time.h"
#include "server/admission_words.h"
#include "server/figures.h"
#include "server/page.h"
#include "server/requests_page.h"

#define COUNT(n) (wr_figure_count(n).text)
#define TIME(usec) (wr_figure_duration(usec).text)
#define RATE(n, usec) (wr_figure_rate(n, usec).text)

static uint64_t count_in(const struct wr_admission_counts *counts, size_t offset)
{
    uint64_t count;
    memcpy(&count, (const char *)counts + offset, sizeof(count));
    return count;
}

/* Shown as rates, and as they are. */
static const struct row {
    const char *key;
    const char *text;
    size_t offset;
    bool tls;
} rows[] = {
#define ROW(field, text, tls)                                          \
    {                                                                  \
#field, text, offsetof(struct wr_admission_counts, field), tls \
    }
    ROW(accepted, "connections", false),
    ROW(full, "full handshakes", true),
    ROW(resumed, "resumed handshakes", true),
    ROW(failed, "failed handshakes", true),
    ROW(false_claims, "false claims to resume", true),
    ROW(dropped, "dropped by the kernel", false),
#undef ROW
};

/* ---- text ---- */

static void text_rates(FILE *out, const struct wr_admission_view *view)
{
    const struct wr_admission_counts *last = &view->last;
    const struct wr_admission_counts *ten = &view->ten;
    const struct wr_admission_counts *total = &view->total;
    (void)fprintf(out, "  %-24s%12s%12s%16s\n", "a second, in the last", TIME(last->usec),
                  TIME(ten->usec), "all");
    for (size_t i = 0; i < WR_COUNT_OF(rows); i++) {
        const struct row *row = &rows[i];
        if (row->tls && !view->tls)
            continue;
        (void)fprintf(
            out, "  %-24s%12s%12s%16s\n", row->text, RATE(count_in(last, row->offset), last->usec),
            RATE(count_in(ten, row->offset), ten->usec), COUNT(count_in(total, row->offset)));
    }
    (void)fprintf(out, "  %-24s%12s%12s%16s\n", "refused",
                  RATE(wr_admission_counts_refused(last), last->usec),
                  RATE(wr_admission_counts_refused(ten), ten->usec),
                  COUNT(wr_admission_counts_refused(total)));
}

static void text_limit(FILE *out, const struct wr_admission_view *view)
{
    uint32_t configured = view->options->admission.max_pending_handshakes;
    if (view->now.limit == WR_NEVER)
        (void)fputs("no limit", out);
    else
        (void)fprintf(out, "limit %s as of now", COUNT(view->now.limit));
    if (configured != WR_ADMISSION_NO_LIMIT)
        (void)fprintf(out, " (%s a worker)", COUNT(configured));
}

static void text_waits(FILE *out, const struct wr_admission_view *view)
{
    const struct wr_admission_counts *ten = &view->ten;
    (void)fputs("  wait for the processor  ", out);
    if (wr_signs_finished(ten) > 0)
        (void)fprintf(out, "half <= %s, 99 %% <= %s, ",
                      TIME(wr_admission_quantile(ten->waits, 500)),
                      TIME(wr_admission_quantile(ten->waits, 990)));
    (void)fprintf(out, "longest now %s; too long in %s of %u workers\n", TIME(view->now.wait_most),
                  COUNT(view->now.delayed), view->workers);
}

static void text_cost(FILE *out, const char *name, uint64_t usec)
{
    (void)fprintf(out, "%s %s", name, usec > 0 ? TIME(usec) : "not known yet");
}

static void text_handshakes(FILE *out, const struct wr_admission_view *view)
{
    const struct wr_admission_now *now = &view->now;
    (void)fprintf(out, "  pending handshakes      %s: %s waiting, %s running; ",
                  COUNT(now->waiting + now->running), COUNT(now->waiting), COUNT(now->running));
    text_limit(out, view);
    (void)fprintf(out, "; most ever %s\n", COUNT(now->peak));
    if (now->busy_most > 0)
        (void)fprintf(out, "                          last empty %s ago\n", TIME(now->busy_most));
    text_waits(out, view);
    (void)fputs("  cost of a handshake     ", out);
    text_cost(out, "full", now->cost_full_most);
    text_cost(out, ", resumed", now->cost_resumed_most);
    if (view->options->access.trusted_count > 0)
        text_cost(out, ", trusted", now->cost_trusted_most);
    (void)fputc('\n', out);
}

static void text_now(FILE *out, const struct wr_admission_view *view)
{
    const struct wr_admission_now *now = &view->now;
    (void)fprintf(out,
                  "  open                    %s served, of them %s idle (%s may be open a worker)",
                  COUNT(now->served), COUNT(now->idle), COUNT(view->options->max_connections));
    if (view->tls)
        (void)fprintf(out, "; %s silent", COUNT(now->silent));
    (void)fputc('\n', out);
    if (view->tls)
        text_handshakes(out, view);
    (void)fprintf(out,
                  "  accept queue            %s of %s, the last one looked at was in it for %s\n",
                  COUNT(now->queue), COUNT(now->queue_limit), TIME(now->queue_age_most));
}

static void text_reasons(FILE *out, const struct wr_admission_view *view)
{
    for (size_t i = 0; i < wr_words_count(); i++) {
        struct wr_words_finding finding = wr_words_finding(i, view);
        if (finding.ten == 0)
            continue;
        char *text;
        size_t length;
        FILE *words = wr_page_open(&text, &length);
        wr_words_explain(words, i, view);
        wr_page_close(words);
        (void)fprintf(out, "\n  %s%s%s: %s in the last %s, %s a second just now", finding.reason,
                      finding.cause[0] != '\0' ? ", " : "", finding.cause, COUNT(finding.ten),
                      TIME(view->ten.usec), RATE(finding.last, view->last.usec));
        wr_page_put_wrapped(out, text);
        free(text);
    }
}

static void text_listener(FILE *out, const struct wr_admission_view *view,
                          const struct wr_requests_view *requests)
{
    wr_page_put_name(out, view->name);
    (void)fprintf(out, " (%s): ", view->tls ? "TLS" : "plain");
    wr_words_state(out, view);
    (void)fputs("\n\n", out);
    text_rates(out, view);
    (void)fputc('\n', out);
    text_now(out, view);
    wr_requests_put_text(out, requests);
    text_reasons(out, view);
    wr_requests_put_causes(out, requests);
    (void)fputc('\n', out);
}

/* Once for all listeners. */
static void text_process(FILE *out, const struct wr_admission_view *view)
{
    (void)fprintf(out, "workers %u, cores %u; up for %s; of the turns of the loops in the last %s ",
                  view->workers, view->cores, TIME(view->total.usec), TIME(view->ten.usec));
    (void)fprintf(out, "half took <= %s, 99 %% <= %s\n\n",
                  TIME(wr_admission_quantile(view->ten.lag, 500)),
                  TIME(wr_admission_quantile(view->ten.lag, 990)));
}

/* ---- JSON ---- */

static void json_counts(FILE *out, const char *key, const struct wr_admission_counts *counts)
{
    (void)fprintf(out, "\"%s\":{\"usec\":%" PRIu64, key, counts->usec);
    for (size_t i = 0; i < WR_COUNT_OF(rows); i++)
        (void)fprintf(out, ",\"%s\":%" PRIu64, rows[i].key, count_in(counts, rows[i].offset));
    (void)fprintf(out, ",\"refused\":%" PRIu64 "},", wr_admission_counts_refused(counts));
}

/* A limit that is none is null. */
static void json_now(FILE *out, const struct wr_admission_now *now)
{
    static const struct {
        const char *key;
        size_t offset;
    } gauges[] = {
#define ROW(field) {#field, offsetof(struct wr_admission_now, field)}
        ROW(silent),
        ROW(waiting),
        ROW(running),
        ROW(served),
        ROW(idle),
        ROW(limit),
        ROW(peak),
        ROW(delayed),
        ROW(queue),
        ROW(queue_limit),
        ROW(queue_age_most),
        ROW(wait_most),
        ROW(busy_most),
        ROW(cost_full_most),
        ROW(cost_resumed_most),
        ROW(cost_trusted_most),
#undef ROW
    };
    (void)fputs("\"now\":{", out);
    for (size_t i = 0; i < WR_COUNT_OF(gauges); i++) {
        uint64_t value;
        memcpy(&value, (const char *)now + gauges[i].offset, sizeof(value));
        (void)fprintf(out, "%s\"%s\":", i > 0 ? "," : "", gauges[i].key);
        if (value == WR_NEVER)
            (void)fputs("null", out);
        else
            (void)fprintf(out, "%" PRIu64, value);
    }
    (void)fputs("},", out);
}

/* Our own sentences have nothing in them that JSON would want escaped. */
static void json_reasons(FILE *out, const struct wr_admission_view *view)
{
    const char *comma = "";
    (void)fputs("\"reasons\":[", out);
    for (size_t i = 0; i < wr_words_count(); i++) {
        struct wr_words_finding finding = wr_words_finding(i, view);
        if (finding.ten == 0)
            continue;
        (void)fprintf(out,
                      "%s{\"reason\":\"%s\",\"cause\":\"%s\",\"last\":%" PRIu64 ",\"ten\":%" PRIu64
                      ",\"text\":\"",
                      comma, finding.reason, finding.cause, finding.last, finding.ten);
        wr_words_explain(out, i, view);
        (void)fputs("\"}", out);
        comma = ",";
    }
    (void)fputc(']', out);
}

static void json_listener(FILE *out, const struct wr_admission_view *view,
                          const struct wr_requests_view *requests)
{
    (void)fputs("{\"name\":\"", out);
    wr_page_put_name(out, view->name);
    (void)fprintf(out, "\",\"tls\":%s,\"state\":\"%s\",\"text\":\"", view->tls ? "true" : "false",
                  wr_words_state_label(wr_signs_state(view)));
    wr_words_state(out, view);
    (void)fputs("\",", out);
    json_counts(out, "last", &view->last);
    json_counts(out, "ten", &view->ten);
    json_counts(out, "total", &view->total);
    json_now(out, &view->now);
    json_reasons(out, view);
    (void)fputs(",\"requests\":{", out);
    wr_requests_put_json(out, requests);
    (void)fputs("}}", out);
}

/* ---- the page ---- */

static void put_listeners(FILE *out, const struct wr_admission_sources *from,
                          enum wr_admission_format format, uint64_t now)
{
    struct wr_admission_view view;
    struct wr_requests_view requests;
    for (size_t i = 0; i < from->snapshot->listener_count; i++) {
        wr_admission_watch_view(from->connections, i, from->draining, now, &view);
        wr_requests_watch_listener(from->requests, i, now, &requests);
        if (format == WR_ADMISSION_JSON) {
            (void)fputs(i > 0 ? "," : "", out);
            json_listener(out, &view, &requests);
            continue;
        }
        if (i == 0)
            text_process(out, &view);
        text_listener(out, &view, &requests);
    }
}

static void put_clusters(FILE *out, const struct wr_admission_sources *from,
                         enum wr_admission_format format, uint64_t now)
{
    struct wr_requests_view requests;
    for (size_t i = 0; i < from->snapshot->cluster_count; i++) {
        wr_requests_watch_cluster(from->requests, i, now, &requests);
        if (format == WR_ADMISSION_JSON)
            wr_requests_put_json_cluster(out, &requests, i == 0);
        else
            wr_requests_put_text_cluster(out, &requests);
    }
}

char *wr_admission_page_render(const struct wr_admission_sources *from,
                               enum wr_admission_format format, uint64_t now, size_t *length)
{
    char *text;
    FILE *out = wr_page_open(&text, length);
    bool json = format == WR_ADMISSION_JSON;
    (void)fputs(json ? "{\"listeners\":[" : "", out);
    put_listeners(out, from, format, now);
    (void)fputs(json ? "],\"clusters\":[" : "", out);
    put_clusters(out, from, format, now);
    (void)fputs(json ? "]}\n" : "", out);
    wr_page_close(out);
    return text;
}
