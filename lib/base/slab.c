#include "base/slab.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/assert.h"
#include "base/compiler.h"
#include "base/mem.h"

#if defined(__SANITIZE_ADDRESS__)
#define ALONE true
#else
#define ALONE false
#endif

/* At a multiple of its size, so that an object's address tells its block. */
#define BLOCK_SIZE ((size_t)16 * 1024)

struct block {
    struct wr_list link; /* of those with room, or on no list */
    void *freed; /* objects that were used and came back: each begins with the next one's address */
    uint32_t used;
    uint32_t touched; /* from here on none has ever been used, so no page was touched */
};
#define BLOCK_HEAD ((sizeof(struct block) + 15) & ~(size_t)15)

static uint32_t capacity(const struct wr_slab *slab)
{
    return (uint32_t)((BLOCK_SIZE - BLOCK_HEAD) / slab->size);
}

static struct block *block_of(void *object)
{
    return (struct block *)((char *)object - ((uintptr_t)object & (BLOCK_SIZE - 1)));
}

static struct block *new_block(struct wr_slab *slab)
{
    struct block *block = wr_new_aligned(BLOCK_SIZE, BLOCK_SIZE);
    *block = (struct block){.used = 0};
    wr_list_init(&block->link);
    wr_list_push_back(&slab->roomy, &block->link);
    slab->block_count++;
    return block;
}

/* To the allocator, and its pages to the kernel: they come back, empty, when somebody writes there. */
static void free_block(struct wr_slab *slab, struct block *block)
{
    wr_list_remove(&block->link);
    slab->block_count--;
    (void)madvise(block, BLOCK_SIZE, MADV_DONTNEED);
    free(block);
}

void wr_slab_init(struct wr_slab *slab, size_t size)
{
    *slab = (struct wr_slab){.size = (size + 15) & ~(size_t)15};
    wr_list_init(&slab->roomy);
    WR_ASSERT(size > 0 && slab->size <= BLOCK_SIZE / 16);
}

void wr_slab_clear(struct wr_slab *slab)
{
    WR_ASSERT(slab->count == 0);
    slab->spare = NULL;
    while (!wr_list_empty(&slab->roomy))
        free_block(slab, WR_CONTAINER_OF(slab->roomy.next, struct block, link));
}

void *wr_slab_take(struct wr_slab *slab)
{
    slab->count++;
    if (ALONE)
        return wr_new_zero(1, slab->size);
    struct block *block = wr_list_empty(&slab->roomy)
                              ? new_block(slab)
                              : WR_CONTAINER_OF(slab->roomy.next, struct block, link);
    if (block->used == 0)
        slab->spare = NULL;
    void *object = block->freed;
    if (object != NULL)
        memcpy(&block->freed, object, sizeof(block->freed));
    else
        object = (char *)block + BLOCK_HEAD + block->touched++ * slab->size;
    block->used++;
    if (block->used == capacity(slab))
        wr_list_remove(&block->link);
    return memset(object, 0, slab->size);
}

void wr_slab_give(struct wr_slab *slab, void *object)
{
    if (object == NULL)
        return;
    WR_ASSERT(slab->count > 0);
    slab->count--;
    if (ALONE) {
        free(object);
        return;
    }
    struct block *block = block_of(object);
    if (block->used == capacity(slab))
        wr_list_push_back(&slab->roomy, &block->link);
    memcpy(object, &block->freed, sizeof(block->freed));
    block->freed = object;
    block->used--;
    if (block->used > 0)
        return;
    if (slab->spare != NULL)
        free_block(slab, block);
    else
        slab->spare = block;
}

size_t wr_slab_bytes(const struct wr_slab *slab)
{
    return ALONE ? slab->count * slab->size : slab->block_count * BLOCK_SIZE;
}
