#include "codec/target.h"

#include "http/head.h"

bool wr_target_is_clean(struct wr_str target)
{
    for (size_t i = 0; i < target.n; i++) {
        unsigned char c = (unsigned char)target.p[i];
        if (c < 0x21 || c > 0x7e || c == '#')
            return false;
        if (c == '%' && target.n - i >= 3 && target.p[i + 1] == '0' && target.p[i + 2] == '0')
            return false;
    }
    return target.n > 0;
}

bool wr_target_has_port(struct wr_str authority)
{
    return authority.n > wr_authority_host(authority).n + 1;
}

struct wr_str wr_target_lower(struct wr_arena *arena, struct wr_str s)
{
    char *copy = wr_arena_alloc(arena, s.n + 1);
    for (size_t i = 0; i < s.n; i++)
        copy[i] = wr_lower(s.p[i]);
    return wr_str(copy, s.n);
}
