/* The library's memory. Left alone it puts a word before every allocation to know its size, which the allocator knows anyway: with two
 * dozen allocations a connection that is memory for nothing. And it can be counted here. */
#include <malloc.h>
#include <stddef.h>
#include <stdlib.h>

#include <openssl/mem.h>

#include "transport/tls.h"

/* Of this thread. A thread that frees what another has allocated, as when a configuration ends, may be below zero. */
static _Thread_local ptrdiff_t held;

size_t wr_tls_bytes(void)
{
    return held > 0 ? (size_t)held : 0;
}

/* The library's own names for what it calls instead of malloc() and free(), where a program has them. */
void *OPENSSL_memory_alloc(size_t size);
void OPENSSL_memory_free(void *p);
size_t OPENSSL_memory_get_size(void *p);

void *OPENSSL_memory_alloc(size_t size)
{
    void *p = malloc(size > 0 ? size
                              : 1); /* whose size is then told truly: sanitizers say 1 of nothing */
    held += (ptrdiff_t)malloc_usable_size(p);
    return p;
}

/* Keys may be in it. */
void OPENSSL_memory_free(void *p)
{
    size_t size = malloc_usable_size(p);
    held -= (ptrdiff_t)size;
    OPENSSL_cleanse(p, size);
    free(p);
}

size_t OPENSSL_memory_get_size(void *p)
{
    return malloc_usable_size(p);
}
