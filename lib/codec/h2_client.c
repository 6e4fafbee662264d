/* Life and endings. */
#include "codec/h2_client.h"

#include <stdlib.h>

#include "base/assert.h"
#include "base/mem.h"
#include "codec/h2_client_internal.h"

static struct wr_h2_client *of(struct wr_client_codec *codec)
{
    return WR_CONTAINER_OF(codec, struct wr_h2_client, base);
}

/* ---- endings of exchanges ---- */

void wr_h2_client_tell_closed(struct wr_h2_client *client)
{
    if (!client->released)
        client->events->stream_closed(client->owner, !client->dead);
}

void wr_h2_client_drop(struct wr_h2_stream *stream)
{
    struct wr_exchange *exchange = stream->exchange;
    if (exchange == NULL)
        return;
    wr_h2_stream_forget(stream);
    if (wr_message_has_sink(&exchange->request, stream))
        wr_message_stop(&exchange->request, WR_ERR_CANCELLED);
    wr_h2_client_tell_closed(wr_h2_client_of(stream->session));
}

void wr_h2_client_settle_tunnel(struct wr_h2_stream *stream)
{
    if (stream->exchange == NULL || !stream->tunnel || stream->incoming != WR_H2_IN_WHOLE ||
        stream->out->state != WR_MESSAGE_DONE)
        return;
    wr_h2_stream_leave_to_end(stream);
    wr_h2_client_tell_closed(wr_h2_client_of(stream->session));
}

/* Not one byte of it has left, or the peer says that it has not looked at it (RFC 9113 section 8.7). */
static bool is_unsent(const struct wr_h2_stream *stream)
{
    return stream->refused || !stream->head_sent ||
           wr_transport_bytes_sent(stream->session->transport) == stream->sent_before;
}

/* Whoever hears of the failure may take the request back for another try; if not, nobody wants it any more. */
void wr_h2_client_fail(struct wr_h2_stream *stream, enum wr_err why)
{
    struct wr_exchange *exchange = stream->exchange;
    if (exchange == NULL)
        return;
    exchange->request_unsent = is_unsent(stream);
    bool receiving = stream->incoming != WR_H2_IN_WHOLE;
    wr_h2_stream_forget(stream);
    if (receiving)
        wr_message_abort(&exchange->response, why);
    if (wr_message_has_sink(&exchange->request, stream))
        wr_message_stop(&exchange->request, why);
    wr_h2_client_tell_closed(wr_h2_client_of(stream->session));
}

static void fail_all(struct wr_h2_client *client, enum wr_err before_head)
{
    struct wr_list *streams = &client->session.streams;
    while (!wr_list_empty(streams)) {
        struct wr_h2_stream *stream = WR_CONTAINER_OF(streams->next, struct wr_h2_stream, link);
        bool nothing_came = stream->incoming == WR_H2_IN_HEAD && stream->interim_heads == 0;
        wr_h2_client_fail(stream, nothing_came ? before_head : WR_ERR_RESPONSE_INCOMPLETE);
    }
}

/* ---- endings of the connection ---- */

void wr_h2_client_broken(struct wr_h2_client *client, enum wr_err before_head)
{
    if (client->session.closed)
        return;
    bool idle = client->session.count == 0;
    client->dead = true;
    wr_h2_session_close(&client->session);
    wr_loop_deadline_remove(client->loop, &client->ping_deadline);
    fail_all(client, before_head);
    if (idle && !client->released)
        client->events->broken(client->owner, before_head);
}

/* ---- whether the peer is still there ---- */

static void ask_or_give_up(struct wr_h2_client *client, uint64_t now)
{
    const struct wr_h2_options *options = client->session.options;
    if (client->asked) {
        wr_h2_client_broken(client, WR_ERR_UPSTREAM_CLOSED);
        return;
    }
    static const uint8_t question[8] = {'w', 'e', 'i', 'r', 'p', 'i', 'n', 'g'};
    client->asked = true;
    (void)nghttp2_submit_ping(wr_h2_session_ng(&client->session), NGHTTP2_FLAG_NONE, question);
    wr_h2_session_later(&client->session);
    wr_loop_deadline_set(client->loop, &client->ping_deadline,
                         wr_time_add(now, options->ping_timeout));
}

static void ping_expired(struct wr_deadline *deadline, uint64_t now)
{
    struct wr_h2_client *client = WR_CONTAINER_OF(deadline, struct wr_h2_client, ping_deadline);
    uint64_t due = wr_time_add(client->last_heard, client->session.options->ping_interval);
    if (client->asked || now >= due)
        ask_or_give_up(client, now);
    else
        wr_loop_deadline_set(client->loop, deadline, due);
}

static void set_ping_deadline(struct wr_h2_client *client)
{
    wr_loop_deadline_set(
        client->loop, &client->ping_deadline,
        wr_time_add(wr_loop_now(client->loop), client->session.options->ping_interval));
}

/* ---- what the owner asks ---- */

static void open_exchange(struct wr_client_codec *codec, struct wr_exchange *exchange)
{
    struct wr_h2_client *client = of(codec);
    WR_ASSERT(!client->dead);
    struct wr_h2_stream *stream =
        wr_h2_stream_new(&client->session, exchange, &exchange->response, &exchange->request);
    stream->sent_before = wr_transport_bytes_sent(client->transport);
    exchange->request_unsent = false;
    wr_message_set_source(&exchange->response, &wr_h2_client_source_ops, stream);
    if (stream->exchange == exchange)
        wr_message_attach(&exchange->request, &wr_h2_client_sink_ops, stream);
}

unsigned wr_h2_client_limit(const struct wr_h2_client *client)
{
    const struct wr_h2_session *session = &client->session;
    if (wr_h2_session_sleeps(session))
        return client->limit;
    if (client->dead || session->ending || !nghttp2_session_check_request_allowed(session->ng))
        return 0;
    uint32_t theirs =
        nghttp2_session_get_remote_settings(session->ng, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
    uint32_t ours = session->options->max_concurrent_streams;
    return theirs < ours ? theirs : ours;
}

static unsigned capacity(const struct wr_client_codec *codec)
{
    const struct wr_h2_client *client = WR_CONTAINER_OF(codec, struct wr_h2_client, base);
    unsigned limit = wr_h2_client_limit(client);
    return limit > client->session.count ? limit - client->session.count : 0;
}

/* While it sleeps nobody waits for the peer, so it is not asked whether it is there. */
static enum wr_hibernation hibernate(struct wr_client_codec *codec)
{
    struct wr_h2_client *client = of(codec);
    if (client->dead || client->asked)
        return WR_HIBERNATION_BUSY;
    unsigned limit = wr_h2_client_limit(client);
    if (!wr_h2_session_sleep(&client->session))
        return WR_HIBERNATION_BUSY;
    client->limit = limit;
    wr_loop_deadline_remove(client->loop, &client->ping_deadline);
    return WR_HIBERNATION_DONE;
}

void wr_h2_client_woken(struct wr_h2_session *session)
{
    struct wr_h2_client *client = wr_h2_client_of(session);
    if (client->released)
        return;
    set_ping_deadline(client);
    if (client->events->woken != NULL)
        client->events->woken(client->owner);
}

static void release(struct wr_garbage *garbage)
{
    struct wr_h2_client *client = WR_CONTAINER_OF(garbage, struct wr_h2_client, garbage);
    wr_h2_session_free(&client->session);
    free(client);
}

/* Whatever becomes of the transport, the last word is with it. */
static void close_codec(struct wr_client_codec *codec, enum wr_err why)
{
    struct wr_h2_client *client = of(codec);
    if (client->released)
        return;
    client->released = true;
    client->dead = true;
    wr_h2_session_part(&client->session, NGHTTP2_NO_ERROR);
    wr_h2_session_close(&client->session);
    wr_transport_flush(client->transport);
    wr_loop_deadline_remove(client->loop, &client->ping_deadline);
    fail_all(client, why);
    wr_loop_release(client->loop, &client->garbage, release);
}

static const struct wr_client_codec_ops ops = {
    .name = "HTTP/2",
    .open = open_exchange,
    .capacity = capacity,
    .hibernate = hibernate,
    .close = close_codec,
};

struct wr_client_codec *wr_h2_client_new(struct wr_transport *transport,
                                         const struct wr_client_codec_options *options,
                                         struct wr_loop *loop,
                                         const struct wr_client_codec_events *events, void *owner)
{
    struct wr_h2_client *client = WR_NEW(struct wr_h2_client);
    client->base.ops = &ops;
    client->transport = transport;
    client->loop = loop;
    client->events = events;
    client->owner = owner;
    client->last_heard = wr_loop_now(loop);
    wr_deadline_init(&client->ping_deadline, ping_expired);
    wr_h2_session_init(&client->session, false, transport, loop, &options->h2,
                       &wr_h2_client_session_events);
    client->session.limits = (struct wr_h2_limits){
        .block = options->head_limit,
        .fields = options->fields_limit,
        .underscores = true, /* only requests are matched by name against what weir adds */
    };
    wr_transport_set_events(transport, &wr_h2_client_transport_events, client);
    wr_h2_session_greet(&client->session, options->h2.stream_window);
    set_ping_deadline(client);
    return &client->base;
}
