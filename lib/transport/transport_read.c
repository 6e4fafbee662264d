/* Bytes from the socket to the owner. */
#include <errno.h>
#include <sys/socket.h>

#include "base/assert.h"
#include "observe/metrics.h"
#include "transport/transport_internal.h"

bool wr_transport_may_read(const struct wr_transport *transport)
{
    if (!wr_transport_is_live(transport))
        return false;
    if (transport->discarding)
        return true;
    switch (transport->phase) {
    case WR_TRANSPORT_SILENT:
        return true;
    case WR_TRANSPORT_HANDSHAKE:
        return !wr_transport_stands_still(transport);
    case WR_TRANSPORT_OPEN:
        return transport->paused == 0;
    case WR_TRANSPORT_CONNECTING:
    case WR_TRANSPORT_ENDED:
    case WR_TRANSPORT_FAILED:
        break;
    }
    return false;
}

bool wr_transport_has_kept(const struct wr_transport *transport)
{
    const struct wr_pipeline *pipeline = transport->pipeline;
    if (transport->discarding)
        return false;
    if (pipeline != NULL && pipeline->input.length + pipeline->cipher.length > 0)
        return true;
    return transport->ssl != NULL && SSL_pending(transport->ssl) > 0;
}

void wr_transport_read_later(struct wr_transport *transport)
{
    bool something = (transport->ready & WR_IO_READ) || wr_transport_has_kept(transport) ||
                     (transport->input != WR_INPUT_OPEN && transport->input != WR_INPUT_TOLD);
    if (something && wr_transport_may_read(transport))
        wr_loop_defer_next(transport->host->loop, &transport->input_task);
}

/* How many of N bytes the owner took, and who it has handed over to in the call. */
static size_t offer(struct wr_transport *transport, const uint8_t *p, size_t n)
{
    const struct wr_transport_events *events;
    size_t taken = 0;
    transport->put_back = false;
    do {
        events = transport->events;
        taken += events->readable != NULL ? events->readable(transport->owner, p + taken, n - taken)
                                          : n - taken;
        WR_ASSERT(taken <= n);
    } while (taken < n && transport->events != events && !transport->put_back &&
             !transport->discarding && wr_transport_may_read(transport));
    return taken;
}

void wr_transport_put_back(struct wr_transport *transport, const void *p, size_t n)
{
    struct wr_bytes back;
    wr_bytes_init(&back, &transport->host->chunks);
    wr_bytes_append(&back, p, n);
    wr_bytes_prepend(&wr_transport_pipeline(transport)->input, &back);
    transport->put_back = true;
}

void wr_transport_deliver(struct wr_transport *transport, const uint8_t *p, size_t n)
{
    size_t taken = offer(transport, p, n);
    if (taken < n && !transport->closed && !transport->discarding)
        wr_bytes_append(&wr_transport_pipeline(transport)->input, p + taken, n - taken);
}

/* ---- kept input ---- */

static void discard_kept(struct wr_transport *transport)
{
    if (transport->pipeline != NULL) {
        wr_bytes_clear(&transport->pipeline->input);
        wr_bytes_clear(&transport->pipeline->cipher);
    }
    wr_transport_gate_forget(transport);
}

static void deliver_kept(struct wr_transport *transport)
{
    struct wr_bytes *input = transport->pipeline != NULL ? &transport->pipeline->input : NULL;
    while (input != NULL && input->length > 0 && !transport->discarding &&
           wr_transport_may_read(transport)) {
        struct wr_str piece = wr_bytes_front(input);
        size_t taken = offer(transport, (const uint8_t *)piece.p, piece.n);
        if (transport->closed)
            return;
        wr_bytes_consume(input, taken);
        if (taken < piece.n)
            return;
    }
}

static void take_kept(struct wr_transport *transport)
{
    deliver_kept(transport);
    bool held = transport->pipeline != NULL && transport->pipeline->input.length > 0;
    bool more = wr_transport_goes_on(transport) || wr_transport_has_kept(transport);
    if (!held && more && !transport->discarding && wr_transport_is_tls(transport) &&
        wr_transport_may_read(transport))
        wr_transport_tls_advance(transport);
}

/* ---- the socket ---- */

/* N bytes in the scratch. */
static void process(struct wr_transport *transport, const uint8_t *p, size_t n)
{
    if (transport->discarding)
        return;
    if (!wr_transport_is_tls(transport)) {
        wr_transport_deliver(transport, p, n);
        return;
    }
    struct wr_transport_host *host = transport->host;
    host->feed = p;
    host->feed_length = n;
    bool reads_hello = transport->accepted && transport->gate == WR_GATE_READING;
    if (!reads_hello || wr_transport_gate_read(transport))
        wr_transport_tls_advance(transport);
    if (host->feed_length > 0 && wr_transport_is_live(transport) && !transport->discarding)
        wr_bytes_append(&wr_transport_pipeline(transport)->cipher, host->feed, host->feed_length);
    host->feed_length = 0;
}

static void end_of_input(struct wr_transport *transport)
{
    transport->ready &= ~(WR_IO_READ | WR_IO_HANGUP);
    bool open = transport->phase == WR_TRANSPORT_OPEN;
    if (!open && transport->accepted)
        wr_transport_fail(transport, WR_ERR_CLIENT_CLOSED, "");
    else if (!open)
        wr_transport_fail(transport, WR_ERR_UPSTREAM_TLS_FAILED, "closed during the handshake");
    else if (transport->input == WR_INPUT_OPEN)
        transport->input = wr_transport_is_tls(transport) ? WR_INPUT_CUT : WR_INPUT_CLEAN;
}

static void receive_failed(struct wr_transport *transport)
{
    transport->ready &= ~(WR_IO_READ | WR_IO_HANGUP);
    if (transport->accepted)
        wr_transport_fail(transport, WR_ERR_CLIENT_RESET, "");
    else if (transport->phase == WR_TRANSPORT_HANDSHAKE)
        wr_transport_fail(transport, WR_ERR_UPSTREAM_TLS_FAILED, "reset during the handshake");
    else
        wr_transport_fail(transport, WR_ERR_UPSTREAM_RESET, "");
}

/* One system call and what it brings. A short read means that the socket has no more, unless the end has been announced.
 * Returns whether to go on at once. */
static bool receive(struct wr_transport *transport)
{
    struct wr_transport_host *host = transport->host;
    ssize_t n;
    do
        n = recv(transport->io.fd, host->received, WR_RECEIVED_SIZE, 0);
    while (n < 0 && errno == EINTR);
    if (n < 0) {
        if (errno == EAGAIN || errno == EWOULDBLOCK)
            transport->ready &= ~WR_IO_READ;
        else
            receive_failed(transport);
        return false;
    }
    if (n == 0) {
        end_of_input(transport);
        return false;
    }
    transport->received += (uint64_t)n;
    if (transport->counters.received != NULL)
        wr_metric_add(transport->counters.received, (uint64_t)n);
    bool full = (size_t)n == WR_RECEIVED_SIZE;
    if (!full && (transport->ready & WR_IO_HANGUP) == 0)
        transport->ready &= ~WR_IO_READ;
    process(transport, host->received, (size_t)n);
    return !full;
}

/* ---- the end ---- */

static void tell_end(struct wr_transport *transport)
{
    bool clean = transport->input == WR_INPUT_CLEAN;
    if (transport->input == WR_INPUT_BROKEN) {
        wr_transport_fail(transport, transport->fail_err, transport->fail_detail);
        return;
    }
    transport->input = WR_INPUT_TOLD;
    transport->discarding = true; /* what comes after the end says nothing */
    if (transport->events->read_end != NULL)
        transport->events->read_end(transport->owner, clean);
    if (transport->output == WR_OUTPUT_BROKEN)
        wr_transport_fail(transport, transport->fail_err, transport->fail_detail);
}

static bool end_is_due(const struct wr_transport *transport)
{
    return transport->input != WR_INPUT_OPEN && transport->input != WR_INPUT_TOLD &&
           wr_transport_may_read(transport) && !wr_transport_has_kept(transport);
}

void wr_transport_read(struct wr_transport *transport)
{
    bool go_on = wr_transport_may_read(transport);
    if (go_on && (wr_transport_has_kept(transport) || wr_transport_goes_on(transport)))
        take_kept(transport);
    while (go_on && (transport->ready & WR_IO_READ) && wr_transport_may_read(transport) &&
           !wr_transport_has_kept(transport))
        go_on = receive(transport);
    if (transport->closed)
        return;
    if (end_is_due(transport))
        tell_end(transport);
    if (transport->closed)
        return;
    if (transport->discarding)
        discard_kept(transport);
    wr_transport_settle(transport);
    wr_transport_read_later(transport);
}
