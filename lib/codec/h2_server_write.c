/* Responses: from the message to the transport. */
#include "codec/date.h"
#include "codec/h2_server_internal.h"

/* ---- head ---- */

static void write_interim(struct wr_h2_stream *stream, const struct wr_head *head)
{
    if (head->status == 101)
        return;
    struct wr_h2_fields fields;
    wr_h2_response_fields(&fields, head, -1, WR_STR_EMPTY, &stream->exchange->arena);
    (void)nghttp2_submit_headers(wr_h2_session_ng(stream->session), NGHTTP2_FLAG_NONE, stream->id,
                                 NULL, fields.v, fields.count, NULL);
    wr_h2_session_later(stream->session);
}

/* What Content-Length says; -1 nothing (RFC 9110 section 8.6, behaviour row 18). */
static int64_t announced_length(const struct wr_head *head, bool no_content)
{
    if (head->tunnel != WR_TUNNEL_NONE || head->content_length < 0)
        return -1;
    if (no_content)
        return head->length_given && head->status >= 200 && head->status != 204
                   ? head->content_length
                   : -1;
    return head->content_length;
}

static void write_head(struct wr_h2_stream *stream, const struct wr_head *head, bool last)
{
    struct wr_exchange *exchange = stream->exchange;
    bool no_content = head->tunnel == WR_TUNNEL_NONE &&
                      wr_response_has_no_content(exchange->request.head->method, head->status);
    int64_t length = announced_length(head, no_content);
    if (last && !no_content && !head->length_given)
        length = -1; /* END_STREAM says it */
    struct wr_str date = wr_date_text(wr_loop_wall(exchange->host->loop));
    struct wr_h2_fields fields;
    wr_h2_response_fields(&fields, head, length, date, &exchange->arena);
    /* Content where there is none (HEAD) is not waited for. */
    bool end = last || no_content;
    stream->outgoing = WR_H2_OUT_OPEN;
    stream->head_sent = false; /* heads before it do not count */
    stream->left = length >= 0 && !end ? (uint64_t)length : WR_H2_ANY_LENGTH;
    (void)nghttp2_submit_response(wr_h2_session_ng(stream->session), stream->id, fields.v,
                                  fields.count, end ? NULL : &wr_h2_stream_provider);
    wr_h2_session_later(stream->session);
}

/* A tunnel begins, or the request for it was declined and has no content. */
static void settle_tunnel(struct wr_h2_stream *stream, const struct wr_head *head)
{
    if (stream->incoming != WR_H2_IN_HELD)
        return;
    if (head->tunnel != WR_TUNNEL_NONE) {
        stream->tunnel = true;
        wr_h2_stream_release_held(stream);
        return;
    }
    wr_h2_stream_unwant(stream);
    wr_message_end(stream->in, NULL);
}

static void on_head(void *sink, struct wr_head *head, unsigned flags)
{
    struct wr_h2_stream *stream = sink;
    if (stream->exchange == NULL)
        return;
    if ((flags & WR_HEAD_INTERIM) != 0) {
        write_interim(stream, head);
        return;
    }
    write_head(stream, head, (flags & WR_HEAD_LAST) != 0);
    settle_tunnel(stream, head);
}

/* Behaviour row 20. A head that has come before the failure, if in the same turn, goes out before it. */
static void on_abort(void *sink, enum wr_err why)
{
    struct wr_h2_stream *stream = sink;
    if (stream->outgoing == WR_H2_OUT_OPEN && !stream->head_sent)
        wr_h2_server_fail(stream, why);
    else
        wr_h2_server_give_up(stream, why);
}

const struct wr_sink_ops wr_h2_server_sink_ops = {
    .head = on_head,
    .content = wr_h2_stream_on_content,
    .end = wr_h2_stream_on_end,
    .abort = on_abort,
};

/* ---- endings ---- */

/* How much of the request is still to come, as far as that is known. */
static uint64_t rest_of(const struct wr_h2_stream *stream)
{
    const struct wr_message *request = &stream->exchange->request;
    int64_t length = request->head->content_length;
    if (length < 0 || request->put_bytes > (uint64_t)length)
        return 0;
    return (uint64_t)length - request->put_bytes;
}

bool wr_h2_server_awaits_rest(const struct wr_h2_stream *stream)
{
    return stream->outgoing == WR_H2_OUT_WHOLE && stream->incoming != WR_H2_IN_WHOLE &&
           !stream->tunnel;
}

/* The response is whole. A request that is not has been answered early (behaviour row 22): a small rest is still read, and thrown
 * away unless somebody wants it, because there are clients that take RST_STREAM NO_ERROR for an error while they send. */
void wr_h2_server_sent_end(struct wr_h2_stream *stream)
{
    if (wr_h2_server_awaits_rest(stream) && rest_of(stream) > stream->discard)
        wr_h2_server_forgo_rest(stream);
}

void wr_h2_server_unwanted(struct wr_h2_stream *stream, size_t n)
{
    if (n <= stream->discard) {
        stream->discard -= n;
        if (!wr_h2_server_awaits_rest(stream)) /* it has `inactivity` in all */
            wr_exchange_progress(stream->exchange);
        wr_h2_stream_on_room(stream, n);
    } else if (wr_h2_server_awaits_rest(stream)) {
        wr_h2_server_forgo_rest(stream);
    } else {
        stream->discard = 0;
    }
}

/* Why nghttp2 has closed it: both have ended; or somebody has reset it, and if that is not known, nghttp2 has, because the
 * client broke the rules. One that takes back the rest of a request it has the response to has lost nothing. */
void wr_h2_server_closed(struct wr_h2_stream *stream, uint32_t code)
{
    enum wr_err why = stream->why;
    if (why == WR_OK && stream->peer_reset)
        why = wr_h2_server_awaits_rest(stream) ? WR_OK : WR_ERR_CLIENT_RESET;
    else if (why == WR_OK && code != NGHTTP2_NO_ERROR)
        why = WR_ERR_BAD_REQUEST;
    if (why == WR_OK && stream->tunnel && !wr_message_is_over(stream->in)) {
        stream->outlived = true;
        stream->id = 0;
        return;
    }
    wr_h2_server_finish(stream, why);
}

static void on_request_over(void *owner)
{
    struct wr_h2_stream *stream = owner;
    if (stream->outlived)
        wr_h2_server_finish(stream, WR_OK);
}

/* The message is over, but the rest of the request does not come, or a tunnel's other direction stands still. */
static void on_expired(void *owner, enum wr_err why)
{
    struct wr_h2_stream *stream = owner;
    if (stream->exchange != NULL && wr_h2_server_awaits_rest(stream))
        wr_h2_server_forgo_rest(stream);
    else
        wr_h2_server_give_up(stream, why);
}

const struct wr_exchange_owner wr_h2_server_owner_ops = {
    .expired = on_expired,
    .request_over = on_request_over,
};
