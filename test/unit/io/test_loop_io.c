/* Descriptors on the loop: edges, hangups, closing inside callbacks. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/time.h"
#include "io/loop.h"
#include "io/socket.h"

static struct wr_loop *loop;

static void setup(void)
{
    cr_assert_eq(wr_loop_new(WR_CLOCK_MONOTONIC, &loop), WR_OK);
}

static void teardown(void)
{
    wr_loop_free(loop);
}

TestSuite(loop_io, .init = setup, .fini = teardown, .timeout = 20);

struct end {
    struct wr_io io;
    int calls;
    unsigned seen;      /* all there was */
    unsigned last;      /* of the last call */
    ssize_t got;        /* of one recv() a call, summed up */
    struct end *closes; /* closed by the callback */
};

static void on_ready(struct wr_io *io, unsigned what)
{
    struct end *end = WR_CONTAINER_OF(io, struct end, io);
    end->calls++;
    end->seen |= what;
    end->last = what;
    char buffer[4096];
    ssize_t n = what & WR_IO_READ ? recv(io->fd, buffer, sizeof buffer, 0) : 0;
    if (n > 0)
        end->got += n;
    if (end->closes != NULL)
        wr_io_close(&end->closes->io);
}

/* A TCP connection on the loopback: the far end is returned, the near one put on the loop. */
static int connect_end(struct end *end)
{
    struct wr_address address;
    cr_assert_eq(wr_address_parse(WR_STR("127.0.0.1:0"), &address), WR_OK);
    struct wr_listen_options options = {.backlog = 4};
    int listening, far;
    cr_assert_eq(wr_socket_listen(&address, &options, &listening), WR_OK);
    address.length = sizeof address.storage;
    getsockname(listening, (struct sockaddr *)&address.storage, &address.length);
    cr_assert_eq(wr_socket_connect(&address, &far), WR_OK);
    struct pollfd p = {.fd = listening, .events = POLLIN};
    cr_assert_eq(poll(&p, 1, 5000), 1);
    int near = accept4(listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    cr_assert_geq(near, 0);
    close(listening);
    memset(end, 0, sizeof *end);
    cr_assert_eq(wr_io_open(loop, &end->io, near, on_ready), WR_OK);
    return far;
}

static void close_end(struct end *end, int far)
{
    int near = end->io.fd;
    wr_io_close(&end->io);
    wr_io_close(&end->io);
    close(near);
    if (far >= 0)
        close(far);
}

static void wait_near(const struct end *end, short what)
{
    struct pollfd p = {.fd = end->io.fd, .events = what};
    cr_assert_eq(poll(&p, 1, 5000), 1);
}

/* A hangup that libevent hides is asked for some milliseconds later. */
static void turn_until_hangup(const struct end *end)
{
    for (int i = 0; i < 100 && (end->seen & WR_IO_HANGUP) == 0; i++)
        wr_loop_turn(loop, 20 * WR_MSEC);
}

Test(loop_io, a_new_socket_is_writable_once)
{
    struct end end;
    int far = connect_end(&end);
    wr_loop_turn(loop, WR_SEC);
    cr_assert_eq(end.calls, 1);
    cr_assert_eq(end.last, WR_IO_WRITE);
    wr_loop_turn(loop, 10 * WR_MSEC);
    cr_assert_eq(end.calls, 1, "an edge comes once");
    close_end(&end, far);
}

Test(loop_io, each_arrival_is_an_edge)
{
    struct end end;
    int far = connect_end(&end);
    wr_loop_turn(loop, WR_SEC);
    for (int i = 1; i <= 3; i++) {
        cr_assert_eq(write(far, "abc", 3), 3);
        wr_loop_turn(loop, WR_SEC);
        cr_assert_eq(end.got, 3 * i);
        cr_assert_eq(end.calls, 1 + i);
        cr_assert(end.last & WR_IO_READ);
        cr_assert_not(end.last & WR_IO_HANGUP);
    }
    close_end(&end, far);
}

Test(loop_io, bytes_and_fin_come_in_one_call)
{
    struct end end;
    int far = connect_end(&end);
    wr_loop_turn(loop, WR_SEC);
    cr_assert_eq(write(far, "abc", 3), 3);
    shutdown(far, SHUT_WR);
    wait_near(&end, POLLRDHUP);
    wr_loop_turn(loop, WR_SEC);
    cr_assert_eq(end.calls, 2);
    cr_assert(end.last & WR_IO_READ);
    cr_assert(end.last & WR_IO_HANGUP);
    cr_assert_eq(end.got, 3);
    close_end(&end, far);
}

Test(loop_io, an_rst_behind_bytes_is_told)
{
    struct end end;
    int far = connect_end(&end);
    wr_loop_turn(loop, WR_SEC);
    cr_assert_eq(write(far, "abc", 3), 3);
    wr_socket_reset(far);
    wait_near(&end, POLLRDHUP);
    turn_until_hangup(&end);
    cr_assert_eq(end.got, 3, "what came before the RST is not lost");
    cr_assert(end.seen & WR_IO_HANGUP, "after a short read nobody would look again");
    close_end(&end, -1);
}

Test(loop_io, rst_alone)
{
    struct end end;
    int far = connect_end(&end);
    wr_loop_turn(loop, WR_SEC);
    wr_socket_reset(far);
    wait_near(&end, POLLRDHUP);
    turn_until_hangup(&end);
    cr_assert(end.seen & WR_IO_READ);
    cr_assert(end.seen & WR_IO_HANGUP);
    close_end(&end, -1);
}

Test(loop_io, many_rst_in_one_turn_with_closing_in_between)
{
    enum { MANY = 150 };
    static struct end ends[MANY];
    int far[MANY];
    for (int i = 0; i < MANY; i++)
        far[i] = connect_end(&ends[i]);
    for (int i = 0; i < 10; i++)
        wr_loop_turn(loop, 0);
    /* Every third closes its neighbour as soon as it hears anything. */
    for (int i = 0; i + 1 < MANY; i += 3)
        ends[i].closes = &ends[i + 1];
    for (int i = 0; i < MANY; i++) {
        cr_assert_eq(write(far[i], "abc", 3), 3);
        wr_socket_reset(far[i]);
    }
    for (int i = 0; i < MANY; i++)
        wait_near(&ends[i], POLLRDHUP);
    for (int i = 0; i < MANY; i++) {
        if (ends[i].io.event != NULL)
            turn_until_hangup(&ends[i]);
    }
    for (int i = 0; i < MANY; i++) {
        if (i % 3 != 1)
            cr_expect(ends[i].got == 3 && ends[i].seen & WR_IO_HANGUP, "%d", i);
        close_end(&ends[i], -1);
    }
}

Test(loop_io, closing_silences_at_once)
{
    struct end a, b;
    int far_a = connect_end(&a);
    int far_b = connect_end(&b);
    for (int i = 0; i < 3; i++)
        wr_loop_turn(loop, 0);
    a.closes = &b;
    b.closes = &a;
    int before = a.calls + b.calls;
    cr_assert_eq(write(far_a, "a", 1), 1);
    cr_assert_eq(write(far_b, "b", 1), 1);
    wait_near(&a, POLLIN);
    wait_near(&b, POLLIN);
    for (int i = 0; i < 3; i++)
        wr_loop_turn(loop, 0);
    cr_assert_eq(a.calls + b.calls, before + 1, "both ready, the first closes the other");
    close_end(&a, far_a);
    close_end(&b, far_b);
}

Test(loop_io, closing_itself)
{
    struct end end;
    int far = connect_end(&end);
    wr_loop_turn(loop, 0);
    end.closes = &end;
    cr_assert_eq(write(far, "a", 1), 1);
    shutdown(far, SHUT_WR);
    wait_near(&end, POLLRDHUP);
    int before = end.calls;
    wr_loop_turn(loop, WR_SEC);
    wr_loop_turn(loop, 0);
    cr_assert_eq(end.calls, before + 1);
    close_end(&end, far);
}

Test(loop_io, a_number_used_again_starts_afresh)
{
    struct end end;
    int far = connect_end(&end);
    wr_loop_turn(loop, 0);
    int number = end.io.fd;
    close_end(&end, far);
    far = connect_end(&end);
    cr_assert(end.io.fd == number || far == number, "the test means to reuse the number");
    wr_loop_turn(loop, WR_SEC);
    cr_assert_eq(end.last, WR_IO_WRITE);
    close_end(&end, far);
}

Test(loop_io, writable_again_after_a_full_socket)
{
    struct end end;
    int far = connect_end(&end);
    wr_loop_turn(loop, 0);
    static char block[65536];
    ssize_t n;
    do
        n = send(end.io.fd, block, sizeof block, MSG_NOSIGNAL);
    while (n > 0);
    cr_assert_eq(errno, EAGAIN);
    end.seen = 0;
    for (int i = 0; i < 1000 && !(end.seen & WR_IO_WRITE); i++) {
        while (recv(far, block, sizeof block, MSG_DONTWAIT) > 0)
            ;
        wr_loop_turn(loop, 10 * WR_MSEC);
    }
    cr_assert(end.seen & WR_IO_WRITE);
    close_end(&end, far);
}

Test(loop_io, refused_connection_is_told)
{
    struct end end = {0};
    struct wr_address address;
    cr_assert_eq(wr_address_parse(WR_STR("127.0.0.1:1"), &address), WR_OK);
    int fd;
    if (wr_socket_connect(&address, &fd) != WR_OK)
        return;
    cr_assert_eq(wr_io_open(loop, &end.io, fd, on_ready), WR_OK);
    wr_loop_turn(loop, 5 * WR_SEC);
    cr_assert(end.seen & WR_IO_WRITE);
    close_end(&end, -1);
}

Test(loop_io, what_cannot_be_watched)
{
    struct end end = {0};
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    cr_assert_geq(fd, 0);
    cr_assert_eq(wr_io_open(loop, &end.io, fd, on_ready), WR_ERR_SYSTEM);
    wr_io_close(&end.io);
    close(fd);
}
