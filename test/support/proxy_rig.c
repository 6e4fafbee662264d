#include "support/proxy_rig.h"

#include <errno.h>
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
    rig->proxy = wr_proxy_new(rig->loop, &rig->proxy_options, rig->host.metrics, rig->clusters);
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
    cr_expect_eq(wr_metric_get(&rig->host.metrics->requests_in_flight), 0);
    cr_expect_eq(wr_metric_get(&rig->host.metrics->requests_waiting), 0);
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

static void accept_all(struct px_upstream *upstream)
{
    while (upstream->rig != NULL && upstream->fd >= 0) {
        int fd = accept4(upstream->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0)
            return;
        cr_assert_lt(upstream->count, PX_CONNECTIONS);
        px_set_no_delay(fd);
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
