#include "base/wheel.h"

#include "base/assert.h"
#include "base/compiler.h"

/* A slot of level L spans 64^L ticks. A deadline lies on the lowest level on which its slot is 1 to 63 slots ahead of the
 * slot the wheel is in, so the slot the wheel is in is always empty. When the wheel comes to the first tick of a
 * slot, all in it is looked at: fired when due, else put into a nearer slot. */
#define LEVEL_BITS 6
#define SLOT_MASK (WR_WHEEL_SLOTS - 1)

_Static_assert(WR_WHEEL_SLOTS == 1 << LEVEL_BITS, "a slot a bit of `occupied`");

static uint64_t slot_number(uint64_t tick, unsigned level)
{
    return tick >> (LEVEL_BITS * level);
}

/* Rounded up: never early. */
static uint64_t due_tick(uint64_t at)
{
    return at / WR_WHEEL_TICK + (at % WR_WHEEL_TICK != 0);
}

void wr_wheel_init(struct wr_wheel *wheel, uint64_t now)
{
    wheel->tick = now / WR_WHEEL_TICK;
    for (unsigned level = 0; level < WR_WHEEL_LEVELS; level++) {
        wheel->occupied[level] = 0;
        for (unsigned slot = 0; slot < WR_WHEEL_SLOTS; slot++)
            wr_list_init(&wheel->slots[level][slot]);
    }
}

void wr_deadline_init(struct wr_deadline *deadline,
                      void (*expired)(struct wr_deadline *deadline, uint64_t now))
{
    wr_list_init(&deadline->link);
    deadline->at = WR_NEVER;
    deadline->looked_at_tick = 0;
    deadline->expired = expired;
}

/* Puts a deadline that is on no list where it is looked at by DUE at the latest; DUE is ahead of the wheel. */
static void place(struct wr_wheel *wheel, struct wr_deadline *deadline, uint64_t due)
{
    unsigned level = 0;
    while (level < WR_WHEEL_LEVELS - 1 &&
           slot_number(due, level) - slot_number(wheel->tick, level) > SLOT_MASK)
        level++;

    uint64_t number = slot_number(due, level);
    uint64_t farthest = slot_number(wheel->tick, level) + SLOT_MASK;
    if (number > farthest) /* beyond the span of the wheel: look again at its edge */
        number = farthest;

    unsigned slot = (unsigned)(number & SLOT_MASK);
    deadline->looked_at_tick = number << (LEVEL_BITS * level);
    wr_list_push_back(&wheel->slots[level][slot], &deadline->link);
    wheel->occupied[level] |= UINT64_C(1) << slot;
}

static void take_off(struct wr_wheel *wheel, struct wr_deadline *deadline)
{
    struct wr_list *neighbour = deadline->link.next;
    wr_list_remove(&deadline->link);
    if (!wr_list_empty(neighbour))
        return;
    /* The neighbour is the head of a list now empty: a slot, or the list of what is being looked at. */
    uintptr_t offset = (uintptr_t)neighbour - (uintptr_t)&wheel->slots[0][0];
    if (offset >= sizeof(wheel->slots))
        return;
    size_t index = offset / sizeof(struct wr_list);
    wheel->occupied[index / WR_WHEEL_SLOTS] &= ~(UINT64_C(1) << (index % WR_WHEEL_SLOTS));
}

void wr_wheel_set(struct wr_wheel *wheel, struct wr_deadline *deadline, uint64_t at)
{
    deadline->at = at;
    if (at == WR_NEVER)
        return; /* lazy as well: it leaves the wheel when it is looked at */
    uint64_t due = due_tick(at);
    if (due <= wheel->tick)
        due = wheel->tick + 1;
    if (!wr_list_empty(&deadline->link)) {
        if (due >= deadline->looked_at_tick)
            return;
        take_off(wheel, deadline);
    }
    place(wheel, deadline, due);
}

void wr_wheel_remove(struct wr_wheel *wheel, struct wr_deadline *deadline)
{
    deadline->at = WR_NEVER;
    take_off(wheel, deadline);
}

/* The first tick ahead at which a slot is to be looked at; WR_NEVER when all are empty. */
static uint64_t next_tick(const struct wr_wheel *wheel)
{
    uint64_t next = WR_NEVER;
    for (unsigned level = 0; level < WR_WHEEL_LEVELS; level++) {
        uint64_t occupied = wheel->occupied[level];
        if (occupied == 0)
            continue;
        uint64_t ahead = slot_number(wheel->tick, level) + 1;
        unsigned shift = (unsigned)(ahead & SLOT_MASK);
        uint64_t rotated = shift == 0 ? occupied : occupied >> shift | occupied << (64 - shift);
        uint64_t number = ahead + (unsigned)__builtin_ctzll(rotated);
        uint64_t tick = number << (LEVEL_BITS * level);
        if (tick < next)
            next = tick;
    }
    return next;
}

/* Takes from TAKEN, one by one: a callback may take others off it or free them. */
static void look_at(struct wr_wheel *wheel, struct wr_list *taken, uint64_t now)
{
    struct wr_list *link;
    while ((link = wr_list_pop_front(taken)) != NULL) {
        struct wr_deadline *deadline = WR_CONTAINER_OF(link, struct wr_deadline, link);
        if (deadline->at == WR_NEVER)
            continue;
        uint64_t due = due_tick(deadline->at);
        if (due > wheel->tick) {
            place(wheel, deadline, due);
        } else {
            deadline->at = WR_NEVER;
            deadline->expired(deadline, now); /* may have freed it */
        }
    }
}

void wr_wheel_advance(struct wr_wheel *wheel, uint64_t now)
{
    uint64_t target = now / WR_WHEEL_TICK;
    while (wheel->tick < target) {
        uint64_t next = next_tick(wheel);
        if (next > target) {
            wheel->tick = target;
            return;
        }
        wheel->tick = next;
        struct wr_list taken;
        wr_list_init(&taken);
        for (unsigned level = 0; level < WR_WHEEL_LEVELS; level++) {
            unsigned slot = (unsigned)(slot_number(next, level) & SLOT_MASK);
            wheel->occupied[level] &= ~(UINT64_C(1) << slot);
            wr_list_splice_back(&taken, &wheel->slots[level][slot]);
        }
        look_at(wheel, &taken, now);
    }
}

uint64_t wr_wheel_next(const struct wr_wheel *wheel)
{
    uint64_t tick = next_tick(wheel);
    return tick > WR_NEVER / WR_WHEEL_TICK ? WR_NEVER : tick * WR_WHEEL_TICK;
}
