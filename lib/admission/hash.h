/* A keyed hash for tables that strangers fill. For lib/admission only. */
#ifndef WR_ADMISSION_HASH_H
#define WR_ADMISSION_HASH_H

#include <stdint.h>

/* Two rounds of multiply and fold, keyed: enough that who does not know SEED can't aim at a cell. */
static inline uint32_t wr_hash64(uint64_t key, uint64_t seed)
{
    uint64_t x = (key ^ seed) * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 32) ^ (seed << 1)) * UINT64_C(0xd6e8feb86659fd93);
    return (uint32_t)(x >> 32);
}

#endif
