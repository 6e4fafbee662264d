#include "support/message_ends.h"

#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* ---- text ---- */

void text_add(struct text *text, const void *p, size_t n)
{
    if (text->n + n + 1 > text->capacity) {
        text->capacity = 2 * (text->n + n + 1);
        text->p = wr_resize(text->p, text->capacity);
    }
    if (n > 0)
        memcpy(text->p + text->n, p, n);
    text->n += n;
    text->p[text->n] = '\0';
}

void text_say(struct text *text, const char *format, ...)
{
    char line[1024];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    cr_assert(n >= 0 && (size_t)n < sizeof(line));
    text_add(text, line, (size_t)n);
}

void text_free(struct text *text)
{
    free(text->p);
    *text = (struct text){0};
}

void text_add_fields(struct text *text, const struct wr_fields *fields)
{
    uint32_t at = 0;
    for (const struct wr_field *field; (field = wr_fields_next(fields, &at)) != NULL;) {
        text_add(text, field->name.p, field->name.n);
        text_add(text, "=", 1);
        text_add(text, field->value.p, field->value.n);
        text_add(text, ";", 1);
    }
}

/* ---- the ends of messages ---- */

static void over(struct collector *collector)
{
    if (collector->over != NULL)
        collector->over(collector);
}

static void collector_head(void *sink, struct wr_head *head, unsigned flags)
{
    struct collector *collector = sink;
    if ((flags & WR_HEAD_INTERIM) != 0) {
        text_say(&collector->interim, "%u ", (unsigned)head->status);
        return;
    }
    collector->head = head;
    collector->flags = flags;
    if ((flags & WR_HEAD_LAST) != 0) {
        collector->ended = true;
        over(collector);
    }
}

void collector_take(struct collector *collector, size_t max)
{
    size_t n = wr_message_take(collector->message, &collector->bytes, max);
    while (collector->bytes.length > 0) {
        struct wr_str front = wr_bytes_front(&collector->bytes);
        text_add(&collector->content, front.p, front.n);
        wr_bytes_consume(&collector->bytes, front.n);
    }
    wr_message_taken(collector->message, n);
}

static void collector_content(void *sink)
{
    struct collector *collector = sink;
    if (!collector->holds)
        collector_take(collector, SIZE_MAX);
}

static void collector_end(void *sink, const struct wr_fields *trailers)
{
    struct collector *collector = sink;
    collector->ended = true;
    if (trailers != NULL)
        text_add_fields(&collector->trailers, trailers);
    over(collector);
}

static void collector_abort(void *sink, enum wr_err why)
{
    struct collector *collector = sink;
    collector->aborted = true;
    collector->why = why;
    over(collector);
}

static const struct wr_sink_ops collector_ops = {
    .head = collector_head,
    .content = collector_content,
    .end = collector_end,
    .abort = collector_abort,
};

void collector_clear(struct collector *collector)
{
    if (collector->bytes.pool != NULL)
        wr_bytes_clear(&collector->bytes);
    text_free(&collector->interim);
    text_free(&collector->content);
    text_free(&collector->trailers);
    *collector = (struct collector){0};
}

void collector_attach(struct collector *collector, struct wr_message *message,
                      struct wr_chunk_pool *pool)
{
    collector->message = message;
    wr_bytes_init(&collector->bytes, pool);
    text_add(&collector->interim, "", 0);
    text_add(&collector->content, "", 0);
    text_add(&collector->trailers, "", 0);
    wr_message_attach(message, &collector_ops, collector);
}

static void feeder_room(void *source, size_t consumed)
{
    struct feeder *feeder = source;
    feeder->credit += consumed;
}

static void feeder_stop(void *source, enum wr_err why)
{
    struct feeder *feeder = source;
    feeder->stopped = true;
    feeder->why = why;
}

const struct wr_source_ops feeder_ops = {.room = feeder_room, .stop = feeder_stop};
