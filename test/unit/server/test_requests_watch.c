/* Facts of request admission: of listeners and clusters, over windows of time and workers. */
#include <criterion/criterion.h>

#include "base/time.h"
#include "server/requests_watch.h"

#define START (1000 * WR_SEC)

static const struct wr_snapshot_listener listeners[] = {
    {.downstream = {.name = "a", .proxy = {.requests = {.max = 7}}}},
};
static const struct wr_cluster_options clusters[] = {
    {.name = "a"}, /* no relation of the listener */
    {.name = "b", .requests = {.max = 9}},
};
static const struct wr_snapshot snapshot = {.workers = 2,
                                            .listeners = listeners,
                                            .listener_count = 1,
                                            .clusters = clusters,
                                            .cluster_count = 2};
static struct wr_metrics_registry *registry;
static struct wr_listener_metrics *one;
static struct wr_listener_metrics *two;
static struct wr_cluster_metrics *cluster;
static struct wr_requests_watch *watch;
static struct wr_requests_view view;

static void start(void)
{
    registry = wr_metrics_registry_new();
    one = wr_metrics_new_listener(registry, "a");
    two = wr_metrics_new_listener(registry, "a");
    (void)wr_metrics_new_cluster(registry, "a");
    cluster = wr_metrics_new_cluster(registry, "b");
    watch = wr_requests_watch_new(registry, &snapshot, START);
}

static void stop(void)
{
    wr_requests_watch_free(watch);
    wr_metrics_registry_free(registry);
}

TestSuite(requests_watch, .init = start, .fini = stop);

Test(requests_watch, of_a_listener)
{
    for (unsigned i = 1; i <= 20; i++) {
        wr_requests_watch_look(watch, START + i * WR_SEC);
        wr_histogram_record(&one->request_wait, 10);
        wr_histogram_record(&two->request_wait, WR_SEC);
        wr_metric_inc(&two->requests_refused[WR_SHED_QUEUE]);
        wr_metric_inc(&one->requests_rate_limited);
    }
    wr_requests_watch_listener(watch, 0, START + 20 * WR_SEC + 500 * WR_MSEC, &view);
    cr_expect_str_eq(view.name, "a");
    cr_expect_eq(view.options->max, 7);
    cr_expect_not_null(view.routes);
    cr_expect_eq(view.workers, 2);
    cr_expect_eq(view.total.usec, 20 * WR_SEC + 500 * WR_MSEC);
    cr_expect_eq(view.total.admitted, 40);
    cr_expect_eq(view.ten.usec, 10 * WR_SEC + 500 * WR_MSEC);
    cr_expect_eq(view.ten.admitted, 22);
    cr_expect_eq(view.ten.refused[WR_SHED_QUEUE], 11);
    cr_expect_eq(view.ten.rate_limited, 11);
    cr_expect_eq(wr_requests_counts_refused(&view.ten), 22);
    cr_expect_eq(view.last.usec, 1500 * WR_MSEC);
    cr_expect_eq(view.last.admitted, 4);
    wr_requests_watch_free(NULL);
}

Test(requests_watch, just_now)
{
    wr_metric_set(&one->requests_in_flight, 7);
    wr_metric_set(&one->requests_limit, 7);
    wr_metric_set(&two->requests_in_flight, 6);
    wr_metric_set(&two->requests_limit, 7);
    wr_requests_watch_listener(watch, 0, START, &view);
    cr_expect_eq(view.now.in_flight, 13);
    cr_expect_eq(view.now.limit, 14);
    cr_expect_eq(view.now.waiting, 0);
    cr_expect_eq(view.now.full, 1);
    wr_metric_set(&two->requests_waiting, 3);
    wr_requests_watch_listener(watch, 0, START, &view);
    cr_expect_eq(view.now.waiting, 3);
    cr_expect_eq(view.now.full, 2);
    wr_metric_set(&one->requests_limit, 0); /* none: never full */
    wr_metric_set(&two->requests_limit, 0);
    wr_requests_watch_listener(watch, 0, START, &view);
    cr_expect_eq(view.now.full, 0);
}

Test(requests_watch, of_a_cluster)
{
    wr_histogram_record(&cluster->upstream_request_wait, 10);
    wr_metric_inc(&cluster->upstream_requests_refused[WR_SHED_WAIT]);
    wr_metric_set(&cluster->upstream_requests_in_flight, 9);
    wr_metric_set(&cluster->upstream_requests_limit, 9);
    wr_metric_inc(&one->requests_refused[WR_SHED_WAIT]);
    wr_requests_watch_cluster(watch, 1, START + WR_SEC, &view);
    cr_expect_str_eq(view.name, "b");
    cr_expect_eq(view.options->max, 9);
    cr_expect_null(view.routes);
    cr_expect_eq(view.last.admitted, 1);
    cr_expect_eq(wr_requests_counts_refused(&view.last), 1);
    cr_expect_eq(view.now.full, 1);
    wr_requests_watch_cluster(watch, 0, START + WR_SEC, &view);
    cr_expect_eq(view.total.admitted + wr_requests_counts_refused(&view.total), 0);
}
