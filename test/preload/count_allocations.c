/* Preloaded into weir by e2e/test_allocations.c: counts what is asked of the allocator, by whatever library, in a file that the test
 * has mapped as well. glibc's own names are behind those it replaces. */
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

extern void *__libc_malloc(size_t n);
extern void *__libc_calloc(size_t count, size_t n);
extern void *__libc_realloc(void *p, size_t n);
extern void *__libc_memalign(size_t alignment, size_t n);

static _Atomic uint64_t *asked; /* NULL: nobody wants to know, or not yet */

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("WEIR_ALLOCATIONS");
    int fd = path != NULL ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    void *page = mmap(NULL, sizeof(*asked), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    asked = page != MAP_FAILED ? page : NULL;
    (void)close(fd);
}

static void count(void)
{
    if (asked != NULL)
        atomic_fetch_add_explicit(asked, 1, memory_order_relaxed);
}

void *malloc(size_t n)
{
    count();
    return __libc_malloc(n);
}

void *calloc(size_t members, size_t n)
{
    count();
    return __libc_calloc(members, n);
}

void *realloc(void *p, size_t n)
{
    count();
    return __libc_realloc(p, n);
}

void *aligned_alloc(size_t alignment, size_t n)
{
    count();
    return __libc_memalign(alignment, n);
}
