/* From accept to the finished handshake: translates peer addresses and ClientHellos into questions to the admission
 * controller, and its verdicts into what the transport does. Whatever is turned away is counted here, once. */
#include "downstream/connection.h"

#include <unistd.h>

#include "base/compiler.h"
#include "transport/hello.h"

/* Connections kept to be told an alert; what is above is reset. */
#define ALERTS_AT_ONCE 256

static uint64_t now_of(const struct wr_downstream *downstream)
{
    return wr_loop_now(downstream->env.loop);
}

/* ---- turning away ---- */

void wr_gate_count(struct wr_downstream *downstream, const struct wr_address *peer,
                   struct wr_gate_refusal refusal, uint64_t accepted)
{
    struct wr_listener_metrics *metrics = downstream->env.metrics;
    wr_metric_inc(&metrics->connections_refused[refusal.reason]);
    if (refusal.cause != WR_CAUSE_NONE)
        wr_metric_inc(&metrics->handshakes_refused_by_cause[refusal.cause]);

    struct wr_access_log *log = downstream->env.access_log;
    if (log == NULL || !wr_access_log_enabled(log))
        return;
    char text[WR_ADDRESS_TEXT];
    struct wr_access_refusal line = {
        .wall_usec = wr_loop_wall(downstream->env.loop),
        .listener = wr_str_from(downstream->options->name),
        .client = peer != NULL ? wr_address_text(peer, false, text) : WR_STR_EMPTY,
        .reason = refusal.reason,
        .cause = refusal.cause,
        .detail = refusal.detail,
        .sni = refusal.sni,
        .duration_usec = now_of(downstream) - accepted,
    };
    wr_access_log_refusal(log, &line);
}

/* While handshakes wait, what refusing takes is taken from them. */
static void pay_for_refusal(struct wr_downstream *downstream)
{
    struct wr_loop *loop = downstream->env.loop;
    uint64_t spent = wr_loop_spent(loop);
    uint64_t rest;
    if (wr_admission_has_waiters(downstream->admission) && downstream->listener != NULL &&
        wr_refusing_note(&downstream->refusing, wr_loop_turns(loop), spent, &rest))
        wr_listener_rest(downstream->listener, wr_loop_now(loop) + spent + rest);
}

void wr_gate_turn_away(struct wr_downstream *downstream, int fd, const struct wr_address *peer,
                       struct wr_gate_refusal refusal)
{
    wr_gate_count(downstream, peer, refusal, now_of(downstream));
    pay_for_refusal(downstream);
    if (refusal.how == WR_REFUSE_CLOSE)
        close(fd);
    else
        wr_socket_reset(fd);
}

/* An alert takes time and memory; with too many at it, a reset says it too. */
static enum wr_refuse_with affordable(const struct wr_downstream *downstream,
                                      enum wr_refuse_with how)
{
    if (how == WR_REFUSE_ALERT && downstream->refused >= ALERTS_AT_ONCE)
        return WR_REFUSE_RESET;
    return how;
}

static void send_away(struct wr_connection *connection, enum wr_refuse_with how)
{
    if (how != WR_REFUSE_ALERT) {
        wr_transport_refuse(connection->transport, how);
        wr_connection_destroy(connection);
        return;
    }
    wr_connection_set_state(connection, WR_CONNECTION_REFUSING);
    wr_transport_set_events(connection->transport, &wr_linger_events, connection);
    wr_transport_refuse(connection->transport, how);
}

static void leave(struct wr_connection *connection, enum wr_handshake_outcome outcome)
{
    struct wr_downstream *downstream = connection->downstream;
    /* What a failed handshake has spent is not known: it is taken to be what was expected. */
    bool spent =
        outcome == WR_HANDSHAKE_FAILED && connection->ticket.state == WR_TICKET_HANDSHAKING;
    if (spent)
        wr_metric_inc(&downstream->env.metrics->handshakes_failed);
    wr_admission_leave(downstream->admission, &connection->ticket, outcome, false,
                       spent ? connection->ticket.charged : 0, now_of(downstream));
}

void wr_gate_refuse(struct wr_connection *connection, struct wr_gate_refusal refusal)
{
    struct wr_downstream *downstream = connection->downstream;
    wr_gate_count(downstream, &connection->client.address, refusal, connection->accepted);
    leave(connection, WR_HANDSHAKE_FAILED);
    send_away(connection, affordable(downstream, refusal.how));
}

/* ---- the controller ---- */

/* Of silent connections that are too many none has asked for anything yet: no last words. */
static struct wr_gate_refusal refusal_of(const struct wr_downstream *downstream,
                                         struct wr_admission_decision why)
{
    bool silent = why.reason == WR_REFUSAL_TOO_MANY_CONNECTIONS;
    return (struct wr_gate_refusal){
        .reason = why.reason,
        .cause = why.cause,
        .how = silent ? WR_REFUSE_RESET : downstream->options->refuse_with,
    };
}

/* At the end of a turn, when established connections have had theirs. What comes even later has its turn in the next one. */
void wr_gate_turn(struct wr_task *task)
{
    struct wr_downstream *downstream = WR_CONTAINER_OF(task, struct wr_downstream, turn);
    struct wr_loop *loop = downstream->env.loop;
    uint64_t turn = wr_loop_turns(loop);
    bool more = turn == downstream->ran_in;
    downstream->ran_in = turn;
    if (more || wr_admission_run(downstream->admission, wr_loop_spent(loop), now_of(downstream)))
        wr_loop_defer_next(loop, task);
    else if (downstream->listener != NULL)
        wr_listener_rise(downstream->listener);
}

static void on_grant(void *owner, struct wr_ticket *ticket)
{
    struct wr_connection *connection = WR_CONTAINER_OF(ticket, struct wr_connection, ticket);
    (void)owner;
    if (wr_socket_peer_gone(wr_transport_fd(connection->transport))) {
        /* No cryptography for one that has left. */
        leave(connection, WR_HANDSHAKE_GONE);
        wr_gate_refuse(connection, (struct wr_gate_refusal){.reason = WR_REFUSAL_ABANDONED,
                                                            .how = WR_REFUSE_CLOSE});
        return;
    }
    wr_connection_set_state(connection, WR_CONNECTION_HANDSHAKING);
    wr_transport_admit(connection->transport);
}

static void on_refuse(void *owner, struct wr_ticket *ticket, struct wr_admission_decision why)
{
    struct wr_connection *connection = WR_CONTAINER_OF(ticket, struct wr_connection, ticket);
    (void)owner;
    wr_gate_refuse(connection, refusal_of(connection->downstream, why));
}

const struct wr_admission_events wr_gate_admission_events = {.grant = on_grant,
                                                             .refuse = on_refuse};

/* ---- gate 1 and the handshake ---- */

static struct wr_admission_decision judge(struct wr_connection *connection,
                                          const struct wr_client_hello *hello)
{
    struct wr_downstream *downstream = connection->downstream;
    uint64_t now = now_of(downstream);
    if (!wr_access_handshake(downstream->access, &connection->ticket.source, now))
        return (struct wr_admission_decision){.refused = true, .reason = WR_REFUSAL_RATE_LIMITED};
    return wr_admission_hello(downstream->admission, &connection->ticket,
                              hello->claims_resumption ? WR_CLASS_RESUME : WR_CLASS_FULL, now);
}

static enum wr_gate_verdict on_client_hello(void *owner, const struct wr_client_hello *hello)
{
    struct wr_connection *connection = owner;
    struct wr_downstream *downstream = connection->downstream;
    if (connection->state != WR_CONNECTION_SILENT) /* a second one (RFC 8446 section 4.1.4) */
        return WR_GATE_ADMIT;
    connection->claims_resumption = hello->claims_resumption;
    struct wr_admission_decision decision = judge(connection, hello);
    if (decision.refused) {
        struct wr_gate_refusal refusal = refusal_of(downstream, decision);
        refusal.sni = hello->sni;
        wr_gate_refuse(connection, refusal);
        return WR_GATE_REFUSE;
    }
    wr_connection_set_state(connection, WR_CONNECTION_WAITING);
    wr_loop_defer(downstream->env.loop, &downstream->turn);
    return WR_GATE_WAIT;
}

static void on_established(void *owner)
{
    struct wr_connection *connection = owner;
    struct wr_downstream *downstream = connection->downstream;
    struct wr_listener_metrics *metrics = downstream->env.metrics;
    struct wr_tls_info info = {.resumed = false};
    (void)wr_transport_tls_info(connection->transport, &info);
    wr_metric_inc(info.resumed ? &metrics->handshakes_resumed : &metrics->handshakes_full);
    if (connection->claims_resumption && !info.resumed)
        wr_metric_inc(&metrics->false_claims);
    wr_histogram_record(&metrics->handshake_wait, connection->ticket.waited);
    wr_histogram_record(&metrics->handshake_duration, now_of(downstream) - connection->accepted);
    wr_admission_leave(downstream->admission, &connection->ticket, WR_HANDSHAKE_DONE, info.resumed,
                       info.cpu_usec, now_of(downstream));
    wr_connection_serve(connection);
}

static enum wr_refusal reason_of(enum wr_err why)
{
    switch (why) {
    case WR_ERR_CLIENT_CLOSED:
    case WR_ERR_CLIENT_RESET:
    case WR_ERR_TLS_TRUNCATED:
        return WR_REFUSAL_ABANDONED;
    case WR_ERR_TLS_NOT_TLS:
        return WR_REFUSAL_NOT_TLS;
    default:
        return WR_REFUSAL_TLS_ERROR;
    }
}

static void on_closed(void *owner, enum wr_err why, const char *detail)
{
    wr_gate_refuse(owner,
                   (struct wr_gate_refusal){.reason = reason_of(why),
                                            .how = WR_REFUSE_CLOSE,
                                            .detail = wr_str_from(detail != NULL ? detail : "")});
}

static void on_read_end(void *owner, bool clean)
{
    (void)clean;
    on_closed(owner, WR_ERR_CLIENT_CLOSED, "");
}

static const struct wr_transport_events gate_events = {
    .client_hello = on_client_hello,
    .established = on_established,
    .read_end = on_read_end,
    .closed = on_closed,
};

/* ---- gate 0 ---- */

/* One to be told by an alert is kept, without a ticket, until its ClientHello has come and the alert has gone. */
static void refuse_at_accept(struct wr_downstream *downstream, int fd,
                             const struct wr_address *peer, struct wr_gate_refusal refusal)
{
    refusal.how = affordable(downstream, refusal.how);
    if (refusal.how != WR_REFUSE_ALERT) {
        wr_gate_turn_away(downstream, fd, peer, refusal);
        return;
    }
    struct wr_connection *connection = wr_connection_new(downstream, peer);
    wr_gate_count(downstream, peer, refusal, connection->accepted);
    if (wr_connection_open(connection, fd, &wr_linger_events) == WR_OK)
        send_away(connection, WR_REFUSE_ALERT);
    else
        wr_connection_destroy(connection);
}

/* A silent one from now on. */
static void keep(struct wr_downstream *downstream, int fd, const struct wr_address *peer,
                 const struct wr_admission_source *source)
{
    wr_evict_for(downstream, fd);
    struct wr_connection *connection = wr_connection_new(downstream, peer);
    struct wr_gate_refusal failed = {.reason = WR_REFUSAL_NO_DESCRIPTORS};
    if (wr_connection_open(connection, fd, &gate_events) != WR_OK) {
        wr_gate_count(downstream, peer, failed, connection->accepted);
        wr_connection_destroy(connection);
        return;
    }
    struct wr_admission_decision decision =
        wr_admission_arrive(downstream->admission, &connection->ticket, source);
    if (decision.refused) {
        wr_gate_refuse(connection, refusal_of(downstream, decision));
        return;
    }
    wr_connection_set_state(connection, WR_CONNECTION_SILENT);
    /* What has been said counts before the next one is asked about: else a batch of accepts fills the backlog many times over. */
    if (wr_admission_is_pressed(downstream->admission))
        wr_transport_look(connection->transport);
}

/* Of one that would be refused unless it resumes: what has come of its ClientHello tells, at the cost of one look. */
static enum wr_handshake_class claim_of(const struct wr_downstream *downstream, int fd,
                                        bool *unread)
{
    switch (wr_hello_peek(fd, downstream->options->tls, unread)) {
    case WR_CLAIM_FULL:
        return WR_CLASS_FULL;
    case WR_CLAIM_RESUME:
        return WR_CLASS_RESUME;
    default:
        return WR_CLASS_UNKNOWN;
    }
}

void wr_gate_accept(struct wr_downstream *downstream, int fd, const struct wr_address *peer,
                    const struct wr_admission_source *source)
{
    struct wr_admission *admission = downstream->admission;
    enum wr_handshake_class claimed = WR_CLASS_UNKNOWN;
    bool unread = false;
    if (wr_admission_is_full(admission))
        claimed = claim_of(downstream, fd, &unread);
    struct wr_admission_decision decision =
        wr_admission_ask(admission, source, claimed, now_of(downstream));
    if (!decision.refused) {
        keep(downstream, fd, peer, source);
        return;
    }
    struct wr_gate_refusal refusal = refusal_of(downstream, decision);
    if (unread && refusal.how == WR_REFUSE_RESET)
        refusal.how = WR_REFUSE_CLOSE; /* a reset, with something unread, at one system call less */
    refuse_at_accept(downstream, fd, peer, refusal);
}
