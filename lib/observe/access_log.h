/* The access log: one JSON line an exchange, one a connection that was not served. Everything that came from outside is
 * escaped: a line is always one line of valid JSON in UTF-8 (behaviour row 61). No secret is among the fields.
 * Lines are gathered a worker and handed to a writer thread; an event loop never waits. */
#ifndef WR_OBSERVE_ACCESS_LOG_H
#define WR_OBSERVE_ACCESS_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/refusal.h"
#include "base/str.h"
#include "observe/metrics.h"
#include "observe/writer.h"

/* One exchange that has ended. Slices are borrowed for the call. Durations in microseconds, WR_NEVER = did not happen. */
struct wr_access_exchange {
    uint64_t wall_usec; /* when the request began */
    struct wr_str listener;
    struct wr_str client;   /* address:port */
    struct wr_str protocol; /* "HTTP/1.1" */
    struct wr_str tls;      /* "TLSv1.3" or "" */
    struct wr_str method;
    struct wr_str scheme;
    struct wr_str authority;
    struct wr_str path; /* with query */
    struct wr_str user_agent;
    struct wr_str referer;
    struct wr_str request_id;
    struct wr_str forwarded_for; /* as sent upstream */
    struct wr_str tunnel;    /* what the exchange became: "websocket", "connect"; "" = no tunnel */
    unsigned status;         /* 0 = no response */
    uint64_t request_bytes;  /* content */
    uint64_t response_bytes; /* content */
    struct wr_str route;
    struct wr_str cluster;
    struct wr_str endpoint;
    bool upstream_reused;
    unsigned attempts;
    uint64_t head_usec;             /* first byte to complete request head */
    uint64_t upstream_connect_usec; /* asked for a connection to having one */
    uint64_t upstream_head_usec;    /* request handed over to response head */
    uint64_t duration_usec;         /* first byte to end */
    enum wr_err ended;              /* WR_OK: both messages whole */
};

struct wr_access_refusal {
    uint64_t wall_usec;
    struct wr_str listener;
    struct wr_str client;
    enum wr_refusal reason;
    enum wr_refusal_cause cause;
    struct wr_str detail;   /* e.g. the TLS alert or error, "" = none */
    struct wr_str sni;      /* "" = not known */
    uint64_t duration_usec; /* accept to refusal */
};

/* One a worker, used by its thread only. */
struct wr_access_log;

/* WRITER is shared and outlives the log; NULL makes a log that writes nothing. METRICS counts drops. Owner: the caller. */
struct wr_access_log *wr_access_log_new(struct wr_writer *writer,
                                        struct wr_worker_metrics *metrics);
void wr_access_log_free(struct wr_access_log *log);

bool wr_access_log_enabled(const struct wr_access_log *log);
void wr_access_log_exchange(struct wr_access_log *log, const struct wr_access_exchange *exchange);
void wr_access_log_refusal(struct wr_access_log *log, const struct wr_access_refusal *refusal);

/* Hands what is gathered to the writer. The worker calls it when its buffer is old (about every 100 ms) and at the end. */
void wr_access_log_flush(struct wr_access_log *log);

/* Appends S to OUT as the inside of a JSON string; returns the bytes written, at most 6 for each byte of S (OUT must have
 * room). Bytes that are not UTF-8 become U+FFFD. */
size_t wr_json_escape(struct wr_str s, char *out);

#endif
