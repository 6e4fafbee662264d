#include <criterion/criterion.h>

#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "observe/metrics.h"

static char *render(struct wr_metrics_registry *registry)
{
    size_t n;
    char *text = wr_metrics_render(registry, &n);
    cr_assert_eq(strlen(text), n);
    return text;
}

/* The value of the line that starts with SERIES and a space. */
static const char *value_of(const char *text, const char *series)
{
    static char value[64];
    size_t n = strlen(series);
    for (const char *line = text; *line != '\0'; line = strchr(line, '\n') + 1) {
        if (strncmp(line, series, n) == 0 && line[n] == ' ') {
            (void)snprintf(value, sizeof(value), "%.*s", (int)strcspn(line + n + 1, "\n"),
                           line + n + 1);
            return value;
        }
    }
    return "(no such line)";
}

Test(metrics, of_nothing_nothing_is_told)
{
    struct wr_metrics_registry *registry = wr_metrics_registry_new();
    char *text = render(registry);
    cr_assert_str_empty(text);
    free(text);
    wr_metrics_registry_free(registry);
    wr_metrics_registry_free(NULL);
}

Test(metrics, blocks_are_cleared_and_alone_on_their_cache_lines)
{
    struct wr_metrics_registry *registry = wr_metrics_registry_new();
    for (int i = 0; i < 8; i++) {
        struct wr_worker_metrics *worker = wr_metrics_new_worker(registry);
        cr_assert_eq((uintptr_t)worker % 64, 0);
        cr_assert_eq(wr_metric_get(&worker->loop_turns), 0);
        cr_assert_eq(wr_metric_get(&worker->loop_lag.sum_usec), 0);
    }
    wr_metrics_registry_free(registry);
}

Test(metrics, a_family_as_text)
{
    struct wr_metrics_registry *registry = wr_metrics_registry_new();
    struct wr_worker_metrics *worker = wr_metrics_new_worker(registry);
    wr_metric_add(&worker->loop_turns, 41);
    wr_metric_inc(&worker->loop_turns);
    char *text = render(registry);
    cr_assert_not_null(strstr(text, "# HELP weir_loop_turns_total Turns of the event loops.\n"
                                    "# TYPE weir_loop_turns_total counter\n"
                                    "weir_loop_turns_total 42\n"));
    cr_assert_null(strstr(text, "weir_requests_total"), "a family without blocks");
    free(text);
    wr_metrics_registry_free(registry);
}

Test(metrics, blocks_of_one_label_are_summed_others_are_not)
{
    struct wr_metrics_registry *registry = wr_metrics_registry_new();
    struct wr_worker_metrics *one = wr_metrics_new_worker(registry);
    struct wr_worker_metrics *two = wr_metrics_new_worker(registry);
    struct wr_listener_metrics *a1 = wr_metrics_new_listener(registry, "a");
    struct wr_listener_metrics *b = wr_metrics_new_listener(registry, "b");
    struct wr_listener_metrics *a2 = wr_metrics_new_listener(registry, "a");
    struct wr_cluster_metrics *cluster = wr_metrics_new_cluster(registry, "a");
    wr_metric_add(&one->loop_turns, 5);
    wr_metric_add(&two->loop_turns, 6);
    wr_metric_add(&a1->connections_accepted, 1);
    wr_metric_add(&a2->connections_accepted, 2);
    wr_metric_add(&b->connections_accepted, 4);
    wr_metric_add(&a1->requests[2], 10);
    wr_metric_add(&a2->requests[2], 20);
    wr_metric_add(&a2->requests[0], 1);
    wr_metric_set(&cluster->upstream_idle, 9);

    char *text = render(registry);
    cr_assert_str_eq(value_of(text, "weir_loop_turns_total"), "11");
    cr_assert_str_eq(value_of(text, "weir_connections_accepted_total{listener=\"a\"}"), "3");
    cr_assert_str_eq(value_of(text, "weir_connections_accepted_total{listener=\"b\"}"), "4");
    cr_assert_str_eq(value_of(text, "weir_requests_total{listener=\"a\",class=\"2xx\"}"), "30");
    cr_assert_str_eq(value_of(text, "weir_requests_total{listener=\"a\",class=\"none\"}"), "1");
    cr_assert_str_eq(value_of(text, "weir_requests_total{listener=\"b\",class=\"2xx\"}"), "0");
    cr_assert_str_eq(value_of(text, "weir_upstream_connections_idle{cluster=\"a\"}"), "9");
    free(text);
    wr_metrics_registry_free(registry);
}

Test(metrics, of_some_gauges_the_most_is_told)
{
    struct wr_metrics_registry *registry = wr_metrics_registry_new();
    struct wr_listener_metrics *one = wr_metrics_new_listener(registry, "a");
    struct wr_listener_metrics *two = wr_metrics_new_listener(registry, "a");
    wr_metric_set(&one->cost_full, 500);
    wr_metric_set(&two->cost_full, 545);
    wr_metric_set(&one->accept_queue_limit, 512);
    wr_metric_set(&two->accept_queue_limit, 512);
    char *text = render(registry);
    cr_assert_str_eq(value_of(text, "weir_handshake_cost_full_microseconds{listener=\"a\"}"),
                     "545");
    cr_assert_str_eq(value_of(text, "weir_accept_queue_limit{listener=\"a\"}"), "1024");
    cr_assert_not_null(strstr(text, "# TYPE weir_handshake_cost_full_microseconds gauge\n"));
    free(text);
    wr_metrics_registry_free(registry);
}

static void add_accepted(const struct wr_listener_metrics *metrics, void *arg)
{
    *(uint64_t *)arg += wr_metric_get(&metrics->connections_accepted);
}

static void add_turns(const struct wr_worker_metrics *metrics, void *arg)
{
    *(uint64_t *)arg += wr_metric_get(&metrics->loop_turns);
}

Test(metrics, blocks_can_be_looked_at)
{
    struct wr_metrics_registry *registry = wr_metrics_registry_new();
    uint64_t accepted = 0;
    uint64_t turns = 0;
    wr_metric_add(&wr_metrics_new_listener(registry, "a")->connections_accepted, 1);
    wr_metric_add(&wr_metrics_new_listener(registry, "b")->connections_accepted, 10);
    wr_metric_add(&wr_metrics_new_listener(registry, "a")->connections_accepted, 100);
    (void)wr_metrics_new_cluster(registry, "a");
    wr_metric_add(&wr_metrics_new_worker(registry)->loop_turns, 5);
    wr_metric_add(&wr_metrics_new_worker(registry)->loop_turns, 6);
    wr_metrics_each_listener(registry, "a", add_accepted, &accepted);
    wr_metrics_each_worker(registry, add_turns, &turns);
    cr_assert_eq(accepted, 101);
    cr_assert_eq(turns, 11);
    wr_metrics_registry_free(registry);
}

/* A connection may be counted up in one block and down in another: the sum is what counts. */
Test(metrics, gauges_go_down_and_wrong_ones_show_as_negative)
{
    struct wr_metrics_registry *registry = wr_metrics_registry_new();
    struct wr_worker_metrics *one = wr_metrics_new_worker(registry);
    struct wr_worker_metrics *two = wr_metrics_new_worker(registry);
    wr_metric_add(&one->exchanges_active, 3);
    wr_metric_dec(&two->exchanges_active);
    wr_metric_dec(&two->chunk_bytes);
    char *text = render(registry);
    cr_assert_str_eq(value_of(text, "weir_requests_active"), "2");
    cr_assert_str_eq(value_of(text, "weir_buffer_bytes"), "-1");
    free(text);
    wr_metrics_registry_free(registry);
}

Test(metrics, histogram_bounds_ascend)
{
    for (unsigned i = 1; i < WR_HISTOGRAM_BUCKETS; i++)
        cr_assert_gt(wr_histogram_bounds[i], wr_histogram_bounds[i - 1]);
    cr_assert_eq(wr_histogram_bounds[0], 50);
    cr_assert_eq(wr_histogram_bounds[WR_HISTOGRAM_BUCKETS - 2], 60000000);
    cr_assert_eq(wr_histogram_bounds[WR_HISTOGRAM_BUCKETS - 1], UINT64_MAX);
}

Test(metrics, histograms_are_cumulative_with_inclusive_bounds_in_seconds)
{
    struct wr_metrics_registry *registry = wr_metrics_registry_new();
    struct wr_worker_metrics *one = wr_metrics_new_worker(registry);
    struct wr_worker_metrics *two = wr_metrics_new_worker(registry);
    wr_histogram_record(&one->loop_lag, 0);
    wr_histogram_record(&one->loop_lag, 50);
    wr_histogram_record(&one->loop_lag, 51);
    wr_histogram_record(&two->loop_lag, 2500);
    wr_histogram_record(&two->loop_lag, 60000001);
    char *text = render(registry);
    cr_assert_str_eq(value_of(text, "weir_loop_lag_seconds_bucket{le=\"0.00005\"}"), "2");
    cr_assert_str_eq(value_of(text, "weir_loop_lag_seconds_bucket{le=\"0.0001\"}"), "3");
    cr_assert_str_eq(value_of(text, "weir_loop_lag_seconds_bucket{le=\"0.001\"}"), "3");
    cr_assert_str_eq(value_of(text, "weir_loop_lag_seconds_bucket{le=\"0.0025\"}"), "4");
    cr_assert_str_eq(value_of(text, "weir_loop_lag_seconds_bucket{le=\"60\"}"), "4");
    cr_assert_str_eq(value_of(text, "weir_loop_lag_seconds_bucket{le=\"+Inf\"}"), "5");
    cr_assert_str_eq(value_of(text, "weir_loop_lag_seconds_sum"), "60.002602");
    cr_assert_str_eq(value_of(text, "weir_loop_lag_seconds_count"), "5");
    cr_assert_not_null(strstr(text, "# TYPE weir_loop_lag_seconds histogram\n"));
    free(text);
    wr_metrics_registry_free(registry);
}

Test(metrics, label_values_are_escaped)
{
    struct wr_metrics_registry *registry = wr_metrics_registry_new();
    (void)wr_metrics_new_cluster(registry, "a\"b\\c\nd");
    char *text = render(registry);
    cr_assert_str_eq(value_of(text, "weir_upstream_connects_total{cluster=\"a\\\"b\\\\c\\nd\"}"),
                     "0");
    free(text);
    wr_metrics_registry_free(registry);
}

/* Reads names, labels and values by the grammar of the format; what it cannot read ends the test. */
static const char *read_name(const char *p)
{
    cr_assert(isalpha((unsigned char)*p) || *p == '_', "no name at '%.40s'", p);
    while (isalnum((unsigned char)*p) || *p == '_')
        p++;
    return p;
}

static const char *read_labels(const char *p)
{
    do {
        p = read_name(p + 1);
        cr_assert(p[0] == '=' && p[1] == '"', "no value at '%.40s'", p);
        for (p += 2; *p != '"'; p++) {
            cr_assert(*p != '\0' && *p != '\n');
            if (*p == '\\')
                cr_assert_not_null(strchr("\\\"n", *++p));
        }
        p++;
    } while (*p == ',');
    cr_assert_eq(*p, '}', "no end of labels at '%.40s'", p);
    return p + 1;
}

static bool belongs_to(struct wr_str name, struct wr_str family, bool histogram)
{
    static const char *const suffixes[] = {"_bucket", "_sum", "_count"};
    if (!histogram)
        return wr_str_eq(name, family);
    for (size_t i = 0; i < 3; i++) {
        struct wr_str suffix = wr_str_from(suffixes[i]);
        if (wr_str_starts(name, family) && wr_str_ends(name, suffix) &&
            name.n == family.n + suffix.n)
            return true;
    }
    return false;
}

Test(metrics, the_whole_text_follows_the_grammar)
{
    struct wr_metrics_registry *registry = wr_metrics_registry_new();
    for (int i = 0; i < 3; i++) {
        (void)wr_metrics_new_worker(registry);
        (void)wr_metrics_new_listener(registry, i == 0 ? "x\"" : "y");
        (void)wr_metrics_new_cluster(registry, i == 0 ? "" : "z\\");
    }
    char *text = render(registry);
    struct wr_str family = WR_STR_EMPTY;
    bool histogram = false;
    size_t samples = 0;
    for (const char *line = text, *end; *line != '\0'; line = end + 1) {
        end = strchr(line, '\n');
        cr_assert_not_null(end, "the last line does not end");
        if (strncmp(line, "# HELP ", 7) == 0) {
            family = wr_str(line + 7, (size_t)(read_name(line + 7) - line - 7));
            char again[128];
            (void)snprintf(again, sizeof(again), "\n# HELP %.*s ", WR_STR_ARG(family));
            cr_assert_null(strstr(end, again), "%s twice", again);
        } else if (strncmp(line, "# TYPE ", 7) == 0) {
            const char *type = read_name(line + 7) + 1;
            cr_assert(wr_str_eq(family, wr_str(line + 7, (size_t)(type - 1 - line - 7))));
            histogram = strncmp(type, "histogram\n", 10) == 0;
            cr_assert(histogram || strncmp(type, "counter\n", 8) == 0 ||
                      strncmp(type, "gauge\n", 6) == 0);
        } else {
            const char *p = read_name(line);
            cr_assert(belongs_to(wr_str(line, (size_t)(p - line)), family, histogram), "'%.60s'",
                      line);
            p = *p == '{' ? read_labels(p) : p;
            cr_assert_eq(*p, ' ');
            char *rest;
            (void)strtod(p + 1, &rest);
            cr_assert_eq(rest, end, "no number at '%.40s'", p);
            samples++;
        }
    }
    cr_assert_gt(samples, 300);
    free(text);
    wr_metrics_registry_free(registry);
}

#define TURNS 200000

static void *count(void *argument)
{
    struct wr_worker_metrics *worker = argument;
    for (unsigned i = 0; i < TURNS; i++) {
        wr_metric_inc(&worker->loop_turns);
        wr_histogram_record(&worker->loop_lag, i);
    }
    return NULL;
}

/* A histogram read while it is written still agrees with itself, and counters never go back. */
Test(metrics, are_read_while_they_are_written)
{
    struct wr_metrics_registry *registry = wr_metrics_registry_new();
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, count, wr_metrics_new_worker(registry)), 0);
    unsigned long long before = 0;
    while (before < 2 * TURNS) {
        char *text = render(registry);
        unsigned long long turns = strtoull(value_of(text, "weir_loop_turns_total"), NULL, 10);
        cr_assert_geq(turns, before);
        before = turns;
        unsigned long long inf =
            strtoull(value_of(text, "weir_loop_lag_seconds_bucket{le=\"+Inf\"}"), NULL, 10);
        unsigned long long total =
            strtoull(value_of(text, "weir_loop_lag_seconds_count"), NULL, 10);
        cr_assert_eq(inf, total);
        free(text);
    }
    for (int i = 0; i < 2; i++)
        cr_assert_eq(pthread_join(threads[i], NULL), 0);
    wr_metrics_registry_free(registry);
}
