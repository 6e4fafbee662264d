/* Life and endings. */
#include "codec/h2_server.h"

#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/mem.h"
#include "codec/h2_server_internal.h"

/* How long a client may take to answer the PING behind the first GOAWAY. */
#define DRAIN_ROUND_TRIP (1 * WR_SEC)

static const uint8_t drain_ping[8] = {'w', 'e', 'i', 'r', 'l', 'a', 's', 't'};

static struct wr_h2_server *of(struct wr_server_codec *codec)
{
    return WR_CONTAINER_OF(codec, struct wr_h2_server, base);
}

/* ---- streams ---- */

void wr_h2_server_finish(struct wr_h2_stream *stream, enum wr_err why)
{
    struct wr_exchange *exchange = stream->exchange;
    if (exchange == NULL)
        return;
    wr_h2_stream_forget(stream);
    wr_exchange_finish(exchange, why);
}

void wr_h2_server_give_up(struct wr_h2_stream *stream, enum wr_err why)
{
    if (stream->exchange == NULL)
        return;
    stream->why = why;
    if (wr_err_info(why)->side == WR_SIDE_CLIENT && !wr_h2_server_of(stream->session)->client_ended)
        wr_h2_stream_charge_reset(stream->session, stream);
    wr_h2_stream_reset(stream, wr_err_info(why)->h2_code);
    wr_h2_server_finish(stream, why);
}

/* nghttp2 drops what a stream has to say as soon as it is to be reset. */
void wr_h2_server_fail(struct wr_h2_stream *stream, enum wr_err why)
{
    stream->failed = true;
    stream->why = why;
    wr_h2_server_of(stream->session)->failures = true;
    wr_h2_session_later(stream->session);
}

static struct wr_h2_stream *failed_stream(struct wr_h2_session *session)
{
    for (struct wr_list *link = session->streams.next; link != &session->streams;
         link = link->next) {
        struct wr_h2_stream *stream = WR_CONTAINER_OF(link, struct wr_h2_stream, link);
        if (stream->failed)
            return stream;
    }
    return NULL;
}

void wr_h2_server_give_up_failed(struct wr_h2_server *server)
{
    if (!server->failures)
        return;
    server->failures = false;
    for (struct wr_h2_stream *failed; (failed = failed_stream(&server->session)) != NULL;)
        wr_h2_server_give_up(failed, failed->why);
}

void wr_h2_server_forgo_rest(struct wr_h2_stream *stream)
{
    wr_h2_stream_reset(stream, NGHTTP2_NO_ERROR);
    wr_h2_server_finish(stream, WR_OK);
}

void wr_h2_server_finish_all(struct wr_h2_server *server, enum wr_err why)
{
    struct wr_list *streams = &server->session.streams;
    while (!wr_list_empty(streams))
        wr_h2_server_finish(WR_CONTAINER_OF(streams->next, struct wr_h2_stream, link), why);
}

/* ---- endings ---- */

static void stop(struct wr_h2_server *server)
{
    wr_h2_session_close(&server->session);
    wr_loop_deadline_remove(server->host->loop, &server->drain_deadline);
}

/* The transport is broken. */
void wr_h2_server_broken(struct wr_h2_server *server, enum wr_err why)
{
    stop(server);
    wr_h2_server_finish_all(server, why);
    if (!server->released)
        server->events->done(server->owner, why);
}

/* All is said. Streams that are left end without END_STREAM, so nobody takes a part for the whole. */
void wr_h2_server_over(struct wr_h2_session *session)
{
    struct wr_h2_server *server = wr_h2_server_of(session);
    bool outlived = session->count > 0 && !session->ending && session->err == WR_OK;
    if (outlived)
        return; /* the last bytes of tunnels are still passed on */
    stop(server);
    wr_h2_server_finish_all(server, session->err != WR_OK ? session->err : WR_ERR_CLIENT_CLOSED);
    if (server->released)
        return;
    wr_transport_end(server->transport);
    wr_transport_discard_input(server->transport);
    server->events->done(server->owner, WR_OK);
}

/* ---- drain (RFC 9113 section 6.8) ---- */

static void last_goaway(struct wr_h2_server *server)
{
    nghttp2_session *ng = wr_h2_session_ng(&server->session);
    if (server->session.ending || server->drained)
        return;
    server->drained = true;
    wr_loop_deadline_remove(server->host->loop, &server->drain_deadline);
    (void)nghttp2_submit_goaway(ng, NGHTTP2_FLAG_NONE, nghttp2_session_get_last_proc_stream_id(ng),
                                NGHTTP2_NO_ERROR, NULL, 0);
    wr_h2_session_later(&server->session);
}

static void drain_expired(struct wr_deadline *deadline, uint64_t now)
{
    (void)now;
    last_goaway(WR_CONTAINER_OF(deadline, struct wr_h2_server, drain_deadline));
}

void wr_h2_server_frame(struct wr_h2_session *session, const nghttp2_frame *frame)
{
    struct wr_h2_server *server = wr_h2_server_of(session);
    if (frame->hd.type == NGHTTP2_PING && (frame->hd.flags & NGHTTP2_FLAG_ACK) != 0 &&
        server->draining && memcmp(frame->ping.opaque_data, drain_ping, sizeof(drain_ping)) == 0)
        last_goaway(server);
}

/* Only now: nghttp2 sends a PING before whatever else waits. */
void wr_h2_server_sent_notice(struct wr_h2_session *session)
{
    (void)nghttp2_submit_ping(wr_h2_session_ng(session), NGHTTP2_FLAG_NONE, drain_ping);
}

void wr_h2_server_drain(struct wr_h2_server *server)
{
    struct wr_h2_session *session = &server->session;
    if (server->draining || session->closed || session->ending)
        return;
    server->draining = true;
    (void)nghttp2_submit_shutdown_notice(wr_h2_session_ng(session));
    wr_loop_deadline_set(server->host->loop, &server->drain_deadline,
                         wr_loop_now(server->host->loop) + DRAIN_ROUND_TRIP);
    wr_h2_session_later(session);
}

static void drain(struct wr_server_codec *codec)
{
    wr_h2_server_drain(of(codec));
}

/* ---- what the owner asks ---- */

/* Between requests that is a GOAWAY; a client that does not even take that is reset. */
static void timed_out(struct wr_server_codec *codec, enum wr_err why)
{
    struct wr_h2_server *server = of(codec);
    struct wr_h2_session *session = &server->session;
    if (session->closed)
        return;
    if (session->ending) {
        wr_h2_server_broken(server, why);
        return;
    }
    if (why == WR_ERR_REQUEST_HEADER_TIMEOUT)
        wr_h2_server_finish_all(server, why);
    wr_h2_session_end(session, NGHTTP2_NO_ERROR);
}

static enum wr_hibernation hibernate(struct wr_server_codec *codec)
{
    struct wr_h2_server *server = of(codec);
    bool asks = server->draining && !server->drained;
    return !asks && wr_h2_session_sleep(&server->session) ? WR_HIBERNATION_DONE
                                                          : WR_HIBERNATION_BUSY;
}

void wr_h2_server_woken(struct wr_h2_session *session)
{
    struct wr_h2_server *server = wr_h2_server_of(session);
    if (!server->released)
        server->events->woken(server->owner);
}

static void release(struct wr_garbage *garbage)
{
    struct wr_h2_server *server = WR_CONTAINER_OF(garbage, struct wr_h2_server, garbage);
    wr_h2_session_free(&server->session);
    free(server);
}

/* Whatever becomes of the transport, the last word is with it. */
static void close_codec(struct wr_server_codec *codec, enum wr_err why)
{
    struct wr_h2_server *server = of(codec);
    if (server->released)
        return;
    server->released = true;
    if (!server->session.closed) {
        wr_h2_session_end(&server->session, NGHTTP2_NO_ERROR);
        wr_h2_session_write(&server->session);
    }
    stop(server);
    wr_h2_server_finish_all(server, why);
    wr_loop_release(server->host->loop, &server->garbage, release);
}

static const struct wr_server_codec_ops ops = {
    .name = "HTTP/2",
    .timed_out = timed_out,
    .drain = drain,
    .hibernate = hibernate,
    .close = close_codec,
};

struct wr_server_codec *wr_h2_server_new(struct wr_transport *transport,
                                         const struct wr_server_codec_options *options,
                                         struct wr_exchange_host *host,
                                         const struct wr_client_info *client,
                                         const struct wr_server_codec_events *events, void *owner)
{
    struct wr_h2_server *server = WR_NEW(struct wr_h2_server);
    server->base.ops = &ops;
    server->transport = transport;
    server->options = options;
    server->host = host;
    server->client = client;
    server->events = events;
    server->owner = owner;
    wr_deadline_init(&server->drain_deadline, drain_expired);
    wr_h2_session_init(&server->session, true, transport, host->loop, &options->h2,
                       &wr_h2_server_session_events);
    server->session.limits = (struct wr_h2_limits){
        .block = options->head_limit,
        .target = options->uri_limit,
        .fields = options->fields_limit,
        .underscores = options->underscores,
    };
    wr_h2_session_greet(&server->session, host->content_limit);
    wr_transport_set_events(transport, &wr_h2_server_transport_events, server);
    return &server->base;
}
