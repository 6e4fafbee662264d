/* HTTP/1.1 as a test reads it: independent of the code under test, and strict about framing. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "support/peer.h"

/* One byte at a time up to LIMIT, until END is at the end of what was read. */
static bool read_until(struct peer *peer, char *out, size_t size, const char *stop,
                       enum peer_end *end)
{
    size_t n = 0;
    size_t length = strlen(stop);

    while (n + 1 < size) {
        if (peer_read(peer, out + n, 1, end) == 0)
            break;
        n++;
        if (n >= length && memcmp(out + n - length, stop, length) == 0) {
            out[n] = '\0';
            return true;
        }
    }
    out[n] = '\0';
    return false;
}

bool peer_read_head(struct peer *peer, char *head, size_t size)
{
    enum peer_end end;
    return read_until(peer, head, size, "\r\n\r\n", &end);
}

const char *reply_field(const struct reply *reply, const char *name)
{
    static _Thread_local char value[4096];
    size_t length = strlen(name);

    for (const char *line = strstr(reply->head, "\r\n"); line; line = strstr(line + 2, "\r\n")) {
        const char *at = line + 2;
        if (strncasecmp(at, name, length) != 0 || at[length] != ':')
            continue;
        at += length + 1;
        while (*at == ' ')
            at++;
        size_t n = strcspn(at, "\r\n");
        (void)snprintf(value, sizeof(value), "%.*s", (int)n, at);
        return value;
    }
    return "";
}

/* What the memory of N bytes of body and their end is made to hold. */
static size_t room_for(size_t n)
{
    size_t room = 64;
    while (room < n + 1)
        room *= 2;
    return room;
}

static void append(struct reply *reply, const char *p, size_t n)
{
    size_t room = room_for(reply->body_n + n);
    if (room > room_for(reply->body_n))
        reply->body = realloc(reply->body, room);
    memcpy(reply->body + reply->body_n, p, n);
    reply->body_n += n;
    reply->body[reply->body_n] = '\0';
}

static bool read_counted(struct peer *peer, struct reply *reply, size_t n)
{
    char buffer[65536];

    while (n > 0) {
        size_t got = peer_read(peer, buffer, n < sizeof(buffer) ? n : sizeof(buffer), &reply->end);
        if (got == 0)
            return false;
        append(reply, buffer, got);
        n -= got;
    }
    return true;
}

static bool read_chunked(struct peer *peer, struct reply *reply)
{
    char line[1024];

    for (;;) {
        if (!read_until(peer, line, sizeof(line), "\r\n", &reply->end) ||
            !isxdigit((unsigned char)*line))
            return false;
        size_t n = strtoull(line, NULL, 16);
        if (n == 0)
            break;
        if (!read_counted(peer, reply, n) ||
            !read_until(peer, line, sizeof(line), "\r\n", &reply->end) || strcmp(line, "\r\n") != 0)
            return false;
    }
    /* The trailer section goes behind the head, so that reply_field() finds it. */
    size_t at = strlen(reply->head);
    do {
        if (!read_until(peer, line, sizeof(line), "\r\n", &reply->end))
            return false;
        if (strlen(line) > 2)
            at += (size_t)snprintf(reply->head + at, sizeof(reply->head) - at, "%s", line);
    } while (strcmp(line, "\r\n") != 0 && at < sizeof(reply->head));
    return true;
}

struct reply peer_reply(struct peer *peer, bool head_request)
{
    struct reply reply = {.end = PEER_OPEN};

    reply.body = calloc(1, room_for(0));
    if (!read_until(peer, reply.head, sizeof(reply.head), "\r\n\r\n", &reply.end))
        return reply;
    if (sscanf(reply.head, "HTTP/1.%*1d %3d", &reply.status) != 1)
        return reply;
    if (head_request || reply.status < 200 || reply.status == 204 || reply.status == 304) {
        reply.whole = true;
    } else if (strcasecmp(reply_field(&reply, "transfer-encoding"), "chunked") == 0) {
        reply.whole = read_chunked(peer, &reply);
    } else if (*reply_field(&reply, "content-length")) {
        reply.whole =
            read_counted(peer, &reply, strtoull(reply_field(&reply, "content-length"), NULL, 10));
    } else {
        char buffer[16384];
        size_t got;
        while ((got = peer_read(peer, buffer, sizeof(buffer), &reply.end)) > 0)
            append(&reply, buffer, got);
        reply.whole = reply.end == PEER_EOF;
    }
    return reply;
}

void reply_free(struct reply *reply)
{
    free(reply->body);
    reply->body = NULL;
}
