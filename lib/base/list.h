/* A circular doubly linked list whose links live in the objects. A link that is on no list points to itself,
 * so removal may be asked for twice. */
#ifndef WR_BASE_LIST_H
#define WR_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"

struct wr_list {
    struct wr_list *next;
    struct wr_list *prev;
};

static inline void wr_list_init(struct wr_list *list)
{
    list->next = list;
    list->prev = list;
}

static inline bool wr_list_empty(const struct wr_list *list)
{
    return list->next == list;
}

static inline void wr_list_insert_before(struct wr_list *position, struct wr_list *link)
{
    link->next = position;
    link->prev = position->prev;
    position->prev->next = link;
    position->prev = link;
}

static inline void wr_list_push_back(struct wr_list *list, struct wr_list *link)
{
    wr_list_insert_before(list, link);
}

static inline void wr_list_push_front(struct wr_list *list, struct wr_list *link)
{
    wr_list_insert_before(list->next, link);
}

static inline void wr_list_remove(struct wr_list *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
    wr_list_init(link);
}

/* The first link, taken off; NULL when empty. */
static inline struct wr_list *wr_list_pop_front(struct wr_list *list)
{
    if (wr_list_empty(list))
        return NULL;
    struct wr_list *link = list->next;
    wr_list_remove(link);
    return link;
}

/* All of FROM's links go to the end of LIST; FROM is empty afterwards. */
static inline void wr_list_splice_back(struct wr_list *list, struct wr_list *from)
{
    if (wr_list_empty(from))
        return;
    from->next->prev = list->prev;
    list->prev->next = from->next;
    from->prev->next = list;
    list->prev = from->prev;
    wr_list_init(from);
}

#endif
