#include "proxy/proxy.h"

#include <stdlib.h>

#include "base/compiler.h"
#include "base/mem.h"
#include "proxy/admit.h"
#include "proxy/attempt.h"
#include "proxy/inside.h"
#include "proxy/local.h"
#include "proxy/path.h"

/* The handler of one exchange. Lives in its arena. */
struct answer {
    struct wr_proxy *proxy;
    struct wr_exchange *exchange;
    const struct wr_route *route; /* NULL: none yet, or none at all */
    struct wr_admit admit;
    struct wr_attempt *attempt; /* NULL: answered locally, or not let in yet */
    uint32_t retry_after;       /* seconds, of an error that passes */
};

/* ---- the exchange calls ---- */

/* A request that still waited for its turn, or for a connection, was not kept waiting by its sender or by an upstream. */
static enum wr_err real_reason(const struct answer *answer, enum wr_err why)
{
    if (why != WR_ERR_RESPONSE_TIMEOUT)
        return why;
    if (wr_admit_waits(&answer->admit))
        return WR_ERR_OVERLOADED;
    return answer->attempt != NULL && answer->attempt->wishing ? WR_ERR_POOL_FULL : why;
}

static void fail(struct answer *answer, enum wr_err why)
{
    wr_local_refusal(answer->exchange, why, answer->proxy->name, answer->retry_after);
}

/* Answers with WHY while nothing was answered yet, else cuts the response off. */
static void give_up(struct answer *answer, enum wr_err why)
{
    struct wr_exchange *exchange = answer->exchange;
    if (answer->attempt != NULL)
        wr_attempt_cancel(answer->attempt);
    wr_admit_leave(&answer->admit);
    if (exchange->response.state == WR_MESSAGE_WAITING) {
        wr_message_drop_source(&exchange->response, why);
        fail(answer, why);
        return;
    }
    wr_message_cancel(&exchange->response, why);
    wr_message_cancel(&exchange->request, why);
}

static void expired(void *handler, enum wr_err why)
{
    struct answer *answer = handler;
    give_up(answer, real_reason(answer, why));
}

static void finished(void *handler)
{
    struct answer *answer = handler;
    if (answer->attempt != NULL)
        wr_attempt_cancel(answer->attempt);
    wr_admit_leave(&answer->admit);
}

static const struct wr_exchange_handler handler_ops = {
    .expired = expired,
    .finished = finished,
};

/* ---- the content limit ---- */

static void content_too_large(void *owner)
{
    give_up(owner, WR_ERR_CONTENT_TOO_LARGE);
}

static const struct wr_message_policy request_policy = {.too_large = content_too_large};

/* A length that is told is judged before anything is read, one that is not while it grows. */
static enum wr_err limit_content(struct answer *answer)
{
    struct wr_message *request = &answer->exchange->request;
    uint64_t limit = answer->proxy->options->request_content_limit;
    if (request->head->tunnel != WR_TUNNEL_NONE)
        return WR_OK;
    if (request->head->content_length != WR_LENGTH_UNKNOWN &&
        (uint64_t)request->head->content_length > limit)
        return WR_ERR_CONTENT_TOO_LARGE;
    if (request->put_bytes > limit)
        return WR_ERR_CONTENT_TOO_LARGE;
    request->content_cap = limit;
    wr_message_set_policy(request, &request_policy, answer);
    return WR_OK;
}

/* ---- a request ---- */

/* RFC 9110 section 7.6.2. *ANSWERED: it was for us. */
static enum wr_err count_hop(struct answer *answer, bool *answered)
{
    struct wr_head *head = answer->exchange->request.head;
    struct wr_field *field = wr_fields_find(&head->fields, WR_FIELD_MAX_FORWARDS);
    *answered = false;
    if (head->method != WR_METHOD_OPTIONS || field == NULL)
        return WR_OK;
    uint64_t hops;
    if (!wr_str_parse_u63(field->value, &hops))
        return WR_ERR_BAD_REQUEST;
    if (hops == 0) {
        *answered = true;
        wr_local_options(answer->exchange);
        return WR_OK;
    }
    field->value = wr_arena_printf(&answer->exchange->arena, "%llu", (unsigned long long)hops - 1);
    return WR_OK;
}

static struct wr_cluster *cluster_of(const struct answer *answer)
{
    return answer->proxy->clusters[answer->route->cluster];
}

static enum wr_err send_upstream(struct answer *answer)
{
    struct wr_exchange *exchange = answer->exchange;
    enum wr_err err = wr_forward_request(&answer->proxy->forward, exchange);
    if (err != WR_OK)
        return err;
    answer->attempt = wr_arena_alloc(&exchange->arena, sizeof(*answer->attempt));
    wr_attempt_start(answer->attempt, answer->proxy, exchange, cluster_of(answer), &answer->admit);
    return WR_OK;
}

/* ---- admission: each step is taken at once, or when the gate says so ---- */

/* OVERLOADED: it may not pass. *ENTERED false: not yet. */
static enum wr_err enter(struct answer *answer, struct wr_request_gate *gate,
                         struct wr_request_pass *pass, bool *entered)
{
    answer->retry_after = wr_request_gate_retry_after(gate);
    enum wr_request_verdict verdict = wr_request_gate_enter(gate, pass, answer->route->priority);
    *entered = verdict == WR_REQUEST_ADMITTED;
    return verdict == WR_REQUEST_REFUSED ? WR_ERR_OVERLOADED : WR_OK;
}

static enum wr_err enter_cluster(struct answer *answer)
{
    struct wr_request_gate *gate = wr_cluster_gate(cluster_of(answer));
    if (gate == NULL)
        return WR_ERR_DRAINING;
    bool entered;
    enum wr_err err = enter(answer, gate, &answer->admit.cluster, &entered);
    return err == WR_OK && entered ? send_upstream(answer) : err;
}

/* It has its place with the listener. */
static enum wr_err serve(struct answer *answer)
{
    const struct wr_route *route = answer->route;
    struct wr_exchange *exchange = answer->exchange;
    if (route->action == WR_ROUTE_RESPOND) {
        wr_local_respond(exchange, &route->respond);
        return WR_OK;
    }
    exchange->cluster = wr_str_from(wr_cluster_options(cluster_of(answer))->name);
    bool answered;
    enum wr_err err = count_hop(answer, &answered);
    return err != WR_OK || answered ? err : enter_cluster(answer);
}

static enum wr_err enter_listener(struct answer *answer)
{
    bool entered;
    enum wr_err err = enter(answer, answer->proxy->gate, &answer->admit.listener, &entered);
    return err == WR_OK && entered ? serve(answer) : err;
}

static void listener_decided(struct wr_request_pass *pass, bool admitted)
{
    struct answer *answer = WR_CONTAINER_OF(pass, struct answer, admit.listener);
    enum wr_err err = admitted ? serve(answer) : WR_ERR_OVERLOADED;
    if (err != WR_OK)
        fail(answer, err);
}

static void cluster_decided(struct wr_request_pass *pass, bool admitted)
{
    struct answer *answer = WR_CONTAINER_OF(pass, struct answer, admit.cluster);
    enum wr_err err = admitted ? send_upstream(answer) : WR_ERR_OVERLOADED;
    if (err != WR_OK)
        fail(answer, err);
}

/* ---- before that ---- */

static enum wr_err check(const struct wr_exchange *exchange)
{
    if (exchange->refused != WR_OK)
        return exchange->refused;
    return exchange->request.head->method == WR_METHOD_TRACE ? WR_ERR_METHOD_NOT_ALLOWED : WR_OK;
}

static enum wr_err normalise_path(const struct answer *answer)
{
    struct wr_exchange *exchange = answer->exchange;
    struct wr_head *head = exchange->request.head;
    if (head->tunnel == WR_TUNNEL_CONNECT)
        return WR_OK; /* it has none */
    return wr_path_normalise(head->path, answer->proxy->options->path_policy, &exchange->arena,
                             &head->path);
}

static bool allows_tunnel(const struct wr_route *route, const struct wr_head *head)
{
    if (route->action != WR_ROUTE_CLUSTER)
        return false;
    return head->tunnel == WR_TUNNEL_CONNECT ? route->connect
                                             : wr_route_upgrades(route, head->protocol);
}

/* A tunnel the route does not allow is refused; an Upgrade is an offer, and without it the request is like any other (RFC 9110
 * section 7.8). */
static enum wr_err judge_tunnel(struct wr_exchange *exchange, const struct wr_route *route)
{
    struct wr_head *head = exchange->request.head;
    if (head->tunnel == WR_TUNNEL_NONE || allows_tunnel(route, head))
        return WR_OK;
    if (!head->upgrade)
        return WR_ERR_METHOD_NOT_ALLOWED;
    head->tunnel = WR_TUNNEL_NONE;
    head->content_length = 0;
    wr_message_make_last(&exchange->request, WR_ERR_CANCELLED);
    return WR_OK;
}

/* An error is the answer. */
static enum wr_err begin(struct answer *answer)
{
    struct wr_exchange *exchange = answer->exchange;
    const struct wr_proxy_options *options = answer->proxy->options;
    enum wr_err err = check(exchange);
    if (err != WR_OK)
        return err;
    err = normalise_path(answer);
    if (err == WR_OK)
        err = limit_content(answer);
    if (err != WR_OK)
        return err;

    const struct wr_route *route = wr_route_find(&options->routes, exchange->request.head);
    bool connect = exchange->request.head->tunnel == WR_TUNNEL_CONNECT;
    if (route == NULL)
        return connect ? WR_ERR_METHOD_NOT_ALLOWED : WR_ERR_NO_ROUTE;
    exchange->route = wr_str_from(route->name);
    err = judge_tunnel(exchange, route);
    if (err != WR_OK)
        return err;
    answer->route = route;
    if (!wr_meter_take(answer->proxy->meter, route, exchange, wr_loop_now(answer->proxy->loop),
                       &answer->retry_after)) {
        wr_metric_inc(&answer->proxy->metrics->requests_rate_limited);
        return WR_ERR_RATE_LIMITED;
    }
    return enter_listener(answer);
}

void wr_proxy_start(struct wr_proxy *proxy, struct wr_exchange *exchange)
{
    struct answer *answer = wr_arena_alloc(&exchange->arena, sizeof(*answer));
    *answer = (struct answer){.proxy = proxy, .exchange = exchange, .retry_after = 1};
    wr_admit_init(&answer->admit, exchange, listener_decided, cluster_decided);
    wr_exchange_set_handler(exchange, &handler_ops, answer);
    enum wr_err err = begin(answer);
    if (err != WR_OK)
        fail(answer, err);
}

static struct wr_request_gate_metrics gate_metrics(struct wr_listener_metrics *metrics)
{
    return (struct wr_request_gate_metrics){
        .in_flight = &metrics->requests_in_flight,
        .waiting = &metrics->requests_waiting,
        .limit = &metrics->requests_limit,
        .refused = metrics->requests_refused,
        .wait = &metrics->request_wait,
    };
}

struct wr_proxy *wr_proxy_new(struct wr_loop *loop, const struct wr_proxy_options *options,
                              struct wr_listener_metrics *metrics,
                              struct wr_cluster *const *clusters)
{
    struct wr_proxy *proxy = WR_NEW(struct wr_proxy);
    proxy->loop = loop;
    proxy->options = options;
    proxy->clusters = clusters;
    proxy->metrics = metrics;
    proxy->gate = wr_request_gate_new(loop, &options->requests, gate_metrics(metrics));
    wr_forward_init(&proxy->forward, &options->forward);
    proxy->meter = wr_meter_new(options, &proxy->forward);
    proxy->name = wr_local_name(options->forward.via);
    return proxy;
}

void wr_proxy_free(struct wr_proxy *proxy)
{
    if (proxy == NULL)
        return;
    wr_meter_free(proxy->meter);
    wr_request_gate_free(proxy->gate);
    wr_forward_clear(&proxy->forward);
    free(proxy->name);
    free(proxy);
}
