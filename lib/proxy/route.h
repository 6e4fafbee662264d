/* Routes: which cluster or which fixed answer a request gets, by host and path prefix. Order as written; the first match
 * wins. Immutable, shared by all workers. */
#ifndef WR_PROXY_ROUTE_H
#define WR_PROXY_ROUTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "admission/rate.h"
#include "admission/requests.h"
#include "base/str.h"
#include "http/head.h"

enum wr_route_action { WR_ROUTE_CLUSTER, WR_ROUTE_RESPOND };

struct wr_respond_options {
    uint16_t status;
    struct wr_str content_type; /* "" = text/plain; charset=utf-8 when there is a body */
    struct wr_str body;
    uint64_t body_size; /* that many bytes of filler instead of BODY; 0: BODY */
};

/* Whose requests are counted together. */
enum wr_rate_key {
    WR_RATE_ROUTE,  /* all of the route */
    WR_RATE_CLIENT, /* of one source: wr_forward_client() */
    WR_RATE_HEADER, /* with one value of a field; those without it are one more */
};

struct wr_route_rate {
    struct wr_rate rate; /* in a worker; more are RATE_LIMITED */
    enum wr_rate_key key;
    struct wr_str header; /* of HEADER, in lower case */
};

struct wr_route {
    const char *name;   /* for logs: as configured, or "#3" */
    struct wr_str host; /* "" = any, "www.example.com", "*.example.com"; lower case; without port */
    struct wr_str
        path; /* "" = any, else a prefix: "/api/" or "/api" (which matches "/api", "/api/x", not "/apix") */
    enum wr_route_action action;
    unsigned cluster; /* index, of WR_ROUTE_CLUSTER */
    struct wr_respond_options respond;
    enum wr_priority priority;
    struct wr_route_rate rate;
    /* Of WR_ROUTE_CLUSTER: what a request may make a tunnel for. */
    const struct wr_str *upgrades; /* protocols, in lower case */
    size_t upgrade_count;
    bool connect; /* CONNECT */
};

struct wr_route_table {
    const struct wr_route *routes;
    size_t count;
};

/* Whether requests of ROUTE may become tunnels for PROTOCOL, in lower case. */
bool wr_route_upgrades(const struct wr_route *route, struct wr_str protocol);

/* The first that matches HEAD (path already normalised), or NULL. */
const struct wr_route *wr_route_find(const struct wr_route_table *table,
                                     const struct wr_head *head);

#endif
