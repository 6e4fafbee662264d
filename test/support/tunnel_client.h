/* A client at the near end of a tunnel through weir, over HTTP/1.1 (a WebSocket upgrade) or HTTP/2 (extended CONNECT): bare bytes, any
 * number of them. */
#ifndef TEST_SUPPORT_TUNNEL_CLIENT_H
#define TEST_SUPPORT_TUNNEL_CLIENT_H

#include "support/bulk.h"
#include "support/pairings.h"

struct tunnel_client;

/* Opened, by PAIRING, to the path of WHAT (tunnel_origin.h); fails the test when it does not come about. Over HTTP/2 its windows are
 * open as far as they go, so that it is the connection that stands still; the origin must not speak before the client does. Owner: the
 * caller. */
struct tunnel_client *tunnel_open(const struct pairings_world *world, const struct pairing *pairing,
                                  const char *what);
void tunnel_free(struct tunnel_client *client);

/* SIZE bytes of content, from its beginning; what comes meanwhile is not looked at. False when the tunnel broke. */
bool tunnel_send(struct tunnel_client *client, struct bulk_flow *flow, uint64_t size);
bool tunnel_say(struct tunnel_client *client, const char *text);
/* Ends its direction. */
bool tunnel_end(struct tunnel_client *client);
/* All that comes up to the end in good order; false when it comes otherwise, or not. */
bool tunnel_receive(struct tunnel_client *client, struct bulk_flow *flow);
/* The same, for short words; OUT is terminated. */
bool tunnel_hear(struct tunnel_client *client, char *out, size_t size);

#endif
