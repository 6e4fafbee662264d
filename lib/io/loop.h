/* The event loop of one worker: descriptors, deadlines, deferred work, and the end-of-turn release of memory.
 * A turn: wait, run descriptor events, run due deadlines, run deferred tasks, release. Not for threads; only
 * wr_loop_wake() may be called from another thread. */
#ifndef WR_IO_LOOP_H
#define WR_IO_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/err.h"
#include "base/list.h"
#include "base/wheel.h"

struct event;
struct event_base;
struct wr_loop;

/* SIMULATED: time stands still until wr_loop_advance(); descriptors are real. For tests. */
enum wr_loop_clock { WR_CLOCK_MONOTONIC, WR_CLOCK_SIMULATED };

WR_MUST_USE enum wr_err wr_loop_new(enum wr_loop_clock clock, struct wr_loop **out);
/* All wr_io must be closed before. Runs deferred tasks and releases what is due. NULL is fine. */
void wr_loop_free(struct wr_loop *loop);

/* Runs until wr_loop_stop(). */
void wr_loop_run(struct wr_loop *loop);
void wr_loop_stop(struct wr_loop *loop);
/* Makes a sleeping loop take a turn. Any thread. */
void wr_loop_wake(struct wr_loop *loop);
/* One turn; waits for an event at most WAIT_USEC (0 = not at all). For tests. */
void wr_loop_turn(struct wr_loop *loop, uint64_t wait_usec);
/* Moves the simulated clock on, firing what becomes due on the way, in order. */
void wr_loop_advance(struct wr_loop *loop, uint64_t usec);

/* The one "now" of this turn, microseconds of the monotonic clock. */
uint64_t wr_loop_now(const struct wr_loop *loop);
/* Reads the clock again (after heavy work within a turn) and returns it. */
uint64_t wr_loop_refresh_now(struct wr_loop *loop);
/* The wall clock that belongs to wr_loop_now(), microseconds since the epoch. */
uint64_t wr_loop_wall(const struct wr_loop *loop);
/* Microseconds that this turn has taken so far; 0 on a simulated clock. */
uint64_t wr_loop_spent(const struct wr_loop *loop);
/* Microseconds the loop was busy in the last turn, and the number of turns. */
uint64_t wr_loop_lag(const struct wr_loop *loop);
uint64_t wr_loop_turns(const struct wr_loop *loop);

/* For the one user of libevent outside this layer and transport, the admin server. */
struct event_base *wr_loop_event_base(struct wr_loop *loop);

/* ---- deadlines ---- */
void wr_loop_deadline_set(struct wr_loop *loop, struct wr_deadline *deadline, uint64_t at_usec);
void wr_loop_deadline_remove(struct wr_loop *loop, struct wr_deadline *deadline);

/* ---- deferred work: runs once, after the events of this turn (a task deferred by a task: in this turn too, but at most
 * a bounded number of rounds, then the next turn) ---- */
struct wr_task {
    struct wr_list link;
    void (*run)(struct wr_task *task);
};
void wr_task_init(struct wr_task *task, void (*run)(struct wr_task *task));
void wr_loop_defer(struct wr_loop *loop, struct wr_task *task); /* already deferred: no change */
void wr_loop_defer_next(struct wr_loop *loop,
                        struct wr_task *task); /* in the next turn, which then does not wait */
void wr_task_cancel(struct wr_task *task);

/* ---- memory that callers further up the stack may still hold: freed at the end of this turn ---- */
struct wr_garbage {
    struct wr_garbage *next;
    void (*release)(struct wr_garbage *garbage);
};
void wr_loop_release(struct wr_loop *loop, struct wr_garbage *garbage,
                     void (*release)(struct wr_garbage *garbage));

/* ---- descriptors ----
 * Edge-triggered, registered once, never changed until closed: no system call to pause or resume. `ready` is called with
 * what has newly become possible; the user keeps its own flags, reads until the socket has no more (or defers itself), and
 * re-checks flags when it resumes. WR_IO_HANGUP: the peer's FIN or RST has arrived, so a short read is not yet the end. A
 * FIN comes with the bytes before it, in one call; an RST right behind bytes may come in a second call, some milliseconds later. */
#define WR_IO_READ 1u
#define WR_IO_WRITE 2u
#define WR_IO_HANGUP 4u

struct wr_io {
    struct event *event; /* NULL: closed */
    void (*ready)(struct wr_io *io, unsigned what);
    struct wr_loop *loop;
    struct wr_list
        doubt; /* on the loop's list of sockets to ask for a hidden hangup, or on no list */
    int fd;
};

/* FD must be non-blocking; stays the caller's to close after wr_io_close(). IO must stay where it is. */
WR_MUST_USE enum wr_err wr_io_open(struct wr_loop *loop, struct wr_io *io, int fd,
                                   void (*ready)(struct wr_io *io, unsigned what));
/* Silences at once; can be called twice. */
void wr_io_close(struct wr_io *io);

#endif
