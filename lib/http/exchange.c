#include "http/exchange.h"

#include <stdalign.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/mem.h"

#define SPARE_EXCHANGES 64
#define RATE_GRACE (5 * WR_SEC) /* content may come this much later than its rate says */
#define FIRST_PART 4096 /* bytes of the arena: a request and its response seldom need more */

/* An exchange and the first part of its arena, in one piece of memory. */
struct whole {
    struct wr_exchange exchange;
    alignas(max_align_t) char arena[FIRST_PART];
};

static void free_whole(struct wr_exchange *exchange)
{
    free(WR_CONTAINER_OF(exchange, struct whole, exchange));
}

/* The arena goes on in blocks of its own when this is used up, and frees only those. */
static void start_arena(struct wr_exchange *exchange)
{
    struct whole *whole = WR_CONTAINER_OF(exchange, struct whole, exchange);
    wr_arena_init(&exchange->arena);
    exchange->arena.at = whole->arena;
    exchange->arena.end = whole->arena + FIRST_PART;
}

void wr_exchange_host_init(struct wr_exchange_host *host)
{
    *host = (struct wr_exchange_host){
        .inactivity_timeout = WR_NEVER,
        .request_timeout = WR_NEVER,
        .tunnel_timeout = WR_NEVER,
        .spare_limit = SPARE_EXCHANGES,
    };
}

void wr_exchange_host_clear(struct wr_exchange_host *host)
{
    host->spare_limit = 0;
    while (host->spare != NULL) {
        struct wr_exchange *exchange = host->spare;
        host->spare = exchange->next_spare;
        free_whole(exchange);
    }
    host->spare_count = 0;
}

/* ---- phases and the deadline ---- */

bool wr_exchange_awaits_tunnel(const struct wr_exchange *exchange)
{
    const struct wr_head *request = exchange->request.head;
    return request != NULL && request->tunnel != WR_TUNNEL_NONE &&
           exchange->response.state == WR_MESSAGE_WAITING;
}

static bool is_tunnel(const struct wr_exchange *exchange)
{
    const struct wr_head *response = exchange->response.head;
    return response != NULL && response->tunnel != WR_TUNNEL_NONE;
}

/* A request for a tunnel is handed over whole with its head. */
static bool is_handed_over(const struct wr_exchange *exchange)
{
    const struct wr_message *request = &exchange->request;
    return request->state == WR_MESSAGE_DONE ||
           (request->head_delivered && wr_exchange_awaits_tunnel(exchange));
}

enum wr_exchange_phase wr_exchange_phase(const struct wr_exchange *exchange)
{
    if (exchange->response.state != WR_MESSAGE_WAITING)
        return is_tunnel(exchange) ? WR_PHASE_TUNNEL : WR_PHASE_RESPONSE;
    if (exchange->request.state == WR_MESSAGE_WAITING)
        return WR_PHASE_HEAD;
    return is_handed_over(exchange) ? WR_PHASE_WAITING : WR_PHASE_REQUEST;
}

/* Whose stillness it is while the request is on its way. */
static enum wr_err stalled_request(const struct wr_exchange *exchange)
{
    const struct wr_message *request = &exchange->request;
    bool client_may_send = request->state == WR_MESSAGE_OPEN && !exchange->held_up &&
                           !wr_exchange_awaits_tunnel(exchange);
    return client_may_send ? WR_ERR_REQUEST_CONTENT_TIMEOUT : WR_ERR_RESPONSE_TIMEOUT;
}

static enum wr_err stalled_response(const struct wr_exchange *exchange)
{
    const struct wr_message *response = &exchange->response;
    if (wr_message_is_over(response))
        return wr_message_is_over(&exchange->request) ? WR_ERR_CLIENT_READ_TIMEOUT
                                                      : WR_ERR_REQUEST_CONTENT_TIMEOUT;
    bool client_takes_all = response->put_bytes == response->passed_bytes;
    return client_takes_all ? WR_ERR_RESPONSE_CONTENT_TIMEOUT : WR_ERR_CLIENT_READ_TIMEOUT;
}

static enum wr_err no_head(const struct wr_exchange *exchange)
{
    (void)exchange;
    return WR_ERR_REQUEST_HEADER_TIMEOUT;
}

static enum wr_err no_response(const struct wr_exchange *exchange)
{
    (void)exchange;
    return WR_ERR_RESPONSE_TIMEOUT;
}

static enum wr_err stalled_tunnel(const struct wr_exchange *exchange)
{
    (void)exchange;
    return WR_ERR_TUNNEL_TIMEOUT;
}

static uint64_t tunnel_inactive_at(const struct wr_exchange *exchange)
{
    return wr_time_add(exchange->last_progress, exchange->host->tunnel_timeout);
}

static uint64_t inactive_at(const struct wr_exchange *exchange)
{
    return wr_time_add(exchange->last_progress, exchange->host->inactivity_timeout);
}

static uint64_t head_due_at(const struct wr_exchange *exchange)
{
    return wr_time_add(exchange->began, exchange->head_timeout);
}

static uint64_t response_due_at(const struct wr_exchange *exchange)
{
    if (exchange->response_expired)
        return WR_NEVER;
    return wr_time_add(exchange->waiting_since, exchange->response_timeout);
}

/* What ends each phase: one timeout, counted from the last progress (a stall) or from the start of the phase (absolute). */
static const struct phase_rule {
    uint64_t (*due_at)(const struct wr_exchange *exchange);
    enum wr_err (*reason)(const struct wr_exchange *exchange);
} phase_rules[] = {
    [WR_PHASE_HEAD] = {head_due_at, no_head},                 /* head_timeout, absolute */
    [WR_PHASE_REQUEST] = {inactive_at, stalled_request},      /* inactivity_timeout, stall */
    [WR_PHASE_WAITING] = {response_due_at, no_response},      /* response_timeout, absolute */
    [WR_PHASE_RESPONSE] = {inactive_at, stalled_response},    /* inactivity_timeout, stall */
    [WR_PHASE_TUNNEL] = {tunnel_inactive_at, stalled_tunnel}, /* tunnel_timeout, stall */
};

/* Beside the phases: request_timeout, absolute. A tunnel has answered the request and goes on. */
static uint64_t request_due_at(const struct wr_exchange *exchange)
{
    if (exchange->request_expired || is_tunnel(exchange))
        return WR_NEVER;
    return wr_time_add(exchange->head_complete, exchange->host->request_timeout);
}

/* Beside the phases too: content that comes, but slower than the client owes it. */
static uint64_t too_slow_at(const struct wr_exchange *exchange)
{
    uint64_t rate = exchange->host->request_rate;
    if (rate == 0 || exchange->rate_since == WR_NEVER || exchange->held_up ||
        exchange->request.state != WR_MESSAGE_OPEN ||
        wr_exchange_phase(exchange) != WR_PHASE_REQUEST)
        return WR_NEVER;
    uint64_t came = exchange->request.put_bytes - exchange->rate_bytes;
    if (came / rate > WR_NEVER / WR_SEC / 2)
        return WR_NEVER;
    uint64_t worth = came / rate * WR_SEC + came % rate * WR_SEC / rate;
    return wr_time_add(exchange->rate_since, RATE_GRACE + worth);
}

static uint64_t earliest(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t least = a < b ? a : b;
    return least < c ? least : c;
}

static void arm(struct wr_exchange *exchange)
{
    exchange->armed_phase = wr_exchange_phase(exchange);
    uint64_t at = earliest(phase_rules[exchange->armed_phase].due_at(exchange),
                           request_due_at(exchange), too_slow_at(exchange));
    wr_loop_deadline_set(exchange->host->loop, &exchange->deadline, at);
}

void wr_exchange_rearm(struct wr_exchange *exchange)
{
    if (!exchange->finished)
        arm(exchange);
}

/* The reason that is due at NOW, or WR_OK: there was progress since the deadline was set. */
static enum wr_err due(struct wr_exchange *exchange, uint64_t now)
{
    if (now >= request_due_at(exchange)) {
        exchange->request_expired = true;
        return WR_ERR_REQUEST_TIMEOUT;
    }
    if (now >= too_slow_at(exchange)) {
        exchange->rate_since = WR_NEVER;
        return WR_ERR_REQUEST_CONTENT_TIMEOUT;
    }
    enum wr_exchange_phase phase = wr_exchange_phase(exchange);
    if (now < phase_rules[phase].due_at(exchange))
        return WR_OK;
    enum wr_err why = phase_rules[phase].reason(exchange);
    if (phase == WR_PHASE_WAITING)
        exchange->response_expired = true;
    return why;
}

static void tell_expired(struct wr_exchange *exchange, enum wr_err why)
{
    bool answered = wr_message_is_over(&exchange->response);
    if (answered && exchange->owner_ops != NULL) {
        exchange->owner_ops->expired(exchange->owner, why);
    } else if (!answered && exchange->handler_ops != NULL) {
        exchange->handler_ops->expired(exchange->handler, why);
    } else {
        wr_message_cancel(&exchange->request, why);
        wr_message_cancel(&exchange->response,
                          why); /* over already, if the former made the owner finish */
    }
}

static void expired(struct wr_deadline *deadline, uint64_t now)
{
    struct wr_exchange *exchange = WR_CONTAINER_OF(deadline, struct wr_exchange, deadline);
    enum wr_err why = due(exchange, now);
    if (why != WR_OK) {
        wr_exchange_blame(exchange, why);
        exchange->last_progress = now; /* what is done about it gets its own time */
        tell_expired(exchange, why);
    }
    wr_exchange_rearm(exchange);
}

/* ---- progress ---- */

static void follow_phase(struct wr_exchange *exchange)
{
    enum wr_exchange_phase phase = wr_exchange_phase(exchange);
    if (phase == exchange->armed_phase)
        return;
    if (phase == WR_PHASE_WAITING) {
        exchange->waiting_since = exchange->last_progress;
        exchange->response_expired = false;
    }
    arm(exchange);
}

void wr_exchange_progress(struct wr_exchange *exchange)
{
    if (exchange->finished)
        return;
    exchange->last_progress = wr_loop_now(exchange->host->loop);
    follow_phase(exchange);
}

/* A client whose content is not taken owes nothing meanwhile, and starts anew afterwards. Codecs let it send again when half of the
 * room is free: it may not know of less (WINDOW_UPDATE). */
static void note_rate(struct wr_exchange *exchange)
{
    const struct wr_message *request = &exchange->request;
    if (exchange->finished || request->put_bytes == 0)
        return;
    bool held_up = wr_message_room(request) < (request->limit + request->extra) / 2;
    if (held_up || exchange->held_up || exchange->rate_since == WR_NEVER) {
        exchange->rate_since = exchange->last_progress;
        exchange->rate_bytes = request->put_bytes;
        exchange->held_up = held_up;
        arm(exchange);
    }
}

static void request_moved(struct wr_message *message)
{
    struct wr_exchange *exchange = WR_CONTAINER_OF(message, struct wr_exchange, request);
    wr_exchange_progress(exchange);
    note_rate(exchange);
    if (!exchange->finished && wr_message_is_over(message) && exchange->owner_ops != NULL &&
        exchange->owner_ops->request_over != NULL)
        exchange->owner_ops->request_over(exchange->owner);
}

static void response_moved(struct wr_message *message)
{
    wr_exchange_progress(WR_CONTAINER_OF(message, struct wr_exchange, response));
}

/* ---- a life ---- */

static struct wr_exchange *new_exchange(struct wr_exchange_host *host)
{
    struct wr_exchange *exchange = host->spare;
    if (exchange == NULL)
        return &((struct whole *)wr_new_bytes(sizeof(struct whole)))->exchange;
    host->spare = exchange->next_spare;
    host->spare_count--;
    return exchange;
}

struct wr_exchange *wr_exchange_open(struct wr_exchange_host *host,
                                     const struct wr_client_info *client)
{
    struct wr_exchange *exchange = new_exchange(host);
    uint64_t now = wr_loop_now(host->loop);
    *exchange = (struct wr_exchange){
        .host = host,
        .client = client,
        .client_keeps = true,
        .last_progress = now,
        .head_timeout = WR_NEVER,
        .response_timeout = WR_NEVER,
        .rate_since = WR_NEVER,
        .waiting_since = WR_NEVER,
        .began = now,
        .head_complete = now,
        .attempt_started = WR_NEVER,
        .attempt_attached = WR_NEVER,
        .response_head = WR_NEVER,
        .protocol = WR_STR_EMPTY,
        .route = WR_STR_EMPTY,
        .cluster = WR_STR_EMPTY,
        .endpoint = WR_STR_EMPTY,
        .request_id = WR_STR_EMPTY,
        .forwarded_for = WR_STR_EMPTY,
    };
    start_arena(exchange);
    wr_message_init(&exchange->request, host->chunks, host->content_limit, request_moved);
    wr_message_init(&exchange->response, host->chunks, host->content_limit, response_moved);
    wr_deadline_init(&exchange->deadline, expired);
    wr_metric_inc(&host->worker_metrics->exchanges_active);
    arm(exchange);
    return exchange;
}

void wr_exchange_set_handler(struct wr_exchange *exchange, const struct wr_exchange_handler *ops,
                             void *handler)
{
    exchange->handler_ops = ops;
    exchange->handler = handler;
}

void wr_exchange_blame(struct wr_exchange *exchange, enum wr_err why)
{
    if (exchange->ended == WR_OK)
        exchange->ended = why;
}

/* ---- the account at the end ---- */

static unsigned response_status(const struct wr_exchange *exchange)
{
    const struct wr_message *response = &exchange->response;
    return response->head_delivered ? response->head->status : 0;
}

static struct wr_str tunnel_name(const struct wr_exchange *exchange)
{
    if (!is_tunnel(exchange))
        return WR_STR_EMPTY;
    const struct wr_head *request = exchange->request.head;
    return request->tunnel == WR_TUNNEL_UPGRADE ? request->protocol : WR_STR("connect");
}

static uint64_t between(uint64_t from, uint64_t to)
{
    return from == WR_NEVER || to == WR_NEVER || to < from ? WR_NEVER : to - from;
}

static void count(const struct wr_exchange *exchange, uint64_t duration)
{
    struct wr_listener_metrics *metrics = exchange->host->metrics;
    unsigned status_class = response_status(exchange) / 100;
    if (status_class >= WR_COUNT_OF(metrics->requests))
        status_class = 0;
    wr_metric_inc(&metrics->requests[status_class]);
    if (exchange->ended != WR_OK)
        wr_metric_inc(&metrics->requests_failed[exchange->ended]);
    wr_metric_add(&metrics->content_received, exchange->request.put_bytes);
    wr_metric_add(&metrics->content_sent, exchange->response.taken_bytes);
    wr_histogram_record(&metrics->request_duration, duration);
    wr_metric_dec(&exchange->host->worker_metrics->exchanges_active);
}

static void write_head(const struct wr_head *head, struct wr_access_exchange *record)
{
    const struct wr_field *user_agent = wr_fields_find(&head->fields, WR_FIELD_USER_AGENT);
    const struct wr_field *referer = wr_fields_find(&head->fields, WR_FIELD_REFERER);
    record->method = head->method_text;
    record->scheme = head->scheme;
    record->authority = head->authority;
    record->path = head->path;
    record->user_agent = user_agent != NULL ? user_agent->value : WR_STR_EMPTY;
    record->referer = referer != NULL ? referer->value : WR_STR_EMPTY;
}

static void write_access_log(const struct wr_exchange *exchange, uint64_t duration)
{
    static const struct wr_head no_head = {
        .method_text = {"", 0}, .scheme = {"", 0}, .authority = {"", 0}, .path = {"", 0}};
    const struct wr_exchange_host *host = exchange->host;
    if (host->access_log == NULL || !wr_access_log_enabled(host->access_log))
        return;
    const struct wr_client_info *client = exchange->client;
    struct wr_access_exchange record = {
        .wall_usec = wr_loop_wall(host->loop) - duration,
        .listener = client->listener,
        .client = client->address_slice,
        .protocol = exchange->protocol,
        .tls = wr_str_from(client->tls_version),
        .request_id = exchange->request_id,
        .forwarded_for = exchange->forwarded_for,
        .status = response_status(exchange),
        .tunnel = tunnel_name(exchange),
        .request_bytes = exchange->request.put_bytes,
        .response_bytes = exchange->response.taken_bytes,
        .route = exchange->route,
        .cluster = exchange->cluster,
        .endpoint = exchange->endpoint,
        .upstream_reused = exchange->upstream_reused,
        .attempts = exchange->attempts,
        .head_usec = between(exchange->began, exchange->head_complete),
        .upstream_connect_usec = between(exchange->attempt_started, exchange->attempt_attached),
        .upstream_head_usec = between(exchange->waiting_since, exchange->response_head),
        .duration_usec = duration,
        .ended = exchange->ended,
    };
    write_head(exchange->request.head != NULL ? exchange->request.head : &no_head, &record);
    wr_access_log_exchange(host->access_log, &record);
}

static void release(struct wr_garbage *garbage)
{
    struct wr_exchange *exchange = WR_CONTAINER_OF(garbage, struct wr_exchange, garbage);
    struct wr_exchange_host *host = exchange->host;
    wr_arena_free(&exchange->arena);
    wr_message_clear(&exchange->request);
    wr_message_clear(&exchange->response);
    if (host->spare_count >= host->spare_limit) {
        free_whole(exchange);
        return;
    }
    exchange->next_spare = host->spare;
    host->spare = exchange;
    host->spare_count++;
}

/* The owner is one end of either message: it asked for this and hears nothing of it. */
static void let_go(struct wr_exchange *exchange, enum wr_err why)
{
    enum wr_err reason = why != WR_OK ? why : WR_ERR_CANCELLED;
    wr_message_set_policy(&exchange->request, NULL, NULL);
    wr_message_set_policy(&exchange->response, NULL, NULL);
    exchange->request.source_ops = NULL;
    exchange->response.sink_ops = NULL;
    wr_message_stop(&exchange->response, reason);
    wr_message_abort(&exchange->request, reason);
}

void wr_exchange_finish(struct wr_exchange *exchange, enum wr_err why)
{
    WR_ASSERT(!exchange->finished);
    exchange->finished = true;
    struct wr_loop *loop = exchange->host->loop;
    wr_loop_deadline_remove(loop, &exchange->deadline);
    wr_exchange_blame(exchange, why);
    let_go(exchange, why);
    if (exchange->handler_ops != NULL)
        exchange->handler_ops->finished(exchange->handler);

    uint64_t now = wr_loop_now(loop);
    uint64_t duration = now > exchange->began ? now - exchange->began : 0;
    count(exchange, duration);
    write_access_log(exchange, duration);
    wr_loop_release(loop, &exchange->garbage, release);
}
