#include "codec/h2_window.h"

#include <string.h>

/* A stream that did not use its window up so many times is asked about again after so many windows. */
#define MISSES 2
#define PATIENCE 4
/* A sink has stalled when so long there was much to take. */
#define STALL (50 * WR_MSEC)

static const uint8_t probe_ping[8] = {'w', 'e', 'i', 'r', 'w', 'i', 'n', 'd'};

static size_t window_of(const struct wr_h2_stream *stream)
{
    return stream->in->limit + stream->in->extra;
}

static void widen(struct wr_h2_stream *stream, size_t more)
{
    wr_message_widen(stream->in, more);
    stream->session->extra += more;
}

static void narrow(struct wr_h2_stream *stream, size_t less)
{
    wr_message_narrow(stream->in, less);
    stream->session->extra -= less;
}

/* Before the peer has acknowledged SETTINGS nghttp2 counts from another window than it does afterwards: so by how much, not to what.
 * What nghttp2 has kept back to make a window smaller it does not give when the window grows: it only counts as held again. */
static void change_window(struct wr_h2_stream *stream, int64_t by)
{
    nghttp2_session *ng = wr_h2_session_ng(stream->session);
    int64_t window = by + nghttp2_session_get_stream_effective_local_window_size(ng, stream->id);
    (void)nghttp2_session_set_local_window_size(ng, NGHTTP2_FLAG_NONE, stream->id,
                                                window < INT32_MAX ? (int32_t)window : INT32_MAX);
    int64_t again = by < stream->kept_back ? by : stream->kept_back;
    stream->kept_back -= again;
    if (again > 0)
        (void)nghttp2_session_consume_stream(ng, stream->id, (size_t)again);
    wr_h2_session_later(stream->session);
}

/* A smaller window than SETTINGS gave is a stall from the start: nghttp2 must not be told of it before content is taken. */
void wr_h2_window_open(struct wr_h2_stream *stream)
{
    nghttp2_session *ng = wr_h2_session_ng(stream->session);
    size_t given = stream->session->stream_window;
    size_t window = stream->in->limit < INT32_MAX ? stream->in->limit : INT32_MAX;
    if (window < given) {
        widen(stream, given - window);
        stream->shrinking = true;
    } else if (window > given) {
        change_window(stream, (int64_t)(window - given));
    }
    if ((int64_t)window > nghttp2_session_get_effective_local_window_size(ng))
        (void)nghttp2_session_set_local_window_size(ng, NGHTTP2_FLAG_NONE, 0, (int32_t)window);
}

/* How much wider the window may be made now. */
static size_t growth(const struct wr_h2_stream *stream)
{
    const struct wr_h2_session *session = stream->session;
    size_t most = session->options->stream_window_max;
    size_t window = window_of(stream);
    if (window >= most || stream->shrinking || stream->incoming != WR_H2_IN_OPEN)
        return 0;
    size_t more = window < most - window ? window : most - window;
    size_t all = session->options->connection_window;
    size_t spare = session->extra < all ? all - session->extra : 0;
    return more < spare ? more : spare;
}

static void grow(struct wr_h2_stream *stream)
{
    size_t more = growth(stream);
    stream->limited = false;
    if (more == 0)
        return;
    widen(stream, more);
    change_window(stream, (int64_t)more);
}

/* Content that waits for its sink, but for what is on its way through us. */
static bool keeps_up(const struct wr_h2_stream *stream)
{
    return wr_message_held(stream->in) <= window_of(stream) / 8;
}

/* ---- whether the window is what holds the peer up ---- */

/* A PING goes out with the first content that comes after the last one was answered: what has come until the answer is what the peer
 * sends in a round trip. Content often comes in bursts, each set off by our WINDOW_UPDATEs; the burst that sets off a PING counts. */

/* The probe is odd while a PING is out. */
static void count(struct wr_h2_stream *stream, size_t n)
{
    if (stream->probe != stream->session->probe) {
        stream->probe = stream->session->probe;
        stream->came = 0;
        stream->limited = false;
    }
    stream->came += n;
}

/* Of what comes before the next PING: little content is not worth one, nor is a stream that gains nothing by it. A window that has
 * grown shows in the round trip after the next. */
static size_t enough(const struct wr_h2_stream *stream)
{
    if (!stream->judged)
        return window_of(stream) / 2;
    return stream->misses < MISSES ? 0 : window_of(stream) * PATIENCE;
}

static void ask(struct wr_h2_stream *stream, size_t n)
{
    struct wr_h2_session *session = stream->session;
    if (session->probe % 2 != 0 || stream->came < enough(stream) || growth(stream) == 0)
        return;
    if (stream->misses == MISSES)
        stream->misses = 0; /* the first may begin in the middle of a burst */
    session->probe++;
    count(stream, n);
    (void)nghttp2_submit_ping(wr_h2_session_ng(session), NGHTTP2_FLAG_NONE, probe_ping);
    wr_h2_session_later(session);
}

void wr_h2_window_came(struct wr_h2_stream *stream, size_t n)
{
    if (stream->exchange == NULL || stream->incoming != WR_H2_IN_OPEN)
        return;
    count(stream, n);
    if (wr_message_held(stream->in) > window_of(stream) / 2 && stream->behind_since == WR_NEVER)
        stream->behind_since = wr_loop_now(stream->session->loop);
    ask(stream, n);
}

static void judge(struct wr_h2_stream *stream)
{
    stream->judged = true;
    stream->limited = stream->came >= window_of(stream) / 3 * 2;
    if (stream->limited)
        stream->misses = 0;
    else if (stream->misses < MISSES)
        stream->misses++;
    stream->probe++; /* counts anew, and stays judged */
    stream->came = 0;
    if (stream->limited && keeps_up(stream))
        grow(stream);
}

bool wr_h2_window_answered(struct wr_h2_session *session, const nghttp2_frame *frame)
{
    bool ack = (frame->hd.flags & NGHTTP2_FLAG_ACK) != 0;
    if (!ack || session->probe % 2 == 0 ||
        memcmp(frame->ping.opaque_data, probe_ping, sizeof(probe_ping)) != 0)
        return false;
    for (struct wr_list *link = session->streams.next; link != &session->streams;
         link = link->next) {
        struct wr_h2_stream *stream = WR_CONTAINER_OF(link, struct wr_h2_stream, link);
        if (stream->probe == session->probe && stream->incoming == WR_H2_IN_OPEN)
            judge(stream);
    }
    session->probe++;
    return true;
}

/* ---- what is taken ---- */

/* What comes in bursts waits a little, even for a sink that keeps up. */
static void note_stall(struct wr_h2_stream *stream)
{
    uint64_t now = wr_loop_now(stream->session->loop);
    bool stalled = stream->behind_since < now && now - stream->behind_since > STALL;
    stream->shrinking |= stalled && stream->in->extra > 0;
    if (stalled || wr_message_held(stream->in) <= window_of(stream) / 4)
        stream->behind_since = WR_NEVER;
}

size_t wr_h2_window_taken(struct wr_h2_stream *stream, size_t n)
{
    note_stall(stream);
    if (stream->shrinking) {
        size_t less = n < stream->in->extra ? n : stream->in->extra;
        narrow(stream, less);
        change_window(stream, -(int64_t)less);
        stream->shrinking = stream->in->extra > 0;
        return n - less;
    }
    if (stream->limited && keeps_up(stream))
        grow(stream);
    return n;
}

void wr_h2_window_release(struct wr_h2_stream *stream)
{
    narrow(stream, stream->in->extra);
}
