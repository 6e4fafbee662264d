/* The admin server over real sockets: its pages, and that hostile clients of it are bounded. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/time.h"
#include "io/socket.h"
#include "observe/metrics.h"
#include "server/admin.h"

#define CONNECTIONS 32 /* at most at a time */
#define WAIT_MS 5000

static const struct wr_snapshot_listener listeners[] = {{.downstream = {.name = "edge"}},
                                                        {.downstream = {.name = "\x1b[31m\"\x7f"}}};
static const struct wr_snapshot snapshot = {
    .workers = 1, .listeners = listeners, .listener_count = 2};
static struct wr_metrics_registry *registry;
static struct wr_admin *admin;
static struct wr_address address;

static void start_on(const char *text)
{
    const struct wr_listen_options options = {0};
    int fd;
    cr_assert_eq(wr_address_parse(wr_str_from(text), &address), WR_OK);
    cr_assert_eq(wr_socket_listen(&address, &options, &fd), WR_OK);
    if (address.storage.ss_family != AF_UNIX)
        cr_assert_eq(getsockname(fd, (struct sockaddr *)&address.storage, &address.length), 0);
    registry = wr_metrics_registry_new();
    cr_assert_eq(wr_admin_start(registry, &snapshot, fd, &admin), WR_OK);
}

static void start(void)
{
    start_on("127.0.0.1:0");
}

static void stop(void)
{
    wr_admin_stop(admin);
    wr_metrics_registry_free(registry);
}

TestSuite(admin, .init = start, .fini = stop);

static int connected(void)
{
    int fd = socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert(fd >= 0);
    cr_assert_eq(connect(fd, (struct sockaddr *)&address.storage, address.length), 0);
    return fd;
}

static void say(int fd, const char *text)
{
    size_t n = strlen(text);
    cr_assert_eq(send(fd, text, n, MSG_NOSIGNAL), (ssize_t)n);
}

static bool readable_within(int fd, int ms)
{
    struct pollfd ask = {.fd = fd, .events = POLLIN};
    return poll(&ask, 1, ms) == 1;
}

/* All until the server closes; static buffer. */
static const char *answer(int fd)
{
    static char text[1 << 20];
    size_t n = 0;
    ssize_t got = 0;
    while (readable_within(fd, WAIT_MS) && (got = recv(fd, text + n, sizeof(text) - 1 - n, 0)) > 0)
        n += (size_t)got;
    text[n] = '\0';
    close(fd);
    return text;
}

static const char *asked(const char *request)
{
    int fd = connected();
    say(fd, request);
    return answer(fd);
}

static void expect_status(const char *request, const char *status)
{
    const char *text = asked(request);
    size_t n = strlen("HTTP/1.1 ");
    cr_assert_eq(strncmp(text, "HTTP/1.1 ", n), 0, "%s: %s", request, text);
    cr_assert_eq(strncmp(text + n, status, strlen(status)), 0, "%s: %s", request, text);
}

#define GET(path) "GET " path " HTTP/1.1\r\nHost: localhost\r\n\r\n"

Test(admin, pages)
{
    expect_status(GET("/"), "200 OK\r\n");
    expect_status(GET("/healthz"), "200 OK\r\n");
    expect_status(GET("/healthz?x=1"), "200 OK\r\n");
    expect_status(GET("/nothing"), "404 ");
    expect_status(GET("//"), "404 ");
    expect_status("POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", "405 ");
    expect_status("DELETE / HTTP/1.1\r\nHost: x\r\n\r\n", "405 ");
    cr_assert(strstr(asked("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx"),
                     "\r\nAllow: GET, HEAD\r\n"));
    cr_assert(strstr(asked(GET("/healthz")), "\r\n\r\nok\n"));
}

Test(admin, browsers_get_the_dashboard_and_others_a_list)
{
    const char *text = asked(GET("/"));
    cr_assert_not_null(strstr(text, "Content-Type: text/plain"), "%s", text);
    cr_assert_not_null(strstr(text, "/metrics"), "%s", text);
    text = asked("GET / HTTP/1.1\r\nHost: localhost\r\nAccept: text/html,*/*;q=0.8\r\n\r\n");
    cr_assert_not_null(strstr(text, "Content-Type: text/html"), "%s", text);
    cr_assert_not_null(strstr(text, "Content-Security-Policy: default-src 'none';"), "%s", text);
    cr_assert_not_null(strstr(text, "</html>"), "all of it: %s", text);
    text = asked(GET("/dashboard.css"));
    cr_assert_not_null(strstr(text, "Content-Type: text/css"), "%s", text);
    text = asked(GET("/dashboard.js"));
    cr_assert_not_null(strstr(text, "Content-Type: text/javascript"), "%s", text);
}

Test(admin, metrics)
{
    struct wr_listener_metrics *metrics = wr_metrics_new_listener(registry, "edge");
    wr_metric_add(&metrics->connections_accepted, 7);
    const char *text = asked(GET("/metrics"));
    cr_assert(strstr(text, "\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
    cr_assert(strstr(text, "\nweir_connections_accepted_total{listener=\"edge\"} 7\n"), "%s", text);
}

Test(admin, admission)
{
    struct wr_listener_metrics *metrics = wr_metrics_new_listener(registry, "edge");
    wr_metric_add(&metrics->connections_accepted, 9);
    wr_metric_add(&metrics->connections_refused[WR_REFUSAL_DENIED], 7);
    const char *text = asked(GET("/admission"));
    cr_assert(strstr(text, "\r\nContent-Type: text/plain; charset=utf-8\r\n"));
    cr_assert(strstr(text, "\nedge (plain): refusing "), "%s", text);
    cr_assert(strstr(text, "connections a second: denied\n"), "%s", text);
    cr_assert(strstr(text, "\n  denied: 7 in the last "), "%s", text);
    wr_admin_set_state(admin, WR_ADMIN_DRAINING);
    cr_assert(strstr(asked(GET("/admission")), "\nedge (plain): draining"));
}

/* A listener's name is whatever the configuration says. */
Test(admin, admission_is_harmless_to_terminals_and_parsers)
{
    const char *text = asked(GET("/admission"));
    cr_assert(strstr(text, "\n\\u001b[31m\\\"\\u007f (plain): idle"), "%s", text);
    text = asked(GET("/admission?format=json"));
    cr_assert(strstr(text, "\r\nContent-Type: application/json\r\n"));
    cr_assert(strstr(text, "\r\n\r\n{\"listeners\":[{\"name\":\"edge\",\"tls\":false,"), "%s",
              text);
    cr_assert(strstr(text, ",{\"name\":\"\\u001b[31m\\\"\\u007f\","), "%s", text);
    cr_assert(strstr(text, "\"reasons\":[]}]}\n"), "%s", text);
}

Test(admin, head_has_no_content)
{
    char field[64];
    const char *text = asked(GET("/metrics"));
    (void)snprintf(field, sizeof(field), "\r\nContent-Length: %zu\r\n",
                   strlen(strstr(text, "\r\n\r\n") + 4));
    cr_assert(strstr(text, field));
    text = asked("HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    cr_assert_eq(strncmp(text, "HTTP/1.1 200 OK\r\n", 17), 0);
    cr_assert(strstr(text, field), "%s", text);
    cr_assert_str_eq(strstr(text, "\r\n\r\n"), "\r\n\r\n");
}

Test(admin, ready_only_while_it_accepts)
{
    expect_status(GET("/readyz"), "503 ");
    wr_admin_set_state(admin, WR_ADMIN_READY);
    expect_status(GET("/readyz"), "200 ");
    wr_admin_set_state(admin, WR_ADMIN_DRAINING);
    expect_status(GET("/readyz"), "503 ");
    expect_status(GET("/healthz"), "200 ");
}

Test(admin, one_request_a_connection)
{
    const char *text = asked(GET("/healthz") GET("/healthz"));
    cr_assert(strstr(text, "\r\nConnection: close\r\n"));
    const char *first = strstr(text, "\r\n\r\nok\n");
    cr_assert_not_null(first);
    cr_assert_null(strstr(first + 4, "HTTP/1.1"));
}

Test(admin, no_connection_is_lost_from_the_count)
{
    for (int i = 0; i < 5 * CONNECTIONS; i++) {
        if (i % 3 == 1)
            close(connected());
        else if (i % 3 == 2)
            (void)asked("nonsense\r\n\r\n");
        else
            expect_status(GET("/healthz"), "200 ");
    }
}

Test(admin, large_heads_and_contents_are_refused)
{
    static char request[70000];
    int n = snprintf(request, sizeof(request), "GET / HTTP/1.1\r\nHost: x\r\nX: ");
    memset(request + n, 'x', 20000);
    (void)snprintf(request + n + 20000, 100, "\r\n\r\n");
    cr_assert_null(strstr(asked(request), " 200 "));
    cr_assert_null(
        strstr(asked("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n"), " 200 "));
}

Test(admin, connections_are_bounded)
{
    int fds[CONNECTIONS];
    for (int i = 0; i < CONNECTIONS; i++)
        fds[i] = connected();
    int late = connected();
    say(late, GET("/healthz"));
    cr_assert_not(readable_within(late, 600), "served beside %d silent ones", CONNECTIONS);
    close(fds[0]);
    cr_assert(strstr(answer(late), "\r\n\r\nok\n"));
    for (int i = 1; i < CONNECTIONS; i++)
        close(fds[i]);
}

Test(admin, silent_clients_are_closed)
{
    char byte;
    int fd = connected();
    cr_assert(readable_within(fd, 8000));
    cr_assert(recv(fd, &byte, 1, 0) <= 0);
    close(fd);
}

/* Never silent, never done. */
Test(admin, slow_clients_are_closed)
{
    uint64_t began = wr_time_monotonic();
    int fd = connected();
    say(fd, "GET / HTTP/1.1\r\nX: ");
    while (!readable_within(fd, 500)) {
        cr_assert(wr_time_monotonic() - began < 25 * WR_SEC);
        (void)send(fd, "x", 1, MSG_NOSIGNAL);
    }
    cr_assert(wr_time_monotonic() - began > 10 * WR_SEC);
    close(fd);
}

Test(admin, lack_of_descriptors_does_not_spin)
{
    struct rlimit before;
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    int fd = connected();
    say(fd, GET("/healthz"));
    cr_assert(strstr(answer(fd), "ok"));

    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct rlimit none = {.rlim_cur = (rlim_t)fd, .rlim_max = before.rlim_max};
    /* Lower descriptors may be free: they are used up first. */
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    while (dup(fd) >= 0)
        ;
    cr_assert_eq(connect(fd, (struct sockaddr *)&address.storage, address.length), 0);
    say(fd, GET("/healthz"));
    clock_t spent = clock();
    cr_assert_not(readable_within(fd, 1000));
    spent = clock() - spent;
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    cr_assert(spent < CLOCKS_PER_SEC / 4, "%ld", (long)spent);
    cr_assert(strstr(answer(fd), "\r\n\r\nok\n"));
}

Test(admin_life, stops_with_clients_at_all_stages)
{
    start();
    int silent = connected();
    int half = connected();
    int slow = connected();
    say(half, "GET / HT");
    say(slow, GET("/metrics"));
    cr_assert(readable_within(slow, WAIT_MS));
    stop();
    close(silent);
    close(half);
    close(slow);
}

Test(admin_life, over_a_unix_socket)
{
    char dir[] = "/tmp/weir-admin-XXXXXX";
    char text[64];
    cr_assert_not_null(mkdtemp(dir));
    (void)snprintf(text, sizeof(text), "unix:%s/s", dir);
    start_on(text);
    for (int i = 0; i < 2 * CONNECTIONS; i++)
        expect_status(GET("/healthz"), "200 ");
    stop();
    (void)snprintf(text, sizeof(text), "%s/s", dir);
    unlink(text);
    rmdir(dir);
}
