#include "codec/h2_arena.h"

#include <lz4.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "codec/h2_slots.h"

/* Blocks are of classes of sizes, each with a list of free ones, last in first out; else they come from what was never used. They are
 * neither cut nor joined: nghttp2 asks for few sizes, over and over. Whole blocks are of 16 to 128 bytes in steps of 16, then of
 * eight sizes to a doubling. */
#define STEP ((size_t)16)
#define EXACT 8u /* classes in steps of 16 */
#define CLASSES 65u
#define LARGEST ((size_t)18432)
/* For want of a block that fits a larger one is taken, up to about twice the size. */
#define NEIGHBOURS 8u

/* In front of each block. */
struct head {
    uint16_t class;
    uint16_t next;   /* while it is free: the next free one, in steps; 0: it is the last */
    uint32_t unused; /* zero */
};

/* At the start of the slot. */
struct top {
    uint32_t used;          /* bytes */
    uint16_t free[CLASSES]; /* the first free block of each class, in steps; 0: there is none */
};

/* Heads lie half a step before their steps, so that what follows them is aligned for anything. */
#define HEAD sizeof(struct head)
#define FIRST ((sizeof(struct top) + HEAD + STEP - 1) / STEP * STEP - HEAD)

_Static_assert(HEAD == STEP / 2, "blocks are aligned");
_Static_assert(FIRST % sizeof(uint64_t) == 0, "what is used is whole words");
_Static_assert(WR_H2_SLOT / STEP <= UINT16_MAX + 1, "steps are counted in 16 bits");

static struct top *top_of(const struct wr_h2_arena *arena)
{
    return (struct top *)(void *)arena->slot;
}

static struct head *head_at(const struct wr_h2_arena *arena, size_t steps)
{
    return (struct head *)(void *)(arena->slot + steps * STEP - HEAD);
}

static uint16_t place_of(const struct wr_h2_arena *arena, const void *block)
{
    return (uint16_t)((size_t)((const unsigned char *)block - arena->slot) / STEP);
}

static bool is_inside(const struct wr_h2_arena *arena, const void *block)
{
    uintptr_t p = (uintptr_t)block;
    uintptr_t slot = (uintptr_t)arena->slot;
    return slot != 0 && p >= slot && p - slot < WR_H2_SLOT;
}

/* ---- classes ---- */

static unsigned class_of(size_t size)
{
    if (size <= EXACT * STEP)
        return (unsigned)((size - 1) / STEP);
    unsigned log = 63u - (unsigned)__builtin_clzll(size - 1); /* 2^log < size <= 2^(log + 1) */
    unsigned eighth = (unsigned)((size - 1) >> (log - 3)) & 7u;
    return EXACT + (log - 7) * 8 + eighth;
}

static size_t size_of(unsigned class)
{
    if (class < EXACT)
        return (class + 1) * STEP;
    unsigned log = 7 + (class - EXACT) / 8;
    return ((size_t)1 << log) + ((size_t)((class - EXACT) % 8 + 1) << (log - 3));
}

/* ---- blocks ---- */

static void *spill(struct wr_h2_arena *arena, size_t n)
{
    void *p = wr_new_bytes(n);
    arena->spilled++;
    arena->held += malloc_usable_size(p);
    return p;
}

static void *hand_out(struct wr_h2_arena *arena, struct head *head)
{
    head->next = 0;
    arena->held += size_of(head->class);
    return head + 1;
}

static struct head *pop(const struct wr_h2_arena *arena, unsigned class)
{
    struct top *top = top_of(arena);
    if (top->free[class] == 0)
        return NULL;
    struct head *head = head_at(arena, top->free[class]);
    top->free[class] = head->next;
    return head;
}

static struct head *from_neighbours(const struct wr_h2_arena *arena, unsigned class)
{
    struct head *head = NULL;
    for (unsigned i = class + 1; head == NULL && i < CLASSES && i <= class + NEIGHBOURS; i++)
        head = pop(arena, i);
    return head;
}

static struct head *from_unused(const struct wr_h2_arena *arena, unsigned class)
{
    struct top *top = top_of(arena);
    size_t size = size_of(class);
    if (WR_H2_SLOT - top->used < size)
        return NULL;
    struct head *head = (struct head *)(void *)(arena->slot + top->used);
    top->used += (uint32_t)size;
    *head = (struct head){.class = (uint16_t) class};
    return head;
}

void *wr_h2_arena_alloc(struct wr_h2_arena *arena, size_t n)
{
    if (n > LARGEST - HEAD || arena->slot == NULL)
        return spill(arena, n);
    unsigned class = class_of(n + HEAD);
    struct head *head = pop(arena, class);
    if (head == NULL)
        head = from_unused(arena, class);
    if (head == NULL)
        head = from_neighbours(arena, class);
    return head != NULL ? hand_out(arena, head) : spill(arena, n);
}

void wr_h2_arena_free(struct wr_h2_arena *arena, void *p)
{
    if (p == NULL)
        return;
    if (!is_inside(arena, p)) {
        arena->spilled--;
        arena->held -= malloc_usable_size(p);
        free(p);
        return;
    }
    struct head *head = (struct head *)p - 1;
    uint16_t *first = &top_of(arena)->free[head->class];
    arena->held -= size_of(head->class);
    head->next = *first;
    *first = place_of(arena, p);
}

static size_t room_of(const struct wr_h2_arena *arena, void *p)
{
    return is_inside(arena, p) ? size_of(((struct head *)p - 1)->class) - HEAD
                               : malloc_usable_size(p);
}

void *wr_h2_arena_resize(struct wr_h2_arena *arena, void *p, size_t n)
{
    size_t room = p != NULL ? room_of(arena, p) : 0;
    if (p != NULL && n <= room)
        return p;
    void *other = wr_h2_arena_alloc(arena, n);
    if (p != NULL)
        memcpy(other, p, room);
    wr_h2_arena_free(arena, p);
    return other;
}

/* ---- life ---- */

void wr_h2_arena_init(struct wr_h2_arena *arena)
{
    *arena = (struct wr_h2_arena){.slot = wr_h2_slot_take()};
    if (arena->slot != NULL)
        *top_of(arena) = (struct top){.used = FIRST};
}

void wr_h2_arena_clear(struct wr_h2_arena *arena)
{
    WR_ASSERT(arena->spilled == 0);
    WR_ASSERT(arena->held == 0 || arena->packed != NULL);
    free(arena->packed);
    if (arena->slot != NULL)
        wr_h2_slot_return(arena->slot);
    *arena = (struct wr_h2_arena){.slot = NULL};
}

/* ---- sleep ---- */

/* What was in free blocks would cost as much as what is in others. */
static void clean(const struct wr_h2_arena *arena)
{
    const struct top *top = top_of(arena);
    for (unsigned class = 0; class < CLASSES; class ++) {
        size_t room = size_of(class) - HEAD;
        for (size_t steps = top->free[class]; steps != 0; steps = head_at(arena, steps)->next)
            memset(arena->slot + steps * STEP, 0, room);
    }
}

/* Sessions of one make have most of their words in common, once pointers into their slot are made relative to it. So what is compressed
 * is how one differs from the first there was, before anybody had said anything to it. Words are changed in ways that undo
 * themselves. */
#define WORD sizeof(uint64_t)
#define MOST_COMMON (16384 / WORD)
#define HOME (UINT64_C(1) << 62) /* no slot is there, and few numbers are */

struct common {
    atomic_flag taken;
    atomic_size_t count; /* words; from then on they stay as they are */
    uint64_t words[MOST_COMMON];
};

static struct common common = {.taken = ATOMIC_FLAG_INIT};

/* Values in the range of the slot's addresses, and those in the range of HOME, for each other. */
static uint64_t relative(uint64_t word, uint64_t slot)
{
    if (word - slot < WR_H2_SLOT)
        return word - slot + HOME;
    if (WR_UNLIKELY(word - HOME < WR_H2_SLOT))
        return word - HOME + slot;
    return word;
}

void wr_h2_arena_learn(const struct wr_h2_arena *arena)
{
    if (arena->slot == NULL || atomic_flag_test_and_set(&common.taken))
        return;
    clean(arena);
    const uint64_t *words = (const uint64_t *)(const void *)arena->slot;
    size_t count = top_of(arena)->used / WORD;
    if (count > MOST_COMMON)
        count = MOST_COMMON;
    for (size_t i = 0; i < count; i++)
        common.words[i] = relative(words[i], (uintptr_t)arena->slot);
    atomic_store(&common.count, count);
}

static void take_out_common(const struct wr_h2_arena *arena, uint64_t *out, size_t count)
{
    const uint64_t *words = (const uint64_t *)(const void *)arena->slot;
    size_t alike = arena->common;
    for (size_t i = 0; i < alike; i++)
        out[i] = relative(words[i], (uintptr_t)arena->slot) ^ common.words[i];
    for (size_t i = alike; i < count; i++)
        out[i] = relative(words[i], (uintptr_t)arena->slot);
}

static void put_in_common(const struct wr_h2_arena *arena, size_t count)
{
    uint64_t *words = (uint64_t *)(void *)arena->slot;
    size_t alike = arena->common;
    for (size_t i = 0; i < alike; i++)
        words[i] = relative(words[i] ^ common.words[i], (uintptr_t)arena->slot);
    for (size_t i = alike; i < count; i++)
        words[i] = relative(words[i], (uintptr_t)arena->slot);
}

bool wr_h2_arena_sleep(struct wr_h2_arena *arena)
{
    static _Thread_local uint64_t image[WR_H2_SLOT / WORD];
    static _Thread_local char scratch[LZ4_COMPRESSBOUND(WR_H2_SLOT)];
    WR_ASSERT(arena->packed == NULL);
    if (arena->slot == NULL)
        return false;
    clean(arena);
    size_t used = top_of(arena)->used;
    size_t learnt = atomic_load(&common.count);
    arena->common = (unsigned)(used / WORD < learnt ? used / WORD : learnt);
    take_out_common(arena, image, used / WORD);
    int n = LZ4_compress_default((const char *)image, scratch, (int)used, sizeof(scratch));
    WR_ASSERT(n > 0);
    arena->packed_size = (unsigned)n;
    arena->packed = wr_new_bytes(arena->packed_size);
    memcpy(arena->packed, scratch, arena->packed_size);
    arena->packed_used = (unsigned)used;
    wr_h2_slot_forget(arena->slot, used);
    return true;
}

void wr_h2_arena_wake(struct wr_h2_arena *arena)
{
    WR_ASSERT(arena->packed != NULL);
    wr_h2_slot_populate(arena->slot, arena->packed_used);
    int n = LZ4_decompress_safe(arena->packed, (char *)arena->slot, (int)arena->packed_size,
                                (int)WR_H2_SLOT);
    WR_ASSERT(n >= 0 && (unsigned)n == arena->packed_used);
    put_in_common(arena, arena->packed_used / WORD);
    free(arena->packed);
    arena->packed = NULL;
}
