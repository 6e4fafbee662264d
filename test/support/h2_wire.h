/* HTTP/2 frames as a test writes and reads them: raw, so that any of them can be wrong (RFC 9113 section 4). */
#ifndef TEST_SUPPORT_H2_WIRE_H
#define TEST_SUPPORT_H2_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "support/message_ends.h"

#define H2_PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

enum h2_type {
    H2_DATA,
    H2_HEADERS,
    H2_PRIORITY,
    H2_RST_STREAM,
    H2_SETTINGS,
    H2_PUSH_PROMISE,
    H2_PING,
    H2_GOAWAY,
    H2_WINDOW_UPDATE,
    H2_CONTINUATION,
    H2_PRIORITY_UPDATE = 16,
};

#define H2_END_STREAM 1u
#define H2_ACK 1u
#define H2_END_HEADERS 4u
#define H2_PADDED 8u

/* ---- writing: appended to OUT ---- */
void h2_put_frame(struct text *out, unsigned type, unsigned flags, uint32_t id, const void *p,
                  size_t n);
/* "name: value\n..." as literals without indexing; a line may begin with ":". */
void h2_put_block(struct text *out, const char *fields);
/* One HEADERS frame; END_HEADERS is added. */
void h2_put_headers(struct text *out, uint32_t id, unsigned flags, const char *fields);
void h2_put_data(struct text *out, uint32_t id, unsigned flags, const char *content);
void h2_put_reset(struct text *out, uint32_t id, uint32_t code);
void h2_put_window(struct text *out, uint32_t id, uint32_t increment);
void h2_put_goaway(struct text *out, uint32_t last, uint32_t code);
void h2_put_ping(struct text *out, unsigned flags, const char opaque[8]);
/* "id=value" pairs ended by id 0. */
void h2_put_settings(struct text *out, const uint32_t *pairs);

/* ---- reading ----
 * Each frame becomes words of LOG: "SETTINGS[3=100,4=65536] ", "HEADERS/1[:status=200;date=x;] " ("!=": never indexed), "DATA/1[hello] " ("DATA/1[#n]" for
 * more than 64 bytes), "RST/1[8] ", "GOAWAY[1,0] ", "PING[abcdefgh] ", "WINDOW/0[10] ", each with "+ES", "+ACK" after its name. */
struct h2_reader;
struct h2_reader *h2_reader_new(bool of_client);
void h2_reader_free(struct h2_reader *reader);
void h2_reader_read(struct h2_reader *reader, const void *p, size_t n, struct text *log);
/* Bytes of DATA in all, or of one stream. */
uint64_t h2_reader_data(const struct h2_reader *reader);

#endif
