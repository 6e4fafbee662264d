/* What it costs to hibernate and to be woken, client side, HTTP/1.1: processor time of the server's loop turns alone, kernel included, on a
 * simulated clock. Waking is what a request costs more on a connection that hibernates. And what connections hold, awake and not. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "downstream/downstream.h"

#define ROUNDS 7
#define MOST 4000
#define NSEC_A_SEC 1000000000ull
#define REQUEST "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"

static const struct wr_route nowhere[] = {
    {.name = "ok",
     .host = {"", 0},
     .path = {"", 0},
     .action = WR_ROUTE_RESPOND,
     .respond = {.status = 200, .content_type = {"", 0}, .body = {"fine", 4}}}};

static struct wr_downstream_options options = {
    .name = "edge",
    .admission = {.max_pending_handshakes = WR_ADMISSION_NO_LIMIT,
                  .max_silent = MOST,
                  .max_delay = WR_NEVER,
                  .max_source_share = 100,
                  .turn_budget = WR_NEVER},
    .refusal_share = 100,
    .access = {.source_bits_ipv4 = 32, .source_bits_ipv6 = 64},
    .timeouts = {.request_header = 10 * WR_SEC,
                 .keep_alive = WR_NEVER,
                 .hibernate_after = WR_NEVER,
                 .inactivity = 60 * WR_SEC,
                 .request = WR_NEVER,
                 .tunnel = WR_NEVER,
                 .max_connection_age = WR_NEVER,
                 .linger = WR_SEC},
    .max_connections = MOST,
    .content_limit = (size_t)64 * 1024,
    .codec = {.head_limit = (size_t)64 * 1024,
              .uri_limit = 8192,
              .fields_limit = 100,
              .chunk_overhead = (size_t)16 * 1024,
              .discard_limit = (size_t)64 * 1024,
              .head_timeout = 10 * WR_SEC,
              .max_requests = UINT64_MAX},
    .proxy = {.routes = {.routes = nowhere, .count = 1},
              .forward = {.via = {"weir", 4}},
              .request_content_limit = UINT64_MAX},
};

static struct wr_loop *loop;
static struct wr_transport_host *transports;
static struct wr_downstream *downstream;
static struct wr_listener_metrics *metrics;
static int clients[MOST];
static size_t count = 1000;

static void must(bool ok, const char *what)
{
    if (ok)
        return;
    (void)fprintf(stderr, "hibernate: %s\n", what);
    exit(1);
}

static uint64_t now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * NSEC_A_SEC + (uint64_t)t.tv_nsec;
}

static struct wr_address start(void)
{
    struct wr_address address;
    int fd;
    must(wr_loop_new(WR_CLOCK_SIMULATED, &loop) == WR_OK, "loop");
    must(wr_transport_host_new(loop, NULL, &transports) == WR_OK, "host");
    struct wr_metrics_registry *registry = wr_metrics_registry_new();
    metrics = wr_metrics_new_listener(registry, "edge");
    const struct wr_downstream_env env = {.loop = loop,
                                          .transports = transports,
                                          .worker_metrics = wr_metrics_new_worker(registry),
                                          .metrics = metrics};
    must(wr_address_parse(WR_STR("127.0.0.1:0"), &address) == WR_OK, "address");
    must(wr_socket_listen(&address, &(struct wr_listen_options){0}, &fd) == WR_OK, "listen");
    must(getsockname(fd, (struct sockaddr *)&address.storage, &address.length) == 0, "name");
    must(wr_downstream_new(&env, &options, fd, &downstream) == WR_OK, "downstream");
    return address;
}

static void come(const struct wr_address *address)
{
    for (size_t i = 0; i < count; i++) {
        clients[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        must(connect(clients[i], (const struct sockaddr *)&address->storage, address->length) == 0,
             "connect");
        wr_loop_turn(loop, 0);
    }
    while (wr_downstream_connections(downstream) < count)
        wr_loop_turn(loop, 1000);
}

/* A request on each, all at once; microseconds of one. */
static double ask(void)
{
    static char answer[4096];
    uint64_t wanted = wr_metric_get(&metrics->requests[2]) + count;
    for (size_t i = 0; i < count; i++)
        must(send(clients[i], REQUEST, strlen(REQUEST), MSG_NOSIGNAL) > 0, "send");
    uint64_t before = now();
    while (wr_metric_get(&metrics->requests[2]) < wanted)
        wr_loop_turn(loop, 1000);
    wr_loop_turn(loop, 0);
    uint64_t spent = now() - before;
    for (size_t i = 0; i < count; i++)
        must(recv(clients[i], answer, sizeof(answer), 0) > 0, "answer");
    return (double)spent / (double)count / 1000;
}

/* The time passes in which they hibernate, if they do; microseconds of one. */
static double wait_for(uint64_t usec)
{
    uint64_t before = now();
    wr_loop_advance(loop, usec);
    wr_loop_turn(loop, 0);
    return (double)(now() - before) / (double)count / 1000;
}

static void weigh(const char *when)
{
    printf("%-12s bytes a connection: connections %zu, transports %zu, codecs %zu\n", when,
           wr_downstream_bytes(downstream) / count, wr_transport_host_bytes(transports) / count,
           wr_transport_host_lent_bytes(transports) / count);
}

static double least(double a, double b)
{
    return a < b ? a : b;
}

int main(int argc, char **argv)
{
    if (argc > 1)
        count = (size_t)strtoul(argv[1], NULL, 10);
    must(count > 0 && count <= MOST, "usage: hibernate [connections, at most 4000]");
    const struct wr_address address = start();
    come(&address);
    double awake = 1e9;
    double waiting = 1e9;
    double hibernating = 1e9;
    double woken = 1e9;
    for (int round = 0; round < ROUNDS; round++) {
        options.timeouts.hibernate_after = WR_NEVER;
        (void)ask();
        waiting = least(waiting, wait_for(20 * WR_SEC));
        awake = least(awake, ask());
        options.timeouts.hibernate_after = 15 * WR_SEC;
        (void)ask();
        if (round == 0)
            weigh("awake");
        hibernating = least(hibernating, wait_for(20 * WR_SEC));
        must(wr_metric_get(&metrics->connections_hibernated) == count, "they do not hibernate");
        if (round == 0)
            weigh("hibernating");
        woken = least(woken, ask());
    }
    printf("to hibernate %6.2f us\n", hibernating - waiting);
    printf("to be woken  %6.2f us (request awake %.2f, hibernating %.2f)\n", woken - awake, awake,
           woken);
    return 0;
}
