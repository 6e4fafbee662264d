/* Sockets. Addresses are in address.c. */
#include "io/socket.h"

#include <errno.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/time.h"

#define BACKLOG 1024

static const struct sockaddr *as_any(const struct wr_address *address)
{
    return (const struct sockaddr *)&address->storage;
}

static bool is_unix(const struct wr_address *address)
{
    return address->storage.ss_family == AF_UNIX;
}

static void set(int fd, int level, int option, int value)
{
    (void)setsockopt(fd, level, option, &value, sizeof value);
}

static enum wr_err new_socket(const struct wr_address *address, int *fd)
{
    *fd = socket(address->storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (*fd >= 0)
        return WR_OK;
    switch (errno) {
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
        return WR_ERR_NO_DESCRIPTORS;
    default:
        return WR_ERR_SYSTEM;
    }
}

/* Without touching errno, which tells why. */
static void discard(int *fd)
{
    int saved = errno;
    close(*fd);
    *fd = -1;
    errno = saved;
}

/* ---- listening ---- */

/* Removes the file of a unix socket that nobody listens on. What is no socket, and what is in use, stays: bind() fails. */
static void remove_stale(const struct wr_address *address)
{
    const struct sockaddr_un *un = (const struct sockaddr_un *)(const void *)&address->storage;
    struct stat st;
    if (lstat(un->sun_path, &st) != 0 || !S_ISSOCK(st.st_mode))
        return;
    int fd;
    if (new_socket(address, &fd) != WR_OK)
        return;
    if (connect(fd, as_any(address), address->length) != 0 && errno == ECONNREFUSED)
        unlink(un->sun_path);
    close(fd);
}

enum wr_err wr_socket_listen(const struct wr_address *address,
                             const struct wr_listen_options *options, int *fd)
{
    if (is_unix(address))
        remove_stale(address);
    enum wr_err err = new_socket(address, fd);
    if (err != WR_OK)
        return err;
    if (!is_unix(address)) {
        set(*fd, SOL_SOCKET, SO_REUSEADDR, 1);
        if (options->reuse_port)
            set(*fd, SOL_SOCKET, SO_REUSEPORT, 1);
    }
    /* So that 0.0.0.0:443 and [::]:443 can stand side by side, whatever the system's default. */
    if (address->storage.ss_family == AF_INET6)
        set(*fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
    if (bind(*fd, as_any(address), address->length) != 0 ||
        listen(*fd, options->backlog > 0 ? options->backlog : BACKLOG) != 0) {
        discard(fd);
        return WR_ERR_SYSTEM;
    }
    return WR_OK;
}

/* Two sockets with SO_REUSEADDR may be bound to one address as long as none of them listens. Without it the address of one that does
 * not listen for a while stays its own. */
enum wr_err wr_socket_shut(int fd)
{
    set(fd, SOL_SOCKET, SO_REUSEADDR, 0);
    if (shutdown(fd, SHUT_RD) == 0)
        return WR_OK;
    set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    return WR_ERR_SYSTEM;
}

enum wr_err wr_socket_reopen(int fd, const struct wr_address *address, int backlog)
{
    set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    /* Only a port that the kernel chose was given up; any other is still bound to. */
    if (bind(fd, as_any(address), address->length) != 0 && errno != EINVAL)
        return WR_ERR_SYSTEM;
    return listen(fd, backlog) == 0 ? WR_OK : WR_ERR_SYSTEM;
}

void wr_socket_accept_queue(int fd, unsigned *length, unsigned *limit)
{
    /* Of a listening socket the kernel reports its queue in these two (tcp_get_info() in net/ipv4/tcp.c). */
    struct tcp_info info = {0};
    socklen_t size = sizeof info;
    bool known = getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0;
    *length = known ? info.tcpi_unacked : 0;
    *limit = known ? info.tcpi_sacked : 0;
}

uint64_t wr_socket_accept_drops(int fd)
{
    uint32_t info[SK_MEMINFO_VARS] = {0};
    socklen_t size = sizeof info;
    bool known = getsockopt(fd, SOL_SOCKET, SO_MEMINFO, info, &size) == 0;
    return known ? info[SK_MEMINFO_DROPS] : 0;
}

uint64_t wr_socket_silence(int fd)
{
    struct tcp_info info = {0};
    socklen_t size = sizeof info;
    bool known = getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0;
    return known ? info.tcpi_last_data_recv * WR_MSEC : 0;
}

/* ---- connecting ---- */

static enum wr_err connect_err(int error)
{
    switch (error) {
    case 0:
    case EINPROGRESS:
        return WR_OK;
    case ECONNREFUSED:
    case ENOENT: /* no such unix socket */
        return WR_ERR_CONNECT_REFUSED;
    case ETIMEDOUT:
        return WR_ERR_CONNECT_TIMEOUT;
    default:
        return WR_ERR_CONNECT_FAILED;
    }
}

enum wr_err wr_socket_connect(const struct wr_address *address, int *fd)
{
    enum wr_err err = new_socket(address, fd);
    if (err != WR_OK)
        return err == WR_ERR_NO_DESCRIPTORS ? err : WR_ERR_CONNECT_FAILED;
    if (!is_unix(address))
        set(*fd, IPPROTO_TCP, TCP_NODELAY, 1);
    err = connect(*fd, as_any(address), address->length) == 0 ? WR_OK : connect_err(errno);
    if (err != WR_OK)
        discard(fd);
    return err;
}

enum wr_err wr_socket_connect_result(int fd)
{
    int error = 0;
    socklen_t size = sizeof error;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
        return WR_ERR_CONNECT_FAILED;
    return connect_err(error);
}

/* ---- the peer ---- */

void wr_socket_reset(int fd)
{
    struct linger linger = {.l_onoff = 1, .l_linger = 0};
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    close(fd);
}

bool wr_socket_is_quiet(int fd)
{
    char byte;
    ssize_t n;
    do
        n = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

bool wr_socket_peer_gone(int fd)
{
    struct pollfd ask = {.fd = fd, .events = POLLRDHUP};
    int found;
    do
        found = poll(&ask, 1, 0);
    while (found < 0 && errno == EINTR);
    return found > 0;
}
