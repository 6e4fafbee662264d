#include "server/systemd.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>

void wr_systemd_ready(void)
{
    (void)sd_notify(0, "READY=1\nSTATUS=accepting connections");
}

void wr_systemd_stopping(void)
{
    (void)sd_notify(0, "STOPPING=1\nSTATUS=draining");
}

static bool listens_at(int fd, const struct wr_address *address)
{
    struct sockaddr_storage bound = {.ss_family = AF_UNSPEC};
    socklen_t length = sizeof(bound);
    if (sd_is_socket(fd, address->storage.ss_family, SOCK_STREAM, 1) <= 0 ||
        getsockname(fd, (struct sockaddr *)&bound, &length) != 0)
        return false;
    if (bound.ss_family == AF_UNIX)
        return strcmp(((const struct sockaddr_un *)&bound)->sun_path,
                      ((const struct sockaddr_un *)&address->storage)->sun_path) == 0;
    const struct wr_address there = {.length = length, .storage = bound};
    char asked[WR_ADDRESS_TEXT];
    char found[WR_ADDRESS_TEXT];
    return wr_str_eq(wr_address_text(address, false, asked), wr_address_text(&there, false, found));
}

enum wr_err wr_systemd_listener(const struct wr_address *address, int *fd)
{
    int count = sd_listen_fds(0);
    *fd = -1;
    for (int i = 0; i < count; i++) {
        int inherited = SD_LISTEN_FDS_START + i;
        if (!listens_at(inherited, address))
            continue;
        *fd = fcntl(inherited, F_DUPFD_CLOEXEC, 0);
        if (*fd < 0)
            return errno == EMFILE ? WR_ERR_NO_DESCRIPTORS : WR_ERR_SYSTEM;
        int flags = fcntl(*fd, F_GETFL);
        return fcntl(*fd, F_SETFL, flags | O_NONBLOCK) == 0 ? WR_OK : WR_ERR_SYSTEM;
    }
    return WR_OK;
}
