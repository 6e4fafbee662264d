#include "server/server.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/time.h"
#include "io/loop.h"
#include "io/mailbox.h"
#include "observe/log.h"
#include "observe/metrics.h"
#include "observe/writer.h"
#include "server/admin.h"
#include "server/sockets.h"
#include "server/systemd.h"
#include "server/worker.h"

#define RESERVED_LEAST 16 /* descriptors that clients do not get */
#define RESERVED_MOST 4096
#define ACCESS_LOG_QUEUE (8u << 20)       /* bytes that wait for a slow reader */
#define ACCESS_LOG_LAST_WAIT (2 * WR_SEC) /* at the end, for what is not yet written */

/* The home thread's things. It does no work of its own: signals, and mail from the workers. */
struct server {
    const struct wr_snapshot *snapshot;
    struct wr_loop *loop;
    struct wr_mailbox *mailbox;
    struct wr_io signals;
    int signal_fd;
    struct wr_sockets sockets;
    struct wr_metrics_registry *registry;
    struct wr_writer *writer;
    struct wr_signers *signers;
    struct wr_worker_options worker_options;
    struct wr_worker **workers;
    struct wr_admin *admin;
    struct wr_deadline drain_deadline;
    uint64_t drain_began;
    unsigned started; /* workers */
    unsigned drained; /* workers */
    bool draining;
    enum wr_err outcome;
};

/* ---- what is told ---- */

static void log_listening(const char *name, const struct wr_address *address)
{
    char text[WR_ADDRESS_TEXT];
    struct wr_str shown = wr_address_text(address, false, text);
    wr_log(WR_LOG_INFO, "server", "listening name=%s address=%.*s", name, WR_STR_ARG(shown));
}

/* A limit above what the process may open protects nothing: descriptors run out first. */
static void check_descriptors(const struct wr_snapshot *snapshot, uintmax_t files)
{
    uintmax_t allowed = 0;
    for (size_t i = 0; i < snapshot->listener_count; i++)
        allowed += (uintmax_t)snapshot->listeners[i].downstream.max_connections * snapshot->workers;
    if (allowed > files)
        wr_log(WR_LOG_WARN, "server",
               "limits.connections allow %ju connections and the process may open %ju files: raise "
               "the limit of open files (ulimit -n, LimitNOFILE) or lower limits.connections",
               allowed, files);
}

static void log_started(const struct server *server)
{
    const struct wr_snapshot *snapshot = server->snapshot;
    struct rlimit files = {0};
    for (size_t i = 0; i < snapshot->listener_count; i++)
        log_listening(snapshot->listeners[i].downstream.name, &server->sockets.bound[i]);
    if (snapshot->admin_enabled)
        log_listening("admin", &server->sockets.admin_bound);
    (void)getrlimit(RLIMIT_NOFILE, &files);
    wr_log(WR_LOG_INFO, "server", "started workers=%u signers=%u open_files=%ju pid=%d",
           snapshot->workers, snapshot->signers.threads, (uintmax_t)files.rlim_cur, (int)getpid());
    check_descriptors(snapshot, (uintmax_t)files.rlim_cur);
}

/* ---- drain ---- */

static void finish(struct server *server, enum wr_err outcome)
{
    server->outcome = outcome;
    wr_loop_stop(server->loop);
}

static void begin_drain(struct server *server, const char *why)
{
    uint64_t limit = server->snapshot->drain_timeout;
    wr_systemd_stopping();
    server->draining = true;
    server->drain_began = wr_loop_now(server->loop);
    wr_admin_set_state(server->admin, WR_ADMIN_DRAINING);
    wr_loop_deadline_set(server->loop, &server->drain_deadline,
                         wr_time_add(server->drain_began, limit));
    if (limit == WR_NEVER)
        wr_log(WR_LOG_INFO, "server", "draining: %s; a second signal ends at once", why);
    else
        wr_log(WR_LOG_INFO, "server",
               "draining: %s; at most %" PRIu64 " ms, a second signal ends at once", why,
               limit / WR_MSEC);
    for (unsigned i = 0; i < server->snapshot->workers; i++)
        wr_worker_drain(server->workers[i]);
}

static void on_drain_deadline(struct wr_deadline *deadline, uint64_t now)
{
    (void)now;
    finish(WR_CONTAINER_OF(deadline, struct server, drain_deadline), WR_ERR_CANCELLED);
}

static void on_drained(void *owner)
{
    struct server *server = owner;
    server->drained++;
    if (server->drained == server->snapshot->workers && server->outcome == WR_OK)
        finish(server, WR_OK);
}

static void on_started(void *owner)
{
    struct server *server = owner;
    server->started++;
    if (server->started < server->snapshot->workers)
        return;
    if (!server->draining)
        wr_admin_set_state(server->admin, WR_ADMIN_READY);
    log_started(server);
    wr_systemd_ready();
}

static const struct wr_worker_events worker_events = {.started = on_started, .drained = on_drained};

/* ---- signals ---- */

static void handle_signal(struct server *server, int number)
{
    switch (number) {
    case SIGUSR1:
        if (server->writer != NULL)
            wr_writer_reopen(server->writer);
        break;
    case SIGTERM:
    case SIGINT:
        if (server->draining)
            finish(server, WR_ERR_CANCELLED);
        else
            begin_drain(server, number == SIGTERM ? "SIGTERM" : "SIGINT");
        break;
    case SIGHUP:
    case SIGUSR2:
        wr_log(WR_LOG_INFO, "server",
               "%s ignored: a new configuration needs a restart, SIGTERM drains",
               number == SIGHUP ? "SIGHUP" : "SIGUSR2");
        break;
    default:
        break;
    }
}

static void on_signals(struct wr_io *io, unsigned what)
{
    struct server *server = WR_CONTAINER_OF(io, struct server, signals);
    struct signalfd_siginfo info;
    (void)what;
    while (read(io->fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
        handle_signal(server, (int)info.ssi_signo);
}

/* Blocked in this thread and so in all that come from it; read from a descriptor by this one alone. A signal that was
 * ignored when we were started (SIGINT, for a shell's background job) would never come: the default is put back. */
static enum wr_err open_signals(struct server *server)
{
    static const int ours[] = {SIGTERM, SIGINT, SIGUSR1, SIGUSR2, SIGHUP};
    const struct sigaction ignored = {.sa_handler = SIG_IGN};
    const struct sigaction standard = {.sa_handler = SIG_DFL};
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < WR_COUNT_OF(ours); i++)
        sigaddset(&set, ours[i]);
    server->signal_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    if (server->signal_fd < 0)
        return WR_ERR_SYSTEM;
    sigaddset(&set, SIGPIPE);
    if (pthread_sigmask(SIG_BLOCK, &set, NULL) != 0)
        return WR_ERR_SYSTEM;
    for (size_t i = 0; i < WR_COUNT_OF(ours); i++)
        (void)sigaction(ours[i], &standard, NULL);
    (void)sigaction(SIGPIPE, &ignored, NULL);
    return wr_io_open(server->loop, &server->signals, server->signal_fd, on_signals);
}

/* ---- start ---- */

/* Every connection is a descriptor, and two when it is proxied. */
static void raise_descriptor_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max)
        return;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        wr_log(WR_LOG_WARN, "server", "cannot raise the limit of open files: %s", strerror(errno));
}

static enum wr_err open_home(struct server *server)
{
    enum wr_err err = wr_loop_new(WR_CLOCK_MONOTONIC, &server->loop);
    if (err == WR_OK)
        err = wr_mailbox_new(server->loop, &server->mailbox);
    if (err == WR_OK)
        err = open_signals(server);
    if (err != WR_OK)
        wr_log(WR_LOG_ERROR, "server", "cannot start: %s", wr_err_text(err));
    return err;
}

static enum wr_err open_access_log(struct server *server)
{
    const char *target = server->snapshot->access_log;
    if (target == NULL)
        return WR_OK;
    enum wr_err err = wr_writer_open(target, ACCESS_LOG_QUEUE, &server->writer);
    if (err != WR_OK)
        wr_log(WR_LOG_ERROR, "server", "cannot open the access log %s: %s", target,
               err == WR_ERR_SYSTEM ? strerror(errno) : wr_err_text(err));
    return err;
}

/* A tenth of the descriptors is kept from clients: a proxy that has no more for its upstreams serves nobody. */
static int descriptor_ceiling(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur > INT_MAX)
        return INT_MAX;
    int files = (int)limit.rlim_cur;
    int reserve = files / 10;
    if (reserve > RESERVED_MOST)
        reserve = RESERVED_MOST;
    return files - (reserve < RESERVED_LEAST ? RESERVED_LEAST : reserve);
}

/* Before the workers, to whom they are lent; they have nothing to do until those run. */
static enum wr_err make_signers(struct server *server)
{
    enum wr_err err =
        wr_signers_new(&server->snapshot->signers, server->registry, &server->signers);
    if (err != WR_OK)
        wr_log(WR_LOG_ERROR, "server", "signer threads cannot be started: %s", wr_err_text(err));
    return err;
}

static enum wr_err make_workers(struct server *server)
{
    server->worker_options = (struct wr_worker_options){
        .snapshot = server->snapshot,
        .registry = server->registry,
        .writer = server->writer,
        .signers = server->signers,
        .home = server->mailbox,
        .descriptor_ceiling = descriptor_ceiling(),
        .events = &worker_events,
        .owner = server,
    };
    enum wr_err err = WR_OK;
    for (unsigned i = 0; err == WR_OK && i < server->snapshot->workers; i++)
        err = wr_worker_new(&server->worker_options, i, &server->sockets, &server->workers[i]);
    return err;
}

static enum wr_err start_threads(struct server *server)
{
    enum wr_err err = WR_OK;
    if (server->snapshot->admin_enabled)
        err = wr_admin_start(server->registry, server->snapshot,
                             wr_sockets_take_admin(&server->sockets), &server->admin);
    for (unsigned i = 0; err == WR_OK && i < server->snapshot->workers; i++)
        err = wr_worker_start(server->workers[i]);
    return err;
}

static enum wr_err start(struct server *server)
{
    raise_descriptor_limit();
    enum wr_err err = open_home(server);
    if (err == WR_OK)
        err = wr_sockets_open(&server->sockets, server->snapshot);
    if (err == WR_OK)
        err = open_access_log(server);
    server->registry = wr_metrics_registry_new();
    if (err == WR_OK)
        err = make_signers(server);
    if (err == WR_OK)
        err = make_workers(server);
    if (err == WR_OK)
        err = start_threads(server);
    return err;
}

/* ---- end ---- */

/* All threads have ended afterwards. Returns how many connections are left. */
static size_t stop_threads(struct server *server)
{
    size_t left = 0;
    for (unsigned i = 0; i < server->snapshot->workers; i++) {
        if (server->workers[i] != NULL)
            wr_worker_stop(server->workers[i]);
    }
    for (unsigned i = 0; i < server->snapshot->workers; i++) {
        if (server->workers[i] != NULL) {
            wr_worker_join(server->workers[i]);
            left += wr_worker_connections(server->workers[i]);
        }
    }
    wr_signers_stop(server->signers);
    wr_admin_stop(server->admin);
    return left;
}

/* Upwards in the order of use: whoever is freed finds all it uses still there. */
static void free_all(struct server *server)
{
    wr_mailbox_free(server->mailbox); /* may still run mail that lies in the workers */
    for (unsigned i = 0; i < server->snapshot->workers; i++)
        wr_worker_free(server->workers[i]);
    free(server->workers);
    wr_signers_free(server->signers); /* workers had the rest of the queue */
    wr_sockets_close(&server->sockets);
    wr_writer_close(server->writer, ACCESS_LOG_LAST_WAIT);
    wr_metrics_registry_free(server->registry);
    if (server->loop != NULL) {
        wr_io_close(&server->signals);
        wr_loop_deadline_remove(server->loop, &server->drain_deadline);
    }
    if (server->signal_fd >= 0)
        close(server->signal_fd);
    wr_loop_free(server->loop);
}

static void log_ended(const struct server *server, size_t left)
{
    uint64_t took = (wr_time_monotonic() - server->drain_began) / WR_MSEC;
    if (server->outcome == WR_OK)
        wr_log(WR_LOG_INFO, "server", "ended: drained in %" PRIu64 " ms", took);
    else
        wr_log(WR_LOG_WARN, "server", "ended after %" PRIu64 " ms: %zu connections cut off", took,
               left);
}

enum wr_err wr_server_run(const struct wr_snapshot *snapshot)
{
    struct server server = {.snapshot = snapshot, .signal_fd = -1};
    server.workers = wr_new_zero(snapshot->workers, sizeof(*server.workers));
    wr_deadline_init(&server.drain_deadline, on_drain_deadline);
    enum wr_err err = start(&server);
    if (err == WR_OK) {
        wr_loop_run(server.loop);
        err = server.outcome;
        log_ended(&server, stop_threads(&server));
    } else {
        (void)stop_threads(&server);
    }
    free_all(&server);
    return err;
}
