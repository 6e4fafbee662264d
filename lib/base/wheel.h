/* A hierarchical timing wheel: a pure structure that takes `now`. Deadlines are lazy: moving one later only stores the
 * new time, and the wheel looks again when the old one comes up. So progress on a connection costs one store. */
#ifndef WR_BASE_WHEEL_H
#define WR_BASE_WHEEL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/time.h"

struct wr_deadline {
    struct wr_list link;     /* in a slot of the wheel, or on no list */
    uint64_t at;             /* when it is due, WR_NEVER = not set */
    uint64_t looked_at_tick; /* the tick of the slot it lies in */
    void (*expired)(struct wr_deadline *deadline, uint64_t now);
};

#define WR_WHEEL_LEVELS 4
#define WR_WHEEL_SLOTS 64
#define WR_WHEEL_TICK (1 * WR_MSEC)

struct wr_wheel {
    uint64_t tick; /* the tick up to which the wheel has run */
    uint64_t occupied[WR_WHEEL_LEVELS];
    struct wr_list slots[WR_WHEEL_LEVELS][WR_WHEEL_SLOTS];
};

void wr_wheel_init(struct wr_wheel *wheel, uint64_t now);

void wr_deadline_init(struct wr_deadline *deadline,
                      void (*expired)(struct wr_deadline *deadline, uint64_t now));

/* Due at AT. Later than before is one store, and so is WR_NEVER, which clears it but does not take it off the wheel. Never
 * fires early, at most two ticks late. */
void wr_wheel_set(struct wr_wheel *wheel, struct wr_deadline *deadline, uint64_t at);
/* Takes it off the wheel; after this its memory may go. Can be called twice. */
void wr_wheel_remove(struct wr_wheel *wheel, struct wr_deadline *deadline);

/* Calls `expired` of all that is due at NOW, each cleared before. `expired` may set, remove and free any deadline, its own
 * too. A clock that steps back does nothing; one that leaps ahead fires all that has become due. */
void wr_wheel_advance(struct wr_wheel *wheel, uint64_t now);

/* When the wheel wants to be advanced next; WR_NEVER when empty. May be early (a lazy deadline), never late. */
uint64_t wr_wheel_next(const struct wr_wheel *wheel);

#endif
