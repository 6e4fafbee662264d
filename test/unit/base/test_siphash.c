#include <criterion/criterion.h>

#include "base/siphash.h"

/* The key and the vectors of the paper's appendix and of the authors' reference code: bytes 0, 1, 2, ... */
static const struct wr_siphash_key paper = {UINT64_C(0x0706050403020100),
                                            UINT64_C(0x0f0e0d0c0b0a0908)};

Test(siphash, is_that_of_the_paper)
{
    static const struct {
        size_t n;
        uint64_t hash;
    } vectors[] = {
        {0, UINT64_C(0x726fdb47dd0e0e31)},
        {1, UINT64_C(0x74f839c593dc67fd)},
        {8, UINT64_C(0x93f5f5799a932462)},
        {15, UINT64_C(0xa129ca6149be45e5)},
    };
    char bytes[16];
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (char)i;
    for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++)
        cr_expect_eq(wr_siphash(wr_str(bytes, vectors[i].n), paper), vectors[i].hash, "%zu bytes",
                     vectors[i].n);
}

Test(siphash, another_key_is_another_hash)
{
    struct wr_siphash_key other = {.k0 = paper.k0, .k1 = paper.k1 + 1};
    cr_expect_neq(wr_siphash(WR_STR("a client"), paper), wr_siphash(WR_STR("a client"), other));
}
