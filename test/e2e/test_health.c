/* `weir health`: what probes are told of a weir that is ready, that drains, that is gone, and of what is none. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/peer.h"
#include "support/weir.h"

static char said[4096];

/* The exit status of `weir health` with a configuration whose admin server is at ADMIN. */
static int health(const char *admin)
{
    char command[512];
    (void)snprintf(
        command, sizeof(command),
        "printf '%%s\\n' 'admin: \"%s\"' 'listeners: [{bind: 127.0.0.1:1, tls: {certificates: "
        "[{chain: none, key: none}]}, routes: [{cluster: later}]}]' | "
        "timeout 60 \"$WEIR_BIN\" health -c - 2>&1",
        admin);
    FILE *pipe = popen(command, "re");
    cr_assert_not_null(pipe);
    said[fread(said, 1, sizeof(said) - 1, pipe)] = '\0';
    int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void expect(const char *admin, int status, const char *text)
{
    int got = health(admin);
    cr_expect_eq(got, status, "%s: %d, %s", admin, got, said);
    cr_expect_not_null(strstr(said, text), "%s: no \"%s\" in: %s", admin, text, said);
}

static int health_of_port(int port)
{
    char admin[64];
    (void)snprintf(admin, sizeof(admin), "127.0.0.1:%d", port);
    return health(admin);
}

static void expect_port(int port, int status, const char *text)
{
    char admin[64];
    (void)snprintf(admin, sizeof(admin), "127.0.0.1:%d", port);
    expect(admin, status, text);
}

Test(health, ready_and_draining_and_gone)
{
    struct weir *weir = weir_start("admin: 127.0.0.1:0\n"
                                   "listeners: [{name: a, bind: 127.0.0.1:0, routes: "
                                   "[{respond: {body: x}}]}]\n");
    int port = weir_port(weir, "admin");
    /* In the middle of a head: keeps it draining. */
    struct peer *peer = peer_connect(weir_port(weir, "a"));
    cr_assert_not_null(peer);
    cr_assert(peer_write(peer, "GET / HT", 8));
    cr_assert(weir_metric_becomes(weir, "weir_connections_active{listener=\"a\"}", 1,
                                  20000 * weir_slowness()));
    expect_port(port, 0, "ready: 200");
    cr_assert_eq(kill(weir_pid(weir), SIGTERM), 0);
    for (int tries = 0; tries < 200 && health_of_port(port) == 0; tries++)
        usleep(20 * 1000);
    expect_port(port, 1, "not ready: 503");
    peer_free(peer);
    cr_assert_eq(weir_wait(weir, 0, 20000 * weir_slowness()), 0);
    expect_port(port, 1, "not ready: no answer: Connection refused");
    weir_stop(weir);
}

Test(health, over_a_unix_socket)
{
    char admin[128];
    char dir[] = "/tmp/weir-health-XXXXXX";
    cr_assert_not_null(mkdtemp(dir));
    (void)snprintf(admin, sizeof(admin), "unix:%s/admin.sock", dir);
    expect(admin, 1, "No such file");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/admin.sock", dir);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    cr_assert_eq(listen(fd, 1), 0);
    pid_t child = fork();
    if (child == 0) {
        char request[256];
        int client = accept(fd, NULL, NULL);
        (void)!read(client, request, sizeof(request));
        (void)!write(client, "HTTP/1.1 200 OK\r\n", 17);
        _exit(0);
    }
    expect(admin, 0, "ready: 200 OK");
    cr_assert_eq(waitpid(child, NULL, 0), child);
    close(fd);
    unlink(address.sun_path);
    rmdir(dir);
}

Test(health, of_what_never_answers)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    cr_assert_eq(listen(fd, 1), 0);
    cr_assert_eq(getsockname(fd, (struct sockaddr *)&address, &length), 0);
    expect_port(ntohs(address.sin_port), 1, "it takes too long");
    close(fd);
}

Test(health, without_an_admin_server_there_is_nobody_to_ask)
{
    expect("not an address", 2, "expected an address");
    cr_expect_eq(system("printf 'listeners: [{bind: 127.0.0.1:1, routes: [{cluster: a}]}]\\n' | "
                        "\"$WEIR_BIN\" health -c - 2>/dev/null"),
                 2 << 8);
}
