#include "support/h1_rig.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"

#define QUIET_TURNS 4
#define MOST_TURNS 20000

/* ---- the owner of the codec ---- */

static void exchange_finished(void *handler)
{
    struct rig *rig = handler;
    rig->finished++;
    rig->exchange = NULL;
}

static void exchange_expired(void *handler, enum wr_err why)
{
    struct rig *rig = handler;
    text_say(&rig->events, "expired:%s ", wr_err_info(why)->label);
    wr_message_cancel(&rig->exchange->request, why);
    if (rig->exchange != NULL)
        wr_message_cancel(&rig->exchange->response, why);
}

static const struct wr_exchange_handler handler_ops = {
    .expired = exchange_expired,
    .finished = exchange_finished,
};

static void answer_error(struct rig *rig, enum wr_err err)
{
    rig_answer_head(rig, wr_err_info(err)->http_status, 0, "", WR_HEAD_LAST);
}

static void note_request(struct rig *rig)
{
    const struct wr_head *head = rig->exchange->request.head;
    struct text *out = &rig->requests;
    text_add(out, head->method_text.p, head->method_text.n);
    text_add(out, " ", 1);
    text_add(out, head->authority.p, head->authority.n);
    text_add(out, " ", 1);
    text_add(out, head->path.p, head->path.n);
    text_add(out, " [", 2);
    text_add(out, rig->collector.content.p, rig->collector.content.n);
    text_add(out, "] ", 2);
    text_add_fields(out, &head->fields);
    if (rig->collector.trailers.n > 0)
        text_say(out, " +%s", rig->collector.trailers.p);
    text_add(out, "\n", 1);
}

static void request_over(struct collector *collector)
{
    struct rig *rig = WR_CONTAINER_OF(collector, struct rig, collector);
    if (collector->aborted) {
        if (rig->exchange != NULL && rig->exchange->response.state == WR_MESSAGE_WAITING &&
            wr_err_info(collector->why)->http_status != 0)
            answer_error(rig, collector->why);
        return;
    }
    note_request(rig);
    if (rig->on_exchange == NULL)
        rig_answer(rig, 200, collector->content.p);
}

void rig_collect(struct rig *rig)
{
    rig->collector.over = request_over;
    collector_attach(&rig->collector, &rig->exchange->request,
                     wr_transport_host_chunks(rig->transports));
}

void rig_wait_with(struct rig *rig)
{
    rig_collect(rig);
}

/* As a proxy whose routes allow none. False: answered. */
static bool goes_on_without_tunnel(struct rig *rig)
{
    struct wr_head *head = rig->exchange->request.head;
    if (head->tunnel == WR_TUNNEL_NONE)
        return true;
    if (!head->upgrade) {
        answer_error(rig, WR_ERR_METHOD_NOT_ALLOWED);
        return false;
    }
    head->tunnel = WR_TUNNEL_NONE;
    wr_message_make_last(&rig->exchange->request, WR_ERR_CANCELLED);
    return true;
}

static void on_exchange(void *owner, struct wr_exchange *exchange)
{
    struct rig *rig = owner;
    bool holds = rig->collector.holds;
    cr_assert_null(rig->exchange, "one exchange at a time");
    collector_clear(&rig->collector);
    rig->collector.holds = holds;
    rig->feeder = (struct feeder){0};
    rig->exchange = exchange;
    wr_exchange_set_handler(exchange, &handler_ops, rig);
    if (exchange->refused != WR_OK) {
        text_say(&rig->events, "refused:%s ", wr_err_info(exchange->refused)->label);
        answer_error(rig, exchange->refused);
        return;
    }
    text_say(&rig->events, "exchange ");
    if (rig->on_exchange != NULL)
        rig->on_exchange(rig);
    else if (goes_on_without_tunnel(rig))
        rig_collect(rig);
}

static void on_head_begun(void *owner)
{
    text_say(&((struct rig *)owner)->events, "begun ");
}

static void on_head_complete(void *owner)
{
    text_say(&((struct rig *)owner)->events, "complete ");
}

static void on_idle(void *owner)
{
    text_say(&((struct rig *)owner)->events, "idle ");
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
    struct rig *rig = owner;
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

static const struct wr_server_codec_events server_events = {
    .exchange = on_exchange,
    .head_begun = on_head_begun,
    .head_complete = on_head_complete,
    .idle = on_idle,
    .done = on_done,
};

static void close_client(struct rig *rig)
{
    if (rig->client == NULL)
        return;
    rig->client->ops->close(rig->client, WR_ERR_CANCELLED);
    rig->client = NULL;
    wr_transport_close(rig->transport);
    rig->transport = NULL;
}

static void on_stream_closed(void *owner, bool reusable)
{
    struct rig *rig = owner;
    text_say(&rig->events, reusable ? "closed:reusable " : "closed:spent ");
    if (!reusable)
        close_client(rig);
}

static void on_broken(void *owner, enum wr_err why)
{
    struct rig *rig = owner;
    text_say(&rig->events, "broken:%s ", wr_err_info(why)->label);
    close_client(rig);
}

static const struct wr_client_codec_events client_events = {
    .stream_closed = on_stream_closed,
    .broken = on_broken,
};

static void on_established(void *owner)
{
    struct rig *rig = owner;
    rig->client =
        wr_h1_client_new(rig->transport, &rig->client_options, rig->loop, &client_events, rig);
}

static const struct wr_transport_events connect_events = {.established = on_established};

/* ---- making ---- */

struct rig *rig_new(bool client)
{
    struct rig *rig = WR_NEW(struct rig);
    rig->peer = -1;
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
    rig->server_options = (struct wr_server_codec_options){
        .head_limit = 8192,
        .uri_limit = 1024,
        .fields_limit = 32,
        .chunk_overhead = 1024,
        .discard_limit = 4096,
        .max_requests = UINT64_MAX,
    };
    rig->client_options = (struct wr_client_codec_options){
        .head_limit = 8192,
        .fields_limit = 32,
        .chunk_overhead = 1024,
    };
    text_add(&rig->heard, "", 0);
    text_add(&rig->events, "", 0);
    text_add(&rig->requests, "", 0);
    rig->client = client ? (struct wr_client_codec *)rig : NULL; /* until rig_start() */
    return rig;
}

static void make_pair(const struct rig *rig, int fds[2])
{
    int flags = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
    if (!rig->tcp) {
        cr_assert_eq(socketpair(AF_UNIX, flags, 0, fds), 0);
        return;
    }
    struct wr_address address;
    struct wr_listen_options options = {0};
    int listening;
    cr_assert_eq(wr_address_parse(WR_STR("127.0.0.1:0"), &address), WR_OK);
    cr_assert_eq(wr_socket_listen(&address, &options, &listening), WR_OK);
    cr_assert_eq(getsockname(listening, (struct sockaddr *)&address.storage, &address.length), 0);
    fds[1] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(connect(fds[1], (struct sockaddr *)&address.storage, address.length), 0);
    cr_assert_eq(fcntl(fds[1], F_SETFL, O_NONBLOCK), 0);
    do {
        fds[0] = accept4(listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    } while (fds[0] < 0 && errno == EAGAIN);
    close(listening);
}

void rig_start(struct rig *rig)
{
    struct wr_transport_counters counters = {NULL, NULL};
    int fds[2];
    make_pair(rig, fds);
    rig->peer = fds[1];
    if (rig->client != NULL) {
        rig->client = NULL;
        cr_assert_eq(wr_transport_adopt_client(rig->transports, fds[0], NULL, counters,
                                               &connect_events, rig, &rig->transport),
                     WR_OK);
        rig_settle(rig);
        cr_assert_not_null(rig->client);
        return;
    }
    cr_assert_eq(wr_transport_accept(rig->transports, fds[0], NULL, counters, &linger_events, rig,
                                     &rig->transport),
                 WR_OK);
    rig->server = wr_h1_server_new(rig->transport, &rig->server_options, &rig->host,
                                   &rig->client_info, &server_events, rig);
}

void rig_free(struct rig *rig)
{
    if (rig->server != NULL)
        rig->server->ops->close(rig->server, WR_ERR_CANCELLED);
    close_client(rig);
    if (rig->exchange != NULL)
        rig_finish(rig, WR_ERR_CANCELLED);
    wr_transport_close(rig->transport);
    wr_loop_turn(rig->loop, 0);
    cr_expect_eq(rig->worker_metrics.exchanges_active, 0, "every exchange was finished");
    cr_expect_eq(rig->host.chunks->used_count, 0, "every chunk was given back");
    if (rig->peer >= 0)
        close(rig->peer);
    collector_clear(&rig->collector);
    wr_exchange_host_clear(&rig->host);
    wr_transport_host_free(rig->transports);
    wr_loop_free(rig->loop);
    text_free(&rig->heard);
    text_free(&rig->events);
    text_free(&rig->requests);
    free(rig);
}

/* ---- the wire ---- */

/* True: something came. */
static bool hear(struct rig *rig)
{
    char buffer[16384];
    bool something = false;
    while (rig->peer >= 0 && !rig->heard_end) {
        ssize_t n = recv(rig->peer, buffer, sizeof(buffer), 0);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            break;
        something = true;
        if (n > 0)
            text_add(&rig->heard, buffer, (size_t)n);
        else
            rig->heard_end = true;
    }
    return something;
}

void rig_settle(struct rig *rig)
{
    unsigned quiet = 0;
    for (unsigned i = 0; quiet < QUIET_TURNS && i < MOST_TURNS; i++) {
        uint64_t before = rig->transport != NULL ? wr_transport_bytes_received(rig->transport) +
                                                       wr_transport_bytes_sent(rig->transport)
                                                 : 0;
        size_t events = rig->events.n;
        wr_loop_turn(rig->loop, rig->tcp ? 2000 : 0);
        bool busy = hear(rig) || rig->events.n != events ||
                    (rig->transport != NULL && wr_transport_bytes_received(rig->transport) +
                                                       wr_transport_bytes_sent(rig->transport) !=
                                                   before);
        quiet = busy ? 0 : quiet + 1;
    }
}

void rig_say_n(struct rig *rig, const void *p, size_t n)
{
    size_t sent = 0;
    while (sent < n && rig->peer >= 0) {
        ssize_t k = send(rig->peer, (const char *)p + sent, n - sent, MSG_NOSIGNAL);
        if (k > 0)
            sent += (size_t)k;
        else if (errno != EAGAIN)
            break; /* the other end is gone */
        else if (rig->collector.holds)
            break; /* nobody reads on */
        if (sent < n)
            rig_settle(rig);
    }
    rig_settle(rig);
}

void rig_say(struct rig *rig, const char *bytes)
{
    rig_say_n(rig, bytes, strlen(bytes));
}

void rig_dribble(struct rig *rig, const void *p, size_t n, size_t piece)
{
    for (size_t at = 0; at < n; at += piece) {
        size_t k = n - at < piece ? n - at : piece;
        if (send(rig->peer, (const char *)p + at, k, MSG_NOSIGNAL) != (ssize_t)k)
            break;
        wr_loop_turn(rig->loop, 0);
        wr_loop_turn(rig->loop, 0);
    }
    rig_settle(rig);
}

void rig_peer_ends(struct rig *rig)
{
    shutdown(rig->peer, SHUT_WR);
    rig_settle(rig);
}

void rig_peer_closes(struct rig *rig)
{
    close(rig->peer);
    rig->peer = -1;
    rig_settle(rig);
}

void rig_forget(struct rig *rig)
{
    text_free(&rig->heard);
    text_free(&rig->events);
    text_add(&rig->heard, "", 0);
    text_add(&rig->events, "", 0);
}

/* ---- exchanges ---- */

/* "name: value\n..." */
static void add_fields(struct wr_arena *arena, struct wr_fields *fields, const char *text)
{
    while (*text != '\0') {
        const char *end = strchr(text, '\n');
        const char *colon = strchr(text, ':');
        cr_assert(end != NULL && colon != NULL && colon < end);
        struct wr_str name = wr_str(text, (size_t)(colon - text));
        struct wr_str value = wr_str_trim(wr_str(colon + 1, (size_t)(end - colon - 1)));
        wr_fields_add(fields, arena, wr_arena_copy(arena, name), wr_arena_copy(arena, value));
        text = end + 1;
    }
}

void rig_answer_head(struct rig *rig, unsigned status, int64_t length, const char *fields,
                     unsigned flags)
{
    struct wr_exchange *exchange = rig->exchange;
    struct wr_head *head = wr_arena_alloc(&exchange->arena, sizeof(*head));
    wr_head_init(head);
    head->status = (uint16_t)status;
    head->content_length = length;
    head->length_given = length > 0;
    add_fields(&exchange->arena, &head->fields, fields);
    if (exchange->response.source_ops == NULL)
        wr_message_set_source(&exchange->response, &feeder_ops, &rig->feeder);
    wr_message_head(&exchange->response, head, flags);
}

void rig_answer(struct rig *rig, unsigned status, const char *body)
{
    struct wr_exchange *exchange = rig->exchange;
    size_t n = strlen(body);
    rig_answer_head(rig, status, (int64_t)n, "", n == 0 ? WR_HEAD_LAST : 0);
    if (n == 0)
        return;
    wr_message_put(&exchange->response, body, n);
    wr_message_end(&exchange->response, NULL);
}

void rig_open(struct rig *rig, const char *method, int64_t length, const char *fields)
{
    static const struct wr_str authority = {"origin.test", 11};
    struct wr_exchange *exchange = wr_exchange_open(&rig->host, &rig->client_info);
    struct wr_head *head = wr_arena_alloc(&exchange->arena, sizeof(*head));
    wr_head_init(head);
    head->method_text = wr_str_from(method);
    head->method = wr_method_lookup(head->method_text);
    head->scheme = WR_STR("http");
    head->authority = authority;
    head->path = WR_STR("/path?q");
    head->version_minor = 1;
    head->content_length = length;
    add_fields(&exchange->arena, &head->fields, fields);
    collector_clear(&rig->collector);
    rig->feeder = (struct feeder){0};
    rig->exchange = exchange;
    wr_exchange_set_handler(exchange, &handler_ops, rig);
    if (length != 0)
        wr_message_set_source(&exchange->request, &feeder_ops, &rig->feeder);
    wr_message_head(&exchange->request, head, length == 0 ? WR_HEAD_LAST : 0);
    if (rig->arms_replay)
        wr_message_arm_replay(&exchange->request);
    collector_attach(&rig->collector, &exchange->response,
                     wr_transport_host_chunks(rig->transports));
    rig->client->ops->open(rig->client, exchange);
}

void rig_finish(struct rig *rig, enum wr_err why)
{
    if (rig->exchange != NULL)
        wr_exchange_finish(rig->exchange, why);
}
