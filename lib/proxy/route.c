#include "proxy/route.h"

static struct wr_str without_query(struct wr_str path)
{
    const char *query = path.n > 0 ? memchr(path.p, '?', path.n) : NULL;
    return query != NULL ? wr_str(path.p, (size_t)(query - path.p)) : path;
}

/* "example.com." is the same name as "example.com". */
static struct wr_str without_root_dot(struct wr_str host)
{
    if (host.n > 1 && host.p[host.n - 1] == '.')
        host.n--;
    return host;
}

/* HOST may be in any case; PATTERN is in lower case. */
static bool host_matches(struct wr_str pattern, struct wr_str host)
{
    if (pattern.n == 0)
        return true;
    if (!wr_str_starts(pattern, WR_STR("*.")))
        return wr_str_eq_nocase(pattern, host);
    struct wr_str suffix = wr_str(pattern.p + 1, pattern.n - 1);
    return host.n > suffix.n &&
           wr_str_eq_nocase(suffix, wr_str(host.p + host.n - suffix.n, suffix.n));
}

/* A prefix ends where a segment ends: "/api" is not a prefix of "/apix". */
static bool path_matches(struct wr_str prefix, struct wr_str path)
{
    if (prefix.n == 0 || wr_str_eq(prefix, WR_STR("/")))
        return true; /* "*" of OPTIONS too */
    if (!wr_str_starts(path, prefix))
        return false;
    return prefix.p[prefix.n - 1] == '/' || path.n == prefix.n || path.p[prefix.n] == '/';
}

bool wr_route_upgrades(const struct wr_route *route, struct wr_str protocol)
{
    for (size_t i = 0; i < route->upgrade_count; i++) {
        if (wr_str_eq(route->upgrades[i], protocol))
            return true;
    }
    return false;
}

const struct wr_route *wr_route_find(const struct wr_route_table *table, const struct wr_head *head)
{
    struct wr_str host = without_root_dot(wr_authority_host(head->authority));
    struct wr_str path = without_query(head->path);
    for (size_t i = 0; i < table->count; i++) {
        const struct wr_route *route = &table->routes[i];
        if (host_matches(route->host, host) && path_matches(route->path, path))
            return route;
    }
    return NULL;
}
