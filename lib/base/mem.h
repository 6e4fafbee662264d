/* Allocation for objects whose absence nothing could survive: these never return NULL; without memory the process says
 * so and aborts. What a peer can make large is bounded by limits before it comes here. */
#ifndef WR_BASE_MEM_H
#define WR_BASE_MEM_H

#include <stddef.h>

void *wr_new_bytes(size_t n);              /* not cleared */
void *wr_new_zero(size_t count, size_t n); /* cleared */
/* At a multiple of ALIGNMENT, a power of two; not cleared. N is a multiple of it. */
void *wr_new_aligned(size_t alignment, size_t n);
void *wr_resize(void *p, size_t n);
char *wr_copy_string(const char *terminated);

/* A cleared object of TYPE. Owner: the caller; free() returns it. */
#define WR_NEW(type) ((type *)wr_new_zero(1, sizeof(type)))

#endif
