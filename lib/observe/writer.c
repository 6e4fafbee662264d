#include "observe/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/mem.h"
#include "base/time.h"
#include "observe/log.h"

/* Producers append to `filling`; the thread swaps the buffers and writes `writing` without holding the lock. */
struct wr_writer {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t work; /* for the thread: there is something to do */
    pthread_cond_t end;  /* for wr_writer_close: all is written */

    /* Under the lock. */
    char *filling;
    size_t filled;
    size_t queued; /* filled, and what of `writing` is not written */
    bool reopen;
    bool closing;
    bool ended;

    /* The thread's own. */
    char *writing;
    int fd;
    bool mid_line; /* a failed write left half a line behind */

    char *path; /* NULL for a standard stream */
    size_t max_queued;
};

static int open_path(const char *path)
{
    /* O_NONBLOCK: a FIFO nobody reads is an error now, not a thread that hangs. */
    return open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0640);
}

/* One write(2) of at least a byte, waiting for room as needed; -1 with the reason in errno. This is the one place where
 * wr_writer_close may cancel the thread, so that a reader which stalls a pipe of ours for ever does not keep the process
 * from ending. Nothing is held here. */
static ssize_t write_some(int fd, const char *bytes, size_t n)
{
    int ignored;
    ssize_t written;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &ignored);
    while ((written = write(fd, bytes, n)) <= 0) {
        if (written < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            struct pollfd wait = {.fd = fd, .events = POLLOUT};
            (void)poll(&wait, 1, -1);
        } else if (written == 0 || errno != EINTR) {
            break;
        }
    }
    int error = written == 0 ? EIO : errno;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &ignored);
    errno = error;
    return written > 0 ? written : -1;
}

/* N bytes wait no longer: written or lost. */
static void release(struct wr_writer *writer, size_t n)
{
    pthread_mutex_lock(&writer->lock);
    writer->queued -= n;
    pthread_mutex_unlock(&writer->lock);
}

/* Writes the N bytes of `writing`. What cannot be written is lost, and told. */
static void write_batch(struct wr_writer *writer, size_t n)
{
    size_t done = 0;
    bool fine = true;
    if (writer->mid_line) {
        fine = write_some(writer->fd, "\n", 1) == 1;
        writer->mid_line = !fine;
    }
    while (fine && done < n) {
        ssize_t written = write_some(writer->fd, writer->writing + done, n - done);
        fine = written > 0;
        if (fine) {
            done += (size_t)written;
            release(writer, (size_t)written);
        }
    }
    if (fine)
        return;
    wr_log(WR_LOG_ERROR, "writer", "cannot write to %s: %s; lines are lost",
           writer->path != NULL ? writer->path : "a standard stream", strerror(errno));
    if (done > 0)
        writer->mid_line = writer->writing[done - 1] != '\n';
    release(writer, n - done);
}

static void open_again(struct wr_writer *writer)
{
    if (writer->path == NULL)
        return;
    int fd = open_path(writer->path);
    if (fd < 0) {
        wr_log(WR_LOG_ERROR, "writer", "cannot open %s again: %s; still writing to the old file",
               writer->path, strerror(errno));
        return;
    }
    close(writer->fd);
    writer->fd = fd;
    writer->mid_line = false;
}

static void *run(void *argument)
{
    struct wr_writer *writer = argument;
    int ignored;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &ignored);

    pthread_mutex_lock(&writer->lock);
    for (;;) {
        while (writer->filled == 0 && !writer->reopen && !writer->closing)
            pthread_cond_wait(&writer->work, &writer->lock);
        bool reopen = writer->reopen;
        size_t n = writer->filled;
        if (n == 0 && !reopen)
            break; /* closing */
        char *full = writer->filling;
        writer->filling = writer->writing;
        writer->writing = full;
        writer->filled = 0;
        writer->reopen = false;
        pthread_mutex_unlock(&writer->lock);

        write_batch(writer, n); /* before the reopen: these lines belong to the old file */
        if (reopen)
            open_again(writer);
        pthread_mutex_lock(&writer->lock);
    }
    writer->ended = true;
    pthread_cond_signal(&writer->end);
    pthread_mutex_unlock(&writer->lock);
    return NULL;
}

/* All signals stay with the threads that were there before; SIGPIPE becomes EPIPE. */
static int start_thread(struct wr_writer *writer)
{
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&writer->thread, NULL, run, writer);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

static void init_locks(struct wr_writer *writer)
{
    pthread_condattr_t monotonic;
    int failed = pthread_condattr_init(&monotonic);
    failed |= pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    failed |= pthread_mutex_init(&writer->lock, NULL);
    failed |= pthread_cond_init(&writer->work, NULL);
    failed |= pthread_cond_init(&writer->end, &monotonic);
    WR_ASSERT(failed == 0);
    pthread_condattr_destroy(&monotonic);
}

static void free_writer(struct wr_writer *writer)
{
    close(writer->fd);
    pthread_cond_destroy(&writer->end);
    pthread_cond_destroy(&writer->work);
    pthread_mutex_destroy(&writer->lock);
    free(writer->filling);
    free(writer->writing);
    free(writer->path);
    free(writer);
}

/* Opens TARGET; *PATH is a copy of it when it can be opened again, else NULL. */
static int open_target(const char *target, char **path)
{
    *path = NULL;
    if (strcmp(target, "stdout") == 0)
        return fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    if (strcmp(target, "stderr") == 0)
        return fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    int fd = open_path(target);
    if (fd >= 0)
        *path = wr_copy_string(target);
    return fd;
}

enum wr_err wr_writer_open(const char *target, size_t max_queued, struct wr_writer **out)
{
    *out = NULL;
    if (max_queued == 0)
        return WR_ERR_INVALID;
    char *path;
    int fd = open_target(target, &path);
    if (fd < 0)
        return errno == EMFILE || errno == ENFILE ? WR_ERR_NO_DESCRIPTORS : WR_ERR_SYSTEM;

    struct wr_writer *writer = WR_NEW(struct wr_writer);
    writer->fd = fd;
    writer->path = path;
    writer->max_queued = max_queued;
    writer->filling = wr_new_bytes(max_queued); /* the kernel gives pages when they are used */
    writer->writing = wr_new_bytes(max_queued);
    init_locks(writer);
    if (start_thread(writer) != 0) {
        free_writer(writer);
        return WR_ERR_SYSTEM;
    }
    *out = writer;
    return WR_OK;
}

bool wr_writer_put(struct wr_writer *writer, const char *text, size_t n)
{
    if (n == 0)
        return true;
    pthread_mutex_lock(&writer->lock);
    bool fits = n <= writer->max_queued - writer->queued;
    if (fits) {
        memcpy(writer->filling + writer->filled, text, n);
        writer->filled += n;
        writer->queued += n;
        pthread_cond_signal(&writer->work);
    }
    pthread_mutex_unlock(&writer->lock);
    return fits;
}

void wr_writer_reopen(struct wr_writer *writer)
{
    pthread_mutex_lock(&writer->lock);
    writer->reopen = true;
    pthread_cond_signal(&writer->work);
    pthread_mutex_unlock(&writer->lock);
}

void wr_writer_close(struct wr_writer *writer, unsigned long timeout_usec)
{
    if (writer == NULL)
        return;
    uint64_t until = wr_time_add(wr_time_monotonic(), timeout_usec);
    struct timespec deadline = {.tv_sec = (time_t)(until / WR_SEC),
                                .tv_nsec = (long)(until % WR_SEC) * 1000};
    int waited = 0;

    pthread_mutex_lock(&writer->lock);
    writer->closing = true;
    pthread_cond_signal(&writer->work);
    while (!writer->ended && waited != ETIMEDOUT)
        waited = pthread_cond_timedwait(&writer->end, &writer->lock, &deadline);
    bool ended = writer->ended;
    pthread_mutex_unlock(&writer->lock);

    if (!ended)
        pthread_cancel(writer->thread);
    pthread_join(writer->thread, NULL);
    free_writer(writer);
}
