#include "io/loop.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/time.h>
#include <unistd.h>

#include <event2/event.h>

#include "base/assert.h"
#include "base/mem.h"
#include "base/slab.h"
#include "base/time.h"

/* Tasks deferred by tasks run in the same turn, but not for ever: descriptors must get their turn. */
#define TASK_ROUNDS 16
/* How long the distance of wall clock and monotonic clock is trusted. */
#define WALL_TRUST (1 * WR_SEC)
/* Sockets asked for a hangup by one poll(). */
#define DOUBT_BATCH 64
#define DOUBT_WAIT (10 * WR_MSEC)

/* Behind a pointer, so that asking a const loop for the time can look at the clock. */
struct turn_clock {
    uint64_t now;
    uint64_t wall_offset; /* wall = now + wall_offset, modulo 2^64 */
    uint64_t wall_read_at;
    bool fresh; /* NOW was read in this turn, after the wait */
    bool simulated;
};

struct wr_loop {
    struct turn_clock *clock;
    struct event_base *base;
    struct wr_wheel wheel;
    struct wr_list tasks;      /* for this turn */
    struct wr_list next_tasks; /* for the next one */
    struct wr_list doubts;     /* wr_io: reported both directions and no hangup */
    struct wr_deadline doubt;  /* when they are asked; only wakes the loop */
    struct wr_garbage *garbage;
    struct wr_garbage **garbage_end;
    struct event *wheel_timer; /* the wheel's only timer in libevent */
    uint64_t wheel_timer_at;   /* WR_NEVER: not set */
    struct event *wait_timer;  /* bounds the wait of wr_loop_turn() */
    struct event *wake_event;
    int wake_fd;
    bool stopped;
    uint64_t lag;
    uint64_t turns;
    struct wr_slab events; /* of wr_io */
};

/* ---- time ---- */

static void doubt_due(struct wr_deadline *deadline, uint64_t now);

WR_RARE static void clock_read(struct turn_clock *clock)
{
    clock->fresh = true;
    if (clock->simulated)
        return;
    clock->now = wr_time_monotonic();
    if (clock->now - clock->wall_read_at >= WALL_TRUST) {
        clock->wall_read_at = clock->now;
        clock->wall_offset = wr_time_wall() - clock->now;
    }
}

static void clock_init(struct turn_clock *clock, bool simulated)
{
    clock->simulated = simulated;
    clock->now = wr_time_monotonic();
    clock->wall_read_at = clock->now;
    clock->wall_offset = wr_time_wall() - clock->now;
    clock->fresh = true;
}

/* The first to run after the wait reads the clock for the whole turn. */
static void clock_touch(struct turn_clock *clock)
{
    if (!clock->fresh)
        clock_read(clock);
}

uint64_t wr_loop_now(const struct wr_loop *loop)
{
    clock_touch(loop->clock);
    return loop->clock->now;
}

uint64_t wr_loop_refresh_now(struct wr_loop *loop)
{
    clock_read(loop->clock);
    return loop->clock->now;
}

uint64_t wr_loop_wall(const struct wr_loop *loop)
{
    return wr_loop_now(loop) + loop->clock->wall_offset;
}

uint64_t wr_loop_spent(const struct wr_loop *loop)
{
    return loop->clock->simulated ? 0 : wr_time_since(wr_loop_now(loop), wr_time_monotonic());
}

uint64_t wr_loop_lag(const struct wr_loop *loop)
{
    return loop->lag;
}

uint64_t wr_loop_turns(const struct wr_loop *loop)
{
    return loop->turns;
}

/* ---- life ---- */

static void on_wheel_timer(evutil_socket_t fd, short what, void *arg)
{
    struct wr_loop *loop = arg;
    (void)fd;
    (void)what;
    clock_touch(loop->clock);
    loop->wheel_timer_at = WR_NEVER;
}

static void on_wait_timer(evutil_socket_t fd, short what, void *arg)
{
    struct wr_loop *loop = arg;
    (void)fd;
    (void)what;
    clock_touch(loop->clock);
}

static void on_wake(evutil_socket_t fd, short what, void *arg)
{
    struct wr_loop *loop = arg;
    (void)what;
    clock_touch(loop->clock);
    eventfd_t count;
    (void)eventfd_read(fd, &count);
}

/* No locks in libevent: other threads only write to the eventfd. */
static struct event_base *new_base(void)
{
    struct event_config *config = event_config_new();
    if (config == NULL)
        return NULL;
    struct event_base *base = NULL;
    if (event_config_require_features(config, EV_FEATURE_ET | EV_FEATURE_EARLY_CLOSE) == 0 &&
        event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK | EVENT_BASE_FLAG_IGNORE_ENV) == 0)
        base = event_base_new_with_config(config);
    event_config_free(config);
    return base;
}

static enum wr_err open_base(struct wr_loop *loop)
{
    loop->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (loop->wake_fd < 0)
        return errno == EMFILE || errno == ENFILE ? WR_ERR_NO_DESCRIPTORS : WR_ERR_SYSTEM;
    loop->base = new_base();
    if (loop->base == NULL)
        return errno == EMFILE || errno == ENFILE ? WR_ERR_NO_DESCRIPTORS : WR_ERR_SYSTEM;
    loop->wheel_timer = evtimer_new(loop->base, on_wheel_timer, loop);
    loop->wait_timer = evtimer_new(loop->base, on_wait_timer, loop);
    loop->wake_event = event_new(loop->base, loop->wake_fd, EV_READ | EV_PERSIST, on_wake, loop);
    if (loop->wheel_timer == NULL || loop->wait_timer == NULL || loop->wake_event == NULL)
        return WR_ERR_NO_MEMORY;
    return event_add(loop->wake_event, NULL) == 0 ? WR_OK : WR_ERR_SYSTEM;
}

static void free_event(struct event *event)
{
    if (event != NULL)
        event_free(event);
}

static void close_base(struct wr_loop *loop)
{
    free_event(loop->wheel_timer);
    free_event(loop->wait_timer);
    free_event(loop->wake_event);
    if (loop->base != NULL)
        event_base_free(loop->base);
    if (loop->wake_fd >= 0)
        close(loop->wake_fd);
    wr_slab_clear(&loop->events);
    free(loop->clock);
    free(loop);
}

enum wr_err wr_loop_new(enum wr_loop_clock clock, struct wr_loop **out)
{
    struct wr_loop *loop = WR_NEW(struct wr_loop);
    loop->clock = WR_NEW(struct turn_clock);
    clock_init(loop->clock, clock == WR_CLOCK_SIMULATED);
    wr_wheel_init(&loop->wheel, loop->clock->now);
    wr_list_init(&loop->tasks);
    wr_list_init(&loop->next_tasks);
    wr_list_init(&loop->doubts);
    wr_deadline_init(&loop->doubt, doubt_due);
    wr_slab_init(&loop->events, event_get_struct_event_size());
    loop->garbage_end = &loop->garbage;
    loop->wheel_timer_at = WR_NEVER;
    enum wr_err err = open_base(loop);
    if (err != WR_OK) {
        close_base(loop);
        loop = NULL;
    }
    *out = loop;
    return err;
}

struct event_base *wr_loop_event_base(struct wr_loop *loop)
{
    return loop->base;
}

/* ---- deferred work and garbage ---- */

void wr_task_init(struct wr_task *task, void (*run)(struct wr_task *task))
{
    wr_list_init(&task->link);
    task->run = run;
}

void wr_loop_defer(struct wr_loop *loop, struct wr_task *task)
{
    if (wr_list_empty(&task->link))
        wr_list_push_back(&loop->tasks, &task->link);
}

void wr_loop_defer_next(struct wr_loop *loop, struct wr_task *task)
{
    if (wr_list_empty(&task->link))
        wr_list_push_back(&loop->next_tasks, &task->link);
}

void wr_task_cancel(struct wr_task *task)
{
    wr_list_remove(&task->link);
}

static void run_tasks(struct wr_loop *loop)
{
    for (int i = 0; i < TASK_ROUNDS && !wr_list_empty(&loop->tasks); i++) {
        struct wr_list round;
        wr_list_init(&round);
        wr_list_splice_back(&round, &loop->tasks);
        struct wr_list *link;
        while ((link = wr_list_pop_front(&round)) != NULL) {
            struct wr_task *task = WR_CONTAINER_OF(link, struct wr_task, link);
            task->run(task);
        }
    }
}

void wr_loop_release(struct wr_loop *loop, struct wr_garbage *garbage,
                     void (*release)(struct wr_garbage *garbage))
{
    garbage->next = NULL;
    garbage->release = release;
    *loop->garbage_end = garbage;
    loop->garbage_end = &garbage->next;
}

static void run_releases(struct wr_loop *loop)
{
    while (loop->garbage != NULL) {
        struct wr_garbage *garbage = loop->garbage;
        loop->garbage = garbage->next;
        if (loop->garbage == NULL)
            loop->garbage_end = &loop->garbage;
        garbage->release(garbage);
    }
}

/* ---- deadlines ---- */

void wr_loop_deadline_set(struct wr_loop *loop, struct wr_deadline *deadline, uint64_t at_usec)
{
    wr_wheel_set(&loop->wheel, deadline, at_usec);
}

void wr_loop_deadline_remove(struct wr_loop *loop, struct wr_deadline *deadline)
{
    wr_wheel_remove(&loop->wheel, deadline);
}

static void set_timer(struct event *timer, uint64_t usec)
{
    struct timeval tv = {.tv_sec = (time_t)(usec / WR_SEC),
                         .tv_usec = (suseconds_t)(usec % WR_SEC)};
    int failed = event_add(timer, &tv);
    WR_ASSERT(!failed);
}

/* A timer that is due earlier is left: the turn it brings looks again. */
static void set_wheel_timer(struct wr_loop *loop)
{
    if (loop->clock->simulated)
        return;
    uint64_t next = wr_wheel_next(&loop->wheel);
    if (next >= loop->wheel_timer_at)
        return;
    loop->wheel_timer_at = next;
    uint64_t now = wr_time_monotonic();
    set_timer(loop->wheel_timer, next > now ? next - now : 0);
}

/* ---- the turn ---- */

/* libevent turns EPOLLERR into EV_READ | EV_WRITE and drops the hangup that comes with it, so an RST behind the last bytes
 * looks like any bytes: edge-triggered, no event would ever follow. A poll() now and then asks all sockets that looked so:
 * who waits for a dead peer can wait that much longer, and a busy loop makes no system call a request for it. */
static void resolve_doubts(struct wr_loop *loop)
{
    struct wr_list hung;
    wr_list_init(&hung);
    while (!wr_list_empty(&loop->doubts)) {
        struct wr_io *asked[DOUBT_BATCH];
        struct pollfd polls[DOUBT_BATCH];
        nfds_t n = 0;
        struct wr_list *link;
        while (n < DOUBT_BATCH && (link = wr_list_pop_front(&loop->doubts)) != NULL) {
            asked[n] = WR_CONTAINER_OF(link, struct wr_io, doubt);
            polls[n] = (struct pollfd){.fd = asked[n]->fd, .events = POLLRDHUP};
            n++;
        }
        int found;
        do
            found = poll(polls, n, 0);
        while (found < 0 && errno == EINTR);
        for (nfds_t i = 0; found > 0 && i < n; i++) {
            if (polls[i].revents & (POLLRDHUP | POLLHUP | POLLERR))
                wr_list_push_back(&hung, &asked[i]->doubt);
        }
    }
    struct wr_list *link;
    while ((link = wr_list_pop_front(&hung)) != NULL) {
        struct wr_io *io = WR_CONTAINER_OF(link, struct wr_io, doubt);
        io->ready(io, WR_IO_READ | WR_IO_HANGUP);
    }
}

static void doubt_due(struct wr_deadline *deadline, uint64_t now WR_UNUSED)
{
    resolve_doubts(WR_CONTAINER_OF(deadline, struct wr_loop, doubt));
}

static void note_doubt(struct wr_io *io)
{
    struct wr_loop *loop = io->loop;
    if (wr_list_empty(&loop->doubts))
        wr_wheel_set(&loop->wheel, &loop->doubt, wr_time_add(wr_loop_now(loop), DOUBT_WAIT));
    wr_list_push_back(&loop->doubts, &io->doubt);
}

static void take_turn(struct wr_loop *loop, uint64_t wait)
{
    wr_list_splice_back(&loop->tasks, &loop->next_tasks);
    set_wheel_timer(loop);
    int flags = EVLOOP_ONCE;
    bool bounded = false;
    if (wait == 0 || !wr_list_empty(&loop->tasks)) {
        flags |= EVLOOP_NONBLOCK;
    } else if (wait != WR_NEVER) {
        set_timer(loop->wait_timer, wait);
        bounded = true;
    }
    loop->clock->fresh = false;
    int failed = event_base_loop(loop->base, flags);
    WR_ASSERT(failed >= 0);
    if (bounded)
        event_del(loop->wait_timer);

    uint64_t began = wr_loop_now(loop);
    wr_wheel_advance(&loop->wheel, began);
    if (loop->clock->simulated)
        resolve_doubts(loop);
    run_tasks(loop);
    run_releases(loop);
    loop->turns++;
    if (!loop->clock->simulated)
        loop->lag = wr_time_monotonic() - began;
}

void wr_loop_run(struct wr_loop *loop)
{
    while (!loop->stopped)
        take_turn(loop, WR_NEVER);
    loop->stopped = false;
}

void wr_loop_stop(struct wr_loop *loop)
{
    loop->stopped = true;
}

void wr_loop_wake(struct wr_loop *loop)
{
    /* Can only fail when the counter is full, and then the loop is awake. */
    (void)eventfd_write(loop->wake_fd, 1);
}

void wr_loop_turn(struct wr_loop *loop, uint64_t wait_usec)
{
    take_turn(loop, wait_usec);
}

/* What a turn does at the point of time NOW, without descriptors. */
static void step_to(struct wr_loop *loop, uint64_t now)
{
    wr_list_splice_back(&loop->tasks, &loop->next_tasks);
    loop->clock->now = now;
    wr_wheel_advance(&loop->wheel, now);
    run_tasks(loop);
    run_releases(loop);
}

void wr_loop_advance(struct wr_loop *loop, uint64_t usec)
{
    WR_ASSERT(loop->clock->simulated);
    uint64_t end = wr_time_add(loop->clock->now, usec);
    step_to(loop, loop->clock->now); /* what is deferred already happens before time moves */
    for (;;) {
        uint64_t next = wr_wheel_next(&loop->wheel);
        /* A deadline that is set again for "now" whenever it fires must not stop the clock. */
        if (next <= loop->clock->now)
            next = loop->clock->now + WR_WHEEL_TICK;
        if (next >= end)
            break;
        step_to(loop, next);
    }
    step_to(loop, end);
}

void wr_loop_free(struct wr_loop *loop)
{
    if (loop == NULL)
        return;
    wr_list_splice_back(&loop->tasks, &loop->next_tasks);
    run_tasks(loop);
    run_releases(loop);
    WR_ASSERT(loop->events.count == 0);
    close_base(loop);
}

/* ---- descriptors ---- */

static void on_io(evutil_socket_t fd, short events, void *arg)
{
    struct wr_io *io = arg;
    (void)fd;
    clock_touch(io->loop->clock);
    unsigned what = 0;
    if (events & EV_READ)
        what |= WR_IO_READ;
    if (events & EV_WRITE)
        what |= WR_IO_WRITE;
    if (events & EV_CLOSED)
        what |= WR_IO_HANGUP;
    if (what == (WR_IO_READ | WR_IO_WRITE) && wr_list_empty(&io->doubt))
        note_doubt(io);
    io->ready(io, what);
}

enum wr_err wr_io_open(struct wr_loop *loop, struct wr_io *io, int fd,
                       void (*ready)(struct wr_io *io, unsigned what))
{
    io->loop = loop;
    io->fd = fd;
    io->ready = ready;
    wr_list_init(&io->doubt);
    io->event = wr_slab_take(&loop->events);
    if (event_assign(io->event, loop->base, fd, EV_READ | EV_WRITE | EV_CLOSED | EV_ET | EV_PERSIST,
                     on_io, io) == 0 &&
        event_add(io->event, NULL) == 0)
        return WR_OK;
    enum wr_err err = errno == ENOMEM ? WR_ERR_NO_MEMORY : WR_ERR_SYSTEM;
    wr_slab_give(&loop->events, io->event);
    io->event = NULL;
    return err;
}

void wr_io_close(struct wr_io *io)
{
    if (io->event == NULL)
        return;
    (void)event_del(io->event);
    wr_slab_give(&io->loop->events, io->event);
    io->event = NULL;
    wr_list_remove(&io->doubt);
}
