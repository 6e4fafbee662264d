/* What both fuzzers of HTTP/1.1 do: messages off the wire, twice, once whole and once in pieces whose size the first byte of DATA
 * says. The outcome must be the same, and nothing let through may carry what a peer could read another way. */
#ifndef TEST_SUPPORT_H1_FUZZ_H
#define TEST_SUPPORT_H1_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Aborts when it finds something. */
void h1_fuzz(const uint8_t *data, size_t size, bool requests);

#endif
