/* Many clients at small cost: bare sockets, and ClientHellos with nobody behind them. */
#ifndef TEST_SUPPORT_FLOOD_H
#define TEST_SUPPORT_FLOOD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "support/peer.h"

#define FLOOD_HELLO_MAX 17000

/* A blocking socket connected to 127.0.0.1:PORT from an address that INDEX picks, so that ports last; -1: not to be had. */
int flood_connect(int port, unsigned index);
/* False when it is broken. */
bool flood_send(int fd, const void *p, size_t n);
/* Reads until the end, at most WAIT_MS for each piece. OUT keeps the first ROOM bytes, *N how many came; both may be NULL. */
enum peer_end flood_end(int fd, void *out, size_t room, size_t *n, int wait_ms);
/* RST. */
void flood_reset(int fd);
void flood_close(int *fds, size_t count); /* -1: none */

/* The records of a ClientHello as OPTIONS (may be NULL) make it; returns its length. */
size_t flood_hello(uint8_t out[FLOOD_HELLO_MAX], const struct peer_tls *options);
/* The same handshake messages in records of at most PIECE bytes. Owner: the caller. */
uint8_t *flood_cut_records(const uint8_t *records, size_t n, size_t piece, size_t *cut_n);

#endif
