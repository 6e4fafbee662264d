/* The listener's side: accept, drain, sample, end. */
#include "downstream/downstream.h"

#include <stdlib.h>

#include "base/compiler.h"
#include "base/mem.h"
#include "downstream/connection.h"

/* A turn; established connections get their turn between. */
#define ACCEPT_BATCH 64

static void accept_plain(struct wr_downstream *downstream, int fd, const struct wr_address *peer)
{
    wr_evict_for(downstream, fd);
    struct wr_connection *connection = wr_connection_new(downstream, peer);
    if (wr_connection_open(connection, fd, &wr_linger_events) == WR_OK) {
        wr_connection_serve(connection);
        return;
    }
    wr_gate_count(downstream, peer, (struct wr_gate_refusal){.reason = WR_REFUSAL_NO_DESCRIPTORS},
                  connection->accepted);
    wr_connection_destroy(connection);
}

/* ---- accept ---- */

/* Why a connection from PEER can't be taken, whatever comes over it. */
static bool is_unwelcome(struct wr_downstream *downstream, int fd, const struct wr_address *peer,
                         const struct wr_admission_source *source, struct wr_gate_refusal *why)
{
    *why = (struct wr_gate_refusal){.how = downstream->options->refuse_with};
    if (!wr_access_connection(downstream->access, peer, source, wr_loop_now(downstream->env.loop),
                              &why->reason))
        return true;
    if (!wr_evict_is_hopeless(downstream, fd, &why->reason))
        return false;
    if (why->reason == WR_REFUSAL_NO_DESCRIPTORS)
        why->how = WR_REFUSE_RESET;
    return true;
}

static void on_accepted(void *owner, int fd, const struct wr_address *peer)
{
    struct wr_downstream *downstream = owner;
    struct wr_admission_source source = wr_access_source(downstream->access, peer);
    struct wr_gate_refusal why;
    wr_metric_inc(&downstream->env.metrics->connections_accepted);
    if (downstream->look)
        wr_metric_set(&downstream->env.metrics->accept_queue_age, wr_socket_silence(fd));
    downstream->look = false;
    if (is_unwelcome(downstream, fd, peer, &source, &why))
        wr_gate_turn_away(downstream, fd, peer, why);
    else if (downstream->options->tls == NULL)
        accept_plain(downstream, fd, peer);
    else
        wr_gate_accept(downstream, fd, peer, &source);
}

static void on_starved(void *owner, bool paused)
{
    struct wr_downstream *downstream = owner;
    struct wr_listener_metrics *metrics = downstream->env.metrics;
    if (paused) {
        wr_metric_inc(&metrics->accept_paused);
        return;
    }
    wr_metric_inc(&metrics->connections_accepted);
    wr_gate_count(downstream, NULL, (struct wr_gate_refusal){.reason = WR_REFUSAL_NO_DESCRIPTORS},
                  wr_loop_now(downstream->env.loop));
}

static const struct wr_listener_events listener_events = {
    .accepted = on_accepted,
    .starved = on_starved,
};

/* ---- life ---- */

/* After all connections and exchanges, which were released before it. */
static void release(struct wr_garbage *garbage)
{
    struct wr_downstream *downstream = WR_CONTAINER_OF(garbage, struct wr_downstream, garbage);
    wr_proxy_free(downstream->proxy);
    wr_exchange_host_clear(&downstream->exchanges);
    wr_admission_free(downstream->admission);
    wr_access_free(downstream->access);
    free(downstream);
}

static void lend_to_exchanges(struct wr_downstream *downstream)
{
    const struct wr_downstream_env *env = &downstream->env;
    struct wr_exchange_host *host = &downstream->exchanges;
    wr_exchange_host_init(host);
    host->loop = env->loop;
    host->chunks = wr_transport_host_chunks(env->transports);
    host->access_log = env->access_log;
    host->worker_metrics = env->worker_metrics;
    host->metrics = env->metrics;
    host->content_limit = downstream->options->content_limit;
    host->inactivity_timeout = downstream->options->timeouts.inactivity;
    host->request_timeout = downstream->options->timeouts.request;
    host->tunnel_timeout = downstream->options->timeouts.tunnel;
    host->request_rate = downstream->options->request_rate;
}

enum wr_err wr_downstream_new(const struct wr_downstream_env *env,
                              const struct wr_downstream_options *options, int fd,
                              struct wr_downstream **out)
{
    struct wr_downstream *downstream = WR_NEW(struct wr_downstream);
    downstream->env = *env;
    downstream->options = options;
    for (size_t i = 0; i < WR_CONNECTION__COUNT; i++)
        wr_list_init(&downstream->lists[i]);
    wr_task_init(&downstream->turn, wr_gate_turn);
    wr_refusing_init(&downstream->refusing, options->refusal_share);
    downstream->access = wr_access_new(&options->access);
    downstream->admission =
        wr_admission_new(&options->admission, &wr_gate_admission_events, downstream);
    downstream->proxy = wr_proxy_new(env->loop, &options->proxy, env->metrics, env->clusters);
    lend_to_exchanges(downstream);
    enum wr_err err = wr_listener_new(env->loop, fd, ACCEPT_BATCH, &listener_events, downstream,
                                      &downstream->listener);
    if (err != WR_OK) {
        release(&downstream->garbage);
        downstream = NULL;
    }
    *out = downstream;
    return err;
}

/* Calls EACH for all that are in STATE now. EACH may end any connection, and leave this one where it is. */
static void for_all_in(struct wr_downstream *downstream, enum wr_connection_state state,
                       void (*each)(struct wr_connection *connection))
{
    struct wr_list todo;
    wr_list_init(&todo);
    wr_list_splice_back(&todo, &downstream->lists[state]);
    struct wr_list *link;
    while ((link = wr_list_pop_front(&todo)) != NULL) {
        wr_list_push_back(&downstream->lists[state], link);
        each(WR_CONTAINER_OF(link, struct wr_connection, link));
    }
}

static void refuse_draining(struct wr_connection *connection)
{
    enum wr_refuse_with how = connection->downstream->options->refuse_with;
    wr_gate_refuse(connection,
                   (struct wr_gate_refusal){.reason = WR_REFUSAL_DRAINING,
                                            .how = how == WR_REFUSE_RESET ? how : WR_REFUSE_CLOSE});
}

void wr_downstream_drain(struct wr_downstream *downstream)
{
    if (downstream->draining)
        return;
    downstream->draining = true;
    wr_listener_close(downstream->listener);
    downstream->listener = NULL;
    for_all_in(downstream, WR_CONNECTION_SILENT, refuse_draining);
    for_all_in(downstream, WR_CONNECTION_WAITING, refuse_draining);
    for_all_in(downstream, WR_CONNECTION_IDLE, wr_connection_drain);
    for_all_in(downstream, WR_CONNECTION_HEAD, wr_connection_drain);
    for_all_in(downstream, WR_CONNECTION_ACTIVE, wr_connection_drain);
}

static void end_draining(struct wr_connection *connection)
{
    wr_connection_end(connection, WR_ERR_DRAINING);
}

static void end_closing(struct wr_connection *connection)
{
    wr_connection_end(connection, WR_OK);
}

void wr_downstream_free(struct wr_downstream *downstream)
{
    static void (*const end[WR_CONNECTION__COUNT])(struct wr_connection *) = {
        [WR_CONNECTION_SILENT] = refuse_draining,
        [WR_CONNECTION_WAITING] = refuse_draining,
        [WR_CONNECTION_HANDSHAKING] = refuse_draining,
        [WR_CONNECTION_IDLE] = end_draining,
        [WR_CONNECTION_HEAD] = end_draining,
        [WR_CONNECTION_ACTIVE] = end_draining,
        [WR_CONNECTION_FLUSHING] = end_draining,
        [WR_CONNECTION_CLOSING] = end_closing,
        [WR_CONNECTION_REFUSING] = wr_connection_destroy,
        [WR_CONNECTION_REFUSED] = wr_connection_destroy,
    };
    if (downstream == NULL)
        return;
    wr_listener_close(downstream->listener);
    for (size_t i = 0; i < WR_CONNECTION__COUNT; i++)
        for_all_in(downstream, (enum wr_connection_state)i, end[i]);
    wr_task_cancel(&downstream->turn);
    wr_loop_release(downstream->env.loop, &downstream->garbage, release);
}

/* ---- looking ---- */

size_t wr_downstream_connections(const struct wr_downstream *downstream)
{
    return downstream->count;
}

static uint64_t measured_cost(const struct wr_admission_gauges *gauges,
                              enum wr_handshake_class class)
{
    return gauges->measured[class] ? gauges->cost[class] : 0;
}

void wr_downstream_sample(struct wr_downstream *downstream)
{
    unsigned length = 0;
    unsigned limit = 0;
    if (downstream->listener != NULL) {
        int fd = wr_listener_fd(downstream->listener);
        wr_socket_accept_queue(fd, &length, &limit);
        wr_metric_set(&downstream->env.metrics->accept_drops, wr_socket_accept_drops(fd));
    }
    downstream->look = true;
    struct wr_listener_metrics *metrics = downstream->env.metrics;
    wr_metric_set(&metrics->accept_queue, length);
    wr_metric_set(&metrics->accept_queue_limit, limit);
    if (downstream->options->tls == NULL)
        return;
    struct wr_admission_gauges gauges =
        wr_admission_gauges(downstream->admission, wr_loop_now(downstream->env.loop));
    wr_metric_set(&metrics->handshakes_limit, gauges.limit);
    wr_metric_set(&metrics->handshakes_peak, gauges.pending_peak);
    wr_metric_set(&metrics->handshakes_delayed, gauges.delayed);
    wr_metric_set(&metrics->backlog_busy, gauges.busy);
    wr_metric_set(&metrics->cost_full, measured_cost(&gauges, WR_CLASS_FULL));
    wr_metric_set(&metrics->cost_resumed, measured_cost(&gauges, WR_CLASS_RESUME));
    wr_metric_set(&metrics->cost_trusted, measured_cost(&gauges, WR_CLASS_TRUSTED));
    wr_metric_set(&metrics->oldest_wait, gauges.oldest_wait);
}
