#include "base/mem.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/compiler.h"

/* Uses no memory: there is none. */
WR_NORETURN static void out_of_memory(void)
{
    static const char text[] = "weir: out of memory\n";
    ssize_t written = write(STDERR_FILENO, text, sizeof(text) - 1);
    (void)written;
    abort();
}

void *wr_new_bytes(size_t n)
{
    void *p = malloc(n > 0 ? n : 1);
    if (p == NULL)
        out_of_memory();
    return p;
}

void *wr_new_zero(size_t count, size_t n)
{
    void *p = count > 0 && n > 0 ? calloc(count, n) : calloc(1, 1);
    if (p == NULL)
        out_of_memory();
    return p;
}

void *wr_new_aligned(size_t alignment, size_t n)
{
    void *p = aligned_alloc(alignment, n);
    if (p == NULL)
        out_of_memory();
    return p;
}

void *wr_resize(void *p, size_t n)
{
    void *resized = realloc(p, n > 0 ? n : 1);
    if (resized == NULL)
        out_of_memory();
    return resized;
}

char *wr_copy_string(const char *terminated)
{
    size_t n = strlen(terminated) + 1;
    char *copy = wr_new_bytes(n);
    memcpy(copy, terminated, n);
    return copy;
}
