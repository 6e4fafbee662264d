/* One direction of an exchange: head, content, trailers (RFC 9110 section 6), from one source to one sink, with a bounded
 * content buffer between them. Back-pressure lives here: `limit` is the most content held, and is what an HTTP/2 codec
 * gives out as stream window.
 *
 *   source --head/put/end/abort--> message --head/content/end/abort--> sink
 *   source <--room/stop----------- message <--take+taken/stop--------- sink
 *
 * The sink may come later than head and content; it then gets them when it attaches. Whichever side is told of the end, it
 * is told once: after end or abort a sink hears nothing more, after stop a source hears nothing more. Both sides may be called
 * from within a call they make; deliveries are never nested (a put from within room() is delivered when content() returns).
 *
 * Four rules for those who implement the tables:
 *  - After stop() a source calls nothing of that message any more; after end(), abort(), LAST or its own stop a sink neither.
 *    stop() may come from within any call a source makes, so it looks whether it was stopped when the call returns.
 *  - A sink can lose the message without being told by wr_message_rewind(): whoever has aborted the other message asks
 *    wr_message_has_sink() before it goes on with this one.
 *  - Interim heads wait for the sink; of several that wait only the last is kept.
 *  - Nothing is freed in callbacks: memory of the exchange stays until the end of the loop turn.
 *
 * Embedded in the exchange. */
#ifndef WR_HTTP_MESSAGE_H
#define WR_HTTP_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "http/head.h"
#include "io/bytes.h"

struct wr_message;

/* The producing side implements. */
struct wr_source_ops {
    /* Credit: CONSUMED bytes were taken (RFC 9113 WINDOW_UPDATE, or reading may go on: see wr_message_room()). */
    void (*room)(void *source, size_t consumed);
    /* Nobody wants the rest. The source lets go of the message now. Not called after it has said the end itself. */
    void (*stop)(void *source, enum wr_err why);
};

#define WR_HEAD_INTERIM 1u /* 1xx: another head follows */
#define WR_HEAD_LAST 2u    /* no content and no trailers follow; end() is not called */

/* The consuming side implements. */
struct wr_sink_ops {
    void (*head)(void *sink, struct wr_head *head, unsigned flags);
    /* Content is there: wr_message_take() what can be used, then wr_message_taken(). What is left is taken later, whenever
     * the sink can; it is not called again for the same bytes. */
    void (*content)(void *sink);
    /* All content was taken and said to be (wr_message_taken()). TRAILERS is NULL when there are none. */
    void (*end)(void *sink, const struct wr_fields *trailers);
    /* The rest will never come. */
    void (*abort)(void *sink, enum wr_err why);
};

/* The owner of policy (the proxy) looks at heads on their way and at failures before the final head; it is never on the
 * path of content. */
struct wr_message_policy {
    /* May edit HEAD; interim ones too. False: the head is not passed on (an interim one), or the policy has taken the message
     * away from this source (wr_message_drop_source(), wr_message_cancel()). */
    bool (*head)(void *owner, struct wr_head *head, unsigned flags);
    /* The source failed before the final head. True: the policy has taken care; the message is as new already when this is
     * called, another source may be set from within. False: the sink gets abort(). */
    bool (*failed)(void *owner, enum wr_err why);
    /* More than `content_cap` would come in. Called once, from within the source's call, before the bytes are taken; the policy
     * cancels or stops the message, else they pass. */
    void (*too_large)(void *owner);
};

enum wr_message_state {
    WR_MESSAGE_WAITING, /* no final head yet */
    WR_MESSAGE_OPEN,    /* head seen, content may come */
    WR_MESSAGE_ENDED,   /* the source has said all; content may still wait for the sink */
    WR_MESSAGE_DONE,    /* the sink has been told the end */
    WR_MESSAGE_FAILED,  /* aborted or stopped: see `why` */
};

struct wr_message {
    const struct wr_source_ops *source_ops;
    void *source;
    const struct wr_sink_ops *sink_ops;
    void *sink;
    const struct wr_message_policy *policy;
    void *policy_owner;

    enum wr_message_state state;
    enum wr_err why;
    struct wr_head *head;       /* the final one, once seen */
    struct wr_head *interim;    /* the last one the sink has not seen, or NULL */
    struct wr_fields *trailers; /* or NULL */
    struct wr_bytes content;
    size_t limit; /* bytes of content held at most */
    size_t
        extra; /* and so many more, as long as the source thinks that the sink keeps up: wr_message_widen() */
    uint64_t content_cap; /* that passes in all without asking the policy; UINT64_MAX: any */

    uint64_t put_bytes;    /* content that came in */
    uint64_t taken_bytes;  /* content handed to the sink; starts again after a rewind */
    uint64_t passed_bytes; /* of these, said by wr_message_taken() to be passed on */
    uint64_t
        credited_bytes; /* credit given to the source; stays through a rewind, so that no byte is credited twice */

    /* For a retry: a copy of what was taken, kept while replay is armed and it stays under `limit`. */
    struct wr_bytes replay;
    bool replay_armed;
    bool replay_lost; /* more was taken than could be kept */

    bool head_last;
    bool head_delivered;
    bool delivering; /* inside a callback of the sink */
    bool fresh;      /* content has come that the sink has not been told of */

    /* Told after every head, content put or taken, end, failure, attach and rewind, and after what followed was delivered: the
     * exchange notes progress. May be NULL. */
    void (*progress)(struct wr_message *message);
};

void wr_message_init(struct wr_message *message, struct wr_chunk_pool *pool, size_t limit,
                     void (*progress)(struct wr_message *message));
/* Frees content; no callbacks. Can be called twice. */
void wr_message_clear(struct wr_message *message);

/* ---- the source's side ---- */
/* On a message that has failed: stop() follows at once. */
void wr_message_set_source(struct wr_message *message, const struct wr_source_ops *ops,
                           void *source);
/* HEAD lives in the exchange's arena. Interim heads before the final one. */
void wr_message_head(struct wr_message *message, struct wr_head *head, unsigned flags);
/* Bytes that may be put now; 0: wait for room(). It is `limit` and `extra` less what was put and not yet credited: exactly the window
 * that an HTTP/2 peer sees. */
size_t wr_message_room(const struct wr_message *message);
/* Content that was put and not yet credited. Once the source is stopped: what it will never be credited. */
static inline size_t wr_message_held(const struct wr_message *message)
{
    return (size_t)(message->put_bytes - message->credited_bytes);
}
/* MORE (LESS) bytes than before may be held. Only the source, which answers for the sum of what it widens. */
static inline void wr_message_widen(struct wr_message *message, size_t more)
{
    message->extra += more;
}
static inline void wr_message_narrow(struct wr_message *message, size_t less)
{
    message->extra -= less;
}
/* Copies / moves content in. More than room is taken too (a codec that could not stop), the next room is then 0. */
void wr_message_put(struct wr_message *message, const void *p, size_t n);
void wr_message_put_bytes(struct wr_message *message, struct wr_bytes *bytes);
/* TRAILERS (NULL: none) live in the arena. */
void wr_message_end(struct wr_message *message, struct wr_fields *trailers);
/* The source lets go: nothing more will come. Content not yet taken is thrown away. Nothing happens when it is over. */
void wr_message_abort(struct wr_message *message, enum wr_err why);

/* ---- the sink's side ---- */
/* Delivers what is there. On a message that has failed: abort() follows at once. */
void wr_message_attach(struct wr_message *message, const struct wr_sink_ops *ops, void *sink);
/* Moves up to MAX bytes to the end of INTO, returns how many. */
size_t wr_message_take(struct wr_message *message, struct wr_bytes *into, size_t max);
/* Says that N taken bytes have been passed on: gives credit to the source, and delivers the end when all is taken. */
void wr_message_taken(struct wr_message *message, size_t n);
/* The sink lets go and wants no more. Nothing else happens when it is over. */
void wr_message_stop(struct wr_message *message, enum wr_err why);
/* False when another sink, or none, is attached. */
static inline bool wr_message_has_sink(const struct wr_message *message, const void *sink)
{
    return message->sink_ops != NULL && message->sink == sink;
}

/* ---- policy, retry ---- */
void wr_message_set_policy(struct wr_message *message, const struct wr_message_policy *policy,
                           void *owner);
/* Neither side's doing (a deadline, the policy): the source gets stop(), the sink abort(). */
void wr_message_cancel(struct wr_message *message, enum wr_err why);
/* Before the final head has been seen: takes the message away from its source, which gets stop(); the message is as new and
 * the sink still waits. For a local answer instead of the upstream's. No source: nothing happens. */
void wr_message_drop_source(struct wr_message *message, enum wr_err why);
/* Of a request for a tunnel that is not to become one, before anything of it was delivered: no content follows, as if the head
 * had been given with LAST. The source gets stop(). */
void wr_message_make_last(struct wr_message *message, enum wr_err why);
/* From now on keep what is taken (up to `limit`), so that it can be sent once more. */
void wr_message_arm_replay(struct wr_message *message);
void wr_message_disarm_replay(struct wr_message *message);
/* True when nothing taken is lost, so that wr_message_rewind() would give the whole again. */
bool wr_message_can_rewind(const struct wr_message *message);
/* Lets go of the sink, which is not told, and puts what it had taken back in front: as if no sink had ever been there. Up to
 * twice `limit` is held then. Replay stays armed. */
void wr_message_rewind(struct wr_message *message);

static inline bool wr_message_is_over(const struct wr_message *message)
{
    return message->state == WR_MESSAGE_DONE || message->state == WR_MESSAGE_FAILED;
}

#endif
