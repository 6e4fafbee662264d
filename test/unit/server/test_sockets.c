/* Listening sockets of a snapshot: a socket a worker, ports the system chooses, and what cannot be had. */
#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <dirent.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/sockets.h"

#define WORKERS 3

static struct wr_snapshot_listener listeners[2];
static struct wr_snapshot snapshot;

static struct wr_address parsed(const char *text)
{
    struct wr_address address;
    cr_assert_eq(wr_address_parse(wr_str_from(text), &address), WR_OK, "%s", text);
    return address;
}

static void configure(const char *first, const char *second, const char *admin)
{
    snapshot = (struct wr_snapshot){
        .workers = WORKERS,
        .listeners = listeners,
        .listener_count = second != NULL ? 2 : 1,
        .admin_enabled = admin != NULL,
    };
    listeners[0].address = parsed(first);
    listeners[0].downstream.name = "first";
    if (second != NULL) {
        listeners[1].address = parsed(second);
        listeners[1].downstream.name = "second";
    }
    if (admin != NULL)
        snapshot.admin_address = parsed(admin);
}

static int open_descriptors(void)
{
    int count = 0;
    DIR *dir = opendir("/proc/self/fd");
    cr_assert_not_null(dir);
    while (readdir(dir) != NULL)
        count++;
    closedir(dir);
    return count;
}

static int port_of(int fd)
{
    struct sockaddr_in in;
    socklen_t size = sizeof(in);
    cr_assert_eq(getsockname(fd, (struct sockaddr *)&in, &size), 0);
    return ntohs(in.sin_port);
}

Test(sockets, one_a_worker_on_the_port_the_system_chose)
{
    struct wr_sockets sockets;
    int before = open_descriptors();
    configure("127.0.0.1:0", "127.0.0.2:0", "127.0.0.1:0");
    cr_assert_eq(wr_sockets_open(&sockets, &snapshot), WR_OK);
    cr_assert_eq(open_descriptors(), before + 2 * WORKERS + 1);
    for (size_t l = 0; l < 2; l++) {
        cr_assert_neq(wr_address_port(&sockets.bound[l]), 0);
        for (unsigned w = 0; w < WORKERS; w++) {
            int fd = wr_sockets_take(&sockets, w, l);
            cr_assert_eq(port_of(fd), wr_address_port(&sockets.bound[l]));
            cr_assert_eq(wr_sockets_take(&sockets, w, l), -1);
            close(fd);
        }
    }
    cr_assert_not(sockets.shared[0] || sockets.shared[1]);
    cr_assert_neq(wr_address_port(&sockets.admin_bound), 0);
    wr_sockets_close(&sockets);
    wr_sockets_close(&sockets);
    cr_assert_eq(open_descriptors(), before);
}

Test(sockets, workers_share_a_unix_socket)
{
    char dir[] = "/tmp/weir-sockets-XXXXXX";
    char text[64];
    cr_assert_not_null(mkdtemp(dir));
    (void)snprintf(text, sizeof(text), "unix:%s/s", dir);
    configure(text, NULL, NULL);
    struct wr_sockets sockets;
    cr_assert_eq(wr_sockets_open(&sockets, &snapshot), WR_OK);
    struct stat first;
    struct stat other;
    cr_assert_eq(fstat(sockets.fds[0], &first), 0);
    for (unsigned w = 1; w < WORKERS; w++) {
        cr_assert_eq(fstat(sockets.fds[w], &other), 0);
        cr_assert_eq(first.st_ino, other.st_ino);
    }
    cr_assert(sockets.shared[0]);
    cr_assert_eq(sockets.admin_fd, -1);
    wr_sockets_close(&sockets);
    unlink(text + strlen("unix:"));
    rmdir(dir);
}

/* Another SO_REUSEPORT socket of the same user, as a second weir has it. */
Test(sockets, an_address_in_use_is_refused_and_nothing_stays_open, .init = cr_redirect_stderr)
{
    const struct wr_listen_options shared = {.reuse_port = true};
    struct wr_address any = parsed("127.0.0.1:0");
    struct wr_sockets sockets;
    char text[64];
    char expected[128];
    int taken;
    cr_assert_eq(wr_socket_listen(&any, &shared, &taken), WR_OK);
    (void)snprintf(text, sizeof(text), "127.0.0.1:%d", port_of(taken));
    configure("127.0.0.1:0", text, "127.0.0.1:0");
    int before = open_descriptors();
    cr_assert_eq(wr_sockets_open(&sockets, &snapshot), WR_ERR_SYSTEM);
    cr_assert_eq(open_descriptors(), before);
    close(taken);

    char log[1024];
    FILE *told = cr_get_redirected_stderr();
    cr_assert_not_null(fgets(log, sizeof(log), told));
    (void)snprintf(expected, sizeof(expected), "second cannot listen on %s: ", text);
    cr_assert(strstr(log, expected), "%s", log);
}

Test(sockets, an_address_twice_in_one_snapshot_is_refused, .init = cr_redirect_stderr)
{
    struct wr_sockets sockets;
    char text[64];
    configure("127.0.0.1:0", NULL, NULL);
    cr_assert_eq(wr_sockets_open(&sockets, &snapshot), WR_OK);
    (void)snprintf(text, sizeof(text), "127.0.0.1:%u", wr_address_port(&sockets.bound[0]));
    wr_sockets_close(&sockets);
    configure(text, text, NULL);
    cr_assert_eq(wr_sockets_open(&sockets, &snapshot), WR_ERR_SYSTEM);
}
