/* Requests: from the message to the transport. */
#include "codec/h2_client_internal.h"

/* The request does not go, and can go elsewhere. */
static void cannot_go(struct wr_h2_stream *stream, enum wr_err why)
{
    stream->refused = true;
    wr_h2_client_fail(stream, why);
}

static void submit(struct wr_h2_stream *stream)
{
    struct wr_exchange *exchange = stream->exchange;
    const struct wr_head *head = exchange->request.head;
    bool last = exchange->request.head_last;
    struct wr_h2_fields fields;
    wr_h2_request_fields(&fields, head, last, &exchange->arena);
    if (!last && head->content_length >= 0)
        stream->left = (uint64_t)head->content_length;
    stream->waiting = false;
    stream->outgoing = WR_H2_OUT_OPEN;
    int32_t id = nghttp2_submit_request(wr_h2_session_ng(stream->session), NULL, fields.v,
                                        fields.count, last ? NULL : &wr_h2_stream_provider, stream);
    if (id < 0) {
        cannot_go(stream, WR_ERR_UPSTREAM_CLOSED);
        return;
    }
    stream->id = id;
    /* RFC 9113 section 5.1.1: when the last of the 2^30 identifiers is taken, the connection goes with its last exchange. */
    wr_h2_client_of(stream->session)->dead |=
        !nghttp2_session_check_request_allowed(wr_h2_session_ng(stream->session));
    wr_h2_session_later(stream->session);
}

/* RFC 8441 section 3: only to a peer that has said it knows of it. */
static void submit_upgrade(struct wr_h2_stream *stream)
{
    nghttp2_session *ng = wr_h2_session_ng(stream->session);
    if (nghttp2_session_get_remote_settings(ng, NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL) == 1)
        submit(stream);
    else
        cannot_go(stream, WR_ERR_NOT_IMPLEMENTED);
}

static struct wr_h2_stream *first_waiting(struct wr_h2_session *session)
{
    for (struct wr_list *link = session->streams.next; link != &session->streams;
         link = link->next) {
        struct wr_h2_stream *stream = WR_CONTAINER_OF(link, struct wr_h2_stream, link);
        if (stream->waiting)
            return stream;
    }
    return NULL;
}

void wr_h2_client_release_waiting(struct wr_h2_client *client)
{
    for (struct wr_h2_stream *stream; (stream = first_waiting(&client->session)) != NULL;)
        submit_upgrade(stream);
}

static struct wr_h2_stream *first_unsent(struct wr_h2_session *session)
{
    for (struct wr_list *link = session->streams.next; link != &session->streams;
         link = link->next) {
        struct wr_h2_stream *stream = WR_CONTAINER_OF(link, struct wr_h2_stream, link);
        if (stream->id > 0 && !stream->head_sent)
            return stream;
    }
    return NULL;
}

void wr_h2_client_give_back(struct wr_h2_client *client)
{
    for (struct wr_h2_stream *stream; (stream = first_unsent(&client->session)) != NULL;) {
        wr_h2_stream_reset(stream, NGHTTP2_CANCEL); /* nghttp2 forgets it */
        cannot_go(stream, WR_ERR_UPSTREAM_CLOSED);
    }
}

static void on_head(void *sink, struct wr_head *head, unsigned flags)
{
    struct wr_h2_stream *stream = sink;
    (void)flags;
    if (stream->exchange == NULL)
        return;
    if (head->tunnel != WR_TUNNEL_UPGRADE)
        submit(stream);
    else if (stream->session->greeted)
        submit_upgrade(stream);
    else
        stream->waiting = true;
}

static void on_end(void *sink, const struct wr_fields *trailers)
{
    wr_h2_stream_on_end(sink, trailers);
    wr_h2_client_settle_tunnel(sink);
}

/* The rest of the request will never come. */
static void on_abort(void *sink, enum wr_err why)
{
    struct wr_h2_stream *stream = sink;
    if (stream->exchange == NULL)
        return;
    wr_h2_stream_reset(stream, NGHTTP2_CANCEL);
    wr_h2_client_fail(stream, why);
}

const struct wr_sink_ops wr_h2_client_sink_ops = {
    .head = on_head,
    .content = wr_h2_stream_on_content,
    .end = on_end,
    .abort = on_abort,
};
