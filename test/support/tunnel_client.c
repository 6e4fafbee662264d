#include "support/tunnel_client.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/websocket.h"

#define FRAME_HEAD 9
#define MOST_FRAME 16384
#define WINDOW 65535 /* what both windows are before any update */
#define WAIT_MS 60000

struct tunnel_client {
    struct pairing_client client;
    int64_t stream_window; /* how much may be sent */
    int64_t connection_window;
    bool ended; /* END_STREAM has come */
};

/* ---- opening ---- */

static void open_h1(struct tunnel_client *tunnel, const char *path)
{
    struct text ask = {0};

    text_say(&ask,
             "GET %s HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
             "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " WS_KEY "\r\n\r\n",
             path);
    cr_assert(peer_say(tunnel->client.peer, ask.p));
    struct reply reply = peer_reply(tunnel->client.peer, true);
    cr_assert_eq(reply.status, 101, "%s: %d", path, reply.status);
    reply_free(&reply);
    text_free(&ask);
}

static void open_h2(struct tunnel_client *tunnel, const char *path)
{
    static const uint32_t wide[] = {4, 0x7fffffff, 0};
    struct h2_peer *h2 = tunnel->client.h2;
    char fields[256];

    (void)snprintf(fields, sizeof(fields),
                   ":method: CONNECT\n:protocol: websocket\n:scheme: https\n:path: %s\n"
                   ":authority: localhost\nsec-websocket-version: 13\n",
                   path);
    h2_put_settings(&h2->out, wide);
    h2_put_window(&h2->out, 0, 0x7fff0000 - WINDOW);
    cr_assert(h2_peer_settles(h2), "%s", h2_peer_log(h2));
    h2_put_headers(&h2->out, 1, 0, fields);
    cr_assert(h2_peer_hears(h2, "HEADERS/1[:status=200;"), "%s", h2_peer_log(h2));
    tunnel->stream_window = WINDOW;
    tunnel->connection_window = WINDOW;
    for (const char *at = h2_peer_log(h2); (at = strstr(at, "WINDOW/0[")) != NULL; at += 9)
        tunnel->connection_window += (int64_t)strtoul(at + 9, NULL, 10);
}

struct tunnel_client *tunnel_open(const struct pairings_world *world, const struct pairing *pairing,
                                  const char *what)
{
    struct tunnel_client *tunnel = calloc(1, sizeof(*tunnel));
    char path[64];

    int folder = (int)(strrchr(pairing->path, '/') - pairing->path);
    (void)snprintf(path, sizeof(path), "%.*s/%s", folder, pairing->path, what);
    tunnel->client = pairing_connect(world, pairing);
    if (tunnel->client.h2 != NULL) {
        open_h2(tunnel, path);
        peer_set_wait(tunnel->client.h2->peer, WAIT_MS);
    } else {
        open_h1(tunnel, path);
        peer_set_wait(tunnel->client.peer, WAIT_MS);
    }
    return tunnel;
}

void tunnel_free(struct tunnel_client *tunnel)
{
    pairing_close(&tunnel->client);
    free(tunnel);
}

/* ---- frames: whole ones have been read until here ---- */

static uint32_t get_u32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* The next frame. Its content, if it is DATA of the tunnel, is at most MOST_FRAME bytes in P; *N says how many. */
static bool read_frame(struct tunnel_client *tunnel, uint8_t *p, size_t *n)
{
    struct peer *peer = tunnel->client.h2->peer;
    uint8_t head[FRAME_HEAD];

    if (!peer_read_exactly(peer, head, sizeof(head)))
        return false;
    size_t length = (size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2];
    uint32_t id = get_u32(head + 5);
    if (length > MOST_FRAME || (length > 0 && !peer_read_exactly(peer, p, length)))
        return false;
    *n = 0;
    switch (head[3]) {
    case H2_DATA:
        *n = length;
        tunnel->ended = (head[4] & H2_END_STREAM) != 0;
        return id == 1;
    case H2_WINDOW_UPDATE:
        if (id == 0)
            tunnel->connection_window += get_u32(p);
        else
            tunnel->stream_window += get_u32(p);
        return true;
    default:
        return head[3] == H2_SETTINGS || head[3] == H2_PING;
    }
}

static bool send_frame(struct tunnel_client *tunnel, unsigned flags, const void *p, size_t n)
{
    struct h2_peer *h2 = tunnel->client.h2;

    h2_put_frame(&h2->out, H2_DATA, flags, 1, p, n);
    bool sent = peer_write(h2->peer, h2->out.p, h2->out.n);
    text_free(&h2->out);
    tunnel->stream_window -= (int64_t)n;
    tunnel->connection_window -= (int64_t)n;
    return sent;
}

/* ---- sending ---- */

static bool send_h2(struct tunnel_client *tunnel, struct bulk_flow *flow, uint64_t size)
{
    uint8_t bytes[MOST_FRAME];

    for (uint64_t at = 0; at < size && !atomic_load(&flow->dead);) {
        int64_t room = tunnel->stream_window < tunnel->connection_window
                           ? tunnel->stream_window
                           : tunnel->connection_window;
        size_t n = size - at < MOST_FRAME ? (size_t)(size - at) : MOST_FRAME;
        if ((int64_t)n > room) {
            if (!read_frame(tunnel, bytes, &n) || n > 0)
                return false;
            continue;
        }
        bulk_fill(bytes, n, at);
        if (!send_frame(tunnel, 0, bytes, n))
            return false;
        at += n;
        atomic_fetch_add(&flow->bytes, n);
    }
    return !atomic_load(&flow->dead);
}

bool tunnel_send(struct tunnel_client *tunnel, struct bulk_flow *flow, uint64_t size)
{
    if (tunnel->client.h2 != NULL)
        return send_h2(tunnel, flow, size);
    return bulk_send(tunnel->client.peer, flow, size, 0, false);
}

bool tunnel_say(struct tunnel_client *tunnel, const char *text)
{
    if (tunnel->client.h2 != NULL)
        return send_frame(tunnel, 0, text, strlen(text));
    return peer_say(tunnel->client.peer, text);
}

bool tunnel_end(struct tunnel_client *tunnel)
{
    if (tunnel->client.h2 != NULL)
        return send_frame(tunnel, H2_END_STREAM, "", 0);
    peer_half_close(tunnel->client.peer);
    return true;
}

/* ---- receiving ---- */

/* The next bytes; 0 at the end, or when it broke: *GOOD says which. */
static size_t next_bytes(struct tunnel_client *tunnel, uint8_t *p, bool *good)
{
    enum peer_end end = PEER_OPEN;
    size_t n = 0;

    if (tunnel->client.h2 == NULL) {
        n = peer_read(tunnel->client.peer, p, MOST_FRAME, &end);
        *good = n > 0 || end == PEER_EOF;
        return n;
    }
    *good = true;
    while (*good && n == 0 && !tunnel->ended)
        *good = read_frame(tunnel, p, &n);
    return *good ? n : 0;
}

bool tunnel_receive(struct tunnel_client *tunnel, struct bulk_flow *flow)
{
    uint8_t bytes[MOST_FRAME];
    uint64_t at = 0;
    bool good;

    for (size_t n; (n = next_bytes(tunnel, bytes, &good)) > 0;) {
        if (!bulk_check(bytes, n, at))
            atomic_store(&flow->wrong, true);
        at += n;
        atomic_fetch_add(&flow->bytes, n);
    }
    return good;
}

bool tunnel_hear(struct tunnel_client *tunnel, char *out, size_t size)
{
    uint8_t bytes[MOST_FRAME];
    size_t heard = 0;
    bool good;

    for (size_t n; (n = next_bytes(tunnel, bytes, &good)) > 0;) {
        if (heard + n >= size)
            return false;
        memcpy(out + heard, bytes, n);
        heard += n;
    }
    out[heard] = '\0';
    return good;
}
