#include "support/downstream_world.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "support/certificate.h"

#define STEP (5 * WR_MSEC)
#define PATIENCE (10 * WR_SEC)
#define IN_A_ROW 4
#define LOG_SIZE ((size_t)1 << 16)

/* ---- making ---- */

static const struct wr_route nowhere[] = {
    {.name = "ok",
     .host = {"", 0},
     .path = {"", 0},
     .action = WR_ROUTE_RESPOND,
     .respond = {.status = 200, .content_type = {"", 0}, .body = {"fine", 4}}},
};

static void set_options(struct world *world)
{
    world->options = (struct wr_downstream_options){
        .name = "edge",
        .tls = world->tls,
        .admission = {.max_pending_handshakes = WR_ADMISSION_NO_LIMIT,
                      .max_silent = 100000,
                      .max_delay = WR_NEVER,
                      .max_source_share = 100,
                      .turn_budget = WR_NEVER},
        .refusal_share = 100,
        .access = {.source_bits_ipv4 = 32, .source_bits_ipv6 = 64},
        .evict_idle_after = WR_NEVER,
        .timeouts = {.client_hello = 5 * WR_SEC,
                     .handshake = 10 * WR_SEC,
                     .request_header = 10 * WR_SEC,
                     .keep_alive = 60 * WR_SEC,
                     .inactivity = 60 * WR_SEC,
                     .request = WR_NEVER,
                     .tunnel = WR_NEVER,
                     .max_connection_age = WR_NEVER,
                     .linger = 5 * WR_SEC},
        .max_connections = 100000,
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
}

static void make_tls(struct world *world)
{
    char chain[128];
    char key[128];
    char error[WR_TLS_ERROR_TEXT];
    static const char *const alpn[] = {"http/1.1"};
    certificate_make(world->directory, "", "DNS:localhost");
    (void)snprintf(chain, sizeof(chain), "%s/cert.pem", world->directory);
    (void)snprintf(key, sizeof(key), "%s/key.pem", world->directory);
    struct wr_tls_certificate_options certificate = {.chain_path = chain, .key_path = key};
    struct wr_tls_server_options server = {.certificates = &certificate,
                                           .certificate_count = 1,
                                           .min_version = WR_TLS_1_2,
                                           .max_version = WR_TLS_1_3,
                                           .alpn = alpn,
                                           .alpn_count = 1,
                                           .tickets = true};
    enum wr_err err = wr_tls_server_new(&server, error, &world->tls);
    cr_assert_eq(err, WR_OK, "%s", error);
    struct wr_tls_client_options client = {
        .verify = false, .sni = "localhost", .alpn = alpn, .alpn_count = 1};
    err = wr_tls_client_new(&client, error, &world->tls_client);
    cr_assert_eq(err, WR_OK, "%s", error);
}

struct world *world_new(bool tls)
{
    struct world *world = WR_NEW(struct world);
    (void)snprintf(world->directory, sizeof(world->directory), "/tmp/weir-test-XXXXXX");
    cr_assert_not_null(mkdtemp(world->directory));
    enum wr_err err = wr_loop_new(WR_CLOCK_SIMULATED, &world->loop);
    cr_assert_eq(err, WR_OK);
    err = wr_transport_host_new(world->loop, NULL, &world->transports);
    cr_assert_eq(err, WR_OK);
    if (tls)
        make_tls(world);
    char log[128];
    (void)snprintf(log, sizeof(log), "%s/access.log", world->directory);
    err = wr_writer_open(log, (size_t)1 << 20, &world->writer);
    cr_assert_eq(err, WR_OK);
    world->registry = wr_metrics_registry_new();
    world->env = (struct wr_downstream_env){
        .loop = world->loop,
        .transports = world->transports,
        .worker_metrics = wr_metrics_new_worker(world->registry),
        .metrics = wr_metrics_new_listener(world->registry, "edge"),
    };
    world->env.access_log = wr_access_log_new(world->writer, world->env.worker_metrics);
    set_options(world);
    return world;
}

void world_start(struct world *world)
{
    int fd;
    enum wr_err err = wr_address_parse(WR_STR("127.0.0.3:0"), &world->address);
    cr_assert_eq(err, WR_OK);
    struct wr_listen_options options = {.backlog = 0, .reuse_port = false};
    err = wr_socket_listen(&world->address, &options, &fd);
    cr_assert_eq(err, WR_OK);
    world->address.length = sizeof(world->address.storage);
    cr_assert_eq(
        getsockname(fd, (struct sockaddr *)&world->address.storage, &world->address.length), 0);
    err = wr_downstream_new(&world->env, &world->options, fd, &world->downstream);
    cr_assert_eq(err, WR_OK);
}

/* ---- ending ---- */

static void remove_files(const struct world *world)
{
    static const char *const names[] = {"cert.pem", "key.pem", "openssl.log", "access.log"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char path[128];
        (void)snprintf(path, sizeof(path), "%s/%s", world->directory, names[i]);
        (void)unlink(path);
    }
    (void)rmdir(world->directory);
}

void world_end(struct world *world)
{
    if (world->downstream != NULL) {
        world_check_account(world);
        wr_downstream_free(world->downstream);
        world->downstream = NULL;
    }
    for (size_t i = 0; i < world->client_count; i++)
        client_close(&world->clients[i]);
    wr_loop_turn(world->loop, 0);
    world_check_account(world);
    wr_access_log_free(world->env.access_log);
    wr_writer_close(world->writer, WR_SEC);
    wr_transport_host_free(world->transports);
    wr_loop_free(world->loop);
    wr_metrics_registry_free(world->registry);
    wr_tls_server_release(world->tls);
    wr_tls_client_release(world->tls_client);
    remove_files(world);
    free(world);
}

/* ---- time ---- */

/* Every turn of a loop is a chance; four in a row without a byte or a connection are silence. */
void world_settle(struct world *world)
{
    struct wr_listener_metrics *metrics = world->env.metrics;
    uint64_t before = UINT64_MAX;
    for (unsigned quiet = 0; quiet < IN_A_ROW;) {
        wr_loop_turn(world->loop, 2 * WR_MSEC);
        uint64_t now = wr_metric_get(&metrics->connections_accepted) +
                       wr_metric_get(&metrics->bytes_received) +
                       wr_metric_get(&metrics->bytes_sent) + world_refused_in_all(world) +
                       wr_metric_get(&metrics->connections_closed);
        for (size_t i = 0; i < world->client_count; i++)
            now += world->clients[i].established + world->clients[i].length +
                   world->clients[i].ended + world->clients[i].broken;
        quiet = now == before ? quiet + 1 : 0;
        before = now;
    }
    world_check_account(world);
}

void world_until(struct world *world, const bool *flag)
{
    uint64_t end = wr_time_monotonic() + PATIENCE;
    while (!*flag) {
        cr_assert_lt(wr_time_monotonic(), end, "waited in vain");
        wr_loop_turn(world->loop, WR_MSEC);
    }
}

void world_pass(struct world *world, uint64_t usec)
{
    for (uint64_t step; usec > 0; usec -= step) {
        step = usec < STEP ? usec : STEP;
        if (usec > 100 * STEP)
            step = usec / 20;
        wr_loop_advance(world->loop, step);
        wr_loop_turn(world->loop, 0);
    }
    world_settle(world);
}

/* ---- clients ---- */

static void on_established(void *owner)
{
    struct client *client = owner;
    client->established = true;
}

static size_t on_readable(void *owner, const uint8_t *p, size_t n)
{
    struct client *client = owner;
    size_t room = sizeof(client->text) - 1 - client->length;
    size_t kept = n < room ? n : room;
    memcpy(client->text + client->length, p, kept);
    client->length += kept;
    return n;
}

static void on_read_end(void *owner, bool clean)
{
    struct client *client = owner;
    client->ended = true;
    client->clean = clean;
}

static void on_closed(void *owner, enum wr_err why, const char *detail)
{
    struct client *client = owner;
    client->broken = true;
    client->why = why;
    (void)snprintf(client->detail, sizeof(client->detail), "%s", detail);
}

static const struct wr_transport_events client_events = {
    .established = on_established,
    .readable = on_readable,
    .read_end = on_read_end,
    .closed = on_closed,
};

static struct client *new_client(struct world *world)
{
    cr_assert_lt(world->client_count, WORLD_CLIENTS);
    struct client *client = &world->clients[world->client_count++];
    client->fd = -1;
    return client;
}

struct client *world_connect(struct world *world)
{
    struct client *client = new_client(world);
    struct wr_transport_counters none = {NULL, NULL};
    enum wr_err err = wr_transport_connect(world->transports, &world->address, world->tls_client,
                                           none, &client_events, client, &client->transport);
    cr_assert_eq(err, WR_OK);
    return client;
}

struct client *world_connect_bare(struct world *world)
{
    struct client *client = new_client(world);
    client->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_geq(client->fd, 0);
    /* What is said is there in the next turn. */
    int on = 1;
    cr_assert_eq(setsockopt(client->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)), 0);
    cr_assert_eq(connect(client->fd, (const struct sockaddr *)&world->address.storage,
                         world->address.length),
                 0);
    return client;
}

void client_say(struct client *client, const char *text)
{
    size_t n = strlen(text);
    if (client->transport != NULL)
        wr_transport_write(client->transport, text, n);
    else
        cr_assert_eq(send(client->fd, text, n, MSG_NOSIGNAL), (ssize_t)n);
}

void client_look(struct client *client)
{
    for (;;) {
        size_t room = sizeof(client->text) - 1 - client->length;
        ssize_t n = recv(client->fd, client->text + client->length, room, MSG_DONTWAIT);
        if (n > 0) {
            client->length += (size_t)n;
            continue;
        }
        if (n == 0) {
            client->ended = true;
            client->clean = true;
        } else if (errno != EAGAIN) {
            client->broken = true;
        }
        return;
    }
}

void client_close(struct client *client)
{
    wr_transport_close(client->transport);
    client->transport = NULL;
    if (client->fd >= 0)
        close(client->fd);
    client->fd = -1;
}

/* ---- accounts ---- */

uint64_t world_refused(const struct world *world, enum wr_refusal reason)
{
    return wr_metric_get(&world->env.metrics->connections_refused[reason]);
}

uint64_t world_refused_in_all(const struct world *world)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < WR_REFUSAL__COUNT; i++)
        sum += world_refused(world, (enum wr_refusal)i);
    return sum;
}

uint64_t world_ended(const struct world *world, enum wr_err why)
{
    return wr_metric_get(&world->env.metrics->connections_ended[why]);
}

void world_check_account(struct world *world)
{
    struct wr_listener_metrics *metrics = world->env.metrics;
    uint64_t open =
        wr_metric_get(&metrics->connections_silent) + wr_metric_get(&metrics->handshakes_waiting) +
        wr_metric_get(&metrics->handshakes_running) + wr_metric_get(&metrics->connections_idle) +
        wr_metric_get(&metrics->connections_active) + wr_metric_get(&metrics->connections_closing);
    cr_assert_eq(wr_metric_get(&metrics->connections_accepted),
                 world_refused_in_all(world) + wr_metric_get(&metrics->connections_closed) + open);
    if (world->downstream != NULL)
        cr_assert_geq(wr_downstream_connections(world->downstream), open);
    uint64_t ended = 0;
    for (unsigned i = 0; i < WR_ERR__COUNT; i++)
        ended += world_ended(world, (enum wr_err)i);
    cr_assert_eq(ended, wr_metric_get(&metrics->connections_closed));
    uint64_t caused = 0;
    for (unsigned i = 0; i < WR_CAUSE__COUNT; i++)
        caused += wr_metric_get(&metrics->handshakes_refused_by_cause[i]);
    cr_assert_eq(caused, world_refused(world, WR_REFUSAL_TOO_MANY_HANDSHAKES));
}

/* The writer's thread writes when it gets to it. */
bool world_logged(struct world *world, const char *text)
{
    char path[128];
    (void)snprintf(path, sizeof(path), "%s/access.log", world->directory);
    wr_access_log_flush(world->env.access_log);
    char *log = wr_new_zero(1, LOG_SIZE);
    uint64_t end = wr_time_monotonic() + PATIENCE;
    bool found = false;
    while (!found && wr_time_monotonic() < end) {
        FILE *file = fopen(path, "r");
        cr_assert_not_null(file);
        size_t n = fread(log, 1, LOG_SIZE - 1, file);
        (void)fclose(file);
        log[n] = '\0';
        found = strstr(log, text) != NULL;
        if (!found)
            wr_loop_turn(world->loop, WR_MSEC);
    }
    free(log);
    return found;
}
