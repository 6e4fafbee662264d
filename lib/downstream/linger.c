/* The last words: what we have said must arrive before the socket goes (RFC 9112 section 9.6), so input is thrown away until
 * the peer ends too or time is up. For served connections and for those refused with an alert. */
#include "downstream/connection.h"

#include <sys/socket.h>

static bool is_refused(const struct wr_connection *connection)
{
    return connection->state == WR_CONNECTION_REFUSING ||
           connection->state == WR_CONNECTION_REFUSED;
}

static void finish(struct wr_connection *connection, enum wr_err why)
{
    if (is_refused(connection))
        wr_connection_destroy(connection);
    else
        wr_connection_end(connection, why);
}

static size_t on_readable(void *owner, const uint8_t *p, size_t n)
{
    (void)owner;
    (void)p;
    return n;
}

/* True when the peer's FIN has come, or its close_notify, and nothing is unread. Unread bytes would turn our close into a
 * reset, which takes from the peer what it has not read yet. */
static bool peer_has_ended(const struct wr_connection *connection)
{
    char byte;
    ssize_t n = recv(wr_transport_fd(connection->transport), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return n == 0 || (n < 0 && wr_transport_read_ended(connection->transport));
}

static void on_flushed(void *owner)
{
    struct wr_connection *connection = owner;
    /* Its end may have come before ours was asked for, and was told to the codec then. */
    if (peer_has_ended(connection)) {
        finish(connection, WR_OK);
        return;
    }
    wr_connection_set_state(connection,
                            is_refused(connection) ? WR_CONNECTION_REFUSED : WR_CONNECTION_CLOSING);
}

static void on_read_end(void *owner, bool clean)
{
    struct wr_connection *connection = owner;
    (void)clean;
    if (connection->state == WR_CONNECTION_CLOSING || connection->state == WR_CONNECTION_REFUSED)
        finish(connection, WR_OK);
    /* Else it may still read: on_flushed() comes. */
}

static void on_closed(void *owner, enum wr_err why, const char *detail)
{
    struct wr_connection *connection = owner;
    (void)detail;
    /* After our FIN nothing is left to be lost. */
    finish(connection, connection->state == WR_CONNECTION_FLUSHING ? why : WR_OK);
}

const struct wr_transport_events wr_linger_events = {
    .readable = on_readable,
    .read_end = on_read_end,
    .flushed = on_flushed,
    .closed = on_closed,
};

void wr_linger_begin(struct wr_connection *connection)
{
    wr_transport_set_events(connection->transport, &wr_linger_events, connection);
    wr_transport_discard_input(connection->transport);
    connection->serving.sent_seen = wr_transport_bytes_sent(connection->transport);
    wr_connection_set_state(connection, WR_CONNECTION_FLUSHING);
}
