/* Any interleaving: sources, sinks and policy do at random what they are allowed to, also from within callbacks, and a
 * simple model says what must be true after each step. */
#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#include "http/message.h"

#define LIMIT 64
#define STEPS 60
#define RUNS 6000

struct source {
    bool live;
};

struct sink {
    bool live;
    bool head;
};

/* The model. */
static struct {
    struct source sources[STEPS * 4];
    struct sink sinks[STEPS * 4];
    size_t source_count;
    size_t sink_count;
    bool obedient; /* puts no more than there is room for */
    bool rewound;
    bool head_put;
    bool source_ended;
    bool sink_ended;
    bool told_any;
    uint64_t put;
    uint64_t told_at; /* `put` when the sink last heard of content */
    uint64_t taken;   /* since the last rewind, and of these passed on */
    uint64_t passed;
    uint64_t passed_most; /* ever */
    uint64_t credit_due;
    uint64_t credit;
    int steps_left;
    bool in_sink;
    unsigned interims_told;
    unsigned interims_put;
} m;

static struct wr_chunk_pool pool;
static struct wr_message message;
static struct wr_head head;
static unsigned long long seed;
static unsigned long long run_number; /* look here with a debugger, or set WEIR_TEST_SEED */

static unsigned dice(unsigned n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (unsigned)((seed >> 11) % n);
}

static uint8_t byte_at(uint64_t offset)
{
    return (uint8_t)(offset * 131 + (offset >> 7));
}

static struct source *source_now(void)
{
    return m.source_count > 0 && m.sources[m.source_count - 1].live ? &m.sources[m.source_count - 1]
                                                                    : NULL;
}

static struct sink *sink_now(void)
{
    return m.sink_count > 0 && m.sinks[m.sink_count - 1].live ? &m.sinks[m.sink_count - 1] : NULL;
}

static void act(void);

static void maybe_act(void)
{
    for (unsigned n = dice(3); n > 0; n--)
        act();
}

static void room(void *source, size_t n)
{
    cr_assert(((struct source *)source)->live, "room() after the end of a source");
    cr_assert_gt(n, 0);
    m.credit += n;
    maybe_act();
}

static void stop(void *source, enum wr_err why)
{
    struct source *told = source;
    cr_assert(told->live, "stop() twice, or after the source's own end");
    cr_assert_neq(why, WR_OK);
    told->live = false;
    maybe_act();
}

static const struct wr_source_ops source_ops = {room, stop};

static struct sink *enter(void *sink)
{
    cr_assert_not(m.in_sink, "deliveries are nested");
    cr_assert_eq(sink, sink_now(), "a sink that has let go or was told the end is called");
    m.in_sink = true;
    return sink;
}

static void told_head(void *told, struct wr_head *given, unsigned flags)
{
    struct sink *sink = enter(told);
    cr_assert_eq(given, &head);
    cr_assert_not(sink->head, "a head after the final one");
    if ((flags & WR_HEAD_INTERIM) != 0) {
        m.interims_told++;
    } else {
        sink->head = true;
        if ((flags & WR_HEAD_LAST) != 0) {
            sink->live = false;
            m.sink_ended = true;
        }
    }
    maybe_act();
    m.in_sink = false;
}

static void told_content(void *told)
{
    struct sink *sink = enter(told);
    cr_assert(sink->head, "content before the head");
    cr_assert_gt(message.content.length, 0);
    cr_assert(!m.told_any || m.told_at < m.put, "content() again for the same bytes");
    m.told_any = true;
    m.told_at = m.put;
    maybe_act();
    m.in_sink = false;
}

static void told_end(void *told, const struct wr_fields *trailers)
{
    struct sink *sink = enter(told);
    cr_assert_null(trailers);
    cr_assert(sink->head && m.source_ended);
    cr_assert_eq(m.passed, m.put, "the end before all was passed on");
    sink->live = false;
    m.sink_ended = true;
    maybe_act();
    m.in_sink = false;
}

static void told_abort(void *told, enum wr_err why)
{
    struct sink *sink = enter(told);
    cr_assert_neq(why, WR_OK);
    sink->live = false;
    maybe_act();
    m.in_sink = false;
}

static const struct wr_sink_ops sink_ops = {told_head, told_content, told_end, told_abort};

/* ---- what the sides may do ---- */

static void do_set_source(void)
{
    if (source_now() != NULL || message.state != WR_MESSAGE_WAITING || message.source_ops != NULL)
        return;
    struct source *source = &m.sources[m.source_count++];
    source->live = true;
    wr_message_set_source(&message, &source_ops, source);
}

static void do_head(void)
{
    if (source_now() == NULL || m.head_put)
        return;
    if (dice(3) == 0) {
        m.interims_put++;
        wr_message_head(&message, &head, WR_HEAD_INTERIM);
        return;
    }
    m.head_put = true;
    bool last = dice(6) == 0;
    if (last) {
        source_now()->live = false;
        m.source_ended = true;
    }
    wr_message_head(&message, &head, last ? WR_HEAD_LAST : 0);
}

static void do_put(void)
{
    if (source_now() == NULL || !m.head_put)
        return;
    size_t n = 1 + dice(m.obedient ? LIMIT : 3 * LIMIT);
    if (m.obedient && n > wr_message_room(&message))
        n = wr_message_room(&message);
    uint8_t bytes[3 * LIMIT];
    for (size_t i = 0; i < n; i++)
        bytes[i] = byte_at(m.put + i);
    m.put += n;
    if (dice(2) == 0) {
        wr_message_put(&message, bytes, n);
        return;
    }
    struct wr_bytes moved;
    wr_bytes_init(&moved, &pool);
    wr_bytes_append(&moved, bytes, n);
    wr_message_put_bytes(&message, &moved);
    cr_assert_eq(moved.length, 0);
}

static void do_end(void)
{
    if (source_now() == NULL || !m.head_put)
        return;
    source_now()->live = false;
    m.source_ended = true;
    wr_message_end(&message, NULL);
}

static void do_abort(void)
{
    if (source_now() == NULL || dice(4) != 0)
        return;
    source_now()->live = false;
    wr_message_abort(&message, WR_ERR_UPSTREAM_RESET);
}

static void do_attach(void)
{
    if (sink_now() != NULL || message.state == WR_MESSAGE_DONE || message.sink_ops != NULL)
        return;
    struct sink *sink = &m.sinks[m.sink_count++];
    sink->live = true;
    m.told_any = false;
    wr_message_attach(&message, &sink_ops, sink);
}

static void check_bytes(struct wr_bytes *bytes)
{
    while (bytes->length > 0) {
        struct wr_str piece = wr_bytes_front(bytes);
        for (size_t i = 0; i < piece.n; i++)
            if ((uint8_t)piece.p[i] != byte_at(m.taken + i))
                cr_assert_fail("byte %llu is wrong", (unsigned long long)(m.taken + i));
        m.taken += piece.n;
        wr_bytes_consume(bytes, piece.n);
    }
}

static void do_take(void)
{
    if (sink_now() == NULL || !sink_now()->head)
        return;
    struct wr_bytes into;
    wr_bytes_init(&into, &pool);
    size_t max = dice(3) == 0 ? SIZE_MAX : dice(LIMIT);
    size_t n = wr_message_take(&message, &into, max);
    cr_assert_eq(n, into.length);
    check_bytes(&into);
}

static void do_taken(void)
{
    if (sink_now() == NULL || m.taken == m.passed)
        return;
    uint64_t outstanding = m.taken - m.passed;
    size_t n = dice(2) == 0 ? (size_t)outstanding : 1 + dice((unsigned)outstanding);
    m.passed += n;
    if (m.passed > m.passed_most) {
        if (source_now() != NULL)
            m.credit_due += m.passed - m.passed_most;
        m.passed_most = m.passed;
    }
    wr_message_taken(&message, n);
}

static void do_stop(void)
{
    if (sink_now() == NULL || dice(8) != 0)
        return;
    sink_now()->live = false;
    wr_message_stop(&message, WR_ERR_CANCELLED);
}

static void do_rewind(void)
{
    if (!wr_message_can_rewind(&message) || dice(3) != 0)
        return;
    if (sink_now() != NULL)
        sink_now()->live = false;
    m.taken = 0;
    m.passed = 0;
    m.rewound = true;
    m.sink_ended = false;
    wr_message_rewind(&message);
}

static void do_policy(void)
{
    switch (dice(12)) {
    case 0:
        wr_message_cancel(&message, WR_ERR_REQUEST_TIMEOUT);
        break;
    case 1:
        if (message.state == WR_MESSAGE_WAITING)
            wr_message_drop_source(&message, WR_ERR_RESPONSE_TIMEOUT);
        break;
    case 2:
        wr_message_disarm_replay(&message);
        break;
    default:
        wr_message_arm_replay(&message);
        break;
    }
}

static void act(void)
{
    static void (*const deeds[])(void) = {do_set_source, do_head,   do_put,    do_put,   do_end,
                                          do_abort,      do_attach, do_take,   do_taken, do_take,
                                          do_taken,      do_stop,   do_rewind, do_policy};
    if (m.steps_left <= 0)
        return;
    m.steps_left--;
    deeds[dice(sizeof(deeds) / sizeof(deeds[0]))]();
}

static bool policy_head(void *owner, struct wr_head *told, unsigned flags)
{
    (void)owner;
    (void)told;
    return (flags & WR_HEAD_INTERIM) == 0 || dice(4) != 0;
}

static bool policy_failed(void *owner, enum wr_err why)
{
    (void)owner;
    (void)why;
    cr_assert_eq(message.state, WR_MESSAGE_WAITING);
    if (dice(2) == 0)
        return false;
    do_set_source();
    maybe_act();
    return true;
}

static const struct wr_message_policy policy = {.head = policy_head, .failed = policy_failed};

/* ---- what must be true between steps ---- */

static void check_waiting_for_nothing(const struct sink *sink)
{
    cr_assert_eq(message.content.length, m.put - m.taken);
    if (sink == NULL)
        return;
    cr_assert_null(message.interim, "an interim head was not told");
    cr_assert_eq(sink->head, m.head_put, "the head was not told");
    if (message.content.length > 0)
        cr_assert(m.told_any && m.told_at == m.put, "content was not told");
    else
        cr_assert_not(m.source_ended && m.passed == m.put, "the end was not told");
}

static void check(void)
{
    struct sink *sink = sink_now();
    cr_assert_eq(message.sink_ops != NULL, sink != NULL);
    cr_assert_eq(message.source_ops != NULL, source_now() != NULL);
    cr_assert_eq(m.credit, m.credit_due);
    cr_assert_leq(m.interims_told, m.interims_put);
    cr_assert_eq(message.state == WR_MESSAGE_DONE, m.sink_ended);
    if (message.state == WR_MESSAGE_FAILED) {
        cr_assert_null(sink, "the sink was not told of the failure");
        cr_assert_null(source_now(), "the source was not told of the failure");
        cr_assert_eq(message.content.length + message.replay.length, 0);
        return;
    }
    cr_assert_eq(message.put_bytes, m.put);
    cr_assert_eq(message.taken_bytes, m.taken);
    cr_assert_leq(message.replay.length, LIMIT);
    if (m.obedient)
        cr_assert_leq(message.content.length, m.rewound ? 2 * LIMIT : LIMIT);
    check_waiting_for_nothing(sink);
}

/* Whatever state it is in: both sides now do all they can to come to an end, and must. */
static void bring_to_an_end(void)
{
    if (message.state == WR_MESSAGE_FAILED || message.state == WR_MESSAGE_DONE)
        return;
    m.steps_left = 0; /* no more surprises */
    while (!m.head_put) {
        do_set_source();
        do_head();
    }
    if (sink_now() == NULL)
        do_attach();
    do_end();
    while (m.taken < m.put || m.passed < m.taken) {
        do_take();
        do_taken();
    }
    check();
    cr_assert_eq(message.state, WR_MESSAGE_DONE);
    cr_assert_eq(m.taken, m.put);
}

static void run(unsigned long long from)
{
    seed = from * 0x9E3779B97F4A7C15ull + 1;
    memset(&m, 0, sizeof(m));
    wr_message_init(&message, &pool, LIMIT, NULL);
    if (dice(2) == 0)
        wr_message_set_policy(&message, &policy, NULL);
    m.obedient = dice(4) != 0;
    m.steps_left = STEPS;
    while (m.steps_left > 0) {
        act();
        check();
    }
    bring_to_an_end();
    wr_message_clear(&message);
    cr_assert_eq(pool.used_count, 0);
}

Test(message_random, every_interleaving_keeps_the_contract)
{
    const char *only = getenv("WEIR_TEST_SEED");
    wr_chunk_pool_init(&pool, 0);
    wr_head_init(&head);
    unsigned long long first = only != NULL ? strtoull(only, NULL, 10) : 0;
    unsigned long long end = only != NULL ? first + 1 : RUNS;
    for (run_number = first; run_number < end; run_number++)
        run(run_number);
    wr_chunk_pool_free(&pool);
}
