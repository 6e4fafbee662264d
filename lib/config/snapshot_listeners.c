#include "config/snapshot_internal.h"

#include <stdio.h>
#include <sys/random.h>

#include "base/compiler.h"

/* Bytes of chunk extensions and other framing a body (behaviour row 7). */
#define CHUNK_OVERHEAD (16u << 10)
/* Request content read and thrown away to keep a connection after an early answer. */
#define DISCARD_LIMIT (64u << 10)

/* ---- TLS ---- */

static size_t alpn_names(struct wr_errors *errors, const struct wr_model_listener *listener,
                         const char **names, size_t max)
{
    const struct wr_model_listener_tls *tls = &listener->tls;
    const struct wr_str *alpn = tls->alpn.items;
    bool http2 = listener->http2.enabled;
    size_t count = 0;

    if (tls->alpn.count == 0 && http2)
        names[count++] = "h2";
    if (tls->alpn.count == 0)
        names[count++] = "http/1.1";
    for (size_t i = 0; i < tls->alpn.count && count < max; i++) {
        bool h2 = wr_str_eq(alpn[i], WR_STR("h2"));
        if (h2 && !http2)
            wr_errors_add(errors, tls->base.mark,
                          "alpn has \"h2\" and http2 is off, expected one of the two");
        else if (!h2 && !wr_str_eq(alpn[i], WR_STR("http/1.1")))
            wr_errors_add(errors, tls->base.mark,
                          "alpn has \"%.*s\", expected protocols that weir speaks: h2, http/1.1",
                          WR_STR_ARG(alpn[i]));
        names[count++] = alpn[i].p;
    }
    return count;
}

/* Each by itself, so that every bad one is told in its place. */
static void check_certificates(struct wr_errors *errors, const struct wr_model_certificate *from,
                               const struct wr_tls_certificate_options *certificates, size_t count)
{
    char error[WR_TLS_ERROR_TEXT];

    for (size_t i = 0; i < count; i++) {
        struct wr_tls_server *alone = NULL;
        struct wr_tls_server_options options = {
            .certificates = &certificates[i],
            .certificate_count = 1,
            .min_version = WR_TLS_1_2,
            .max_version = WR_TLS_1_3,
        };
        if (wr_tls_server_new(&options, error, &alone) != WR_OK)
            wr_errors_add(errors, from[i].base.mark, "%s", error);
        wr_tls_server_release(alone);
    }
}

static void build_tls(struct wr_snapshot_owned *owned, struct wr_errors *errors,
                      const struct wr_model_listener *listener, struct wr_tls_server **out)
{
    const struct wr_model_listener_tls *tls = &listener->tls;
    const struct wr_model_certificate *from = tls->certificates.items;
    size_t count = tls->certificates.count;
    struct wr_tls_certificate_options *certificates =
        wr_arena_alloc_zero(&owned->arena, (count + 1) * sizeof(*certificates));
    const char *alpn[8];
    char error[WR_TLS_ERROR_TEXT];
    unsigned before = errors->count;

    if (!tls->base.given || count == 0)
        return;
    for (size_t i = 0; i < count; i++) {
        if (from[i].chain.n == 0 || from[i].key.n == 0)
            return; /* the schema has said so */
        certificates[i].chain_path = from[i].chain.p;
        certificates[i].key_path = from[i].key.p;
    }
    if (tls->versions == 0)
        wr_errors_add(errors, tls->base.mark, "versions is empty, expected tls1.2 or tls1.3");
    struct wr_tls_server_options options = {
        .certificates = certificates,
        .certificate_count = count,
        .min_version = (tls->versions & 1u) ? WR_TLS_1_2 : WR_TLS_1_3,
        .max_version = (tls->versions & 2u) ? WR_TLS_1_3 : WR_TLS_1_2,
        .alpn = alpn,
        .alpn_count = alpn_names(errors, listener, alpn, WR_COUNT_OF(alpn)),
        .tickets = tls->tickets.enabled,
    };
    check_certificates(errors, from, certificates, count);
    if (errors->count == before && wr_tls_server_new(&options, error, out) != WR_OK)
        wr_errors_add(errors, tls->base.mark, "%s", error);
}

/* ---- listeners ---- */

static struct wr_downstream_timeouts timeouts_of(const struct wr_model_timeouts *from)
{
    return (struct wr_downstream_timeouts){
        .client_hello = from->client_hello,
        .handshake = from->handshake,
        .request_header = from->request_header,
        .keep_alive = from->keep_alive,
        .inactivity = from->inactivity,
        .request = from->request,
        .tunnel = from->tunnel,
        .max_connection_age = from->max_connection_age,
        .linger = from->linger,
    };
}

static uint64_t unguessable(void)
{
    uint64_t seed = 0;
    while (getrandom(&seed, sizeof(seed), 0) != (ssize_t)sizeof(seed))
        ;
    return seed;
}

static struct wr_admission_options admission_of(const struct wr_model_admission *from)
{
    return (struct wr_admission_options){
        .mode = (enum wr_admission_mode)from->mode,
        .max_pending_handshakes = wr_snapshot_u32(from->max_pending_handshakes),
        .max_silent = wr_snapshot_u32(from->max_silent),
        .max_delay = from->max_handshake_delay,
        .newest_first = from->newest_first,
        .resumption_first = from->resumption_first,
        .max_source_share = (uint32_t)from->max_share_per_source,
        .trusted_reserve = from->trusted.count > 0 ? wr_snapshot_u32(from->trusted_reserve) : 0,
        .turn_budget = from->turn_budget,
        .min_share = (uint32_t)from->min_share,
        .seed = unguessable(),
    };
}

static struct wr_access_options access_of(const struct wr_model_admission *from)
{
    return (struct wr_access_options){
        .deny = from->deny.items,
        .deny_count = from->deny.count,
        .allow = from->allow.items,
        .allow_count = from->allow.count,
        .trusted = from->trusted.items,
        .trusted_count = from->trusted.count,
        .source_bits_ipv4 = (unsigned)from->source_bits_ipv4,
        .source_bits_ipv6 = (unsigned)from->source_bits_ipv6,
        .connections = wr_snapshot_rate(&from->rates.connections),
        .connections_per_source = wr_snapshot_rate(&from->rates.connections_per_source),
        .handshakes = wr_snapshot_rate(&from->rates.handshakes),
        .handshakes_per_source = wr_snapshot_rate(&from->rates.handshakes_per_source),
        .seed = unguessable(),
    };
}

void wr_snapshot_budgets(const struct wr_model_budgets *from, struct wr_h2_budget *to)
{
    for (size_t i = 0; i < WR_FLOOD__COUNT; i++)
        to[i] = (struct wr_h2_budget){.burst = wr_snapshot_u32(from->of[i].burst),
                                      .per_second = wr_snapshot_u32(from->of[i].per_second)};
}

static struct wr_h2_options http2_of(const struct wr_model_listener_http2 *from)
{
    struct wr_h2_options options = {
        .max_concurrent_streams = wr_snapshot_u32(from->max_concurrent_streams),
        .connection_window = wr_snapshot_u32(from->connection_window),
        .stream_window_max = wr_snapshot_u32(from->stream_window_max),
        .header_table_size = wr_snapshot_u32(from->header_table_size),
        .ping_interval = WR_NEVER,
        .ping_timeout = WR_NEVER,
    };
    wr_snapshot_budgets(&from->budgets, options.budgets);
    return options;
}

static void check_deadlines(struct wr_errors *errors, const struct wr_model *model,
                            const struct wr_model_listener *from)
{
    if (from->timeouts.drain != model->defaults.timeouts.drain)
        wr_errors_add(errors, from->timeouts.base.mark,
                      "drain is given for a listener, expected it under defaults: it is the "
                      "process that drains");
    if (!from->tls.base.given)
        return;
    if (from->timeouts.handshake == WR_NEVER)
        wr_errors_add(errors, from->base.mark,
                      "timeouts.handshake is infinity, expected a duration: a limit on handshakes "
                      "without a deadline is held for ever by clients that do nothing");
}

static void build_listener(struct wr_snapshot_owned *owned, struct wr_errors *errors,
                           const struct wr_model *model, const struct wr_model_listener *from,
                           struct wr_snapshot_listener *out)
{
    struct wr_downstream_options *options = &out->downstream;
    char text[WR_ADDRESS_TEXT];

    out->address = from->bind;
    out->backlog = (int)from->backlog;
    options->name = from->name.n > 0
                        ? from->name.p
                        : wr_arena_copy(&owned->arena, wr_address_text(&from->bind, false, text)).p;
    options->admission = admission_of(&from->admission);
    options->access = access_of(&from->admission);
    options->refuse_with = (enum wr_refuse_with)from->admission.refuse_with;
    options->refusal_share = (uint32_t)from->admission.refusal_share;
    options->timeouts = timeouts_of(&from->timeouts);
    options->max_connections = wr_snapshot_u32(from->limits.connections);
    options->evict_idle_after = from->limits.evict_idle_after;
    options->content_limit = (size_t)from->limits.buffer;
    options->request_rate = from->limits.request_rate;
    options->codec = (struct wr_server_codec_options){
        .head_limit = (size_t)from->limits.request_head,
        .uri_limit = (size_t)from->limits.request_uri,
        .fields_limit = (unsigned)from->limits.request_fields,
        .chunk_overhead = CHUNK_OVERHEAD,
        .discard_limit = DISCARD_LIMIT,
        .head_timeout = from->timeouts.request_header,
        .max_requests = from->limits.requests_per_connection,
        .underscores = from->underscores,
        .h2 = http2_of(&from->http2),
    };
    options->plain_http2 = from->http2.enabled;
    options->proxy.forward = (struct wr_forward_options){
        .trusted = from->forwarded.trust.items,
        .trusted_count = from->forwarded.trust.count,
        .via = WR_STR("weir"),
    };
    options->proxy.path_policy = (enum wr_path_policy)from->path;
    options->proxy.request_content_limit = from->limits.request_body;
    options->proxy.requests = wr_snapshot_requests(errors, &from->requests,
                                                   wr_snapshot_has_critical(&from->routes, NULL));
    options->proxy.source_bits_ipv4 = options->access.source_bits_ipv4;
    options->proxy.source_bits_ipv6 = options->access.source_bits_ipv6;
    options->proxy.seed = unguessable();
    wr_snapshot_build_routes(owned, errors, model, from, &options->proxy.routes);
    build_tls(owned, errors, from, &options->tls);
    check_deadlines(errors, model, from);
}

static void check_twins(struct wr_errors *errors, const struct wr_snapshot_owned *owned,
                        const struct wr_model_listener *listeners, size_t index)
{
    if (listeners[index].name.n == 0 && listeners[index].bind.length == 0)
        return; /* the schema has said so */
    for (size_t j = 0; j < index; j++)
        if (strcmp(owned->listeners[index].downstream.name, owned->listeners[j].downstream.name) ==
            0)
            wr_errors_add(errors, listeners[index].base.mark,
                          "listener \"%s\" is given twice, first on line %u, expected once",
                          owned->listeners[j].downstream.name, listeners[j].base.mark.line);
}

void wr_snapshot_build_listeners(struct wr_snapshot_owned *owned, struct wr_errors *errors,
                                 const struct wr_model *model)
{
    const struct wr_model_listener *listeners = model->listeners.items;
    size_t count = model->listeners.count;

    owned->listeners = wr_arena_alloc_zero(&owned->arena, (count + 1) * sizeof(*owned->listeners));
    owned->snapshot.listeners = owned->listeners;
    owned->snapshot.listener_count = count;
    for (size_t i = 0; i < count; i++) {
        build_listener(owned, errors, model, &listeners[i], &owned->listeners[i]);
        check_twins(errors, owned, listeners, i);
    }
}
