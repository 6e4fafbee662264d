/* Responses: from the transport to the message. */
#include "codec/h2_client_internal.h"

static struct wr_h2_client *client_of(const struct wr_h2_stream *stream)
{
    return wr_h2_client_of(stream->session);
}

static void reject(struct wr_h2_stream *stream, enum wr_err why)
{
    wr_h2_stream_reset(stream, NGHTTP2_PROTOCOL_ERROR);
    wr_h2_stream_charge_reset(stream->session, stream);
    wr_h2_client_fail(stream, why);
}

/* ---- heads ---- */

static void interim_came(struct wr_h2_stream *stream, struct wr_head *head)
{
    if (++stream->interim_heads > WR_H2_MOST_INTERIM_HEADS)
        reject(stream, WR_ERR_BAD_RESPONSE);
    else
        wr_message_head(stream->in, head, WR_HEAD_INTERIM);
}

static void final_came(struct wr_h2_stream *stream, struct wr_head *head, bool last)
{
    stream->tunnel = head->tunnel != WR_TUNNEL_NONE;
    bool over = last && !stream->tunnel;
    stream->incoming = over ? WR_H2_IN_WHOLE : WR_H2_IN_OPEN;
    wr_message_head(stream->in, head, over ? WR_HEAD_LAST : 0);
    if (last && !over)
        wr_h2_stream_data_end(stream, NULL);
}

static void response_came(struct wr_h2_stream *stream, bool last)
{
    struct wr_exchange *exchange = stream->exchange;
    struct wr_head *head = wr_arena_alloc(&exchange->arena, sizeof(*head));
    enum wr_err err = wr_h2_block_response(&stream->block, exchange->request.head, last, head);
    if (err != WR_OK)
        reject(stream, err);
    else if (head->status < 200)
        interim_came(stream, head);
    else
        final_came(stream, head, last);
}

static void trailers_came(struct wr_h2_stream *stream)
{
    struct wr_fields *trailers = NULL;
    if (wr_h2_block_trailers(&stream->block, &trailers))
        wr_h2_stream_data_end(stream, trailers);
    else
        reject(stream, WR_ERR_RESPONSE_HEAD_TOO_LARGE);
}

static void head_came(struct wr_h2_stream *stream, bool last)
{
    if (stream->incoming == WR_H2_IN_HEAD)
        response_came(stream, last);
    else
        trailers_came(stream);
}

/* ---- ends ---- */

/* The response is whole. What is left of the request is not wanted (behaviour row 22); a tunnel goes on in the other direction. */
static void got_end(struct wr_h2_stream *stream)
{
    if (stream->tunnel) {
        wr_h2_client_settle_tunnel(stream);
        return;
    }
    if (stream->outgoing == WR_H2_OUT_WHOLE)
        return;
    wr_h2_stream_reset(stream, NGHTTP2_CANCEL);
    wr_h2_client_drop(stream);
}

static void sent_end(struct wr_h2_stream *stream)
{
    (void)stream; /* nghttp2 closes it when the other end has come as well */
}

/* Why a response will not become whole: only one that has not begun may be asked for again (behaviour row 24). */
static enum wr_err cut_off(const struct wr_h2_stream *stream, uint32_t code)
{
    if (stream->why != WR_OK)
        return stream->why;
    if (stream->incoming != WR_H2_IN_HEAD)
        return WR_ERR_RESPONSE_INCOMPLETE;
    if (code == NGHTTP2_REFUSED_STREAM)
        return WR_ERR_UPSTREAM_CLOSED;
    /* Else nghttp2 has reset it, because the upstream broke the rules. */
    return stream->peer_reset ? WR_ERR_UPSTREAM_RESET : WR_ERR_BAD_RESPONSE;
}

static void stream_closed(struct wr_h2_stream *stream, uint32_t code)
{
    if (stream->incoming == WR_H2_IN_WHOLE && code == NGHTTP2_NO_ERROR) {
        wr_h2_client_drop(stream);
        return;
    }
    stream->refused = code == NGHTTP2_REFUSED_STREAM && stream->incoming == WR_H2_IN_HEAD;
    wr_h2_client_fail(stream, cut_off(stream, code));
}

/* ---- the connection ---- */

static void tell_limit(struct wr_h2_client *client)
{
    if (client->events->limit_told != NULL && !client->released)
        client->events->limit_told(client->owner, wr_h2_client_limit(client));
}

static void settings_came(struct wr_h2_client *client)
{
    wr_h2_client_release_waiting(client);
    client->lowered = wr_h2_client_limit(client) < client->session.count;
}

static void leave(struct wr_h2_client *client)
{
    client->dead = true;
    if (client->events->leaving != NULL && !client->released)
        client->events->leaving(client->owner);
}

static void frame_came(struct wr_h2_session *session, const nghttp2_frame *frame)
{
    struct wr_h2_client *client = wr_h2_client_of(session);
    if (frame->hd.type == NGHTTP2_GOAWAY)
        leave(client);
    else if (frame->hd.type != NGHTTP2_SETTINGS || (frame->hd.flags & NGHTTP2_FLAG_ACK) != 0)
        return;
    else
        settings_came(client);
    tell_limit(client);
}

static void flooded(struct wr_h2_session *session, enum wr_flood kind)
{
    struct wr_h2_client *client = wr_h2_client_of(session);
    client->dead = true;
    if (client->events->flooded != NULL && !client->released)
        client->events->flooded(client->owner, kind);
}

static void over(struct wr_h2_session *session)
{
    wr_h2_client_broken(wr_h2_client_of(session), WR_ERR_UPSTREAM_CLOSED);
}

/* A connection that breaks the rules, or that has said goodbye and has nothing left to do. */
static void settled(struct wr_h2_session *session)
{
    struct wr_h2_client *client = wr_h2_client_of(session);
    if (session->err != WR_OK) {
        bool flooded = session->err == WR_ERR_FLOODED && session->count == 0; /* has been told */
        wr_transport_flush(client->transport);                                /* GOAWAY says why */
        wr_h2_client_broken(client, flooded ? WR_ERR_FLOODED : WR_ERR_BAD_RESPONSE);
    } else if (client->dead && session->count == 0) {
        wr_transport_flush(client->transport); /* RST_STREAM of the last one */
        wr_h2_client_broken(client, WR_ERR_UPSTREAM_CLOSED);
    } else if (client->lowered) {
        /* What could be written has been; nghttp2 would keep the others for as long as there are too many. */
        client->lowered = false;
        wr_h2_client_give_back(client);
    }
}

const struct wr_h2_session_events wr_h2_client_session_events = {
    .head = head_came,
    .got_end = got_end,
    .sent_end = sent_end,
    .closed = stream_closed,
    .frame = frame_came,
    .flooded = flooded,
    .over = over,
    .settled = settled,
    .woken = wr_h2_client_woken,
};

/* ---- from the transport ---- */

static size_t on_readable(void *owner, const uint8_t *p, size_t n)
{
    struct wr_h2_client *client = owner;
    client->last_heard = wr_loop_now(client->loop);
    client->asked = false;
    wr_h2_session_receive(&client->session, p, n);
    return n;
}

static void on_read_end(void *owner, bool clean)
{
    (void)clean; /* END_STREAM tells what is whole */
    wr_h2_client_broken(owner, WR_ERR_UPSTREAM_CLOSED);
}

static void on_closed(void *owner, enum wr_err why, const char *detail)
{
    (void)detail;
    wr_h2_client_broken(owner, why);
}

static void on_writable(void *owner)
{
    struct wr_h2_client *client = owner;
    wr_h2_session_later(&client->session);
}

const struct wr_transport_events wr_h2_client_transport_events = {
    .readable = on_readable,
    .read_end = on_read_end,
    .writable = on_writable,
    .closed = on_closed,
};

/* ---- from the message ---- */

/* Nobody wants the response: CANCEL, so that it costs the upstream nothing more. A response that has failed will not get
 * another source, so nobody wants the rest of the request. Else the request is left as it is: whoever takes the exchange away
 * rewinds or aborts it at once, and may want to send it once more. */
static void on_stop(void *source, enum wr_err why)
{
    struct wr_h2_stream *stream = source;
    struct wr_exchange *exchange = stream->exchange;
    if (exchange == NULL)
        return;
    wr_h2_stream_reset(stream, NGHTTP2_CANCEL);
    wr_h2_stream_forget(stream);
    if (exchange->response.state == WR_MESSAGE_FAILED &&
        wr_message_has_sink(&exchange->request, stream))
        wr_message_stop(&exchange->request, why);
    wr_h2_client_tell_closed(client_of(stream));
}

const struct wr_source_ops wr_h2_client_source_ops = {
    .room = wr_h2_stream_on_room,
    .stop = on_stop,
};
