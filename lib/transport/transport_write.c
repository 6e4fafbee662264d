/* Bytes from the owner to the socket. */
#include <errno.h>
#include <sys/socket.h>

#include "base/assert.h"
#include "observe/metrics.h"
#include "transport/transport_internal.h"

#define PIECES_A_CALL 16
/* Transports that gather at a time. When thousands become ready in one turn, the first do not wait for the last, and chunks
 * in use stay in the processor's cache. */
#define GATHERING_MOST 64

/* ---- gathering ---- */

size_t wr_transport_output(const struct wr_transport *transport)
{
    const struct wr_pipeline *pipeline = transport->pipeline;
    return pipeline != NULL ? pipeline->out.length + pipeline->sealed.length : 0;
}

size_t wr_transport_output_room(const struct wr_transport *transport)
{
    size_t held = wr_transport_output(transport);
    size_t high = transport->host->output_high;
    return held < high ? high - held : 0;
}

static bool takes_output(const struct wr_transport *transport)
{
    return wr_transport_is_live(transport) && transport->output == WR_OUTPUT_OPEN;
}

void wr_transport_stop_gathering(struct wr_transport *transport)
{
    if (wr_list_empty(&transport->gathering))
        return;
    wr_list_remove(&transport->gathering);
    transport->host->gathering_count--;
}

static void gathered(struct wr_transport *transport)
{
    struct wr_transport_host *host = transport->host;
    if (wr_transport_output_room(transport) == 0)
        transport->over_high = true;
    if (transport->phase != WR_TRANSPORT_OPEN || (transport->ready & WR_IO_WRITE) == 0)
        return;
    wr_loop_defer(host->loop, &transport->output_task);
    if (!wr_list_empty(&transport->gathering))
        return;
    wr_list_push_back(&host->gathering, &transport->gathering);
    if (++host->gathering_count > GATHERING_MOST)
        wr_transport_push(WR_CONTAINER_OF(host->gathering.next, struct wr_transport, gathering));
}

void wr_transport_write(struct wr_transport *transport, const void *p, size_t n)
{
    if (n == 0 || !takes_output(transport))
        return;
    wr_bytes_append(&wr_transport_pipeline(transport)->out, p, n);
    gathered(transport);
}

size_t wr_transport_write_bytes(struct wr_transport *transport, struct wr_bytes *bytes, size_t n)
{
    size_t taken = n < bytes->length ? n : bytes->length;
    if (taken == 0)
        return 0;
    if (!takes_output(transport)) {
        wr_bytes_consume(bytes, taken);
        return taken;
    }
    (void)wr_bytes_move(&wr_transport_pipeline(transport)->out, bytes, taken);
    gathered(transport);
    return taken;
}

/* ---- sending ---- */

/* An accepted transport is over: no answer can reach that client. An upstream may have answered before it stopped to listen,
 * so its input is read to the end, as if what is written had been sent. */
static void send_failed(struct wr_transport *transport, enum wr_err why, const char *detail)
{
    struct wr_pipeline *pipeline = transport->pipeline;
    if (pipeline != NULL) {
        wr_bytes_clear(&pipeline->out);
        wr_bytes_clear(&pipeline->sealed);
    }
    if (transport->accepted || transport->phase != WR_TRANSPORT_OPEN ||
        transport->input == WR_INPUT_TOLD) {
        wr_transport_fail(transport, why, detail);
        return;
    }
    transport->output = WR_OUTPUT_BROKEN;
    transport->fail_err = why;
    transport->fail_detail = detail;
    transport->ready |= WR_IO_READ;
    wr_transport_read_later(transport);
}

/* How many of N bytes in COUNT pieces the socket took. */
static size_t send_pieces(struct wr_transport *transport, struct iovec *pieces, int count, size_t n)
{
    if ((transport->ready & WR_IO_WRITE) == 0)
        return 0;
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = (size_t)count};
    ssize_t sent;
    do
        sent = count == 1 ? send(transport->io.fd, pieces->iov_base, pieces->iov_len, MSG_NOSIGNAL)
                          : sendmsg(transport->io.fd, &message, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    if (sent < 0) {
        transport->ready &= ~WR_IO_WRITE;
        if (errno != EAGAIN && errno != EWOULDBLOCK)
            send_failed(transport,
                        transport->accepted ? WR_ERR_CLIENT_RESET : WR_ERR_UPSTREAM_RESET, "");
        return 0;
    }
    if ((size_t)sent < n)
        transport->ready &= ~WR_IO_WRITE;
    transport->sent += (uint64_t)sent;
    if (transport->counters.sent != NULL)
        wr_metric_add(transport->counters.sent, (uint64_t)sent);
    return (size_t)sent;
}

void wr_transport_send_sealed(struct wr_transport *transport)
{
    struct wr_transport_host *host = transport->host;
    size_t n = host->sealed_length;
    host->sealed_length = 0;
    if (n == 0 || !wr_transport_is_live(transport) || transport->output == WR_OUTPUT_BROKEN)
        return;
    struct iovec piece = {.iov_base = host->sealed, .iov_len = n};
    size_t sent = send_pieces(transport, &piece, 1, n);
    if (sent < n && wr_transport_is_live(transport) && transport->output != WR_OUTPUT_BROKEN)
        wr_bytes_append(&wr_transport_pipeline(transport)->sealed, host->sealed + sent, n - sent);
}

/* Sends the front of BYTES until it is empty or the socket has enough. */
static void send_queue(struct wr_transport *transport, struct wr_bytes *bytes)
{
    while (bytes->length > 0 && (transport->ready & WR_IO_WRITE)) {
        struct iovec pieces[PIECES_A_CALL];
        int count = wr_bytes_iovec(bytes, pieces, PIECES_A_CALL);
        size_t n = 0;
        for (int i = 0; i < count; i++)
            n += pieces[i].iov_len;
        size_t sent = send_pieces(transport, pieces, count, n);
        if (sent > 0) /* after a failure the queue is empty */
            wr_bytes_consume(bytes, sent);
    }
}

/* Records into the scratch, the scratch to the socket when it is full. Stops when the socket does: bytes held stay bounded. */
static void seal_queue(struct wr_transport *transport, struct wr_pipeline *pipeline)
{
    struct wr_transport_host *host = transport->host;
    while (pipeline->out.length > 0 && pipeline->sealed.length == 0) {
        if (WR_SEALED_SIZE - host->sealed_length < WR_SEAL_ROOM) {
            wr_transport_send_sealed(transport);
            continue;
        }
        struct wr_str piece = wr_bytes_front(&pipeline->out);
        size_t taken = wr_transport_tls_seal(transport, piece.p, piece.n);
        if (taken == 0) {
            wr_transport_send_sealed(transport);
            send_failed(transport,
                        transport->accepted ? WR_ERR_TLS_FAILED : WR_ERR_UPSTREAM_TLS_FAILED,
                        wr_tls_take_reason());
            return;
        }
        wr_bytes_consume(&pipeline->out, taken);
    }
    wr_transport_send_sealed(transport);
}

static void push_queues(struct wr_transport *transport)
{
    struct wr_pipeline *pipeline = transport->pipeline;
    if (pipeline == NULL)
        return;
    send_queue(transport, &pipeline->sealed);
    if (transport->phase != WR_TRANSPORT_OPEN || pipeline->sealed.length > 0)
        return;
    if (!wr_transport_is_tls(transport))
        send_queue(transport, &pipeline->out);
    else if (transport->ready & WR_IO_WRITE)
        seal_queue(transport, pipeline);
}

static void push_end(struct wr_transport *transport)
{
    if (transport->output == WR_OUTPUT_ENDING && wr_transport_output(transport) == 0) {
        transport->output = WR_OUTPUT_NOTIFIED;
        if (wr_transport_is_tls(transport))
            wr_transport_tls_notify(transport);
        wr_transport_send_sealed(transport);
    }
    if (transport->output == WR_OUTPUT_NOTIFIED && wr_transport_output(transport) == 0) {
        transport->output = WR_OUTPUT_FIN;
        (void)shutdown(transport->io.fd, SHUT_WR);
    }
}

void wr_transport_push(struct wr_transport *transport)
{
    wr_transport_stop_gathering(transport);
    if (!wr_transport_is_live(transport) || transport->phase == WR_TRANSPORT_CONNECTING)
        return;
    push_queues(transport);
    if (wr_transport_output_room(transport) == 0) /* records are longer than what they carry */
        transport->over_high = true;
    if (wr_transport_is_live(transport) && transport->phase == WR_TRANSPORT_OPEN)
        push_end(transport);
    wr_transport_settle(transport);
}

/* ---- telling ---- */

static bool writable_is_due(const struct wr_transport *transport)
{
    return transport->over_high && wr_transport_output(transport) <= transport->host->output_low;
}

void wr_transport_tell_output(struct wr_transport *transport)
{
    if (!wr_transport_is_live(transport))
        return;
    if (writable_is_due(transport)) {
        transport->over_high = false;
        if (transport->events->writable != NULL)
            transport->events->writable(transport->owner);
    }
    if (wr_transport_is_live(transport) && transport->output == WR_OUTPUT_FIN) {
        transport->output = WR_OUTPUT_TOLD;
        if (transport->events->flushed != NULL)
            transport->events->flushed(transport->owner);
    }
}

void wr_transport_flush(struct wr_transport *transport)
{
    if (transport->closed)
        return;
    wr_transport_push(transport);
    if (wr_transport_is_live(transport) &&
        (writable_is_due(transport) || transport->output == WR_OUTPUT_FIN))
        wr_loop_defer(transport->host->loop, &transport->output_task);
}
