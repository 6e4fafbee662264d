#include "support/h2_fuzz.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "codec/h2_client.h"
#include "codec/h2_server.h"

#define MUST(condition)   \
    do {                  \
        if (!(condition)) \
            abort();      \
    } while (0)

#define MOST_INPUT 65536
#define ASKED 4
#define PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

/* Made once; a process fuzzes one side. */
static struct world {
    struct wr_loop *loop;
    struct wr_transport_host *transports;
    struct wr_worker_metrics worker_metrics;
    struct wr_listener_metrics listener_metrics;
    struct wr_exchange_host host;
    struct wr_client_info client_info;
    struct wr_server_codec_options server_options;
    struct wr_client_codec_options client_options;
} world;

struct run {
    struct wr_transport *transport;
    struct wr_server_codec *server;
    struct wr_client_codec *client;
    struct wr_exchange *asked[ASKED];
    uint64_t hash; /* of what was let through, whatever the order of streams */
    bool spent;    /* client: no other exchange would be opened */
    bool sleeps;   /* whenever it may */
};

/* ---- what is let through ---- */

static uint64_t hash_of(struct wr_str s)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < s.n; i++)
        hash = (hash ^ (unsigned char)s.p[i]) * UINT64_C(1099511628211);
    return hash;
}

static uint64_t check_fields(const struct wr_fields *fields)
{
    uint64_t hash = 0;
    uint32_t at = 0;
    for (const struct wr_field *field; (field = wr_fields_next(fields, &at)) != NULL;) {
        MUST(wr_is_token(field->name) && wr_is_field_value(field->value));
        MUST(wr_str_eq(wr_str_trim(field->value), field->value));
        MUST(!wr_field_is_hop_by_hop(field->id));
        MUST(field->id != WR_FIELD_CONTENT_LENGTH && field->id != WR_FIELD_HOST &&
             field->id != WR_FIELD_EXPECT);
        for (size_t i = 0; i < field->name.n; i++)
            MUST(wr_lower(field->name.p[i]) == field->name.p[i]);
        hash += hash_of(field->name) * 31 + hash_of(field->value);
    }
    return hash;
}

static uint64_t check_request(const struct wr_head *head)
{
    MUST(wr_is_token(head->method_text));
    MUST(wr_authority_is_valid(head->authority));
    MUST(head->tunnel == WR_TUNNEL_CONNECT || head->path.p[0] == '/' ||
         wr_str_eq(head->path, WR_STR("*")));
    for (size_t i = 0; i < head->path.n; i++)
        MUST(head->path.p[i] > 0x20 && head->path.p[i] < 0x7f && head->path.p[i] != '#');
    MUST(head->tunnel != WR_TUNNEL_UPGRADE || wr_is_token(head->protocol));
    return hash_of(head->method_text) + hash_of(head->authority) + hash_of(head->path) +
           check_fields(&head->fields);
}

static uint64_t check_response(const struct wr_head *head)
{
    MUST(head->status >= 100 && head->status < 600 && head->status != 101);
    MUST(head->tunnel == WR_TUNNEL_NONE || head->status == 200);
    return head->status + check_fields(&head->fields);
}

/* ---- a sink that takes all; in the arena ---- */

struct end {
    struct run *run;
    struct wr_message *message;
    uint64_t
        content; /* counts when the message has come whole: how much of a broken one came is chance */
};

static void sink_head(void *sink, struct wr_head *head, unsigned flags)
{
    struct run *run = ((struct end *)sink)->run;
    (void)flags;
    run->hash += run->client != NULL ? check_response(head) : check_request(head);
}

static void sink_content(void *sink)
{
    struct end *end = sink;
    struct wr_bytes bytes;
    wr_bytes_init(&bytes, world.host.chunks);
    size_t n = wr_message_take(end->message, &bytes, SIZE_MAX);
    while (bytes.length > 0) {
        struct wr_str front = wr_bytes_front(&bytes);
        for (size_t i = 0; i < front.n; i++)
            end->content += (unsigned char)front.p[i] + UINT64_C(1000000007);
        wr_bytes_consume(&bytes, front.n);
    }
    wr_message_taken(end->message, n);
}

static void sink_end(void *sink, const struct wr_fields *trailers)
{
    struct end *end = sink;
    struct run *run = end->run;
    run->hash += end->content;
    if (trailers != NULL)
        run->hash += check_fields(trailers);
}

static void sink_abort(void *sink, enum wr_err why)
{
    (void)sink;
    (void)why;
}

static const struct wr_sink_ops sink_ops = {
    .head = sink_head,
    .content = sink_content,
    .end = sink_end,
    .abort = sink_abort,
};

static void attach(struct run *run, struct wr_exchange *exchange, struct wr_message *message)
{
    struct end *end = wr_arena_alloc(&exchange->arena, sizeof(*end));
    *end = (struct end){run, message, 0};
    wr_message_attach(message, &sink_ops, end);
}

/* ---- server ---- */

static void source_room(void *source, size_t consumed)
{
    (void)source;
    (void)consumed;
}

static void source_stop(void *source, enum wr_err why)
{
    (void)source;
    (void)why;
}

static const struct wr_source_ops source_ops = {.room = source_room, .stop = source_stop};

static void answer(struct wr_exchange *exchange, uint16_t status)
{
    struct wr_head *head = wr_arena_alloc(&exchange->arena, sizeof(*head));
    wr_head_init(head);
    head->status = status;
    const struct wr_head *request = exchange->request.head;
    if (status == 200 && request->tunnel != WR_TUNNEL_NONE) {
        head->tunnel = request->tunnel;
        head->content_length = WR_LENGTH_UNKNOWN;
    }
    wr_message_set_source(&exchange->response, &source_ops, NULL);
    wr_message_head(&exchange->response, head, head->tunnel != WR_TUNNEL_NONE ? 0 : WR_HEAD_LAST);
    if (head->tunnel != WR_TUNNEL_NONE)
        wr_message_put(&exchange->response, "tunnel", 6);
}

static void on_exchange(void *owner, struct wr_exchange *exchange)
{
    struct run *run = owner;
    if (exchange->refused != WR_OK) {
        answer(exchange, wr_err_info(exchange->refused)->http_status);
        return;
    }
    attach(run, exchange, &exchange->request);
    if (exchange->request.head->tunnel != WR_TUNNEL_NONE)
        answer(exchange, exchange->request.head->path.n % 2 == 0 ? 200 : 403);
}

static void nothing(void *owner)
{
    (void)owner;
}

static void on_done(void *owner, enum wr_err why)
{
    struct run *run = owner;
    run->server->ops->close(run->server, why);
    run->server = NULL;
    wr_transport_close(run->transport);
    run->transport = NULL;
}

static const struct wr_server_codec_events server_events = {
    .exchange = on_exchange,
    .head_begun = nothing,
    .head_complete = nothing,
    .idle = nothing,
    .done = on_done,
    .woken = nothing,
};

/* ---- client ---- */

static void close_client(struct run *run)
{
    if (run->transport == NULL)
        return;
    if (run->client != NULL)
        run->client->ops->close(run->client, WR_ERR_CANCELLED);
    wr_transport_close(run->transport);
    run->transport = NULL;
}

static void on_stream_closed(void *owner, bool reusable)
{
    struct run *run = owner;
    run->spent |= !reusable;
}

static void on_broken(void *owner, enum wr_err why)
{
    (void)why;
    close_client(owner);
}

static void on_limit_told(void *owner, unsigned limit)
{
    (void)owner;
    (void)limit;
}

static const struct wr_client_codec_events client_events = {
    .stream_closed = on_stream_closed,
    .broken = on_broken,
    .limit_told = on_limit_told,
};

static void ask(struct run *run, unsigned i, unsigned kind)
{
    static const char *const methods[] = {"GET", "HEAD", "POST", "CONNECT"};
    struct wr_exchange *exchange = wr_exchange_open(&world.host, &world.client_info);
    struct wr_head *head = wr_arena_alloc(&exchange->arena, sizeof(*head));
    wr_head_init(head);
    head->method_text = wr_str_from(methods[kind]);
    head->method = wr_method_lookup(head->method_text);
    head->scheme = WR_STR("http");
    head->authority = WR_STR("a.test");
    head->path = WR_STR("/");
    head->tunnel = kind == 3 ? WR_TUNNEL_CONNECT : WR_TUNNEL_NONE;
    head->content_length = kind < 2 ? 0 : WR_LENGTH_UNKNOWN;
    run->asked[i] = exchange;
    if (kind >= 2)
        wr_message_set_source(&exchange->request, &source_ops, NULL);
    wr_message_head(&exchange->request, head, kind < 2 ? WR_HEAD_LAST : 0);
    attach(run, exchange, &exchange->response);
    run->client->ops->open(run->client, exchange);
}

static void on_established(void *owner)
{
    struct run *run = owner;
    run->client =
        wr_h2_client_new(run->transport, &world.client_options, world.loop, &client_events, run);
}

static const struct wr_transport_events connect_events = {.established = on_established};
static const struct wr_transport_events no_events = {0};

/* ---- the world ---- */

static void make_world(void)
{
    struct wr_h2_options h2 = {
        .max_concurrent_streams = 100000,
        .connection_window = 65535,
        .stream_window_max = 4 * MOST_INPUT,
        .header_table_size = 4096,
        .stream_window = 65536,
        .ping_interval = WR_NEVER,
        .ping_timeout = WR_NEVER,
    };
    if (world.loop != NULL)
        return;
    for (unsigned i = 0; i < WR_FLOOD__COUNT; i++)
        h2.budgets[i] = (struct wr_h2_budget){UINT32_MAX, 0};
    MUST(wr_loop_new(WR_CLOCK_SIMULATED, &world.loop) == WR_OK);
    MUST(wr_transport_host_new(world.loop, NULL, &world.transports) == WR_OK);
    wr_exchange_host_init(&world.host);
    world.host.loop = world.loop;
    world.host.chunks = wr_transport_host_chunks(world.transports);
    world.host.worker_metrics = &world.worker_metrics;
    world.host.metrics = &world.listener_metrics;
    world.host.content_limit = MOST_INPUT;
    world.client_info = (struct wr_client_info){
        .listener = WR_STR_EMPTY,
        .address_slice = WR_STR_EMPTY,
        .host_slice = WR_STR_EMPTY,
        .tls_version = "",
    };
    world.server_options = (struct wr_server_codec_options){
        .head_limit = 2048,
        .uri_limit = 512,
        .fields_limit = 16,
        .head_timeout = WR_NEVER,
        .max_requests = UINT64_MAX,
        .h2 = h2,
    };
    world.client_options =
        (struct wr_client_codec_options){.head_limit = 2048, .fields_limit = 16, .h2 = h2};
}

static void turns(struct run *run, int peer)
{
    char heard[4096];
    for (unsigned quiet = 0; quiet < 2; quiet++) {
        uint64_t before = run->transport != NULL ? wr_transport_bytes_received(run->transport) : 0;
        wr_loop_turn(world.loop, 0);
        while (recv(peer, heard, sizeof(heard), MSG_DONTWAIT) > 0) {
        }
        if (run->transport != NULL && wr_transport_bytes_received(run->transport) != before)
            quiet = 0;
    }
}

static void say(struct run *run, int peer, const void *p, size_t n)
{
    if (run->transport != NULL && n > 0)
        (void)!send(peer, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);
    turns(run, peer);
    if (!run->sleeps || run->transport == NULL)
        return;
    if (run->server != NULL)
        (void)run->server->ops->hibernate(run->server);
    if (run->client != NULL)
        (void)run->client->ops->hibernate(run->client);
}

static void begin(struct run *run, int fd, int peer, bool server, unsigned kinds)
{
    struct wr_transport_counters counters = {NULL, NULL};
    if (server) {
        MUST(wr_transport_accept(world.transports, fd, NULL, counters, &no_events, run,
                                 &run->transport) == WR_OK);
        run->server = wr_h2_server_new(run->transport, &world.server_options, &world.host,
                                       &world.client_info, &server_events, run);
        static const char preface[] = PREFACE "\0\0\0\4\0\0\0\0\0"  /* SETTINGS */
                                              "\0\0\0\4\1\0\0\0\0"; /* ACK */
        say(run, peer, preface, sizeof(preface) - 1);
        return;
    }
    MUST(wr_transport_adopt_client(world.transports, fd, NULL, counters, &connect_events, run,
                                   &run->transport) == WR_OK);
    turns(run, peer);
    for (unsigned i = 0; i < ASKED; i++)
        ask(run, i, (kinds >> (2 * i)) & 3);
    say(run, peer,
        "\0\0\0\4\0\0\0\0\0"
        "\0\0\0\4\1\0\0\0\0",
        18);
}

static void finish(struct run *run, int peer)
{
    if (run->server != NULL)
        on_done(run, WR_ERR_CANCELLED);
    close_client(run);
    for (unsigned i = 0; i < ASKED; i++) {
        if (run->asked[i] != NULL)
            wr_exchange_finish(run->asked[i], WR_OK);
    }
    close(peer);
    wr_loop_turn(world.loop, 0);
    MUST(world.worker_metrics.exchanges_active == 0);
    MUST(world.host.chunks->used_count == 0);
}

struct outcome {
    uint64_t hash;
    bool ended; /* the connection was, by either side */
};

static struct outcome go(const uint8_t *data, size_t n, size_t piece, bool server, unsigned kinds)
{
    struct run run = {.sleeps = piece < n};
    int fds[2];
    MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
    begin(&run, fds[0], fds[1], server, kinds);
    for (size_t at = 0; at < n; at += piece)
        say(&run, fds[1], data + at, n - at < piece ? n - at : piece);
    bool ended = run.transport == NULL || run.spent;
    finish(&run, fds[1]);
    return (struct outcome){run.hash, ended};
}

/* What may be GOAWAY: whether what comes behind it in the same turn still counts is chance. */
static bool says_goodbye(const uint8_t *data, size_t n)
{
    for (size_t i = 0; i + 6 <= n; i++) {
        if (data[i] == 7 && memcmp(data + i + 2, "\0\0\0\0", 4) == 0)
            return true;
    }
    return false;
}

static void both(const uint8_t *data, size_t n, size_t piece, bool server, unsigned kinds)
{
    make_world();
    if (n == 0 || n > MOST_INPUT)
        return;
    struct outcome whole = go(data, n, n, server, kinds);
    struct outcome cut = go(data, n, piece, server, kinds);
    /* An upstream that goes on after it has ended a stream whose request we cancel: a connection error before our RST_STREAM
     * is out, to be ignored after it (RFC 9113 section 5.1). So where a connection ends may depend on the turn. */
    if (!server && (whole.ended || cut.ended))
        return;
    MUST(whole.hash == cut.hash || says_goodbye(data, n));
}

void h2_fuzz_server(const uint8_t *data, size_t size)
{
    if (size > 1)
        both(data + 1, size - 1, (size_t)data[0] % 64 + 1, true, 0);
}

void h2_fuzz_client(const uint8_t *data, size_t size)
{
    if (size > 2)
        both(data + 2, size - 2, (size_t)data[0] % 64 + 1, false, data[1]);
}
