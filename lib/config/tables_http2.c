/* The keys of HTTP/2, of listeners and of clusters. */
#include "base/time.h"
#include "config/tables_rows.h"

/* What clients do at times, and what only floods do: see lib/base/flood.def for the kinds. */
#define BUDGET(at_once, rate)                                                                    \
    {                                                                                            \
        NUMBER(budget, burst, WR_KIND_COUNT, at_once, WR_SCHEMA_INFINITY, 1, 0, "at once"),      \
            NUMBER(budget, per_second, WR_KIND_COUNT, rate, 0, 0, UINT32_MAX, "on the long run") \
    }
#define BUDGET_FIELDS 2
static const struct wr_schema_field client_budget_fields[WR_FLOOD__COUNT][BUDGET_FIELDS] = {
    [WR_FLOOD_RESET] = BUDGET("1000", "33"),   [WR_FLOOD_CONTINUATION] = BUDGET("1000", "200"),
    [WR_FLOOD_PING] = BUDGET("2000", "1000"), /* gRPC measures the path with one a round trip */
    [WR_FLOOD_SETTINGS] = BUDGET("100", "10"), [WR_FLOOD_PRIORITY] = BUDGET("1000", "100"),
    [WR_FLOOD_EMPTY] = BUDGET("200", "50"),    [WR_FLOOD_WINDOW] = BUDGET("1000", "100"),
};
/* Upstreams are no crowd of strangers: these only stop what is broken. One that resets many streams is in trouble, and ending its
 * connection would take the others with it. */
#define UPSTREAM_BUDGET BUDGET("10000", "1000")
static const struct wr_schema_field upstream_budget_fields[WR_FLOOD__COUNT][BUDGET_FIELDS] = {
    [WR_FLOOD_RESET] = BUDGET("infinity", "0"), [WR_FLOOD_CONTINUATION] = UPSTREAM_BUDGET,
    [WR_FLOOD_PING] = UPSTREAM_BUDGET,          [WR_FLOOD_SETTINGS] = UPSTREAM_BUDGET,
    [WR_FLOOD_PRIORITY] = UPSTREAM_BUDGET,      [WR_FLOOD_EMPTY] = UPSTREAM_BUDGET,
    [WR_FLOOD_WINDOW] = UPSTREAM_BUDGET,
};
#define FLOOD(kind_of, word, meaning)                                   \
    [WR_FLOOD_##kind_of] = {.name = "a budget",                         \
                            .fields = WHOSE_FIELDS[WR_FLOOD_##kind_of], \
                            .count = BUDGET_FIELDS,                     \
                            .size = sizeof(struct wr_model_budget)},
#define WHOSE_FIELDS client_budget_fields
static const struct wr_schema_map client_budget_maps[WR_FLOOD__COUNT] = {
#include "base/flood.def"
};
#undef WHOSE_FIELDS
#define WHOSE_FIELDS upstream_budget_fields
static const struct wr_schema_map upstream_budget_maps[WR_FLOOD__COUNT] = {
#include "base/flood.def"
};
#undef FLOOD
#define FLOOD(kind_of, word, meaning)               \
    {.key = (word),                                 \
     .kind = WR_KIND_MAP,                           \
     .offset = AT(budgets, of[WR_FLOOD_##kind_of]), \
     .map = &WHOSE_MAPS[WR_FLOOD_##kind_of],        \
     .help = (meaning)},
#define WHOSE_MAPS client_budget_maps
static const struct wr_schema_field client_budgets_fields[] = {
#include "base/flood.def"
};
#undef WHOSE_MAPS
#define WHOSE_MAPS upstream_budget_maps
static const struct wr_schema_field upstream_budgets_fields[] = {
#include "base/flood.def"
};
#undef FLOOD
#define BUDGETS_MAP(whose_fields)                                                        \
    {                                                                                    \
        .name = "budgets", .fields = (whose_fields), .count = WR_COUNT_OF(whose_fields), \
        .size = sizeof(struct wr_model_budgets)                                          \
    }
static const struct wr_schema_map client_budgets_map = BUDGETS_MAP(client_budgets_fields);
static const struct wr_schema_map upstream_budgets_map = BUDGETS_MAP(upstream_budgets_fields);

#define HTTP2_KEYS(type, streams)                                                                  \
    NUMBER(type, max_concurrent_streams, WR_KIND_COUNT, streams, 0, 1, 100000,                     \
           "requests on one connection at once"),                                                  \
        NUMBER(type, connection_window, WR_KIND_SIZE, "2MiB", 0, 65535, INT32_MAX,                 \
               "content on its way on one connection, at least `limits.buffer`; and what windows " \
               "of its "                                                                           \
               "streams may have grown by, in all"),                                               \
        NUMBER(type, stream_window_max, WR_KIND_SIZE, "1MiB", 0, 0, INT32_MAX,                     \
               "content held of one request or response when it comes fast from far and is taken " \
               "at once; it "                                                                      \
               "begins with `limits.buffer`"),                                                     \
        NUMBER(type, header_table_size, WR_KIND_SIZE, "4KiB", 0, 0, 1u << 20,                      \
               "of HPACK, each direction")

static const struct wr_schema_field listener_http2_fields[] = {
    PLAIN(listener_http2, enabled, WR_KIND_BOOL, "true", 0, "plain: by prior knowledge"),
    HTTP2_KEYS(listener_http2, "128"),
    NESTED(listener_http2, budgets, WR_KIND_MAP, client_budgets_map, 0,
           "of what costs and brings nothing; beyond it the connection ends"),
};
const struct wr_schema_map wr_schema_listener_http2 =
    MAP_OF(listener_http2, "http2", "enabled", false);

static const struct wr_schema_field cluster_http2_fields[] = {
    HTTP2_KEYS(cluster_http2, "100"),
    DURATION(cluster_http2, ping_interval, "15s", WR_MSEC, "silence before a PING"),
    DURATION(cluster_http2, ping_timeout, "5s", WR_MSEC, "for its answer"),
    NESTED(cluster_http2, budgets, WR_KIND_MAP, upstream_budgets_map, 0,
           "of what costs and brings nothing; beyond it the connection ends"),
};
const struct wr_schema_map wr_schema_cluster_http2 = MAP_OF(cluster_http2, "http2", NULL, false);
