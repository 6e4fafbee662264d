/* The sentences of the page /admission, in parts that are said together. For admission_words.c and the files that have them only. */
#ifndef WR_SERVER_ADMISSION_SENTENCES_H
#define WR_SERVER_ADMISSION_SENTENCES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "server/admission_signs.h"

/* What is said when it is so; WHEN is NULL for what always is. */
struct wr_sentence {
    bool (*when)(const struct wr_admission_view *view);
    void (*say)(FILE *out, const struct wr_admission_view *view);
};

/* Sentences that are said together. */
struct wr_words_part {
    bool (*when)(const struct wr_admission_view *view); /* NULL: always */
    const struct wr_sentence *sentences;
    size_t count;
};

#define WR_PART(when, sentences)                \
    {                                           \
        when, sentences, WR_COUNT_OF(sentences) \
    }
#define WR_PART_OF_ONE(say)                             \
    {                                                   \
        NULL, &(const struct wr_sentence){NULL, say}, 1 \
    }

#define WR_SAY(name) static void name(FILE *out, const struct wr_admission_view *view)
/* One without a number. */
#define WR_SAY_TEXT(name, text) \
    WR_SAY(name)                \
    {                           \
        (void)view;             \
        (void)fputs(text, out); \
    }

/* admission_handshakes.c */
extern const struct wr_words_part wr_words_on_backlog;
extern const struct wr_words_part wr_words_on_slots;
extern const struct wr_words_part wr_words_on_delay;
extern const struct wr_words_part wr_words_on_processor;
extern const struct wr_words_part wr_words_on_short_processor;
extern const struct wr_words_part wr_words_on_share;
extern const struct wr_words_part wr_words_on_gave_way;

/* admission_connections.c */
extern const struct wr_words_part wr_words_on_connections;
extern const struct wr_words_part wr_words_on_rates;
extern const struct wr_words_part wr_words_on_denied;
extern const struct wr_words_part wr_words_on_hello;
extern const struct wr_words_part wr_words_on_handshake;
extern const struct wr_words_part wr_words_on_abandoned;
extern const struct wr_words_part wr_words_on_not_tls;
extern const struct wr_words_part wr_words_on_tls_error;
extern const struct wr_words_part wr_words_on_descriptors;
extern const struct wr_words_part wr_words_on_drain;
extern const struct wr_words_part wr_words_on_kernel;

#endif
