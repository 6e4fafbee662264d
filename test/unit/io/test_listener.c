/* Accepting: batches, errors of accept, and what happens when descriptors run out. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/time.h"
#include "io/listener.h"

#define MANY 64

static struct wr_loop *loop;
static struct wr_listener *listener;
static struct wr_address bound;

static int accepted[MANY];
static int accepted_count;
static int reset_count;
static int pause_count;
static bool close_on_accept;
static bool close_on_starved;

/* In place of libc's: counts, and fails as told before it asks the kernel. */
static int accept_calls;
static int injected_error;
static int injected_times;

int accept4(int fd, __SOCKADDR_ARG address, socklen_t *restrict length, int flags)
{
    accept_calls++;
    if (injected_times > 0) {
        injected_times--;
        errno = injected_error;
        return -1;
    }
    return (int)syscall(SYS_accept4, fd, address.__sockaddr__, length, flags);
}

static void on_accepted(void *owner, int fd, const struct wr_address *peer)
{
    cr_assert_eq(owner, &accepted);
    cr_assert(wr_address_is_loopback(peer));
    cr_assert_lt(accepted_count, MANY);
    accepted[accepted_count++] = fd;
    if (close_on_accept)
        wr_listener_close(listener);
}

static void on_starved(void *owner, bool paused)
{
    cr_assert_eq(owner, &accepted);
    if (paused)
        pause_count++;
    else
        reset_count++;
    if (close_on_starved)
        wr_listener_close(listener);
}

static const struct wr_listener_events events = {.accepted = on_accepted, .starved = on_starved};

static void open_listener(enum wr_loop_clock clock, const char *text, unsigned batch)
{
    struct wr_address address;
    struct wr_listen_options options = {.backlog = 256};
    int fd;
    cr_assert_eq(wr_loop_new(clock, &loop), WR_OK);
    cr_assert_eq(wr_address_parse(wr_str_from(text), &address), WR_OK);
    cr_assert_eq(wr_socket_listen(&address, &options, &fd), WR_OK);
    bound.length = sizeof bound.storage;
    getsockname(fd, (struct sockaddr *)&bound.storage, &bound.length);
    cr_assert_eq(wr_listener_new(loop, fd, batch, &events, &accepted, &listener), WR_OK);
    cr_assert_eq(wr_listener_fd(listener), fd);
}

static void close_accepted(void)
{
    while (accepted_count > 0)
        close(accepted[--accepted_count]);
}

static void teardown(void)
{
    wr_listener_close(listener);
    wr_loop_free(loop);
    close_accepted();
}

TestSuite(listener, .fini = teardown, .timeout = 30);

/* N clients that wait in the accept queue. */
static void connect_clients(int *clients, int n)
{
    for (int i = 0; i < n; i++) {
        cr_assert_eq(wr_socket_connect(&bound, &clients[i]), WR_OK);
        struct pollfd p = {.fd = clients[i], .events = POLLOUT};
        cr_assert_eq(poll(&p, 1, 5000), 1);
    }
}

static void close_clients(const int *clients, int n)
{
    for (int i = 0; i < n; i++)
        close(clients[i]);
}

static void turns(int n)
{
    for (int i = 0; i < n; i++)
        wr_loop_turn(loop, 0);
}

/* So that just N more descriptors can be opened. */
static void leave_descriptors(int n)
{
    int lowest = dup(STDERR_FILENO);
    close(lowest);
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = (rlim_t)(lowest + n);
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

Test(listener, what_is_accepted)
{
    open_listener(WR_CLOCK_SIMULATED, "127.0.0.1:0", 16);
    int client;
    connect_clients(&client, 1);
    wr_loop_turn(loop, WR_SEC);
    cr_assert_eq(accepted_count, 1);
    int on = 0;
    socklen_t size = sizeof on;
    getsockopt(accepted[0], IPPROTO_TCP, TCP_NODELAY, &on, &size);
    cr_assert_neq(on, 0);
    cr_assert(fcntl(accepted[0], F_GETFL) & O_NONBLOCK);
    cr_assert(fcntl(accepted[0], F_GETFD) & FD_CLOEXEC);
    close(client);
}

Test(listener, unix_socket)
{
    char folder[] = "/tmp/wr-io-XXXXXX";
    char text[64];
    cr_assert_not_null(mkdtemp(folder));
    snprintf(text, sizeof text, "unix:%s/s", folder);
    open_listener(WR_CLOCK_SIMULATED, text, 16);
    int client;
    connect_clients(&client, 1);
    wr_loop_turn(loop, WR_SEC);
    cr_assert_eq(accepted_count, 1);
    close(client);
    unlink(text + 5);
    rmdir(folder);
}

Test(listener, a_batch_a_turn_and_all_in_the_end)
{
    open_listener(WR_CLOCK_SIMULATED, "127.0.0.1:0", 4);
    turns(1);
    int clients[10];
    connect_clients(clients, 10);
    int before = 0;
    for (int i = 0; i < 3; i++) {
        wr_loop_turn(loop, 5 * WR_SEC); /* does not wait: no further edge comes */
        cr_assert_leq(accepted_count - before, 4);
        cr_assert_gt(accepted_count, before);
        before = accepted_count;
    }
    cr_assert_eq(accepted_count, 10);
    close_clients(clients, 10);
}

Test(listener, closing_in_its_own_callback)
{
    open_listener(WR_CLOCK_SIMULATED, "127.0.0.1:0", 16);
    int clients[3];
    connect_clients(clients, 3);
    close_on_accept = true;
    turns(3);
    cr_assert_eq(accepted_count, 1);
    listener = NULL;
    close_clients(clients, 3);
}

Test(listener, errors_of_one_connection_do_not_stop_it)
{
    open_listener(WR_CLOCK_SIMULATED, "127.0.0.1:0", 16);
    turns(1);
    static const int errors[] = {ECONNABORTED, EINTR, EPROTO, EPERM};
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        int client;
        connect_clients(&client, 1);
        injected_error = errors[i];
        injected_times = 3;
        wr_loop_turn(loop, WR_SEC);
        cr_assert_eq(accepted_count, (int)i + 1);
        close(client);
    }
    cr_assert_eq(pause_count, 0);
}

Test(listener, lasting_errors_of_one_connection_are_bounded_a_turn)
{
    open_listener(WR_CLOCK_SIMULATED, "127.0.0.1:0", 8);
    turns(1);
    int client;
    connect_clients(&client, 1);
    injected_error = ECONNABORTED;
    injected_times = 20;
    accept_calls = 0;
    wr_loop_turn(loop, WR_SEC);
    cr_assert_eq(accept_calls, 8);
    turns(3);
    cr_assert_eq(accepted_count, 1);
    close(client);
}

Test(listener, an_unknown_error_pauses)
{
    open_listener(WR_CLOCK_SIMULATED, "127.0.0.1:0", 8);
    turns(1);
    int client;
    connect_clients(&client, 1);
    injected_error = EINVAL;
    injected_times = 1;
    accept_calls = 0;
    turns(5);
    cr_assert_eq(accept_calls, 1);
    cr_assert_eq(pause_count, 1);
    wr_loop_advance(loop, 102 * WR_MSEC);
    cr_assert_eq(accepted_count, 1);
    close(client);
}

Test(listener, no_memory_resets_one_and_pauses)
{
    open_listener(WR_CLOCK_SIMULATED, "127.0.0.1:0", 8);
    turns(1);
    int clients[3];
    connect_clients(clients, 3);
    injected_error = ENOBUFS;
    injected_times = 1;
    turns(5);
    cr_assert_eq(reset_count, 1);
    cr_assert_eq(pause_count, 1);
    cr_assert_eq(accepted_count, 0);
    wr_loop_advance(loop, 99 * WR_MSEC);
    cr_assert_eq(accepted_count, 0);
    wr_loop_advance(loop, 3 * WR_MSEC);
    cr_assert_eq(accepted_count, 2);
    close_clients(clients, 3);
}

Test(listener, the_last_descriptor_is_no_starvation)
{
    open_listener(WR_CLOCK_SIMULATED, "127.0.0.1:0", 16);
    turns(1);
    int clients[3];
    connect_clients(clients, 3);
    leave_descriptors(3);
    turns(5);
    /* The kernel says EMFILE here too, where nothing waits any more. */
    cr_assert_eq(accepted_count, 3);
    cr_assert_eq(reset_count + pause_count, 0);
    close_clients(clients, 3);
}

Test(listener, starved_it_refuses_pauses_and_recovers)
{
    open_listener(WR_CLOCK_SIMULATED, "127.0.0.1:0", 16);
    turns(1);
    int clients[10];
    connect_clients(clients, 10);
    leave_descriptors(3);
    accept_calls = 0;
    turns(20);
    cr_assert_eq(accepted_count, 3);
    cr_assert_eq(reset_count, 1);
    cr_assert_eq(pause_count, 1);
    cr_assert_eq(accept_calls, 5, "3 accepted, 1 EMFILE, 1 to reset");
    struct pollfd p = {.fd = clients[3], .events = POLLIN};
    cr_assert_eq(poll(&p, 1, 1000), 1);
    cr_assert(p.revents & POLLERR, "the fourth was reset");

    wr_loop_advance(loop, 102 * WR_MSEC);
    cr_assert_eq(reset_count, 2);
    cr_assert_eq(pause_count, 2);
    cr_assert_eq(accepted_count, 3);

    /* Descriptors come back; no edge tells of it. */
    close(accepted[--accepted_count]);
    close(accepted[--accepted_count]);
    wr_loop_advance(loop, 102 * WR_MSEC);
    cr_assert_eq(accepted_count, 3);
    cr_assert_eq(reset_count, 3);
    close_accepted();
    close_clients(clients, 10);
    wr_loop_advance(loop, 102 * WR_MSEC);
    cr_assert_eq(accepted_count, 2, "what is left of 10");
    cr_assert_eq(pause_count, 3);
}

Test(listener, closing_while_starved)
{
    open_listener(WR_CLOCK_SIMULATED, "127.0.0.1:0", 16);
    turns(1);
    int clients[3];
    connect_clients(clients, 3);
    leave_descriptors(0);
    close_on_starved = true;
    turns(5);
    cr_assert_eq(reset_count, 1);
    cr_assert_eq(pause_count, 0);
    listener = NULL;
    close_clients(clients, 3);
}

Test(listener, starved_it_never_spins)
{
    open_listener(WR_CLOCK_MONOTONIC, "127.0.0.1:0", 16);
    turns(1);
    int clients[40];
    connect_clients(clients, 40);
    leave_descriptors(2);
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    accept_calls = 0;
    uint64_t first_turn = wr_loop_turns(loop);
    uint64_t end = wr_time_monotonic() + 1 * WR_SEC;
    while (wr_time_monotonic() < end)
        wr_loop_turn(loop, end - wr_time_monotonic());
    getrusage(RUSAGE_SELF, &after);
    cr_assert_eq(accepted_count, 2);
    cr_assert(reset_count >= 2 && reset_count <= 11, "%d", reset_count);
    cr_assert_eq(pause_count, reset_count);
    cr_assert_leq(accept_calls, 2 + 2 * 11);
    cr_assert_leq(wr_loop_turns(loop) - first_turn, 60);
    int64_t cpu = (after.ru_utime.tv_sec + after.ru_stime.tv_sec - before.ru_utime.tv_sec -
                   before.ru_stime.tv_sec) *
                      1000000 +
                  after.ru_utime.tv_usec + after.ru_stime.tv_usec - before.ru_utime.tv_usec -
                  before.ru_stime.tv_usec;
    cr_assert_lt(cpu, 300000, "%ld us", (long)cpu);
    close_clients(clients, 40);
}
