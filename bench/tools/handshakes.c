/* Opens TLS 1.3 connections against a proxy, as many as it can or as many as told, and counts what it saw. One thread, BoringSSL,
 * edge-triggered epoll: a client light enough that the proxy on the other core is the bottleneck.
 *
 * A connection counts as done when the server has shown that it finished the handshake too: it answers our close_notify with its
 * own end, or sends a whole response where --get asks for one. (A session ticket would be no proof: BoringSSL's servers hold it
 * back until they have something to say.) It is then reset. At the end of --seconds, or after --count, no connection is opened
 * and those in flight are finished, so that CPU time of the proxy divided by connections is exact.
 *
 * Prints one line of JSON: full and resumed connections that were done, failed ones, the seconds it took, and the cipher suite. */
#include <errno.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SOURCES \
    200 /* loopback source addresses, 127.0.1.1 and up: more connections than one address has ports */
#define HEAD_ROOM 2048
#define STRANGERS 1000 /* failures without one success before giving up */
#define STALL_SECONDS 10.0

struct options {
    int port;
    size_t in_flight;
    double seconds;
    bool resume;
    const char *get;
    size_t count; /* of connections, in place of a time; 0: none */
};

struct bench {
    struct options options;
    SSL_CTX *tls;
    SSL_SESSION *session; /* the newest one */
    const char *cipher;   /* of the last connection that was done */
    char request[512];
    int request_length;
    int epoll;
    double end;
    size_t open;
    size_t opened;
    size_t full;
    size_t resumed;
    size_t failed;
};

enum state { HANDSHAKE, REQUEST, ANSWER, CLOSING };

struct connection {
    struct bench *bench;
    SSL *ssl;
    int fd;
    enum state state;
    bool get; /* one request is made */
    size_t got;
    char head[HEAD_ROOM];
};

static double now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void die(const char *what)
{
    (void)fprintf(stderr, "handshakes: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int remember_session(SSL *ssl, SSL_SESSION *session)
{
    struct connection *connection = SSL_get_app_data(ssl);
    struct bench *bench = connection->bench;

    SSL_SESSION_free(bench->session);
    bench->session = session;
    return 1;
}

static int connected_socket(const struct bench *bench)
{
    int on = 1;
    struct sockaddr_in from = {
        .sin_family = AF_INET,
        .sin_addr.s_addr = htonl(0x7f000101u + (unsigned)(bench->opened % SOURCES)),
    };
    struct sockaddr_in to = {
        .sin_family = AF_INET,
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
        .sin_port = htons((uint16_t)bench->options.port),
    };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0)
        die("socket");
    (void)setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (bind(fd, (struct sockaddr *)&from, sizeof(from)) != 0)
        die("bind");
    if (connect(fd, (struct sockaddr *)&to, sizeof(to)) != 0 && errno != EINPROGRESS)
        die("connect");
    return fd;
}

static void open_connection(struct bench *bench)
{
    struct connection *connection = calloc(1, sizeof(*connection));

    if (!connection)
        die("memory");
    connection->bench = bench;
    connection->fd = connected_socket(bench);
    connection->ssl = SSL_new(bench->tls);
    if (!connection->ssl || !SSL_set_fd(connection->ssl, connection->fd))
        die("SSL_new");
    /* The one that is to bring a session must make the server talk; it is done when the session is there. */
    connection->get = bench->options.get || (bench->options.resume && !bench->session);
    SSL_set_app_data(connection->ssl, connection);
    SSL_set_connect_state(connection->ssl);
    (void)SSL_set_tlsext_host_name(connection->ssl, "localhost");
    if (bench->options.resume && bench->session)
        (void)SSL_set_session(connection->ssl, bench->session);

    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = connection};
    if (epoll_ctl(bench->epoll, EPOLL_CTL_ADD, connection->fd, &event) != 0)
        die("epoll_ctl");
    bench->open++;
    bench->opened++;
}

static void close_connection(struct connection *connection)
{
    struct linger reset = {.l_onoff = 1};

    (void)setsockopt(connection->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    (void)close(connection->fd);
    SSL_free(connection->ssl);
    connection->bench->open--;
    free(connection);
}

static void fail(struct connection *connection, const char *why)
{
    struct bench *bench = connection->bench;

    if (bench->failed++ == 0) {
        (void)fprintf(stderr, "handshakes: first failure: %s\n", why);
        ERR_print_errors_fp(stderr);
    }
    ERR_clear_error();
    close_connection(connection);
    if (bench->failed > STRANGERS && bench->full + bench->resumed == 0) {
        (void)fprintf(stderr, "handshakes: every connection failed\n");
        exit(1);
    }
}

static void finish(struct connection *connection)
{
    struct bench *bench = connection->bench;

    bench->cipher = SSL_get_cipher_name(connection->ssl);
    if (SSL_session_reused(connection->ssl))
        bench->resumed++;
    else
        bench->full++;
    close_connection(connection);
}

/* The response is whole: a head with a Content-Length, and so many bytes after it. */
static bool is_whole(const struct connection *connection)
{
    const char *end = memmem(connection->head, connection->got, "\r\n\r\n", 4);
    const char *length = end ? strcasestr(connection->head, "\r\ncontent-length:") : NULL;

    if (!length || length > end)
        return false;
    size_t body = strtoul(length + strlen("\r\ncontent-length:"), NULL, 10);
    return connection->got == (size_t)(end + 4 - connection->head) + body;
}

enum progress { MORE, WAIT, DONE, GONE };

/* What a result that is not success means. */
static enum progress after(const struct connection *connection, int result)
{
    const struct bench *bench = connection->bench;
    int why = SSL_get_error(connection->ssl, result);

    if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE)
        return connection->state == ANSWER && !bench->options.get && bench->session ? DONE : WAIT;
    bool ended = why == SSL_ERROR_ZERO_RETURN || (why == SSL_ERROR_SYSCALL && result == 0);
    return ended && connection->state == CLOSING ? DONE : GONE;
}

static enum progress read_answer(struct connection *connection)
{
    size_t room = HEAD_ROOM - 1 - connection->got;
    int n = SSL_read(connection->ssl, connection->head + connection->got, (int)room);

    if (n <= 0)
        return after(connection, n);
    connection->got += (size_t)n;
    if (is_whole(connection))
        return strncmp(connection->head, "HTTP/1.1 2", 10) == 0 ? DONE : GONE;
    return connection->got < HEAD_ROOM - 1 ? MORE : GONE;
}

static enum progress step(struct connection *connection)
{
    struct bench *bench = connection->bench;
    int n;

    switch (connection->state) {
    case HANDSHAKE:
        n = SSL_do_handshake(connection->ssl);
        if (n != 1)
            return after(connection, n);
        connection->state = connection->get ? REQUEST : CLOSING;
        if (!connection->get)
            (void)SSL_shutdown(connection->ssl);
        return MORE;
    case REQUEST:
        n = SSL_write(connection->ssl, bench->request, bench->request_length);
        if (n <= 0)
            return after(connection, n);
        connection->state = ANSWER;
        return MORE;
    case ANSWER:
        return read_answer(connection);
    case CLOSING:
        n = SSL_read(connection->ssl, connection->head, HEAD_ROOM);
        return n > 0 ? MORE : after(connection, n);
    }
    return GONE;
}

static void drive(struct connection *connection)
{
    enum progress progress;

    do
        progress = step(connection);
    while (progress == MORE);
    if (progress == DONE)
        finish(connection);
    else if (progress == GONE)
        fail(connection, "the server ended it, or answered with other than 2xx");
}

/* One session to resume must be there before the others are opened. */
static size_t wanted(const struct bench *bench)
{
    bool first = bench->options.resume && !bench->session;
    size_t at_once = first ? 1 : bench->options.in_flight;
    size_t done = bench->full + bench->resumed;

    if (bench->options.count == 0)
        return now() < bench->end ? at_once : 0;
    size_t left = done < bench->options.count ? bench->options.count - done : 0;
    return left < at_once ? left : at_once;
}

static void turn(struct bench *bench)
{
    struct epoll_event events[256];
    int n = epoll_wait(bench->epoll, events, 256, 100);

    for (int i = 0; i < n; i++)
        drive(events[i].data.ptr);
}

static void run(struct bench *bench)
{
    size_t want = wanted(bench);
    size_t seen = 0;
    double last = now();

    while (want > 0 || bench->open > 0) {
        while (bench->open < want)
            open_connection(bench);
        turn(bench);
        want = wanted(bench);
        size_t ended = bench->full + bench->resumed + bench->failed;
        if (ended != seen) {
            seen = ended;
            last = now();
        } else if (now() - last > STALL_SECONDS) {
            (void)fprintf(stderr, "handshakes: nothing moves any more\n");
            exit(1);
        }
    }
}

static void prepare(struct bench *bench)
{
    (void)signal(SIGPIPE, SIG_IGN);
    bench->epoll = epoll_create1(EPOLL_CLOEXEC);
    bench->tls = SSL_CTX_new(TLS_client_method());
    if (bench->epoll < 0 || !bench->tls)
        die("set-up");
    (void)SSL_CTX_set_min_proto_version(bench->tls, TLS1_3_VERSION);
    (void)SSL_CTX_set_alpn_protos(bench->tls, (const uint8_t *)"\x08http/1.1", 9);
    SSL_CTX_set_session_cache_mode(bench->tls, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(bench->tls, remember_session);
    bench->request_length = snprintf(bench->request, sizeof(bench->request),
                                     "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n",
                                     bench->options.get ? bench->options.get : "/small");
    if (bench->request_length < 0 || (size_t)bench->request_length >= sizeof(bench->request))
        die("--get is too long");
}

static void usage(void)
{
    (void)fprintf(stderr, "handshakes [options] PORT      (of 127.0.0.1)\n"
                          "  --connections N   in flight (64)\n"
                          "  --seconds S       how long connections are opened (2)\n"
                          "  --resume          all but the first resume the newest session\n"
                          "  --get PATH        one request on each, in place of ending it at once\n"
                          "  --count N         N connections, however long that takes\n");
    exit(2);
}

static struct options parse(int argc, char **argv)
{
    struct options options = {.in_flight = 64, .seconds = 2};
    static const struct option known[] = {
        {"connections", required_argument, NULL, 'c'},
        {"seconds", required_argument, NULL, 's'},
        {"resume", no_argument, NULL, 'r'},
        {"get", required_argument, NULL, 'g'},
        {"count", required_argument, NULL, 'n'},
        {NULL, 0, NULL, 0},
    };

    for (int o; (o = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        switch (o) {
        case 'c':
            options.in_flight = strtoul(optarg, NULL, 10);
            break;
        case 's':
            options.seconds = strtod(optarg, NULL);
            break;
        case 'r':
            options.resume = true;
            break;
        case 'g':
            options.get = optarg;
            break;
        case 'n':
            options.count = strtoul(optarg, NULL, 10);
            break;
        default:
            usage();
        }
    }
    if (optind != argc - 1 || options.in_flight == 0)
        usage();
    options.port = (int)strtol(argv[optind], NULL, 10);
    return options;
}

int main(int argc, char **argv)
{
    struct bench bench = {.options = parse(argc, argv)};

    prepare(&bench);
    double start = now();
    bench.end = start + bench.options.seconds;
    run(&bench);
    double took = now() - start;
    (void)printf("{\"full\": %zu, \"resumed\": %zu, \"failed\": %zu, "
                 "\"seconds\": %.6f, \"cipher\": \"%s\"}\n",
                 bench.full, bench.resumed, bench.failed, took, bench.cipher ? bench.cipher : "");
    SSL_SESSION_free(bench.session);
    SSL_CTX_free(bench.tls);
    return 0;
}
