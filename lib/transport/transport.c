/* The life of a transport: host, making, pausing, ending. */
#include "transport/transport.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/mem.h"
#include "transport/transport_internal.h"

#define OUTPUT_HIGH ((size_t)128 * 1024)
#define OUTPUT_LOW ((size_t)32 * 1024)
#define PIPELINES_KEPT 256

/* ---- host ---- */

enum wr_err wr_transport_host_new(struct wr_loop *loop,
                                  const struct wr_transport_host_options *options,
                                  struct wr_transport_host **out)
{
    struct wr_transport_host *host = WR_NEW(struct wr_transport_host);
    host->loop = loop;
    host->output_high = OUTPUT_HIGH;
    host->output_low = OUTPUT_LOW;
    if (options != NULL && options->output_high > 0)
        host->output_high = options->output_high;
    if (options != NULL && options->output_low > 0)
        host->output_low = options->output_low;
    if (options != NULL) {
        host->signers = options->signers;
        host->mailbox = options->mailbox;
        host->signed_here = options->signed_here;
    }
    if (host->output_low >= host->output_high)
        host->output_low = host->output_high / 4;
    wr_list_init(&host->gathering);
    wr_chunk_pool_init(&host->chunks, options != NULL ? options->buffer_shrink_after : 0);
    host->received = wr_new_bytes(WR_RECEIVED_SIZE);
    host->plain = wr_new_bytes(WR_PLAIN_SIZE);
    host->sealed = wr_new_bytes(WR_SEALED_SIZE);
    *out = host;
    return WR_OK;
}

static void host_release(struct wr_transport_host *host)
{
    if (!host->freed || host->transport_count > 0)
        return;
    while (host->free_pipelines != NULL) {
        struct wr_pipeline *pipeline = host->free_pipelines;
        host->free_pipelines = pipeline->next;
        free(pipeline);
    }
    wr_chunk_pool_free(&host->chunks);
    free(host->received);
    free(host->plain);
    free(host->sealed);
    free(host);
}

void wr_transport_host_free(struct wr_transport_host *host)
{
    if (host == NULL)
        return;
    host->freed = true;
    host_release(host);
}

struct wr_loop *wr_transport_host_loop(struct wr_transport_host *host)
{
    return host->loop;
}

struct wr_chunk_pool *wr_transport_host_chunks(struct wr_transport_host *host)
{
    return &host->chunks;
}

/* ---- pipeline ---- */

struct wr_pipeline *wr_transport_pipeline(struct wr_transport *transport)
{
    if (transport->pipeline != NULL)
        return transport->pipeline;
    struct wr_transport_host *host = transport->host;
    struct wr_pipeline *pipeline = host->free_pipelines;
    if (pipeline != NULL) {
        host->free_pipelines = pipeline->next;
        host->free_pipeline_count--;
    } else {
        pipeline = WR_NEW(struct wr_pipeline);
        wr_bytes_init(&pipeline->out, &host->chunks);
        wr_bytes_init(&pipeline->sealed, &host->chunks);
        wr_bytes_init(&pipeline->cipher, &host->chunks);
        wr_bytes_init(&pipeline->input, &host->chunks);
    }
    transport->pipeline = pipeline;
    return pipeline;
}

void wr_transport_settle(struct wr_transport *transport)
{
    struct wr_pipeline *pipeline = transport->pipeline;
    if (pipeline == NULL || pipeline->out.length + pipeline->sealed.length +
                                    pipeline->cipher.length + pipeline->input.length >
                                0)
        return;
    transport->pipeline = NULL;
    struct wr_transport_host *host = transport->host;
    if (host->free_pipeline_count >= PIPELINES_KEPT) {
        free(pipeline);
        return;
    }
    pipeline->next = host->free_pipelines;
    host->free_pipelines = pipeline;
    host->free_pipeline_count++;
}

static void pipeline_clear(struct wr_transport *transport)
{
    struct wr_pipeline *pipeline = transport->pipeline;
    if (pipeline == NULL)
        return;
    wr_bytes_clear(&pipeline->out);
    wr_bytes_clear(&pipeline->sealed);
    wr_bytes_clear(&pipeline->cipher);
    wr_bytes_clear(&pipeline->input);
    wr_transport_settle(transport);
}

/* ---- events of the loop ---- */

static void connected(struct wr_transport *transport)
{
    enum wr_err err = wr_socket_connect_result(transport->io.fd);
    if (err != WR_OK) {
        wr_transport_fail(transport, err, "");
        return;
    }
    if (transport->tls_client == NULL) {
        wr_transport_established(transport);
        return;
    }
    transport->phase = WR_TRANSPORT_HANDSHAKE;
    wr_transport_tls_advance(transport);
}

/* The peer of an accepted transport that went before any cryptography was spent is not worth any, nor a signature. Later its
 * last bytes may say why. While the owner reads nothing, a reset is still noticed: no answer can reach that client. */
static void hung_up(struct wr_transport *transport)
{
    if (!transport->accepted || transport->discarding)
        return;
    if (transport->phase == WR_TRANSPORT_HANDSHAKE &&
        (transport->gate != WR_GATE_PASSED || transport->ssl == NULL))
        wr_transport_fail(transport, WR_ERR_CLIENT_CLOSED, "");
    else if (transport->phase == WR_TRANSPORT_OPEN && transport->paused != 0 &&
             transport->output == WR_OUTPUT_OPEN &&
             wr_socket_connect_result(transport->io.fd) != WR_OK)
        wr_transport_fail(transport, WR_ERR_CLIENT_RESET, "");
}

static void ready(struct wr_io *io, unsigned what)
{
    struct wr_transport *transport = WR_CONTAINER_OF(io, struct wr_transport, io);
    if (!wr_transport_is_live(transport))
        return;
    transport->ready |= what;
    if (what & WR_IO_HANGUP)
        transport->ready |= WR_IO_READ;
    if (transport->phase == WR_TRANSPORT_CONNECTING) {
        if (what & (WR_IO_WRITE | WR_IO_HANGUP))
            connected(transport);
    } else if ((what & WR_IO_WRITE) && transport->pipeline != NULL) {
        wr_transport_push(transport);
        wr_transport_tell_output(transport);
    }
    if ((what & WR_IO_HANGUP) && wr_transport_is_live(transport))
        hung_up(transport);
    wr_transport_read(transport);
}

static void run_input(struct wr_task *task)
{
    wr_transport_read(WR_CONTAINER_OF(task, struct wr_transport, input_task));
}

static void report_failure(struct wr_transport *transport)
{
    if (transport->events->closed != NULL)
        transport->events->closed(transport->owner, transport->fail_err, transport->fail_detail);
}

static void run_output(struct wr_task *task)
{
    struct wr_transport *transport = WR_CONTAINER_OF(task, struct wr_transport, output_task);
    if (transport->phase == WR_TRANSPORT_FAILED) {
        report_failure(transport);
        return;
    }
    wr_transport_push(transport);
    wr_transport_tell_output(transport);
}

/* ---- making ---- */

static enum wr_err make(struct wr_transport_host *host, int fd,
                        struct wr_transport_counters counters,
                        const struct wr_transport_events *events, void *owner,
                        struct wr_transport **out)
{
    struct wr_transport *transport = WR_NEW(struct wr_transport);
    transport->host = host;
    transport->events = events;
    transport->owner = owner;
    transport->counters = counters;
    transport->fail_detail = "";
    wr_list_init(&transport->gathering);
    wr_task_init(&transport->output_task, run_output);
    wr_task_init(&transport->input_task, run_input);
    enum wr_err err = wr_io_open(host->loop, &transport->io, fd, ready);
    if (err != WR_OK) {
        free(transport);
        transport = NULL;
    } else {
        host->transport_count++;
    }
    *out = transport;
    return err;
}

enum wr_err wr_transport_accept(struct wr_transport_host *host, int fd, struct wr_tls_server *tls,
                                struct wr_transport_counters counters,
                                const struct wr_transport_events *events, void *owner,
                                struct wr_transport **out)
{
    enum wr_err err = make(host, fd, counters, events, owner, out);
    if (err != WR_OK)
        return err;
    struct wr_transport *transport = *out;
    transport->accepted = true;
    transport->ready = WR_IO_WRITE;
    transport->phase = tls != NULL ? WR_TRANSPORT_SILENT : WR_TRANSPORT_OPEN;
    if (tls != NULL)
        transport->tls_server = wr_tls_server_retain(tls);
    return WR_OK;
}

enum wr_err wr_transport_adopt_client(struct wr_transport_host *host, int fd,
                                      struct wr_tls_client *tls,
                                      struct wr_transport_counters counters,
                                      const struct wr_transport_events *events, void *owner,
                                      struct wr_transport **out)
{
    enum wr_err err = make(host, fd, counters, events, owner, out);
    if (err != WR_OK)
        return err;
    (*out)->phase = WR_TRANSPORT_CONNECTING;
    if (tls != NULL)
        (*out)->tls_client = wr_tls_client_retain(tls);
    return WR_OK;
}

enum wr_err wr_transport_connect(struct wr_transport_host *host, const struct wr_address *address,
                                 struct wr_tls_client *tls, struct wr_transport_counters counters,
                                 const struct wr_transport_events *events, void *owner,
                                 struct wr_transport **out)
{
    int fd;
    *out = NULL;
    enum wr_err err = wr_socket_connect(address, &fd);
    if (err != WR_OK)
        return err;
    err = wr_transport_adopt_client(host, fd, tls, counters, events, owner, out);
    if (err != WR_OK)
        close(fd);
    return err;
}

void wr_transport_set_events(struct wr_transport *transport,
                             const struct wr_transport_events *events, void *owner)
{
    transport->events = events;
    transport->owner = owner;
    if (transport->output == WR_OUTPUT_TOLD && wr_transport_is_live(transport)) {
        transport->output = WR_OUTPUT_FIN;
        wr_loop_defer(transport->host->loop, &transport->output_task);
    }
}

void wr_transport_established(struct wr_transport *transport)
{
    transport->phase = WR_TRANSPORT_OPEN;
    if (transport->pipeline != NULL || transport->output != WR_OUTPUT_OPEN)
        wr_loop_defer(transport->host->loop, &transport->output_task);
    if (transport->events->established != NULL)
        transport->events->established(transport->owner);
}

/* ---- facts ---- */

enum wr_transport_state wr_transport_state(const struct wr_transport *transport)
{
    bool ended = transport->output != WR_OUTPUT_OPEN && transport->output != WR_OUTPUT_BROKEN;
    if (transport->phase != WR_TRANSPORT_FAILED && ended)
        return WR_TRANSPORT_ENDED;
    return transport->phase;
}

int wr_transport_fd(const struct wr_transport *transport)
{
    return transport->io.fd;
}

uint64_t wr_transport_bytes_received(const struct wr_transport *transport)
{
    return transport->received;
}

uint64_t wr_transport_bytes_sent(const struct wr_transport *transport)
{
    return transport->sent;
}

/* ---- pausing ---- */

void wr_transport_pause(struct wr_transport *transport, unsigned reason)
{
    transport->paused |= reason;
}

void wr_transport_resume(struct wr_transport *transport, unsigned reason)
{
    if ((transport->paused & reason) == 0)
        return;
    transport->paused &= ~reason;
    wr_transport_read_later(transport);
}

void wr_transport_discard_input(struct wr_transport *transport)
{
    if (!wr_transport_is_live(transport))
        return;
    transport->discarding = true;
    wr_loop_defer_next(transport->host->loop, &transport->input_task);
}

bool wr_transport_read_ended(const struct wr_transport *transport)
{
    return transport->input == WR_INPUT_TOLD;
}

bool wr_transport_is_quiet(struct wr_transport *transport)
{
    return transport->phase == WR_TRANSPORT_OPEN && transport->input == WR_INPUT_OPEN &&
           (transport->ready & (WR_IO_READ | WR_IO_HANGUP)) == 0 &&
           !wr_transport_has_kept(transport) &&
           (transport->ssl == NULL || !SSL_has_pending(transport->ssl));
}

/* ---- ending ---- */

void wr_transport_fail(struct wr_transport *transport, enum wr_err why, const char *detail)
{
    if (!wr_transport_is_live(transport))
        return;
    transport->phase = WR_TRANSPORT_FAILED;
    transport->fail_err = why;
    transport->fail_detail = detail;
    wr_task_cancel(&transport->input_task);
    wr_loop_defer(transport->host->loop, &transport->output_task);
}

void wr_transport_fail_after_input(struct wr_transport *transport, enum wr_err why,
                                   const char *detail)
{
    if (transport->accepted || !wr_transport_has_kept(transport)) {
        wr_transport_fail(transport, why, detail);
        return;
    }
    transport->input = WR_INPUT_BROKEN;
    transport->fail_err = why;
    transport->fail_detail = detail;
}

void wr_transport_end(struct wr_transport *transport)
{
    if (!wr_transport_is_live(transport) || transport->output != WR_OUTPUT_OPEN)
        return;
    transport->output = WR_OUTPUT_ENDING;
    wr_loop_defer(transport->host->loop, &transport->output_task);
}

static void release(struct wr_garbage *garbage)
{
    struct wr_transport *transport = WR_CONTAINER_OF(garbage, struct wr_transport, garbage);
    struct wr_transport_host *host = transport->host;
    pipeline_clear(transport);
    wr_transport_gate_forget(transport);
    SSL_free(transport->ssl);
    wr_tls_server_release(transport->tls_server);
    wr_tls_client_release(transport->tls_client);
    free(transport);
    host->transport_count--;
    host_release(host);
}

static void finish(struct wr_transport *transport, void (*close_fd)(int fd))
{
    if (transport == NULL || transport->closed)
        return;
    transport->closed = true;
    wr_io_close(&transport->io);
    wr_transport_stop_gathering(transport);
    wr_task_cancel(&transport->input_task);
    wr_task_cancel(&transport->output_task);
    wr_transport_tls_stop_signing(transport);
    close_fd(transport->io.fd);
    wr_loop_release(transport->host->loop, &transport->garbage, release);
}

static void close_fd(int fd)
{
    (void)close(fd);
}

void wr_transport_close(struct wr_transport *transport)
{
    finish(transport, transport != NULL && transport->spoilt ? wr_socket_reset : close_fd);
}

void wr_transport_spoil(struct wr_transport *transport)
{
    transport->spoilt = true;
}

void wr_transport_unspoil(struct wr_transport *transport)
{
    transport->spoilt = false;
}

void wr_transport_reset(struct wr_transport *transport)
{
    finish(transport, wr_socket_reset);
}
