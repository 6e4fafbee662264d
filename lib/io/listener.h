/* A listening socket on a loop. Accepts in bounded batches a turn, survives a lack of descriptors without spinning: it
 * pauses for 100 ms, keeps one spare descriptor to refuse with meanwhile, logs at most once a second, recovers alone.
 * Accepted TCP sockets have TCP_NODELAY. */
#ifndef WR_IO_LISTENER_H
#define WR_IO_LISTENER_H

#include <stdbool.h>

#include "io/loop.h"
#include "io/socket.h"

struct wr_listener;

struct wr_listener_events {
    /* FD is a new non-blocking socket, the callee's to close. */
    void (*accepted)(void *owner, int fd, const struct wr_address *peer);
    /* For want of descriptors or memory: a connection was taken and reset (paused = false); accepting paused (true). */
    void (*starved)(void *owner, bool paused);
    /* It had been shut for so long, and is open again. NULL is fine when it is never shut. */
    void (*reopened)(void *owner, uint64_t usec);
};

/* Takes over the listening FD (closed by wr_listener_close()). BATCH: accepts a turn at most. Owner: the caller. */
WR_MUST_USE enum wr_err wr_listener_new(struct wr_loop *loop, int fd, unsigned batch,
                                        const struct wr_listener_events *events, void *owner,
                                        struct wr_listener **out);
/* Takes no connection before UNTIL; those that come wait in the kernel's queue. Can be called from accepted(). */
void wr_listener_rest(struct wr_listener *listener, uint64_t until);
/* From accepted() only, and as often as it likes. When this batch is done the kernel refuses connections by RST, until UNTIL, and resets
 * those that were left in its queue: all are told, at next to no cost, but not counted. Unix sockets know no such thing: rests. */
void wr_listener_shut(struct wr_listener *listener, uint64_t until);
/* Ends a rest now, and being shut. Without one nothing happens. */
void wr_listener_rise(struct wr_listener *listener);
/* Connections in the kernel's queue, and its limit; that of before while it is shut. */
void wr_listener_queue(const struct wr_listener *listener, unsigned *length, unsigned *limit);
int wr_listener_fd(const struct wr_listener *listener);
/* Stops accepting at once and closes the socket; can be called from its own callbacks. NULL is fine. */
void wr_listener_close(struct wr_listener *listener);

#endif
