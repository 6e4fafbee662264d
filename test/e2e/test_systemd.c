/* A supervisor is told when weir is ready and when it stops, and may have opened the sockets. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "support/peer.h"
#include "support/weir.h"

#define WAIT_MS (20000 * weir_slowness())
#define REQUEST "GET / HTTP/1.1\r\nHost: x\r\n\r\n"

static char dir[] = "/tmp/weir-systemd-XXXXXX";

static int notify_socket(char path[108])
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/notify", dir);
    (void)snprintf(path, 108, "%s", address.sun_path);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

static void expect_notice(int fd, const char *text)
{
    char notice[512];
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    cr_assert_eq(poll(&ready, 1, WAIT_MS), 1, "no notice with %s", text);
    ssize_t n = recv(fd, notice, sizeof(notice) - 1, 0);
    cr_assert_gt(n, 0);
    notice[n] = '\0';
    cr_assert_not_null(strstr(notice, text), "%s", notice);
}

static void expect_served(int port)
{
    struct peer *peer = peer_connect(port);
    cr_assert_not_null(peer);
    cr_assert(peer_write(peer, REQUEST, strlen(REQUEST)));
    struct reply reply = peer_reply(peer, false);
    cr_assert_eq(reply.status, 200);
    reply_free(&reply);
    peer_free(peer);
}

Test(systemd, is_told_of_ready_and_of_stopping)
{
    char path[108];
    cr_assert_not_null(mkdtemp(dir));
    int fd = notify_socket(path);
    cr_assert_eq(setenv("NOTIFY_SOCKET", path, 1), 0);
    struct weir *weir = weir_start("workers: 2\nadmin: 127.0.0.1:0\n"
                                   "listeners: [{name: a, bind: 127.0.0.1:0, routes: "
                                   "[{respond: {body: x}}]}]\n");
    expect_notice(fd, "READY=1");
    expect_served(weir_port(weir, "a"));
    cr_assert_eq(kill(weir_pid(weir), SIGTERM), 0);
    expect_notice(fd, "STOPPING=1");
    cr_assert_eq(weir_wait(weir, 0, WAIT_MS), 0);
    weir_stop(weir);
    close(fd);
    unlink(path);
    rmdir(dir);
}

/* A program that starts weir as systemd does: descriptor FD as its third, LISTEN_PID its own. */
static void make_activator(const char *path, int fd)
{
    FILE *file = fopen(path, "we");
    cr_assert_not_null(file);
    (void)fprintf(file,
                  "#!/bin/bash\nexec 3<&%d\nexport LISTEN_FDS=1 LISTEN_PID=$$\n"
                  "exec \"%s\" \"$@\"\n",
                  fd, getenv("WEIR_BIN"));
    (void)fclose(file);
    cr_assert_eq(chmod(path, 0700), 0);
}

Test(systemd, sockets_that_were_open_before_are_used)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(address);
    char activator[64];
    cr_assert_not_null(mkdtemp(dir));
    int fd = socket(AF_INET, SOCK_STREAM, 0); /* blocking, and kept over exec */
    cr_assert_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    cr_assert_eq(listen(fd, 16), 0);
    cr_assert_eq(getsockname(fd, (struct sockaddr *)&address, &length), 0);
    int port = ntohs(address.sin_port);
    /* Before there is a weir: it waits in the queue that weir gets. */
    struct peer *early = peer_connect(port);
    cr_assert_not_null(early);
    cr_assert(peer_write(early, REQUEST, strlen(REQUEST)));
    (void)snprintf(activator, sizeof(activator), "%s/activate", dir);
    make_activator(activator, fd);
    cr_assert_eq(setenv("WEIR_BIN", activator, 1), 0);

    struct weir *weir = weir_start("workers: 2\nadmin: 127.0.0.1:0\n"
                                   "listeners:\n"
                                   "  - {name: a, bind: '127.0.0.1:%d', routes: "
                                   "[{respond: {body: x}}]}\n"
                                   "  - {name: b, bind: 127.0.0.1:0, routes: "
                                   "[{respond: {body: x}}]}\n",
                                   port);
    struct reply reply = peer_reply(early, false);
    cr_assert_eq(reply.status, 200);
    reply_free(&reply);
    peer_free(early);
    cr_assert_eq(weir_port(weir, "a"), port);
    for (int i = 0; i < 20; i++)
        expect_served(port);
    expect_served(weir_port(weir, "b"));
    weir_stop(weir);
    close(fd);
    unlink(activator);
    rmdir(dir);
}
