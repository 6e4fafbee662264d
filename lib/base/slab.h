/* Objects of one size that live for a while, come in crowds and go in crowds: codecs, above all. They lie in blocks of their own, and a
 * block of which all are gone goes back to the kernel. From malloc() they would lie between what stays, and their memory, once
 * freed, would come back to nobody.
 *
 * Under AddressSanitizer each is an allocation of its own, so that nothing touched after its end goes unseen. Not for threads. */
#ifndef WR_BASE_SLAB_H
#define WR_BASE_SLAB_H

#include <stddef.h>

#include "base/list.h"

struct wr_slab {
    size_t size;          /* of an object */
    struct wr_list roomy; /* blocks with room */
    size_t count;         /* objects in use */
    size_t block_count;
    void *spare; /* one empty block stays, so that an object that comes and goes costs nothing */
};

/* Objects of SIZE bytes, of which a block holds some dozens. */
void wr_slab_init(struct wr_slab *slab, size_t size);
/* All objects have come back. Can be called twice. */
void wr_slab_clear(struct wr_slab *slab);
/* Cleared. */
void *wr_slab_take(struct wr_slab *slab);
/* NULL is fine. */
void wr_slab_give(struct wr_slab *slab, void *object);
/* What it holds of memory, with what is free in its blocks. */
size_t wr_slab_bytes(const struct wr_slab *slab);

#endif
