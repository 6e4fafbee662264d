/* A listener, or its socket, that is shut for a moment: the kernel refuses connections meanwhile. */
#include <criterion/criterion.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/time.h"
#include "io/listener.h"

#define MANY 64

static struct wr_loop *loop;
static struct wr_listener *listener;
static struct wr_address bound;

static int accepted[MANY];
static int accepted_count;
static int pause_count;
static bool close_on_accept;
static uint64_t shut_on_accept; /* until when, from now; 0: it stays open */
static int reopen_count;
static uint64_t shut_for;

static void on_accepted(void *owner, int fd, const struct wr_address *peer)
{
    (void)owner;
    (void)peer;
    cr_assert_lt(accepted_count, MANY);
    accepted[accepted_count++] = fd;
    if (shut_on_accept > 0)
        wr_listener_shut(listener, wr_loop_now(loop) + shut_on_accept);
    if (close_on_accept)
        wr_listener_close(listener);
}

static void on_starved(void *owner, bool paused)
{
    (void)owner;
    cr_assert(paused);
    pause_count++;
}

static void on_reopened(void *owner, uint64_t usec)
{
    cr_assert_eq(owner, &accepted);
    reopen_count++;
    shut_for += usec;
}

static const struct wr_listener_events events = {
    .accepted = on_accepted,
    .starved = on_starved,
    .reopened = on_reopened,
};

static int listen_at(const struct wr_address *address, bool reuse_port)
{
    const struct wr_listen_options options = {.backlog = 256, .reuse_port = reuse_port};
    int fd;
    cr_assert_eq(wr_socket_listen(address, &options, &fd), WR_OK);
    bound.length = sizeof bound.storage;
    getsockname(fd, (struct sockaddr *)&bound.storage, &bound.length);
    return fd;
}

/* With a port that was asked for, not chosen by the kernel: another one keeps it free until then. */
static int listen_at_a_port(const char *text)
{
    struct wr_address address;
    cr_assert_eq(wr_address_parse(wr_str_from(text), &address), WR_OK);
    int keeper = listen_at(&address, true);
    address = bound;
    int fd = listen_at(&address, true);
    close(keeper);
    return fd;
}

static void open_listener(const char *text, unsigned batch)
{
    struct wr_address address;
    cr_assert_eq(wr_loop_new(WR_CLOCK_SIMULATED, &loop), WR_OK);
    cr_assert_eq(wr_address_parse(wr_str_from(text), &address), WR_OK);
    int fd = listen_at(&address, false);
    cr_assert_eq(wr_listener_new(loop, fd, batch, &events, &accepted, &listener), WR_OK);
}

static void teardown(void)
{
    wr_listener_close(listener);
    wr_loop_free(loop);
    while (accepted_count > 0)
        close(accepted[--accepted_count]);
}

TestSuite(shut, .fini = teardown, .timeout = 30);

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

/* What a client is told that connects now: 0, or the error. */
static int told(void)
{
    int fd = socket(bound.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int error = connect(fd, (const struct sockaddr *)&bound.storage, bound.length) == 0 ? 0 : errno;
    close(fd);
    return error;
}

/* A client has come, and with it the moment to shut. */
static void shut_with(int *client)
{
    turns(1);
    connect_clients(client, 1);
    shut_on_accept = 3 * WR_MSEC;
    wr_loop_turn(loop, WR_SEC);
    shut_on_accept = 0;
    cr_assert_eq(accepted_count, 1);
}

static void expect_open(int count)
{
    int client;
    connect_clients(&client, 1);
    wr_loop_turn(loop, WR_SEC);
    cr_assert_eq(accepted_count, count);
    close(client);
}

static void expect_shut_and_reopened(const char *text)
{
    int client;
    open_listener(text, 16);
    shut_with(&client);
    unsigned length;
    unsigned limit;
    for (unsigned i = 0; i < 3; i++) {
        cr_assert_eq(told(), ECONNREFUSED);
        turns(2);
        wr_listener_queue(listener, &length, &limit);
        cr_assert_eq(limit, 256);
        cr_assert_eq(length, 0);
    }
    cr_assert_eq(wr_loop_turns(loop), 8);
    wr_loop_advance(loop, 2 * WR_MSEC);
    cr_assert_eq(told(), ECONNREFUSED);
    cr_assert_eq(reopen_count, 0);
    wr_loop_advance(loop, 2 * WR_MSEC);
    cr_assert_eq(reopen_count, 1);
    cr_assert_geq(shut_for, 3 * WR_MSEC);
    cr_assert_leq(shut_for, 4 * WR_MSEC);
    expect_open(2);
    wr_listener_queue(listener, &length, &limit);
    cr_assert_eq(limit, 256);
    int on = 0;
    socklen_t size = sizeof on;
    getsockopt(accepted[1], IPPROTO_TCP, TCP_NODELAY, &on, &size);
    cr_assert_neq(on, 0);
    cr_assert_eq(pause_count, 0);
    close(client);
}

Test(shut, the_kernel_refuses)
{
    expect_shut_and_reopened("127.0.0.1:0");
}

Test(shut, the_kernel_refuses_ipv6)
{
    expect_shut_and_reopened("[::1]:0");
}

Test(shut, who_is_left_in_the_queue_is_reset)
{
    open_listener("127.0.0.1:0", 4);
    turns(1);
    int clients[10];
    connect_clients(clients, 10);
    shut_on_accept = 3 * WR_MSEC;
    turns(3);
    cr_assert_eq(accepted_count, 4, "the rest of the batch is heard");
    for (int i = 4; i < 10; i++) {
        struct pollfd p = {.fd = clients[i], .events = POLLIN};
        cr_assert_eq(poll(&p, 1, 5000), 1);
        cr_assert(p.revents & POLLERR);
    }
    close_clients(clients, 10);
}

Test(shut, rising_early)
{
    int client;
    open_listener("127.0.0.1:0", 16);
    shut_with(&client);
    wr_listener_rise(listener);
    cr_assert_eq(reopen_count, 1);
    expect_open(2);
    wr_loop_advance(loop, 10 * WR_MSEC);
    cr_assert_eq(reopen_count, 1);
    close(client);
}

Test(shut, again_and_again)
{
    open_listener("127.0.0.1:0", 16);
    turns(1);
    shut_on_accept = WR_MSEC;
    for (int i = 1; i <= 20; i++) {
        expect_open(i);
        cr_assert_eq(told(), ECONNREFUSED);
        wr_loop_advance(loop, 2 * WR_MSEC);
        cr_assert_eq(reopen_count, i);
    }
}

Test(shut, closing_meanwhile)
{
    int client;
    open_listener("127.0.0.1:0", 16);
    shut_with(&client);
    wr_listener_close(listener);
    listener = NULL;
    wr_loop_advance(loop, 10 * WR_MSEC);
    cr_assert_eq(reopen_count, 0);
    cr_assert_eq(told(), ECONNREFUSED);
    close(client);
}

Test(shut, closing_in_the_same_callback)
{
    open_listener("127.0.0.1:0", 16);
    int clients[3];
    connect_clients(clients, 3);
    close_on_accept = true;
    shut_on_accept = WR_MSEC;
    turns(3);
    wr_loop_advance(loop, 10 * WR_MSEC);
    cr_assert_eq(accepted_count, 1);
    cr_assert_eq(reopen_count, 0);
    listener = NULL;
    close_clients(clients, 3);
}

/* A port that the kernel chose is free for anybody while the listener is shut. */
Test(shut, without_its_address_it_tries_again)
{
    int client;
    int thief;
    struct wr_listen_options options = {.backlog = 1};
    open_listener("127.0.0.1:0", 16);
    shut_with(&client);
    cr_assert_eq(wr_socket_listen(&bound, &options, &thief), WR_OK);
    wr_loop_advance(loop, 5 * WR_MSEC);
    cr_assert_eq(pause_count, 1);
    cr_assert_eq(reopen_count, 0);
    close(thief);
    wr_loop_advance(loop, 101 * WR_MSEC);
    cr_assert_eq(reopen_count, 1);
    expect_open(2);
    close(client);
}

Test(shut, a_unix_socket_rests_instead)
{
    char folder[] = "/tmp/wr-io-XXXXXX";
    char text[64];
    int client;
    cr_assert_not_null(mkdtemp(folder));
    snprintf(text, sizeof text, "unix:%s/s", folder);
    open_listener(text, 16);
    shut_with(&client);
    int second;
    connect_clients(&second, 1);
    turns(3);
    cr_assert_eq(accepted_count, 1);
    wr_loop_advance(loop, 4 * WR_MSEC);
    cr_assert_eq(accepted_count, 2);
    cr_assert_eq(reopen_count, 0);
    close(client);
    close(second);
    unlink(text + 5);
    rmdir(folder);
}

/* ---- its socket ---- */

Test(shut, the_address_stays_its_own)
{
    const struct wr_listen_options alone = {.backlog = 1};
    int fd = listen_at_a_port("127.0.0.1:0");
    int other;
    cr_assert_eq(wr_socket_shut(fd), WR_OK);
    cr_assert_eq(told(), ECONNREFUSED);
    cr_assert_eq(wr_socket_listen(&bound, &alone, &other), WR_ERR_SYSTEM);
    cr_assert_eq(errno, EADDRINUSE);
    cr_assert_eq(wr_socket_reopen(fd, &bound, 7), WR_OK);
    cr_assert_eq(told(), 0);
    close(fd);
    fd = listen_at(&bound, false);
    cr_assert_eq(told(), 0);
    close(fd);
}

/* Of connections that were accepted before, some live on. */
Test(shut, connections_do_not_stand_in_its_way)
{
    int fd = listen_at_a_port("[::1]:0");
    int clients[3];
    for (int i = 0; i < 3; i++) {
        connect_clients(&clients[i], 1);
        struct pollfd p = {.fd = fd, .events = POLLIN};
        cr_assert_eq(poll(&p, 1, 5000), 1);
        int server = accept(fd, NULL, NULL);
        cr_assert_geq(server, 0);
        cr_assert_eq(wr_socket_shut(fd), WR_OK);
        cr_assert_eq(wr_socket_reopen(fd, &bound, 7), WR_OK);
        cr_assert(wr_socket_is_quiet(server));
        accepted[accepted_count++] = server;
    }
    close_clients(clients, 3);
    close(fd);
}

Test(shut, others_of_the_address_take_all)
{
    int one = listen_at_a_port("127.0.0.1:0");
    int other = listen_at(&bound, true);
    int clients[20];
    unsigned length, limit;
    cr_assert_eq(wr_socket_shut(one), WR_OK);
    connect_clients(clients, 20);
    wr_socket_accept_queue(other, &length, &limit);
    cr_assert_eq(length, 20);
    close_clients(clients, 20);
    cr_assert_eq(wr_socket_reopen(one, &bound, 256), WR_OK);
    cr_assert_eq(wr_socket_shut(other), WR_OK);
    connect_clients(clients, 20);
    wr_socket_accept_queue(one, &length, &limit);
    cr_assert_eq(length, 20);
    close_clients(clients, 20);
    cr_assert_eq(wr_socket_shut(one), WR_OK);
    cr_assert_eq(told(), ECONNREFUSED);
    close(one);
    close(other);
}
