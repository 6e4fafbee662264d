/* An exchange on a loop whose clock is simulated, with everyone who can be attached to it noting what they hear. For the
 * tests beside it. */
#ifndef WR_TEST_HTTP_EXCHANGE_SIDES_H
#define WR_TEST_HTTP_EXCHANGE_SIDES_H

#include <criterion/criterion.h>

#include "base/compiler.h"
#include "http/exchange.h"

#define INACTIVITY (10 * WR_SEC)
#define RESPONSE (3 * WR_SEC)
#define LIMIT 100

static struct wr_loop *loop;
static struct wr_chunk_pool pool;
static struct wr_metrics_registry *registry;
static struct wr_exchange_host host;
static struct wr_client_info client;
static struct wr_exchange *exchange;
static struct wr_head request_head;
static struct wr_head response_head;
static struct wr_bytes upstream_got;
static struct wr_bytes client_got;

/* ---- what everyone hears ---- */
static enum wr_err handler_heard;
static enum wr_err owner_heard;
static enum wr_err request_stopped;
static enum wr_err request_aborted;
static enum wr_err response_stopped;
static enum wr_err response_aborted;
static unsigned expired_count;
static unsigned finished_count;
static bool client_takes = true;
static bool upstream_takes = true;

static void ignore_room(void *source, size_t n)
{
    (void)source;
    (void)n;
}

static void note_stop(void *heard, enum wr_err why)
{
    enum wr_err *stopped = heard;
    cr_assert_eq(*stopped, WR_OK, "told twice");
    *stopped = why;
}

static const struct wr_source_ops source_ops = {ignore_room, note_stop};

static void ignore_head(void *sink, struct wr_head *head, unsigned flags)
{
    (void)sink;
    (void)head;
    (void)flags;
}

static void client_content(void *sink)
{
    (void)sink;
    struct wr_message *response = &exchange->response;
    if (client_takes)
        wr_message_taken(response, wr_message_take(response, &client_got, SIZE_MAX));
}

static void upstream_content(void *sink)
{
    (void)sink;
    struct wr_message *request = &exchange->request;
    if (upstream_takes)
        wr_message_taken(request, wr_message_take(request, &upstream_got, SIZE_MAX));
}

static void ignore_end(void *sink, const struct wr_fields *trailers)
{
    (void)sink;
    (void)trailers;
}

static const struct wr_sink_ops client_ops = {ignore_head, client_content, ignore_end, note_stop};
static const struct wr_sink_ops upstream_ops = {ignore_head, upstream_content, ignore_end,
                                                note_stop};

static void handler_expired(void *handler, enum wr_err why)
{
    (void)handler;
    expired_count++;
    handler_heard = why;
}

static void handler_finished(void *handler)
{
    (void)handler;
    finished_count++;
}

static const struct wr_exchange_handler handler_ops = {handler_expired, handler_finished};

static WR_UNUSED void owner_expired(void *owner, enum wr_err why)
{
    (void)owner;
    owner_heard = why;
}

static WR_UNUSED const struct wr_exchange_owner owner_ops = {.expired = owner_expired};

/* ---- steps of an exchange ---- */

static void open_exchange(void)
{
    request_stopped = request_aborted = response_stopped = response_aborted = WR_OK;
    exchange = wr_exchange_open(&host, &client);
    exchange->response_timeout = RESPONSE;
    wr_exchange_set_handler(exchange, &handler_ops, NULL);
    wr_message_set_source(&exchange->request, &source_ops, &request_stopped);
    wr_message_attach(&exchange->response, &client_ops, &response_aborted);
}

static void reach_upstream(void)
{
    wr_message_set_source(&exchange->response, &source_ops, &response_stopped);
    wr_message_attach(&exchange->request, &upstream_ops, &request_aborted);
}

/* A whole GET or the head of a POST, handed to the upstream. */
static WR_UNUSED void send_request(unsigned flags)
{
    wr_message_head(&exchange->request, &request_head, flags);
    reach_upstream();
}

static WR_UNUSED void answer(unsigned flags)
{
    wr_message_head(&exchange->response, &response_head, flags);
}

static WR_UNUSED void finish(enum wr_err why)
{
    wr_exchange_finish(exchange, why);
    wr_loop_turn(loop, 0);
    exchange = NULL;
}

static WR_UNUSED void set_up(void)
{
    cr_assert_eq(wr_loop_new(WR_CLOCK_SIMULATED, &loop), WR_OK);
    wr_chunk_pool_init(&pool, 0);
    registry = wr_metrics_registry_new();
    wr_exchange_host_init(&host);
    cr_assert_eq(host.inactivity_timeout, WR_NEVER);
    host.loop = loop;
    host.chunks = &pool;
    host.worker_metrics = wr_metrics_new_worker(registry);
    host.metrics = wr_metrics_new_listener(registry, "main");
    host.content_limit = LIMIT;
    host.inactivity_timeout = INACTIVITY;
    client = (struct wr_client_info){.listener = WR_STR("main"),
                                     .address_slice = WR_STR("192.0.2.1:5"),
                                     .host_slice = WR_STR("192.0.2.1"),
                                     .tls_version = "TLSv1.3"};
    wr_head_init(&request_head);
    wr_head_init(&response_head);
    request_head.method_text = WR_STR("POST");
    request_head.path = WR_STR("/\"x");
    response_head.status = 204;
    wr_bytes_init(&upstream_got, &pool);
    wr_bytes_init(&client_got, &pool);
    open_exchange();
}

static WR_UNUSED void tear_down(void)
{
    if (exchange != NULL)
        finish(WR_OK);
    cr_assert_eq(wr_metric_get(&host.worker_metrics->exchanges_active), 0);
    wr_bytes_clear(&upstream_got);
    wr_bytes_clear(&client_got);
    wr_exchange_host_clear(&host);
    wr_exchange_host_clear(&host);
    wr_metrics_registry_free(registry);
    wr_loop_free(loop);
    wr_chunk_pool_free(&pool);
}

#endif
