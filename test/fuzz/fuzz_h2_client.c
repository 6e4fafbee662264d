/* Frames of HTTP/2 upstreams, off the wire. */
#include "support/h2_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    h2_fuzz_client(data, size);
    return 0;
}
