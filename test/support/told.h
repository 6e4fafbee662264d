/* What a client or an origin has said in HTTP/1.1, as weir reads it, and what should come out at the other end of a relay. */
#ifndef TEST_SUPPORT_TOLD_H
#define TEST_SUPPORT_TOLD_H

#include "base/arena.h"
#include "http/head.h"
#include "support/strict_h1.h"

struct told {
    struct wr_head head;
    enum wr_err err; /* what is wrong with it, head or content */
    bool has_head;   /* and it is fine */
    struct text content;
    const struct wr_fields *trailers; /* or NULL */
    bool whole;
    bool last; /* the connection does not go on after it */
};

struct told_all {
    struct wr_arena arena;
    struct told *v;
    size_t count;
};

/* All requests of a connection, the last one perhaps broken or unfinished; one whose head is unfinished is left out. */
void told_requests(struct told_all *all, struct wr_str bytes);
/* Interim responses to REQUEST and the final one. ENDS: the stream ends with BYTES. */
void told_response(struct told_all *all, struct wr_str bytes, const struct wr_head *request,
                   bool ends);
void told_clear(struct told_all *all);

/* Fields, "name: value\n" each, that should come out behind both proxies: without those of a hop, and those a proxy would not
 * believe; with what each proxy adds to Via. */
void told_expect_fields(const struct told *told, bool request, struct text *out);
/* As they are. SKIP (or NULL) says which are not to be compared. */
void strict_say_fields(const struct strict_fields *fields, bool (*skip)(struct wr_str name),
                       struct text *out);
void told_say_trailers(const struct told *told, struct text *out);

/* A finding unless they are equal. Frees both. */
void must_be_equal(const char *what, struct text *expected, struct text *got);

#endif
