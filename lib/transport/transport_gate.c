/* Gate 1: from the first bytes of a TLS client to the owner's verdict. For a connection that has not passed it, nothing of the
 * TLS library is made. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "transport/transport_internal.h"

/* ---- what is kept ---- */

/* Takes all that is fed. */
static void keep(struct wr_transport *transport)
{
    struct wr_transport_host *host = transport->host;
    struct wr_kept_hello *hello = transport->hello;
    size_t length = hello != NULL ? hello->length : 0;
    size_t room = hello != NULL ? hello->room : 0;
    size_t needed = length + host->feed_length;
    if (hello == NULL || room < needed) {
        room = needed > 2 * room ? needed : 2 * room; /* it may come in many small pieces */
        hello = wr_resize(hello, sizeof *hello + room);
        hello->room = room;
    }
    memcpy(hello->bytes + length, host->feed, host->feed_length);
    hello->length = needed;
    host->feed_length = 0;
    transport->hello = hello;
}

void wr_transport_gate_forget(struct wr_transport *transport)
{
    free(transport->hello);
    transport->hello = NULL;
}

/* ---- reading ---- */

/* Nothing is spent on who has gone, even if its bytes are unread. */
static bool begin(struct wr_transport *transport)
{
    if (transport->ready & WR_IO_HANGUP) {
        wr_transport_fail(transport, WR_ERR_CLIENT_CLOSED, "");
        return false;
    }
    if (transport->events->first_byte != NULL)
        transport->events->first_byte(transport->owner);
    if (!wr_transport_is_live(transport) || transport->phase != WR_TRANSPORT_SILENT)
        return false;
    transport->phase = WR_TRANSPORT_HANDSHAKE;
    return true;
}

static void pass(struct wr_transport *transport)
{
    struct wr_kept_hello *hello = transport->hello;
    transport->gate = WR_GATE_PASSED;
    if (hello != NULL)
        wr_bytes_append(&wr_transport_pipeline(transport)->cipher, hello->bytes, hello->length);
    wr_transport_gate_forget(transport);
}

static bool ask(struct wr_transport *transport, struct wr_client_hello *facts)
{
    enum wr_gate_verdict verdict = WR_GATE_ADMIT;
    if (!wr_tls_server_resumes(transport->tls_server))
        facts->claims_resumption = false;
    transport->gate = WR_GATE_WAITING;
    if (transport->events->client_hello != NULL)
        verdict = transport->events->client_hello(transport->owner, facts);
    if (!wr_transport_is_live(transport) || transport->discarding)
        return false;
    if (verdict == WR_GATE_ADMIT && transport->gate == WR_GATE_WAITING)
        pass(transport);
    return transport->gate == WR_GATE_PASSED;
}

bool wr_transport_gate_read(struct wr_transport *transport)
{
    struct wr_transport_host *host = transport->host;
    struct wr_hello_progress progress = {0};
    struct wr_client_hello facts;
    const uint8_t *p = host->feed;
    size_t n = host->feed_length;
    if (transport->hello != NULL) {
        keep(transport);
        progress = transport->hello->progress;
        p = transport->hello->bytes;
        n = transport->hello->length;
    }
    enum wr_hello_result result = wr_hello_read(&progress, p, n, host->plain, &facts);
    if (result == WR_HELLO_NOT_TLS) {
        wr_transport_fail(transport, WR_ERR_TLS_NOT_TLS, "");
        return false;
    }
    if (transport->phase == WR_TRANSPORT_SILENT && !begin(transport))
        return false;
    if (result != WR_HELLO_NEED_MORE && ask(transport, &facts))
        return true;
    if (wr_transport_is_live(transport) && !transport->discarding) {
        keep(transport);
        transport->hello->progress = progress;
    }
    return false;
}

/* ---- verdicts ---- */

void wr_transport_look(struct wr_transport *transport)
{
    transport->ready |= WR_IO_READ;
    wr_transport_read(transport);
}

void wr_transport_admit(struct wr_transport *transport)
{
    if (!wr_transport_is_live(transport) || transport->gate != WR_GATE_WAITING)
        return;
    pass(transport);
    wr_loop_defer(transport->host->loop, &transport->input_task);
}

void wr_transport_refuse(struct wr_transport *transport, enum wr_refuse_with how)
{
    if (how == WR_REFUSE_RESET) {
        wr_transport_reset(transport);
        return;
    }
    bool sayable = wr_transport_is_live(transport) && transport->tls_server != NULL &&
                   transport->phase != WR_TRANSPORT_OPEN;
    if (how == WR_REFUSE_CLOSE || !sayable) {
        wr_transport_close(transport);
        return;
    }
    wr_transport_tls_alert(transport);
    transport->discarding = true;
    transport->phase = WR_TRANSPORT_OPEN;
    transport->output = WR_OUTPUT_ENDING;
    transport->ready |= WR_IO_READ; /* drained first: input goes before output in a turn's tasks */
    wr_task_cancel(&transport->input_task);
    wr_loop_defer(transport->host->loop, &transport->input_task);
    wr_loop_defer(transport->host->loop, &transport->output_task);
}
