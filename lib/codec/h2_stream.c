#include "codec/h2_stream.h"

#include "base/assert.h"
#include "codec/h2_window.h"

#define FRAME_HEAD 9 /* bytes: RFC 9113 section 4.1 */

struct wr_h2_stream *wr_h2_stream_new(struct wr_h2_session *session, struct wr_exchange *exchange,
                                      struct wr_message *in, struct wr_message *out)
{
    struct wr_h2_stream *stream = wr_arena_alloc_zero(&exchange->arena, sizeof(*stream));
    stream->session = session;
    stream->exchange = exchange;
    stream->in = in;
    stream->out = out;
    stream->left = WR_H2_ANY_LENGTH;
    stream->behind_since = WR_NEVER;
    wr_bytes_init(&stream->early, exchange->host->chunks);
    wr_list_push_back(&session->streams, &stream->link);
    session->count++;
    return stream;
}

void wr_h2_stream_forget(struct wr_h2_stream *stream)
{
    struct wr_h2_session *session = stream->session;
    if (stream->exchange == NULL)
        return;
    wr_list_remove(&stream->link);
    session->count--;
    wr_h2_window_release(stream);
    stream->exchange = NULL;
    if (session->fields == stream)
        session->fields = NULL;
    if (stream->id > 0)
        (void)nghttp2_session_set_stream_user_data(wr_h2_session_ng(session), stream->id, NULL);
    wr_bytes_clear(&stream->early);
    wr_h2_session_later(session);
}

static char only_ends;

void wr_h2_stream_leave_to_end(struct wr_h2_stream *stream)
{
    nghttp2_session *ng = wr_h2_session_ng(stream->session);
    wr_h2_stream_forget(stream);
    (void)nghttp2_session_set_stream_user_data(ng, stream->id, &only_ends);
    (void)nghttp2_session_resume_data(ng, stream->id);
}

bool wr_h2_stream_only_ends(const void *kept)
{
    return kept == &only_ends;
}

void wr_h2_stream_reset(struct wr_h2_stream *stream, uint32_t code)
{
    if (stream->id > 0)
        (void)nghttp2_submit_rst_stream(wr_h2_session_ng(stream->session), NGHTTP2_FLAG_NONE,
                                        stream->id, code);
    wr_h2_session_later(stream->session);
}

void wr_h2_stream_charge_reset(struct wr_h2_session *session, struct wr_h2_stream *stream)
{
    if (stream != NULL && stream->charged)
        return;
    if (stream != NULL)
        stream->charged = true;
    wr_h2_session_charge(session, WR_FLOOD_RESET);
}

/* ---- what comes ---- */

void wr_h2_stream_data(struct wr_h2_stream *stream, const uint8_t *p, size_t n)
{
    if (stream->incoming == WR_H2_IN_OPEN) {
        wr_message_put(stream->in, p, n);
        wr_h2_window_came(stream, n);
    } else if (stream->incoming == WR_H2_IN_HELD) {
        wr_bytes_append(&stream->early, p, n); /* at most a stream's window */
    } else if (stream->session->events->unwanted != NULL) {
        stream->session->events->unwanted(stream, n);
    }
}

void wr_h2_stream_data_end(struct wr_h2_stream *stream, struct wr_fields *trailers)
{
    switch (stream->incoming) {
    case WR_H2_IN_OPEN:
        stream->incoming = WR_H2_IN_WHOLE;
        wr_message_end(stream->in, trailers);
        break;
    case WR_H2_IN_HELD:
        stream->early_end = true;
        break;
    default:
        stream->incoming = WR_H2_IN_WHOLE;
        break;
    }
}

void wr_h2_stream_release_held(struct wr_h2_stream *stream)
{
    if (stream->incoming != WR_H2_IN_HELD)
        return;
    stream->incoming = WR_H2_IN_OPEN;
    wr_message_put_bytes(stream->in, &stream->early);
    if (stream->early_end && stream->exchange != NULL)
        wr_h2_stream_data_end(stream, NULL);
}

/* N may be 0: what was given back before and not told yet may be worth an update of a window that has shrunk. */
static void give_back(struct wr_h2_stream *stream, size_t n)
{
    if (stream->exchange == NULL || stream->incoming == WR_H2_IN_WHOLE)
        return;
    (void)nghttp2_session_consume_stream(wr_h2_session_ng(stream->session), stream->id, n);
    wr_h2_session_later(stream->session);
}

void wr_h2_stream_unwant(struct wr_h2_stream *stream)
{
    size_t held = stream->incoming == WR_H2_IN_OPEN ? wr_message_held(stream->in) : 0;
    if (stream->incoming == WR_H2_IN_HELD)
        held = stream->early.length;
    else if (stream->incoming != WR_H2_IN_OPEN)
        return;
    wr_bytes_clear(&stream->early);
    stream->incoming = stream->early_end ? WR_H2_IN_WHOLE : WR_H2_IN_UNWANTED;
    give_back(stream, held);
}

void wr_h2_stream_on_room(void *source, size_t consumed)
{
    struct wr_h2_stream *stream = source;
    if (stream->exchange != NULL)
        give_back(stream, wr_h2_window_taken(stream, consumed));
}

/* ---- what goes ---- */

/* All content that will ever be is in the message, or was. */
static bool has_ended(const struct wr_message *message)
{
    return message->state == WR_MESSAGE_ENDED || message->state == WR_MESSAGE_DONE;
}

/* Content that does not fit its announced length must not look whole. */
static ssize_t misfit(struct wr_h2_stream *stream)
{
    stream->why = stream->session->server ? WR_ERR_RESPONSE_INCOMPLETE : WR_ERR_BAD_REQUEST;
    return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

/* The last frame of content, or an empty one; what comes after it. */
static ssize_t last_frame(struct wr_h2_stream *stream, size_t n, uint32_t *flags)
{
    const struct wr_fields *trailers = stream->out->trailers;
    if (stream->left != WR_H2_ANY_LENGTH && stream->left != n)
        return misfit(stream);
    *flags |= NGHTTP2_DATA_FLAG_EOF;
    if (trailers != NULL && !stream->tunnel) {
        struct wr_h2_fields fields;
        wr_h2_trailer_fields(&fields, trailers, &stream->exchange->arena);
        if (fields.count > 0) {
            *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
            (void)nghttp2_submit_trailer(wr_h2_session_ng(stream->session), stream->id, fields.v,
                                         fields.count);
        }
    }
    return (ssize_t)n;
}

static ssize_t on_read(nghttp2_session *ng, int32_t id, uint8_t *buf, size_t max, uint32_t *flags,
                       nghttp2_data_source *source, void *user)
{
    struct wr_h2_session *session = user;
    void *kept = nghttp2_session_get_stream_user_data(ng, id);
    struct wr_h2_stream *stream = kept;
    (void)buf;
    (void)source;
    if (wr_h2_stream_only_ends(kept)) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
        return 0;
    }
    if (stream == NULL || stream->out->state == WR_MESSAGE_FAILED)
        return NGHTTP2_ERR_DEFERRED; /* a reset is on its way */
    size_t room = wr_transport_output_room(session->transport);
    size_t there = stream->out->content.length;
    size_t n = there < max ? there : max;
    if (room == 0)
        return NGHTTP2_ERR_PAUSE;
    if (n > stream->left)
        return misfit(stream);
    *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    if (n == there && has_ended(stream->out))
        return last_frame(stream, n, flags);
    if (n == 0) {
        stream->deferred = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    return (ssize_t)n;
}

const nghttp2_data_provider wr_h2_stream_provider = {.read_callback = on_read};

int wr_h2_stream_send_data(struct wr_h2_stream *stream, const uint8_t *frame_head, size_t n)
{
    struct wr_h2_session *session = stream->session;
    struct wr_message *message = stream->out;
    wr_transport_write(session->transport, frame_head, FRAME_HEAD);
    if (n == 0)
        return 0;
    session->passing.pool = stream->exchange->host->chunks;
    size_t taken = wr_message_take(message, &session->passing, n);
    WR_ASSERT(taken == n);
    if (stream->left != WR_H2_ANY_LENGTH)
        stream->left -= n;
    (void)wr_transport_write_bytes(session->transport, &session->passing, n);
    wr_message_taken(message, n);
    return 0;
}

static void go_on(struct wr_h2_stream *stream)
{
    if (stream->exchange == NULL || stream->outgoing != WR_H2_OUT_OPEN)
        return;
    if (stream->deferred) {
        stream->deferred = false;
        (void)nghttp2_session_resume_data(wr_h2_session_ng(stream->session), stream->id);
    }
    wr_h2_session_later(stream->session);
}

void wr_h2_stream_on_content(void *sink)
{
    go_on(sink);
}

void wr_h2_stream_on_end(void *sink, const struct wr_fields *trailers)
{
    (void)trailers; /* the message has them */
    go_on(sink);
}
