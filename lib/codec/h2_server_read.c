/* Requests: from the transport to the message. */
#include "codec/h2_server_internal.h"

/* Of the 2^31-1 there are, so many are left for what is on its way when the client is told (RFC 9113 section 5.1.1). */
#define LAST_IDS 2000

static struct wr_h2_server *server_of(const struct wr_h2_stream *stream)
{
    return wr_h2_server_of(stream->session);
}

/* ---- heads ---- */

/* One stream more than the client may have: it loses that one only, and may send it again (RFC 9113 sections 5.1.2, 8.7). */
static void refuse(struct wr_h2_session *session, int32_t id)
{
    (void)nghttp2_submit_rst_stream(wr_h2_session_ng(session), NGHTTP2_FLAG_NONE, id,
                                    NGHTTP2_REFUSED_STREAM);
    wr_h2_stream_charge_reset(session, NULL);
}

/* The exchange is there from the first frame of its head on: a head that never becomes whole, or is malformed, is seen in
 * metrics and access log. */
static struct wr_h2_stream *begun(struct wr_h2_session *session, int32_t id)
{
    struct wr_h2_server *server = wr_h2_server_of(session);
    if (session->count >= session->options->max_concurrent_streams) {
        refuse(session, id);
        return NULL;
    }
    struct wr_exchange *exchange = wr_exchange_open(server->host, server->client);
    if (session->count >
        0) { /* else the connection is in a head, and its owner has a deadline for that */
        exchange->head_timeout = server->options->head_timeout;
        wr_exchange_rearm(exchange);
    }
    struct wr_h2_stream *stream =
        wr_h2_stream_new(session, exchange, &exchange->request, &exchange->response);
    stream->id = id;
    stream->discard = server->options->discard_limit;
    exchange->protocol = WR_STR("HTTP/2");
    exchange->owner_ops = &wr_h2_server_owner_ops;
    exchange->owner = stream;
    wr_message_set_source(&exchange->request, &wr_h2_server_source_ops, stream);
    wr_message_attach(&exchange->response, &wr_h2_server_sink_ops, stream);
    server->requests++;
    return stream;
}

static void tell_active(struct wr_h2_server *server)
{
    if (server->told == WR_H2_TOLD_ACTIVE)
        return;
    server->told = WR_H2_TOLD_ACTIVE;
    server->events->head_complete(server->owner);
}

static void note_head_complete(struct wr_exchange *exchange)
{
    uint64_t now = wr_loop_now(exchange->host->loop);
    if (exchange->head_complete == now)
        return;
    exchange->head_complete = now;
    wr_exchange_rearm(exchange);
}

/* It needs another connection soon, for the sake of policy or because stream ids are never used twice. */
static bool is_among_the_last(const struct wr_h2_stream *stream)
{
    const struct wr_h2_server *server = server_of(stream);
    return server->requests >= server->options->max_requests || stream->id > INT32_MAX - LAST_IDS;
}

/* What is refused has no content for anybody (as in HTTP/1.1, where nothing is read any more). */
static enum wr_h2_in what_follows(const struct wr_exchange *exchange, const struct wr_head *head,
                                  bool last)
{
    if (exchange->refused != WR_OK)
        return last ? WR_H2_IN_WHOLE : WR_H2_IN_UNWANTED;
    if (head->tunnel != WR_TUNNEL_NONE)
        return WR_H2_IN_HELD;
    return last ? WR_H2_IN_WHOLE : WR_H2_IN_OPEN;
}

static void request_came(struct wr_h2_stream *stream, bool last)
{
    struct wr_h2_server *server = server_of(stream);
    struct wr_exchange *exchange = stream->exchange;
    struct wr_head *head = wr_arena_alloc(&exchange->arena, sizeof(*head));
    exchange->refused = wr_h2_block_request(&stream->block, last, head);
    head->scheme = server->client->tls ? WR_STR("https") : WR_STR("http");
    stream->incoming = what_follows(exchange, head, last);
    stream->early_end = last;
    bool more = stream->incoming == WR_H2_IN_OPEN || stream->incoming == WR_H2_IN_HELD;
    note_head_complete(exchange);
    wr_message_head(&exchange->request, head, more ? 0 : WR_HEAD_LAST);
    tell_active(server);
    if (is_among_the_last(stream))
        wr_h2_server_drain(server);
    server->events->exchange(server->owner, exchange);
}

static void trailers_came(struct wr_h2_stream *stream)
{
    struct wr_fields *trailers = NULL;
    if (wr_h2_block_trailers(&stream->block, &trailers))
        wr_h2_stream_data_end(stream, trailers);
    else
        wr_h2_server_give_up(stream, WR_ERR_FIELDS_TOO_LARGE);
}

static void head_came(struct wr_h2_stream *stream, bool last)
{
    if (stream->incoming == WR_H2_IN_HEAD)
        request_came(stream, last);
    else
        trailers_came(stream);
}

/* ---- from the transport ---- */

static size_t on_readable(void *owner, const uint8_t *p, size_t n)
{
    struct wr_h2_server *server = owner;
    wr_h2_session_receive(&server->session, p, n);
    return n;
}

/* The first stream that IS so, or NULL. */
static struct wr_h2_stream *first(struct wr_h2_session *session,
                                  bool (*is)(const struct wr_h2_stream *stream))
{
    for (struct wr_list *link = session->streams.next; link != &session->streams;
         link = link->next) {
        struct wr_h2_stream *stream = WR_CONTAINER_OF(link, struct wr_h2_stream, link);
        if (is(stream))
            return stream;
    }
    return NULL;
}

static bool is_cut(const struct wr_h2_stream *stream)
{
    return stream->incoming != WR_H2_IN_WHOLE;
}

/* What was asked for whole is still answered (behaviour row 25). */
static void on_read_end(void *owner, bool clean)
{
    struct wr_h2_server *server = owner;
    (void)clean; /* END_STREAM tells what is whole */
    server->client_ended = true;
    for (struct wr_h2_stream *cut; (cut = first(&server->session, is_cut)) != NULL;) {
        if (wr_h2_server_awaits_rest(cut))
            wr_h2_server_forgo_rest(cut);
        else
            wr_h2_server_give_up(cut, WR_ERR_CLIENT_CLOSED);
    }
    wr_h2_session_later(&server->session);
}

static void on_writable(void *owner)
{
    struct wr_h2_server *server = owner;
    wr_h2_session_later(&server->session);
}

static void on_closed(void *owner, enum wr_err why, const char *detail)
{
    struct wr_h2_server *server = owner;
    (void)detail;
    if (!server->session.closed)
        wr_h2_server_broken(server, why);
}

const struct wr_transport_events wr_h2_server_transport_events = {
    .readable = on_readable,
    .read_end = on_read_end,
    .writable = on_writable,
    .closed = on_closed,
};

/* ---- the end of a turn ---- */

/* A head has begun with the first byte of the connection, or of a header block. */
static enum wr_h2_told phase(const struct wr_h2_server *server)
{
    const struct wr_h2_session *session = &server->session;
    bool head = session->fields != NULL && session->fields->incoming == WR_H2_IN_HEAD;
    if (session->count > head)
        return WR_H2_TOLD_ACTIVE;
    bool preface = session->heard && !session->greeted;
    return head || preface ? WR_H2_TOLD_HEAD : WR_H2_TOLD_IDLE;
}

static void tell_phase(struct wr_h2_server *server)
{
    enum wr_h2_told now = phase(server);
    if (now == server->told)
        return;
    server->told = now;
    if (now == WR_H2_TOLD_HEAD)
        server->events->head_begun(server->owner);
    else if (now == WR_H2_TOLD_IDLE)
        server->events->idle(server->owner);
}

/* It has something to say, and no window for it. */
static bool is_blocked(const struct wr_h2_stream *stream)
{
    nghttp2_session *ng = wr_h2_session_ng(stream->session);
    const struct wr_message *response = stream->out;
    bool more = response->content.length > 0 || response->state == WR_MESSAGE_ENDED;
    return more && stream->outgoing == WR_H2_OUT_OPEN &&
           (nghttp2_session_get_stream_remote_window_size(ng, stream->id) <= 0 ||
            nghttp2_session_get_remote_window_size(ng) <= 0);
}

/* A client that has ended will not give any window again. */
static void give_up_blocked(struct wr_h2_session *session)
{
    for (struct wr_h2_stream *blocked; (blocked = first(session, is_blocked)) != NULL;)
        wr_h2_server_give_up(blocked, WR_ERR_CLIENT_CLOSED);
}

static void settled(struct wr_h2_session *session)
{
    struct wr_h2_server *server = wr_h2_server_of(session);
    wr_h2_server_give_up_failed(server);
    if (server->client_ended)
        give_up_blocked(session);
    /* Whatever else is asked for upstream would be for nobody. */
    if (session->err != WR_OK)
        wr_h2_server_finish_all(server, session->err);
    if (session->count == 0 && server->client_ended)
        wr_h2_session_end(session, NGHTTP2_NO_ERROR);
    if (!session->closed)
        tell_phase(server);
}

static void flooded(struct wr_h2_session *session, enum wr_flood kind)
{
    wr_metric_inc(&wr_h2_server_of(session)->host->metrics->h2_floods[kind]);
}

const struct wr_h2_session_events wr_h2_server_session_events = {
    .begun = begun,
    .head = head_came,
    .unwanted = wr_h2_server_unwanted,
    .sent_notice = wr_h2_server_sent_notice,
    .sent_end = wr_h2_server_sent_end,
    .closed = wr_h2_server_closed,
    .frame = wr_h2_server_frame,
    .flooded = flooded,
    .over = wr_h2_server_over,
    .settled = settled,
    .woken = wr_h2_server_woken,
};

/* ---- from the message ---- */

/* Content is thrown away as it comes. */
static void on_stop(void *source, enum wr_err why)
{
    struct wr_h2_stream *stream = source;
    (void)why;
    wr_h2_stream_unwant(stream);
}

const struct wr_source_ops wr_h2_server_source_ops = {
    .room = wr_h2_stream_on_room,
    .stop = on_stop,
};
