#include "probe/probe.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "support/net.h"

#define ANSWER_ROOM 4096
#define SOURCE 50000 /* none of those a storm comes from */
#define SET_UP_USEC 10000000
#define TRY_AGAIN_USEC 50000

/* CONNECTING and IDLE and BUSY are those of an established connection; a fresh one ends when it is connected. */
enum state { CONNECTING, IDLE, BUSY };

struct connection {
    struct probe *probe;
    SSL *ssl;
    int fd;
    bool fresh;
    enum state state;
    uint64_t due; /* of the request, or of the fresh connection */
    size_t got;
    char answer[ANSWER_ROOM];
    struct connection *next; /* of the fresh ones */
};

struct probe {
    const struct probe_options *options;
    SSL_CTX *tls;
    int epoll;
    char request[512];
    int request_length;
    uint64_t start;
    uint64_t sent;  /* requests handed to a connection */
    uint64_t fresh; /* connections begun */
    unsigned next;  /* connection to look at first */
    bool ready; /* the established connections are there; before, none is lost but only refused */
    bool over;
    struct connection *established;
    struct connection *fresh_ones;
};

static void sample(const char *what, uint64_t due, const char *how)
{
    uint64_t now = now_usec();
    (void)printf("%.4f %s %.3f %s\n", (double)due / 1e6, what, (double)(now - due) / 1e3, how);
}

/* ---- connections ---- */

/* The server does not take it: to be tried again. */
static void open_connection(struct probe *probe, struct connection *connection)
{
    connection->state = CONNECTING;
    connection->got = 0;
    connection->fd = connect_from(SOURCE, probe->options->port);
    if (connection->fd < 0)
        return;
    connection->ssl = SSL_new(probe->tls);
    if (!connection->ssl || !SSL_set_fd(connection->ssl, connection->fd))
        die("SSL_new");
    SSL_set_connect_state(connection->ssl);
    (void)SSL_set_tlsext_host_name(connection->ssl, "localhost");
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = connection};
    if (epoll_ctl(probe->epoll, EPOLL_CTL_ADD, connection->fd, &event) != 0)
        die("epoll_ctl");
}

static void close_connection(struct connection *connection)
{
    if (connection->fd >= 0)
        close_with_reset(connection->fd);
    SSL_free(connection->ssl);
    ERR_clear_error();
    connection->ssl = NULL;
    connection->fd = -1;
}

/* An established connection that was lost is made anew; its request was an error. */
static void fail(struct connection *connection)
{
    if (connection->fresh)
        sample("connect", connection->due, "failed");
    else if (connection->state == BUSY)
        sample("request", connection->due, "failed");
    else if (connection->probe->ready)
        sample("connection", now_usec(), "lost");
    close_connection(connection);
}

static bool is_answer(const struct connection *connection)
{
    const char *end = memmem(connection->answer, connection->got, "\r\n\r\n", 4);
    const char *length = end ? strcasestr(connection->answer, "\r\ncontent-length:") : NULL;

    if (!length || length > end)
        return false;
    size_t body = strtoul(length + strlen("\r\ncontent-length:"), NULL, 10);
    return connection->got == (size_t)(end + 4 - connection->answer) + body;
}

static bool would_block(const struct connection *connection, int result)
{
    int why = SSL_get_error(connection->ssl, result);
    return why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE;
}

static void handshake(struct connection *connection)
{
    int n = SSL_do_handshake(connection->ssl);

    if (n == 1 && connection->fresh) {
        sample("connect", connection->due, "ok");
        close_connection(connection);
    } else if (n == 1) {
        connection->state = IDLE;
    } else if (!would_block(connection, n)) {
        fail(connection);
    }
}

static void read_answer(struct connection *connection)
{
    for (;;) {
        size_t room = ANSWER_ROOM - 1 - connection->got;
        int n = SSL_read(connection->ssl, connection->answer + connection->got, (int)room);
        if (n <= 0) {
            if (!would_block(connection, n))
                fail(connection);
            return;
        }
        connection->got += (size_t)n;
        connection->answer[connection->got] = 0;
        if (connection->state != BUSY || connection->got >= ANSWER_ROOM - 1) {
            fail(connection);
            return;
        }
        if (is_answer(connection)) {
            bool well = strncmp(connection->answer, "HTTP/1.1 200", 12) == 0;
            sample("request", connection->due, well ? "ok" : "status");
            connection->state = IDLE;
            connection->got = 0;
        }
    }
}

static void drive(struct connection *connection)
{
    if (connection->fd >= 0 && connection->state == CONNECTING)
        handshake(connection);
    if (connection->fd >= 0 && connection->state != CONNECTING)
        read_answer(connection);
}

/* ---- the schedule ---- */

static uint64_t request_due(const struct probe *probe)
{
    double rate = probe->options->rate;
    return rate > 0 ? probe->start + (uint64_t)((double)probe->sent / rate * 1e6) : UINT64_MAX;
}

static uint64_t fresh_due(const struct probe *probe)
{
    uint64_t every = probe->options->connect_every;
    return every ? probe->start + probe->fresh * every : UINT64_MAX;
}

static struct connection *idle_connection(struct probe *probe)
{
    unsigned count = probe->options->connections;

    for (unsigned i = 0; i < count; i++) {
        struct connection *connection = &probe->established[(probe->next + i) % count];
        if (connection->fd >= 0 && connection->state == IDLE) {
            probe->next = (probe->next + i + 1) % count;
            return connection;
        }
    }
    return NULL;
}

/* With no connection free it waits, and its time runs. */
static void send_requests(struct probe *probe, uint64_t now)
{
    while (request_due(probe) <= now) {
        struct connection *connection = idle_connection(probe);
        if (!connection)
            return;
        connection->due = request_due(probe);
        connection->state = BUSY;
        probe->sent++;
        int n = SSL_write(connection->ssl, probe->request, probe->request_length);
        if (n != probe->request_length)
            fail(connection);
    }
}

static void begin_fresh(struct probe *probe, uint64_t now)
{
    while (fresh_due(probe) <= now) {
        struct connection *connection = calloc(1, sizeof(*connection));
        if (!connection)
            die("memory");
        connection->probe = probe;
        connection->fresh = true;
        connection->due = fresh_due(probe);
        connection->next = probe->fresh_ones;
        probe->fresh_ones = connection;
        probe->fresh++;
        open_connection(probe, connection);
        if (connection->fd < 0)
            fail(connection);
    }
}

static void end_fresh(struct probe *probe, uint64_t now, bool all)
{
    struct connection **at = &probe->fresh_ones;

    while (*at) {
        struct connection *connection = *at;
        bool late = now > connection->due + probe->options->patience;
        if (connection->fd >= 0 && (late || all)) {
            sample("connect", connection->due, late ? "timeout" : "lost");
            close_connection(connection);
        }
        if (connection->fd >= 0) {
            at = &connection->next;
            continue;
        }
        *at = connection->next;
        free(connection);
    }
}

static void repair(struct probe *probe)
{
    for (unsigned i = 0; i < probe->options->connections; i++)
        if (probe->established[i].fd < 0)
            open_connection(probe, &probe->established[i]);
}

static void turn(struct probe *probe)
{
    struct epoll_event events[64];
    uint64_t now = now_usec();
    uint64_t next = request_due(probe) < fresh_due(probe) ? request_due(probe) : fresh_due(probe);
    uint64_t wait = next > now ? next - now : 1000; /* due, but no connection was free */

    wait = wait < TRY_AGAIN_USEC ? wait : TRY_AGAIN_USEC;
    struct timespec time = {.tv_nsec = (long)wait * 1000};
    int n = epoll_pwait2(probe->epoll, events, 64, &time, NULL);
    for (int i = 0; i < n; i++) {
        if (events[i].data.ptr)
            drive(events[i].data.ptr);
        else
            probe->over = true;
    }
}

/* ---- begin and end ---- */

static bool all_idle(const struct probe *probe)
{
    for (unsigned i = 0; i < probe->options->connections; i++)
        if (probe->established[i].fd < 0 || probe->established[i].state != IDLE)
            return false;
    return true;
}

static void prepare(struct probe *probe)
{
    const struct probe_options *options = probe->options;
    struct epoll_event end = {.events = EPOLLIN | EPOLLHUP};

    probe->request_length = snprintf(probe->request, sizeof(probe->request),
                                     "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", options->path);
    probe->epoll = epoll_create1(EPOLL_CLOEXEC);
    probe->tls = SSL_CTX_new(TLS_client_method());
    probe->established = calloc(options->connections + 1, sizeof(*probe->established));
    if (probe->epoll < 0 || !probe->tls || !probe->established)
        die("set-up");
    if (!(options->seconds > 0) && epoll_ctl(probe->epoll, EPOLL_CTL_ADD, STDIN_FILENO, &end) != 0)
        die("without --seconds standard input must be a pipe");
    (void)SSL_CTX_set_alpn_protos(probe->tls, (const uint8_t *)"\x08http/1.1", 9);
    for (unsigned i = 0; i < options->connections; i++) {
        probe->established[i].probe = probe;
        probe->established[i].fd = -1;
    }
    probe->start = UINT64_MAX;
    uint64_t end_of_patience = now_usec() + SET_UP_USEC;
    while (!all_idle(probe) && !probe->over) {
        repair(probe);
        probe->start = now_usec() + SET_UP_USEC; /* nothing is due yet */
        turn(probe);
        if (now_usec() > end_of_patience) {
            (void)fprintf(stderr, "probe: the connections could not be established\n");
            exit(1);
        }
    }
}

static void lose(struct probe *probe)
{
    for (unsigned i = 0; i < probe->options->connections; i++) {
        struct connection *connection = &probe->established[i];
        if (connection->fd >= 0 && connection->state == BUSY)
            sample("request", connection->due, "lost");
        close_connection(connection);
    }
    end_fresh(probe, now_usec(), true);
    for (uint64_t now = now_usec(); request_due(probe) <= now; probe->sent++)
        sample("request", request_due(probe), "lost");
}

void probe_run(const struct probe_options *options)
{
    struct probe probe = {.options = options};
    uint64_t repaired = 0;

    prepare(&probe);
    probe.ready = true;
    (void)printf("ready\n");
    (void)fflush(stdout);
    probe.start = now_usec();
    uint64_t length = (uint64_t)(options->seconds * 1e6);
    while (!probe.over && !(length && now_usec() - probe.start >= length)) {
        uint64_t now = now_usec();
        begin_fresh(&probe, now);
        send_requests(&probe, now);
        end_fresh(&probe, now, false);
        if (now - repaired >= TRY_AGAIN_USEC) {
            repaired = now;
            repair(&probe);
        }
        turn(&probe);
    }
    lose(&probe);
    free(probe.established);
    SSL_CTX_free(probe.tls);
    (void)close(probe.epoll);
}
