#include "support/origin.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNECTIONS_MAX 4096

struct origin {
    int fd;
    int port;
    void (*serve)(struct peer *client, void *arg);
    void *arg;
    pthread_t accepter;
    atomic_uint accepted;
    pthread_mutex_t lock;
    pthread_t threads[CONNECTIONS_MAX];
    int fds[CONNECTIONS_MAX]; /* -1: done */
    unsigned count;
};

struct visit {
    struct origin *origin;
    unsigned index;
    int fd;
};

static void *serve_one(void *arg)
{
    struct visit *visit = arg;
    struct origin *origin = visit->origin;
    struct peer *peer = peer_adopt(visit->fd);

    origin->serve(peer, origin->arg);
    pthread_mutex_lock(&origin->lock);
    origin->fds[visit->index] = -1;
    pthread_mutex_unlock(&origin->lock);
    peer_free(peer);
    free(visit);
    return NULL;
}

static void *accept_all(void *arg)
{
    struct origin *origin = arg;

    for (;;) {
        int fd = accept4(origin->fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
            continue;
        if (fd < 0)
            return NULL;
        struct visit *visit = malloc(sizeof(*visit));
        pthread_mutex_lock(&origin->lock);
        *visit = (struct visit){origin, origin->count, fd};
        origin->fds[origin->count] = fd;
        atomic_fetch_add(&origin->accepted, 1);
        (void)pthread_create(&origin->threads[origin->count], NULL, serve_one, visit);
        origin->count++;
        pthread_mutex_unlock(&origin->lock);
        if (origin->count == CONNECTIONS_MAX)
            return NULL;
    }
}

struct origin *origin_start(void (*serve)(struct peer *client, void *arg), void *arg)
{
    struct origin *origin = calloc(1, sizeof(*origin));
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t length = sizeof(address);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    origin->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    origin->serve = serve;
    origin->arg = arg;
    pthread_mutex_init(&origin->lock, NULL);
    if (bind(origin->fd, (struct sockaddr *)&address, sizeof(address)) != 0 ||
        listen(origin->fd, 1024) != 0)
        abort();
    (void)getsockname(origin->fd, (struct sockaddr *)&address, &length);
    origin->port = ntohs(address.sin_port);
    (void)pthread_create(&origin->accepter, NULL, accept_all, origin);
    return origin;
}

int origin_port(const struct origin *origin)
{
    return origin->port;
}

unsigned origin_connections(const struct origin *origin)
{
    return atomic_load(&origin->accepted);
}

void origin_stop(struct origin *origin)
{
    (void)shutdown(origin->fd, SHUT_RDWR);
    (void)pthread_join(origin->accepter, NULL);
    pthread_mutex_lock(&origin->lock);
    for (unsigned i = 0; i < origin->count; i++)
        if (origin->fds[i] >= 0)
            (void)shutdown(origin->fds[i], SHUT_RDWR);
    pthread_mutex_unlock(&origin->lock);
    for (unsigned i = 0; i < origin->count; i++)
        (void)pthread_join(origin->threads[i], NULL);
    (void)close(origin->fd);
    pthread_mutex_destroy(&origin->lock);
    free(origin);
}

/* ---- server functions ---- */

static const char *field_of(const char *head, const char *name)
{
    size_t length = strlen(name);

    for (const char *line = strstr(head, "\r\n"); line; line = strstr(line + 2, "\r\n"))
        if (strncasecmp(line + 2, name, length) == 0 && line[2 + length] == ':')
            return line + 3 + length;
    return NULL;
}

void origin_echo_head(struct peer *client, void *arg)
{
    static const size_t size = 128 * 1024;
    char *head = malloc(size);
    char *out = malloc(size + 256);

    (void)arg;
    while (peer_read_head(client, head, size)) {
        int n =
            snprintf(out, size + 256,
                     "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %zu\r\n\r\n%s",
                     strlen(head), strncmp(head, "HEAD ", 5) == 0 ? "" : head);
        if (!peer_write(client, out, (size_t)n))
            break;
    }
    free(head);
    free(out);
}

static bool copy_content(struct peer *client, size_t n, bool chunk)
{
    char buffer[65536];
    char line[32];

    if (chunk && n > 0) {
        (void)snprintf(line, sizeof(line), "%zx\r\n", n);
        if (!peer_say(client, line))
            return false;
    }
    for (size_t left = n; left > 0;) {
        size_t part = left < sizeof(buffer) ? left : sizeof(buffer);
        if (!peer_read_exactly(client, buffer, part) || !peer_write(client, buffer, part))
            return false;
        left -= part;
    }
    return !chunk || n == 0 || peer_say(client, "\r\n");
}

static bool echo_chunked(struct peer *client)
{
    char line[64];

    if (!peer_say(client, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"))
        return false;
    for (;;) {
        size_t n = 0;
        do {
            if (n + 1 >= sizeof(line) || !peer_read_exactly(client, line + n, 1))
                return false;
            n++;
        } while (line[n - 1] != '\n');
        line[n] = '\0';
        size_t size = strtoull(line, NULL, 16);
        if (size > 0 && !copy_content(client, size, true))
            return false;
        if (!peer_read_exactly(client, line, 2))
            return false;
        if (size == 0)
            return peer_say(client, "0\r\n\r\n");
    }
}

void origin_echo_content(struct peer *client, void *arg)
{
    char head[65536];
    char answer[256];

    (void)arg;
    while (peer_read_head(client, head, sizeof(head))) {
        const char *length = field_of(head, "content-length");
        const char *expect = field_of(head, "expect");
        if (expect && !peer_say(client, "HTTP/1.1 100 Continue\r\n\r\n"))
            return;
        if (field_of(head, "transfer-encoding")) {
            if (!echo_chunked(client))
                return;
            continue;
        }
        size_t n = length ? strtoull(length, NULL, 10) : 0;
        (void)snprintf(answer, sizeof(answer), "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", n);
        if (!peer_say(client, answer) || !copy_content(client, n, false))
            return;
    }
}
