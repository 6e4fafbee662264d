#include "support/h2_rig.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"

#define QUIET_TURNS 4
#define MOST_TURNS 200000

/* ---- the owner of the codec ---- */

static void exchange_finished(void *handler)
{
    struct h2_call *call = handler;
    call->rig->finished++;
    call->ended = call->exchange->ended;
    call->exchange = NULL;
}

static void exchange_expired(void *handler, enum wr_err why)
{
    struct h2_call *call = handler;
    text_say(&call->rig->events, "expired:%s ", wr_err_info(why)->label);
    wr_message_cancel(&call->exchange->request, why);
    if (call->exchange != NULL)
        wr_message_cancel(&call->exchange->response, why);
}

static const struct wr_exchange_handler handler_ops = {
    .expired = exchange_expired,
    .finished = exchange_finished,
};

static void answer_error(struct h2_call *call, enum wr_err err)
{
    h2_rig_answer_head(call, wr_err_info(err)->http_status, 0, "", WR_HEAD_LAST);
}

static void note_request(struct h2_call *call)
{
    const struct wr_head *head = call->exchange->request.head;
    struct text *out = &call->rig->requests;
    text_add(out, head->method_text.p, head->method_text.n);
    text_say(out, " ");
    text_add(out, head->authority.p, head->authority.n);
    text_say(out, " ");
    text_add(out, head->path.p, head->path.n);
    text_say(out, " [");
    text_add(out, call->collector.content.p, call->collector.content.n);
    text_say(out, "] ");
    text_add_fields(out, &head->fields);
    if (call->collector.trailers.n > 0)
        text_say(out, " +%s", call->collector.trailers.p);
    text_say(out, "\n");
}

static void collector_over(struct collector *collector)
{
    struct h2_call *call = WR_CONTAINER_OF(collector, struct h2_call, collector);
    struct h2_rig *rig = call->rig;
    if (rig->is_client) {
        call->unsent = call->exchange != NULL && call->exchange->request_unsent;
    } else if (!collector->aborted) {
        note_request(call);
        if (rig->on_exchange == NULL)
            h2_rig_answer(call, 200, collector->content.p);
    }
    if (rig->on_over != NULL)
        rig->on_over(call);
}

void h2_rig_collect(struct h2_call *call)
{
    call->collector.over = collector_over;
    call->collector.holds = call->rig->holds;
    collector_attach(&call->collector,
                     call->rig->is_client ? &call->exchange->response : &call->exchange->request,
                     wr_transport_host_chunks(call->rig->transports));
}

void h2_rig_wait(struct h2_call *call)
{
    h2_rig_collect(call);
}

struct h2_call *h2_rig_new_call(struct h2_rig *rig, struct wr_exchange *exchange)
{
    cr_assert_lt(rig->count, H2_MOST_CALLS);
    struct h2_call *call = &rig->calls[rig->count++];
    call->rig = rig;
    call->exchange = exchange;
    wr_exchange_set_handler(exchange, &handler_ops, call);
    return call;
}

static void on_exchange(void *owner, struct wr_exchange *exchange)
{
    struct h2_rig *rig = owner;
    struct h2_call *call = h2_rig_new_call(rig, exchange);
    call->refused = exchange->refused;
    if (exchange->refused != WR_OK) {
        text_say(&rig->events, "refused:%s ", wr_err_info(exchange->refused)->label);
        answer_error(call, exchange->refused);
        return;
    }
    text_say(&rig->events, "exchange ");
    if (rig->on_exchange != NULL)
        rig->on_exchange(call);
    else
        h2_rig_collect(call);
}

static void on_head_begun(void *owner)
{
    text_say(&((struct h2_rig *)owner)->events, "begun ");
}

static void on_head_complete(void *owner)
{
    text_say(&((struct h2_rig *)owner)->events, "complete ");
}

static void on_idle(void *owner)
{
    text_say(&((struct h2_rig *)owner)->events, "idle ");
}

static size_t linger_readable(void *owner, const uint8_t *p, size_t n)
{
    (void)owner;
    (void)p;
    return n;
}

static const struct wr_transport_events linger_events = {.readable = linger_readable};

static void on_done(void *owner, enum wr_err why)
{
    struct h2_rig *rig = owner;
    text_say(&rig->events, "done:%s ", wr_err_info(why)->label);
    rig->server->ops->close(rig->server, why);
    rig->server = NULL;
    if (why == WR_OK) {
        wr_transport_set_events(rig->transport, &linger_events, rig);
    } else {
        wr_transport_reset(rig->transport);
        rig->transport = NULL;
    }
}

static void on_woken(void *owner)
{
    struct h2_rig *rig = owner;
    rig->wakes++;
}

static const struct wr_server_codec_events server_events = {
    .exchange = on_exchange,
    .head_begun = on_head_begun,
    .head_complete = on_head_complete,
    .idle = on_idle,
    .done = on_done,
    .woken = on_woken,
};

static void close_client(struct h2_rig *rig)
{
    if (rig->client == NULL)
        return;
    rig->client->ops->close(rig->client, WR_ERR_CANCELLED);
    rig->client = NULL;
    wr_transport_flush(rig->transport);
    wr_transport_close(rig->transport);
    rig->transport = NULL;
}

static void on_stream_closed(void *owner, bool reusable)
{
    struct h2_rig *rig = owner;
    text_say(&rig->events, reusable ? "closed:reusable " : "closed:spent ");
}

static void on_broken(void *owner, enum wr_err why)
{
    struct h2_rig *rig = owner;
    text_say(&rig->events, "broken:%s ", wr_err_info(why)->label);
    close_client(rig);
}

static void on_limit_told(void *owner, unsigned limit)
{
    struct h2_rig *rig = owner;
    text_say(&rig->events, "limit:%u ", limit);
}

static void on_flooded(void *owner, enum wr_flood kind)
{
    struct h2_rig *rig = owner;
    text_say(&rig->events, "flooded:%s ", wr_flood_label(kind));
}

static const struct wr_client_codec_events client_events = {
    .stream_closed = on_stream_closed,
    .broken = on_broken,
    .limit_told = on_limit_told,
    .flooded = on_flooded,
    .woken = on_woken,
};

static void on_established(void *owner)
{
    struct h2_rig *rig = owner;
    rig->client =
        wr_h2_client_new(rig->transport, &rig->client_options, rig->loop, &client_events, rig);
}

static const struct wr_transport_events connect_events = {.established = on_established};

/* ---- making ---- */

static void set_options(struct h2_rig *rig)
{
    struct wr_h2_options h2 = {
        .max_concurrent_streams = 100,
        .connection_window = 1024 * 1024,
        .header_table_size = 4096,
        .stream_window = 65536,
        .ping_interval = WR_NEVER,
        .ping_timeout = 5 * WR_SEC,
    };
    for (unsigned i = 0; i < WR_FLOOD__COUNT; i++)
        h2.budgets[i] = (struct wr_h2_budget){100, 10};
    rig->server_options = (struct wr_server_codec_options){
        .head_limit = 8192,
        .uri_limit = 1024,
        .fields_limit = 32,
        .chunk_overhead = 1024,
        .discard_limit = 4096,
        .head_timeout = 10 * WR_SEC,
        .max_requests = UINT64_MAX,
        .h2 = h2,
    };
    rig->client_options = (struct wr_client_codec_options){
        .head_limit = 8192,
        .fields_limit = 32,
        .chunk_overhead = 1024,
        .h2 = h2,
    };
}

struct h2_rig *h2_rig_new(bool client)
{
    struct h2_rig *rig = WR_NEW(struct h2_rig);
    rig->peer = -1;
    rig->is_client = client;
    cr_assert_eq(wr_loop_new(WR_CLOCK_SIMULATED, &rig->loop), WR_OK);
    cr_assert_eq(wr_transport_host_new(rig->loop, NULL, &rig->transports), WR_OK);
    wr_exchange_host_init(&rig->host);
    rig->host.loop = rig->loop;
    rig->host.chunks = wr_transport_host_chunks(rig->transports);
    rig->host.worker_metrics = &rig->worker_metrics;
    rig->host.metrics = &rig->listener_metrics;
    rig->host.content_limit = (size_t)64 * 1024;
    rig->client_info = (struct wr_client_info){
        .listener = WR_STR_EMPTY,
        .address_slice = WR_STR_EMPTY,
        .host_slice = WR_STR_EMPTY,
        .tls_version = "",
    };
    set_options(rig);
    rig->reader = h2_reader_new(client);
    text_add(&rig->frames, "", 0);
    text_add(&rig->events, "", 0);
    text_add(&rig->requests, "", 0);
    return rig;
}

void h2_rig_start_silent(struct h2_rig *rig)
{
    struct wr_transport_counters counters = {NULL, NULL};
    int fds[2];
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    rig->peer = fds[1];
    if (rig->is_client) {
        cr_assert_eq(wr_transport_adopt_client(rig->transports, fds[0], NULL, counters,
                                               &connect_events, rig, &rig->transport),
                     WR_OK);
        h2_rig_settle(rig);
        cr_assert_not_null(rig->client);
        return;
    }
    cr_assert_eq(wr_transport_accept(rig->transports, fds[0], NULL, counters, &linger_events, rig,
                                     &rig->transport),
                 WR_OK);
    rig->server = wr_h2_server_new(rig->transport, &rig->server_options, &rig->host,
                                   &rig->client_info, &server_events, rig);
}

void h2_rig_start(struct h2_rig *rig)
{
    static const uint32_t nothing[] = {0};
    h2_rig_start_silent(rig);
    if (!rig->is_client)
        text_add(&rig->out, H2_PREFACE, sizeof(H2_PREFACE) - 1);
    h2_put_settings(&rig->out, nothing);
    h2_put_frame(&rig->out, H2_SETTINGS, H2_ACK, 0, "", 0);
    h2_rig_send(rig);
}

void h2_rig_free(struct h2_rig *rig)
{
    if (rig->server != NULL)
        rig->server->ops->close(rig->server, WR_ERR_CANCELLED);
    close_client(rig);
    for (unsigned i = 0; i < rig->count; i++) {
        if (rig->calls[i].exchange != NULL)
            h2_rig_finish(&rig->calls[i], WR_ERR_CANCELLED);
    }
    wr_transport_close(rig->transport);
    wr_loop_turn(rig->loop, 0);
    cr_expect_eq(rig->worker_metrics.exchanges_active, 0, "every exchange was finished");
    cr_expect_eq(rig->host.chunks->used_count, 0, "every chunk was given back");
    if (rig->peer >= 0)
        close(rig->peer);
    for (unsigned i = 0; i < rig->count; i++)
        collector_clear(&rig->calls[i].collector);
    wr_exchange_host_clear(&rig->host);
    wr_transport_host_free(rig->transports);
    wr_loop_free(rig->loop);
    h2_reader_free(rig->reader);
    text_free(&rig->out);
    text_free(&rig->frames);
    text_free(&rig->events);
    text_free(&rig->requests);
    free(rig);
}

/* ---- the wire ---- */

static bool hear(struct h2_rig *rig)
{
    char buffer[16384];
    bool something = false;
    while (rig->peer >= 0 && !rig->heard_end && !rig->deaf) {
        ssize_t n = recv(rig->peer, buffer, sizeof(buffer), 0);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            break;
        something = true;
        if (n > 0 && rig->raw != NULL)
            text_add(rig->raw, buffer, (size_t)n);
        if (n > 0)
            h2_reader_read(rig->reader, buffer, (size_t)n, &rig->frames);
        else
            rig->heard_end = true;
    }
    return something;
}

static uint64_t moved(const struct h2_rig *rig)
{
    return rig->transport != NULL ? wr_transport_bytes_received(rig->transport) +
                                        wr_transport_bytes_sent(rig->transport)
                                  : 0;
}

void h2_rig_settle(struct h2_rig *rig)
{
    unsigned quiet = 0;
    for (unsigned i = 0; quiet < QUIET_TURNS && i < MOST_TURNS; i++) {
        uint64_t before = moved(rig);
        size_t events = rig->events.n;
        wr_loop_turn(rig->loop, 0);
        bool busy = hear(rig) || rig->events.n != events || moved(rig) != before;
        quiet = busy ? 0 : quiet + 1;
    }
}

void h2_rig_send(struct h2_rig *rig)
{
    size_t sent = 0;
    while (sent < rig->out.n && rig->peer >= 0) {
        ssize_t k = send(rig->peer, rig->out.p + sent, rig->out.n - sent, MSG_NOSIGNAL);
        if (k > 0)
            sent += (size_t)k;
        else if (errno != EAGAIN)
            break; /* the other end is gone */
        if (sent < rig->out.n)
            h2_rig_settle(rig);
    }
    text_free(&rig->out);
    h2_rig_settle(rig);
}

void h2_rig_get(struct h2_rig *rig, uint32_t id, const char *more)
{
    struct text fields = {0};
    text_say(&fields, ":method: GET\n:scheme: http\n:path: /\n:authority: a.test\n");
    text_add(&fields, more, strlen(more));
    h2_put_headers(&rig->out, id, H2_END_STREAM, fields.p);
    text_free(&fields);
    h2_rig_send(rig);
}

void h2_rig_peer_ends(struct h2_rig *rig)
{
    shutdown(rig->peer, SHUT_WR);
    h2_rig_settle(rig);
}

void h2_rig_peer_closes(struct h2_rig *rig)
{
    close(rig->peer);
    rig->peer = -1;
    h2_rig_settle(rig);
}

void h2_rig_forget(struct h2_rig *rig)
{
    text_free(&rig->frames);
    text_free(&rig->events);
    text_add(&rig->frames, "", 0);
    text_add(&rig->events, "", 0);
}

bool h2_rig_heard(const struct h2_rig *rig, const char *frame)
{
    return strstr(rig->frames.p, frame) != NULL;
}

bool h2_rig_told(const struct h2_rig *rig, const char *event)
{
    return strstr(rig->events.p, event) != NULL;
}
