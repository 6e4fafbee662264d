#include "io/bytes.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "base/time.h"

/* A whole chunk with less than this is packed into the last one and not linked. */
#define PACK_BELOW (WR_CHUNK_SIZE / 4)

/* ---- the pool ---- */

void wr_chunk_pool_init(struct wr_chunk_pool *pool, uint64_t shrink_after)
{
    *pool = (struct wr_chunk_pool){.shrink_after = shrink_after};
}

static void release_free(struct wr_chunk_pool *pool, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct wr_chunk *chunk = pool->free;
        pool->free = chunk->next;
        free(chunk);
    }
    pool->free_count -= count;
}

size_t wr_chunk_pool_shrink(struct wr_chunk_pool *pool, uint64_t now)
{
    if (!pool->grew && wr_time_since(pool->since, now) < pool->shrink_after)
        return 0;
    size_t released = pool->grew ? 0 : pool->unneeded;
    release_free(pool, released);
    pool->grew = false;
    pool->since = now;
    pool->unneeded = pool->free_count;
    return released * sizeof(struct wr_chunk);
}

void wr_chunk_pool_free(struct wr_chunk_pool *pool)
{
    WR_ASSERT(pool->used_count == 0);
    release_free(pool, pool->free_count);
}

struct wr_chunk *wr_chunk_get(struct wr_chunk_pool *pool)
{
    struct wr_chunk *chunk = pool->free;
    if (chunk != NULL) {
        pool->free = chunk->next;
        pool->free_count--;
        if (pool->free_count < pool->unneeded)
            pool->unneeded = pool->free_count;
    } else {
        pool->grew = true;
        chunk = wr_new_bytes(sizeof *chunk);
    }
    chunk->next = NULL;
    chunk->start = 0;
    chunk->end = 0;
    pool->used_count++;
    return chunk;
}

void wr_chunk_put(struct wr_chunk_pool *pool, struct wr_chunk *chunk)
{
    WR_ASSERT(pool->used_count > 0);
    pool->used_count--;
    if (pool->shrink_after == 0) {
        free(chunk);
        return;
    }
    chunk->next = pool->free;
    pool->free = chunk;
    pool->free_count++;
}

/* ---- the queue ----
 * A reserve that was not used can leave a chunk without bytes anywhere in the chain; all loops below step over such. A queue
 * of length 0 holds no chunk, except between reserve and commit. */

static size_t held(const struct wr_chunk *chunk)
{
    return chunk->end - chunk->start;
}

static size_t room(const struct wr_chunk *chunk)
{
    return chunk != NULL ? WR_CHUNK_SIZE - chunk->end : 0;
}

static void link_chunk(struct wr_bytes *bytes, struct wr_chunk *chunk)
{
    chunk->next = NULL;
    if (bytes->last != NULL)
        bytes->last->next = chunk;
    else
        bytes->first = chunk;
    bytes->last = chunk;
}

static struct wr_chunk *unlink_first(struct wr_bytes *bytes)
{
    struct wr_chunk *chunk = bytes->first;
    bytes->first = chunk->next;
    if (bytes->first == NULL)
        bytes->last = NULL;
    return chunk;
}

static void drop_empty_front(struct wr_bytes *bytes)
{
    while (bytes->first != NULL && held(bytes->first) == 0)
        wr_chunk_put(bytes->pool, unlink_first(bytes));
}

void wr_bytes_init(struct wr_bytes *bytes, struct wr_chunk_pool *pool)
{
    *bytes = (struct wr_bytes){.pool = pool};
}

void wr_bytes_clear(struct wr_bytes *bytes)
{
    while (bytes->first != NULL)
        wr_chunk_put(bytes->pool, unlink_first(bytes));
    bytes->length = 0;
}

void wr_bytes_append(struct wr_bytes *bytes, const void *p, size_t n)
{
    const uint8_t *from = p;
    bytes->length += n;
    while (n > 0) {
        if (room(bytes->last) == 0)
            link_chunk(bytes, wr_chunk_get(bytes->pool));
        struct wr_chunk *last = bytes->last;
        size_t part = n < room(last) ? n : room(last);
        memcpy(last->data + last->end, from, part);
        last->end += (uint32_t)part;
        from += part;
        n -= part;
    }
}

uint8_t *wr_bytes_reserve(struct wr_bytes *bytes, size_t n)
{
    WR_ASSERT(n <= WR_CHUNK_SIZE);
    if (bytes->last == NULL || room(bytes->last) < n)
        link_chunk(bytes, wr_chunk_get(bytes->pool));
    return bytes->last->data + bytes->last->end;
}

void wr_bytes_commit(struct wr_bytes *bytes, size_t used)
{
    WR_ASSERT(used <= room(bytes->last));
    if (used > 0)
        bytes->last->end += (uint32_t)used;
    bytes->length += used;
    if (bytes->length == 0)
        wr_bytes_clear(bytes);
}

size_t wr_bytes_move(struct wr_bytes *to, struct wr_bytes *from, size_t n)
{
    WR_ASSERT(to->pool == from->pool && to != from);
    size_t wanted = n < from->length ? n : from->length;
    size_t left = wanted;
    while (left > 0) {
        drop_empty_front(from);
        struct wr_chunk *chunk = from->first;
        size_t part = held(chunk);
        if (part > left || (part < PACK_BELOW && part <= room(to->last))) {
            part = part < left ? part : left;
            wr_bytes_append(to, chunk->data + chunk->start, part);
            wr_bytes_consume(from, part);
        } else {
            link_chunk(to, unlink_first(from));
            to->length += part;
            from->length -= part;
        }
        left -= part;
    }
    if (from->length == 0)
        wr_bytes_clear(from);
    return wanted;
}

void wr_bytes_prepend(struct wr_bytes *to, struct wr_bytes *from)
{
    WR_ASSERT(to->pool == from->pool && to != from);
    if (from->length == 0)
        return;
    from->last->next = to->first;
    if (to->last == NULL)
        to->last = from->last;
    to->first = from->first;
    to->length += from->length;
    wr_bytes_init(from, from->pool);
}

void wr_bytes_copy(struct wr_bytes *to, const struct wr_bytes *from)
{
    WR_ASSERT(to != from);
    for (const struct wr_chunk *chunk = from->first; chunk != NULL; chunk = chunk->next)
        wr_bytes_append(to, chunk->data + chunk->start, held(chunk));
}

struct wr_str wr_bytes_front(const struct wr_bytes *bytes)
{
    const struct wr_chunk *chunk = bytes->first;
    while (chunk != NULL && held(chunk) == 0)
        chunk = chunk->next;
    if (chunk == NULL)
        return WR_STR_EMPTY;
    return wr_str((const char *)chunk->data + chunk->start, held(chunk));
}

int wr_bytes_iovec(const struct wr_bytes *bytes, struct iovec *iov, int max)
{
    int n = 0;
    for (struct wr_chunk *chunk = bytes->first; chunk != NULL && n < max; chunk = chunk->next) {
        if (held(chunk) == 0)
            continue;
        iov[n].iov_base = chunk->data + chunk->start;
        iov[n].iov_len = held(chunk);
        n++;
    }
    return n;
}

void wr_bytes_consume(struct wr_bytes *bytes, size_t n)
{
    WR_ASSERT(n <= bytes->length);
    bytes->length -= n;
    if (bytes->length == 0) {
        wr_bytes_clear(bytes);
        return;
    }
    while (n > 0) {
        drop_empty_front(bytes);
        struct wr_chunk *chunk = bytes->first;
        size_t part = n < held(chunk) ? n : held(chunk);
        chunk->start += (uint32_t)part;
        n -= part;
    }
    drop_empty_front(bytes);
}
