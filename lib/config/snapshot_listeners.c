#include "config/snapshot_internal.h"

#include <stdio.h>
#include <sys/random.h>

#include "base/compiler.h"

/* Bytes of chunk extensions and other framing a body (behaviour row 7). */
#define CHUNK_OVERHEAD (16u << 10)
/* Request content read and thrown away to keep a connection after an early answer. */
#define DISCARD_LIMIT (64u << 10)

/* ---- routes ---- */

static bool has_control(struct wr_str text)
{
    return !wr_is_field_value(text);
}

static struct wr_str lower_copy(struct wr_arena *arena, struct wr_str text)
{
    char *p = wr_arena_alloc(arena, text.n + 1);
    for (size_t i = 0; i < text.n; i++)
        p[i] = wr_lower(text.p[i]);
    p[text.n] = '\0';
    return wr_str(p, text.n);
}

static void build_respond(struct wr_errors *errors, const struct wr_model_respond *model,
                          struct wr_route *route)
{
    if (has_control(model->content_type))
        wr_errors_add(errors, model->base.mark,
                      "content_type has control characters, expected a media type");
    if (model->body.n > 0 && model->body_size > 0)
        wr_errors_add(errors, model->base.mark, "body and body_size are given, expected one");
    if ((model->status == 204 || model->status == 304) &&
        (model->body.n > 0 || model->body_size > 0))
        wr_errors_add(errors, model->base.mark, "status %u has no content, expected no body",
                      (unsigned)model->status);
    route->action = WR_ROUTE_RESPOND;
    route->respond = (struct wr_respond_options){
        .status = (uint16_t)model->status,
        .content_type = model->content_type,
        .body = model->body,
        .body_size = model->body_size,
    };
}

static void build_target(struct wr_errors *errors, const struct wr_model *model,
                         const struct wr_model_route *from, struct wr_route *route)
{
    const struct wr_model_cluster *clusters = model->clusters.items;

    if ((from->cluster.n > 0) == from->respond.base.given) {
        wr_errors_add(errors, from->base.mark, "a route has %s, expected one of them",
                      from->cluster.n > 0 ? "both cluster and respond"
                                          : "neither cluster nor respond");
        return;
    }
    if (from->respond.base.given) {
        build_respond(errors, &from->respond, route);
        return;
    }
    route->action = WR_ROUTE_CLUSTER;
    for (unsigned i = 0; i < model->clusters.count; i++) {
        if (wr_str_eq(clusters[i].name, from->cluster)) {
            route->cluster = i;
            return;
        }
    }
    wr_errors_add(errors, from->base.mark,
                  "cluster \"%.*s\" is not among clusters, expected the name of one",
                  WR_STR_ARG(from->cluster));
}

/* RFC 9110 section 7.8. A connection that has become one of HTTP/2 behind weir's back would carry requests that weir never sees,
 * past its routes and limits. */
static void check_upgrade(struct wr_errors *errors, const struct wr_model_route *from,
                          struct wr_str protocol)
{
    if (!wr_is_token(protocol))
        wr_errors_add(errors, from->base.mark,
                      "upgrade has \"%.*s\", expected the name of a protocol like websocket",
                      WR_STR_ARG(protocol));
    else if (wr_str_eq_nocase(protocol, WR_STR("h2c")))
        wr_errors_add(errors, from->base.mark,
                      "upgrade has \"h2c\", expected no version of HTTP: its requests would pass "
                      "weir unseen");
}

static void build_tunnels(struct wr_snapshot_owned *owned, struct wr_errors *errors,
                          const struct wr_model_route *from, struct wr_route *route)
{
    static const struct wr_str standard[] = {{"websocket", 9}};
    const struct wr_str *names = from->upgrade.items;
    size_t count = from->upgrade.count;

    route->connect = from->connect;
    if (from->connect && from->respond.base.given)
        wr_errors_add(errors, from->base.mark, "connect is true, expected a cluster to connect to");
    if (names == NULL) {
        route->upgrades = standard;
        route->upgrade_count = WR_COUNT_OF(standard);
        return;
    }
    struct wr_str *upgrades = wr_arena_alloc(&owned->arena, (count + 1) * sizeof(*upgrades));
    for (size_t i = 0; i < count; i++) {
        check_upgrade(errors, from, names[i]);
        upgrades[i] = lower_copy(&owned->arena, names[i]);
    }
    route->upgrades = upgrades;
    route->upgrade_count = count;
}

/* A name, or *. and a name; without port. */
static bool is_host_pattern(struct wr_str host)
{
    if (wr_str_starts(host, WR_STR("*.")))
        host = wr_str(host.p + 2, host.n - 2);
    bool bracketed = host.n > 0 && host.p[0] == '[';
    return host.n > 0 && !memchr(host.p, '*', host.n) &&
           (bracketed || !memchr(host.p, ':', host.n)) && wr_authority_is_valid(host);
}

/* Paths are matched after dot segments are resolved and without their query: what has either would never match. */
static bool is_path_prefix(struct wr_str path)
{
    struct wr_str rest = path;

    if (path.p[0] != '/')
        return false;
    for (size_t i = 0; i < path.n; i++)
        if (path.p[i] <= ' ' || path.p[i] > '~' || path.p[i] == '?' || path.p[i] == '#' ||
            path.p[i] == '*')
            return false;
    while (rest.n > 0) {
        const char *slash = memchr(rest.p + 1, '/', rest.n - 1);
        size_t n = slash ? (size_t)(slash - rest.p) : rest.n;
        struct wr_str segment = wr_str(rest.p, n);
        if (wr_str_eq(segment, WR_STR("/.")) || wr_str_eq(segment, WR_STR("/..")))
            return false;
        rest = wr_str(rest.p + n, rest.n - n);
    }
    return true;
}

static void check_match(struct wr_errors *errors, const struct wr_model_route *from,
                        const struct wr_route *route)
{
    if (route->host.n > 0 && !is_host_pattern(route->host))
        wr_errors_add(errors, from->match.base.mark,
                      "host is \"%.*s\", expected a name like www.example.com or *.example.com, "
                      "without port",
                      WR_STR_ARG(from->match.host));
    if (route->path.n > 0 && !is_path_prefix(route->path))
        wr_errors_add(errors, from->match.base.mark,
                      "path is \"%.*s\", expected a prefix that begins with / and has no query, "
                      "pattern or dot segment",
                      WR_STR_ARG(route->path));
}

static void build_route(struct wr_snapshot_owned *owned, struct wr_errors *errors,
                        const struct wr_model *model, const struct wr_model_route *from,
                        size_t index, struct wr_route *route)
{
    route->name =
        from->name.n > 0 ? from->name.p : wr_arena_printf(&owned->arena, "#%zu", index + 1).p;
    route->host = lower_copy(&owned->arena, from->match.host);
    route->path = from->match.path;
    check_match(errors, from, route);
    build_target(errors, model, from, route);
    build_tunnels(owned, errors, from, route);
}

static void build_routes(struct wr_snapshot_owned *owned, struct wr_errors *errors,
                         const struct wr_model *model, const struct wr_model_listener *listener,
                         struct wr_route_table *table)
{
    const struct wr_model_route *routes = listener->routes.items;
    struct wr_route *out =
        wr_arena_alloc_zero(&owned->arena, (listener->routes.count + 1) * sizeof(*out));

    for (size_t i = 0; i < listener->routes.count; i++)
        build_route(owned, errors, model, &routes[i], i, &out[i]);
    table->routes = out;
    table->count = listener->routes.count;
}

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

static struct wr_rate rate_of(const struct wr_model_rate *from)
{
    if (from->per_second == UINT64_MAX)
        return (struct wr_rate){0};
    return (struct wr_rate){.per_second = from->per_second,
                            .burst = from->burst > 0 ? from->burst : from->per_second};
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
        .connections = rate_of(&from->rates.connections),
        .connections_per_source = rate_of(&from->rates.connections_per_source),
        .handshakes = rate_of(&from->rates.handshakes),
        .handshakes_per_source = rate_of(&from->rates.handshakes_per_source),
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
    build_routes(owned, errors, model, from, &options->proxy.routes);
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
