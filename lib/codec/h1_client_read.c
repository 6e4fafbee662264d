/* Responses: from the transport to the message. */
#include "codec/h1_client_internal.h"

/* ---- head ---- */

/* False: enough, or the exchange is gone. */
static bool interim_came(struct wr_h1_client *client, struct wr_head *head)
{
    struct wr_exchange *exchange = client->exchange;
    if (++client->interim_heads > WR_H1_MOST_INTERIM_HEADS) {
        wr_h1_client_fail(client, WR_ERR_BAD_RESPONSE);
        return false;
    }
    wr_h1_reader_next(&client->reader);
    wr_message_head(&exchange->response, head, WR_HEAD_INTERIM);
    return client->exchange == exchange;
}

/* An answer before the request was whole is passed on at once (behaviour row 22). When it is no success, the rest of the request
 * is not wanted (RFC 9112 section 9.5), save to keep the connection; a success may be made of what is still to come. */
static void stop_early(struct wr_h1_client *client, struct wr_exchange *exchange, unsigned status)
{
    if (client->exchange != exchange || client->sending != WR_H1_SENDING_OPEN || status < 300 ||
        (client->reader.keep_alive && wr_h1_client_rest_is_short(client)))
        return;
    client->sending = WR_H1_SENDING_NOTHING;
    wr_message_stop(&exchange->request, WR_ERR_CANCELLED);
}

static bool acceptance_came(struct wr_h1_client *client, struct wr_head *head)
{
    struct wr_exchange *exchange = client->exchange;
    if (!wr_h1_client_is_accepted(client, head)) {
        wr_h1_client_fail(client, WR_ERR_BAD_RESPONSE);
        return false;
    }
    wr_h1_client_begin_tunnel(client);
    wr_message_head(&exchange->response, head, 0);
    return client->exchange == exchange;
}

static bool head_came(struct wr_h1_client *client, bool surplus)
{
    struct wr_exchange *exchange = client->exchange;
    struct wr_head *head = wr_arena_alloc(&exchange->arena, sizeof(*head));
    enum wr_err err =
        wr_h1_reader_response(&client->reader, &exchange->arena, exchange->request.head, head);
    if (err != WR_OK) {
        wr_h1_client_fail(client, err);
        return false;
    }
    if (head->status < 200)
        return interim_came(client, head);
    if (head->tunnel != WR_TUNNEL_NONE)
        return acceptance_came(client, head);

    bool last = client->reader.state == WR_H1_OVER;
    unsigned status = head->status;
    client->receiving = !last;
    wr_message_head(&exchange->response, head, last ? WR_HEAD_LAST : 0);
    if (client->exchange != exchange)
        return false;
    if (last) {
        wr_h1_client_response_done(client, surplus);
        return false;
    }
    stop_early(client, exchange, status);
    return client->exchange == exchange;
}

/* ---- content ---- */

static bool content_came(struct wr_h1_client *client, struct wr_str content)
{
    struct wr_exchange *exchange = client->exchange;
    wr_message_put(&exchange->response, content.p, content.n);
    return client->exchange == exchange;
}

static bool content_ended(struct wr_h1_client *client, bool surplus)
{
    struct wr_exchange *exchange = client->exchange;
    client->receiving = false;
    wr_message_end(&exchange->response, client->reader.trailers);
    if (client->exchange == exchange)
        wr_h1_client_response_done(client, surplus);
    return false;
}

/* ---- from the transport ---- */

/* False: enough for now. */
static bool read_on(struct wr_h1_client *client, struct wr_str *input)
{
    struct wr_str content;
    size_t room = wr_message_room(&client->exchange->response);
    switch (wr_h1_reader_read(&client->reader, input, room, &content)) {
    case WR_H1_SAYS_MORE:
        return false;
    case WR_H1_SAYS_BEGUN:
        return true;
    case WR_H1_SAYS_FULL:
        wr_transport_pause(client->transport, WR_PAUSE_FULL);
        return false;
    case WR_H1_SAYS_HEAD:
        return head_came(client, input->n > 0);
    case WR_H1_SAYS_CONTENT:
        return content_came(client, content);
    case WR_H1_SAYS_END:
        return content_ended(client, input->n > 0);
    case WR_H1_SAYS_FAILED:
        wr_h1_client_fail(client, client->reader.err);
        return false;
    }
    return false;
}

static void break_idle(struct wr_h1_client *client, enum wr_err why)
{
    client->dead = true;
    client->events->broken(client->owner, why);
}

/* Bytes on a connection just taken from the pool, of whose request not one is on the wire yet: meant for nobody, or for the next
 * who comes (behaviour row 23). As good as closed, and safe to try elsewhere. */
static bool is_answer_before_request(const struct wr_h1_client *client)
{
    return wr_h1_reader_is_idle(&client->reader) && client->interim_heads == 0 &&
           wr_transport_bytes_sent(client->transport) == client->sent_before;
}

static size_t on_readable(void *owner, const uint8_t *p, size_t n)
{
    struct wr_h1_client *client = owner;
    struct wr_str input = wr_str((const char *)p, n);
    if (client->dead)
        return n;
    if (client->exchange == NULL) {
        break_idle(client, WR_ERR_BAD_RESPONSE); /* behaviour row 23 */
        return n;
    }
    if (client->finishing) {
        wr_h1_client_fail(client,
                          WR_ERR_BAD_RESPONSE); /* after a response that was whole: likewise */
        return n;
    }
    if (is_answer_before_request(client)) {
        wr_h1_client_fail(client, WR_ERR_UPSTREAM_CLOSED);
        return n;
    }
    while (!client->tunnel && read_on(client, &input)) {
    }
    if (client->tunnel && client->exchange != NULL)
        return n - input.n + wr_h1_client_tunnel_read(client, input.p, input.n);
    /* What comes after a response, or on a connection that is spent, is nobody's. */
    return client->exchange == NULL ? n : n - input.n;
}

/* Why a response that ends here is not whole. Only one that has not begun may be asked for again (behaviour row 24). */
static enum wr_err cut_off(const struct wr_h1_client *client, enum wr_err before_first_byte)
{
    bool nothing_came = wr_h1_reader_is_idle(&client->reader) && client->interim_heads == 0;
    return nothing_came ? before_first_byte : WR_ERR_RESPONSE_INCOMPLETE;
}

static void on_read_end(void *owner, bool clean)
{
    struct wr_h1_client *client = owner;
    if (client->dead)
        return;
    if (client->exchange == NULL) {
        break_idle(client, WR_ERR_UPSTREAM_CLOSED);
        return;
    }
    if (client->tunnel) {
        wr_h1_client_tunnel_ended(client, clean);
        return;
    }
    enum wr_err why = cut_off(client, WR_ERR_UPSTREAM_CLOSED);
    /* Behaviour row 51: without close_notify nobody knows whether this was all. */
    if (clean && wr_h1_reader_finish(&client->reader))
        (void)content_ended(client, false);
    else
        wr_h1_client_fail(client, why);
}

static void on_closed(void *owner, enum wr_err why, const char *detail)
{
    struct wr_h1_client *client = owner;
    (void)detail;
    if (client->dead)
        return;
    if (client->exchange == NULL)
        break_idle(client, why);
    else
        wr_h1_client_fail(client, cut_off(client, why));
}

static void on_writable(void *owner)
{
    struct wr_h1_client *client = owner;
    if (client->sending == WR_H1_SENDING_OPEN)
        wr_h1_client_sink_ops.content(client);
}

const struct wr_transport_events wr_h1_client_transport_events = {
    .readable = on_readable,
    .read_end = on_read_end,
    .writable = on_writable,
    .closed = on_closed,
};

/* ---- from the message ---- */

static void on_room(void *source, size_t consumed)
{
    struct wr_h1_client *client = source;
    const struct wr_message *response = &client->exchange->response;
    (void)consumed;
    if (wr_message_room(response) >= response->limit / 2)
        wr_transport_resume(client->transport, WR_PAUSE_FULL);
}

/* A response that has failed will not get another source, so nobody wants the rest of the request. Else the request is left as
 * it is: whoever takes the exchange away rewinds or aborts it at once, and may want to send it once more. */
static void on_stop(void *source, enum wr_err why)
{
    struct wr_h1_client *client = source;
    struct wr_exchange *exchange = client->exchange;
    wr_h1_client_drop(client);
    if (exchange->response.state == WR_MESSAGE_FAILED &&
        wr_message_has_sink(&exchange->request, client))
        wr_message_stop(&exchange->request, why);
}

const struct wr_source_ops wr_h1_client_source_ops = {
    .room = on_room,
    .stop = on_stop,
};
