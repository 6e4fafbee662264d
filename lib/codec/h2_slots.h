/* Pieces of address space for sessions (h2_arena.h): of one size, page-aligned, memory only once touched. They come from large reservations
 * and are used again, those still warm first. One pool for all threads. */
#ifndef WR_CODEC_H2_SLOTS_H
#define WR_CODEC_H2_SLOTS_H

#include <stddef.h>

#define WR_H2_SLOT ((size_t)64 * 1024)

/* Its content is anything. NULL: there is no address space. */
void *wr_h2_slot_take(void);
/* What it holds is lost. */
void wr_h2_slot_return(void *slot);

/* Gives back the memory of the first N bytes, and keeps the slot: they are zero from now on. */
void wr_h2_slot_forget(void *slot, size_t n);
/* Has memory for the first N bytes at once, cheaper than by touching them. */
void wr_h2_slot_populate(void *slot, size_t n);

#endif
