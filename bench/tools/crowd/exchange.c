/* One request and its answer, in each protocol: as much of it as a proxy that behaves well needs. */
#include "crowd/crowd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FRAME_HEAD 9u
#define STATUS_200 0x88 /* the only 2xx of HPACK's static table that is asked for here */

enum { DATA = 0, HEADERS = 1, RST_STREAM = 3, SETTINGS = 4, PING = 6, GOAWAY = 7 };
enum { ACK = 1, END_STREAM = 1, END_HEADERS = 4 };

static bool put(SSL *ssl, const void *bytes, size_t length)
{
    return SSL_write(ssl, bytes, (int)length) == (int)length;
}

static bool ask_http1(SSL *ssl, const char *path)
{
    char head[512];
    int length =
        snprintf(head, sizeof(head),
                 "GET %s HTTP/1.1\r\nHost: localhost\r\nUser-Agent: crowd\r\nAccept: */*\r\n"
                 "Accept-Encoding: gzip, deflate, br\r\n\r\n",
                 path);

    return length > 0 && (size_t)length < sizeof(head) && put(ssl, head, (size_t)length);
}

static size_t frame_head(uint8_t *out, size_t length, uint8_t type, uint8_t flags, uint32_t stream)
{
    out[0] = 0;
    out[1] = (uint8_t)(length >> 8);
    out[2] = (uint8_t)length;
    out[3] = type;
    out[4] = flags;
    for (int i = 0; i < 4; i++)
        out[5 + i] = (uint8_t)(stream >> (24 - 8 * i));
    return FRAME_HEAD;
}

/* A field whose name is in HPACK's static table and whose value goes into the dynamic one, as browsers do. */
static size_t field(uint8_t *out, uint8_t name, const char *value)
{
    size_t length = strlen(value) & 0x7f; /* what one byte can tell */

    out[0] = 0x40 | name;
    out[1] = (uint8_t)length;
    for (size_t i = 0; i < length; i++)
        out[2 + i] = (uint8_t)value[i];
    return 2 + length;
}

static bool ask_http2(SSL *ssl, size_t requests, const char *path)
{
    static const char hello[] =
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"
        "\0\0\4\10\0\0\0\0\0\17\0\0\0"; /* no settings, and a large window */
    uint8_t out[1024];
    uint8_t block[512];
    size_t at = 0;
    size_t used = 0;

    if (requests == 0) {
        memcpy(out, hello, sizeof(hello) - 1);
        used = sizeof(hello) - 1;
    }
    block[at++] = 0x82; /* :method GET */
    block[at++] = 0x87; /* :scheme https */
    at += field(block + at, 4, path);
    at += field(block + at, 1, "localhost");
    at += field(block + at, 58, "crowd");
    at += field(block + at, 19, "*/*");
    block[at++] = 0x90; /* accept-encoding: gzip, deflate */
    used +=
        frame_head(out + used, at, HEADERS, END_STREAM | END_HEADERS, (uint32_t)(2 * requests + 1));
    memcpy(out + used, block, at);
    return put(ssl, out, used + at);
}

bool ask(SSL *ssl, bool http2, size_t requests, const char *path)
{
    return http2 ? ask_http2(ssl, requests, path) : ask_http1(ssl, path);
}

/* Whole is a head with a Content-Length, and so many bytes after it. */
static enum verdict judge_http1(const struct answer *answer)
{
    static const char name[] = "\r\ncontent-length:";
    const char *head = (const char *)answer->bytes;
    const char *end = memmem(head, answer->got, "\r\n\r\n", 4);

    if (!end)
        return answer->got < ANSWER_ROOM ? MORE : BROKEN;
    for (const char *at = head; at < end; at++) {
        if (strncasecmp(at, name, sizeof(name) - 1) != 0)
            continue;
        size_t whole = (size_t)(end + 4 - head) + strtoul(at + sizeof(name) - 1, NULL, 10);
        if (answer->got < whole)
            return whole <= ANSWER_ROOM ? MORE : BROKEN;
        return answer->got == whole && strncmp(head, "HTTP/1.1 2", 10) == 0 ? ANSWERED : BROKEN;
    }
    return BROKEN;
}

static bool answer_frame(SSL *ssl, const uint8_t *payload, size_t length, uint8_t type)
{
    uint8_t out[FRAME_HEAD + 8];
    size_t copied = type == PING && length == 8 ? 8 : 0;
    size_t used = frame_head(out, copied, type, ACK, 0);

    memcpy(out + used, payload, copied);
    return put(ssl, out, used + copied);
}

/* A block may begin with one new size of the table (001xxxxx, and 31 goes on in the next bytes). */
static bool is_200(const uint8_t *block, size_t length)
{
    size_t at = 0;

    while (at < length && (block[at] & 0xe0) == 0x20) {
        bool longer = (block[at++] & 0x1f) == 0x1f;
        while (longer && at < length)
            longer = (block[at++] & 0x80) != 0;
    }
    return at < length && block[at] == STATUS_200;
}

static bool take_frame(SSL *ssl, const uint8_t *frame, size_t length, struct answer *answer)
{
    uint8_t type = frame[3];
    uint8_t flags = frame[4];
    const uint8_t *payload = frame + FRAME_HEAD;

    if (type == GOAWAY || type == RST_STREAM)
        return false;
    if ((type == SETTINGS || type == PING) && !(flags & ACK))
        return answer_frame(ssl, payload, length, type);
    if (type == HEADERS && !answer->ended && !is_200(payload, length))
        return false;
    if ((type == HEADERS || type == DATA) && (flags & END_STREAM))
        answer->ended = true;
    return true;
}

static enum verdict judge_http2(SSL *ssl, struct answer *answer)
{
    size_t at = 0;

    while (answer->got - at >= FRAME_HEAD) {
        const uint8_t *frame = answer->bytes + at;
        size_t length = (size_t)frame[0] << 16 | (size_t)frame[1] << 8 | frame[2];
        if (FRAME_HEAD + length > ANSWER_ROOM)
            return BROKEN;
        if (answer->got - at < FRAME_HEAD + length)
            break;
        if (!take_frame(ssl, frame, length, answer))
            return BROKEN;
        at += FRAME_HEAD + length;
    }
    answer->got -= at;
    memmove(answer->bytes, answer->bytes + at, answer->got);
    return answer->ended && answer->got == 0 ? ANSWERED : MORE;
}

enum verdict judge(SSL *ssl, bool http2, struct answer *answer)
{
    return http2 ? judge_http2(ssl, answer) : judge_http1(answer);
}
