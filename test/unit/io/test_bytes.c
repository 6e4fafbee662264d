/* The queue of bytes, by hand at its edges and against a flat array with random operations. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "io/bytes.h"

#define SHRINK_AFTER (10 * WR_SEC)

static struct wr_chunk_pool pool;

static void setup(void)
{
    wr_chunk_pool_init(&pool, SHRINK_AFTER);
}

static void teardown(void)
{
    cr_assert_eq(pool.used_count, 0, "a chunk was lost");
    wr_chunk_pool_free(&pool);
}

TestSuite(bytes, .init = setup, .fini = teardown);

/* N bytes with a pattern that tells any place from its neighbours. */
static uint8_t *pattern(size_t n, unsigned seed)
{
    uint8_t *p = malloc(n + 1);
    for (size_t i = 0; i < n; i++)
        p[i] = (uint8_t)((i * 131 + i / 251 + seed) & 0xff);
    return p;
}

static size_t chunks_of(const struct wr_bytes *bytes)
{
    size_t n = 0;
    for (const struct wr_chunk *chunk = bytes->first; chunk != NULL; chunk = chunk->next)
        n++;
    return n;
}

/* All bytes by front() and consume(), compared. */
static void expect_and_drain(struct wr_bytes *bytes, const uint8_t *expected, size_t n)
{
    cr_assert_eq(bytes->length, n);
    size_t at = 0;
    while (bytes->length > 0) {
        struct wr_str front = wr_bytes_front(bytes);
        cr_assert_gt(front.n, 0);
        cr_assert_leq(at + front.n, n);
        cr_assert_eq(memcmp(front.p, expected + at, front.n), 0, "differs after %zu", at);
        at += front.n;
        wr_bytes_consume(bytes, front.n);
    }
    cr_assert_eq(at, n);
    cr_assert_eq(wr_bytes_front(bytes).n, 0);
    cr_assert_null(bytes->first);
}

Test(bytes, append_over_several_chunks)
{
    size_t n = 3 * WR_CHUNK_SIZE + 17;
    uint8_t *p = pattern(n, 1);
    struct wr_bytes bytes;
    wr_bytes_init(&bytes, &pool);
    wr_bytes_append(&bytes, p, 5);
    wr_bytes_append(&bytes, p + 5, n - 5);
    cr_assert_eq(chunks_of(&bytes), 4);
    cr_assert_eq(pool.used_count, 4);
    expect_and_drain(&bytes, p, n);
    cr_assert_eq(pool.used_count, 0);
    cr_assert_eq(pool.free_count, 4);
    free(p);
}

/* COUNT chunks are in use at once, and none afterwards. */
static void use(size_t count)
{
    struct wr_chunk *chunks[16];
    cr_assert_leq(count, 16);
    for (size_t i = 0; i < count; i++)
        chunks[i] = wr_chunk_get(&pool);
    cr_assert_eq(pool.used_count, count);
    for (size_t i = 0; i < count; i++)
        wr_chunk_put(&pool, chunks[i]);
    cr_assert_eq(pool.used_count, 0);
}

Test(bytes, pool_gives_back_what_nobody_needed_since_it_grew)
{
    const size_t chunk = sizeof(struct wr_chunk);
    uint64_t now = 1000 * WR_SEC;
    use(7);
    cr_assert_eq(wr_chunk_pool_shrink(&pool, now), 0, "it has just grown");
    use(3);
    cr_assert_eq(wr_chunk_pool_shrink(&pool, now + SHRINK_AFTER - 1), 0);
    cr_assert_eq(pool.free_count, 7);
    cr_assert_eq(wr_chunk_pool_shrink(&pool, now + SHRINK_AFTER), 4 * chunk);
    cr_assert_eq(pool.free_count, 3);
    use(3);
    cr_assert_eq(wr_chunk_pool_shrink(&pool, now + 2 * SHRINK_AFTER - 1), 0, "it has just shrunk");
    cr_assert_eq(wr_chunk_pool_shrink(&pool, now + 2 * SHRINK_AFTER), 0, "all are needed");
    cr_assert_eq(wr_chunk_pool_shrink(&pool, now + 3 * SHRINK_AFTER), 3 * chunk);
    cr_assert_eq(pool.free_count, 0);
}

Test(bytes, growth_puts_shrinking_off)
{
    uint64_t now = 1000 * WR_SEC;
    use(5);
    (void)wr_chunk_pool_shrink(&pool, now);
    for (size_t i = 6; i <= 16; i++) {
        now += SHRINK_AFTER * 9 / 10;
        use(i);
        cr_assert_eq(wr_chunk_pool_shrink(&pool, now), 0);
        cr_assert_eq(pool.free_count, i);
    }
    /* Chunks in use are not the pool's to give back. */
    struct wr_chunk *used = wr_chunk_get(&pool);
    cr_assert_eq(wr_chunk_pool_shrink(&pool, now + SHRINK_AFTER), 15 * sizeof(struct wr_chunk));
    wr_chunk_put(&pool, used);
    cr_assert_eq(pool.free_count, 1);
}

Test(bytes, pool_that_shrinks_at_once_keeps_none)
{
    struct wr_chunk_pool hasty;
    wr_chunk_pool_init(&hasty, 0);
    struct wr_chunk *one = wr_chunk_get(&hasty);
    struct wr_chunk *two = wr_chunk_get(&hasty);
    wr_chunk_put(&hasty, one);
    wr_chunk_put(&hasty, two);
    cr_assert_eq(hasty.free_count, 0);
    cr_assert_eq(wr_chunk_pool_shrink(&hasty, WR_SEC), 0);
    wr_chunk_pool_free(&hasty);
}

Test(bytes, pool_can_keep_all)
{
    struct wr_chunk_pool thrifty;
    wr_chunk_pool_init(&thrifty, WR_NEVER);
    wr_chunk_put(&thrifty, wr_chunk_get(&thrifty));
    cr_assert_eq(wr_chunk_pool_shrink(&thrifty, WR_SEC), 0);
    cr_assert_eq(wr_chunk_pool_shrink(&thrifty, WR_NEVER - 1), 0);
    cr_assert_eq(thrifty.free_count, 1);
    wr_chunk_pool_free(&thrifty);
}

Test(bytes, reserve_and_commit)
{
    struct wr_bytes bytes;
    wr_bytes_init(&bytes, &pool);
    memcpy(wr_bytes_reserve(&bytes, WR_CHUNK_SIZE), "abcdef", 6);
    wr_bytes_commit(&bytes, 6);
    /* What is left in the chunk is enough: same chunk. */
    memcpy(wr_bytes_reserve(&bytes, WR_CHUNK_SIZE - 6), "ghi", 3);
    wr_bytes_commit(&bytes, 3);
    cr_assert_eq(chunks_of(&bytes), 1);
    /* Not enough: a new one. */
    memcpy(wr_bytes_reserve(&bytes, WR_CHUNK_SIZE - 8), "jk", 2);
    wr_bytes_commit(&bytes, 2);
    cr_assert_eq(chunks_of(&bytes), 2);
    expect_and_drain(&bytes, (const uint8_t *)"abcdefghijk", 11);
}

Test(bytes, unused_reserve_holds_nothing)
{
    struct wr_bytes bytes;
    wr_bytes_init(&bytes, &pool);
    (void)wr_bytes_reserve(&bytes, 100);
    wr_bytes_commit(&bytes, 0);
    cr_assert_eq(pool.used_count, 0);

    /* Behind other bytes: it is stepped over, wherever it goes. */
    wr_bytes_append(&bytes, "abc", 3);
    (void)wr_bytes_reserve(&bytes, WR_CHUNK_SIZE);
    wr_bytes_commit(&bytes, 0);
    struct wr_bytes behind;
    wr_bytes_init(&behind, &pool);
    wr_bytes_append(&behind, "def", 3);
    wr_bytes_prepend(&behind, &bytes);
    cr_assert_null(bytes.first);
    struct iovec iov[4];
    cr_assert_eq(wr_bytes_iovec(&behind, iov, 4), 2);
    struct wr_bytes moved;
    wr_bytes_init(&moved, &pool);
    cr_assert_eq(wr_bytes_move(&moved, &behind, SIZE_MAX), 6);
    cr_assert_eq(behind.length, 0);
    expect_and_drain(&moved, (const uint8_t *)"abcdef", 6);
}

Test(bytes, whole_chunks_move_uncopied)
{
    uint8_t *p = pattern(2 * WR_CHUNK_SIZE, 3);
    struct wr_bytes from, to;
    wr_bytes_init(&from, &pool);
    wr_bytes_init(&to, &pool);
    wr_bytes_append(&from, p, 2 * WR_CHUNK_SIZE);
    wr_bytes_append(&to, "x", 1);
    const struct wr_chunk *first = from.first;
    cr_assert_eq(wr_bytes_move(&to, &from, WR_CHUNK_SIZE), WR_CHUNK_SIZE);
    cr_assert_eq(to.last, first);
    cr_assert_eq(to.length, WR_CHUNK_SIZE + 1);
    cr_assert_eq(from.length, WR_CHUNK_SIZE);
    cr_assert_eq(pool.used_count, 3);
    wr_bytes_consume(&to, 1);
    expect_and_drain(&to, p, WR_CHUNK_SIZE);
    expect_and_drain(&from, p + WR_CHUNK_SIZE, WR_CHUNK_SIZE);
    free(p);
}

Test(bytes, small_chunks_are_packed)
{
    struct wr_bytes from, to;
    wr_bytes_init(&from, &pool);
    wr_bytes_init(&to, &pool);
    for (int i = 0; i < 100; i++) {
        wr_bytes_append(&from, "0123456789", 10);
        cr_assert_eq(wr_bytes_move(&to, &from, 10), 10);
    }
    cr_assert_eq(to.length, 1000);
    cr_assert_eq(chunks_of(&to), 1);
    cr_assert_eq(pool.used_count, 1);
    wr_bytes_clear(&to);
    wr_bytes_clear(&to);
}

Test(bytes, part_of_a_chunk_moves)
{
    uint8_t *p = pattern(WR_CHUNK_SIZE, 9);
    struct wr_bytes from, to;
    wr_bytes_init(&from, &pool);
    wr_bytes_init(&to, &pool);
    wr_bytes_append(&from, p, WR_CHUNK_SIZE);
    cr_assert_eq(wr_bytes_move(&to, &from, 0), 0);
    cr_assert_null(to.first);
    cr_assert_eq(wr_bytes_move(&to, &from, 10000), 10000);
    expect_and_drain(&to, p, 10000);
    expect_and_drain(&from, p + 10000, WR_CHUNK_SIZE - 10000);
    free(p);
}

Test(bytes, iovec_stops_at_max)
{
    uint8_t *p = pattern(3 * WR_CHUNK_SIZE, 2);
    struct wr_bytes bytes;
    wr_bytes_init(&bytes, &pool);
    wr_bytes_append(&bytes, p, 3 * WR_CHUNK_SIZE);
    wr_bytes_consume(&bytes, 10);
    struct iovec iov[3];
    cr_assert_eq(wr_bytes_iovec(&bytes, iov, 2), 2);
    cr_assert_eq(iov[0].iov_len, WR_CHUNK_SIZE - 10);
    cr_assert_eq(memcmp(iov[0].iov_base, p + 10, iov[0].iov_len), 0);
    cr_assert_eq(iov[1].iov_len, WR_CHUNK_SIZE);
    cr_assert_eq(wr_bytes_iovec(&bytes, iov, 0), 0);
    wr_bytes_clear(&bytes);
    free(p);
}

/* ---- against a flat array ---- */

#define QUEUES 3
#define MODEL_MAX ((size_t)1 << 18)

struct model {
    struct wr_bytes bytes;
    uint8_t *flat;
    size_t length;
};

static size_t pick(unsigned *state, size_t below)
{
    *state = *state * 1103515245u + 12345u;
    return below == 0 ? 0 : (*state >> 8) % below;
}

/* Mostly small, now and then around and over a chunk. */
static size_t pick_size(unsigned *state)
{
    switch (pick(state, 4)) {
    case 0:
        return pick(state, 3 * WR_CHUNK_SIZE);
    case 1:
        return WR_CHUNK_SIZE - 2 + pick(state, 5);
    default:
        return pick(state, 600);
    }
}

static void compare(const struct model *m)
{
    cr_assert_eq(m->bytes.length, m->length);
    struct iovec iov[256];
    int n = wr_bytes_iovec(&m->bytes, iov, 256);
    size_t at = 0;
    for (int i = 0; i < n; i++) {
        cr_assert_gt(iov[i].iov_len, 0);
        cr_assert_leq(at + iov[i].iov_len, m->length);
        cr_assert_eq(memcmp(iov[i].iov_base, m->flat + at, iov[i].iov_len), 0);
        at += iov[i].iov_len;
    }
    cr_assert_eq(at, m->length);
    struct wr_str front = wr_bytes_front(&m->bytes);
    cr_assert_eq(front.n, n > 0 ? iov[0].iov_len : 0);
    if (m->length == 0)
        cr_assert_null(m->bytes.first, "an empty queue holds chunks");
}

static void model_push(struct model *m, const uint8_t *p, size_t n)
{
    memcpy(m->flat + m->length, p, n);
    m->length += n;
}

static void model_drop(struct model *m, size_t n)
{
    memmove(m->flat, m->flat + n, m->length - n);
    m->length -= n;
}

static void do_reserve(struct model *m, const uint8_t *source, size_t n, unsigned *state)
{
    n = n < WR_CHUNK_SIZE ? n : WR_CHUNK_SIZE;
    size_t used = pick(state, 3) == 0 ? 0 : pick(state, n + 1);
    uint8_t *p = wr_bytes_reserve(&m->bytes, n);
    memcpy(p, source, used);
    wr_bytes_commit(&m->bytes, used);
    model_push(m, source, used);
}

static void step(struct model *a, struct model *b, const uint8_t *source, unsigned *state)
{
    size_t n = pick_size(state);
    switch (pick(state, 8)) {
    case 0:
    case 1:
        wr_bytes_append(&a->bytes, source, n);
        model_push(a, source, n);
        break;
    case 2:
        do_reserve(a, source, n, state);
        break;
    case 3:
    case 4:
        n = wr_bytes_move(&b->bytes, &a->bytes, n);
        model_push(b, a->flat, n);
        model_drop(a, n);
        break;
    case 5:
        if (pick(state, 2) == 0) {
            wr_bytes_copy(&b->bytes, &a->bytes);
            model_push(b, a->flat, a->length);
        } else {
            memmove(b->flat + a->length, b->flat, b->length);
            memcpy(b->flat, a->flat, a->length);
            b->length += a->length;
            a->length = 0;
            wr_bytes_prepend(&b->bytes, &a->bytes);
        }
        break;
    default:
        n = n < a->length ? n : a->length;
        wr_bytes_consume(&a->bytes, n);
        model_drop(a, n);
        break;
    }
}

Test(bytes, behaves_as_a_flat_array)
{
    uint8_t *source = pattern(4 * WR_CHUNK_SIZE, 7);
    for (unsigned seed = 1; seed <= 20; seed++) {
        unsigned state = seed;
        struct model queues[QUEUES];
        for (size_t i = 0; i < QUEUES; i++) {
            wr_bytes_init(&queues[i].bytes, &pool);
            queues[i].flat = malloc(MODEL_MAX);
            queues[i].length = 0;
        }
        for (int i = 0; i < 1500; i++) {
            size_t a = pick(&state, QUEUES);
            size_t b = (a + 1 + pick(&state, QUEUES - 1)) % QUEUES;
            step(&queues[a], &queues[b], source + pick(&state, 1000), &state);
            size_t chunks = 0;
            for (size_t k = 0; k < QUEUES; k++) {
                compare(&queues[k]);
                if (queues[k].length > MODEL_MAX / 4) {
                    wr_bytes_clear(&queues[k].bytes);
                    queues[k].length = 0;
                }
                chunks += chunks_of(&queues[k].bytes);
            }
            cr_assert_eq(pool.used_count, chunks);
        }
        for (size_t i = 0; i < QUEUES; i++) {
            wr_bytes_clear(&queues[i].bytes);
            free(queues[i].flat);
        }
    }
    free(source);
}
