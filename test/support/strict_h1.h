/* Reads HTTP/1.1 in the one form weir may write it, and in no other: what any peer of ours can read in one way only. Whatever else
 * comes is a finding. Shares no code with lib/codec, so that a mistake there cannot hide itself here. */
#ifndef TEST_SUPPORT_STRICT_H1_H
#define TEST_SUPPORT_STRICT_H1_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "support/message_ends.h"

#define STRICT_FIELDS 64

enum strict_kind { STRICT_REQUEST, STRICT_RESPONSE, STRICT_RESPONSE_TO_HEAD };

struct strict_field {
    struct wr_str name;
    struct wr_str value;
};

struct strict_fields {
    struct strict_field v[STRICT_FIELDS];
    size_t count;
};

#define STRICT_NO_LENGTH (-1)
#define STRICT_CHUNKED (-2)

/* Slices are of the bytes read. */
struct strict_message {
    struct wr_str method; /* request */
    struct wr_str target;
    struct wr_str host;
    bool expects;                /* Expect: 100-continue */
    unsigned status;             /* response */
    bool closes;                 /* Connection: close */
    int64_t length;              /* of Content-Length, or one of the above */
    struct strict_fields fields; /* without those that are members */
    struct text content;         /* as far as it has come */
    struct strict_fields trailers;
    bool has_head; /* all of the head has come */
    bool whole;
};

/* The message P begins with, as far as it is there. Returns how many bytes it has, 0 until it is whole. Aborts when a byte is not
 * as it has to be. Owner of OUT's content: the caller, who clears it. */
size_t strict_read(struct wr_str p, enum strict_kind kind, struct strict_message *out);
void strict_clear(struct strict_message *message);

const struct strict_field *strict_find(const struct strict_fields *fields, const char *name);

/* Says on stderr what is wrong, with up to two texts that show it (or NULL), and aborts. */
_Noreturn void finding(const char *what, struct wr_str expected, struct wr_str got);
/* Else it is one: BROKEN says what is wrong then. */
void must(bool condition, const char *broken);

#endif
