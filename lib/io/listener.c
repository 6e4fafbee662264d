#include "io/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/time.h"
#include "observe/log.h"

#define PAUSE (100 * WR_MSEC)

struct wr_listener {
    struct wr_loop *loop;
    const struct wr_listener_events *events;
    void *owner;
    struct wr_io io;
    struct wr_task more;       /* the batch was used up: no further edge will come */
    struct wr_deadline resume; /* end of a pause */
    struct wr_garbage garbage;
    struct wr_address own; /* its address and the limit of its queue, noted when it was shut */
    unsigned backlog;
    uint64_t shut_at;
    unsigned batch;
    bool tcp;
    int spare;    /* given up for a moment to take a connection and reset it; -1: none to be had */
    bool paused;  /* until RESUME: for want of descriptors, */
    bool resting; /* or by the owner's wish; */
    bool closing; /* by its wish to be SHUT, when the batch is done */
    bool shut;    /* implies RESTING, or PAUSED when it could not be opened again */
    bool closed;
};

static bool may_accept(const struct wr_listener *listener)
{
    return !listener->closed && !listener->paused && !listener->resting;
}

static void open_spare(struct wr_listener *listener)
{
    if (listener->spare < 0)
        listener->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void close_spare(struct wr_listener *listener)
{
    if (listener->spare >= 0)
        close(listener->spare);
    listener->spare = -1;
}

static int accept_one(struct wr_listener *listener, struct wr_address *peer)
{
    peer->length = sizeof peer->storage;
    return accept4(listener->io.fd, (struct sockaddr *)&peer->storage, &peer->length,
                   SOCK_NONBLOCK | SOCK_CLOEXEC);
}

static void pause_accepting(struct wr_listener *listener, int why)
{
    wr_log(WR_LOG_WARN, "listener", "accepting pauses for %u ms: %s", (unsigned)(PAUSE / WR_MSEC),
           strerror(why));
    listener->paused = true;
    wr_loop_deadline_set(listener->loop, &listener->resume,
                         wr_time_add(wr_loop_now(listener->loop), PAUSE));
    listener->events->starved(listener->owner, true);
}

/* The kernel says "no descriptor" before it looks for a connection, so there may be none to take: then nothing has to
 * pause, the next connection brings an edge. */
static void starve(struct wr_listener *listener, int why)
{
    struct wr_address peer;
    close_spare(listener);
    int fd = accept_one(listener, &peer);
    bool none = fd < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
    if (fd >= 0)
        wr_socket_reset(fd);
    open_spare(listener);
    if (none)
        return;
    if (fd >= 0)
        listener->events->starved(listener->owner, false);
    if (!listener->closed)
        pause_accepting(listener, why);
}

/* Errors of the one connection that was to be accepted (accept(2)); the next one may be sound. */
static bool concerns_one_connection(int error)
{
    switch (error) {
    case EINTR:
    case ECONNABORTED:
    case EPERM:
    case EPROTO:
    case ENOPROTOOPT:
    case EOPNOTSUPP:
    case ENETDOWN:
    case ENETUNREACH:
    case EHOSTDOWN:
    case EHOSTUNREACH:
    case ENONET:
    case ETIMEDOUT:
        return true;
    default:
        return false;
    }
}

/* Whether the batch was used up. */
static bool accept_some(struct wr_listener *listener)
{
    for (unsigned i = 0; i < listener->batch; i++) {
        if (!may_accept(listener))
            return false;
        struct wr_address peer = {0};
        int fd = accept_one(listener, &peer);
        if (fd >= 0) {
            listener->events->accepted(listener->owner, fd, &peer);
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            return false;
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            starve(listener, errno);
            return false;
        } else if (!concerns_one_connection(errno)) {
            pause_accepting(listener, errno);
            return false;
        }
    }
    return true;
}

/* ---- shut for a moment ---- */

static uint64_t exact_now(const struct wr_listener *listener)
{
    return wr_time_add(wr_loop_now(listener->loop), wr_loop_spent(listener->loop));
}

static void shut(struct wr_listener *listener)
{
    unsigned length;
    listener->closing = false;
    if (!may_accept(listener))
        return;
    listener->resting = true;
    listener->own.length = sizeof listener->own.storage;
    if (getsockname(listener->io.fd, (struct sockaddr *)&listener->own.storage,
                    &listener->own.length) != 0)
        return;
    wr_socket_accept_queue(listener->io.fd, &length, &listener->backlog);
    listener->shut = wr_socket_shut(listener->io.fd) == WR_OK;
    listener->shut_at = exact_now(listener);
}

static bool open_again(struct wr_listener *listener)
{
    if (!listener->shut)
        return true;
    if (wr_socket_reopen(listener->io.fd, &listener->own, (int)listener->backlog) != WR_OK) {
        pause_accepting(listener, errno);
        return false;
    }
    listener->shut = false;
    listener->events->reopened(listener->owner,
                               wr_time_since(listener->shut_at, exact_now(listener)));
    return true;
}

static void accept_batch(struct wr_listener *listener)
{
    bool more = accept_some(listener);
    if (listener->closing)
        shut(listener);
    else if (more && may_accept(listener))
        wr_loop_defer_next(listener->loop, &listener->more);
}

static void on_ready(struct wr_io *io, unsigned what)
{
    if (what & WR_IO_READ)
        accept_batch(WR_CONTAINER_OF(io, struct wr_listener, io));
}

static void on_more(struct wr_task *task)
{
    accept_batch(WR_CONTAINER_OF(task, struct wr_listener, more));
}

static void on_resume(struct wr_deadline *deadline, uint64_t now)
{
    struct wr_listener *listener = WR_CONTAINER_OF(deadline, struct wr_listener, resume);
    (void)now;
    listener->paused = false;
    listener->resting = false;
    open_spare(listener);
    if (open_again(listener))
        accept_batch(listener);
}

void wr_listener_rest(struct wr_listener *listener, uint64_t until)
{
    if (!may_accept(listener))
        return;
    listener->resting = true;
    wr_loop_deadline_set(listener->loop, &listener->resume, until);
}

void wr_listener_shut(struct wr_listener *listener, uint64_t until)
{
    if (!listener->tcp) {
        wr_listener_rest(listener, until);
        return;
    }
    if (!may_accept(listener))
        return;
    listener->closing = true;
    wr_loop_deadline_set(listener->loop, &listener->resume, until);
}

void wr_listener_rise(struct wr_listener *listener)
{
    if (!listener->resting)
        return;
    listener->resting = false;
    wr_loop_deadline_remove(listener->loop, &listener->resume);
    if (open_again(listener))
        wr_loop_defer_next(listener->loop, &listener->more);
}

void wr_listener_queue(const struct wr_listener *listener, unsigned *length, unsigned *limit)
{
    wr_socket_accept_queue(listener->io.fd, length, limit);
    if (!listener->shut)
        return;
    *length = 0;
    *limit = listener->backlog;
}

/* Accepted sockets inherit it: no system call a connection. Means nothing to a unix socket, which refuses. */
static bool set_nodelay(int fd)
{
    int on = 1;
    return setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0;
}

enum wr_err wr_listener_new(struct wr_loop *loop, int fd, unsigned batch,
                            const struct wr_listener_events *events, void *owner,
                            struct wr_listener **out)
{
    *out = NULL;
    struct wr_listener *listener = WR_NEW(struct wr_listener);
    listener->loop = loop;
    listener->events = events;
    listener->owner = owner;
    listener->batch = batch > 0 ? batch : 1;
    listener->spare = -1;
    wr_task_init(&listener->more, on_more);
    wr_deadline_init(&listener->resume, on_resume);
    open_spare(listener);
    enum wr_err err =
        listener->spare < 0 ? WR_ERR_NO_DESCRIPTORS : wr_io_open(loop, &listener->io, fd, on_ready);
    if (err != WR_OK) {
        close_spare(listener);
        free(listener);
        return err;
    }
    listener->tcp = set_nodelay(fd);
    *out = listener;
    return WR_OK;
}

int wr_listener_fd(const struct wr_listener *listener)
{
    return listener->io.fd;
}

static void release(struct wr_garbage *garbage)
{
    free(WR_CONTAINER_OF(garbage, struct wr_listener, garbage));
}

void wr_listener_close(struct wr_listener *listener)
{
    if (listener == NULL || listener->closed)
        return;
    listener->closed = true;
    wr_task_cancel(&listener->more);
    wr_loop_deadline_remove(listener->loop, &listener->resume);
    wr_io_close(&listener->io);
    close(listener->io.fd);
    close_spare(listener);
    wr_loop_release(listener->loop, &listener->garbage, release);
}
