/* Responses: from the message to the transport. */
#include "codec/h1_server_internal.h"

/* ---- head ---- */

static bool is_modern(const struct wr_h1_server *server)
{
    return server->exchange->request.head->version_minor > 0;
}

/* RFC 9110 section 15.5.9: the rest of that request is not waited for. */
#define REQUEST_TIMEOUT 408

/* The response begins: whether the rest of a request that is not whole yet is worth reading to keep the connection. It is not
 * when the client may be waiting for 100 and send nothing, or when nobody knows how much is to come. */
static bool rest_is_small(const struct wr_h1_server *server)
{
    switch (server->request) {
    case WR_H1_REQUEST_WHOLE:
        return true;
    case WR_H1_REQUEST_OPEN:
    case WR_H1_REQUEST_UNWANTED:
        return server->reader.state == WR_H1_LENGTH && !server->expects &&
               server->reader.left <= server->options->discard_limit;
    default:
        return false;
    }
}

/* RFC 9112 section 6.3, behaviour row 18. */
static void frame(const struct wr_h1_server *server, const struct wr_head *head, unsigned flags,
                  struct wr_h1_response_options *options)
{
    enum wr_method method = server->exchange->request.head->method;
    options->framing = WR_H1_BY_NOTHING;
    options->length = -1;
    if (wr_response_has_no_content(method, head->status)) {
        if (head->length_given && head->content_length >= 0 && head->status != 204)
            options->length = head->content_length;
    } else if ((flags & WR_HEAD_LAST) != 0) {
        options->length = 0;
    } else if (head->content_length >= 0) {
        options->framing = WR_H1_BY_LENGTH;
        options->length = head->content_length;
    } else {
        options->framing = is_modern(server) ? WR_H1_BY_CHUNKS : WR_H1_BY_CLOSE;
    }
}

static struct wr_str connection_value(const struct wr_h1_server *server)
{
    if (is_modern(server))
        return server->keep ? WR_STR_EMPTY : WR_STR("close");
    return server->keep ? WR_STR("keep-alive") : WR_STR_EMPTY;
}

static void write_interim(struct wr_h1_server *server, const struct wr_head *head)
{
    struct wr_h1_response_options options = {WR_H1_BY_NOTHING, -1, WR_STR_EMPTY, WR_STR_EMPTY,
                                             WR_STR_EMPTY};
    if (!is_modern(server) || head->status == 101)
        return;
    if (head->status == 100)
        server->expects = false;
    wr_h1_write_response(&server->writer, head, &options);
}

static void write_final(struct wr_h1_server *server, const struct wr_head *head, unsigned flags)
{
    struct wr_h1_response_options options = {.upgrade = WR_STR_EMPTY};
    frame(server, head, flags, &options);
    server->keep = server->keep && server->exchange->client_keeps && !server->draining &&
                   options.framing != WR_H1_BY_CLOSE && head->status != REQUEST_TIMEOUT &&
                   rest_is_small(server);
    options.connection = connection_value(server);
    options.date = wr_date_text(wr_loop_wall(server->host->loop));
    wr_h1_write_response(&server->writer, head, &options);
    server->response = WR_H1_RESPONSE_CONTENT;
    if ((flags & WR_HEAD_LAST) != 0)
        wr_h1_server_response_done(server);
}

static void on_head(void *sink, struct wr_head *head, unsigned flags)
{
    struct wr_h1_server *server = sink;
    bool asking = server->request == WR_H1_REQUEST_ASKING;
    if ((flags & WR_HEAD_INTERIM) != 0) {
        write_interim(server, head);
    } else if (asking && head->tunnel != WR_TUNNEL_NONE) {
        wr_h1_server_accept_tunnel(server, head);
    } else {
        if (asking) {
            wr_h1_server_decline_tunnel(server);
            wr_message_end(&server->exchange->request, NULL);
        }
        write_final(server, head, flags);
    }
}

/* ---- content ---- */

/* The client has all that was announced, so its connection is in order. Content where there is none (HEAD) is but dropped. */
static void excess_came(struct wr_h1_server *server)
{
    enum wr_err why = WR_ERR_CANCELLED;
    if (server->writer.framing == WR_H1_BY_LENGTH) {
        why = WR_ERR_BAD_RESPONSE;
        wr_exchange_blame(server->exchange, why);
    }
    wr_message_stop(&server->exchange->response, why);
    wr_h1_server_response_done(server);
}

void wr_h1_server_pump(struct wr_h1_server *server)
{
    struct wr_message *response = &server->exchange->response;
    size_t taken;
    enum wr_h1_pumped pumped = wr_h1_writer_pump(&server->writer, response, &taken);
    if (pumped == WR_H1_PUMPED_EXCESS) {
        excess_came(server);
        return;
    }
    if (taken > 0)
        wr_message_taken(response, taken);
}

static void on_content(void *sink)
{
    wr_h1_server_pump(sink);
}

static void on_end(void *sink, const struct wr_fields *trailers)
{
    struct wr_h1_server *server = sink;
    if (!wr_h1_writer_end(&server->writer, trailers))
        wr_h1_server_give_up(server, WR_ERR_RESPONSE_INCOMPLETE);
    else if (server->exchange->response.head->tunnel != WR_TUNNEL_NONE)
        wr_h1_server_tunnel_said(server);
    else
        wr_h1_server_response_done(server);
}

/* Behaviour row 20: no last chunk, no full length, and a reset, so that nobody takes the part for the whole. */
static void on_abort(void *sink, enum wr_err why)
{
    wr_h1_server_give_up(sink, why);
}

const struct wr_sink_ops wr_h1_server_sink_ops = {
    .head = on_head,
    .content = on_content,
    .end = on_end,
    .abort = on_abort,
};
