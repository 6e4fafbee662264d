#include "support/nghttpd.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support/certificate.h"
#include "support/peer.h"

#define READY_MS 10000

struct nghttpd {
    pid_t pid;
    int port;
    char dir[64];
};

/* A port that was free a moment ago. */
static int free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t length = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    cr_assert_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    (void)getsockname(fd, (struct sockaddr *)&address, &length);
    (void)close(fd);
    return ntohs(address.sin_port);
}

static void run_child(const struct nghttpd *nghttpd, bool tls)
{
    char port[16];

    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    (void)snprintf(port, sizeof(port), "%d", nghttpd->port);
    if (chdir(nghttpd->dir) != 0)
        _exit(126);
    if (tls)
        (void)execlp("nghttpd", "nghttpd", "--echo-upload", "-a", "127.0.0.1", port, "key.pem",
                     "cert.pem", (char *)NULL);
    else
        (void)execlp("nghttpd", "nghttpd", "--echo-upload", "-a", "127.0.0.1", "--no-tls", port,
                     (char *)NULL);
    _exit(127);
}

static void wait_ready(const struct nghttpd *nghttpd)
{
    const struct timespec ms10 = {0, 10 * 1000 * 1000};

    for (int waited = 0;; waited += 10) {
        struct peer *peer = peer_connect(nghttpd->port);
        peer_free(peer);
        if (peer)
            return;
        cr_assert(waitpid(nghttpd->pid, NULL, WNOHANG) == 0, "nghttpd ended at once");
        cr_assert(waited < READY_MS, "nghttpd does not come up");
        (void)nanosleep(&ms10, NULL);
    }
}

struct nghttpd *nghttpd_start(bool tls)
{
    struct nghttpd *nghttpd = calloc(1, sizeof(*nghttpd));

    (void)snprintf(nghttpd->dir, sizeof(nghttpd->dir), "/tmp/weir-nghttpd-XXXXXX");
    cr_assert_not_null(mkdtemp(nghttpd->dir));
    certificate_make(nghttpd->dir, "", "DNS:localhost,IP:127.0.0.1");
    nghttpd->port = free_port();
    nghttpd->pid = fork();
    if (nghttpd->pid == 0)
        run_child(nghttpd, tls);
    wait_ready(nghttpd);
    return nghttpd;
}

void nghttpd_stop(struct nghttpd *nghttpd)
{
    char command[128];

    (void)kill(nghttpd->pid, SIGTERM);
    (void)waitpid(nghttpd->pid, NULL, 0);
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", nghttpd->dir);
    (void)!system(command);
    free(nghttpd);
}

int nghttpd_port(const struct nghttpd *nghttpd)
{
    return nghttpd->port;
}

const char *nghttpd_dir(const struct nghttpd *nghttpd)
{
    return nghttpd->dir;
}
