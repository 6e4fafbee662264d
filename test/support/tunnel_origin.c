#include "support/tunnel_origin.h"

#include <string.h>

#include "support/edge.h"
#include "support/websocket.h"

#define WAIT_MS 60000

static void read_to_end(struct peer *client, struct tunnel_origin *origin, enum peer_end *end)
{
    char bytes[16384];

    for (size_t n; (n = peer_read(client, bytes, sizeof(bytes), end)) > 0;)
        atomic_fetch_add(&origin->in.bytes, n);
}

static void echo(struct peer *client, enum peer_end *end)
{
    char bytes[16384];

    for (size_t n; (n = peer_read(client, bytes, sizeof(bytes), end)) > 0;)
        (void)peer_write(client, bytes, n);
    if (*end == PEER_EOF)
        (void)peer_say(client, "bye");
}

static bool is_for(const char *head, const char *what)
{
    const char *end = strstr(head, " HTTP/1.1\r\n");
    size_t n = strlen(what);
    return end && end - head > (long)n && memcmp(end - n, what, n) == 0 && end[-(long)n - 1] == '/';
}

static bool hears_a_byte(struct peer *client)
{
    char byte;
    return peer_read_exactly(client, &byte, 1);
}

static void serve_tunnel(struct peer *client, struct tunnel_origin *origin, const char *head,
                         enum peer_end *end)
{
    if (is_for(head, "down")) {
        if (hears_a_byte(client) && bulk_send(client, &origin->out, origin->size, 0, false))
            peer_half_close(client);
        read_to_end(client, origin, end);
    } else if (is_for(head, "up")) {
        if (bulk_receive(client, &origin->in, origin->size, false) && peer_say(client, "ok"))
            peer_half_close(client);
        read_to_end(client, origin, end);
    } else if (is_for(head, "ends") || (is_for(head, "later") && hears_a_byte(client))) {
        (void)peer_say(client, "hello");
        peer_half_close(client);
        read_to_end(client, origin, end);
    } else if (is_for(head, "breaks")) {
        (void)peer_say(client, "part");
        peer_reset(client);
        *end = PEER_BROKEN;
    } else {
        echo(client, end);
    }
}

static bool accept_request(struct peer *client, const char *head)
{
    if (strncmp(head, "CONNECT ", 8) == 0)
        return peer_say(client, "HTTP/1.1 200 OK\r\n\r\n");
    if (is_for(head, "declines"))
        (void)peer_say(client, "HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno");
    else if (is_for(head, "pretends"))
        (void)peer_say(client, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno");
    else
        return ws_accept_request(client, head);
    return false;
}

void tunnel_origin_serve(struct peer *client, void *arg)
{
    struct tunnel_origin *origin = arg;
    char head[16384];
    enum peer_end end = PEER_OPEN;

    peer_set_wait(client, WAIT_MS);
    if (!peer_read_head(client, head, sizeof(head)))
        return;
    memcpy(origin->head, head, sizeof(head));
    atomic_fetch_add(&origin->heads, 1);
    if (accept_request(client, head))
        serve_tunnel(client, origin, head, &end);
    else
        read_to_end(client, origin, &end);
    atomic_fetch_add(end == PEER_EOF ? &origin->eof : &origin->cut, 1);
}

bool tunnel_origin_counts(atomic_uint *counter, unsigned n)
{
    for (int ms = 0; atomic_load(counter) < n && ms < edge_ms(10000); ms += 5)
        edge_nap(5);
    return atomic_load(counter) >= n;
}
