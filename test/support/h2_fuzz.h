/* What both fuzzers of HTTP/2 do: a codec on a socket pair is given frames off the wire, twice, once whole and once in pieces, between
 * which it sleeps whenever it may. What it lets through must be the same, in neutral form, and nothing may be left when it is closed. */
#ifndef TEST_SUPPORT_H2_FUZZ_H
#define TEST_SUPPORT_H2_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* The first byte of DATA says how large the pieces are. Both abort when they find something. */
void h2_fuzz_server(const uint8_t *data, size_t size);
/* The second byte of DATA says what is asked for. */
void h2_fuzz_client(const uint8_t *data, size_t size);

#endif
