/* Routes, and the admission of their requests. */
#include "config/snapshot_internal.h"

/* ---- requests ---- */

struct wr_rate wr_snapshot_rate(const struct wr_model_rate *from)
{
    if (from->per_second == UINT64_MAX)
        return (struct wr_rate){0};
    return (struct wr_rate){.per_second = from->per_second,
                            .burst = from->burst > 0 ? from->burst : from->per_second};
}

bool wr_snapshot_has_critical(const struct wr_model_list *routes, const struct wr_str *cluster)
{
    const struct wr_model_route *all = routes->items;
    for (size_t i = 0; i < routes->count; i++) {
        if (all[i].priority == WR_PRIORITY_CRITICAL &&
            (cluster == NULL || wr_str_eq(all[i].cluster, *cluster)))
            return true;
    }
    return false;
}

/* Slots that only critical requests get are kept where there are such; else they would be nobody's. */
struct wr_requests_options wr_snapshot_requests(struct wr_errors *errors,
                                                const struct wr_model_requests *from,
                                                bool has_critical)
{
    if (from->sheddable_share > from->normal_share)
        wr_errors_add(errors, from->base.mark,
                      "sheddable_share is above normal_share, expected at most %u%%",
                      (unsigned)from->normal_share);
    return (struct wr_requests_options){
        .mode = (enum wr_requests_mode)from->mode,
        .max = from->max == UINT64_MAX ? 0 : wr_snapshot_u32(from->max),
        .max_wait = from->max_wait,
        .max_waiting = wr_snapshot_u32(from->max_waiting),
        .share = {[WR_PRIORITY_CRITICAL] = 100,
                  [WR_PRIORITY_NORMAL] = has_critical ? (uint32_t)from->normal_share : 100,
                  [WR_PRIORITY_SHEDDABLE] = (uint32_t)from->sheddable_share},
    };
}

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

/* "client", "none" or "header:NAME". */
static void build_rate(struct wr_snapshot_owned *owned, struct wr_errors *errors,
                       const struct wr_model_route_rate *from, struct wr_route_rate *rate)
{
    struct wr_str prefix = WR_STR("header:");

    if (!from->base.given)
        return;
    rate->rate = wr_snapshot_rate(
        &(struct wr_model_rate){.per_second = from->per_second, .burst = from->burst});
    if (wr_str_eq(from->key, WR_STR("client"))) {
        rate->key = WR_RATE_CLIENT;
    } else if (wr_str_eq(from->key, WR_STR("none"))) {
        rate->key = WR_RATE_ROUTE;
    } else {
        struct wr_str name = WR_STR_EMPTY;
        if (wr_str_starts(from->key, prefix))
            name = wr_str(from->key.p + prefix.n, from->key.n - prefix.n);
        if (!wr_is_token(name))
            wr_errors_add(errors, from->base.mark,
                          "key is \"%.*s\", expected client, none or header:NAME",
                          WR_STR_ARG(from->key));
        rate->key = WR_RATE_HEADER;
        rate->header = lower_copy(&owned->arena, name);
    }
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
    build_rate(owned, errors, &from->rate, &route->rate);
    route->priority = (enum wr_priority)from->priority;
}

void wr_snapshot_build_routes(struct wr_snapshot_owned *owned, struct wr_errors *errors,
                              const struct wr_model *model,
                              const struct wr_model_listener *listener,
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
