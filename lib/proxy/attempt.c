#include "proxy/attempt.h"

#include "base/compiler.h"
#include "proxy/local.h"

/* Endpoints tried for one request when connections cannot be made. */
#define MAX_CONNECTS 3
/* A request that surely was not processed goes again up to so often: a connection of HTTP/2 may refuse streams that were on their
 * way when it lowered its limit, and the next one too. */
#define MAX_UNSENT_RESENDS 4

static void ask(struct wr_attempt *attempt, bool fresh);

/* ---- what may be tried again ---- */

/* A connection in use may be closed by its upstream just as a request goes out on it (behaviour row 24), and one of HTTP/2 may
 * refuse a stream (row 42). Once more, then, if no byte of a response was seen, all of the content is still there, and the request
 * either surely was not processed or may be processed twice (RFC 9110 section 9.2.2). */
static bool may_resend(const struct wr_attempt *attempt, enum wr_err why)
{
    const struct wr_exchange *exchange = attempt->exchange;
    enum wr_err_retry rule = wr_err_info(why)->retry;
    bool expected = attempt->reused || exchange->request_unsent;
    unsigned most = exchange->request_unsent ? MAX_UNSENT_RESENDS : 1;
    if (!expected || attempt->resends >= most || attempt->answering || rule == WR_RETRY_NEVER)
        return false;
    bool idempotent =
        rule == WR_RETRY_IDEMPOTENT && wr_method_is_idempotent(exchange->request.head->method);
    return wr_cluster_options(attempt->cluster)->retry_reused &&
           (exchange->request_unsent || idempotent) && wr_message_can_rewind(&exchange->request) &&
           wr_cluster_allow_retry(attempt->cluster, attempt->reused && exchange->request_unsent);
}

/* Nothing was sent when a connection could not be made; another endpoint may do better. */
static bool may_reconnect(const struct wr_attempt *attempt, enum wr_err why)
{
    const struct wr_cluster_options *options = wr_cluster_options(attempt->cluster);
    return options->retry_connect && wr_err_info(why)->retry != WR_RETRY_NEVER &&
           attempt->connects_failed < options->endpoint_count &&
           attempt->connects_failed < MAX_CONNECTS &&
           wr_cluster_allow_retry(attempt->cluster, false);
}

static void note_failure(const struct wr_attempt *attempt, enum wr_err why)
{
    wr_metric_inc(&wr_cluster_metrics(attempt->cluster)->upstream_failed[why]);
}

/* ---- what the cluster says ---- */

static void attached(struct wr_upstream_request *wish, const struct wr_endpoint_options *endpoint,
                     bool reused)
{
    struct wr_attempt *attempt = WR_CONTAINER_OF(wish, struct wr_attempt, wish);
    struct wr_exchange *exchange = attempt->exchange;
    attempt->wishing = false;
    attempt->reused = reused;
    exchange->endpoint = wr_str_from(endpoint->text);
    exchange->upstream_reused = reused;
    exchange->request_unsent = false;
    exchange->attempt_attached = wr_loop_now(attempt->proxy->loop);
    /* An upstream of HTTP/2 may say of any stream that it has not looked at it. */
    if (wish->multiplexes || (reused && attempt->resends == 0))
        wr_message_arm_replay(&exchange->request);
    else
        wr_message_disarm_replay(&exchange->request);
}

static void connect_failed(struct wr_upstream_request *wish, enum wr_err why,
                           const struct wr_endpoint_options *endpoint)
{
    struct wr_attempt *attempt = WR_CONTAINER_OF(wish, struct wr_attempt, wish);
    attempt->wishing = false;
    note_failure(attempt, why);
    if (endpoint != NULL) {
        attempt->exchange->endpoint = wr_str_from(endpoint->text);
        attempt->connects_failed++;
        if (may_reconnect(attempt, why)) {
            ask(attempt, attempt->resends > 0);
            return;
        }
    }
    wr_message_set_policy(&attempt->exchange->response, NULL, NULL); /* the answer is our own */
    wr_local_error(attempt->exchange, why, attempt->proxy->name);
}

static const struct wr_upstream_request_events wish_events = {
    .attached = attached,
    .failed = connect_failed,
};

/* ---- what comes back ---- */

static void note_response(struct wr_attempt *attempt)
{
    struct wr_exchange *exchange = attempt->exchange;
    uint64_t now = wr_loop_now(attempt->proxy->loop);
    uint64_t sent =
        exchange->waiting_since != WR_NEVER ? exchange->waiting_since : exchange->attempt_attached;
    exchange->response_head = now;
    wr_histogram_record(&wr_cluster_metrics(attempt->cluster)->upstream_response_time,
                        now > sent ? now - sent : 0);
    wr_message_disarm_replay(&exchange->request);
}

/* RFC 9110 section 15.2.1: a client that did not ask to be told and is sending already has no use for it. */
static bool is_idle_continue(const struct wr_exchange *exchange, const struct wr_head *head)
{
    return head->status == 100 && !exchange->request.head->expect_continue &&
           exchange->request.put_bytes > 0;
}

/* A client that would take any success for its tunnel must not be told one that is none: CONNECT, and an upgrade over HTTP/2 (RFC
 * 8441 section 4). */
static bool pretends(const struct wr_exchange *exchange, const struct wr_head *head)
{
    const struct wr_head *request = exchange->request.head;
    return request->tunnel != WR_TUNNEL_NONE && !request->upgrade &&
           head->tunnel == WR_TUNNEL_NONE && head->status >= 200 && head->status < 300;
}

static bool response_head(void *owner, struct wr_head *head, unsigned flags)
{
    struct wr_attempt *attempt = owner;
    struct wr_exchange *exchange = attempt->exchange;
    attempt->answering = true;
    if (pretends(exchange, head) ||
        wr_forward_response(&attempt->proxy->forward, exchange, head) != WR_OK) {
        note_failure(attempt, WR_ERR_BAD_RESPONSE);
        wr_message_set_policy(&exchange->response, NULL, NULL);
        wr_message_drop_source(&exchange->response, WR_ERR_BAD_RESPONSE);
        wr_local_error(exchange, WR_ERR_BAD_RESPONSE, attempt->proxy->name);
        return false;
    }
    if ((flags & WR_HEAD_INTERIM) != 0)
        return !is_idle_continue(exchange, head);
    note_response(attempt);
    wr_admit_response(attempt->admit, head);
    return true;
}

static bool response_failed(void *owner, enum wr_err why)
{
    struct wr_attempt *attempt = owner;
    struct wr_exchange *exchange = attempt->exchange;
    note_failure(attempt, why);
    if (may_resend(attempt, why)) {
        attempt->resends++;
        wr_message_rewind(&exchange->request);
        /* Those in use may be as near their end as that one was; on a new one it is among the first. */
        ask(attempt, true);
        return true;
    }
    wr_message_set_policy(&exchange->response, NULL, NULL);
    wr_local_error(exchange, why, attempt->proxy->name);
    return true;
}

static const struct wr_message_policy response_policy = {
    .head = response_head,
    .failed = response_failed,
};

/* ---- tries ---- */

static void ask(struct wr_attempt *attempt, bool fresh)
{
    struct wr_exchange *exchange = attempt->exchange;
    exchange->attempts++;
    exchange->attempt_started = wr_loop_now(attempt->proxy->loop);
    attempt->wishing = true;
    wr_upstream_request_init(&attempt->wish, &wish_events, exchange);
    attempt->wish.fresh = fresh;
    attempt->wish.again = exchange->attempts > 1;
    wr_cluster_request(attempt->cluster, &attempt->wish);
}

void wr_attempt_start(struct wr_attempt *attempt, struct wr_proxy *proxy,
                      struct wr_exchange *exchange, struct wr_cluster *cluster,
                      struct wr_admit *admit)
{
    *attempt = (struct wr_attempt){
        .proxy = proxy, .exchange = exchange, .cluster = cluster, .admit = admit};
    exchange->response_timeout = wr_cluster_options(cluster)->response_timeout;
    wr_exchange_rearm(exchange);
    wr_message_set_policy(&exchange->response, &response_policy, attempt);
    ask(attempt, false);
}

void wr_attempt_cancel(struct wr_attempt *attempt)
{
    wr_upstream_request_cancel(&attempt->wish);
    attempt->wishing = false;
    wr_message_set_policy(&attempt->exchange->response, NULL, NULL);
}
