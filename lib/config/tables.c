/* The table of every key. */
#include "base/time.h"
#include "config/tables_rows.h"

static const char *const version_words[] = {"tls1.2", "tls1.3", NULL};
static const char *const mode_words[] = {"fixed", "adaptive", NULL};
static const char *const refuse_words[] = {"reset", "close", "alert", NULL};
static const char *const overflow_words[] = {"queue", "reset", NULL};
static const char *const path_words[] = {"strict", "merge_slashes", "raw", NULL};
static const char *const policy_words[] = {"round_robin", NULL};
static const char *const protocol_words[] = {"auto", "http1", "http2", NULL};
static const char *const retry_words[] = {"connect", "reused", NULL};
static const char *const priority_words[] = {"critical", "normal", "sheddable", NULL};
static const char *const format_words[] = {"json", NULL};

static const struct wr_schema_field timeouts_fields[] = {
    DURATION(timeouts, client_hello, "5s", WR_MSEC, "accept to a whole ClientHello"),
    DURATION(timeouts, handshake, "10s", WR_MSEC, "accept to the finished handshake"),
    DURATION(timeouts, request_header, "10s", WR_MSEC, "first byte of a request head to its end"),
    DURATION(timeouts, keep_alive, "60s", WR_MSEC, "between requests"),
    DURATION(timeouts, hibernate_after, "15s", WR_MSEC,
             "between requests, until memory is given back"),
    DURATION(timeouts, inactivity, "60s", WR_MSEC, "a request without progress either way"),
    DURATION(timeouts, request, "infinity", WR_MSEC,
             "a request in all, or until it becomes a tunnel"),
    DURATION(timeouts, tunnel, "1h", WR_MSEC, "a tunnel without a byte either way"),
    NUMBER(timeouts, linger, WR_KIND_DURATION, "5s", 0, 0, 3600 * WR_SEC,
           "our end of a connection to the client's"),
    DURATION(timeouts, max_connection_age, "infinity", WR_MSEC,
             "then the connection ends after its request"),
    DURATION(timeouts, drain, "30s", 0, "SIGTERM to the end; only under defaults"),
};
const struct wr_schema_map wr_schema_timeouts = MAP_OF(timeouts, "timeouts", NULL, false);

static const struct wr_schema_field limits_fields[] = {
    NUMBER(limits, request_head, WR_KIND_SIZE, "64KiB", 0, 256, 16u << 20,
           "request line and fields; more is 431"),
    NUMBER(limits, request_uri, WR_KIND_SIZE, "16KiB", 0, 64, 16u << 20,
           "request target; more is 414"),
    NUMBER(limits, request_fields, WR_KIND_COUNT, "100", 0, 1, 10000, "fields; more is 431"),
    NUMBER(limits, request_body, WR_KIND_SIZE, "infinity", WR_SCHEMA_INFINITY, 0, 0,
           "request content; more is 413"),
    NUMBER(limits, request_rate, WR_KIND_SIZE, NULL, 0, 0, 1u << 30,
           "bytes a second of content a client owes, after 5s; slower is 408; 0: none"),
    NUMBER(limits, requests_per_connection, WR_KIND_COUNT, "infinity", WR_SCHEMA_INFINITY, 1, 0,
           "then the connection is closed"),
    NUMBER(limits, connections, WR_KIND_COUNT, "100000", 0, 1, 10000000,
           "client connections of a worker; more are refused"),
    DURATION(
        limits, evict_idle_after, "1s", WR_MSEC,
        "at the limit of connections, descriptors or memory, those idle for longest make room"),
    NUMBER(limits, buffer, WR_KIND_SIZE, "64KiB", 0, 4096, 1u << 30,
           "content held a message and direction"),
};
const struct wr_schema_map wr_schema_limits = MAP_OF(limits, "limits", NULL, false);

static const struct wr_schema_field certificate_fields[] = {
    PLAIN(certificate, chain, WR_KIND_STRING, NULL, WR_SCHEMA_REQUIRED | WR_SCHEMA_NOT_EMPTY,
          "PEM file, leaf first"),
    PLAIN(certificate, key, WR_KIND_STRING, NULL, WR_SCHEMA_REQUIRED | WR_SCHEMA_NOT_EMPTY,
          "PEM file of the private key"),
};
static const struct wr_schema_map certificate_map =
    MAP_OF(certificate, "a certificate", NULL, false);

static const struct wr_schema_field tickets_fields[] = {
    PLAIN(tickets, enabled, WR_KIND_BOOL, "true", 0, "sessions are resumed by tickets"),
};
static const struct wr_schema_map tickets_map = MAP_OF(tickets, "tickets", "enabled", false);

static const struct wr_schema_field listener_tls_fields[] = {
    NESTED(listener_tls, certificates, WR_KIND_MAP_LIST, certificate_map,
           WR_SCHEMA_REQUIRED | WR_SCHEMA_NOT_EMPTY, "chosen by SNI; the first is the default"),
    WORDS(listener_tls, versions, WR_KIND_ENUM_SET, version_words, "tls1.2, tls1.3",
          "protocol versions"),
    PLAIN(listener_tls, alpn, WR_KIND_STRING_LIST, NULL, WR_SCHEMA_NOT_EMPTY,
          "protocols offered, best first: h2, http/1.1"),
    NESTED(listener_tls, tickets, WR_KIND_MAP, tickets_map, 0, "session tickets"),
};
static const struct wr_schema_map listener_tls_map = MAP_OF(listener_tls, "tls", NULL, true);

static const struct wr_schema_field rate_fields[] = {
    NUMBER(rate, per_second, WR_KIND_COUNT, "infinity", WR_SCHEMA_INFINITY, 1, 1000000,
           "on the long run, in a worker"),
    NUMBER(rate, burst, WR_KIND_COUNT, NULL, 0, 1, UINT32_MAX, "at once; a second's worth"),
};
static const struct wr_schema_map rate_map = MAP_OF(rate, "a rate", "per_second", false);

static const struct wr_schema_field rates_fields[] = {
    NESTED(rates, connections, WR_KIND_MAP, rate_map, 0, "of the listener"),
    NESTED(rates, connections_per_source, WR_KIND_MAP, rate_map, 0, "of one source"),
    NESTED(rates, handshakes, WR_KIND_MAP, rate_map, 0, "of the listener"),
    NESTED(rates, handshakes_per_source, WR_KIND_MAP, rate_map, 0, "of one source"),
};
static const struct wr_schema_map rates_map = MAP_OF(rates, "rates", NULL, false);

static const struct wr_schema_field admission_fields[] = {
    NUMBER(admission, max_pending_handshakes, WR_KIND_COUNT, "1000", WR_SCHEMA_INFINITY, 0,
           UINT32_MAX - 1, "handshakes pending in a worker; 0 refuses all"),
    DURATION(admission, max_handshake_delay, "100ms", WR_MSEC,
             "wait of a handshake for its turn; above it the oldest are refused"),
    WORDS(admission, mode, WR_KIND_ENUM, mode_words, "fixed",
          "adaptive: the limit follows the wait, max_pending_handshakes is its ceiling"),
    NUMBER(admission, max_silent, WR_KIND_COUNT, "20000", WR_SCHEMA_INFINITY, 1, UINT32_MAX - 1,
           "connections of a worker without a byte; the oldest go"),
    WORDS(admission, refuse_with, WR_KIND_ENUM, refuse_words, "reset",
          "how a client is turned away"),
    NUMBER(admission, refusal_share, WR_KIND_PERCENT, "100%", 0, 1, 100,
           "of the time, for refusing, while handshakes wait; 100%: no limit"),
    WORDS(admission, overflow, WR_KIND_ENUM, overflow_words, "queue",
          "beyond it: wait in the kernel's queue; or the kernel refuses all, uncounted"),
    PLAIN(admission, trusted, WR_KIND_CIDR_LIST, NULL, 0,
          "peers that go first and have slots of their own"),
    NUMBER(admission, trusted_reserve, WR_KIND_COUNT, "10", 0, 0, UINT32_MAX - 1,
           "slots for trusted peers, at most half of all; 0: none"),
    NUMBER(admission, max_share_per_source, WR_KIND_PERCENT, "25%", 0, 1, 100,
           "of the slots, for one source, when half of them are taken; 100%: no limit"),
    NUMBER(admission, source_bits_ipv4, WR_KIND_COUNT, "32", 0, 1, 32,
           "leading bits of an address that make a source"),
    NUMBER(admission, source_bits_ipv6, WR_KIND_COUNT, "64", 0, 1, 64, "likewise"),
    PLAIN(admission, newest_first, WR_KIND_BOOL, "true", 0, "once the delay is exceeded"),
    PLAIN(admission, resumption_first, WR_KIND_BOOL, "true", 0, "before full handshakes"),
    NUMBER(admission, turn_budget, WR_KIND_DURATION, "200us", WR_SCHEMA_INFINITY, 0, 0,
           "handshake work in a turn of the loop"),
    NUMBER(admission, min_share, WR_KIND_PERCENT, "20%", 0, 0, 90,
           "of the time, for handshakes, beside requests without end"),
    PLAIN(admission, deny, WR_KIND_CIDR_LIST, NULL, 0, "peers that are turned away"),
    PLAIN(admission, allow, WR_KIND_CIDR_LIST, NULL, 0, "when given, no others come in"),
    NESTED(admission, rates, WR_KIND_MAP, rates_map, 0, "beyond them: rate_limited"),
};
static const struct wr_schema_map admission_map = MAP_OF(admission, "admission", NULL, false);

static const struct wr_schema_field requests_fields[] = {
    NUMBER(requests, max, WR_KIND_COUNT, "infinity", WR_SCHEMA_INFINITY, 1, UINT32_MAX - 1,
           "in flight, in a worker; more wait, or are answered 503"),
    WORDS(requests, mode, WR_KIND_ENUM, mode_words, "fixed",
          "adaptive: the limit follows the latency, max is its ceiling"),
    NUMBER(requests, max_wait, WR_KIND_DURATION, "1s", 0, 0, 3600 * WR_SEC,
           "for a turn; then 503; 0: nobody waits"),
    NUMBER(requests, max_waiting, WR_KIND_COUNT, "1024", 0, 0, UINT32_MAX - 1,
           "in a worker; who is of the lowest priority gives way"),
    NUMBER(requests, normal_share, WR_KIND_PERCENT, "90%", 0, 1, 100,
           "of max, for normal requests, where there are critical ones"),
    NUMBER(requests, sheddable_share, WR_KIND_PERCENT, "70%", 0, 1, 100,
           "of max, for sheddable requests"),
};
static const struct wr_schema_map requests_map = MAP_OF(requests, "requests", "max", false);

static const struct wr_schema_field route_rate_fields[] = {
    NUMBER(route_rate, per_second, WR_KIND_COUNT, NULL, WR_SCHEMA_REQUIRED, 1, 1000000,
           "on the long run, in a worker; more is 429"),
    NUMBER(route_rate, burst, WR_KIND_COUNT, NULL, 0, 1, UINT32_MAX, "at once; a second's worth"),
    PLAIN(route_rate, key, WR_KIND_STRING, "client", WR_SCHEMA_NOT_EMPTY,
          "whose requests count together: client, header:NAME, none (all)"),
};
static const struct wr_schema_map route_rate_map =
    MAP_OF(route_rate, "a route's rate", "per_second", true);

static const struct wr_schema_field forwarded_fields[] = {
    PLAIN(forwarded, trust, WR_KIND_CIDR_LIST, NULL, 0,
          "peers whose X-Forwarded-* and X-Request-Id are believed"),
};
static const struct wr_schema_map forwarded_map = MAP_OF(forwarded, "forwarded", NULL, false);

static const struct wr_schema_field match_fields[] = {
    PLAIN(match, host, WR_KIND_STRING, NULL, WR_SCHEMA_NOT_EMPTY, "www.example.com, *.example.com"),
    PLAIN(match, path, WR_KIND_STRING, NULL, WR_SCHEMA_NOT_EMPTY, "a prefix: /api/"),
};
static const struct wr_schema_map match_map = MAP_OF(match, "match", NULL, false);

static const struct wr_schema_field respond_fields[] = {
    NUMBER(respond, status, WR_KIND_COUNT, "200", 0, 200, 599, "of the answer"),
    PLAIN(respond, content_type, WR_KIND_STRING, NULL, 0, "media type of the body"),
    PLAIN(respond, body, WR_KIND_STRING, NULL, 0, "text of the answer"),
    NUMBER(respond, body_size, WR_KIND_SIZE, NULL, 0, 0, 0, "that many bytes of filler"),
};
static const struct wr_schema_map respond_map = MAP_OF(respond, "respond", NULL, false);

static const struct wr_schema_field route_fields[] = {
    PLAIN(route, name, WR_KIND_STRING, NULL, 0, "for logs"),
    NESTED(route, match, WR_KIND_MAP, match_map, WR_SCHEMA_OPTIONAL,
           "all of it must match; nothing matches all"),
    PLAIN(route, cluster, WR_KIND_STRING, NULL, WR_SCHEMA_NOT_EMPTY, "where requests go"),
    NESTED(route, respond, WR_KIND_MAP, respond_map, WR_SCHEMA_OPTIONAL, "a fixed answer instead"),
    PLAIN(route, upgrade, WR_KIND_STRING_LIST, NULL, 0,
          "protocols a request may change to; websocket when left out"),
    PLAIN(route, connect, WR_KIND_BOOL, "false", 0, "CONNECT makes a tunnel to the cluster"),
    WORDS(route, priority, WR_KIND_ENUM, priority_words, "normal", "who goes first, who is shed"),
    NESTED(route, rate, WR_KIND_MAP, route_rate_map, 0, "of requests; off when left out"),
};
static const struct wr_schema_map route_map = MAP_OF(route, "a route", NULL, false);

static const struct wr_schema_field listener_fields[] = {
    PLAIN(listener, name, WR_KIND_STRING, NULL, WR_SCHEMA_NOT_EMPTY,
          "for logs and metrics; the address when left out"),
    PLAIN(listener, bind, WR_KIND_ADDRESS, NULL, WR_SCHEMA_REQUIRED, "where to listen"),
    NUMBER(listener, backlog, WR_KIND_COUNT, "1024", 0, 1, 1u << 20, "of the kernel's queue"),
    NESTED(listener, tls, WR_KIND_MAP, listener_tls_map, 0, "off when left out"),
    NESTED(listener, admission, WR_KIND_MAP, admission_map, 0, "limits on handshakes"),
    NESTED(listener, requests, WR_KIND_MAP, requests_map, 0, "limits on requests in flight"),
    NESTED(listener, http2, WR_KIND_MAP, wr_schema_listener_http2, 0,
           "limits and budgets of HTTP/2"),
    NESTED(listener, timeouts, WR_KIND_MAP, wr_schema_timeouts, 0, "over defaults"),
    NESTED(listener, limits, WR_KIND_MAP, wr_schema_limits, 0, "over defaults"),
    NESTED(listener, forwarded, WR_KIND_MAP, forwarded_map, 0, "trust in forwarding fields"),
    WORDS(listener, path, WR_KIND_ENUM, path_words, "strict", "what becomes of paths"),
    PLAIN(listener, underscores, WR_KIND_BOOL, "false", 0, "pass field names with underscore"),
    NESTED(listener, routes, WR_KIND_MAP_LIST, route_map, WR_SCHEMA_REQUIRED | WR_SCHEMA_NOT_EMPTY,
           "the first that matches"),
};
static const struct wr_schema_map listener_map = MAP_OF(listener, "a listener", NULL, false);

static const struct wr_schema_field endpoint_fields[] = {
    PLAIN(endpoint, address, WR_KIND_STRING, NULL, WR_SCHEMA_REQUIRED | WR_SCHEMA_NOT_EMPTY,
          "host:port, [::1]:port, unix:/path, or a host with port"),
    NUMBER(endpoint, port, WR_KIND_COUNT, NULL, 0, 1, 65535, "when address has none"),
};
static const struct wr_schema_map endpoint_map = MAP_OF(endpoint, "an endpoint", "address", false);

static const struct wr_schema_field cluster_tls_fields[] = {
    PLAIN(cluster_tls, verify, WR_KIND_BOOL, "true", 0, "check chain and name"),
    PLAIN(cluster_tls, ca, WR_KIND_STRING, "system", WR_SCHEMA_NOT_EMPTY, "PEM bundle, or system"),
    PLAIN(cluster_tls, sni, WR_KIND_STRING, "auto", 0, "name sent and checked; auto: the host"),
    PLAIN(cluster_tls, certificate, WR_KIND_STRING, NULL, 0, "client certificate, PEM"),
    PLAIN(cluster_tls, key, WR_KIND_STRING, NULL, 0, "its private key, PEM"),
};
static const struct wr_schema_map cluster_tls_map = MAP_OF(cluster_tls, "tls", NULL, true);

static const struct wr_schema_field cluster_timeouts_fields[] = {
    DURATION(cluster_timeouts, connect, "2s", WR_MSEC, "TCP and TLS together"),
    DURATION(cluster_timeouts, response, "60s", WR_MSEC, "request sent to response head"),
    DURATION(cluster_timeouts, keep_alive, "30s", 0, "idle in the pool"),
    DURATION(cluster_timeouts, hibernate_after, "15s", WR_MSEC,
             "idle in the pool, until memory is given back"),
    DURATION(cluster_timeouts, max_connection_age, "infinity", WR_MSEC, "then not reused"),
};
static const struct wr_schema_map cluster_timeouts_map =
    MAP_OF(cluster_timeouts, "timeouts", NULL, false);

static const struct wr_schema_field pool_fields[] = {
    NUMBER(pool, max_connections, WR_KIND_COUNT, "512", WR_SCHEMA_INFINITY, 1, UINT32_MAX - 1,
           "of a worker"),
    NUMBER(pool, max_connections_per_endpoint, WR_KIND_COUNT, "infinity", WR_SCHEMA_INFINITY, 1,
           UINT32_MAX - 1, "of a worker, to one endpoint"),
    NUMBER(pool, max_idle, WR_KIND_COUNT, "128", WR_SCHEMA_INFINITY, 0, UINT32_MAX - 1,
           "of a worker; the least recently used go"),
    NUMBER(pool, max_pending, WR_KIND_COUNT, "1024", WR_SCHEMA_INFINITY, 0, UINT32_MAX - 1,
           "requests of a worker that wait for a connection"),
    NUMBER(pool, requests_per_connection, WR_KIND_COUNT, "infinity", WR_SCHEMA_INFINITY, 1, 0,
           "then not reused"),
};
static const struct wr_schema_map pool_map = MAP_OF(pool, "pool", NULL, false);

static const struct wr_schema_field retry_fields[] = {
    WORDS(retry, on, WR_KIND_ENUM_SET, retry_words, "connect, reused", "what is tried once more"),
    NUMBER(retry, budget, WR_KIND_PERCENT, "20%", 0, 0, 100, "retries a hundred requests"),
};
static const struct wr_schema_map retry_map = MAP_OF(retry, "retry", NULL, false);

static const struct wr_schema_field cluster_fields[] = {
    PLAIN(cluster, name, WR_KIND_STRING, NULL, WR_SCHEMA_REQUIRED | WR_SCHEMA_NOT_EMPTY,
          "what routes call it"),
    NESTED(cluster, endpoints, WR_KIND_MAP_LIST, endpoint_map,
           WR_SCHEMA_REQUIRED | WR_SCHEMA_NOT_EMPTY, "who serves it"),
    WORDS(cluster, policy, WR_KIND_ENUM, policy_words, "round_robin", "how one is picked"),
    WORDS(cluster, protocol, WR_KIND_ENUM, protocol_words, "auto",
          "spoken to endpoints; auto: by ALPN, http1 without TLS"),
    NESTED(cluster, http2, WR_KIND_MAP, wr_schema_cluster_http2, 0, "of its connections"),
    NESTED(cluster, tls, WR_KIND_MAP, cluster_tls_map, 0, "off when left out"),
    NESTED(cluster, timeouts, WR_KIND_MAP, cluster_timeouts_map, 0, "of connections"),
    NESTED(cluster, pool, WR_KIND_MAP, pool_map, 0, "keep-alive connections"),
    NESTED(cluster, requests, WR_KIND_MAP, requests_map, 0, "limits on requests in flight"),
    NESTED(cluster, retry, WR_KIND_MAP, retry_map, 0, "what is safe to send again"),
};
static const struct wr_schema_map cluster_map = MAP_OF(cluster, "a cluster", NULL, false);

static const struct wr_schema_field admin_fields[] = {
    PLAIN(admin, bind, WR_KIND_ADDRESS, NULL, WR_SCHEMA_REQUIRED, "loopback or unix only"),
};
static const struct wr_schema_map admin_map = MAP_OF(admin, "admin", "bind", true);

static const struct wr_schema_field access_log_fields[] = {
    PLAIN(access_log, to, WR_KIND_STRING, "stdout", WR_SCHEMA_NOT_EMPTY,
          "stdout, stderr or a path"),
    WORDS(access_log, format, WR_KIND_ENUM, format_words, "json", "of its lines"),
};
static const struct wr_schema_map access_log_map = MAP_OF(access_log, "access_log", "to", true);

static const struct wr_schema_field defaults_fields[] = {
    NESTED(defaults, timeouts, WR_KIND_MAP, wr_schema_timeouts, 0, "of listeners"),
    NESTED(defaults, limits, WR_KIND_MAP, wr_schema_limits, 0, "of listeners"),
};
static const struct wr_schema_map defaults_map = MAP_OF(defaults, "defaults", NULL, false);

#define ROOT(k) offsetof(struct wr_model, k)

static const char *const signers_words[] = {"auto", "off", NULL}; /* enum wr_model_signers */
static const char *const memory_words[] = {"auto", NULL};

static const struct wr_schema_field root_fields[] = {
    {.key = "workers",
     .kind = WR_KIND_STRING,
     .offset = ROOT(workers),
     .fallback = "auto",
     .help = "a number, or auto: one a core this process may use"},
    {.key = "signers",
     .kind = WR_KIND_COUNT,
     .offset = ROOT(signers),
     .fallback = "auto",
     .min = 1,
     .max = 256,
     .words = signers_words,
     .help = "threads for all private keys; auto: for RSA ones, when cores are left by workers"},
    {.key = "buffer_shrink_after",
     .kind = WR_KIND_DURATION,
     .offset = ROOT(buffer_shrink_after),
     .flags = WR_SCHEMA_INFINITY,
     .fallback = "10s",
     .help = "buffers nobody has needed for so long since the last growth go back; 0: at once"},
    {.key = "memory_limit",
     .kind = WR_KIND_SIZE,
     .offset = ROOT(memory_limit),
     .flags = WR_SCHEMA_INFINITY,
     .fallback = "auto",
     .min = 1u << 20,
     .words = memory_words,
     .help = "resident memory above which idle connections end; auto: nine tenths of the control "
             "group's"},
    {.key = "admin",
     .kind = WR_KIND_MAP,
     .offset = ROOT(admin),
     .map = &admin_map,
     .help = "metrics and health"},
    {.key = "access_log",
     .kind = WR_KIND_MAP,
     .offset = ROOT(access_log),
     .map = &access_log_map,
     .help = "one line a request; off when left out"},
    {.key = "defaults",
     .kind = WR_KIND_MAP,
     .offset = ROOT(defaults),
     .map = &defaults_map,
     .help = "any listener may override"},
    {.key = "clusters",
     .kind = WR_KIND_MAP_LIST,
     .offset = ROOT(clusters),
     .map = &cluster_map,
     .help = "where requests go"},
    {.key = "listeners",
     .kind = WR_KIND_MAP_LIST,
     .offset = ROOT(listeners),
     .flags = WR_SCHEMA_REQUIRED | WR_SCHEMA_NOT_EMPTY,
     .map = &listener_map,
     .help = "where clients come in"},
};
const struct wr_schema_map wr_schema_root = {
    .name = "the configuration",
    .fields = root_fields,
    .count = WR_COUNT_OF(root_fields),
    .size = sizeof(struct wr_model),
};

void wr_model_read(struct wr_arena *arena, struct wr_errors *errors,
                   const struct wr_yaml_node *root, struct wr_model *model)
{
    struct wr_schema_reader reader = {.arena = arena, .errors = errors};

    wr_schema_defaults(&reader, &wr_schema_root, model);
    /* The table has `defaults` before `listeners`, and keys are read in its order: listeners start from what was written. */
    wr_schema_template(&reader, &wr_schema_timeouts, &model->defaults.timeouts);
    wr_schema_template(&reader, &wr_schema_limits, &model->defaults.limits);
    wr_schema_read(&reader, &wr_schema_root, root, model);
}
