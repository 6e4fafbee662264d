#include "codec/h2_slots.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>

#include "base/assert.h"
#include "base/mem.h"

#define SLOTS_A_RESERVATION 1024
/* Returned ones keep their memory up to so many; most connections are short. */
#define MOST_WARM 64
/* A greeted session fits. */
#define AT_LEAST ((size_t)12 * 1024)

struct pool {
    pthread_mutex_t lock;
    void *warm[MOST_WARM]; /* both are stacks */
    size_t warm_count;
    void **cold; /* without memory, used before; has room for all slots there are */
    size_t cold_count;
    uint8_t *fresh; /* of the last reservation, never used */
    size_t fresh_count;
    size_t reserved; /* slots, in all */
};

static struct pool pool = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Address space alone: not even counted as memory promised. Huge pages would make it memory. */
static void reserve(void)
{
    size_t size = SLOTS_A_RESERVATION * WR_H2_SLOT;
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
    if (p == MAP_FAILED)
        return;
    (void)madvise(p, size, MADV_NOHUGEPAGE);
    pool.fresh = p;
    pool.fresh_count = SLOTS_A_RESERVATION;
    pool.reserved += SLOTS_A_RESERVATION;
    pool.cold = wr_resize(pool.cold, pool.reserved * sizeof(*pool.cold));
}

static void *take_cold(void)
{
    if (pool.cold_count > 0)
        return pool.cold[--pool.cold_count];
    if (pool.fresh_count == 0)
        reserve();
    if (pool.fresh_count == 0)
        return NULL;
    void *slot = pool.fresh;
    pool.fresh += WR_H2_SLOT;
    pool.fresh_count--;
    return slot;
}

void *wr_h2_slot_take(void)
{
    (void)pthread_mutex_lock(&pool.lock);
    void *warm = pool.warm_count > 0 ? pool.warm[--pool.warm_count] : NULL;
    void *slot = warm != NULL ? warm : take_cold();
    (void)pthread_mutex_unlock(&pool.lock);
    if (warm == NULL && slot != NULL)
        wr_h2_slot_populate(slot, AT_LEAST);
    return slot;
}

void wr_h2_slot_return(void *slot)
{
    (void)pthread_mutex_lock(&pool.lock);
    bool warm = pool.warm_count < MOST_WARM;
    if (warm)
        pool.warm[pool.warm_count++] = slot;
    (void)pthread_mutex_unlock(&pool.lock);
    if (warm)
        return;
    wr_h2_slot_forget(slot, WR_H2_SLOT);
    (void)pthread_mutex_lock(&pool.lock);
    pool.cold[pool.cold_count++] = slot;
    (void)pthread_mutex_unlock(&pool.lock);
}

void wr_h2_slot_forget(void *slot, size_t n)
{
    int failed = madvise(slot, n, MADV_DONTNEED);
    WR_ASSERT(failed == 0);
}

/* Linux 5.14; where there is none, touching does it. */
void wr_h2_slot_populate(void *slot, size_t n)
{
    (void)madvise(slot, n, MADV_POPULATE_WRITE);
}
