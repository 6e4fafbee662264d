/* HTTP/1.1 towards clients (RFC 9112), on llhttp. */
#ifndef WR_CODEC_H1_SERVER_H
#define WR_CODEC_H1_SERVER_H

#include "codec/codec.h"

/* Takes over the callbacks of TRANSPORT (open; owner: the caller, who closes it after the codec). OPTIONS, HOST and CLIENT
 * outlive the codec. Owner: the caller. */
struct wr_server_codec *wr_h1_server_new(struct wr_transport *transport,
                                         const struct wr_server_codec_options *options,
                                         struct wr_exchange_host *host,
                                         const struct wr_client_info *client,
                                         const struct wr_server_codec_events *events, void *owner);

#endif
