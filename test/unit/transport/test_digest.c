/* Against published examples. */
#include <criterion/criterion.h>
#include <string.h>

#include "transport/digest.h"

Test(digest, base64)
{
    /* RFC 4648 section 10 */
    static const char *const examples[][2] = {
        {"", ""},
        {"f", "Zg=="},
        {"fo", "Zm8="},
        {"foo", "Zm9v"},
        {"foob", "Zm9vYg=="},
        {"fooba", "Zm9vYmE="},
        {"foobar", "Zm9vYmFy"},
    };
    char out[WR_BASE64_LENGTH(6) + 1];
    for (size_t i = 0; i < sizeof(examples) / sizeof(examples[0]); i++) {
        struct wr_str in = wr_str_from(examples[i][0]);
        wr_digest_base64(in.p, in.n, out);
        cr_expect_str_eq(out, examples[i][1]);
        cr_expect_eq(WR_BASE64_LENGTH(in.n), strlen(out));
    }
}

Test(digest, sha1)
{
    /* FIPS 180-2 appendix A.1 */
    static const unsigned char expected[WR_SHA1_BYTES] = {0xa9, 0x99, 0x3e, 0x36, 0x47, 0x06, 0x81,
                                                          0x6a, 0xba, 0x3e, 0x25, 0x71, 0x78, 0x50,
                                                          0xc2, 0x6c, 0x9c, 0xd0, 0xd8, 0x9d};
    unsigned char out[WR_SHA1_BYTES];
    wr_digest_sha1(WR_STR("abc"), out);
    cr_assert_arr_eq(out, expected, sizeof(out));
}
