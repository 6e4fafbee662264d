/* SipHash-2-4 (Aumasson and Bernstein, 2012): who does not know the key can make no two texts that fall together. For tables whose
 * keys are texts from outside. */
#ifndef WR_BASE_SIPHASH_H
#define WR_BASE_SIPHASH_H

#include <stdint.h>

#include "base/str.h"

struct wr_siphash_key {
    uint64_t k0;
    uint64_t k1;
};

uint64_t wr_siphash(struct wr_str text, struct wr_siphash_key key);

#endif
