#include "support/websocket.h"

#include <openssl/base64.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

void ws_accept(const char *key, size_t n, char out[29])
{
    char text[256];
    uint8_t digest[SHA_DIGEST_LENGTH];
    int length =
        snprintf(text, sizeof(text), "%.*s258EAFA5-E914-47DA-95CA-C5AB0DC85B11", (int)n, key);
    (void)SHA1((const uint8_t *)text, (size_t)length, digest);
    (void)EVP_EncodeBlock((uint8_t *)out, digest, sizeof(digest));
}

bool ws_open(struct peer *peer)
{
    char expected[29];
    if (!peer_say(peer, WS_ASK("/chat")))
        return false;
    struct reply reply = peer_reply(peer, true);
    ws_accept(WS_KEY, strlen(WS_KEY), expected);
    bool open = reply.status == 101 && strcasecmp(reply_field(&reply, "upgrade"), "websocket") == 0;
    open = open && strcmp(reply_field(&reply, "sec-websocket-accept"), expected) == 0;
    reply_free(&reply);
    return open;
}

static const uint8_t mask[4] = {0x12, 0x34, 0x56, 0x78};

static size_t put_length(uint8_t *at, size_t n, uint8_t masked)
{
    if (n < 126) {
        at[0] = (uint8_t)(masked | n);
        return 1;
    }
    size_t bytes = n < 65536 ? 2 : 8;
    at[0] = (uint8_t)(masked | (bytes == 2 ? 126 : 127));
    for (size_t i = 0; i < bytes; i++)
        at[1 + i] = (uint8_t)((uint64_t)n >> (8 * (bytes - 1 - i)));
    return 1 + bytes;
}

bool ws_send(struct peer *peer, enum ws_opcode opcode, const void *p, size_t n, bool masked)
{
    uint8_t *frame = malloc(n + 14);
    frame[0] = (uint8_t)(0x80 | (unsigned)opcode);
    size_t at = 1 + put_length(frame + 1, n, masked ? 0x80 : 0);
    if (masked) {
        memcpy(frame + at, mask, 4);
        at += 4;
    }
    for (size_t i = 0; i < n; i++)
        frame[at + i] = ((const uint8_t *)p)[i] ^ (masked ? mask[i % 4] : 0);
    bool sent = peer_write(peer, frame, at + n);
    free(frame);
    return sent;
}

static bool get_length(struct peer *peer, uint8_t first, uint64_t *length)
{
    uint8_t more[8];
    size_t bytes = first == 126 ? 2 : first == 127 ? 8 : 0;
    *length = first;
    if (bytes == 0)
        return true;
    if (!peer_read_exactly(peer, more, bytes))
        return false;
    *length = 0;
    for (size_t i = 0; i < bytes; i++)
        *length = *length << 8 | more[i];
    return true;
}

enum ws_opcode ws_receive(struct peer *peer, void *p, size_t size, size_t *n)
{
    uint8_t head[2];
    uint8_t key[4] = {0};
    uint64_t length;
    if (!peer_read_exactly(peer, head, 2) || !get_length(peer, head[1] & 0x7f, &length) ||
        length > size)
        return WS_NONE;
    if ((head[1] & 0x80) != 0 && !peer_read_exactly(peer, key, 4))
        return WS_NONE;
    if (length > 0 && !peer_read_exactly(peer, p, length))
        return WS_NONE;
    for (size_t i = 0; i < length; i++)
        ((uint8_t *)p)[i] ^= key[i % 4];
    *n = length;
    return (enum ws_opcode)(head[0] & 0x0f);
}

/* Value of the field NAME in HEAD, and its length. */
static const char *field_of(const char *head, const char *name, size_t *n)
{
    for (const char *line = head; (line = strstr(line, "\r\n")) != NULL;) {
        line += 2;
        if (strncasecmp(line, name, strlen(name)) == 0 && line[strlen(name)] == ':') {
            const char *value = line + strlen(name) + 1;
            value += strspn(value, " ");
            *n = strcspn(value, "\r");
            return value;
        }
    }
    return NULL;
}

bool ws_accept_request(struct peer *peer, const char *head)
{
    char accept[29];
    char answer[256];
    size_t n;
    const char *key = field_of(head, "sec-websocket-key", &n);
    ws_accept(key != NULL ? key : "", key != NULL ? n : 0, accept);
    (void)snprintf(answer, sizeof(answer),
                   "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                   "Connection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n",
                   accept);
    return peer_say(peer, answer);
}

void ws_echo(struct peer *client, void *arg)
{
    char head[16384];
    size_t n;
    (void)arg;
    if (!peer_read_head(client, head, sizeof(head)))
        return;
    char *message = malloc(WS_MOST);
    enum ws_opcode opcode = WS_NONE;
    if (ws_accept_request(client, head))
        opcode = ws_receive(client, message, WS_MOST, &n);
    while (opcode != WS_NONE && ws_send(client, opcode, message, n, false) && opcode != WS_CLOSE)
        opcode = ws_receive(client, message, WS_MOST, &n);
    free(message);
}
