/* How weir ends, and what its signals do. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/peer.h"
#include "support/weir.h"

#define DRAINED 0
#define CUT_OFF 3

static struct weir *start(const char *drain)
{
    return weir_start(
        "workers: 2\n"
        "admin: 127.0.0.1:0\n"
        "access_log: access.log\n"
        "defaults: {timeouts: {drain: %s, request_header: 1h, keep_alive: 1h, linger: 200ms}}\n"
        "listeners:\n"
        "  - name: plain\n"
        "    bind: 127.0.0.1:0\n"
        "    routes: [{respond: {body: hello}}]\n",
        drain);
}

static struct peer *connected(const struct weir *weir)
{
    struct peer *peer = peer_connect(weir_port(weir, "plain"));
    cr_assert_not_null(peer);
    return peer;
}

#define REQUEST "GET / HTTP/1.1\r\nHost: x\r\n\r\n"

static void expect_reply(struct peer *peer)
{
    struct reply reply = peer_reply(peer, false);
    cr_assert_eq(reply.status, 200);
    cr_assert_str_eq(reply.body, "hello");
    reply_free(&reply);
}

static void expect_log(const struct weir *weir, const char *text)
{
    char *log = weir_log(weir);
    cr_assert(strstr(log, text), "no \"%s\" in:\n%s", text, log);
    free(log);
}

static void ends_idle(int signal)
{
    struct weir *weir = start("1h");
    struct peer *idle = connected(weir);
    cr_assert(peer_say(idle, REQUEST));
    expect_reply(idle);
    cr_assert_eq(weir_wait(weir, signal, 10000), DRAINED);
    cr_assert_eq(peer_wait_end(idle), PEER_EOF);
    expect_log(weir, "ended: drained in ");
    peer_free(idle);
    weir_stop(weir);
}

Test(weir_signals, sigterm_ends_idle_connections)
{
    ends_idle(SIGTERM);
}

Test(weir_signals, sigint_ends_idle_connections)
{
    ends_idle(SIGINT);
}

Test(weir_signals, a_request_under_way_is_finished)
{
    struct weir *weir = start("1h");
    struct peer *peer = connected(weir);
    cr_assert(peer_say(peer, "GET / HTTP/1.1\r\n"));
    cr_assert(
        weir_metric_becomes(weir, "weir_connections_accepted_total{listener=\"plain\"}", 1, 5000));
    cr_assert_eq(kill(weir_pid(weir), SIGTERM), 0);
    cr_assert(weir_file_has(weir, "stderr.log", "draining: SIGTERM", 5000));
    cr_assert_null(weir_admin_get(weir, "/readyz"), "ready while draining");
    char *alive = weir_admin_get(weir, "/healthz");
    cr_assert_not_null(alive);
    free(alive);

    cr_assert(peer_say(peer, "Host: x\r\n\r\n"));
    struct reply reply = peer_reply(peer, false);
    cr_assert_eq(reply.status, 200);
    cr_assert_str_eq(reply_field(&reply, "Connection"), "close");
    reply_free(&reply);
    cr_assert_eq(peer_wait_end(peer), PEER_EOF);
    peer_free(peer);
    cr_assert_eq(weir_wait(weir, 0, 10000), DRAINED);
    weir_stop(weir);
}

Test(weir_signals, the_drain_timeout_cuts_off)
{
    struct weir *weir = start("300ms");
    struct peer *peer = connected(weir);
    cr_assert(peer_say(peer, "GET / HTTP/1.1\r\n"));
    cr_assert(
        weir_metric_becomes(weir, "weir_connections_accepted_total{listener=\"plain\"}", 1, 5000));
    cr_assert_eq(weir_wait(weir, SIGTERM, 10000), CUT_OFF);
    cr_assert_neq(peer_wait_end(peer), PEER_WAITED);
    expect_log(weir, "1 connections cut off");
    peer_free(peer);
    weir_stop(weir);
}

Test(weir_signals, a_second_signal_ends_at_once)
{
    struct weir *weir = start("infinity");
    struct peer *peer = connected(weir);
    cr_assert(peer_say(peer, "GET / HTTP/1.1\r\n"));
    cr_assert(
        weir_metric_becomes(weir, "weir_connections_accepted_total{listener=\"plain\"}", 1, 5000));
    cr_assert_eq(kill(weir_pid(weir), SIGTERM), 0);
    cr_assert(weir_file_has(weir, "stderr.log", "draining: SIGTERM", 5000));
    cr_assert_eq(weir_wait(weir, SIGINT, 10000), CUT_OFF);
    peer_free(peer);
    weir_stop(weir);
}

Test(weir_signals, new_clients_are_not_accepted_while_draining)
{
    struct weir *weir = start("1h");
    int port = weir_port(weir, "plain");
    struct peer *peer = connected(weir);
    cr_assert(peer_say(peer, "GET / HTTP/1.1\r\n"));
    cr_assert(
        weir_metric_becomes(weir, "weir_connections_accepted_total{listener=\"plain\"}", 1, 5000));
    cr_assert_eq(kill(weir_pid(weir), SIGTERM), 0);
    cr_assert(weir_file_has(weir, "stderr.log", "draining", 5000));
    /* Each worker closes its socket in a turn of its own. */
    struct peer *late;
    for (int i = 0; i < 500 && (late = peer_connect(port)) != NULL; i++)
        peer_free(late);
    cr_assert_null(late);
    peer_free(peer);
    cr_assert_eq(weir_wait(weir, 0, 10000), DRAINED);
    weir_stop(weir);
}

Test(weir_signals, sigusr1_opens_the_access_log_again)
{
    struct weir *weir = start("10s");
    char from[160];
    char to[160];
    struct peer *peer = connected(weir);
    cr_assert(peer_say(peer, "GET /one HTTP/1.1\r\nHost: x\r\n\r\n"));
    expect_reply(peer);
    cr_assert(weir_file_has(weir, "access.log", "\"/one\"", 5000));
    (void)snprintf(from, sizeof(from), "%s/access.log", weir_dir(weir));
    (void)snprintf(to, sizeof(to), "%s/access.1", weir_dir(weir));
    cr_assert_eq(rename(from, to), 0);
    cr_assert_eq(kill(weir_pid(weir), SIGUSR1), 0);
    for (int i = 0; i < 500 && access(from, F_OK) != 0; i++)
        (void)usleep(10000);
    cr_assert(peer_say(peer, "GET /two HTTP/1.1\r\nHost: x\r\n\r\n"));
    expect_reply(peer);
    cr_assert(weir_file_has(weir, "access.log", "\"/two\"", 5000));
    char *old = weir_file(weir, "access.1");
    cr_assert_null(strstr(old, "\"/two\""));
    free(old);
    peer_free(peer);
    weir_stop(weir);
}

Test(weir_signals, the_last_lines_of_the_access_log_are_written)
{
    struct weir *weir = start("10s");
    struct peer *peer = connected(weir);
    for (int i = 0; i < 50; i++) {
        cr_assert(peer_say(peer, REQUEST));
        expect_reply(peer);
    }
    cr_assert_eq(weir_wait(weir, SIGTERM, 10000), DRAINED);
    char *log = weir_file(weir, "access.log");
    int lines = 0;
    for (const char *at = log; (at = strchr(at, '\n')) != NULL; at++)
        lines++;
    cr_assert_eq(lines, 50);
    free(log);
    peer_free(peer);
    weir_stop(weir);
}

static int count_threads(const struct weir *weir, const char *prefix)
{
    char path[300];
    char name[32];
    int count = 0;
    (void)snprintf(path, sizeof(path), "/proc/%d/task", (int)weir_pid(weir));
    DIR *tasks = opendir(path);
    cr_assert_not_null(tasks);
    for (struct dirent *task; (task = readdir(tasks)) != NULL;) {
        (void)snprintf(path, sizeof(path), "/proc/%d/task/%.20s/comm", (int)weir_pid(weir),
                       task->d_name);
        FILE *file = fopen(path, "re");
        if (file == NULL)
            continue;
        if (fgets(name, sizeof(name), file) != NULL && strncmp(name, prefix, strlen(prefix)) == 0)
            count++;
        (void)fclose(file);
    }
    closedir(tasks);
    return count;
}

Test(weir_signals, the_hangup_of_a_terminal_is_no_end)
{
    struct weir *weir = weir_start("admin: 127.0.0.1:0\nlisteners: [{bind: 127.0.0.1:0, routes: "
                                   "[{respond: {status: 204}}]}]\n");
    cr_assert_eq(kill(weir_pid(weir), SIGHUP), 0);
    cr_assert_eq(kill(weir_pid(weir), SIGUSR2), 0);
    cr_expect(weir_file_has(weir, "stderr.log", "SIGHUP ignored", 5000));
    cr_expect(weir_file_has(weir, "stderr.log", "SIGUSR2 ignored", 5000));
    char *ready = weir_admin_get(weir, "/readyz");
    cr_expect_not_null(ready);
    free(ready);
    weir_stop(weir);
}

Test(weir_signals, threads_have_names_and_sigpipe_is_harmless)
{
    struct weir *weir = start("10s");
    cr_assert_eq(count_threads(weir, "weir-w"), 2);
    cr_assert_eq(count_threads(weir, "weir-admin"), 1);
    cr_assert_eq(kill(weir_pid(weir), SIGPIPE), 0);
    struct peer *peer = connected(weir);
    cr_assert(peer_say(peer, REQUEST));
    expect_reply(peer);
    peer_free(peer);
    weir_stop(weir);
}
