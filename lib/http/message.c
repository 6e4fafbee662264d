#include "http/message.h"

#include "base/assert.h"

void wr_message_init(struct wr_message *message, struct wr_chunk_pool *pool, size_t limit,
                     void (*progress)(struct wr_message *message))
{
    *message = (struct wr_message){.limit = limit, .content_cap = UINT64_MAX, .progress = progress};
    wr_bytes_init(&message->content, pool);
    wr_bytes_init(&message->replay, pool);
}

void wr_message_clear(struct wr_message *message)
{
    wr_bytes_clear(&message->content);
    wr_bytes_clear(&message->replay);
}

static void forget_source(struct wr_message *message)
{
    message->source_ops = NULL;
    message->source = NULL;
}

static void forget_sink(struct wr_message *message)
{
    message->sink_ops = NULL;
    message->sink = NULL;
}

static void note_progress(struct wr_message *message)
{
    if (message->progress != NULL)
        message->progress(message);
}

/* ---- delivery: what the sink is told next follows from the state alone, so whatever happens within a callback is seen
 * when it returns ---- */

static void deliver_head(struct wr_message *message)
{
    const struct wr_sink_ops *ops = message->sink_ops;
    void *sink = message->sink;
    unsigned flags = message->head_last ? WR_HEAD_LAST : 0;
    message->head_delivered = true;
    if (message->head_last) {
        message->state = WR_MESSAGE_DONE;
        forget_sink(message);
    }
    ops->head(sink, message->head, flags);
}

static void deliver_interim(struct wr_message *message)
{
    struct wr_head *head = message->interim;
    message->interim = NULL;
    message->sink_ops->head(message->sink, head, WR_HEAD_INTERIM);
}

static void deliver_content(struct wr_message *message)
{
    message->fresh = false;
    message->sink_ops->content(message->sink);
}

static void deliver_end(struct wr_message *message)
{
    const struct wr_sink_ops *ops = message->sink_ops;
    void *sink = message->sink;
    message->state = WR_MESSAGE_DONE;
    forget_sink(message);
    ops->end(sink, message->trailers);
}

static void deliver_abort(struct wr_message *message)
{
    const struct wr_sink_ops *ops = message->sink_ops;
    void *sink = message->sink;
    forget_sink(message);
    ops->abort(sink, message->why);
}

static bool all_passed_on(const struct wr_message *message)
{
    return message->content.length == 0 && message->passed_bytes == message->taken_bytes;
}

/* One callback, if one is due. */
static bool deliver_next(struct wr_message *message)
{
    if (message->sink_ops == NULL)
        return false;
    if (message->state == WR_MESSAGE_FAILED)
        deliver_abort(message);
    else if (message->interim != NULL)
        deliver_interim(message);
    else if (message->state != WR_MESSAGE_WAITING && !message->head_delivered)
        deliver_head(message);
    else if (message->fresh && message->content.length > 0)
        deliver_content(message);
    else if (message->state == WR_MESSAGE_ENDED && all_passed_on(message))
        deliver_end(message);
    else
        return false;
    return true;
}

static void deliver(struct wr_message *message)
{
    if (message->delivering)
        return; /* the loop below goes on when that callback returns */
    message->delivering = true;
    while (deliver_next(message)) {
    }
    message->delivering = false;
}

/* ---- failure ---- */

static void fail(struct wr_message *message, enum wr_err why)
{
    message->state = WR_MESSAGE_FAILED;
    message->why = why;
    message->interim = NULL;
    message->trailers = NULL;
    wr_message_clear(message);
}

/* Tells the source, once: it is forgotten first. */
static void stop_source(struct wr_message *message, enum wr_err why)
{
    const struct wr_source_ops *ops = message->source_ops;
    void *source = message->source;
    forget_source(message);
    if (ops != NULL)
        ops->stop(source, why);
}

/* ---- the source's side ---- */

void wr_message_set_source(struct wr_message *message, const struct wr_source_ops *ops,
                           void *source)
{
    if (message->state == WR_MESSAGE_FAILED) {
        ops->stop(source, message->why);
        return;
    }
    WR_ASSERT(message->state == WR_MESSAGE_WAITING && message->source_ops == NULL);
    message->source_ops = ops;
    message->source = source;
}

static bool policy_passes(struct wr_message *message, struct wr_head *head, unsigned flags)
{
    if (message->policy == NULL || message->policy->head == NULL)
        return true;
    if (!message->policy->head(message->policy_owner, head, flags))
        return false;
    return message->state == WR_MESSAGE_WAITING;
}

void wr_message_head(struct wr_message *message, struct wr_head *head, unsigned flags)
{
    if (message->state == WR_MESSAGE_FAILED)
        return;
    WR_ASSERT(message->state == WR_MESSAGE_WAITING);
    if (!policy_passes(message, head, flags)) {
        note_progress(message);
        return;
    }
    if ((flags & WR_HEAD_INTERIM) != 0) {
        message->interim = head;
    } else {
        message->head = head;
        message->head_last = (flags & WR_HEAD_LAST) != 0;
        message->state = message->head_last ? WR_MESSAGE_ENDED : WR_MESSAGE_OPEN;
        if (message->head_last)
            forget_source(message);
    }
    deliver(message);
    note_progress(message);
}

size_t wr_message_room(const struct wr_message *message)
{
    if (wr_message_is_over(message))
        return 0;
    size_t window = message->limit + message->extra;
    size_t held = wr_message_held(message);
    return held < window ? window - held : 0;
}

/* False: nobody wants content any more. */
static bool is_open(const struct wr_message *message)
{
    WR_ASSERT(message->state == WR_MESSAGE_OPEN || message->state == WR_MESSAGE_FAILED);
    return message->state == WR_MESSAGE_OPEN;
}

/* As is_open(), when N more bytes are there and the policy has judged them. */
static bool takes_content(struct wr_message *message, size_t n)
{
    if (!is_open(message))
        return false;
    if (message->put_bytes + n <= message->content_cap)
        return true;
    message->content_cap = UINT64_MAX;
    if (message->policy != NULL && message->policy->too_large != NULL)
        message->policy->too_large(message->policy_owner);
    return is_open(message);
}

static void content_came(struct wr_message *message, size_t n)
{
    message->put_bytes += n;
    message->fresh = true;
    deliver(message);
    note_progress(message);
}

void wr_message_put(struct wr_message *message, const void *p, size_t n)
{
    if (n == 0 || !takes_content(message, n))
        return;
    wr_bytes_append(&message->content, p, n);
    content_came(message, n);
}

void wr_message_put_bytes(struct wr_message *message, struct wr_bytes *bytes)
{
    size_t n = bytes->length;
    if (n == 0)
        return;
    if (!takes_content(message, n)) {
        wr_bytes_clear(bytes);
        return;
    }
    wr_bytes_move(&message->content, bytes, n);
    content_came(message, n);
}

void wr_message_end(struct wr_message *message, struct wr_fields *trailers)
{
    if (!is_open(message))
        return;
    message->state = WR_MESSAGE_ENDED;
    message->trailers = trailers;
    forget_source(message);
    deliver(message);
    note_progress(message);
}

/* True when the policy goes on without this source. */
static bool policy_takes_care(struct wr_message *message, enum wr_err why)
{
    if (message->state != WR_MESSAGE_WAITING || message->policy == NULL ||
        message->policy->failed == NULL)
        return false;
    message->interim = NULL;
    return message->policy->failed(message->policy_owner, why);
}

void wr_message_abort(struct wr_message *message, enum wr_err why)
{
    if (wr_message_is_over(message))
        return;
    forget_source(message);
    if (!policy_takes_care(message, why) && !wr_message_is_over(message)) {
        /* What the policy may have set meanwhile goes too. */
        fail(message, why);
        stop_source(message, why);
        deliver(message);
    }
    note_progress(message);
}

/* ---- the sink's side ---- */

void wr_message_attach(struct wr_message *message, const struct wr_sink_ops *ops, void *sink)
{
    WR_ASSERT(message->sink_ops == NULL && message->state != WR_MESSAGE_DONE);
    message->sink_ops = ops;
    message->sink = sink;
    message->fresh = true;
    deliver(message);
    note_progress(message);
}

/* As wr_bytes_move(), and keeps a copy. */
static size_t move_with_copy(struct wr_message *message, struct wr_bytes *into, size_t max)
{
    struct wr_bytes moved;
    wr_bytes_init(&moved, message->content.pool);
    size_t n = wr_bytes_move(&moved, &message->content, max);
    if (message->replay.length + n <= message->limit) {
        wr_bytes_copy(&message->replay, &moved);
    } else {
        wr_bytes_clear(&message->replay);
        message->replay_lost = true;
    }
    wr_bytes_move(into, &moved, n);
    return n;
}

size_t wr_message_take(struct wr_message *message, struct wr_bytes *into, size_t max)
{
    size_t n;
    if (message->replay_armed && !message->replay_lost)
        n = move_with_copy(message, into, max);
    else
        n = wr_bytes_move(into, &message->content, max);
    message->taken_bytes += n;
    return n;
}

/* What was passed on for the first time; bytes replayed after a rewind were credited then. */
static size_t new_credit(struct wr_message *message)
{
    if (message->passed_bytes <= message->credited_bytes)
        return 0;
    uint64_t credit = message->passed_bytes - message->credited_bytes;
    message->credited_bytes = message->passed_bytes;
    return (size_t)credit;
}

void wr_message_taken(struct wr_message *message, size_t n)
{
    /* Less than N was taken only when the sink lost the message meanwhile (a rewind within its content()). */
    uint64_t outstanding = message->taken_bytes - message->passed_bytes;
    message->passed_bytes += n < outstanding ? n : outstanding;
    size_t credit = new_credit(message);
    if (credit > 0 && message->source_ops != NULL)
        message->source_ops->room(message->source, credit);
    deliver(message);
    note_progress(message);
}

void wr_message_stop(struct wr_message *message, enum wr_err why)
{
    forget_sink(message);
    if (wr_message_is_over(message))
        return;
    fail(message, why);
    stop_source(message, why);
    note_progress(message);
}

/* ---- policy, retry ---- */

void wr_message_set_policy(struct wr_message *message, const struct wr_message_policy *policy,
                           void *owner)
{
    message->policy = policy;
    message->policy_owner = owner;
}

void wr_message_cancel(struct wr_message *message, enum wr_err why)
{
    if (wr_message_is_over(message))
        return;
    fail(message, why);
    stop_source(message, why);
    deliver(message);
    note_progress(message);
}

void wr_message_drop_source(struct wr_message *message, enum wr_err why)
{
    if (message->state == WR_MESSAGE_FAILED)
        return;
    WR_ASSERT(message->state == WR_MESSAGE_WAITING);
    message->interim = NULL;
    stop_source(message, why);
}

void wr_message_make_last(struct wr_message *message, enum wr_err why)
{
    if (wr_message_is_over(message))
        return;
    WR_ASSERT(message->state == WR_MESSAGE_OPEN && !message->head_delivered &&
              message->put_bytes == 0);
    message->head_last = true;
    message->state = WR_MESSAGE_ENDED;
    stop_source(message, why);
    note_progress(message);
}

void wr_message_arm_replay(struct wr_message *message)
{
    if (message->replay_armed)
        return;
    message->replay_armed = true;
    message->replay_lost = message->taken_bytes > 0;
}

void wr_message_disarm_replay(struct wr_message *message)
{
    message->replay_armed = false;
    wr_bytes_clear(&message->replay);
}

bool wr_message_can_rewind(const struct wr_message *message)
{
    if (message->state == WR_MESSAGE_FAILED)
        return false;
    return message->taken_bytes == 0 || (message->replay_armed && !message->replay_lost);
}

void wr_message_rewind(struct wr_message *message)
{
    WR_ASSERT(wr_message_can_rewind(message));
    forget_sink(message);
    wr_bytes_prepend(&message->content, &message->replay);
    message->taken_bytes = 0;
    message->passed_bytes = 0;
    message->head_delivered = false;
    if (message->state == WR_MESSAGE_DONE)
        message->state = WR_MESSAGE_ENDED;
    note_progress(message);
}
