/* weir-crowd: opens N connections, makes one request on each, and keeps them. Then each line on standard input is one more request
 * on each of them, and the end of standard input is the end. One thread, BoringSSL, edge-triggered epoll.
 *
 * One line of JSON after each: {"kept": N} when all are there, {"answered": N} after a line, {"lost": N} at the end: how many the
 * server ended by itself. Requests of a line begin in the order of the connections, so many at a time as --at-once says. */
#include "crowd/crowd.h"
#include "support/net.h"

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define STALL_USEC 20000000u

struct visitor {
    struct crowd *crowd;
    SSL *ssl;
    struct answer *answer; /* NULL: idle */
    size_t requests;
    int fd; /* -1: the server has ended it */
    bool connected;
};

struct crowd {
    SSL_CTX *tls;
    struct visitor *visitors;
    const char *path;
    size_t size;
    size_t at_once;
    size_t begun; /* of this turn */
    size_t done;  /* of this turn */
    size_t lost;
    uint64_t moved; /* when one was last done */
    int epoll;
    uint16_t port;
    bool http2;
};

static _Noreturn void give_up(const char *why)
{
    (void)fprintf(stderr, "crowd: %s\n", why);
    exit(1);
}

static void lose(struct visitor *visitor)
{
    if (visitor->answer)
        give_up("a request failed: the connection ended, or the answer was not 2xx");
    close_with_reset(visitor->fd);
    SSL_free(visitor->ssl);
    visitor->ssl = NULL;
    visitor->fd = -1;
    visitor->crowd->lost++;
}

static void begin(struct visitor *visitor)
{
    struct crowd *crowd = visitor->crowd;

    visitor->answer = calloc(1, sizeof(*visitor->answer));
    if (!visitor->answer)
        die("memory");
    if (!ask(visitor->ssl, crowd->http2, visitor->requests, crowd->path))
        give_up("a request could not be sent");
    visitor->requests++;
}

static void end(struct visitor *visitor)
{
    free(visitor->answer);
    visitor->answer = NULL;
    visitor->crowd->done++;
    visitor->crowd->moved = now_usec();
}

/* False: it waits for the server. */
static bool shake(struct visitor *visitor)
{
    int result = SSL_do_handshake(visitor->ssl);

    if (result != 1) {
        int why = SSL_get_error(visitor->ssl, result);
        if (why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE)
            give_up("a handshake failed");
        return false;
    }
    const uint8_t *protocol;
    unsigned length;
    SSL_get0_alpn_selected(visitor->ssl, &protocol, &length);
    if ((length == 2 && memcmp(protocol, "h2", 2) == 0) != visitor->crowd->http2)
        give_up("the server chose another protocol");
    visitor->connected = true;
    begin(visitor);
    return true;
}

/* What an idle connection receives is looked at as well: an HTTP/2 server may ask with a PING. */
static void receive(struct visitor *visitor)
{
    struct answer spare = {.got = 0};

    for (;;) {
        struct answer *answer = visitor->answer ? visitor->answer : &spare;
        int n =
            SSL_read(visitor->ssl, answer->bytes + answer->got, (int)(ANSWER_ROOM - answer->got));
        if (n <= 0) {
            if (SSL_get_error(visitor->ssl, n) != SSL_ERROR_WANT_READ)
                lose(visitor);
            return;
        }
        answer->got += (size_t)n;
        enum verdict verdict = judge(visitor->ssl, visitor->crowd->http2, answer);
        if (verdict == BROKEN || (!visitor->answer && answer->got > 0)) {
            lose(visitor);
            return;
        }
        if (verdict == ANSWERED && visitor->answer)
            end(visitor);
    }
}

static void join(struct crowd *crowd, size_t number)
{
    struct visitor *visitor = &crowd->visitors[number];

    visitor->crowd = crowd;
    visitor->fd = connect_from((unsigned)number, crowd->port);
    visitor->ssl = SSL_new(crowd->tls);
    if (visitor->fd < 0)
        die("connect");
    if (!visitor->ssl || !SSL_set_fd(visitor->ssl, visitor->fd))
        die("SSL_new");
    SSL_set_connect_state(visitor->ssl);
    (void)SSL_set_tlsext_host_name(visitor->ssl, "localhost");
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = visitor};
    if (epoll_ctl(crowd->epoll, EPOLL_CTL_ADD, visitor->fd, &event) != 0)
        die("epoll_ctl");
}

/* True: standard input, registered without a visitor, has something to say. */
static bool turn(struct crowd *crowd)
{
    struct epoll_event events[256];
    int n = epoll_wait(crowd->epoll, events, 256, 1000);
    bool told = false;

    for (int i = 0; i < n; i++) {
        struct visitor *visitor = events[i].data.ptr;
        if (!visitor)
            told = true;
        else if (visitor->fd >= 0 && (visitor->connected || shake(visitor)))
            receive(visitor);
    }
    return told;
}

/* Each connection once: opened and asked, or asked again. */
static void round_of_all(struct crowd *crowd, bool first)
{
    crowd->begun = crowd->done = 0;
    crowd->moved = now_usec();
    while (crowd->done < crowd->size) {
        while (crowd->begun < crowd->size && crowd->begun - crowd->done < crowd->at_once) {
            size_t number = crowd->begun++;
            if (first)
                join(crowd, number);
            else if (crowd->visitors[number].fd >= 0)
                begin(&crowd->visitors[number]);
            else
                give_up("the server has ended a connection that was to be asked again");
        }
        (void)turn(crowd);
        if (now_usec() - crowd->moved > STALL_USEC)
            give_up("nothing moves any more");
    }
}

/* False: it has ended. */
static bool next_line(void)
{
    char byte;
    ssize_t n;

    while ((n = read(STDIN_FILENO, &byte, 1)) == 1 && byte != '\n')
        ;
    return n == 1;
}

static void wait_and_ask(struct crowd *crowd)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLHUP};

    if (epoll_ctl(crowd->epoll, EPOLL_CTL_ADD, STDIN_FILENO, &event) != 0)
        die("standard input must be a pipe");
    for (;;) {
        while (!turn(crowd))
            ;
        if (!next_line())
            return;
        round_of_all(crowd, false);
        (void)printf("{\"answered\": %zu}\n", crowd->done);
        (void)fflush(stdout);
    }
}

static void prepare(struct crowd *crowd)
{
    const uint8_t *protocol =
        crowd->http2 ? (const uint8_t *)"\x02h2" : (const uint8_t *)"\x08http/1.1";

    (void)signal(SIGPIPE, SIG_IGN);
    crowd->epoll = epoll_create1(EPOLL_CLOEXEC);
    crowd->tls = SSL_CTX_new(TLS_client_method());
    crowd->visitors = calloc(crowd->size, sizeof(*crowd->visitors));
    if (crowd->epoll < 0 || !crowd->tls || !crowd->visitors)
        die("set-up");
    (void)SSL_CTX_set_min_proto_version(crowd->tls, TLS1_3_VERSION);
    (void)SSL_CTX_set_alpn_protos(crowd->tls, protocol, protocol[0] + 1u);
    (void)SSL_CTX_set_mode(crowd->tls, SSL_MODE_RELEASE_BUFFERS);
}

static void parse(struct crowd *crowd, int argc, char **argv)
{
    static const struct option known[] = {
        {"http2", no_argument, NULL, '2'},
        {"path", required_argument, NULL, 'p'},
        {"at-once", required_argument, NULL, 'a'},
        {NULL, 0, NULL, 0},
    };

    for (int o; (o = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        if (o == '2')
            crowd->http2 = true;
        else if (o == 'p' && strlen(optarg) < 128)
            crowd->path = optarg;
        else if (o == 'a')
            crowd->at_once = strtoul(optarg, NULL, 10);
        else
            give_up(
                "usage: weir-crowd [--http2] [--path PATH] [--at-once 64] N PORT   (of 127.0.0.1)");
    }
    if (optind != argc - 2 || crowd->at_once == 0)
        give_up("two arguments: how many connections, and the port");
    crowd->size = strtoul(argv[optind], NULL, 10);
    crowd->port = (uint16_t)strtoul(argv[optind + 1], NULL, 10);
    if (crowd->size == 0)
        give_up("at least one connection");
}

int main(int argc, char **argv)
{
    struct crowd crowd = {.path = "/small", .at_once = 64};

    parse(&crowd, argc, argv);
    prepare(&crowd);
    round_of_all(&crowd, true);
    (void)printf("{\"kept\": %zu}\n", crowd.size);
    (void)fflush(stdout);
    wait_and_ask(&crowd);
    (void)printf("{\"lost\": %zu}\n", crowd.lost);
    return 0;
}
