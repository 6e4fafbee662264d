#include "base/siphash.h"

struct state {
    uint64_t v0;
    uint64_t v1;
    uint64_t v2;
    uint64_t v3;
};

static uint64_t rotated(uint64_t x, unsigned bits)
{
    return x << bits | x >> (64 - bits);
}

static void mix(struct state *s, unsigned rounds)
{
    for (; rounds > 0; rounds--) {
        s->v0 += s->v1;
        s->v1 = rotated(s->v1, 13) ^ s->v0;
        s->v0 = rotated(s->v0, 32);
        s->v2 += s->v3;
        s->v3 = rotated(s->v3, 16) ^ s->v2;
        s->v0 += s->v3;
        s->v3 = rotated(s->v3, 21) ^ s->v0;
        s->v2 += s->v1;
        s->v1 = rotated(s->v1, 17) ^ s->v2;
        s->v2 = rotated(s->v2, 32);
    }
}

static void absorb(struct state *s, uint64_t word)
{
    s->v3 ^= word;
    mix(s, 2);
    s->v0 ^= word;
}

/* N bytes at most 8, the first one lowest. */
static uint64_t word_of(const char *p, size_t n)
{
    uint64_t word = 0;
    for (size_t i = 0; i < n; i++)
        word |= (uint64_t)(unsigned char)p[i] << (8 * i);
    return word;
}

uint64_t wr_siphash(struct wr_str text, struct wr_siphash_key key)
{
    struct state s = {
        .v0 = key.k0 ^ UINT64_C(0x736f6d6570736575),
        .v1 = key.k1 ^ UINT64_C(0x646f72616e646f6d),
        .v2 = key.k0 ^ UINT64_C(0x6c7967656e657261),
        .v3 = key.k1 ^ UINT64_C(0x7465646279746573),
    };
    size_t at = 0;
    for (; text.n - at >= 8; at += 8)
        absorb(&s, word_of(text.p + at, 8));
    absorb(&s, (uint64_t)(text.n & 0xff) << 56 | word_of(text.p + at, text.n - at));
    s.v2 ^= 0xff;
    mix(&s, 4);
    return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}
