/* HTTP/2 towards clients (RFC 9113), on nghttp2. */
#ifndef WR_CODEC_H2_SERVER_H
#define WR_CODEC_H2_SERVER_H

#include "codec/codec.h"

/* As wr_h1_server_new(); the connection preface is read by the codec. */
struct wr_server_codec *wr_h2_server_new(struct wr_transport *transport,
                                         const struct wr_server_codec_options *options,
                                         struct wr_exchange_host *host,
                                         const struct wr_client_info *client,
                                         const struct wr_server_codec_events *events, void *owner);

#endif
