#include "observe/access_log.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/assert.h"
#include "base/compiler.h"
#include "base/mem.h"
#include "base/time.h"

#define BUFFER_ROOM 65536
/* More than all keys, numbers and punctuation of a line. */
#define FIXED_ROOM 1536
#define WORST_ESCAPE 6

struct wr_access_log {
    struct wr_writer *writer; /* NULL: writes nothing */
    struct wr_worker_metrics *metrics;
    char *buffer;
    size_t used;
    size_t room;
    uint64_t lines; /* in the buffer */

    uint64_t second; /* whose text `date` is */
    char date[20];   /* "2026-01-02T03:04:05" */
};

struct wr_access_log *wr_access_log_new(struct wr_writer *writer, struct wr_worker_metrics *metrics)
{
    struct wr_access_log *log = WR_NEW(struct wr_access_log);
    log->writer = writer;
    log->metrics = metrics;
    log->second = WR_NEVER;
    if (writer != NULL) {
        log->room = BUFFER_ROOM;
        log->buffer = wr_new_bytes(log->room);
    }
    return log;
}

void wr_access_log_free(struct wr_access_log *log)
{
    if (log == NULL)
        return;
    wr_access_log_flush(log);
    free(log->buffer);
    free(log);
}

bool wr_access_log_enabled(const struct wr_access_log *log)
{
    return log->writer != NULL;
}

void wr_access_log_flush(struct wr_access_log *log)
{
    if (log->used == 0)
        return;
    if (!wr_writer_put(log->writer, log->buffer, log->used))
        wr_metric_add(&log->metrics->access_log_dropped, log->lines);
    log->used = 0;
    log->lines = 0;
    if (log->room > BUFFER_ROOM) { /* one line was larger than the buffer */
        log->room = BUFFER_ROOM;
        log->buffer = wr_resize(log->buffer, log->room);
    }
}

/* Where the next line goes: room for one with FOREIGN bytes of strings, however they are escaped. */
static char *start_line(struct wr_access_log *log, size_t foreign)
{
    size_t worst = FIXED_ROOM + foreign * WORST_ESCAPE;
    if (worst > log->room - log->used)
        wr_access_log_flush(log);
    if (worst > log->room) {
        log->room = worst;
        log->buffer = wr_resize(log->buffer, log->room);
    }
    return log->buffer + log->used;
}

static void end_line(struct wr_access_log *log, char *at)
{
    *at++ = '}';
    *at++ = '\n';
    log->used = (size_t)(at - log->buffer);
    WR_ASSERT(log->used <= log->room);
    log->lines++;
    if (log->used > BUFFER_ROOM - FIXED_ROOM)
        wr_access_log_flush(log);
}

static char *put_raw(char *at, struct wr_str text)
{
    memcpy(at, text.p, text.n);
    return at + text.n;
}

static char *put_u64(char *at, uint64_t value)
{
    char digits[20];
    char *first = digits + sizeof(digits);
    do {
        *--first = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    return put_raw(at, wr_str(first, (size_t)(digits + sizeof(digits) - first)));
}

/* KEY is `,"name":` */
static char *put_number(char *at, struct wr_str key, uint64_t value)
{
    return put_u64(put_raw(at, key), value);
}

static char *put_duration(char *at, struct wr_str key, uint64_t usec)
{
    return usec == WR_NEVER ? at : put_number(at, key, usec);
}

/* KEY is `,"name":"`; without a value neither is written. */
static char *put_string(char *at, struct wr_str key, struct wr_str value)
{
    if (value.n == 0)
        return at;
    at = put_raw(at, key);
    at += wr_json_escape(value, at);
    *at++ = '"';
    return at;
}

/* The text of a second is made once: lines come many a second. */
static void remember_second(struct wr_access_log *log, uint64_t second)
{
    time_t t = (time_t)second;
    struct tm parts;
    log->second = second;
    if (gmtime_r(&t, &parts) == NULL || strftime(log->date, sizeof(log->date), "%Y-%m-%dT%H:%M:%S",
                                                 &parts) != sizeof(log->date) - 1)
        memcpy(log->date, "1970-01-01T00:00:00", sizeof(log->date));
}

/* The value of "time" and its closing quote. */
static char *put_time(struct wr_access_log *log, char *at, uint64_t wall_usec)
{
    if (wall_usec / WR_SEC != log->second)
        remember_second(log, wall_usec / WR_SEC);
    at = put_raw(at, wr_str(log->date, sizeof(log->date) - 1));
    *at++ = '.';
    uint64_t fraction = wall_usec % WR_SEC;
    for (uint64_t unit = WR_SEC / 10; unit > 0; unit /= 10)
        *at++ = (char)('0' + fraction / unit % 10);
    return put_raw(at, WR_STR("Z\""));
}

static char *put_request(char *at, const struct wr_access_exchange *x)
{
    at = put_string(at, WR_STR(",\"listener\":\""), x->listener);
    at = put_string(at, WR_STR(",\"client\":\""), x->client);
    at = put_string(at, WR_STR(",\"protocol\":\""), x->protocol);
    at = put_string(at, WR_STR(",\"tls\":\""), x->tls);
    at = put_string(at, WR_STR(",\"method\":\""), x->method);
    at = put_string(at, WR_STR(",\"scheme\":\""), x->scheme);
    at = put_string(at, WR_STR(",\"authority\":\""), x->authority);
    at = put_string(at, WR_STR(",\"path\":\""), x->path);
    at = put_string(at, WR_STR(",\"user_agent\":\""), x->user_agent);
    at = put_string(at, WR_STR(",\"referer\":\""), x->referer);
    at = put_string(at, WR_STR(",\"request_id\":\""), x->request_id);
    return put_string(at, WR_STR(",\"forwarded_for\":\""), x->forwarded_for);
}

static char *put_outcome(char *at, const struct wr_access_exchange *x)
{
    at = put_number(at, WR_STR(",\"status\":"), x->status);
    at = put_string(at, WR_STR(",\"tunnel\":\""), x->tunnel);
    at = put_number(at, WR_STR(",\"request_bytes\":"), x->request_bytes);
    at = put_number(at, WR_STR(",\"response_bytes\":"), x->response_bytes);
    at = put_string(at, WR_STR(",\"route\":\""), x->route);
    at = put_string(at, WR_STR(",\"cluster\":\""), x->cluster);
    at = put_string(at, WR_STR(",\"endpoint\":\""), x->endpoint);
    at = put_raw(at, x->upstream_reused ? WR_STR(",\"upstream_reused\":true")
                                        : WR_STR(",\"upstream_reused\":false"));
    at = put_number(at, WR_STR(",\"attempts\":"), x->attempts);
    at = put_duration(at, WR_STR(",\"head_us\":"), x->head_usec);
    at = put_duration(at, WR_STR(",\"upstream_connect_us\":"), x->upstream_connect_usec);
    at = put_duration(at, WR_STR(",\"upstream_head_us\":"), x->upstream_head_usec);
    at = put_duration(at, WR_STR(",\"duration_us\":"), x->duration_usec);
    return put_string(at, WR_STR(",\"ended\":\""), wr_str_from(wr_err_info(x->ended)->label));
}

static size_t foreign_bytes(const struct wr_access_exchange *x)
{
    return x->listener.n + x->client.n + x->protocol.n + x->tls.n + x->method.n + x->scheme.n +
           x->authority.n + x->path.n + x->user_agent.n + x->referer.n + x->request_id.n +
           x->forwarded_for.n + x->tunnel.n + x->route.n + x->cluster.n + x->endpoint.n;
}

void wr_access_log_exchange(struct wr_access_log *log, const struct wr_access_exchange *exchange)
{
    if (log->writer == NULL)
        return;
    char *at = start_line(log, foreign_bytes(exchange));
    at = put_raw(at, WR_STR("{\"type\":\"request\",\"time\":\""));
    at = put_time(log, at, exchange->wall_usec);
    at = put_request(at, exchange);
    at = put_outcome(at, exchange);
    end_line(log, at);
}

static char *put_refusal(char *at, const struct wr_access_refusal *r)
{
    at = put_string(at, WR_STR(",\"listener\":\""), r->listener);
    at = put_string(at, WR_STR(",\"client\":\""), r->client);
    at = put_string(at, WR_STR(",\"reason\":\""), wr_str_from(wr_refusal_label(r->reason)));
    at = put_string(at, WR_STR(",\"cause\":\""), wr_str_from(wr_refusal_cause_label(r->cause)));
    at = put_string(at, WR_STR(",\"detail\":\""), r->detail);
    at = put_string(at, WR_STR(",\"sni\":\""), r->sni);
    return put_duration(at, WR_STR(",\"duration_us\":"), r->duration_usec);
}

void wr_access_log_refusal(struct wr_access_log *log, const struct wr_access_refusal *refusal)
{
    if (log->writer == NULL)
        return;
    char *at = start_line(log, refusal->listener.n + refusal->client.n + refusal->detail.n +
                                   refusal->sni.n);
    at = put_raw(at, WR_STR("{\"type\":\"refused\",\"time\":\""));
    at = put_time(log, at, refusal->wall_usec);
    at = put_refusal(at, refusal);
    end_line(log, at);
}
