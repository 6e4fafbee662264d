#include "support/proxy_rig.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "support/certificate.h"

#define IN_A_ROW 4

/* ---- the rig ---- */

static void set_options(struct proxy_rig *rig)
{
    rig->cluster_options = (struct wr_cluster_options){
        .name = "web",
        .endpoints = rig->endpoints,
        .connect_timeout = 2 * WR_SEC,
        .response_timeout = 60 * WR_SEC,
        .keep_alive_timeout = 30 * WR_SEC,
        .max_connection_age = WR_NEVER,
        .max_connections = 32,
        .max_idle = 16,
        .max_pending = 16,
        .max_requests_per_connection = UINT64_MAX,
        .retry_budget_percent = 20,
        .retry_connect = true,
        .retry_reused = true,
        .codec = {.head_limit = (size_t)64 * 1024,
                  .fields_limit = 100,
                  .chunk_overhead = (size_t)16 * 1024},
    };
    rig->routes[0] = (struct wr_route){
        .name = "all", .host = WR_STR_EMPTY, .path = WR_STR_EMPTY, .action = WR_ROUTE_CLUSTER};
    rig->proxy_options = (struct wr_proxy_options){
        .routes = {.routes = rig->routes, .count = 1},
        .forward = {.via = WR_STR("weir")},
        .request_content_limit = UINT64_MAX,
    };
    rig->codec_options = (struct wr_server_codec_options){
        .head_limit = (size_t)64 * 1024,
        .uri_limit = 8192,
        .fields_limit = 100,
        .chunk_overhead = (size_t)16 * 1024,
        .discard_limit = (size_t)64 * 1024,
        .max_requests = UINT64_MAX,
    };
}

struct proxy_rig *px_new(void)
{
    struct proxy_rig *rig = WR_NEW(struct proxy_rig);
    cr_assert_eq(wr_loop_new(WR_CLOCK_SIMULATED, &rig->loop), WR_OK);
    cr_assert_eq(wr_transport_host_new(rig->loop, NULL, &rig->transports), WR_OK);
    rig->wait = WR_MSEC;
    rig->registry = wr_metrics_registry_new();
    rig->cluster_metrics = wr_metrics_new_cluster(rig->registry, "web");
    wr_exchange_host_init(&rig->host);
    rig->host.loop = rig->loop;
    rig->host.chunks = wr_transport_host_chunks(rig->transports);
    rig->host.worker_metrics = wr_metrics_new_worker(rig->registry);
    rig->host.metrics = wr_metrics_new_listener(rig->registry, "edge");
    rig->host.content_limit = (size_t)64 * 1024;
    rig->host.inactivity_timeout = 60 * WR_SEC;
    set_options(rig);
    return rig;
}

static void listen_on(struct px_upstream *upstream, struct wr_endpoint_options *endpoint,
                      size_t number)
{
    char text[32];
    snprintf(text, sizeof(text), "127.0.0.%zu:0", number + 1);
    struct wr_address *address = &endpoint->address;
    cr_assert_eq(wr_address_parse(wr_str_from(text), address), WR_OK);
    struct wr_listen_options options = {.backlog = 64};
    cr_assert_eq(wr_socket_listen(address, &options, &upstream->fd), WR_OK);
    address->length = sizeof(address->storage);
    cr_assert_eq(getsockname(upstream->fd, (struct sockaddr *)&address->storage, &address->length),
                 0);
    struct wr_str shown = wr_address_text(address, false, upstream->text);
    upstream->text[shown.n] = '\0';
    endpoint->text = upstream->text;
}

struct px_upstream *px_upstream(struct proxy_rig *rig)
{
    size_t at = rig->cluster_options.endpoint_count++;
    cr_assert_lt(at, PX_UPSTREAMS);
    struct px_upstream *upstream = &rig->upstreams[at];
    upstream->rig = rig;
    listen_on(upstream, &rig->endpoints[at], at);
    return upstream;
}

void px_nobody(struct proxy_rig *rig)
{
    struct px_upstream *upstream = px_upstream(rig);
    close(upstream->fd);
    upstream->fd = -1;
}

void px_use_tls(struct proxy_rig *rig, bool verify)
{
    char chain[128];
    char key[128];
    char error[WR_TLS_ERROR_TEXT];
    static const char *const alpn[] = {"http/1.1"};
    snprintf(rig->dir, sizeof(rig->dir), "/tmp/weir-proxy-XXXXXX");
    cr_assert_not_null(mkdtemp(rig->dir));
    certificate_make(rig->dir, "", "DNS:localhost");
    snprintf(chain, sizeof(chain), "%s/cert.pem", rig->dir);
    snprintf(key, sizeof(key), "%s/key.pem", rig->dir);
    struct wr_tls_certificate_options certificate = {.chain_path = chain, .key_path = key};
    struct wr_tls_server_options server = {.certificates = &certificate,
                                           .certificate_count = 1,
                                           .min_version = WR_TLS_1_2,
                                           .max_version = WR_TLS_1_3,
                                           .alpn = alpn,
                                           .alpn_count = 1,
                                           .tickets = true};
    cr_assert_eq(wr_tls_server_new(&server, error, &rig->tls_server), WR_OK, "%s", error);
    struct wr_tls_client_options client = {
        .verify = verify, .sni = "localhost", .alpn = alpn, .alpn_count = 1};
    cr_assert_eq(wr_tls_client_new(&client, error, &rig->tls_client), WR_OK, "%s", error);
    rig->cluster_options.tls = rig->tls_client;
    for (size_t i = 0; i < PX_UPSTREAMS; i++)
        rig->upstreams[i].tls = true;
}

void px_start(struct proxy_rig *rig)
{
    rig->cluster = wr_cluster_new(rig->transports, &rig->cluster_options, rig->cluster_metrics);
    rig->clusters[0] = rig->cluster;
    rig->proxy = wr_proxy_new(rig->loop, &rig->proxy_options, rig->clusters);
}

static void free_peer(struct px_peer *peer)
{
    if (peer->codec != NULL)
        peer->codec->ops->close(peer->codec, WR_ERR_CLIENT_CLOSED);
    wr_transport_close(peer->server_transport);
    px_close(peer);
    free(peer);
}

static void remove_dir(const char *dir)
{
    static const char *const names[] = {"cert.pem", "key.pem", "openssl.log"};
    for (size_t i = 0; dir[0] != '\0' && i < WR_COUNT_OF(names); i++) {
        char path[128];
        snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
        unlink(path);
    }
    if (dir[0] != '\0')
        rmdir(dir);
}

/* Nothing may be left of what the gauges count. */
static void check_gauges(const struct proxy_rig *rig)
{
    cr_expect_eq(wr_metric_get(&rig->cluster_metrics->upstream_active), 0);
    cr_expect_eq(wr_metric_get(&rig->cluster_metrics->upstream_idle), 0);
    cr_expect_eq(wr_metric_get(&rig->cluster_metrics->upstream_pending), 0);
    cr_expect_eq(wr_metric_get(&rig->host.worker_metrics->exchanges_active), 0);
}

void px_end(struct proxy_rig *rig)
{
    wr_cluster_free(rig->cluster);
    for (size_t i = 0; i < rig->client_count; i++)
        free_peer(rig->clients[i]);
    for (size_t i = 0; i < PX_UPSTREAMS; i++) {
        struct px_upstream *upstream = &rig->upstreams[i];
        for (size_t j = 0; j < upstream->count; j++)
            free_peer(upstream->peers[j]);
        if (upstream->rig != NULL && upstream->fd >= 0)
            close(upstream->fd);
    }
    wr_loop_turn(rig->loop, 0);
    check_gauges(rig);
    wr_proxy_free(rig->proxy);
    wr_exchange_host_clear(&rig->host);
    cr_expect_eq(wr_transport_host_chunks(rig->transports)->used_count, 0);
    wr_transport_host_free(rig->transports);
    wr_loop_free(rig->loop);
    wr_metrics_registry_free(rig->registry);
    wr_tls_server_release(rig->tls_server);
    wr_tls_client_release(rig->tls_client);
    remove_dir(rig->dir);
    free(rig);
}

/* ---- what peers hear ---- */

static void keep(struct px_peer *peer, const void *p, size_t n)
{
    if (peer->n < PX_TEXT - 1) {
        size_t fits = PX_TEXT - 1 - peer->n;
        memcpy(peer->text + peer->n, p, n < fits ? n : fits);
    }
    peer->n += n;
}

static void read_raw(struct px_peer *peer)
{
    char bytes[16384];
    while (peer->fd >= 0 && !peer->stalled && !peer->ended && !peer->reset) {
        ssize_t n = recv(peer->fd, bytes, sizeof(bytes), 0);
        if (n > 0)
            keep(peer, bytes, (size_t)n);
        else if (n == 0)
            peer->ended = true;
        else if (errno == EAGAIN)
            return;
        else
            peer->reset = true;
    }
}

static size_t tls_readable(void *owner, const uint8_t *p, size_t n)
{
    keep(owner, p, n);
    return n;
}

static void tls_read_end(void *owner, bool clean)
{
    struct px_peer *peer = owner;
    if (clean)
        peer->ended = true;
    else
        peer->reset = true;
}

static void tls_closed(void *owner, enum wr_err why, const char *detail)
{
    struct px_peer *peer = owner;
    (void)why;
    (void)detail;
    peer->reset = true;
}

static const struct wr_transport_events tls_events = {
    .readable = tls_readable, .read_end = tls_read_end, .closed = tls_closed};

/* What a test says goes out at once. */
static void set_no_delay(int fd)
{
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

static void accept_all(struct px_upstream *upstream)
{
    while (upstream->rig != NULL && upstream->fd >= 0) {
        int fd = accept4(upstream->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0)
            return;
        cr_assert_lt(upstream->count, PX_CONNECTIONS);
        set_no_delay(fd);
        struct px_peer *peer = WR_NEW(struct px_peer);
        peer->rig = upstream->rig;
        peer->fd = upstream->tls ? -1 : fd;
        upstream->peers[upstream->count++] = peer;
        if (upstream->tls)
            cr_assert_eq(wr_transport_accept(peer->rig->transports, fd, peer->rig->tls_server,
                                             (struct wr_transport_counters){0}, &tls_events, peer,
                                             &peer->transport),
                         WR_OK);
    }
}

/* ---- turns ---- */

void px_turn(struct proxy_rig *rig)
{
    wr_loop_turn(rig->loop, rig->wait);
    for (size_t i = 0; i < PX_UPSTREAMS; i++) {
        accept_all(&rig->upstreams[i]);
        for (size_t j = 0; j < rig->upstreams[i].count; j++)
            read_raw(rig->upstreams[i].peers[j]);
    }
    for (size_t i = 0; i < rig->client_count; i++)
        read_raw(rig->clients[i]);
}

static uint64_t happenings(const struct proxy_rig *rig)
{
    uint64_t sum = wr_metric_get(&rig->cluster_metrics->upstream_bytes_received) +
                   wr_metric_get(&rig->cluster_metrics->upstream_bytes_sent) +
                   wr_metric_get(&rig->cluster_metrics->upstream_idle) * 1000 +
                   wr_metric_get(&rig->cluster_metrics->upstream_active) * 1000;
    for (size_t i = 0; i < PX_UPSTREAMS; i++) {
        sum += rig->upstreams[i].count;
        for (size_t j = 0; j < rig->upstreams[i].count; j++) {
            const struct px_peer *peer = rig->upstreams[i].peers[j];
            sum += peer->n + peer->ended + peer->reset;
        }
    }
    for (size_t i = 0; i < rig->client_count; i++)
        sum += rig->clients[i]->n + rig->clients[i]->ended + rig->clients[i]->reset;
    return sum;
}

void px_settle(struct proxy_rig *rig)
{
    uint64_t before = UINT64_MAX;
    for (unsigned quiet = 0; quiet < IN_A_ROW;) {
        px_turn(rig);
        uint64_t now = happenings(rig);
        quiet = now == before ? quiet + 1 : 0;
        before = now;
    }
}

void px_pass(struct proxy_rig *rig, uint64_t usec)
{
    wr_loop_advance(rig->loop, usec);
    px_settle(rig);
}

/* ---- clients ---- */

static void client_exchange(void *owner, struct wr_exchange *exchange)
{
    const struct px_peer *client = owner;
    wr_proxy_start(client->rig->proxy, exchange);
    if (client->rig->started != NULL)
        client->rig->started(client->rig);
}

static void client_nothing(void *owner)
{
    (void)owner;
}

static const struct wr_transport_events no_events = {0};

/* What lingers is closed with the rig. */
static void client_done(void *owner, enum wr_err why)
{
    struct px_peer *client = owner;
    client->codec->ops->close(client->codec, why);
    client->codec = NULL;
    if (why == WR_OK) {
        wr_transport_set_events(client->server_transport, &no_events, client);
        return;
    }
    wr_transport_reset(client->server_transport);
    client->server_transport = NULL;
}

static const struct wr_server_codec_events client_events = {
    .exchange = client_exchange,
    .head_begun = client_nothing,
    .head_complete = client_nothing,
    .idle = client_nothing,
    .done = client_done,
};

/* Two connected sockets: TCP, since a client may reset. */
static void make_pair(int fds[2])
{
    struct wr_address address;
    struct wr_listen_options options = {.backlog = 1};
    int listening;
    cr_assert_eq(wr_address_parse(WR_STR("127.0.0.9:0"), &address), WR_OK);
    cr_assert_eq(wr_socket_listen(&address, &options, &listening), WR_OK);
    address.length = sizeof(address.storage);
    cr_assert_eq(getsockname(listening, (struct sockaddr *)&address.storage, &address.length), 0);
    cr_assert_eq(wr_socket_connect(&address, &fds[0]), WR_OK);
    struct pollfd ready = {.fd = listening, .events = POLLIN};
    cr_assert_eq(poll(&ready, 1, 10000), 1);
    fds[1] = accept4(listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    cr_assert_geq(fds[1], 0);
    close(listening);
}

struct px_peer *px_client(struct proxy_rig *rig, const char *text)
{
    int fds[2];
    make_pair(fds);
    set_no_delay(fds[0]);
    cr_assert_lt(rig->client_count, PX_CONNECTIONS);
    struct px_peer *client = WR_NEW(struct px_peer);
    rig->clients[rig->client_count++] = client;
    client->rig = rig;
    client->fd = fds[0];
    struct wr_client_info *info = &client->info;
    info->listener = WR_STR("edge");
    cr_assert_eq(wr_address_parse(WR_STR("192.0.2.7:4711"), &info->address), WR_OK);
    snprintf(info->address_text, sizeof(info->address_text), "192.0.2.7:4711");
    info->address_slice = wr_str_from(info->address_text);
    info->host_slice = wr_str(info->address_text, 9);
    info->tls_version = "";
    cr_assert_eq(wr_transport_accept(rig->transports, fds[1], NULL,
                                     (struct wr_transport_counters){0}, &no_events, client,
                                     &client->server_transport),
                 WR_OK);
    client->codec = wr_h1_server_new(client->server_transport, &rig->codec_options, &rig->host,
                                     info, &client_events, client);
    px_say(client, text);
    return client;
}

struct px_peer *px_accepted(struct px_upstream *upstream, size_t index)
{
    PX_UNTIL(upstream->rig, upstream->count > index);
    return upstream->peers[index];
}

void px_say_bytes(struct px_peer *peer, const void *p, size_t n)
{
    if (peer->transport != NULL) {
        wr_transport_write(peer->transport, p, n);
        return;
    }
    size_t sent = 0;
    while (sent < n) {
        ssize_t m = send(peer->fd, (const char *)p + sent, n - sent, MSG_NOSIGNAL);
        if (m > 0) {
            sent += (size_t)m;
        } else if (errno == EAGAIN) {
            px_turn(peer->rig);
        } else {
            peer->reset = true;
            return;
        }
    }
}

void px_say(struct px_peer *peer, const char *text)
{
    px_say_bytes(peer, text, strlen(text));
}

bool px_heard(const struct px_peer *peer, const char *text)
{
    return strcasestr(peer->text, text) != NULL;
}

unsigned px_times_heard(const struct px_peer *peer, const char *text)
{
    unsigned times = 0;
    for (const char *at = peer->text; (at = strcasestr(at, text)) != NULL; at++)
        times++;
    return times;
}

void px_hear(struct px_peer *peer, const char *text)
{
    uint64_t end = wr_time_monotonic() + 10 * WR_SEC;
    while (!px_heard(peer, text) && wr_time_monotonic() < end)
        px_turn(peer->rig);
    cr_assert(px_heard(peer, text), "%s has not come, but:\n%s", text, peer->text);
}

void px_forget(struct px_peer *peer)
{
    memset(peer->text, 0, sizeof(peer->text));
    peer->n = 0;
}

void px_close(struct px_peer *peer)
{
    wr_transport_close(peer->transport);
    peer->transport = NULL;
    if (peer->fd >= 0)
        close(peer->fd);
    peer->fd = -1;
}

void px_reset(struct px_peer *peer)
{
    if (peer->transport != NULL)
        wr_transport_reset(peer->transport);
    else
        wr_socket_reset(peer->fd);
    peer->transport = NULL;
    peer->fd = -1;
}

void px_finish(struct px_peer *peer)
{
    if (peer->transport != NULL)
        wr_transport_end(peer->transport);
    else
        shutdown(peer->fd, SHUT_WR);
}

void px_exchange(struct px_peer *client, struct px_upstream *upstream, size_t connection)
{
    px_forget(client);
    px_say(client, PX_GET);
    struct px_peer *peer = px_accepted(upstream, connection);
    px_hear(peer, "\r\n\r\n");
    px_forget(peer);
    px_say(peer, PX_OK);
    px_hear(client, "\r\n\r\nok");
    px_settle(client->rig);
    px_forget(client);
}
