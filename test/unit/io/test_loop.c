/* The turn of the loop: deferred work, releases, deadlines, the wake. Descriptors are in test_loop_io.c. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/time.h"
#include "io/loop.h"

static struct wr_loop *loop;
static char trace[256]; /* one character a thing that happened */

static void note(char c)
{
    size_t n = strlen(trace);
    if (n + 1 < sizeof trace)
        trace[n] = c;
}

static void setup_simulated(void)
{
    cr_assert_eq(wr_loop_new(WR_CLOCK_SIMULATED, &loop), WR_OK);
}

static void setup_monotonic(void)
{
    cr_assert_eq(wr_loop_new(WR_CLOCK_MONOTONIC, &loop), WR_OK);
}

static void teardown(void)
{
    wr_loop_free(loop);
}

TestSuite(loop, .init = setup_simulated, .fini = teardown);
TestSuite(loop_real, .init = setup_monotonic, .fini = teardown, .timeout = 20);

/* ---- deferred work ---- */

struct job {
    struct wr_task task;
    struct wr_garbage garbage;
    char name;
    struct job *then; /* deferred by this one */
    bool next_turn;
};

static void run_job(struct wr_task *task)
{
    struct job *job = WR_CONTAINER_OF(task, struct job, task);
    note(job->name);
    if (job->then == NULL)
        return;
    if (job->next_turn)
        wr_loop_defer_next(loop, &job->then->task);
    else
        wr_loop_defer(loop, &job->then->task);
}

static void job_init(struct job *job, char name)
{
    memset(job, 0, sizeof *job);
    job->name = name;
    wr_task_init(&job->task, run_job);
}

Test(loop, tasks_run_once_in_order)
{
    struct job a, b, c;
    job_init(&a, 'a');
    job_init(&b, 'b');
    job_init(&c, 'c');
    a.then = &c;
    wr_loop_defer(loop, &a.task);
    wr_loop_defer(loop, &b.task);
    wr_loop_defer(loop, &a.task);
    wr_loop_defer_next(loop, &a.task);
    wr_loop_turn(loop, 0);
    cr_assert_str_eq(trace, "abc");
    wr_loop_turn(loop, 0);
    cr_assert_str_eq(trace, "abc");
}

Test(loop, a_cancelled_task_does_not_run)
{
    struct job a, b;
    job_init(&a, 'a');
    job_init(&b, 'b');
    wr_loop_defer(loop, &a.task);
    wr_loop_defer_next(loop, &b.task);
    wr_task_cancel(&a.task);
    wr_task_cancel(&b.task);
    wr_task_cancel(&b.task);
    wr_loop_turn(loop, 0);
    wr_loop_turn(loop, 0);
    cr_assert_str_eq(trace, "");
}

static struct job *victim;

static void cancel_victim(struct wr_task *task)
{
    (void)task;
    note('x');
    wr_task_cancel(&victim->task);
    free(victim);
}

Test(loop, a_task_may_cancel_and_free_one_of_its_round)
{
    struct wr_task killer;
    wr_task_init(&killer, cancel_victim);
    victim = malloc(sizeof *victim);
    job_init(victim, 'v');
    struct job c;
    job_init(&c, 'c');
    wr_loop_defer(loop, &killer);
    wr_loop_defer(loop, &victim->task);
    wr_loop_defer(loop, &c.task);
    wr_loop_turn(loop, 0);
    cr_assert_str_eq(trace, "xc");
}

Test(loop, defer_next_is_the_next_turn_which_does_not_wait)
{
    struct job a, b;
    job_init(&a, 'a');
    job_init(&b, 'b');
    a.then = &b;
    a.next_turn = true;
    wr_loop_defer(loop, &a.task);
    wr_loop_turn(loop, 0);
    cr_assert_str_eq(trace, "a");
    uint64_t before = wr_time_monotonic();
    wr_loop_turn(loop, 10 * WR_SEC);
    cr_assert_str_eq(trace, "ab");
    cr_assert_lt(wr_time_monotonic() - before, 5 * WR_SEC);
}

static size_t endless_runs;

static void run_endless(struct wr_task *task)
{
    endless_runs++;
    wr_loop_defer(loop, task);
}

Test(loop, a_task_that_defers_itself_for_ever_does_not_hold_the_turn)
{
    struct wr_task task;
    wr_task_init(&task, run_endless);
    wr_loop_defer(loop, &task);
    wr_loop_turn(loop, 0);
    size_t first = endless_runs;
    cr_assert(first > 1 && first <= 64, "%zu", first);
    wr_loop_turn(loop, 10 * WR_SEC); /* does not wait */
    cr_assert_eq(endless_runs, 2 * first);
    wr_task_cancel(&task);
}

/* ---- releases ---- */

static void release_job(struct wr_garbage *garbage)
{
    struct job *job = WR_CONTAINER_OF(garbage, struct job, garbage);
    note(job->name);
    if (job->then != NULL)
        wr_loop_release(loop, &job->then->garbage, release_job);
    free(job);
}

static struct job *new_job(char name)
{
    struct job *job = malloc(sizeof *job);
    job_init(job, name);
    return job;
}

Test(loop, releases_come_last_and_in_order)
{
    struct job *a = new_job('A'), *b = new_job('B');
    a->then = new_job('C');
    struct job task;
    job_init(&task, 't');
    wr_loop_release(loop, &a->garbage, release_job);
    wr_loop_release(loop, &b->garbage, release_job);
    wr_loop_defer(loop, &task.task);
    cr_assert_str_eq(trace, "");
    wr_loop_turn(loop, 0);
    cr_assert_str_eq(trace, "tABC");
}

Test(loop, freeing_the_loop_runs_tasks_and_releases)
{
    struct job *a = new_job('A');
    struct job task, next;
    job_init(&task, 't');
    job_init(&next, 'n');
    wr_loop_release(loop, &a->garbage, release_job);
    wr_loop_defer(loop, &task.task);
    wr_loop_defer_next(loop, &next.task);
    wr_loop_free(loop);
    loop = NULL;
    cr_assert_str_eq(trace, "tnA");
}

/* ---- deadlines, simulated ---- */

struct alarm {
    struct wr_deadline deadline;
    char name;
    uint64_t fired_at;
    uint64_t repeat; /* set again that much later; WR_NEVER: no */
    size_t count;
    struct job *job;
};

static void ring(struct wr_deadline *deadline, uint64_t now)
{
    struct alarm *alarm = WR_CONTAINER_OF(deadline, struct alarm, deadline);
    cr_assert_eq(now, wr_loop_now(loop));
    note(alarm->name);
    alarm->fired_at = now;
    alarm->count++;
    if (alarm->job != NULL)
        wr_loop_defer(loop, &alarm->job->task);
    if (alarm->repeat != WR_NEVER)
        wr_loop_deadline_set(loop, deadline, now + alarm->repeat);
}

static void alarm_init(struct alarm *alarm, char name)
{
    memset(alarm, 0, sizeof *alarm);
    alarm->name = name;
    alarm->repeat = WR_NEVER;
    wr_deadline_init(&alarm->deadline, ring);
}

static void alarm_in(struct alarm *alarm, uint64_t usec)
{
    wr_loop_deadline_set(loop, &alarm->deadline, wr_loop_now(loop) + usec);
}

Test(loop, simulated_time_stands_still)
{
    struct alarm a;
    alarm_init(&a, 'a');
    uint64_t start = wr_loop_now(loop);
    uint64_t wall = wr_loop_wall(loop);
    alarm_in(&a, 5 * WR_MSEC);
    usleep(20000);
    wr_loop_turn(loop, 20 * WR_MSEC);
    cr_assert_eq(wr_loop_refresh_now(loop), start);
    cr_assert_str_eq(trace, "");
    wr_loop_advance(loop, 10 * WR_MSEC);
    cr_assert_str_eq(trace, "a");
    cr_assert_eq(wr_loop_now(loop), start + 10 * WR_MSEC);
    cr_assert_eq(wr_loop_wall(loop), wall + 10 * WR_MSEC);
}

Test(loop, advance_fires_in_order_and_on_time)
{
    struct alarm a, b, c, gone;
    struct job job;
    alarm_init(&a, 'a');
    alarm_init(&b, 'b');
    alarm_init(&c, 'c');
    alarm_init(&gone, 'x');
    job_init(&job, 'j');
    uint64_t start = wr_loop_now(loop);
    b.job = &job;
    alarm_in(&c, 3600 * WR_SEC);
    alarm_in(&b, 2 * WR_SEC);
    alarm_in(&a, 30 * WR_MSEC);
    alarm_in(&gone, 1 * WR_SEC);
    wr_loop_deadline_remove(loop, &gone.deadline);
    wr_loop_deadline_remove(loop, &gone.deadline);
    wr_loop_advance(loop, 2 * 3600 * WR_SEC);
    cr_assert_str_eq(trace, "abjc", "a task runs before the next deadline");
    cr_assert(a.fired_at >= start + 30 * WR_MSEC && a.fired_at <= start + 32 * WR_MSEC);
    cr_assert(b.fired_at >= start + 2 * WR_SEC && b.fired_at <= start + 2002 * WR_MSEC);
    cr_assert(c.fired_at >= start + 3600 * WR_SEC && c.fired_at <= start + 3600002 * WR_MSEC);
}

Test(loop, advance_stops_short_of_what_is_later)
{
    struct alarm a;
    alarm_init(&a, 'a');
    alarm_in(&a, 10 * WR_SEC);
    wr_loop_advance(loop, 10 * WR_SEC - 1);
    cr_assert_str_eq(trace, "");
    wr_loop_advance(loop, 2 * WR_MSEC + 1);
    cr_assert_str_eq(trace, "a");
}

Test(loop, a_deadline_moved_later_fires_later)
{
    struct alarm a;
    alarm_init(&a, 'a');
    alarm_in(&a, 1 * WR_SEC);
    for (int i = 0; i < 10; i++) {
        wr_loop_advance(loop, 500 * WR_MSEC);
        alarm_in(&a, 1 * WR_SEC);
    }
    cr_assert_eq(a.count, 0);
    wr_loop_advance(loop, 1002 * WR_MSEC);
    cr_assert_eq(a.count, 1);
}

Test(loop, a_deadline_set_again_for_now_does_not_stop_the_clock, .timeout = 10)
{
    struct alarm a;
    alarm_init(&a, 'a');
    a.repeat = 0;
    alarm_in(&a, 0);
    uint64_t start = wr_loop_now(loop);
    wr_loop_advance(loop, 50 * WR_MSEC);
    cr_assert_eq(wr_loop_now(loop), start + 50 * WR_MSEC);
    cr_assert(a.count >= 10 && a.count <= 200, "%zu", a.count);
    wr_loop_deadline_remove(loop, &a.deadline);
}

Test(loop, periodic)
{
    struct alarm a;
    alarm_init(&a, 'a');
    a.repeat = 100 * WR_MSEC;
    alarm_in(&a, 100 * WR_MSEC);
    wr_loop_advance(loop, 10 * WR_SEC);
    cr_assert(a.count >= 97 && a.count <= 100, "%zu", a.count);
    wr_loop_deadline_remove(loop, &a.deadline);
}

Test(loop, what_is_deferred_runs_before_time_moves)
{
    struct alarm a;
    struct job job;
    alarm_init(&a, 'a');
    job_init(&job, 'j');
    alarm_in(&a, 1 * WR_MSEC);
    wr_loop_defer_next(loop, &job.task);
    wr_loop_advance(loop, 10 * WR_MSEC);
    cr_assert_str_eq(trace, "ja");
}

/* ---- the real clock ---- */

static void ring_and_stop(struct wr_deadline *deadline, uint64_t now)
{
    ring(deadline, now);
    wr_loop_stop(loop);
}

static uint64_t cpu_usec(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * WR_SEC +
           (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

Test(loop_real, deadlines_fire_without_spinning)
{
    struct alarm a, stop;
    alarm_init(&a, 'a');
    alarm_init(&stop, 's');
    stop.deadline.expired = ring_and_stop;
    uint64_t start = wr_loop_now(loop);
    alarm_in(&stop, 300 * WR_MSEC);
    alarm_in(&a, 100 * WR_MSEC);
    uint64_t cpu = cpu_usec();
    wr_loop_run(loop);
    cr_assert_str_eq(trace, "as");
    cr_assert_geq(a.fired_at, start + 100 * WR_MSEC);
    cr_assert_geq(stop.fired_at, start + 300 * WR_MSEC);
    cr_assert_lt(stop.fired_at, start + 10 * WR_SEC);
    cr_assert_leq(wr_loop_turns(loop), 20);
    cr_assert_lt(cpu_usec() - cpu, 200 * WR_MSEC);
}

Test(loop_real, an_earlier_deadline_set_later_is_not_missed)
{
    struct alarm late, early;
    alarm_init(&late, 'l');
    alarm_init(&early, 'e');
    alarm_in(&late, 60 * WR_SEC);
    wr_loop_turn(loop, 0);
    alarm_in(&early, 20 * WR_MSEC);
    early.deadline.expired = ring_and_stop;
    uint64_t before = wr_time_monotonic();
    wr_loop_run(loop);
    cr_assert_lt(wr_time_monotonic() - before, 10 * WR_SEC);
    cr_assert_str_eq(trace, "e");
    wr_loop_deadline_remove(loop, &late.deadline);
}

Test(loop_real, a_turn_waits_no_longer_than_told)
{
    uint64_t before = wr_time_monotonic();
    wr_loop_turn(loop, 30 * WR_MSEC);
    uint64_t waited = wr_time_monotonic() - before;
    cr_assert(waited >= 20 * WR_MSEC && waited < 5 * WR_SEC, "%lu", (unsigned long)waited);
    before = wr_time_monotonic();
    wr_loop_turn(loop, 0);
    cr_assert_lt(wr_time_monotonic() - before, 5 * WR_SEC);
}

Test(loop_real, now_is_read_once_a_turn)
{
    uint64_t first = wr_loop_now(loop);
    usleep(2000);
    cr_assert_eq(wr_loop_now(loop), first);
    cr_assert_geq(wr_loop_refresh_now(loop), first + 2000);
    usleep(2000);
    wr_loop_turn(loop, 0);
    cr_assert_geq(wr_loop_now(loop), first + 4000);
    cr_assert_leq(wr_loop_now(loop), wr_time_monotonic());
    uint64_t wall = wr_time_wall();
    cr_assert_lt(wr_loop_wall(loop), wall + 5 * WR_SEC);
    cr_assert_gt(wr_loop_wall(loop), wall - 5 * WR_SEC);
}

static void work_hard(struct wr_task *task)
{
    (void)task;
    usleep(20000);
}

Test(loop_real, lag_is_the_time_the_turn_was_busy)
{
    struct wr_task task;
    wr_task_init(&task, work_hard);
    wr_loop_defer(loop, &task);
    wr_loop_turn(loop, 0);
    cr_assert_geq(wr_loop_lag(loop), 20 * WR_MSEC);
    wr_loop_turn(loop, 30 * WR_MSEC);
    cr_assert_lt(wr_loop_lag(loop), 20 * WR_MSEC, "waiting is not work");
    cr_assert_eq(wr_loop_turns(loop), 2);
}

Test(loop_real, stop_before_run)
{
    wr_loop_stop(loop);
    wr_loop_run(loop);
    cr_assert_eq(wr_loop_turns(loop), 0);
}

/* ---- the wake ---- */

static void *wake_soon(void *arg)
{
    (void)arg;
    usleep(20000);
    for (int i = 0; i < 1000; i++)
        wr_loop_wake(loop);
    return NULL;
}

Test(loop_real, wake_ends_a_wait)
{
    pthread_t thread;
    pthread_create(&thread, NULL, wake_soon, NULL);
    uint64_t before = wr_time_monotonic();
    wr_loop_turn(loop, 15 * WR_SEC);
    cr_assert_lt(wr_time_monotonic() - before, 10 * WR_SEC);
    pthread_join(thread, NULL);
    /* What came meanwhile is used up soon: no spinning. */
    wr_loop_turn(loop, 0);
    before = wr_time_monotonic();
    wr_loop_turn(loop, 50 * WR_MSEC);
    cr_assert_geq(wr_time_monotonic() - before, 30 * WR_MSEC);
}

Test(loop_real, a_wake_before_the_wait_is_not_lost)
{
    for (int i = 0; i < 3; i++) {
        wr_loop_wake(loop);
        uint64_t before = wr_time_monotonic();
        wr_loop_turn(loop, 15 * WR_SEC);
        cr_assert_lt(wr_time_monotonic() - before, 10 * WR_SEC);
    }
}
