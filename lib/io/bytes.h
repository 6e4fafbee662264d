/* A queue of bytes in fixed-size chunks from a worker's pool. Content of messages, output that waits, input not yet taken:
 * one container, so bytes held are counted and not guessed. Chunks move between queues without being copied. */
#ifndef WR_IO_BYTES_H
#define WR_IO_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/compiler.h"
#include "base/str.h"

/* Content of one full TLS record (RFC 8446 section 5.1). */
#define WR_CHUNK_SIZE 16384

struct wr_chunk {
    struct wr_chunk *next;
    uint32_t start; /* first byte not yet consumed */
    uint32_t end;   /* one past the last byte */
    uint8_t data[WR_CHUNK_SIZE];
};

/* One a worker. Buffers that shrink as soon as they may would grow again for the next request, so it is time without growth that
 * gives memory back: chunks nobody has needed for SHRINK_AFTER microseconds in which the pool never had to grow. */
struct wr_chunk_pool {
    struct wr_chunk *free;
    size_t free_count;
    size_t used_count; /* chunks in queues just now */
    uint64_t shrink_after;
    uint64_t since;  /* when it grew or shrank last, as seen by wr_chunk_pool_shrink() */
    size_t unneeded; /* the least free_count since then */
    bool grew;       /* since the last wr_chunk_pool_shrink() */
};

/* SHRINK_AFTER in microseconds. 0: a chunk goes back at once. WR_NEVER: none does before the pool. */
void wr_chunk_pool_init(struct wr_chunk_pool *pool, uint64_t shrink_after);
/* To be called now and then. Returns how many bytes went back. */
size_t wr_chunk_pool_shrink(struct wr_chunk_pool *pool, uint64_t now);
void wr_chunk_pool_free(struct wr_chunk_pool *pool);
struct wr_chunk *wr_chunk_get(struct wr_chunk_pool *pool);
void wr_chunk_put(struct wr_chunk_pool *pool, struct wr_chunk *chunk);

struct wr_bytes {
    struct wr_chunk *first;
    struct wr_chunk *last;
    struct wr_chunk_pool *pool;
    size_t length;
};

void wr_bytes_init(struct wr_bytes *bytes, struct wr_chunk_pool *pool);
void wr_bytes_clear(struct wr_bytes *bytes);

/* Copies N bytes to the end. */
void wr_bytes_append(struct wr_bytes *bytes, const void *p, size_t n);
/* N writable bytes (N <= WR_CHUNK_SIZE) in one piece at the end; commit tells how many were used. */
uint8_t *wr_bytes_reserve(struct wr_bytes *bytes, size_t n);
void wr_bytes_commit(struct wr_bytes *bytes, size_t used);

/* Moves up to N bytes from the front of FROM to the end of TO, returns how many. Whole chunks change hands uncopied unless
 * they are small enough (< 1/4) to be packed into the last one. Same pool. */
size_t wr_bytes_move(struct wr_bytes *to, struct wr_bytes *from, size_t n);
/* All of FROM goes before what TO holds. */
void wr_bytes_prepend(struct wr_bytes *to, struct wr_bytes *from);
/* Appends a copy of all of FROM, which keeps its bytes. */
void wr_bytes_copy(struct wr_bytes *to, const struct wr_bytes *from);

/* The first contiguous piece; n = 0 when empty. */
struct wr_str wr_bytes_front(const struct wr_bytes *bytes);
/* Up to MAX pieces from the front; returns how many. */
int wr_bytes_iovec(const struct wr_bytes *bytes, struct iovec *iov, int max);
void wr_bytes_consume(struct wr_bytes *bytes, size_t n);

#endif
