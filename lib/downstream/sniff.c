/* Plain listeners have no ALPN: a client that knows it may speak HTTP/2 begins with the preface (RFC 9113 sections 3.3, 3.4), which
 * is no request of HTTP/1.1. Until the first byte that tells there is no codec. Bytes that may still become the preface are taken
 * and not kept: what they are is known. */
#include "downstream/connection.h"

#include <string.h>

static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
#define PREFACE (sizeof(preface) - 1)

static size_t on_readable(void *owner, const uint8_t *p, size_t n)
{
    struct wr_connection *connection = owner;
    size_t had = connection->preface;
    wr_connection_wake(connection);
    size_t rest = PREFACE - had;
    size_t seen = n < rest ? n : rest;
    bool same = memcmp(p, preface + had, seen) == 0;
    if (same && seen < rest) {
        if (had == 0)
            wr_connection_set_state(connection, WR_CONNECTION_HEAD);
        connection->preface = (uint8_t)(had + seen);
        return n;
    }
    if (had > 0)
        wr_transport_put_back(connection->transport, preface, had);
    wr_connection_speak(connection, same ? WR_STR("h2") : WR_STR("http/1.1"));
    return 0;
}

static void on_read_end(void *owner, bool clean)
{
    (void)clean;
    wr_sniff_end(owner);
}

static void on_closed(void *owner, enum wr_err why, const char *detail)
{
    (void)detail;
    wr_connection_end(owner, why);
}

static const struct wr_transport_events sniff_events = {
    .readable = on_readable,
    .read_end = on_read_end,
    .closed = on_closed,
};

void wr_sniff_begin(struct wr_connection *connection)
{
    wr_transport_set_events(connection->transport, &sniff_events, connection);
    wr_connection_set_state(connection, WR_CONNECTION_IDLE);
}

void wr_sniff_end(struct wr_connection *connection)
{
    wr_transport_end(connection->transport);
    wr_linger_begin(connection);
}
