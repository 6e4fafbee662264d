/* Facts: counters over windows of time, gauges over workers. */
#include <criterion/criterion.h>

#include "base/time.h"
#include "server/admission_watch.h"

#define START (1000 * WR_SEC)

static const struct wr_snapshot_listener listeners[] = {
    {.downstream = {.name = "a"}},
    {.downstream = {.name = "b"}},
};
static const struct wr_snapshot snapshot = {
    .workers = 2, .listeners = listeners, .listener_count = 2, .signers = {.threads = 1}};
static struct wr_metrics_registry *registry;
static struct wr_listener_metrics *one;
static struct wr_listener_metrics *two;
static struct wr_listener_metrics *other;
static struct wr_admission_watch *watch;
static struct wr_admission_view view;

static void start(void)
{
    registry = wr_metrics_registry_new();
    one = wr_metrics_new_listener(registry, "a");
    other = wr_metrics_new_listener(registry, "b");
    two = wr_metrics_new_listener(registry, "a");
    watch = wr_admission_watch_new(registry, &snapshot, START);
}

static void stop(void)
{
    wr_admission_watch_free(watch);
    wr_metrics_registry_free(registry);
}

TestSuite(watch, .init = start, .fini = stop);

static void look_at(uint64_t after)
{
    wr_admission_watch_view(watch, 0, false, START + after, &view);
}

Test(watch, at_the_start_there_is_nothing)
{
    look_at(0);
    cr_assert_str_eq(view.name, "a");
    cr_assert_eq(view.workers, 2);
    cr_assert(view.signers);
    cr_assert_not(view.tls);
    cr_assert_eq(view.calm, WR_NEVER);
    cr_assert_eq(view.total.accepted + view.ten.accepted + view.last.accepted, 0);
    wr_admission_watch_free(NULL);
}

Test(watch, counts_are_sums_of_workers_over_the_last_seconds)
{
    /* Ten connections a second in each of two workers, for twenty seconds. */
    for (unsigned i = 1; i <= 80; i++) {
        wr_admission_watch_look(watch, START + i * WR_SEC / 4);
        if (i % 4 == 0) {
            wr_metric_add(&one->connections_accepted, 10);
            wr_metric_add(&two->connections_accepted, 10);
        }
    }
    wr_metric_add(&other->connections_accepted, 1000);
    look_at(20 * WR_SEC + 500 * WR_MSEC);
    cr_expect_eq(view.total.accepted, 400);
    cr_expect_eq(view.total.usec, 20 * WR_SEC + 500 * WR_MSEC);
    cr_expect_eq(view.last.usec, 1500 * WR_MSEC, "a sample that is a second old at least");
    cr_expect_eq(view.last.accepted, 40, "samples are taken before they come");
    cr_expect_eq(view.ten.usec, 10 * WR_SEC + 500 * WR_MSEC);
    cr_expect_eq(view.ten.accepted, 220);
    wr_admission_watch_view(watch, 1, true, START + 20 * WR_SEC + 500 * WR_MSEC, &view);
    cr_expect_eq(view.ten.accepted, 1000);
    cr_expect(view.draining);
}

Test(watch, in_the_first_seconds_windows_are_as_long_as_there_is_a_past)
{
    wr_metric_add(&one->connections_accepted, 7);
    look_at(300 * WR_MSEC);
    cr_expect_eq(view.last.usec, 300 * WR_MSEC);
    cr_expect_eq(view.ten.usec, 300 * WR_MSEC);
    cr_expect_eq(view.last.accepted, 7);
}

Test(watch, a_stalled_thread_makes_a_window_longer_and_not_wrong)
{
    wr_metric_add(&one->connections_accepted, 5);
    wr_admission_watch_look(watch, START + 30 * WR_SEC);
    look_at(31 * WR_SEC);
    cr_expect_eq(view.ten.usec, 31 * WR_SEC);
    cr_expect_eq(view.ten.accepted, 5);
    cr_expect_eq(view.last.usec, WR_SEC);
    cr_expect_eq(view.last.accepted, 0);
}

Test(watch, remembers_when_it_was_last_refused)
{
    wr_metric_inc(&two->connections_refused[WR_REFUSAL_ABANDONED]);
    look_at(100 * WR_MSEC);
    cr_expect_eq(view.calm, WR_NEVER, "that was not by weir");
    wr_metric_inc(&two->connections_refused[WR_REFUSAL_DENIED]);
    wr_admission_watch_look(watch, START + WR_SEC);
    for (unsigned i = 2; i <= 30; i++)
        wr_admission_watch_look(watch, START + i * WR_SEC);
    look_at(30 * WR_SEC);
    cr_expect_eq(view.calm, 29 * WR_SEC);
    cr_expect_eq(wr_admission_counts_refused(&view.ten), 0);
    cr_expect_eq(wr_admission_counts_refused(&view.total), 1);
    /* One that no sample has seen yet. */
    wr_metric_inc(&two->connections_refused[WR_REFUSAL_RATE_LIMITED]);
    look_at(30 * WR_SEC + 1);
    cr_expect_eq(view.calm, 0);
}

Test(watch, what_the_kernel_counts_may_begin_anew)
{
    wr_metric_set(&one->accept_drops, 100);
    wr_admission_watch_look(watch, START + WR_SEC);
    wr_metric_set(&one->accept_drops, 3);
    look_at(2 * WR_SEC);
    cr_expect_eq(view.last.dropped, 0);
}

Test(watch, gauges_are_sums_or_the_most)
{
    wr_metric_set(&one->connections_silent, 3);
    wr_metric_set(&two->connections_silent, 4);
    wr_metric_set(&one->handshakes_running, 5);
    wr_metric_set(&two->handshakes_waiting, 6);
    wr_metric_set(&one->connections_idle, 7);
    wr_metric_set(&one->connections_active, 8);
    wr_metric_set(&two->connections_closing, 9);
    wr_metric_set(&one->cost_full, 500);
    wr_metric_set(&two->cost_full, 600);
    wr_metric_set(&one->oldest_wait, 70);
    wr_metric_set(&one->backlog_busy, 80);
    wr_metric_set(&one->handshakes_limit, 100);
    wr_metric_set(&two->handshakes_limit, 100);
    wr_metric_set(&one->accept_queue_limit, 512);
    wr_metric_set(&two->accept_queue_limit, 512);
    look_at(WR_SEC);
    cr_expect_eq(view.now.silent, 7);
    cr_expect_eq(view.now.silent_most, 4);
    cr_expect_eq(view.now.running, 5);
    cr_expect_eq(view.now.waiting, 6);
    cr_expect_eq(view.now.idle, 7);
    cr_expect_eq(view.now.served, 24);
    cr_expect_eq(view.now.open_most, 3 + 5 + 7 + 8);
    cr_expect_eq(view.now.cost_full_most, 600);
    cr_expect_eq(view.now.wait_most, 70);
    cr_expect_eq(view.now.busy_most, 80);
    cr_expect_eq(view.now.limit, 200);
    cr_expect_eq(view.now.queue_limit, 1024);
    wr_metric_set(&one->handshakes_limit, WR_ADMISSION_NO_LIMIT);
    look_at(WR_SEC);
    cr_expect_eq(view.now.limit, WR_NEVER);
}

Test(watch, quantiles_never_promise_too_much)
{
    uint64_t buckets[WR_HISTOGRAM_BUCKETS] = {0};
    cr_expect_eq(wr_admission_quantile(buckets, 900), 0);
    buckets[2] = 9; /* up to 250 us */
    buckets[5] = 1; /* up to 2.5 ms */
    cr_expect_eq(wr_admission_quantile(buckets, 500), 250);
    cr_expect_eq(wr_admission_quantile(buckets, 900), 250);
    cr_expect_eq(wr_admission_quantile(buckets, 901), 2500);
    buckets[WR_HISTOGRAM_BUCKETS - 1] = 10;
    cr_expect_eq(wr_admission_quantile(buckets, 500), 2500);
    cr_expect_eq(wr_admission_quantile(buckets, 990), WR_NEVER);
}
