/* The configuration as a person wrote it, with defaults filled in: what the schema table reads into. snapshot.c makes what
 * runs from it. Durations in microseconds, sizes in bytes, UINT64_MAX = infinity. */
#ifndef WR_CONFIG_MODEL_H
#define WR_CONFIG_MODEL_H

#include <stdio.h>

#include "base/flood.h"
#include "config/schema.h"
#include "io/socket.h"

struct wr_model_timeouts {
    struct wr_model_base base;
    uint64_t client_hello;
    uint64_t handshake;
    uint64_t request_header;
    uint64_t keep_alive;
    uint64_t hibernate_after;
    uint64_t inactivity;
    uint64_t request;
    uint64_t tunnel;
    uint64_t linger;
    uint64_t max_connection_age;
    uint64_t drain; /* of the process: only `defaults` has a say */
};

struct wr_model_limits {
    struct wr_model_base base;
    uint64_t request_head;
    uint64_t request_uri;
    uint64_t request_fields;
    uint64_t request_body;
    uint64_t request_rate;
    uint64_t requests_per_connection;
    uint64_t connections;
    uint64_t evict_idle_after;
    uint64_t buffer;
};

struct wr_model_certificate {
    struct wr_model_base base;
    struct wr_str chain;
    struct wr_str key;
};

struct wr_model_tickets {
    struct wr_model_base base;
    bool enabled;
};

struct wr_model_listener_tls {
    struct wr_model_base base;
    struct wr_model_list certificates; /* wr_model_certificate */
    unsigned versions;                 /* bits: tls1.2, tls1.3 */
    struct wr_model_list alpn;         /* wr_str */
    struct wr_model_tickets tickets;
};

struct wr_model_rate {
    struct wr_model_base base;
    uint64_t per_second;
    uint64_t burst; /* 0: a second's worth */
};

struct wr_model_rates {
    struct wr_model_base base;
    struct wr_model_rate connections;
    struct wr_model_rate connections_per_source;
    struct wr_model_rate handshakes;
    struct wr_model_rate handshakes_per_source;
};

struct wr_model_requests {
    struct wr_model_base base;
    int mode; /* enum wr_requests_mode */
    uint64_t max;
    uint64_t max_wait;
    uint64_t max_waiting;
    uint64_t normal_share;
    uint64_t sheddable_share;
};

struct wr_model_route_rate {
    struct wr_model_base base;
    uint64_t per_second;
    uint64_t burst; /* 0: a second's worth */
    struct wr_str key;
};

struct wr_model_admission {
    struct wr_model_base base;
    uint64_t max_pending_handshakes;
    uint64_t max_handshake_delay;
    int mode;
    uint64_t max_silent;
    int refuse_with;
    uint64_t refusal_share;
    int overflow;
    struct wr_model_list trusted; /* wr_cidr */
    uint64_t trusted_reserve;
    uint64_t max_share_per_source;
    uint64_t source_bits_ipv4;
    uint64_t source_bits_ipv6;
    bool newest_first;
    bool resumption_first;
    uint64_t turn_budget;
    uint64_t min_share;
    struct wr_model_list deny;  /* wr_cidr */
    struct wr_model_list allow; /* wr_cidr */
    struct wr_model_rates rates;
};

struct wr_model_budget {
    struct wr_model_base base;
    uint64_t burst;
    uint64_t per_second;
};

struct wr_model_budgets {
    struct wr_model_base base;
    struct wr_model_budget of[WR_FLOOD__COUNT];
};

struct wr_model_listener_http2 {
    struct wr_model_base base;
    bool enabled;
    uint64_t max_concurrent_streams;
    uint64_t connection_window;
    uint64_t stream_window_max;
    uint64_t header_table_size;
    struct wr_model_budgets budgets;
};

struct wr_model_forwarded {
    struct wr_model_base base;
    struct wr_model_list trust; /* wr_cidr */
};

struct wr_model_match {
    struct wr_model_base base;
    struct wr_str host;
    struct wr_str path;
};

struct wr_model_respond {
    struct wr_model_base base;
    uint64_t status;
    struct wr_str content_type;
    struct wr_str body;
    uint64_t body_size;
};

struct wr_model_route {
    struct wr_model_base base;
    struct wr_str name;
    struct wr_model_match match;
    struct wr_str cluster;
    struct wr_model_respond respond;
    struct wr_model_list upgrade; /* wr_str; items NULL: left out */
    bool connect;
    int priority; /* enum wr_priority */
    struct wr_model_route_rate rate;
};

struct wr_model_listener {
    struct wr_model_base base;
    struct wr_str name;
    struct wr_address bind;
    uint64_t backlog;
    struct wr_model_listener_tls tls;
    struct wr_model_admission admission;
    struct wr_model_requests requests;
    struct wr_model_listener_http2 http2;
    struct wr_model_timeouts timeouts;
    struct wr_model_limits limits;
    struct wr_model_forwarded forwarded;
    int path; /* enum wr_path_policy */
    bool underscores;
    struct wr_model_list routes; /* wr_model_route */
};

struct wr_model_endpoint {
    struct wr_model_base base;
    struct wr_str address; /* host:port, or a host with `port` */
    uint64_t port;
};

struct wr_model_cluster_tls {
    struct wr_model_base base;
    bool verify;
    struct wr_str ca;
    struct wr_str sni;
    struct wr_str certificate;
    struct wr_str key;
};

struct wr_model_cluster_http2 {
    struct wr_model_base base;
    uint64_t max_concurrent_streams;
    uint64_t connection_window;
    uint64_t stream_window_max;
    uint64_t header_table_size;
    uint64_t ping_interval;
    uint64_t ping_timeout;
    struct wr_model_budgets budgets;
};

struct wr_model_cluster_timeouts {
    struct wr_model_base base;
    uint64_t connect;
    uint64_t response;
    uint64_t keep_alive;
    uint64_t hibernate_after;
    uint64_t max_connection_age;
};

struct wr_model_pool {
    struct wr_model_base base;
    uint64_t max_connections;
    uint64_t max_connections_per_endpoint;
    uint64_t max_idle;
    uint64_t max_pending;
    uint64_t requests_per_connection;
};

enum wr_model_retry_on { WR_RETRY_ON_CONNECT = 1u << 0, WR_RETRY_ON_REUSED = 1u << 1 };

struct wr_model_retry {
    struct wr_model_base base;
    unsigned on; /* enum wr_model_retry_on */
    uint64_t budget;
};

struct wr_model_cluster {
    struct wr_model_base base;
    struct wr_str name;
    struct wr_model_list endpoints; /* wr_model_endpoint */
    int policy;
    int protocol; /* enum wr_cluster_protocol */
    struct wr_model_cluster_http2 http2;
    struct wr_model_cluster_tls tls;
    struct wr_model_cluster_timeouts timeouts;
    struct wr_model_pool pool;
    struct wr_model_requests requests;
    struct wr_model_retry retry;
};

struct wr_model_admin {
    struct wr_model_base base;
    struct wr_address bind;
};

struct wr_model_access_log {
    struct wr_model_base base;
    struct wr_str to;
    int format;
};

struct wr_model_defaults {
    struct wr_model_base base;
    struct wr_model_timeouts timeouts;
    struct wr_model_limits limits;
};

enum wr_model_signers { WR_SIGNERS_AUTO, WR_SIGNERS_OFF };

struct wr_model {
    struct wr_model_base base;
    struct wr_str workers; /* "auto" or a number */
    uint64_t signers;      /* or WR_COUNT_WORD() of enum wr_model_signers */
    uint64_t buffer_shrink_after;
    uint64_t memory_limit; /* or WR_COUNT_WORD(0): auto */
    struct wr_model_defaults defaults;
    struct wr_model_admin admin;
    struct wr_model_access_log access_log;
    struct wr_model_list listeners; /* wr_model_listener */
    struct wr_model_list clusters;  /* wr_model_cluster */
};

extern const struct wr_schema_map wr_schema_root;
extern const struct wr_schema_map wr_schema_timeouts;
extern const struct wr_schema_map wr_schema_limits;

/* ROOT into MODEL, in the order of the table, not of the file; errors are noted. */
void wr_model_read(struct wr_arena *arena, struct wr_errors *errors,
                   const struct wr_yaml_node *root, struct wr_model *model);
/* As YAML that is read as the same. */
void wr_model_dump(const struct wr_model *model, FILE *out);

#endif
