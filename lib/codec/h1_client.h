/* HTTP/1.1 towards upstreams (RFC 9112), on llhttp. */
#ifndef WR_CODEC_H1_CLIENT_H
#define WR_CODEC_H1_CLIENT_H

#include "codec/codec.h"

/* As wr_h1_server_new(), for an open transport to an upstream. */
struct wr_client_codec *wr_h1_client_new(struct wr_transport *transport,
                                         const struct wr_client_codec_options *options,
                                         struct wr_loop *loop,
                                         const struct wr_client_codec_events *events, void *owner);

#endif
