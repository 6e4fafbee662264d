/* HTTP/2 towards upstreams (RFC 9113), on nghttp2. */
#ifndef WR_CODEC_H2_CLIENT_H
#define WR_CODEC_H2_CLIENT_H

#include "codec/codec.h"

/* As wr_h1_client_new(), for a transport that is open and on which HTTP/2 was agreed. */
struct wr_client_codec *wr_h2_client_new(struct wr_transport *transport,
                                         const struct wr_client_codec_options *options,
                                         struct wr_loop *loop,
                                         const struct wr_client_codec_events *events, void *owner);

#endif
