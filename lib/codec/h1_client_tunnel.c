/* Tunnels towards upstreams (RFC 9110 sections 7.8, 9.3.6). A tunnel that ends before its time makes the connection a reset: there is no
 * framing that would tell a part from the whole. */
#include "codec/h1_client_internal.h"
#include "codec/h1_websocket.h"

/* ---- asking ---- */

/* The request as it goes out; for WebSocket with a key of our own instead of one that came with it. */
static const struct wr_head *head_to_send(struct wr_h1_client *client, const struct wr_head *head)
{
    struct wr_arena *arena = &client->exchange->arena;
    if (!wr_h1_is_websocket(head))
        return head;
    struct wr_head *own = wr_head_clone(head, arena);
    struct wr_str key = wr_h1_websocket_new_key(arena);
    wr_fields_remove(&own->fields, WR_FIELD_SEC_WEBSOCKET_KEY);
    wr_fields_add_known(&own->fields, arena, WR_FIELD_SEC_WEBSOCKET_KEY, key);
    client->websocket_accept = wr_h1_websocket_accept(key, arena);
    return own;
}

void wr_h1_client_ask(struct wr_h1_client *client, const struct wr_head *head)
{
    client->asked = true;
    client->sending = WR_H1_SENDING_ASKING;
    wr_h1_write_request(&client->writer, head_to_send(client, head), WR_H1_BY_NOTHING);
}

bool wr_h1_client_is_accepted(struct wr_h1_client *client, struct wr_head *head)
{
    if (!wr_h1_is_websocket(client->exchange->request.head))
        return true;
    bool accepted = wr_h1_websocket_is_accepted(&head->fields, client->websocket_accept);
    wr_fields_remove(&head->fields, WR_FIELD_SEC_WEBSOCKET_ACCEPT);
    return accepted;
}

void wr_h1_client_begin_tunnel(struct wr_h1_client *client)
{
    client->tunnel = true;
    client->sending = WR_H1_SENDING_OPEN;
    client->writer.framing = WR_H1_BY_CLOSE;
    wr_transport_spoil(client->transport); /* until both directions have ended */
}

/* ---- ends ---- */

static void settle(struct wr_h1_client *client)
{
    if (client->receiving || client->sending != WR_H1_SENDING_WHOLE)
        return;
    wr_transport_unspoil(client->transport);
    wr_h1_client_drop(client);
}

void wr_h1_client_tunnel_said(struct wr_h1_client *client)
{
    client->sending = WR_H1_SENDING_WHOLE;
    wr_transport_end(client->transport);
    settle(client);
}

void wr_h1_client_tunnel_ended(struct wr_h1_client *client, bool clean)
{
    struct wr_exchange *exchange = client->exchange;
    if (!clean) {
        wr_h1_client_fail(client, WR_ERR_RESPONSE_INCOMPLETE);
        return;
    }
    client->receiving = false;
    wr_message_end(&exchange->response, NULL);
    if (client->exchange == exchange)
        settle(client);
}

/* ---- from the upstream ---- */

size_t wr_h1_client_tunnel_read(struct wr_h1_client *client, const char *p, size_t n)
{
    struct wr_exchange *exchange = client->exchange;
    size_t room = wr_message_room(&exchange->response);
    size_t taken = n < room ? n : room;
    if (taken < n)
        wr_transport_pause(client->transport, WR_PAUSE_FULL);
    wr_message_put(&exchange->response, p, taken);
    return client->exchange == exchange ? taken : n;
}
