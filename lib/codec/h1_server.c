/* Life and endings. */
#include "codec/h1_server.h"

#include "base/compiler.h"
#include "codec/h1_server_internal.h"

static struct wr_h1_server *of(struct wr_server_codec *codec)
{
    return WR_CONTAINER_OF(codec, struct wr_h1_server, base);
}

/* ---- endings ---- */

void wr_h1_server_end(struct wr_h1_server *server)
{
    server->over = true;
    wr_transport_end(server->transport);
    wr_transport_discard_input(server->transport);
    server->events->done(server->owner, WR_OK);
}

static void finish_exchange(struct wr_h1_server *server, enum wr_err why)
{
    struct wr_exchange *exchange = server->exchange;
    server->exchange = NULL;
    server->response = WR_H1_RESPONSE_NONE;
    if (exchange != NULL)
        wr_exchange_finish(exchange, why);
}

void wr_h1_server_give_up(struct wr_h1_server *server, enum wr_err why)
{
    server->over = true;
    finish_exchange(server, why);
    if (!server->released)
        server->events->done(server->owner, why);
}

void wr_h1_server_forgo_rest(struct wr_h1_server *server)
{
    server->over = true;
    finish_exchange(server, WR_OK);
    if (!server->released)
        wr_h1_server_end(server);
}

void wr_h1_server_next(struct wr_h1_server *server)
{
    finish_exchange(server, WR_OK);
    if (server->over)
        return;
    server->request = WR_H1_REQUEST_NONE;
    server->began = WR_NEVER;
    wr_h1_reader_next(&server->reader);
    wr_transport_resume(server->transport, WR_PAUSE_BUSY | WR_PAUSE_FULL);
    server->events->idle(server->owner);
}

/* The exchange goes on until the rest of the request has come, which goes to whoever has not said that it is unwanted: its deadline
 * is the one that holds, and the owner is told of idleness only where a new head may begin. */
void wr_h1_server_response_done(struct wr_h1_server *server)
{
    if (!server->keep || server->draining || server->request == WR_H1_REQUEST_REFUSED)
        wr_h1_server_forgo_rest(server);
    else if (server->request == WR_H1_REQUEST_WHOLE)
        wr_h1_server_next(server);
    else
        server->response = WR_H1_RESPONSE_DONE;
}

/* WHY is blamed already. A client that has its response has lost nothing; one in a tunnel has. */
static void expired(void *owner, enum wr_err why)
{
    struct wr_h1_server *server = owner;
    if (server->request == WR_H1_REQUEST_TUNNEL)
        wr_h1_server_give_up(server, why);
    else
        wr_h1_server_forgo_rest(server);
}

static void request_over(void *owner)
{
    wr_h1_server_tunnel_passed_on(owner);
}

const struct wr_exchange_owner wr_h1_server_owner_ops = {
    .expired = expired,
    .request_over = request_over,
};

_Static_assert(sizeof(struct wr_h1_server) <= WR_CODEC_ROOM, "it is lent no more");

/* ---- what the owner asks ---- */

static void timed_out(struct wr_server_codec *codec, enum wr_err why)
{
    struct wr_h1_server *server = of(codec);
    (void)why;
    if (server->over || server->exchange != NULL)
        return;
    if (server->reader.state == WR_H1_HEAD)
        wr_h1_server_refuse(server, WR_ERR_REQUEST_HEADER_TIMEOUT);
    else
        wr_h1_server_end(server);
}

static void drain(struct wr_server_codec *codec)
{
    struct wr_h1_server *server = of(codec);
    server->draining = true;
    bool idle = server->request == WR_H1_REQUEST_NONE && wr_h1_reader_is_idle(&server->reader);
    if (server->over)
        return;
    if (server->response == WR_H1_RESPONSE_DONE && !wr_h1_server_is_tunnel(server))
        wr_h1_server_forgo_rest(server);
    else if (idle)
        wr_h1_server_end(server);
}

/* All that a new one would not know is told by the owner. The end of a line that belongs to no request yet is unread, too. */
static enum wr_hibernation hibernate(struct wr_server_codec *codec)
{
    const struct wr_h1_server *server = of(codec);
    bool idle = !server->over && server->exchange == NULL &&
                server->request == WR_H1_REQUEST_NONE && wr_h1_reader_is_fresh(&server->reader) &&
                wr_transport_output(server->transport) == 0 &&
                wr_transport_is_quiet(server->transport);
    return idle ? WR_HIBERNATION_DROP : WR_HIBERNATION_BUSY;
}

static void release(struct wr_garbage *garbage)
{
    struct wr_h1_server *server = WR_CONTAINER_OF(garbage, struct wr_h1_server, garbage);
    wr_h1_reader_clear(&server->reader);
    wr_h1_writer_clear(&server->writer);
    wr_transport_host_return(server->lender, server);
}

static void close_codec(struct wr_server_codec *codec, enum wr_err why)
{
    struct wr_h1_server *server = of(codec);
    if (server->released)
        return;
    server->released = true;
    server->over = true;
    finish_exchange(server, why);
    wr_loop_release(server->host->loop, &server->garbage, release);
}

static const struct wr_server_codec_ops ops = {
    .name = "HTTP/1.1",
    .timed_out = timed_out,
    .drain = drain,
    .hibernate = hibernate,
    .close = close_codec,
};

struct wr_server_codec *wr_h1_server_new(struct wr_transport *transport,
                                         const struct wr_server_codec_options *options,
                                         struct wr_exchange_host *host,
                                         const struct wr_client_info *client,
                                         const struct wr_server_codec_events *events, void *owner)
{
    struct wr_transport_host *lender = wr_transport_host_of(transport);
    struct wr_h1_server *server = wr_transport_host_lend(lender);
    struct wr_h1_limits limits = {
        .head = options->head_limit,
        .target = options->uri_limit,
        .fields = options->fields_limit,
        .chunk_overhead = options->chunk_overhead,
        .underscores = options->underscores,
    };
    server->base.ops = &ops;
    server->transport = transport;
    server->lender = lender;
    server->options = options;
    server->host = host;
    server->client = client;
    server->events = events;
    server->owner = owner;
    server->requests = client->requests;
    server->began = WR_NEVER;
    server->websocket_key = WR_STR_EMPTY;
    wr_h1_reader_init(&server->reader, true, &limits);
    wr_h1_writer_init(&server->writer, transport, host->chunks);
    wr_transport_set_events(transport, &wr_h1_server_transport_events, server);
    return &server->base;
}
