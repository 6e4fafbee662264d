/* Requests: from the message to the transport. */
#include "codec/h1_client_internal.h"

static enum wr_h1_framing framing_of(const struct wr_head *head, unsigned flags)
{
    if ((flags & WR_HEAD_LAST) != 0)
        return WR_H1_BY_NOTHING;
    return head->content_length == WR_LENGTH_UNKNOWN ? WR_H1_BY_CHUNKS : WR_H1_BY_LENGTH;
}

static void on_head(void *sink, struct wr_head *head, unsigned flags)
{
    struct wr_h1_client *client = sink;
    client->writer.bytes.pool = client->exchange->host->chunks;
    if (head->tunnel != WR_TUNNEL_NONE) {
        wr_h1_client_ask(client, head);
        return;
    }
    wr_h1_write_request(&client->writer, head, framing_of(head, flags));
    if ((flags & WR_HEAD_LAST) != 0)
        client->sending = WR_H1_SENDING_WHOLE;
}

static void on_content(void *sink)
{
    struct wr_h1_client *client = sink;
    if (client->sending != WR_H1_SENDING_OPEN)
        return;
    struct wr_message *request = &client->exchange->request;
    size_t taken;
    if (wr_h1_writer_pump(&client->writer, request, &taken) == WR_H1_PUMPED_EXCESS)
        wr_h1_client_fail(client, WR_ERR_BAD_REQUEST);
    else if (taken > 0)
        wr_message_taken(request, taken);
}

static void request_done(struct wr_h1_client *client)
{
    client->sending = WR_H1_SENDING_WHOLE;
    if (client->finishing)
        wr_h1_client_rest_done(client);
}

static void on_end(void *sink, const struct wr_fields *trailers)
{
    struct wr_h1_client *client = sink;
    if (client->sending == WR_H1_SENDING_ASKING) /* declined, just now */
        client->sending = WR_H1_SENDING_WHOLE;
    if (client->sending != WR_H1_SENDING_OPEN)
        return;
    if (client->tunnel)
        wr_h1_client_tunnel_said(client);
    else if (wr_h1_writer_end(&client->writer, trailers))
        request_done(client);
    else
        wr_h1_client_fail(client, WR_ERR_BAD_REQUEST);
}

/* The rest of the request will never come. The upstream learns it from a connection that closes without the last chunk, or in a
 * tunnel is reset. */
static void on_abort(void *sink, enum wr_err why)
{
    struct wr_h1_client *client = sink;
    if (client->sending != WR_H1_SENDING_OPEN && client->sending != WR_H1_SENDING_ASKING)
        return;
    client->sending = WR_H1_SENDING_NOTHING;
    if (client->receiving)
        wr_h1_client_fail(client, why);
    else if (client->tunnel || client->finishing)
        wr_h1_client_drop(client);
}

const struct wr_sink_ops wr_h1_client_sink_ops = {
    .head = on_head,
    .content = on_content,
    .end = on_end,
    .abort = on_abort,
};
