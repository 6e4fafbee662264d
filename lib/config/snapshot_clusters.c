#include "config/snapshot_internal.h"

#include <stdio.h>

/* Addresses one name may stand for. */
#define RESOLVED_MAX 16

/* Splits "host:port" or takes the host alone with PORT. False: neither. */
static bool split_host(const struct wr_model_endpoint *endpoint, struct wr_str *host,
                       uint64_t *port)
{
    struct wr_str text = endpoint->address;
    size_t colon = text.n;

    while (colon > 0 && text.p[colon - 1] != ':')
        colon--;
    *host = text;
    *port = endpoint->port;
    if (endpoint->port == 0 && colon > 0) {
        *host = wr_str(text.p, colon - 1);
        if (!wr_str_parse_u63(wr_str(text.p + colon, text.n - colon), port))
            return false;
    }
    if (host->n > 2 && host->p[0] == '[' && host->p[host->n - 1] == ']')
        *host = wr_str(host->p + 1, host->n - 2);
    return host->n > 0 && *port > 0 && *port <= UINT16_MAX;
}

/* The addresses ENDPOINT stands for, appended to OUT; returns how many. */
static size_t resolve_endpoint(struct wr_snapshot_owned *owned, struct wr_errors *errors,
                               const struct wr_model_endpoint *endpoint,
                               struct wr_endpoint_options *out)
{
    struct wr_address addresses[RESOLVED_MAX];
    struct wr_str host;
    uint64_t port;
    size_t count = 1;

    if (wr_str_starts(endpoint->address, WR_STR("unix:"))) {
        if (wr_address_parse(endpoint->address, &addresses[0]) != WR_OK)
            count = 0;
    } else if (!split_host(endpoint, &host, &port)) {
        wr_errors_add(errors, endpoint->base.mark,
                      "endpoint \"%.*s\" has no port, expected host:port, or address and port",
                      WR_STR_ARG(endpoint->address));
        return 0;
    } else if (wr_address_resolve(wr_arena_copy(&owned->arena, host).p, (uint16_t)port, addresses,
                                  RESOLVED_MAX, &count) != WR_OK) {
        count = 0;
    }
    if (count == 0)
        wr_errors_add(errors, endpoint->base.mark,
                      "endpoint \"%.*s\" is not found, expected an address or a name that resolves",
                      WR_STR_ARG(endpoint->address));
    for (size_t i = 0; i < count; i++) {
        char text[WR_ADDRESS_TEXT];
        out[i].address = addresses[i];
        out[i].text = wr_arena_copy(&owned->arena, wr_address_text(&addresses[i], false, text)).p;
    }
    return count;
}

static void build_endpoints(struct wr_snapshot_owned *owned, struct wr_errors *errors,
                            const struct wr_model_cluster *model,
                            struct wr_cluster_options *cluster)
{
    const struct wr_model_endpoint *endpoints = model->endpoints.items;
    struct wr_endpoint_options *out = wr_arena_alloc_zero(
        &owned->arena, (model->endpoints.count * RESOLVED_MAX + 1) * sizeof(*out));

    cluster->endpoints = out;
    for (size_t i = 0; i < model->endpoints.count; i++) {
        if (endpoints[i].address.n > 0) /* else the schema has said so */
            cluster->endpoint_count +=
                resolve_endpoint(owned, errors, &endpoints[i], out + cluster->endpoint_count);
    }
}

/* The name to verify and send: as written, or the host of the first endpoint. */
static const char *server_name(struct wr_snapshot_owned *owned,
                               const struct wr_model_cluster *model)
{
    const struct wr_model_endpoint *first = model->endpoints.items;
    struct wr_str host;
    uint64_t port;

    if (!wr_str_eq(model->tls.sni, WR_STR("auto")))
        return model->tls.sni.n > 0 ? model->tls.sni.p : NULL;
    if (model->endpoints.count == 0 || !split_host(first, &host, &port))
        return NULL;
    return wr_arena_copy(&owned->arena, host).p;
}

/* In order of preference, for each enum wr_cluster_protocol. */
static const struct {
    const char *const names[2];
    size_t count;
} alpn_of[] = {
    [WR_CLUSTER_AUTO] = {{"h2", "http/1.1"}, 2},
    [WR_CLUSTER_HTTP1] = {{"http/1.1"}, 1},
    [WR_CLUSTER_HTTP2] = {{"h2"}, 1},
};

static void build_tls(struct wr_snapshot_owned *owned, struct wr_errors *errors,
                      const struct wr_model_cluster *model, struct wr_cluster_options *cluster)
{
    const struct wr_model_cluster_tls *tls = &model->tls;
    char error[WR_TLS_ERROR_TEXT];

    if (!tls->base.given)
        return;
    if ((tls->certificate.n > 0) != (tls->key.n > 0)) {
        wr_errors_add(errors, tls->base.mark,
                      "only one of certificate and key is given, expected both or none");
        return;
    }
    struct wr_tls_client_options options = {
        .verify = tls->verify,
        .ca_path = wr_str_eq(tls->ca, WR_STR("system")) ? NULL : tls->ca.p,
        .sni = server_name(owned, model),
        .alpn = alpn_of[model->protocol].names,
        .alpn_count = alpn_of[model->protocol].count,
        .chain_path = tls->certificate.n > 0 ? tls->certificate.p : NULL,
        .key_path = tls->key.n > 0 ? tls->key.p : NULL,
    };
    if (wr_tls_client_new(&options, error, &cluster->tls) != WR_OK)
        wr_errors_add(errors, tls->base.mark, "%s", error);
}

/* Responses to requests of any listener may share a connection. */
static uint32_t least_buffer(const struct wr_model *model)
{
    const struct wr_model_listener *listeners = model->listeners.items;
    uint64_t least = UINT32_MAX;

    for (size_t i = 0; i < model->listeners.count; i++)
        if (listeners[i].limits.buffer < least)
            least = listeners[i].limits.buffer;
    return (uint32_t)least;
}

static struct wr_h2_options http2_of(const struct wr_model_cluster_http2 *from,
                                     uint32_t stream_window)
{
    struct wr_h2_options options = {
        .max_concurrent_streams = wr_snapshot_u32(from->max_concurrent_streams),
        .connection_window = wr_snapshot_u32(from->connection_window),
        .stream_window = stream_window,
        .stream_window_max = wr_snapshot_u32(from->stream_window_max),
        .header_table_size = wr_snapshot_u32(from->header_table_size),
        .ping_interval = from->ping_interval,
        .ping_timeout = from->ping_timeout,
    };
    wr_snapshot_budgets(&from->budgets, options.budgets);
    return options;
}

static bool has_critical(const struct wr_model *model, struct wr_str cluster)
{
    const struct wr_model_listener *listeners = model->listeners.items;
    for (size_t i = 0; i < model->listeners.count; i++)
        if (wr_snapshot_has_critical(&listeners[i].routes, &cluster))
            return true;
    return false;
}

static void build_cluster(struct wr_snapshot_owned *owned, struct wr_errors *errors,
                          const struct wr_model *all, const struct wr_model_cluster *model,
                          struct wr_cluster_options *cluster)
{
    *cluster = (struct wr_cluster_options){
        .name = model->name.p,
        .protocol = (enum wr_cluster_protocol)model->protocol,
        .connect_timeout = model->timeouts.connect,
        .response_timeout = model->timeouts.response,
        .keep_alive_timeout = model->timeouts.keep_alive,
        .hibernate_after = model->timeouts.hibernate_after,
        .max_connection_age = model->timeouts.max_connection_age,
        .max_connections = wr_snapshot_u32(model->pool.max_connections),
        .max_connections_per_endpoint = wr_snapshot_u32(model->pool.max_connections_per_endpoint),
        .max_idle = wr_snapshot_u32(model->pool.max_idle),
        .max_pending = wr_snapshot_u32(model->pool.max_pending),
        .max_requests_per_connection = model->pool.requests_per_connection,
        .retry_budget_percent = wr_snapshot_u32(model->retry.budget),
        .retry_connect = (model->retry.on & WR_RETRY_ON_CONNECT) != 0,
        .retry_reused = (model->retry.on & WR_RETRY_ON_REUSED) != 0,
        .requests = wr_snapshot_requests(errors, &model->requests, has_critical(all, model->name)),
        .codec = {.head_limit = 64u << 10,
                  .fields_limit = 200,
                  .chunk_overhead = 64u << 10,
                  .h2 = http2_of(&model->http2, least_buffer(all))},
    };
    build_endpoints(owned, errors, model, cluster);
    build_tls(owned, errors, model, cluster);
}

void wr_snapshot_build_clusters(struct wr_snapshot_owned *owned, struct wr_errors *errors,
                                const struct wr_model *model)
{
    const struct wr_model_cluster *clusters = model->clusters.items;
    size_t count = model->clusters.count;

    owned->clusters = wr_arena_alloc_zero(&owned->arena, (count + 1) * sizeof(*owned->clusters));
    owned->snapshot.clusters = owned->clusters;
    owned->snapshot.cluster_count = count;
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < i; j++)
            if (wr_str_eq(clusters[i].name, clusters[j].name) && clusters[i].name.n > 0)
                wr_errors_add(errors, clusters[i].base.mark,
                              "cluster \"%.*s\" is given twice, first on line %u, expected once",
                              WR_STR_ARG(clusters[i].name), clusters[j].base.mark.line);
        build_cluster(owned, errors, model, &clusters[i], &owned->clusters[i]);
    }
}
