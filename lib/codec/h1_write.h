/* Serialises HTTP/1.1 heads, chunks and trailers, for both sides. Framing, connection and host fields are written from
 * what they are told here, never from `fields`. */
#ifndef WR_CODEC_H1_WRITE_H
#define WR_CODEC_H1_WRITE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "codec/h1_reader.h"
#include "http/head.h"
#include "http/message.h"
#include "io/bytes.h"
#include "transport/transport.h"

/* Content on its way out of a message. */
struct wr_h1_writer {
    struct wr_transport *transport;
    struct wr_bytes bytes; /* heads being made, content being moved; empty between calls */
    enum wr_h1_framing framing;
    uint64_t left; /* of a known length */
};

void wr_h1_writer_init(struct wr_h1_writer *writer, struct wr_transport *transport,
                       struct wr_chunk_pool *pool);
/* Can be called twice. */
void wr_h1_writer_clear(struct wr_h1_writer *writer);

/* Request line, host, framing, expect, upgrade, fields. */
void wr_h1_write_request(struct wr_h1_writer *writer, const struct wr_head *head,
                         enum wr_h1_framing framing);

struct wr_h1_response_options {
    enum wr_h1_framing framing;
    int64_t length;           /* value of content-length; -1 = no field */
    struct wr_str connection; /* value; "" = no field */
    struct wr_str upgrade;    /* likewise */
    struct wr_str date;       /* put in when the head has none; "" = never */
};
void wr_h1_write_response(struct wr_h1_writer *writer, const struct wr_head *head,
                          const struct wr_h1_response_options *options);

enum wr_h1_pumped {
    WR_H1_PUMPED_ALL,    /* all content there is */
    WR_H1_PUMPED_FULL,   /* the transport takes no more for now: writable() follows */
    WR_H1_PUMPED_EXCESS, /* more content than the length said; that was not written */
};
/* Moves content from MESSAGE to the transport, as framed. *TAKEN is for wr_message_taken(), which may end the exchange and so
 * is left to the caller. */
enum wr_h1_pumped wr_h1_writer_pump(struct wr_h1_writer *writer, struct wr_message *message,
                                    size_t *taken);
/* All content was pumped: writes what ends it. False: shorter than its length. */
WR_MUST_USE bool wr_h1_writer_end(struct wr_h1_writer *writer, const struct wr_fields *trailers);

#endif
