/* What the clients in bench/ share: the clock, and sockets from many loopback addresses. */
#ifndef BENCH_SUPPORT_NET_H
#define BENCH_SUPPORT_NET_H

#include <stdint.h>

uint64_t now_usec(void); /* CLOCK_MONOTONIC, the same in all processes */

_Noreturn void die(const char *what); /* with errno's message */

/* A socket that connects to 127.0.0.1:PORT from the loopback address with number SOURCE (127.1.0.1 and up), without waiting. -1: errno. */
int connect_from(unsigned source, uint16_t port);

/* Closes it with a reset: no descriptor or port waits for anything. */
void close_with_reset(int fd);

#endif
