/* Client connections that have been idle for a while hold what only work needs no longer: codec, and what it has to know of its client.
 * The next byte brings all of it back. A codec that has to stay (HTTP/2) gives back what it can by itself. */
#include "downstream/connection.h"

#include "base/assert.h"

/* One that can't hibernate now is asked again after hibernate_after, or this if that is less. */
#define ASK_AGAIN WR_SEC

static size_t on_readable(void *owner, const uint8_t *p, size_t n)
{
    struct wr_connection *connection = owner;
    (void)p;
    (void)n;
    wr_connection_wake(connection);
    wr_connection_make_codec(connection);
    return 0; /* the codec is offered the same */
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

static const struct wr_transport_events dormant_events = {
    .readable = on_readable,
    .read_end = on_read_end,
    .closed = on_closed,
};

/* Without a codec there is nothing to give back, and nothing that could have come unseen. */
static enum wr_hibernation ask(struct wr_server_codec *codec)
{
    if (codec == NULL)
        return WR_HIBERNATION_DONE;
    return codec->ops->hibernate != NULL ? codec->ops->hibernate(codec) : WR_HIBERNATION_BUSY;
}

static void ask_later(struct wr_connection *connection)
{
    const struct wr_downstream *downstream = connection->downstream;
    uint64_t after = downstream->options->timeouts.hibernate_after;
    connection->serving.hibernates =
        wr_time_add(wr_loop_now(downstream->env.loop), after > ASK_AGAIN ? after : ASK_AGAIN);
    wr_connection_arm(connection);
}

/* No exchange has been open for a while, so nobody else holds what is said of the client. */
static void drop_codec(struct wr_connection *connection)
{
    struct wr_serving *serving = &connection->serving;
    serving->codec->ops->close(serving->codec, WR_OK);
    serving->codec = NULL;
    wr_slab_give(&connection->downstream->clients, serving->client);
    serving->client = NULL;
    wr_transport_set_events(connection->transport, &dormant_events, connection);
}

void wr_connection_hibernate(struct wr_connection *connection)
{
    WR_ASSERT(connection->state == WR_CONNECTION_IDLE);
    switch (ask(connection->serving.codec)) {
    case WR_HIBERNATION_BUSY:
        ask_later(connection);
        return;
    case WR_HIBERNATION_DROP:
        drop_codec(connection);
        break;
    case WR_HIBERNATION_DONE:
        break;
    }
    wr_connection_set_state(connection, WR_CONNECTION_HIBERNATED);
}

void wr_connection_wake(struct wr_connection *connection)
{
    if (connection->state == WR_CONNECTION_HIBERNATED)
        wr_connection_set_state(connection, WR_CONNECTION_IDLE);
}
