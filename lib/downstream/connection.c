/* States, deadlines and serving. */
#include "downstream/connection.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/compiler.h"
#include "base/mem.h"
#include "codec/h1_server.h"
#include "codec/h2_server.h"

/* ---- the table of states ---- */

enum since { SINCE_ACCEPT, SINCE_ENTRY };

#define TIMEOUT(name) offsetof(struct wr_downstream_timeouts, name)
#define GAUGE(name) offsetof(struct wr_listener_metrics, name)
#define NONE SIZE_MAX

/* Where a state's deadline and gauge come from, and what its end is called: a REFUSAL of one not served, an error else. */
static const struct phase {
    size_t timeout;
    enum since since;
    size_t gauge;
    enum wr_err why;
    enum wr_refusal refusal;
} phases[WR_CONNECTION__COUNT] = {
    [WR_CONNECTION_SILENT] = {TIMEOUT(client_hello), SINCE_ACCEPT, GAUGE(connections_silent),
                              WR_ERR_CLIENT_HELLO_TIMEOUT, WR_REFUSAL_CLIENT_HELLO_TIMEOUT},
    [WR_CONNECTION_WAITING] = {TIMEOUT(handshake), SINCE_ACCEPT, GAUGE(handshakes_waiting),
                               WR_ERR_HANDSHAKE_TIMEOUT, WR_REFUSAL_HANDSHAKE_TIMEOUT},
    [WR_CONNECTION_HANDSHAKING] = {TIMEOUT(handshake), SINCE_ACCEPT, GAUGE(handshakes_running),
                                   WR_ERR_HANDSHAKE_TIMEOUT, WR_REFUSAL_HANDSHAKE_TIMEOUT},
    [WR_CONNECTION_IDLE] = {TIMEOUT(keep_alive), SINCE_ENTRY, GAUGE(connections_idle),
                            WR_ERR_KEEP_ALIVE_TIMEOUT, WR_REFUSAL__COUNT},
    [WR_CONNECTION_HIBERNATED] = {TIMEOUT(keep_alive), SINCE_ENTRY, GAUGE(connections_idle),
                                  WR_ERR_KEEP_ALIVE_TIMEOUT, WR_REFUSAL__COUNT},
    [WR_CONNECTION_HEAD] = {TIMEOUT(request_header), SINCE_ENTRY, GAUGE(connections_active),
                            WR_ERR_REQUEST_HEADER_TIMEOUT, WR_REFUSAL__COUNT},
    /* The exchange has a deadline of its own. */
    [WR_CONNECTION_ACTIVE] = {NONE, SINCE_ENTRY, GAUGE(connections_active), WR_OK,
                              WR_REFUSAL__COUNT},
    [WR_CONNECTION_FLUSHING] = {TIMEOUT(inactivity), SINCE_ENTRY, GAUGE(connections_closing),
                                WR_ERR_CLIENT_READ_TIMEOUT, WR_REFUSAL__COUNT},
    [WR_CONNECTION_CLOSING] = {TIMEOUT(linger), SINCE_ENTRY, GAUGE(connections_closing), WR_OK,
                               WR_REFUSAL__COUNT},
    /* In no gauge: they were counted as refused when they were. */
    [WR_CONNECTION_REFUSING] = {TIMEOUT(client_hello), SINCE_ACCEPT, NONE, WR_OK,
                                WR_REFUSAL__COUNT},
    [WR_CONNECTION_REFUSED] = {TIMEOUT(linger), SINCE_ENTRY, NONE, WR_OK, WR_REFUSAL__COUNT},
};

static bool is_refused(enum wr_connection_state state)
{
    return state == WR_CONNECTION_REFUSING || state == WR_CONNECTION_REFUSED;
}

static void keep_gauge(struct wr_connection *connection, uint64_t change)
{
    if (connection->state == WR_CONNECTION_NONE || phases[connection->state].gauge == NONE)
        return;
    char *metrics = (char *)connection->downstream->env.metrics;
    wr_metric_add((_Atomic uint64_t *)(void *)(metrics + phases[connection->state].gauge), change);
}

/* It enters or leaves its state. */
static void count(struct wr_connection *connection, bool enters)
{
    struct wr_listener_metrics *metrics = connection->downstream->env.metrics;
    uint64_t change = enters ? 1 : UINT64_MAX;
    keep_gauge(connection, change);
    if (connection->state == WR_CONNECTION_HIBERNATED) {
        wr_metric_add(&metrics->connections_hibernated, change);
        wr_metric_inc(enters ? &metrics->hibernations : &metrics->wakes);
    }
    connection->downstream->refused += is_refused(connection->state) ? change : 0;
}

static bool is_served(enum wr_connection_state state)
{
    return state >= WR_CONNECTION_IDLE && state <= WR_CONNECTION_CLOSING;
}

static uint64_t timeout_of(const struct wr_connection *connection, enum wr_connection_state state)
{
    if (phases[state].timeout == NONE)
        return WR_NEVER;
    const char *timeouts = (const char *)&connection->downstream->options->timeouts;
    uint64_t timeout;
    memcpy(&timeout, timeouts + phases[state].timeout, sizeof(timeout));
    return timeout;
}

/* The state whose row says when STATE ends, and why: a handshake's time runs from accept, so it may be over before the
 * ClientHello is whole. */
static const struct phase *ending(const struct wr_connection *connection)
{
    enum wr_connection_state state = connection->state;
    if (state == WR_CONNECTION_SILENT && timeout_of(connection, WR_CONNECTION_HANDSHAKING) <
                                             timeout_of(connection, WR_CONNECTION_SILENT))
        state = WR_CONNECTION_HANDSHAKING;
    return &phases[state];
}

static uint64_t phase_end(const struct wr_connection *connection)
{
    const struct phase *phase = ending(connection);
    uint64_t from = phase->since == SINCE_ACCEPT ? connection->accepted
                                                 : wr_loop_now(connection->downstream->env.loop);
    return wr_time_add(from, timeout_of(connection, (enum wr_connection_state)(phase - phases)));
}

static uint64_t sooner(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

void wr_connection_arm(struct wr_connection *connection)
{
    uint64_t at = connection->phase_ends;
    if (is_served(connection->state))
        at = sooner(at, connection->serving.retires);
    if (connection->state == WR_CONNECTION_IDLE)
        at = sooner(at, connection->serving.hibernates);
    wr_loop_deadline_set(connection->downstream->env.loop, &connection->deadline, at);
}

/* Whether one in state FROM is no less idle in state TO, so that its time runs on. */
static bool stays_idle(enum wr_connection_state from, enum wr_connection_state to)
{
    return (from == WR_CONNECTION_IDLE && to == WR_CONNECTION_HIBERNATED) ||
           (from == WR_CONNECTION_HIBERNATED && to == WR_CONNECTION_IDLE);
}

/* Lists of those that are idle have in front who has been so for longest: one that is woken, or sleeps again after that, has not
 * begun anew. */
static void place(struct wr_connection *connection, bool goes_on)
{
    struct wr_list *list = &connection->downstream->lists[connection->state];
    if (goes_on && !wr_list_empty(list) &&
        WR_CONTAINER_OF(list->prev, struct wr_connection, link)->serving.idle_since >
            connection->serving.idle_since)
        wr_list_push_front(list, &connection->link);
    else
        wr_list_push_back(list, &connection->link);
}

void wr_connection_set_state(struct wr_connection *connection, enum wr_connection_state state)
{
    struct wr_downstream *downstream = connection->downstream;
    WR_ASSERT(state < WR_CONNECTION__COUNT);
    bool goes_on = stays_idle(connection->state, state);
    count(connection, false);
    connection->state = state;
    count(connection, true);
    wr_list_remove(&connection->link);
    place(connection, goes_on);
    if (!goes_on)
        connection->phase_ends = phase_end(connection);
    if (state == WR_CONNECTION_IDLE && !goes_on)
        connection->serving.idle_since = wr_loop_now(downstream->env.loop);
    if (state == WR_CONNECTION_IDLE)
        connection->serving.hibernates = wr_time_add(wr_loop_now(downstream->env.loop),
                                                     downstream->options->timeouts.hibernate_after);
    wr_connection_arm(connection);
}

/* ---- deadlines ---- */

static void blame(struct wr_connection *connection, enum wr_err why)
{
    if (connection->ended == WR_OK)
        connection->ended = why;
}

static void phase_expired(struct wr_connection *connection)
{
    const struct phase *phase = ending(connection);
    struct wr_server_codec *codec = is_served(connection->state) ? connection->serving.codec : NULL;
    switch (connection->state) {
    case WR_CONNECTION_SILENT:
    case WR_CONNECTION_WAITING:
    case WR_CONNECTION_HANDSHAKING:
        wr_gate_refuse(connection,
                       (struct wr_gate_refusal){.reason = phase->refusal, .how = WR_REFUSE_CLOSE});
        return;
    case WR_CONNECTION_IDLE:
    case WR_CONNECTION_HIBERNATED:
    case WR_CONNECTION_HEAD:
        blame(connection, phase->why);
        /* Again, unless that leads elsewhere: a client that does not read may not even take a GOAWAY. */
        connection->phase_ends = phase_end(connection);
        wr_connection_arm(connection);
        if (codec != NULL)
            codec->ops->timed_out(codec, phase->why);
        else
            wr_sniff_end(connection);
        return;
    case WR_CONNECTION_REFUSING:
    case WR_CONNECTION_REFUSED:
        wr_connection_destroy(connection);
        return;
    case WR_CONNECTION_FLUSHING:
        if (wr_transport_bytes_sent(connection->transport) != connection->serving.sent_seen)
            wr_linger_begin(connection); /* slow, but it reads */
        else
            wr_connection_end(connection, phase->why);
        return;
    default:
        wr_connection_end(connection, phase->why);
    }
}

static void on_deadline(struct wr_deadline *deadline, uint64_t now)
{
    struct wr_connection *connection = WR_CONTAINER_OF(deadline, struct wr_connection, deadline);
    wr_metric_inc(&connection->downstream->env.worker_metrics->deadlines_fired);
    if (now >= connection->phase_ends) {
        connection->phase_ends = WR_NEVER;
        phase_expired(connection);
    } else if (is_served(connection->state) && now >= connection->serving.retires) {
        connection->serving.retires = WR_NEVER;
        wr_connection_arm(connection);
        wr_connection_drain(connection);
    } else {
        wr_connection_hibernate(connection);
    }
}

/* Up to a tenth earlier, spread over connections: those that came together in a storm do not all come back together. */
static uint64_t retirement(const struct wr_connection *connection)
{
    uint64_t age = connection->downstream->options->timeouts.max_connection_age;
    if (age == WR_NEVER)
        return WR_NEVER;
    uint64_t mixed =
        (connection->accepted ^ (uint64_t)(uintptr_t)connection) * UINT64_C(0x9e3779b97f4a7c15);
    uint64_t earlier = age / 10 * (mixed >> 48) >> 16;
    return wr_time_add(wr_loop_now(connection->downstream->env.loop), age - earlier);
}

/* ---- life ---- */

struct wr_connection *wr_connection_new(struct wr_downstream *downstream,
                                        const struct wr_address *peer)
{
    struct wr_connection *connection = wr_slab_take(&downstream->connections);
    wr_list_init(&connection->link);
    connection->downstream = downstream;
    wr_deadline_init(&connection->deadline, on_deadline);
    connection->phase_ends = WR_NEVER;
    connection->accepted = wr_loop_now(downstream->env.loop);
    wr_ticket_init(&connection->ticket);
    connection->peer = wr_address_pack(peer);
    connection->state = WR_CONNECTION_NONE;
    downstream->count++;
    return connection;
}

enum wr_err wr_connection_open(struct wr_connection *connection, int fd,
                               const struct wr_transport_events *events)
{
    const struct wr_downstream *downstream = connection->downstream;
    struct wr_listener_metrics *metrics = downstream->env.metrics;
    struct wr_transport_counters counters = {&metrics->bytes_received, &metrics->bytes_sent};
    enum wr_err err = wr_transport_accept(downstream->env.transports, fd, downstream->options->tls,
                                          counters, events, connection, &connection->transport);
    if (err != WR_OK)
        close(fd);
    return err;
}

static void release(struct wr_garbage *garbage)
{
    struct wr_connection *connection = WR_CONTAINER_OF(garbage, struct wr_connection, garbage);
    struct wr_downstream *downstream = connection->downstream;
    if (connection->was_served)
        wr_slab_give(&downstream->clients, connection->serving.client);
    wr_slab_give(&downstream->connections, connection);
}

void wr_connection_destroy(struct wr_connection *connection)
{
    struct wr_downstream *downstream = connection->downstream;
    count(connection, false);
    connection->was_served = is_served(connection->state);
    connection->state = WR_CONNECTION_NONE;
    wr_list_remove(&connection->link);
    downstream->count--;
    wr_loop_deadline_remove(downstream->env.loop, &connection->deadline);
    wr_transport_close(connection->transport);
    wr_loop_release(downstream->env.loop, &connection->garbage, release);
}

static void close_codec(struct wr_connection *connection, enum wr_err why)
{
    struct wr_server_codec *codec = connection->serving.codec;
    if (codec == NULL)
        return;
    connection->serving.codec = NULL;
    connection->serving.retires = WR_NEVER;
    codec->ops->close(codec, why);
}

static bool is_idle(const struct wr_connection *connection)
{
    return connection->state == WR_CONNECTION_IDLE || connection->state == WR_CONNECTION_HIBERNATED;
}

void wr_connection_end(struct wr_connection *connection, enum wr_err why)
{
    struct wr_listener_metrics *metrics = connection->downstream->env.metrics;
    blame(connection, why);
    close_codec(connection, connection->ended != WR_OK ? connection->ended : WR_ERR_CANCELLED);
    wr_metric_inc(&metrics->connections_closed);
    wr_metric_inc(&metrics->connections_ended[connection->ended]);
    /* Whoever got a part must not take it for the whole; of what was said in this turn it gets what there is. */
    if (why != WR_OK && !is_idle(connection)) {
        wr_transport_flush(connection->transport);
        wr_transport_reset(connection->transport);
    }
    wr_connection_destroy(connection);
}

void wr_connection_part(struct wr_connection *connection, enum wr_err why)
{
    close_codec(connection, why);
    wr_transport_end(connection->transport);
    wr_transport_flush(connection->transport);
    wr_connection_end(connection, why);
}

void wr_connection_drain(struct wr_connection *connection)
{
    connection->last_request = true;
    struct wr_server_codec *codec = connection->serving.codec;
    if (codec != NULL)
        codec->ops->drain(codec);
    else if (is_idle(connection))
        wr_sniff_end(connection);
}

/* ---- what the codec says ---- */

static void on_exchange(void *owner, struct wr_exchange *exchange)
{
    struct wr_connection *connection = owner;
    struct wr_proxy *proxy = connection->downstream->proxy;
    struct wr_server_codec *codec = connection->serving.codec;
    connection->serving.requests++;
    /* It came in the middle of a drain: serve it, and say that it is the last. */
    if (connection->last_request)
        codec->ops->drain(codec);
    wr_proxy_start(proxy, exchange);
}

static void on_head_begun(void *owner)
{
    wr_connection_set_state(owner, WR_CONNECTION_HEAD);
}

static void on_head_complete(void *owner)
{
    wr_connection_set_state(owner, WR_CONNECTION_ACTIVE);
}

static void on_idle(void *owner)
{
    wr_connection_set_state(owner, WR_CONNECTION_IDLE);
}

static void on_done(void *owner, enum wr_err why)
{
    struct wr_connection *connection = owner;
    blame(connection, why);
    if (why != WR_OK) {
        wr_connection_end(connection, why);
        return;
    }
    close_codec(connection, WR_OK);
    wr_linger_begin(connection);
}

static void on_woken(void *owner)
{
    wr_connection_wake(owner);
}

static const struct wr_server_codec_events codec_events = {
    .exchange = on_exchange,
    .head_begun = on_head_begun,
    .head_complete = on_head_complete,
    .idle = on_idle,
    .done = on_done,
    .woken = on_woken,
};

/* ---- serving ---- */

/* ALPN names a codec (RFC 7301); the first row serves those that name none. */
static const struct {
    const char *alpn;
    struct wr_server_codec *(*make)(struct wr_transport *transport,
                                    const struct wr_server_codec_options *options,
                                    struct wr_exchange_host *host,
                                    const struct wr_client_info *client,
                                    const struct wr_server_codec_events *events, void *owner);
} codecs[] = {
    {"http/1.1", wr_h1_server_new},
    {"h2", wr_h2_server_new},
};

static uint8_t choose_codec(struct wr_str alpn)
{
    for (size_t i = 0; i < WR_COUNT_OF(codecs); i++) {
        if (wr_str_eq(alpn, wr_str_from(codecs[i].alpn)))
            return (uint8_t)i;
    }
    return 0;
}

static void name_client(struct wr_client_info *client)
{
    char text[WR_ADDRESS_TEXT];
    struct wr_str whole = wr_address_text(&client->address, false, text);
    size_t n = whole.n < sizeof(client->address_text) ? whole.n : sizeof(client->address_text);
    memcpy(client->address_text, whole.p, n);
    client->address_slice = wr_str(client->address_text, n);

    bool bracketed = n > 0 && client->address_text[0] == '[';
    struct wr_str host = wr_address_text(&client->address, true, text);
    const char *start = client->address_text + bracketed;
    size_t room = n - bracketed;
    client->host_slice = wr_str(start, host.n < room ? host.n : room);
}

static struct wr_client_info *make_client(struct wr_connection *connection)
{
    struct wr_downstream *downstream = connection->downstream;
    struct wr_client_info *client = wr_slab_take(&downstream->clients);
    struct wr_tls_info info = {.version = ""};
    client->tls = wr_transport_tls_info(connection->transport, &info);
    client->tls_version = info.version;
    client->listener = wr_str_from(downstream->options->name);
    client->requests = connection->serving.requests;
    wr_address_unpack(&connection->peer, &client->address);
    name_client(client);
    return client;
}

void wr_connection_make_codec(struct wr_connection *connection)
{
    struct wr_downstream *downstream = connection->downstream;
    struct wr_serving *serving = &connection->serving;
    serving->client = make_client(connection);
    serving->codec = codecs[connection->protocol].make(
        connection->transport, &downstream->options->codec, &downstream->exchanges, serving->client,
        &codec_events, connection);
}

void wr_connection_speak(struct wr_connection *connection, struct wr_str protocol)
{
    connection->protocol = choose_codec(protocol);
    wr_connection_make_codec(connection);
    wr_connection_set_state(connection, WR_CONNECTION_IDLE);
}

void wr_connection_serve(struct wr_connection *connection)
{
    struct wr_downstream *downstream = connection->downstream;
    struct wr_tls_info info = {.alpn = WR_STR_EMPTY};
    bool tls = wr_transport_tls_info(connection->transport, &info);
    connection->serving = (struct wr_serving){.retires = retirement(connection)};
    connection->last_request = downstream->draining;
    if (!tls && downstream->options->plain_http2)
        wr_sniff_begin(connection);
    else
        wr_connection_speak(connection, info.alpn);
}
