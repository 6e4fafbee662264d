/* Requests: from the transport to the message. */
#include "codec/h1_server_internal.h"
#include "codec/h1_websocket.h"

/* ---- exchanges ---- */

static struct wr_exchange *open_exchange(struct wr_h1_server *server)
{
    struct wr_exchange *exchange = wr_exchange_open(server->host, server->client);
    if (server->began != WR_NEVER)
        exchange->began = server->began;
    exchange->owner_ops = &wr_h1_server_owner_ops;
    exchange->owner = server;
    server->exchange = exchange;
    server->requests++;
    server->response = WR_H1_RESPONSE_WAITING;
    return exchange;
}

/* HEAD to the message, the exchange to the owner; nothing of the codec may be relied on after this. */
static void start_exchange(struct wr_h1_server *server, struct wr_head *head)
{
    struct wr_exchange *exchange = server->exchange;
    bool last = server->request != WR_H1_REQUEST_OPEN && server->request != WR_H1_REQUEST_ASKING;
    head->scheme = server->client->tls ? WR_STR("https") : WR_STR("http");
    exchange->protocol = head->version_minor > 0 ? WR_STR("HTTP/1.1") : WR_STR("HTTP/1.0");
    exchange->client_keeps = server->keep;
    if (!last)
        wr_message_set_source(&exchange->request, &wr_h1_server_source_ops, server);
    wr_message_attach(&exchange->response, &wr_h1_server_sink_ops, server);
    wr_message_head(&exchange->request, head, last ? WR_HEAD_LAST : 0);
    server->events->head_complete(server->owner);
    server->events->exchange(server->owner, exchange);
}

static void refuse_exchange(struct wr_h1_server *server, struct wr_head *head, enum wr_err err)
{
    server->exchange->refused = err;
    server->request = WR_H1_REQUEST_REFUSED;
    server->keep = false;
    server->expects = false;
    wr_transport_discard_input(server->transport);
    start_exchange(server, head);
}

void wr_h1_server_refuse(struct wr_h1_server *server, enum wr_err err)
{
    struct wr_exchange *exchange = open_exchange(server);
    struct wr_head *head = wr_arena_alloc(&exchange->arena, sizeof(*head));
    wr_h1_reader_partial_request(&server->reader, &exchange->arena, head);
    head->version_minor = 1; /* what it is answered in, if it was not told */
    refuse_exchange(server, head, err);
}

/* The request's head was read, and is fine. */
static enum wr_h1_request_state what_follows(const struct wr_h1_server *server,
                                             const struct wr_head *head)
{
    if (head->tunnel != WR_TUNNEL_NONE)
        return WR_H1_REQUEST_ASKING;
    return server->reader.state == WR_H1_OVER ? WR_H1_REQUEST_WHOLE : WR_H1_REQUEST_OPEN;
}

static void head_came(struct wr_h1_server *server)
{
    struct wr_exchange *exchange = open_exchange(server);
    struct wr_head *head = wr_arena_alloc(&exchange->arena, sizeof(*head));
    enum wr_err err = wr_h1_reader_request(&server->reader, &exchange->arena, head);
    if (err != WR_OK) {
        refuse_exchange(server, head, err);
        return;
    }
    server->keep = server->reader.keep_alive && !server->draining &&
                   server->requests < server->options->max_requests;
    server->expects = head->expect_continue;
    server->request = what_follows(server, head);
    if (wr_h1_is_websocket(head))
        (void)wr_h1_websocket_key(&head->fields, &server->websocket_key);
    start_exchange(server, head);
}

/* ---- content ---- */

static void content_came(struct wr_h1_server *server, struct wr_str content)
{
    server->expects = false;
    if (server->request == WR_H1_REQUEST_OPEN)
        wr_message_put(&server->exchange->request, content.p, content.n);
    else
        wr_exchange_progress(server->exchange);
}

static void content_ended(struct wr_h1_server *server)
{
    bool wanted = server->request == WR_H1_REQUEST_OPEN;
    bool answered = server->response == WR_H1_RESPONSE_DONE;
    server->request = WR_H1_REQUEST_WHOLE;
    if (wanted)
        wr_message_end(&server->exchange->request, server->reader.trailers);
    if (answered)
        wr_h1_server_next(server);
}

/* What came after the head is malformed. Whoever has the request passes that on to the response, if it has not begun. */
static void content_failed(struct wr_h1_server *server, enum wr_err err)
{
    bool wanted = server->request == WR_H1_REQUEST_OPEN;
    server->request = WR_H1_REQUEST_REFUSED;
    server->keep = false;
    wr_exchange_blame(server->exchange, err);
    if (server->response == WR_H1_RESPONSE_DONE) {
        wr_h1_server_forgo_rest(server);
        return;
    }
    wr_transport_discard_input(server->transport);
    if (wanted)
        wr_message_abort(&server->exchange->request, err);
}

static void failed(struct wr_h1_server *server)
{
    if (server->request == WR_H1_REQUEST_NONE)
        wr_h1_server_refuse(server, server->reader.err);
    else
        content_failed(server, server->reader.err);
}

/* ---- from the transport ---- */

/* Requests begun in one call. Those answered at once would else be answered as fast as they are read, one behind the other:
 * thousands of exchanges held until the end of the turn, while all other connections of the worker wait. */
#define REQUESTS_A_CALL 16

/* False: nothing is read now. A client that does not read its responses gets no more of them made. */
static bool may_read(struct wr_h1_server *server, struct wr_str *input)
{
    if (server->over || server->request == WR_H1_REQUEST_REFUSED) {
        input->n = 0;
        return false;
    }
    bool busy =
        server->request == WR_H1_REQUEST_WHOLE || server->request == WR_H1_REQUEST_ASKING ||
        (server->request == WR_H1_REQUEST_NONE && wr_transport_output_room(server->transport) == 0);
    if (busy && input->n > 0)
        wr_transport_pause(server->transport, WR_PAUSE_BUSY);
    return !busy;
}

static size_t room(const struct wr_h1_server *server)
{
    if (server->request == WR_H1_REQUEST_OPEN)
        return wr_message_room(&server->exchange->request);
    return SIZE_MAX;
}

/* False: enough for now. */
static bool read_on(struct wr_h1_server *server, struct wr_str *input)
{
    struct wr_str content;
    switch (wr_h1_reader_read(&server->reader, input, room(server), &content)) {
    case WR_H1_SAYS_MORE:
        return false;
    case WR_H1_SAYS_FULL:
        wr_transport_pause(server->transport, WR_PAUSE_FULL);
        return false;
    case WR_H1_SAYS_BEGUN:
        server->began = wr_loop_now(server->host->loop);
        server->events->head_begun(server->owner);
        return true;
    case WR_H1_SAYS_HEAD:
        head_came(server);
        return true;
    case WR_H1_SAYS_CONTENT:
        content_came(server, content);
        return true;
    case WR_H1_SAYS_END:
        content_ended(server);
        return true;
    case WR_H1_SAYS_FAILED:
        failed(server);
        return true;
    }
    return false;
}

static size_t on_readable(void *owner, const uint8_t *p, size_t n)
{
    struct wr_h1_server *server = owner;
    struct wr_str input = wr_str((const char *)p, n);
    if (server->request == WR_H1_REQUEST_TUNNEL && !server->over)
        return wr_h1_server_tunnel_read(server, p, n);
    uint64_t enough = server->requests + REQUESTS_A_CALL;
    while (may_read(server, &input) && read_on(server, &input)) {
        if (input.n > 0 && server->requests >= enough && wr_h1_reader_is_idle(&server->reader)) {
            /* The rest in the next turn, after what others have. */
            wr_transport_pause(server->transport, WR_PAUSE_BUSY);
            wr_transport_resume(server->transport, WR_PAUSE_BUSY);
            break;
        }
    }
    return n - input.n;
}

/* The client has said all: what it asked for whole is still answered (behaviour row 25). Lengths tell what is whole, so that a
 * missing close_notify (RFC 9112 section 9.8) changes only the name of the failure. */
static void on_read_end(void *owner, bool clean)
{
    struct wr_h1_server *server = owner;
    if (server->over)
        return;
    server->keep = false;
    server->client_ended = true;
    if (server->exchange == NULL)
        wr_h1_server_end(server);
    else if (server->request == WR_H1_REQUEST_TUNNEL)
        wr_h1_server_tunnel_ended(server, clean);
    else if (server->response == WR_H1_RESPONSE_DONE)
        wr_h1_server_forgo_rest(server);
    else if (server->request == WR_H1_REQUEST_OPEN)
        wr_h1_server_give_up(server, clean ? WR_ERR_CLIENT_CLOSED : WR_ERR_TLS_TRUNCATED);
    else if (server->request == WR_H1_REQUEST_UNWANTED)
        server->request = WR_H1_REQUEST_REFUSED;
}

static void on_writable(void *owner)
{
    struct wr_h1_server *server = owner;
    if (server->over)
        return;
    if (server->exchange != NULL)
        wr_exchange_progress(server->exchange);
    if (server->response == WR_H1_RESPONSE_CONTENT)
        wr_h1_server_pump(server);
    else if (server->request == WR_H1_REQUEST_NONE)
        wr_transport_resume(server->transport, WR_PAUSE_BUSY);
}

static void on_closed(void *owner, enum wr_err why, const char *detail)
{
    struct wr_h1_server *server = owner;
    (void)detail;
    if (!server->over)
        wr_h1_server_give_up(server, why);
}

const struct wr_transport_events wr_h1_server_transport_events = {
    .readable = on_readable,
    .read_end = on_read_end,
    .writable = on_writable,
    .closed = on_closed,
};

/* ---- from the message ---- */

static void on_room(void *source, size_t consumed)
{
    struct wr_h1_server *server = source;
    const struct wr_message *request = &server->exchange->request;
    (void)consumed;
    if (wr_message_room(request) >= request->limit / 2)
        wr_transport_resume(server->transport, WR_PAUSE_FULL);
}

static void on_stop(void *source, enum wr_err why)
{
    struct wr_h1_server *server = source;
    (void)why;
    if (server->request == WR_H1_REQUEST_TUNNEL) {
        wr_h1_server_tunnel_stopped(server);
        return;
    }
    if (server->request == WR_H1_REQUEST_OPEN)
        server->request = WR_H1_REQUEST_UNWANTED;
    else if (server->request == WR_H1_REQUEST_ASKING)
        wr_h1_server_decline_tunnel(server);
    wr_transport_resume(server->transport, WR_PAUSE_FULL);
}

const struct wr_source_ops wr_h1_server_source_ops = {
    .room = on_room,
    .stop = on_stop,
};
