#include "storm/storm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "support/net.h"

#define BEGIN_AT_ONCE 32
#define EVENTS_AT_ONCE 512
#define NAP_USEC 200 /* the shortest sleep: arrivals come in bursts of so much time */
#define NAP_MOST_USEC 50000

struct connection {
    int fd;
    enum phase phase;
    enum claim claim;
    uint64_t began;
    struct tls *tls;          /* from the first byte of the server on */
    struct connection *older; /* in the order they began, as long as they are open */
    struct connection *newer;
};

struct storm {
    const struct storm_options *options;
    const struct offer *offers;
    struct account *account;
    unsigned number;
    uint64_t start;
    uint64_t begun;
    uint64_t open;
    int epoll;
    struct connection *oldest;
    struct connection *newest;
    struct connection *spare; /* linked by OLDER */
    struct tls *idle[256];    /* some of these are enough: few handshakes are under way at a time */
    unsigned idle_count;
};

/* ---- connections in order of age ---- */

static struct connection *take_connection(struct storm *storm)
{
    struct connection *connection = storm->spare;

    if (connection)
        storm->spare = connection->older;
    else if (!(connection = malloc(sizeof(*connection))))
        die("memory");
    connection->older = storm->newest;
    connection->newer = NULL;
    if (storm->newest)
        storm->newest->newer = connection;
    else
        storm->oldest = connection;
    storm->newest = connection;
    storm->open++;
    return connection;
}

static void give_connection(struct storm *storm, struct connection *connection)
{
    if (connection->older)
        connection->older->newer = connection->newer;
    else
        storm->oldest = connection->newer;
    if (connection->newer)
        connection->newer->older = connection->older;
    else
        storm->newest = connection->older;
    connection->older = storm->spare;
    storm->spare = connection;
    storm->open--;
}

static struct tls *take_tls(struct storm *storm, const struct offer *offer)
{
    struct tls *tls =
        storm->idle_count > 0 ? storm->idle[--storm->idle_count] : malloc(sizeof(*tls));

    if (!tls)
        die("memory");
    tls_start(tls, offer);
    return tls;
}

static void give_tls(struct storm *storm, struct tls *tls)
{
    tls_end(tls);
    if (storm->idle_count < 256)
        storm->idle[storm->idle_count++] = tls;
    else
        free(tls);
}

/* ---- how they end ---- */

static void end(struct storm *storm, struct connection *connection, enum outcome outcome)
{
    uint64_t now = now_usec();
    bool finished = outcome == OUTCOME_FULL || outcome == OUTCOME_RESUMED;

    account_end(storm->account, storm->start, now, connection->claim, outcome, connection->phase,
                now - connection->began);
    bool left = outcome == OUTCOME_GAVE_UP || outcome == OUTCOME_STALLED;

    if (finished || (left && !storm->options->leave_with_fin) || outcome == OUTCOME_OTHER)
        close_with_reset(connection->fd);
    else
        (void)close(connection->fd);
    if (connection->tls)
        give_tls(storm, connection->tls);
    give_connection(storm, connection);
}

static void end_finished(struct storm *storm, struct connection *connection)
{
    end(storm, connection, connection->tls->resumed ? OUTCOME_RESUMED : OUTCOME_FULL);
}

/* The server may end the connection as its answer to our close_notify. */
static void end_of_stream(struct storm *storm, struct connection *connection)
{
    if (connection->phase == PHASE_FINISHED)
        end_finished(storm, connection);
    else
        end(storm, connection, OUTCOME_CLOSED);
}

static void end_by_error(struct storm *storm, struct connection *connection, int error)
{
    bool reset = error == ECONNRESET || error == EPIPE || error == ECONNREFUSED;
    end(storm, connection, reset ? OUTCOME_RESET : OUTCOME_OTHER);
}

static void give_up(struct storm *storm, uint64_t now)
{
    uint64_t patience = storm->options->patience;
    enum outcome outcome = storm->options->stall ? OUTCOME_STALLED : OUTCOME_GAVE_UP;

    while (patience && storm->oldest && storm->oldest->began + patience <= now)
        end(storm, storm->oldest, outcome);
}

/* ---- what they do ---- */

/* False: the connection is no more. A send of so few bytes is done whole or not at all. */
static bool send_hello(struct storm *storm, struct connection *connection)
{
    const struct offer *offer = &storm->offers[connection->claim];
    ssize_t n = send(connection->fd, offer->record, offer->length, MSG_NOSIGNAL);

    if (n < 0 && errno == EAGAIN)
        return true;
    if (n != (ssize_t)offer->length) {
        end_by_error(storm, connection, n < 0 ? errno : 0);
        return false;
    }
    connection->phase = PHASE_HELLO;
    return true;
}

static bool send_finished(struct storm *storm, struct connection *connection)
{
    struct tls *tls = connection->tls;
    ssize_t n = send(connection->fd, tls->out, tls->out_length, MSG_NOSIGNAL);

    if (n != (ssize_t)tls->out_length) {
        end_by_error(storm, connection, n < 0 ? errno : 0);
        return false;
    }
    tls->out_length = 0;
    connection->phase = PHASE_FINISHED;
    return true;
}

/* False: the connection is no more. */
static bool progressed(struct storm *storm, struct connection *connection,
                       enum tls_progress progress)
{
    switch (progress) {
    case TLS_MORE:
        if (connection->phase == PHASE_HELLO && connection->tls->state != AWAIT_HELLO)
            connection->phase = PHASE_ANSWERED;
        return connection->tls->out_length == 0 || send_finished(storm, connection);
    case TLS_DONE:
        end_finished(storm, connection);
        break;
    case TLS_ALERT:
        end(storm, connection, OUTCOME_ALERT);
        break;
    case TLS_BROKEN:
        end(storm, connection, OUTCOME_OTHER);
        break;
    }
    return false;
}

static struct tls *tls_of(struct storm *storm, struct connection *connection)
{
    if (!connection->tls)
        connection->tls = take_tls(storm, &storm->offers[connection->claim]);
    return connection->tls;
}

/* Refused connections are read into memory of no one: most bring an error, and need no TLS. */
static void receive(struct storm *storm, struct connection *connection)
{
    for (;;) {
        struct tls *tls = tls_of(storm, connection);
        size_t room = INPUT_MOST - tls->got;
        ssize_t n = recv(connection->fd, tls->input + tls->got, room, 0);
        if (n == 0) {
            end_of_stream(storm, connection);
            return;
        }
        if (n < 0) {
            if (errno != EAGAIN)
                end_by_error(storm, connection, errno);
            return;
        }
        if (!progressed(storm, connection, tls_received(tls, (size_t)n)))
            return;
        if ((size_t)n < room)
            return;
    }
}

/* One that stalls wants to know only how it ends; TLS for so many would need memory. */
static void watch(struct storm *storm, struct connection *connection)
{
    uint8_t input[INPUT_MOST];
    ssize_t n;

    while ((n = recv(connection->fd, input, sizeof(input), 0)) > 0) {
        if (connection->phase == PHASE_HELLO && input[0] == RECORD_ALERT) {
            end(storm, connection, OUTCOME_ALERT);
            return;
        }
        connection->phase = PHASE_ANSWERED;
    }
    if (n == 0)
        end(storm, connection, OUTCOME_CLOSED);
    else if (errno != EAGAIN)
        end_by_error(storm, connection, errno);
}

static void ready(struct storm *storm, struct connection *connection, unsigned events)
{
    if (connection->phase == PHASE_CONNECT) {
        if (events & EPOLLERR) {
            int error = 0;
            socklen_t length = sizeof(error);
            (void)getsockopt(connection->fd, SOL_SOCKET, SO_ERROR, &error, &length);
            end_by_error(storm, connection, error);
            return;
        }
        if (storm->options->silent)
            connection->phase = PHASE_HELLO;
        else if (!(events & EPOLLOUT) || !send_hello(storm, connection))
            return;
    }
    if (!(events & (EPOLLIN | EPOLLERR | EPOLLHUP | EPOLLRDHUP)))
        return;
    if (storm->options->stall)
        watch(storm, connection);
    else
        receive(storm, connection);
}

/* ---- when they begin ---- */

static enum claim claim_of(const struct storm *storm, uint64_t index)
{
    double share = storm->options->resume_share;
    return (uint64_t)((double)(index + 1) * share) > (uint64_t)((double)index * share)
               ? CLAIM_RESUME
               : CLAIM_FULL;
}

/* A connection over loopback is made by the time connect() returns, unless the server's queue is full: then the hello goes out when
 * epoll says so. False: no descriptor or port, try later. */
static bool begin(struct storm *storm, uint64_t index, uint64_t due)
{
    uint64_t now = now_usec();
    enum claim claim = claim_of(storm, index);
    int fd = connect_from((unsigned)(index % storm->options->sources), storm->options->port);

    if (fd < 0 &&
        (errno == EMFILE || errno == ENFILE || errno == EADDRNOTAVAIL || errno == ENOBUFS))
        return false;
    if (fd < 0 && errno != ECONNREFUSED)
        die("connect");
    account_begin(storm->account, storm->start, now, claim, now > due ? now - due : 0);
    storm->begun++;
    if (fd < 0) {
        account_end(storm->account, storm->start, now, claim, OUTCOME_RESET, PHASE_CONNECT, 0);
        return true;
    }
    struct connection *connection = take_connection(storm);
    connection->fd = fd;
    connection->phase = PHASE_CONNECT;
    connection->claim = claim;
    connection->began = now;
    connection->tls = NULL;
    if (!storm->options->silent && !send_hello(storm, connection))
        return true;
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET, .data.ptr = connection};
    if (connection->phase == PHASE_CONNECT)
        event.events |= EPOLLOUT;
    if (epoll_ctl(storm->epoll, EPOLL_CTL_ADD, fd, &event) != 0)
        die("epoll_ctl");
    return true;
}

static uint64_t index_of(const struct storm *storm, uint64_t begun)
{
    return begun * storm->options->processes + storm->number;
}

static uint64_t due(const struct storm *storm, uint64_t begun)
{
    double rate = storm->options->rate;
    return rate > 0 ? storm->start + (uint64_t)((double)index_of(storm, begun) / rate * 1e6)
                    : storm->start;
}

/* Whether the next connection is one of the storm at all. */
static bool is_over(const struct storm *storm, uint64_t now)
{
    const struct storm_options *options = storm->options;
    uint64_t length = (uint64_t)(options->seconds * 1e6);

    if (options->count && index_of(storm, storm->begun) >= options->count)
        return true;
    return length &&
           (now - storm->start >= length || due(storm, storm->begun) - storm->start >= length);
}

static void begin_some(struct storm *storm, uint64_t now)
{
    for (int i = 0; i < BEGIN_AT_ONCE; i++) {
        if (storm->open >= storm->options->most_open || is_over(storm, now))
            return;
        uint64_t at = due(storm, storm->begun);
        if (at > now || !begin(storm, index_of(storm, storm->begun), at))
            return;
    }
}

/* Microseconds until something has to be done that no event announces. */
static uint64_t nap(const struct storm *storm, uint64_t now)
{
    uint64_t until = now + NAP_MOST_USEC;
    bool over = is_over(storm, now);

    if (!over && storm->open < storm->options->most_open && due(storm, storm->begun) < until)
        until = due(storm, storm->begun);
    if (storm->options->patience && storm->oldest &&
        storm->oldest->began + storm->options->patience < until)
        until = storm->oldest->began + storm->options->patience;
    if (until <= now)
        return 0;
    return until - now < NAP_USEC ? NAP_USEC : until - now;
}

static void turn(struct storm *storm)
{
    struct epoll_event events[EVENTS_AT_ONCE];
    uint64_t now = now_usec();

    begin_some(storm, now);
    give_up(storm, now);
    uint64_t wait = nap(storm, now);
    struct timespec time = {.tv_sec = (time_t)(wait / 1000000),
                            .tv_nsec = (long)(wait % 1000000 * 1000)};
    int n = epoll_pwait2(storm->epoll, events, EVENTS_AT_ONCE, &time, NULL);
    for (int i = 0; i < n; i++)
        ready(storm, events[i].data.ptr, events[i].events);
}

/* Those that were due within the time, if the machine had been faster. */
static uint64_t missing(const struct storm *storm)
{
    const struct storm_options *options = storm->options;
    uint64_t length = (uint64_t)(options->seconds * 1e6);
    uint64_t n = storm->begun;

    if (!length || !(options->rate > 0))
        return 0;
    while (due(storm, n) - storm->start < length &&
           !(options->count && index_of(storm, n) >= options->count))
        n++;
    return n - storm->begun;
}

static void free_all(struct storm *storm)
{
    while (storm->spare) {
        struct connection *next = storm->spare->older;
        free(storm->spare);
        storm->spare = next;
    }
    while (storm->idle_count > 0)
        free(storm->idle[--storm->idle_count]);
    (void)close(storm->epoll);
}

void storm_run(const struct storm_options *options, const struct offer offers[CLAIM__COUNT],
               unsigned number, uint64_t start, struct account *account)
{
    struct storm storm = {
        .options = options, .offers = offers, .account = account, .number = number, .start = start};
    struct timespec cpu;

    storm.epoll = epoll_create1(EPOLL_CLOEXEC);
    if (storm.epoll < 0)
        die("epoll_create1");
    while (now_usec() < start)
        (void)usleep(NAP_USEC);
    while (storm.open > 0 || !is_over(&storm, now_usec()))
        turn(&storm);
    account->unbegun = missing(&storm);
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    account->cpu = (uint64_t)cpu.tv_sec * 1000000 + (uint64_t)cpu.tv_nsec / 1000;
    free_all(&storm);
}
