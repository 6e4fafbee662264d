/* An upstream played by a test: a thread accepts, and each connection is served by a function in a thread of its own. */
#ifndef TEST_SUPPORT_ORIGIN_H
#define TEST_SUPPORT_ORIGIN_H

#include "support/peer.h"

struct origin;

/* SERVE returns when it is done with the connection, which is then closed. The origin listens on 127.0.0.1, any port. */
struct origin *origin_start(void (*serve)(struct peer *client, void *arg), void *arg);
int origin_port(const struct origin *origin);
unsigned origin_connections(const struct origin *origin); /* accepted so far */
/* Stops accepting and waits for the threads (open connections are shut down). */
void origin_stop(struct origin *origin);

/* A server function: answers every request with 200 and the request head as text body; ARG unused. */
void origin_echo_head(struct peer *client, void *arg);
/* A server function: reads the content of every request (Content-Length or chunked) and answers with it. */
void origin_echo_content(struct peer *client, void *arg);

#endif
