#include <criterion/criterion.h>

#include <stdint.h>
#include <stdlib.h>

#include "base/mem.h"

Test(mem, objects_are_cleared_and_empty_ones_are_objects)
{
    struct pair {
        int a;
        void *b;
    } *pair = WR_NEW(struct pair);
    cr_assert_eq(pair->a, 0);
    cr_assert_null(pair->b);
    free(pair);

    void *none = wr_new_bytes(0);
    void *nothing = wr_new_zero(0, 8);
    cr_assert_not_null(none);
    cr_assert_not_null(nothing);
    none = wr_resize(none, 0);
    cr_assert_not_null(none);
    free(none);
    free(nothing);
}

Test(mem, aligned_is_aligned)
{
    void *p = wr_new_aligned(64, 128);
    cr_assert_eq((uintptr_t)p % 64, 0);
    free(p);
}

Test(mem, a_copy_is_a_copy)
{
    const char *text = "weir";
    char *copy = wr_copy_string(text);
    cr_assert_str_eq(copy, text);
    cr_assert_neq((const char *)copy, text);
    free(copy);
}
