#include "server/sockets.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "observe/log.h"
#include "server/systemd.h"

static bool is_unix(const struct wr_address *address)
{
    return address->storage.ss_family == AF_UNIX;
}

static int take(int *fd)
{
    int taken = *fd;
    *fd = -1;
    return taken;
}

static const char *advice(int error)
{
    switch (error) {
    case EACCES:
        return " (ports below 1024 need CAP_NET_BIND_SERVICE; a unix socket needs a writable "
               "folder)";
    case EADDRINUSE:
        return " (another program, or another weir, listens there)";
    case EADDRNOTAVAIL:
        return " (no interface of this machine has that address)";
    default:
        return "";
    }
}

static void log_failure(const char *name, const struct wr_address *address, enum wr_err err,
                        int error)
{
    char text[WR_ADDRESS_TEXT];
    struct wr_str shown = wr_address_text(address, false, text);
    bool system = err == WR_ERR_SYSTEM;
    wr_log(WR_LOG_ERROR, "server", "%s cannot listen on %.*s: %s%s", name, WR_STR_ARG(shown),
           system ? strerror(error) : wr_err_text(err), system ? advice(error) : "");
}

static enum wr_err bound_address(int fd, const struct wr_address *asked, struct wr_address *out)
{
    *out = *asked;
    if (is_unix(asked))
        return WR_OK;
    out->length = sizeof(out->storage);
    return getsockname(fd, (struct sockaddr *)&out->storage, &out->length) == 0 ? WR_OK
                                                                                : WR_ERR_SYSTEM;
}

/* With SO_REUSEPORT a second weir of the same user would get its share of the connections without a word. So the address
 * is asked for alone first. */
static enum wr_err probe(const struct wr_address *address)
{
    const struct wr_listen_options alone = {.backlog = 1};
    int fd;
    if (is_unix(address) || wr_address_port(address) == 0)
        return WR_OK;
    enum wr_err err = wr_socket_listen(address, &alone, &fd);
    if (err == WR_OK)
        close(fd);
    return err;
}

static enum wr_err duplicate(int fd, int *out)
{
    *out = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (*out >= 0)
        return WR_OK;
    return errno == EMFILE ? WR_ERR_NO_DESCRIPTORS : WR_ERR_SYSTEM;
}

/* The sockets of listener L for all workers. */
static enum wr_err open_listener(struct wr_sockets *sockets, size_t l)
{
    const struct wr_snapshot *snapshot = sockets->snapshot;
    const struct wr_snapshot_listener *listener = &snapshot->listeners[l];
    const struct wr_listen_options options = {.backlog = listener->backlog, .reuse_port = true};
    int *first = &sockets->fds[l];
    bool inherited = false;

    enum wr_err err = wr_systemd_listener(&listener->address, first);
    if (err == WR_OK)
        inherited = *first >= 0;
    if (err == WR_OK && !inherited)
        err = probe(&listener->address);
    if (err == WR_OK && !inherited)
        err = wr_socket_listen(&listener->address, &options, first);
    if (err == WR_OK)
        err = bound_address(*first, &listener->address, &sockets->bound[l]);
    for (unsigned w = 1; err == WR_OK && w < snapshot->workers; w++) {
        int *fd = &sockets->fds[w * snapshot->listener_count + l];
        err = is_unix(&listener->address) || inherited
                  ? duplicate(*first, fd)
                  : wr_socket_listen(&sockets->bound[l], &options, fd);
    }
    if (err != WR_OK)
        log_failure(listener->downstream.name, &listener->address, err, errno);
    return err;
}

static enum wr_err open_admin(struct wr_sockets *sockets)
{
    const struct wr_snapshot *snapshot = sockets->snapshot;
    const struct wr_listen_options options = {.backlog = 64};
    if (!snapshot->admin_enabled)
        return WR_OK;
    enum wr_err err = wr_socket_listen(&snapshot->admin_address, &options, &sockets->admin_fd);
    if (err == WR_OK)
        err = bound_address(sockets->admin_fd, &snapshot->admin_address, &sockets->admin_bound);
    if (err != WR_OK)
        log_failure("admin", &snapshot->admin_address, err, errno);
    return err;
}

enum wr_err wr_sockets_open(struct wr_sockets *sockets, const struct wr_snapshot *snapshot)
{
    size_t count = snapshot->workers * snapshot->listener_count;
    sockets->snapshot = snapshot;
    sockets->fds = wr_new_zero(count, sizeof(*sockets->fds));
    sockets->bound = wr_new_zero(snapshot->listener_count, sizeof(*sockets->bound));
    sockets->admin_fd = -1;
    for (size_t i = 0; i < count; i++)
        sockets->fds[i] = -1;

    enum wr_err err = open_admin(sockets);
    for (size_t l = 0; err == WR_OK && l < snapshot->listener_count; l++)
        err = open_listener(sockets, l);
    if (err != WR_OK)
        wr_sockets_close(sockets);
    return err;
}

int wr_sockets_take(struct wr_sockets *sockets, unsigned worker, size_t listener)
{
    return take(&sockets->fds[worker * sockets->snapshot->listener_count + listener]);
}

int wr_sockets_take_admin(struct wr_sockets *sockets)
{
    return take(&sockets->admin_fd);
}

static void close_taken(int fd)
{
    if (fd >= 0)
        close(fd);
}

void wr_sockets_close(struct wr_sockets *sockets)
{
    if (sockets->fds == NULL)
        return;
    size_t count = sockets->snapshot->workers * sockets->snapshot->listener_count;
    for (size_t i = 0; i < count; i++)
        close_taken(take(&sockets->fds[i]));
    close_taken(take(&sockets->admin_fd));
    free(sockets->fds);
    free(sockets->bound);
    sockets->fds = NULL;
    sockets->bound = NULL;
}
