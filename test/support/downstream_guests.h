/* Clients of a downstream world that behave in one way: silent, stalled in the handshake, served. */
#ifndef TEST_SUPPORT_DOWNSTREAM_GUESTS_H
#define TEST_SUPPORT_DOWNSTREAM_GUESTS_H

#include "support/downstream_world.h"

/* A ClientHello without the rest of a client, ALPN in wire form ("\x08http/1.1"). Returns its length. */
size_t client_make_hello(const char *alpn, uint8_t *out, size_t room);
/* Of bare ones. */
void client_send(struct client *client, const void *p, size_t n);
void client_say_hello(struct client *client);
bool client_was_reset(struct client *client);

/* Each after the world has settled. A stalled one stops after its ClientHello: it holds a slot. */
struct client *world_come_silent(struct world *world);
struct client *world_come_and_stall(struct world *world);
struct client *world_come_and_be_served(struct world *world);

#endif
