/* Windows of streams that grow (RFC 9113 section 5.2), so that one fast stream fills a long fat pipe: a window begins at the
 * message's limit and is doubled when the peer has used it up within a round trip while the message's sink took all at once. The
 * round trip is that of a PING, so no clock is needed. What the windows of a connection have grown by is never more than
 * `connection_window` in all; a stream whose sink stalls gives back what it had more, as fast as content is taken. */
#ifndef WR_CODEC_H2_WINDOW_H
#define WR_CODEC_H2_WINDOW_H

#include "codec/h2_stream.h"

/* The stream is open: SETTINGS may have told the peer of another window than its message's. Client. */
void wr_h2_window_open(struct wr_h2_stream *stream);
/* N bytes have come and are with the message. */
void wr_h2_window_came(struct wr_h2_stream *stream, size_t n);
/* The sink has taken N bytes. Returns how many of them the peer is to be given back. */
size_t wr_h2_window_taken(struct wr_h2_stream *stream, size_t n);
/* The stream is over. */
void wr_h2_window_release(struct wr_h2_stream *stream);

/* A PING has come. True when it is the answer to one from here. */
bool wr_h2_window_answered(struct wr_h2_session *session, const nghttp2_frame *frame);

#endif
