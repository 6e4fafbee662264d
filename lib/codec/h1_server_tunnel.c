/* Tunnels towards clients (RFC 9110 sections 7.8, 9.3.6): from the response head on, bytes are bytes in both directions, and each
 * direction ends by itself. */
#include "codec/h1_server_internal.h"
#include "codec/h1_websocket.h"

static bool is_response_over(const struct wr_h1_server *server)
{
    return server->response == WR_H1_RESPONSE_DONE;
}

bool wr_h1_server_is_tunnel(const struct wr_h1_server *server)
{
    const struct wr_head *head = server->exchange != NULL ? server->exchange->response.head : NULL;
    return head != NULL && head->tunnel != WR_TUNNEL_NONE;
}

/* The exchange is over when both directions are, and the upstream has all that came. */
static void settle(struct wr_h1_server *server)
{
    if (server->over || server->request == WR_H1_REQUEST_TUNNEL || !is_response_over(server) ||
        !wr_message_is_over(&server->exchange->request))
        return;
    wr_h1_server_forgo_rest(server);
}

void wr_h1_server_tunnel_passed_on(struct wr_h1_server *server)
{
    if (wr_h1_server_is_tunnel(server))
        settle(server);
}

/* ---- begin ---- */

static void write_acceptance(struct wr_h1_server *server, struct wr_head *head)
{
    struct wr_exchange *exchange = server->exchange;
    struct wr_h1_response_options options = {
        .framing = WR_H1_BY_CLOSE,
        .length = -1,
        .connection = WR_STR_EMPTY,
        .upgrade = WR_STR_EMPTY,
        .date = wr_date_text(wr_loop_wall(server->host->loop)),
    };
    if (head->tunnel == WR_TUNNEL_UPGRADE) {
        head->status = 101; /* as the access log shows it */
        options.connection = WR_STR("upgrade");
        options.upgrade = exchange->request.head->protocol;
    }
    if (wr_h1_is_websocket(exchange->request.head)) {
        wr_fields_remove(&head->fields, WR_FIELD_SEC_WEBSOCKET_ACCEPT);
        wr_fields_add_known(&head->fields, &exchange->arena, WR_FIELD_SEC_WEBSOCKET_ACCEPT,
                            wr_h1_websocket_accept(server->websocket_key, &exchange->arena));
    }
    wr_h1_write_response(&server->writer, head, &options);
}

void wr_h1_server_accept_tunnel(struct wr_h1_server *server, struct wr_head *head)
{
    write_acceptance(server, head);
    server->keep = false;
    server->response = WR_H1_RESPONSE_CONTENT;
    server->request = WR_H1_REQUEST_TUNNEL;
    if (server->client_ended)
        wr_h1_server_tunnel_ended(server, true);
    else
        wr_transport_resume(server->transport, WR_PAUSE_BUSY);
}

/* What was sent in the hope of a tunnel would be read as requests: after CONNECT nothing is. An Upgrade that is declined is a request
 * like any other, and its sender knows that (behaviour row 26). */
void wr_h1_server_decline_tunnel(struct wr_h1_server *server)
{
    if (server->exchange->request.head->method == WR_METHOD_CONNECT)
        server->keep = false;
    server->request = WR_H1_REQUEST_WHOLE;
}

/* ---- from the client ---- */

size_t wr_h1_server_tunnel_read(struct wr_h1_server *server, const uint8_t *p, size_t n)
{
    size_t room = wr_message_room(&server->exchange->request);
    size_t taken = n < room ? n : room;
    if (taken < n)
        wr_transport_pause(server->transport, WR_PAUSE_FULL);
    wr_message_put(&server->exchange->request, p, taken);
    return server->request == WR_H1_REQUEST_TUNNEL ? taken : n;
}

/* Without close_notify nobody knows whether that was all; it matters as long as anything can still be said about it. */
void wr_h1_server_tunnel_ended(struct wr_h1_server *server, bool clean)
{
    if (!clean && !is_response_over(server)) {
        wr_h1_server_give_up(server, WR_ERR_TLS_TRUNCATED);
        return;
    }
    server->request = WR_H1_REQUEST_WHOLE;
    wr_message_end(&server->exchange->request, NULL);
    settle(server);
}

/* ---- from the messages ---- */

void wr_h1_server_tunnel_stopped(struct wr_h1_server *server)
{
    server->request = WR_H1_REQUEST_REFUSED;
    wr_transport_discard_input(server->transport);
    settle(server);
}

void wr_h1_server_tunnel_said(struct wr_h1_server *server)
{
    server->response = WR_H1_RESPONSE_DONE;
    wr_transport_end(server->transport);
    settle(server);
}
