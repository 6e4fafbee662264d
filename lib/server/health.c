#include "server/health.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#define PATIENCE_SECONDS 2
#define REQUEST_ROOM 256
#define STATUS_AT 9 /* behind "HTTP/1.1 " */

/* A blocking socket whose every step has its time. Owner: the caller; -1: errno tells why. */
static int connect_to(const struct wr_address *admin)
{
    const struct timeval patience = {.tv_sec = PATIENCE_SECONDS};
    int fd = socket(admin->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) == 0 &&
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) == 0 &&
        connect(fd, (const struct sockaddr *)&admin->storage, admin->length) == 0)
        return fd;
    int why = errno;
    (void)close(fd);
    errno = why;
    return -1;
}

/* The status line without its end; false: errno tells why, 0: there was none. */
static bool read_status(int fd, char *line, size_t room)
{
    size_t n = 0;
    errno = 0;
    while (n + 1 < room) {
        ssize_t got = recv(fd, line + n, room - 1 - n, 0);
        if (got <= 0)
            return false;
        n += (size_t)got;
        line[n] = '\0';
        char *end = strstr(line, "\r\n");
        if (end != NULL) {
            *end = '\0';
            return n > STATUS_AT;
        }
    }
    return false;
}

bool wr_health_ask(const struct wr_address *admin, const char *path, char said[WR_HEALTH_WORDS])
{
    char text[REQUEST_ROOM];
    int n = snprintf(text, sizeof(text),
                     "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", path);
    int fd = connect_to(admin);
    bool answered = fd >= 0 && send(fd, text, (size_t)n, MSG_NOSIGNAL) == n &&
                    read_status(fd, text, sizeof(text));
    int why = errno;
    if (fd >= 0)
        (void)close(fd);
    if (answered)
        (void)snprintf(said, WR_HEALTH_WORDS, "%.*s", WR_HEALTH_WORDS - 1, text + STATUS_AT);
    else
        (void)snprintf(said, WR_HEALTH_WORDS, "no answer: %s",
                       why == EAGAIN ? "it takes too long"
                       : why == 0    ? "that is no HTTP server"
                                     : strerror(why));
    return answered && strncmp(text + STATUS_AT, "200", 3) == 0;
}
