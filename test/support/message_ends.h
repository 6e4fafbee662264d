/* The ends of messages as a test plays them: a sink that keeps all it gets, a source that remembers what it is told. */
#ifndef TEST_SUPPORT_MESSAGE_ENDS_H
#define TEST_SUPPORT_MESSAGE_ENDS_H

#include "http/message.h"

/* Grows, terminated. */
struct text {
    char *p;
    size_t n;
    size_t capacity;
};
void text_add(struct text *text, const void *p, size_t n);
void text_say(struct text *text, const char *format, ...) WR_PRINTF(2, 3);
/* "name=value;" of each. */
void text_add_fields(struct text *text, const struct wr_fields *fields);
void text_free(struct text *text);

/* The sink of a message: keeps all it gets. */
struct collector {
    struct wr_message *message;
    struct wr_bytes bytes;
    struct wr_head *head;
    unsigned flags;
    struct text interim; /* "103 100 " */
    struct text content;
    struct text trailers; /* "name=value;" */
    bool holds;           /* takes no content: see collector_take() */
    bool ended;           /* or came with LAST */
    bool aborted;
    enum wr_err why;
    void (*over)(struct collector *collector); /* ended or aborted; may be NULL */
};
void collector_attach(struct collector *collector, struct wr_message *message,
                      struct wr_chunk_pool *pool);
void collector_take(struct collector *collector, size_t max);
void collector_clear(struct collector *collector);

/* The source of a message: remembers what it is told. */
struct feeder {
    size_t credit;
    bool stopped;
    enum wr_err why;
};
extern const struct wr_source_ops feeder_ops;

#endif
