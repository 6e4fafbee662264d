#include "support/bulk.h"

#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#define PERIOD 65521 /* a prime: no size of a buffer is in step with it */
#define PIECE 65536

static uint8_t pattern[PERIOD + PIECE];

static void make_pattern(void)
{
    uint32_t state = 1;

    for (size_t i = 0; i < PERIOD; i++) {
        state = state * 1664525u + 1013904223u;
        pattern[i] = (uint8_t)(state >> 24);
    }
    for (size_t i = PERIOD; i < sizeof(pattern); i++)
        pattern[i] = pattern[i - PERIOD];
}

static const uint8_t *pattern_at(uint64_t at)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, make_pattern);
    return pattern + at % PERIOD;
}

void bulk_fill(void *p, size_t n, uint64_t at)
{
    for (size_t done = 0; done < n;) {
        size_t part = n - done < PIECE ? n - done : PIECE;
        memcpy((uint8_t *)p + done, pattern_at(at + done), part);
        done += part;
    }
}

bool bulk_check(const void *p, size_t n, uint64_t at)
{
    for (size_t done = 0; done < n;) {
        size_t part = n - done < PIECE ? n - done : PIECE;
        if (memcmp((const uint8_t *)p + done, pattern_at(at + done), part) != 0)
            return false;
        done += part;
    }
    return true;
}

/* False when it is to end. */
static bool may_go_on(struct bulk_flow *flow)
{
    const struct timespec ms1 = {0, 1000 * 1000};

    while (atomic_load(&flow->paused) && !atomic_load(&flow->dead))
        (void)nanosleep(&ms1, NULL);
    return !atomic_load(&flow->dead);
}

/* ---- sending ---- */

bool bulk_send(struct peer *peer, struct bulk_flow *flow, uint64_t size, size_t piece, bool chunked)
{
    char buffer[32 + PIECE + 2];
    size_t most = piece > 0 && piece < PIECE ? piece : PIECE;

    for (uint64_t at = 0; at < size && may_go_on(flow);) {
        size_t part = size - at < most ? (size_t)(size - at) : most;
        size_t n = chunked ? (size_t)snprintf(buffer, 32, "%zx\r\n", part) : 0;
        bulk_fill(buffer + n, part, at);
        n += part;
        if (chunked) {
            memcpy(buffer + n, "\r\n", 2);
            n += 2;
        }
        if (!peer_write(peer, buffer, n))
            return false;
        at += part;
        atomic_fetch_add(&flow->bytes, part);
    }
    return may_go_on(flow) && (!chunked || peer_say(peer, "0\r\n\r\n"));
}

/* ---- receiving ---- */

static bool receive_bare(struct peer *peer, struct bulk_flow *flow, uint64_t *at, uint64_t size)
{
    uint8_t buffer[PIECE];
    enum peer_end end;

    for (uint64_t left = size; left > 0;) {
        if (!may_go_on(flow))
            return false;
        size_t got = peer_read(peer, buffer, left < PIECE ? (size_t)left : PIECE, &end);
        if (got == 0)
            return false;
        if (!flow->unchecked && !bulk_check(buffer, got, *at))
            atomic_store(&flow->wrong, true);
        atomic_fetch_add(&flow->bytes, got);
        *at += got;
        left -= got;
    }
    return true;
}

static bool read_line(struct peer *peer, char *line, size_t room)
{
    for (size_t n = 0; n + 1 < room; n++) {
        if (!peer_read_exactly(peer, line + n, 1))
            return false;
        if (line[n] == '\n') {
            line[n + 1] = '\0';
            return true;
        }
    }
    return false;
}

static bool receive_chunks(struct peer *peer, struct bulk_flow *flow)
{
    char line[64];
    uint64_t at = 0;

    for (;;) {
        if (!read_line(peer, line, sizeof(line)) || !isxdigit((unsigned char)*line))
            return false;
        uint64_t n = strtoull(line, NULL, 16);
        if (!receive_bare(peer, flow, &at, n) || !read_line(peer, line, sizeof(line)) ||
            strcmp(line, "\r\n") != 0)
            return false;
        if (n == 0)
            return true;
    }
}

bool bulk_receive(struct peer *peer, struct bulk_flow *flow, uint64_t size, bool chunked)
{
    uint64_t at = 0;

    return chunked ? receive_chunks(peer, flow) : receive_bare(peer, flow, &at, size);
}

/* ---- HTTP ---- */

static const char *field_of(const char *head, const char *name)
{
    size_t length = strlen(name);

    for (const char *line = strstr(head, "\r\n"); line; line = strstr(line + 2, "\r\n"))
        if (strncasecmp(line + 2, name, length) == 0 && line[2 + length] == ':')
            return line + 3 + length;
    return NULL;
}

uint64_t bulk_length(const char *head, bool *chunked)
{
    const char *length = field_of(head, "content-length");

    *chunked = field_of(head, "transfer-encoding") != NULL;
    return length ? strtoull(length, NULL, 10) : 0;
}

static bool answer(struct peer *client, struct bulk_origin *origin)
{
    char head[128];

    if (!may_go_on(&origin->out))
        return false;
    if (origin->chunked)
        (void)snprintf(head, sizeof(head), "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    else
        (void)snprintf(head, sizeof(head), "HTTP/1.1 200 OK\r\nContent-Length: %llu\r\n\r\n",
                       (unsigned long long)origin->size);
    return peer_say(client, head) &&
           bulk_send(client, &origin->out, origin->size, origin->piece, origin->chunked);
}

void bulk_serve(struct peer *client, void *arg)
{
    struct bulk_origin *origin = arg;
    char head[16384];
    bool chunked;

    peer_set_wait(client, 60000);
    while (peer_read_head(client, head, sizeof(head))) {
        uint64_t length = bulk_length(head, &chunked);
        atomic_fetch_add(&origin->heads, 1);
        if (!chunked && length == 0) {
            if (!answer(client, origin))
                return;
            continue;
        }
        if (!bulk_receive(client, &origin->in, length, chunked)) {
            atomic_fetch_add(&origin->cut, 1);
            return;
        }
        atomic_fetch_add(&origin->whole, 1);
        if (!peer_say(client, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"))
            return;
    }
}
