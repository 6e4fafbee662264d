/* Life and endings. */
#include "codec/h1_client.h"

#include "base/assert.h"
#include "base/compiler.h"
#include "codec/h1_client_internal.h"

static struct wr_h1_client *of(struct wr_client_codec *codec)
{
    return WR_CONTAINER_OF(codec, struct wr_h1_client, base);
}

/* ---- endings ---- */

static void forget_exchange(struct wr_h1_client *client)
{
    client->exchange = NULL;
    client->sending = WR_H1_SENDING_NOTHING;
    client->receiving = false;
    if (client->finishing)
        wr_loop_deadline_remove(client->loop, &client->rest_deadline);
    client->finishing = false;
}

static void tell_closed(struct wr_h1_client *client, bool reusable)
{
    client->dead = client->dead || !reusable;
    if (!client->released)
        client->events->stream_closed(client->owner, reusable);
}

/* Whoever hears of the failure may take the request back for another try; if not, nobody wants it any more. */
static void abort_exchange(struct wr_h1_client *client, enum wr_err why)
{
    struct wr_exchange *exchange = client->exchange;
    bool receiving = client->receiving;
    forget_exchange(client);
    client->dead = true;
    exchange->request_unsent = wr_transport_bytes_sent(client->transport) == client->sent_before;
    if (receiving)
        wr_message_abort(&exchange->response, why);
    if (wr_message_has_sink(&exchange->request, client))
        wr_message_stop(&exchange->request, why);
}

void wr_h1_client_fail(struct wr_h1_client *client, enum wr_err why)
{
    abort_exchange(client, why);
    tell_closed(client, false);
}

void wr_h1_client_drop(struct wr_h1_client *client)
{
    forget_exchange(client);
    tell_closed(client, false);
}

/* All that was said is with the kernel. What was said in this turn is sent now. */
static bool is_sent(struct wr_h1_client *client)
{
    if (wr_transport_output(client->transport) > 0)
        wr_transport_flush(client->transport);
    return wr_transport_output(client->transport) == 0;
}

/* The exchange is over. KEPT: nothing that came from the upstream speaks against another one. RFC 9112 section 9.3: the request
 * must have been sent whole, or the upstream would take the next for its rest. */
static void settle(struct wr_h1_client *client, bool kept)
{
    struct wr_exchange *exchange = client->exchange;
    bool reusable = kept && client->sending == WR_H1_SENDING_WHOLE && is_sent(client);
    bool open = client->sending == WR_H1_SENDING_OPEN || client->sending == WR_H1_SENDING_ASKING;
    forget_exchange(client);
    if (open)
        wr_message_stop(&exchange->request, WR_ERR_CANCELLED);
    if (reusable)
        wr_h1_reader_next(&client->reader);
    wr_transport_resume(client->transport, WR_PAUSE_FULL);
    tell_closed(client, reusable);
}

/* Known, and no more than the transport takes at once: nobody will wait for the upstream to read it. Not when the client may be
 * waiting for 100, since it may then send nothing at all. */
bool wr_h1_client_rest_is_short(const struct wr_h1_client *client)
{
    const struct wr_message *request = &client->exchange->request;
    bool held_back = request->head->expect_continue && request->put_bytes == 0;
    return !held_back && client->writer.framing == WR_H1_BY_LENGTH &&
           client->writer.left <= wr_transport_output_room(client->transport);
}

static void rest_expired(struct wr_deadline *deadline, uint64_t now)
{
    (void)now;
    wr_h1_client_fail(WR_CONTAINER_OF(deadline, struct wr_h1_client, rest_deadline),
                      WR_ERR_CANCELLED);
}

void wr_h1_client_response_done(struct wr_h1_client *client, bool surplus)
{
    bool kept = !client->dead && !client->asked && !surplus && client->reader.keep_alive;
    if (!kept || client->sending != WR_H1_SENDING_OPEN || !wr_h1_client_rest_is_short(client)) {
        settle(client, kept);
        return;
    }
    client->finishing = true;
    wr_transport_resume(client->transport, WR_PAUSE_FULL);
    wr_loop_deadline_set(client->loop, &client->rest_deadline,
                         wr_time_add(wr_loop_now(client->loop), WR_H1_REST_TIME));
}

void wr_h1_client_rest_done(struct wr_h1_client *client)
{
    settle(client, true);
}

_Static_assert(sizeof(struct wr_h1_client) <= WR_CODEC_ROOM, "it is lent no more");

/* ---- what the owner asks ---- */

static void open_exchange(struct wr_client_codec *codec, struct wr_exchange *exchange)
{
    struct wr_h1_client *client = of(codec);
    WR_ASSERT(client->exchange == NULL && !client->dead);
    client->exchange = exchange;
    client->sending = WR_H1_SENDING_OPEN;
    client->receiving = true;
    client->interim_heads = 0;
    client->sent_before = wr_transport_bytes_sent(client->transport);
    exchange->request_unsent = false;
    wr_message_set_source(&exchange->response, &wr_h1_client_source_ops, client);
    if (client->exchange == exchange)
        wr_message_attach(&exchange->request, &wr_h1_client_sink_ops, client);
}

static unsigned capacity(const struct wr_client_codec *codec)
{
    const struct wr_h1_client *client = WR_CONTAINER_OF(codec, struct wr_h1_client, base);
    return client->exchange == NULL && !client->dead ? 1 : 0;
}

static enum wr_hibernation hibernate(struct wr_client_codec *codec)
{
    const struct wr_h1_client *client = of(codec);
    bool idle =
        !client->dead && client->exchange == NULL && wr_h1_reader_is_fresh(&client->reader) &&
        wr_transport_output(client->transport) == 0 && wr_transport_is_quiet(client->transport);
    return idle ? WR_HIBERNATION_DROP : WR_HIBERNATION_BUSY;
}

static void release(struct wr_garbage *garbage)
{
    struct wr_h1_client *client = WR_CONTAINER_OF(garbage, struct wr_h1_client, garbage);
    wr_h1_reader_clear(&client->reader);
    wr_h1_writer_clear(&client->writer);
    wr_transport_host_return(client->lender, client);
}

static void close_codec(struct wr_client_codec *codec, enum wr_err why)
{
    struct wr_h1_client *client = of(codec);
    if (client->released)
        return;
    client->released = true;
    client->dead = true;
    if (client->exchange != NULL)
        abort_exchange(client, why);
    wr_loop_release(client->loop, &client->garbage, release);
}

static const struct wr_client_codec_ops ops = {
    .name = "HTTP/1.1",
    .open = open_exchange,
    .capacity = capacity,
    .hibernate = hibernate,
    .close = close_codec,
};

struct wr_client_codec *wr_h1_client_new(struct wr_transport *transport,
                                         const struct wr_client_codec_options *options,
                                         struct wr_loop *loop,
                                         const struct wr_client_codec_events *events, void *owner)
{
    struct wr_transport_host *lender = wr_transport_host_of(transport);
    struct wr_h1_client *client = wr_transport_host_lend(lender);
    struct wr_h1_limits limits = {
        .head = options->head_limit,
        .target = options->head_limit,
        .fields = options->fields_limit,
        .chunk_overhead = options->chunk_overhead,
        .underscores = true, /* only requests are matched by name against what weir adds */
    };
    client->base.ops = &ops;
    client->transport = transport;
    client->lender = lender;
    client->loop = loop;
    client->events = events;
    client->owner = owner;
    wr_deadline_init(&client->rest_deadline, rest_expired);
    wr_h1_reader_init(&client->reader, false, &limits);
    wr_h1_writer_init(&client->writer, transport, NULL);
    wr_transport_set_events(transport, &wr_h1_client_transport_events, client);
    return &client->base;
}
