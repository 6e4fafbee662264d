#include "codec/h2_session.h"

#include <string.h>

#include "base/assert.h"
#include "base/compiler.h"
#include "codec/h2_slots.h"
#include "codec/h2_stream.h"

#define MOST_HEAD_SENT ((size_t)1024 * 1024) /* what may come in is limited elsewhere */
#define MOST_WINDOW INT32_MAX
#define MOST_SETTINGS 6
#define FRAME_HEAD 9   /* bytes: RFC 9113 section 4.1 */
#define SETTING_SIZE 6 /* section 6.5.1 */

static struct wr_h2_session *of(void *user)
{
    return user;
}

/* ---- memory ---- */

/* nghttp2 keeps a buffer a session for the frame it is sending, most of what an idle session would cost. A frame is written
 * out whole before nghttp2 is left, so all sessions of a thread share one, which outlives the thread: what a worker leaves
 * is ended by another. If nghttp2 ever asks for another size, each has its own again. */
#define FRAME_BUFFER (9 + 1 + 16384)

_Static_assert(FRAME_BUFFER <= WR_H2_SLOT, "it fits");

static uint8_t *frame_buffer_of_thread(void)
{
    static _Thread_local uint8_t *buffer;
    if (buffer == NULL)
        buffer = wr_h2_slot_take();
    return buffer;
}

static void *mem_malloc(size_t size, void *user)
{
    return wr_h2_arena_alloc(&of(user)->arena, size);
}

static void *mem_calloc(size_t count, size_t size, void *user)
{
    WR_ASSERT(size == 0 || count <= SIZE_MAX / size);
    void *p = mem_malloc(count * size, user);
    memset(p, 0, count * size);
    return p;
}

static void mem_free(void *p, void *user)
{
    if (p == NULL || p != of(user)->frame_buffer)
        wr_h2_arena_free(&of(user)->arena, p);
}

static void *mem_realloc(void *p, size_t size, void *user)
{
    struct wr_h2_session *session = of(user);
    bool being_made = session->ng == NULL;
    if (p == NULL && size == FRAME_BUFFER && being_made && session->frame_buffer != NULL)
        return session->frame_buffer;
    if (p != NULL && p == session->frame_buffer) {
        void *own = mem_malloc(size, user);
        memcpy(own, p, size < FRAME_BUFFER ? size : FRAME_BUFFER);
        return own;
    }
    return wr_h2_arena_resize(&session->arena, p, size);
}

/* ---- sleep ---- */

static bool is_at_work(const struct wr_h2_session *session)
{
    bool preface = session->heard && !session->greeted;
    bool ends = session->closed || session->ending || session->err != WR_OK;
    bool asks = session->probe % 2 != 0; /* a PING is out */
    return ends || preface || asks || session->entered || session->count > 0 ||
           session->fields != NULL || !wr_list_empty(&session->task.link) ||
           wr_transport_output(session->transport) > 0;
}

bool wr_h2_session_sleep(struct wr_h2_session *session)
{
    if (wr_h2_session_sleeps(session))
        return true;
    if (is_at_work(session) || nghttp2_session_want_write(session->ng) ||
        !wr_h2_arena_sleep(&session->arena))
        return false;
    session->asleep = session->ng;
    session->ng = NULL;
    return true;
}

static void wake(struct wr_h2_session *session)
{
    wr_h2_arena_wake(&session->arena);
    session->ng = session->asleep;
    session->asleep = NULL;
}

nghttp2_session *wr_h2_session_wake(struct wr_h2_session *session)
{
    WR_ASSERT(wr_h2_session_sleeps(session));
    wake(session);
    session->events->woken(session);
    return session->ng;
}

/* ---- ending ---- */

void wr_h2_session_end(struct wr_h2_session *session, uint32_t code)
{
    if (session->closed)
        return;
    session->ending = true;
    (void)nghttp2_session_terminate_session(wr_h2_session_ng(session), code);
    wr_h2_session_later(session);
}

void wr_h2_session_fail(struct wr_h2_session *session, enum wr_err err)
{
    if (session->err == WR_OK)
        session->err = err;
    wr_h2_session_end(session, wr_err_info(err)->h2_code);
}

void wr_h2_session_flooded(struct wr_h2_session *session, enum wr_flood kind)
{
    wr_h2_session_fail(session, WR_ERR_FLOODED);
    session->events->flooded(session, kind);
}

void wr_h2_session_charge(struct wr_h2_session *session, enum wr_flood kind)
{
    if (session->ending || session->closed ||
        wr_h2_bucket_spend(&session->buckets[kind], &session->options->budgets[kind],
                           wr_loop_now(session->loop)))
        return;
    wr_h2_session_flooded(session, kind);
}

void wr_h2_session_close(struct wr_h2_session *session)
{
    session->closed = true;
    wr_task_cancel(&session->task);
}

void wr_h2_session_free(struct wr_h2_session *session)
{
    wr_h2_session_close(session);
    if (wr_h2_session_sleeps(session) && session->arena.spilled > 0)
        wake(session);
    if (!wr_h2_session_sleeps(session)) { /* else it is all in the arena */
        nghttp2_session_del(session->ng);
        wr_h2_arena_free(&session->arena, session->buckets);
    }
    session->ng = NULL;
    session->asleep = NULL;
    wr_h2_arena_clear(&session->arena);
    wr_bytes_clear(&session->passing);
}

/* ---- in and out ---- */

/* nghttp2 gives up without a word to the peer. */
static void receive_failed(struct wr_h2_session *session, int error)
{
    switch (error) {
    case NGHTTP2_ERR_TOO_MANY_CONTINUATIONS:
        wr_h2_session_flooded(session, WR_FLOOD_CONTINUATION);
        break;
    case NGHTTP2_ERR_FLOODED: /* too many acknowledgements wait to be sent */
        wr_h2_session_flooded(session, WR_FLOOD_PING);
        break;
    default:
        wr_h2_session_fail(session, session->server ? WR_ERR_BAD_REQUEST : WR_ERR_BAD_RESPONSE);
        break;
    }
}

void wr_h2_session_receive(struct wr_h2_session *session, const uint8_t *p, size_t n)
{
    if (session->closed)
        return;
    nghttp2_session *ng = wr_h2_session_ng(session);
    session->heard = true;
    session->entered = true;
    ssize_t taken = nghttp2_session_mem_recv(ng, p, n);
    session->entered = false;
    if (session->closed)
        return;
    if (taken < 0)
        receive_failed(session, (int)taken);
    wr_h2_session_later(session);
}

/* ALL: though there is no room. */
static void write_out(struct wr_h2_session *session, bool all)
{
    if (session->entered || wr_h2_session_sleeps(session))
        return;
    session->entered = true;
    while (!session->closed && (all || wr_transport_output_room(session->transport) > 0)) {
        const uint8_t *p;
        ssize_t n = nghttp2_session_mem_send(session->ng, &p);
        if (n <= 0)
            break;
        wr_transport_write(session->transport, p, (size_t)n);
    }
    session->entered = false;
}

void wr_h2_session_write(struct wr_h2_session *session)
{
    write_out(session, false);
}

void wr_h2_session_part(struct wr_h2_session *session, uint32_t code)
{
    write_out(session, true);
    wr_h2_session_end(session, code);
    write_out(session, true);
}

void wr_h2_session_later(struct wr_h2_session *session)
{
    if (!session->closed)
        wr_loop_defer(session->loop, &session->task);
}

static void run(struct wr_task *task)
{
    struct wr_h2_session *session = WR_CONTAINER_OF(task, struct wr_h2_session, task);
    wr_h2_session_write(session);
    if (session->closed)
        return;
    session->events->settled(session);
    if (!session->closed && !wr_h2_session_sleeps(session) &&
        !nghttp2_session_want_read(session->ng) && !nghttp2_session_want_write(session->ng))
        session->events->over(session);
}

/* ---- making ---- */

static nghttp2_option *new_option(const struct wr_h2_options *options)
{
    nghttp2_option *option;
    int failed = nghttp2_option_new(&option);
    WR_ASSERT(failed == 0);
    nghttp2_option_set_no_auto_window_update(option, 1);
    nghttp2_option_set_no_closed_streams(option, 1);
    nghttp2_option_set_peer_max_concurrent_streams(option, options->max_concurrent_streams);
    nghttp2_option_set_max_deflate_dynamic_table_size(option, options->header_table_size);
    nghttp2_option_set_max_send_header_block_length(option, MOST_HEAD_SENT);
    nghttp2_option_set_builtin_recv_extension_type(option, NGHTTP2_PRIORITY_UPDATE);
    /* Its own limit knows nothing of responses that had ended; ours does. */
    nghttp2_option_set_stream_reset_rate_limit(option, UINT64_MAX, UINT64_MAX);
    return option;
}

void wr_h2_session_init(struct wr_h2_session *session, bool server, struct wr_transport *transport,
                        struct wr_loop *loop, const struct wr_h2_options *options,
                        const struct wr_h2_session_events *events)
{
    nghttp2_session_callbacks *callbacks = wr_h2_callbacks_new();
    nghttp2_option *option = new_option(options);
    session->server = server;
    wr_h2_arena_init(&session->arena);
    session->frame_buffer = frame_buffer_of_thread();
    session->buckets = mem_calloc(WR_FLOOD__COUNT, sizeof(*session->buckets), session);
    nghttp2_mem mem = {session, mem_malloc, mem_free, mem_calloc, mem_realloc};
    int failed = server
                     ? nghttp2_session_server_new3(&session->ng, callbacks, session, option, &mem)
                     : nghttp2_session_client_new3(&session->ng, callbacks, session, option, &mem);
    WR_ASSERT(failed == 0);
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    session->transport = transport;
    session->loop = loop;
    session->options = options;
    session->events = events;
    wr_list_init(&session->streams);
    wr_task_init(&session->task, run);
    wr_bytes_init(&session->passing, NULL);
}

/* Past the limit it knows nghttp2 ends the connection, past ours one stream is refused (RFC 9113 section 5.1.2 leaves the choice):
 * so it is told of a higher one than the client. Streams that were refused and not yet told so count for it: the client's budget
 * of resets ends before that room does. */
static uint32_t most_streams(const struct wr_h2_options *options)
{
    uint32_t refused = options->budgets[WR_FLOOD_RESET].burst;
    return refused < UINT32_MAX - options->max_concurrent_streams
               ? options->max_concurrent_streams + refused
               : UINT32_MAX;
}

/* The frame nghttp2 makes of them goes nowhere; the client gets one of the same size that says SETTINGS. */
static void announce(struct wr_h2_session *session, const nghttp2_settings_entry *settings,
                     size_t count)
{
    nghttp2_settings_entry believed[MOST_SETTINGS];
    uint8_t payload[MOST_SETTINGS * SETTING_SIZE];
    const uint8_t *frame;
    WR_ASSERT(count <= MOST_SETTINGS);
    for (size_t i = 0; i < count; i++) {
        believed[i] = settings[i];
        if (settings[i].settings_id == NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS)
            believed[i].value = most_streams(session->options);
    }
    int failed = nghttp2_submit_settings(session->ng, NGHTTP2_FLAG_NONE, believed, count);
    WR_ASSERT(failed == 0);
    ssize_t n = nghttp2_session_mem_send(session->ng, &frame);
    ssize_t said = nghttp2_pack_settings_payload(payload, sizeof(payload), settings, count);
    WR_ASSERT(said > 0 && n == FRAME_HEAD + said && frame[3] == NGHTTP2_SETTINGS);
    wr_transport_write(session->transport, frame, FRAME_HEAD);
    wr_transport_write(session->transport, payload, (size_t)said);
}

/* The preface, which is in the buffer that others are about to use. */
static void say_preface(struct wr_h2_session *session)
{
    const uint8_t *p;
    ssize_t n = nghttp2_session_mem_send(session->ng, &p);
    WR_ASSERT(n == NGHTTP2_CLIENT_MAGIC_LEN);
    wr_transport_write(session->transport, p, (size_t)n);
}

void wr_h2_session_greet(struct wr_h2_session *session, size_t stream_window)
{
    const struct wr_h2_options *options = session->options;
    uint32_t window = stream_window < MOST_WINDOW ? (uint32_t)stream_window : MOST_WINDOW;
    session->stream_window = window;
    uint32_t list =
        session->limits.block < UINT32_MAX ? (uint32_t)session->limits.block : UINT32_MAX;
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_HEADER_TABLE_SIZE, options->header_table_size},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, window},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, list},
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, options->max_concurrent_streams},
        {NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL, 1},
        {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},
    };
    const nghttp2_settings_entry client_settings[] = {
        settings[0], settings[1], settings[2], {NGHTTP2_SETTINGS_ENABLE_PUSH, 0}};
    if (session->server) {
        announce(session, settings, WR_COUNT_OF(settings));
    } else {
        say_preface(session);
        int failed = nghttp2_submit_settings(session->ng, NGHTTP2_FLAG_NONE, client_settings,
                                             WR_COUNT_OF(client_settings));
        WR_ASSERT(failed == 0);
    }
    /* One stream can use all of its window, or it would never be told of more. */
    uint32_t connection = options->connection_window > window ? options->connection_window : window;
    if (connection > MOST_WINDOW)
        connection = MOST_WINDOW;
    (void)nghttp2_session_set_local_window_size(session->ng, NGHTTP2_FLAG_NONE, 0,
                                                (int32_t)connection);
    wr_h2_session_write(session);
    wr_h2_arena_learn(&session->arena);
    wr_h2_session_later(session);
}
