/* A source and a sink that write down as text what they hear, and a message between them. For the tests beside it. */
#ifndef WR_TEST_HTTP_MESSAGE_SIDES_H
#define WR_TEST_HTTP_MESSAGE_SIDES_H

#include <criterion/criterion.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "http/message.h"

#define LIMIT 100

static struct wr_chunk_pool pool;
static struct wr_message message;
static struct wr_head head;
static struct wr_bytes taken;
static char heard[1024];
static char first[] = "";
static unsigned progress_count;

static WR_PRINTF(1, 2) WR_UNUSED void hear(const char *format, ...)
{
    size_t n = strlen(heard);
    va_list args;
    va_start(args, format);
    vsnprintf(heard + n, sizeof(heard) - n, format, args);
    va_end(args);
}

/* Compares, and starts anew. */
#define HEARD(text)                    \
    do {                               \
        cr_assert_str_eq(heard, text); \
        heard[0] = '\0';               \
    } while (0)

/* ---- a source that may do something when told ---- */
static void (*on_room)(void);
static void (*on_stop)(void);

static void source_room(void *source, size_t n)
{
    hear("%sroom %zu. ", (const char *)source, n);
    if (on_room != NULL)
        on_room();
}

static void source_stop(void *source, enum wr_err why)
{
    hear("%sstop %s. ", (const char *)source, wr_err_info(why)->label);
    if (on_stop != NULL)
        on_stop();
}

static const struct wr_source_ops source_ops = {source_room, source_stop};

/* ---- a sink likewise; it takes all when `eager` ---- */
static void (*on_head)(void);
static void (*on_content)(void);
static bool eager = true;

static void take(size_t max)
{
    wr_message_taken(&message, wr_message_take(&message, &taken, max));
}

static void sink_head(void *sink, struct wr_head *told, unsigned flags)
{
    hear("%shead %u%s%s. ", (const char *)sink, told->status,
         (flags & WR_HEAD_INTERIM) != 0 ? " interim" : "",
         (flags & WR_HEAD_LAST) != 0 ? " last" : "");
    if (on_head != NULL)
        on_head();
}

static void sink_content(void *sink)
{
    hear("%scontent %zu. ", (const char *)sink, message.content.length);
    if (on_content != NULL)
        on_content();
    else if (eager)
        take(SIZE_MAX);
}

static void sink_end(void *sink, const struct wr_fields *trailers)
{
    hear("%send%s. ", (const char *)sink, trailers != NULL ? " trailers" : "");
    cr_assert_eq(message.state, WR_MESSAGE_DONE);
}

static void sink_abort(void *sink, enum wr_err why)
{
    hear("%sabort %s. ", (const char *)sink, wr_err_info(why)->label);
}

static const struct wr_sink_ops sink_ops = {sink_head, sink_content, sink_end, sink_abort};

static void progress(struct wr_message *of)
{
    cr_assert_eq(of, &message);
    progress_count++;
}

static WR_UNUSED void set_up(void)
{
    wr_chunk_pool_init(&pool, 0);
    wr_message_init(&message, &pool, LIMIT, progress);
    wr_bytes_init(&taken, &pool);
    wr_head_init(&head);
    head.status = 200;
    wr_message_set_source(&message, &source_ops, first);
}

static WR_UNUSED void tear_down(void)
{
    wr_message_clear(&message);
    wr_message_clear(&message);
    wr_bytes_clear(&taken);
    wr_chunk_pool_free(&pool); /* asserts that no chunk was lost */
}

static WR_UNUSED void attach(void)
{
    wr_message_attach(&message, &sink_ops, first);
}

static WR_UNUSED void put(size_t n)
{
    static const char bytes[4 * LIMIT];
    wr_message_put(&message, bytes, n);
}

static WR_UNUSED void stop_it(void)
{
    wr_message_stop(&message, WR_ERR_CANCELLED);
}

static WR_UNUSED void abort_it(void)
{
    wr_message_abort(&message, WR_ERR_UPSTREAM_RESET);
}

static WR_UNUSED void end_it(void)
{
    wr_message_end(&message, NULL);
}

#endif
