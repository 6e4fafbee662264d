/* What nghttp2 tells, passed on to streams and codec. */
#include "base/assert.h"
#include "codec/h2_window.h"

/* WINDOW_UPDATEs below this are counted; each DATA frame of ours is good for some. */
#define SMALL_INCREMENT 1024
#define UPDATES_A_FRAME 2
/* RST_STREAM and WINDOW_UPDATE that each stream is good for after its end: what was on its way (RFC 9113 section 5.1). */
#define PARDONS_A_STREAM 4
#define MOST_PARDONS 1000

static struct wr_h2_session *of(void *user)
{
    return user;
}

static struct wr_h2_stream *stream_of(nghttp2_session *ng, int32_t id)
{
    void *stream = nghttp2_session_get_stream_user_data(ng, id);
    return wr_h2_stream_only_ends(stream) ? NULL : stream;
}

/* ---- frames that come ---- */

static void pardon(struct wr_h2_session *session)
{
    if (session->pardons < MOST_PARDONS)
        session->pardons += PARDONS_A_STREAM;
}

/* nghttp2 says nothing more of these. */
static void charge_late(struct wr_h2_session *session, const nghttp2_frame_hd *hd)
{
    bool late = hd->type == NGHTTP2_RST_STREAM || hd->type == NGHTTP2_WINDOW_UPDATE;
    if (!late || hd->stream_id == 0 ||
        nghttp2_session_find_stream(wr_h2_session_ng(session), hd->stream_id) != NULL)
        return;
    if (session->pardons > 0)
        session->pardons--;
    else
        wr_h2_session_charge(session, WR_FLOOD_EMPTY);
}

static int on_begin_frame(nghttp2_session *ng, const nghttp2_frame_hd *hd, void *user)
{
    struct wr_h2_session *session = of(user);
    bool ack = (hd->flags & NGHTTP2_FLAG_ACK) != 0;
    charge_late(session, hd);
    switch (hd->type) {
    case NGHTTP2_CONTINUATION:
        wr_h2_session_charge(user, WR_FLOOD_CONTINUATION);
        break;
    case NGHTTP2_PING:
        if (!ack)
            wr_h2_session_charge(user, WR_FLOOD_PING);
        break;
    case NGHTTP2_SETTINGS:
        if (!ack)
            wr_h2_session_charge(user, WR_FLOOD_SETTINGS);
        break;
    case NGHTTP2_PRIORITY:
    case NGHTTP2_PRIORITY_UPDATE:
        wr_h2_session_charge(user, WR_FLOOD_PRIORITY);
        break;
    case NGHTTP2_HEADERS:
        /* A stream that is there before its head: PRIORITY_UPDATE was first (RFC 9218 section 7.1). */
        session->prioritised = nghttp2_session_find_stream(ng, hd->stream_id) != NULL;
        if (hd->length == 0)
            wr_h2_session_charge(user, WR_FLOOD_EMPTY);
        break;
    default:
        break;
    }
    return 0;
}

/* Streams share the connection in turns unless the client says otherwise: the default of RFC 9218 section 4.2 would let
 * a large response hold up all that were asked for after it. */
static void share(nghttp2_session *ng, int32_t id)
{
    nghttp2_extpri priority = {.urgency = NGHTTP2_EXTPRI_DEFAULT_URGENCY, .inc = 1};
    (void)nghttp2_session_change_extpri_stream_priority(ng, id, &priority, 0);
}

static int on_begin_headers(nghttp2_session *ng, const nghttp2_frame *frame, void *user)
{
    struct wr_h2_session *session = of(user);
    int32_t id = frame->hd.stream_id;
    struct wr_h2_stream *stream = stream_of(ng, id);
    session->fields = NULL;
    if (session->closed || session->ending || frame->hd.type != NGHTTP2_HEADERS)
        return 0;
    if (frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
        stream = session->events->begun(session, id);
        if (stream == NULL)
            return 0;
        (void)nghttp2_session_set_stream_user_data(ng, id, stream);
        if (!session->prioritised)
            share(ng, id);
        pardon(session);
    }
    if (stream == NULL)
        return 0;
    wr_h2_block_begin(&stream->block, &stream->exchange->arena);
    session->fields = stream;
    return 0;
}

static int on_header(nghttp2_session *ng, const nghttp2_frame *frame, nghttp2_rcbuf *name,
                     nghttp2_rcbuf *value, uint8_t flags, void *user)
{
    struct wr_h2_session *session = of(user);
    (void)ng;
    (void)frame;
    if (session->fields != NULL)
        wr_h2_block_add(&session->fields->block, &session->limits, name, value, flags);
    return 0;
}

static int on_data_chunk(nghttp2_session *ng, uint8_t flags, int32_t id, const uint8_t *p, size_t n,
                         void *user)
{
    struct wr_h2_stream *stream = stream_of(ng, id);
    (void)flags;
    (void)user;
    /* Behaviour row 41: off the wire is enough for the connection; the stream's window waits for the message. */
    (void)nghttp2_session_consume_connection(ng, n);
    if (stream != NULL)
        wr_h2_stream_data(stream, p, n);
    return 0;
}

/* Behaviour row 34. What an upstream has not looked at, it may refuse as often as it likes. */
static void reset_came(struct wr_h2_session *session, struct wr_h2_stream *stream, uint32_t code)
{
    if (stream == NULL)
        return;
    stream->peer_reset = true;
    bool ended = session->server
                     ? stream->outgoing == WR_H2_OUT_WHOLE
                     : stream->incoming == WR_H2_IN_WHOLE || code == NGHTTP2_REFUSED_STREAM;
    if (!ended)
        wr_h2_stream_charge_reset(session, stream);
}

static void got_end(struct wr_h2_session *session, struct wr_h2_stream *stream)
{
    if (stream != NULL && stream->exchange != NULL && session->events->got_end != NULL)
        session->events->got_end(stream);
}

static void headers_came(struct wr_h2_session *session, struct wr_h2_stream *stream, bool last)
{
    session->fields = NULL;
    if (stream != NULL)
        session->events->head(stream, last);
    if (last)
        got_end(session, stream);
}

static void data_came(struct wr_h2_session *session, struct wr_h2_stream *stream,
                      const nghttp2_frame *frame)
{
    if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) {
        if (stream != NULL)
            wr_h2_stream_data_end(stream, NULL);
        got_end(session, stream);
    } else if (frame->hd.length <= frame->data.padlen) {
        wr_h2_session_charge(session, WR_FLOOD_EMPTY);
    }
}

static int on_frame_recv(nghttp2_session *ng, const nghttp2_frame *frame, void *user)
{
    struct wr_h2_session *session = of(user);
    struct wr_h2_stream *stream = stream_of(ng, frame->hd.stream_id);
    if (session->closed || session->ending)
        return 0;
    switch (frame->hd.type) {
    case NGHTTP2_HEADERS:
        headers_came(session, stream, (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0);
        break;
    case NGHTTP2_DATA:
        data_came(session, stream, frame);
        break;
    case NGHTTP2_RST_STREAM:
        reset_came(session, stream, frame->rst_stream.error_code);
        break;
    case NGHTTP2_WINDOW_UPDATE:
        if (frame->window_update.window_size_increment < SMALL_INCREMENT)
            wr_h2_session_charge(session, WR_FLOOD_WINDOW);
        break;
    case NGHTTP2_SETTINGS:
        session->greeted |= (frame->hd.flags & NGHTTP2_FLAG_ACK) == 0;
        session->events->frame(session, frame);
        break;
    case NGHTTP2_PING:
        if (wr_h2_window_answered(session, frame))
            break;
        if ((frame->hd.flags & NGHTTP2_FLAG_ACK) != 0)
            wr_h2_session_charge(session, WR_FLOOD_PING);
        session->events->frame(session, frame);
        break;
    case NGHTTP2_GOAWAY:
        session->events->frame(session, frame);
        break;
    default:
        break;
    }
    return 0;
}

/* nghttp2 resets the stream, or ends the session (behaviour row 35). */
static int on_invalid_frame(nghttp2_session *ng, const nghttp2_frame *frame, int error, void *user)
{
    (void)error;
    wr_h2_stream_charge_reset(user, stream_of(ng, frame->hd.stream_id));
    return 0;
}

/* ---- frames that go ---- */

/* An end that we have not asked for: the peer has broken the rules, or put more settings into a frame than there are. */
static void goaway_sent(struct wr_h2_session *session, const nghttp2_frame *frame)
{
    uint32_t code = frame->goaway.error_code;
    if (frame->goaway.last_stream_id == INT32_MAX && session->events->sent_notice != NULL)
        session->events->sent_notice(session);
    if (code == NGHTTP2_NO_ERROR || session->err != WR_OK)
        return;
    if (code == NGHTTP2_ENHANCE_YOUR_CALM)
        wr_h2_session_flooded(session, WR_FLOOD_SETTINGS);
    else
        session->err = session->server ? WR_ERR_BAD_REQUEST : WR_ERR_BAD_RESPONSE;
    session->ending = true;
}

static void head_sent(struct wr_h2_stream *stream)
{
    if (!stream->session->server && !stream->head_sent) {
        wr_h2_window_open(stream);
        pardon(stream->session);
    }
    stream->head_sent = true;
}

static int on_frame_send(nghttp2_session *ng, const nghttp2_frame *frame, void *user)
{
    struct wr_h2_session *session = of(user);
    struct wr_h2_stream *stream = stream_of(ng, frame->hd.stream_id);
    if (session->closed)
        return 0;
    switch (frame->hd.type) {
    case NGHTTP2_DATA:
        wr_h2_bucket_refund(&session->buckets[WR_FLOOD_WINDOW], UPDATES_A_FRAME);
        break;
    case NGHTTP2_HEADERS:
        if (stream != NULL)
            head_sent(stream);
        break;
    case NGHTTP2_GOAWAY:
        goaway_sent(session, frame);
        return 0;
    default:
        return 0;
    }
    if (stream != NULL && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) {
        stream->outgoing = WR_H2_OUT_WHOLE;
        session->events->sent_end(stream);
    }
    return 0;
}

/* A header block nghttp2 will not send. */
static int on_frame_not_send(nghttp2_session *ng, const nghttp2_frame *frame, int error, void *user)
{
    struct wr_h2_session *session = of(user);
    struct wr_h2_stream *stream = stream_of(ng, frame->hd.stream_id);
    if (frame->hd.type != NGHTTP2_HEADERS || stream == NULL || session->closed ||
        error != NGHTTP2_ERR_FRAME_SIZE_ERROR)
        return 0;
    stream->why = WR_ERR_INTERNAL;
    wr_h2_stream_reset(stream, NGHTTP2_INTERNAL_ERROR);
    return 0;
}

static int on_send_data(nghttp2_session *ng, nghttp2_frame *frame, const uint8_t *head, size_t n,
                        nghttp2_data_source *source, void *user)
{
    struct wr_h2_stream *stream = stream_of(ng, frame->hd.stream_id);
    (void)source;
    (void)user;
    return stream != NULL ? wr_h2_stream_send_data(stream, head, n)
                          : NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

static int on_stream_close(nghttp2_session *ng, int32_t id, uint32_t code, void *user)
{
    struct wr_h2_session *session = of(user);
    struct wr_h2_stream *stream = stream_of(ng, id);
    if (session->closed || stream == NULL)
        return 0;
    /* Content that does not fit its length is reset without another word; what is above the last of an upstream's GOAWAY is refused. */
    bool refused = !session->server && code == NGHTTP2_REFUSED_STREAM;
    if (code != NGHTTP2_NO_ERROR && !refused && !stream->peer_reset && stream->why == WR_OK)
        wr_h2_stream_charge_reset(session, stream);
    session->events->closed(stream, code);
    return 0;
}

/* ---- all of them ---- */

nghttp2_session_callbacks *wr_h2_callbacks_new(void)
{
    nghttp2_session_callbacks *callbacks;
    int failed = nghttp2_session_callbacks_new(&callbacks);
    WR_ASSERT(failed == 0);
    nghttp2_session_callbacks_set_on_begin_frame_callback(callbacks, on_begin_frame);
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback2(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data_chunk);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame_recv);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks, on_invalid_frame);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_send);
    nghttp2_session_callbacks_set_on_frame_not_send_callback(callbacks, on_frame_not_send);
    nghttp2_session_callbacks_set_send_data_callback(callbacks, on_send_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
    return callbacks;
}
