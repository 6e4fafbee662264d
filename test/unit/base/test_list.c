#include <criterion/criterion.h>

#include "base/list.h"

struct item {
    int n;
    struct wr_list link;
};

static void expect(struct wr_list *list, const int *numbers, size_t count)
{
    struct wr_list *link = list->next;
    for (size_t i = 0; i < count; i++, link = link->next) {
        cr_assert_neq(link, list, "ends after %zu", i);
        cr_assert_eq(WR_CONTAINER_OF(link, struct item, link)->n, numbers[i]);
        cr_assert_eq(link->next->prev, link);
        cr_assert_eq(link->prev->next, link);
    }
    cr_assert_eq(link, list, "goes on");
}

Test(list, order_removal_and_splice)
{
    struct item items[4];
    struct wr_list a;
    struct wr_list b;
    wr_list_init(&a);
    wr_list_init(&b);
    for (int i = 0; i < 4; i++) {
        items[i].n = i;
        wr_list_init(&items[i].link);
    }
    wr_list_splice_back(&a, &b);
    cr_assert(wr_list_empty(&a));

    wr_list_push_back(&a, &items[1].link);
    wr_list_push_front(&a, &items[0].link);
    wr_list_push_back(&b, &items[2].link);
    wr_list_push_back(&b, &items[3].link);
    expect(&a, (int[]){0, 1}, 2);

    wr_list_splice_back(&a, &b);
    cr_assert(wr_list_empty(&b));
    expect(&a, (int[]){0, 1, 2, 3}, 4);

    wr_list_remove(&items[2].link);
    wr_list_remove(&items[2].link); /* may be asked for twice */
    expect(&a, (int[]){0, 1, 3}, 3);

    cr_assert_eq(wr_list_pop_front(&a), &items[0].link);
    cr_assert(wr_list_empty(&items[0].link));
    wr_list_remove(&items[1].link);
    wr_list_remove(&items[3].link);
    cr_assert_null(wr_list_pop_front(&a));
}
