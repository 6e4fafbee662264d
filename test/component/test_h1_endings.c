/* The table of endings in lib/codec/README.md, row by row: what END, ABORT and STOP of either message, and the ends of the peer,
 * mean on the wire and for the connection. */
#include <criterion/criterion.h>
#include <string.h>

#include "support/h1_rig.h"

#define GET "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
#define GET10 "GET / HTTP/1.0\r\n\r\n"
#define POST(n) "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: " n "\r\n\r\n"
#define CHUNKED "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
#define OK "HTTP/1.1 200 OK\r\n"

struct row {
    const char *name; /* of the README */
    const char *said; /* by the wire peer, first */
    void (*act)(struct rig *rig);
    const char *wire;   /* how what the peer heard ends */
    bool fin;           /* and that its stream ended in order; else a reset or nothing */
    const char *events; /* what the owner of the codec was told after ACT began */
    enum wr_err ended;  /* of the exchange; WR_ERR__COUNT: there is none */
};

/* Counted, because the exchange itself is gone by then. */
static enum wr_err how_it_ended(const struct rig *rig)
{
    for (size_t i = 1; i < WR_ERR__COUNT; i++) {
        if (rig->listener_metrics.requests_failed[i] > 0)
            return (enum wr_err)i;
    }
    return rig->finished > 0 ? WR_OK : WR_ERR__COUNT;
}

static void head(struct rig *rig, int64_t length)
{
    rig_answer_head(rig, 200, length, "", 0);
}

static void content(struct rig *rig, const char *text)
{
    wr_message_put(&rig->exchange->response, text, strlen(text));
}

/* ---- server ---- */

static void end_by_length(struct rig *rig)
{
    head(rig, 2);
    content(rig, "ok");
    wr_message_end(&rig->exchange->response, NULL);
}

static void end_by_chunks(struct rig *rig)
{
    head(rig, WR_LENGTH_UNKNOWN);
    content(rig, "ok");
    wr_message_end(&rig->exchange->response, NULL);
}

static void end_short(struct rig *rig)
{
    head(rig, 3);
    content(rig, "ok");
    wr_message_end(&rig->exchange->response, NULL);
}

static void excess(struct rig *rig)
{
    head(rig, 2);
    content(rig, "okay");
}

static void abort_before_head(struct rig *rig)
{
    wr_message_set_source(&rig->exchange->response, &feeder_ops, &rig->feeder);
    wr_message_abort(&rig->exchange->response, WR_ERR_CANCELLED);
}

static void abort_in_chunks(struct rig *rig)
{
    head(rig, WR_LENGTH_UNKNOWN);
    content(rig, "ok");
    wr_transport_flush(rig->transport);
    wr_message_abort(&rig->exchange->response, WR_ERR_RESPONSE_INCOMPLETE);
}

static void abort_in_length(struct rig *rig)
{
    head(rig, 5);
    content(rig, "ok");
    wr_transport_flush(rig->transport);
    wr_message_abort(&rig->exchange->response, WR_ERR_RESPONSE_INCOMPLETE);
}

static void stop_request(struct rig *rig)
{
    wr_message_stop(&rig->exchange->request, WR_ERR_CANCELLED);
    rig_say(rig, "cd");
    end_by_length(rig);
}

static void end_then_rest(struct rig *rig)
{
    end_by_length(rig);
    rig_settle(rig);
    rig_say(rig, "cd");
}

static void cancel_both(struct rig *rig)
{
    struct wr_exchange *exchange = rig->exchange;
    wr_message_cancel(&exchange->response, WR_ERR_REQUEST_TIMEOUT);
    wr_message_cancel(&exchange->request, WR_ERR_REQUEST_TIMEOUT);
}

static void peer_fin(struct rig *rig)
{
    rig_peer_ends(rig);
}

static void peer_fin_then_answer(struct rig *rig)
{
    rig_peer_ends(rig);
    end_by_length(rig);
}

static void bad_chunk(struct rig *rig)
{
    rig_say(rig, "x\r\n");
}

static void bad_chunk_in_response(struct rig *rig)
{
    head(rig, WR_LENGTH_UNKNOWN);
    content(rig, "ok");
    wr_transport_flush(rig->transport);
    rig_say(rig, "x\r\n");
    wr_message_abort(&rig->exchange->response, WR_ERR_BAD_REQUEST); /* the client codec's part */
}

static void refused(struct rig *rig)
{
    rig_say(rig, "GET / HTTP/1.1\r\n\r\n" GET);
}

static void timed_out(struct rig *rig)
{
    rig->server->ops->timed_out(rig->server, WR_ERR_KEEP_ALIVE_TIMEOUT);
}

static void drained(struct rig *rig)
{
    rig->server->ops->drain(rig->server);
}

static void drained_then_answer(struct rig *rig)
{
    rig->server->ops->drain(rig->server);
    end_by_length(rig);
}

static void closed(struct rig *rig)
{
    struct wr_server_codec *server = rig->server;
    rig->server = NULL;
    server->ops->close(server, WR_ERR_DRAINING);
}

static const struct row server_rows[] = {
    {"S1", GET, end_by_length, "content-length: 2\r\n\r\nok", false, "idle ", WR_OK},
    {"S2", GET, end_by_chunks, "2\r\nok\r\n0\r\n\r\n", false, "idle ", WR_OK},
    {"S3", GET10, end_by_chunks, "\r\n\r\nok", true, "done:ok ", WR_OK},
    {"S4", GET, end_short, "", false, "done:response_incomplete ", WR_ERR_RESPONSE_INCOMPLETE},
    {"S5", GET, excess, "content-length: 2\r\n\r\nok", false, "idle ", WR_ERR_BAD_RESPONSE},
    {"S6", GET, abort_before_head, "", false, "done:cancelled ", WR_ERR_CANCELLED},
    {"S7", GET, abort_in_chunks, "2\r\nok\r\n", false, "done:response_incomplete ",
     WR_ERR_RESPONSE_INCOMPLETE},
    {"S7", GET, abort_in_length, "\r\n\r\nok", false, "done:response_incomplete ",
     WR_ERR_RESPONSE_INCOMPLETE},
    {"S8", POST("4") "ab", stop_request, "content-length: 2\r\n\r\nok", false, "idle ", WR_OK},
    {"S9", POST("4") "ab", end_then_rest, "content-length: 2\r\n\r\nok", false, "idle ", WR_OK},
    {"S9", POST("4") "ab", end_by_length, "content-length: 2\r\n\r\nok", false, "", WR_ERR__COUNT},
    {"S10", POST("9000") "ab", end_by_length, "connection: close\r\n\r\nok", true, "done:ok ",
     WR_OK},
    {"S10", CHUNKED "2\r\nab\r\n", end_by_length, "connection: close\r\n\r\nok", true, "done:ok ",
     WR_OK},
    {"S11", POST("4") "ab", cancel_both, "", false, "done:request_timeout ",
     WR_ERR_REQUEST_TIMEOUT},
    {"S12", "", refused, "connection: close\r\n\r\n", true,
     "begun complete refused:bad_request done:ok ", WR_OK},
    {"S13", CHUNKED "2\r\nab\r\n", bad_chunk, "connection: close\r\n\r\n", true, "done:ok ",
     WR_ERR_BAD_REQUEST},
    {"S14", CHUNKED "2\r\nab\r\n", bad_chunk_in_response, "2\r\nok\r\n", false, "done:bad_request ",
     WR_ERR_BAD_REQUEST},
    {"S15", "", peer_fin, "", true, "done:ok ", WR_ERR__COUNT},
    {"S15", "GET / HT", peer_fin, "", true, "done:ok ", WR_ERR__COUNT},
    {"S16", POST("4") "ab", peer_fin, "", false, "done:client_closed ", WR_ERR_CLIENT_CLOSED},
    {"S17", GET, peer_fin_then_answer, "connection: close\r\n\r\nok", true, "done:ok ", WR_OK},
    {"S19", "", timed_out, "", true, "done:ok ", WR_ERR__COUNT},
    {"S20", "GET /", timed_out, "connection: close\r\n\r\n", true,
     "complete refused:request_header_timeout done:ok ", WR_OK},
    {"S21", "", drained, "", true, "done:ok ", WR_ERR__COUNT},
    {"S22", GET, drained_then_answer, "connection: close\r\n\r\nok", true, "done:ok ", WR_OK},
    {"S23", POST("4") "ab", closed, "", false, "", WR_ERR_DRAINING},
};

static void check_wire(const struct rig *rig, const struct row *row)
{
    size_t n = strlen(row->wire);
    cr_assert_geq(rig->heard.n, n, "%s", row->name);
    if (n == 0)
        cr_assert_str_eq(rig->heard.p, "", "%s", row->name);
    cr_assert_str_eq(rig->heard.p + rig->heard.n - n, row->wire, "%s", row->name);
}

Test(h1_endings, server)
{
    for (size_t i = 0; i < WR_COUNT_OF(server_rows); i++) {
        const struct row *row = &server_rows[i];
        struct rig *rig = rig_new(false);
        rig->on_exchange = rig_wait_with;
        rig_start(rig);
        rig_say(rig, row->said);
        rig_forget(rig);
        row->act(rig);
        rig_settle(rig);
        check_wire(rig, row);
        cr_assert_str_eq(rig->events.p, row->events, "%s", row->name);
        bool reset = rig->transport == NULL;
        cr_assert_eq(rig->heard_end && !reset, row->fin, "%s", row->name);
        enum wr_err ended_as = how_it_ended(rig);
        cr_assert_eq(ended_as, row->ended, "%s: %s", row->name, wr_err_info(ended_as)->label);
        rig_free(rig);
    }
}

/* Row S18 needs a peer that can reset. */
Test(h1_endings, server_reset_by_client)
{
    struct rig *rig = rig_new(false);
    rig->on_exchange = rig_wait_with;
    rig->tcp = true;
    rig_start(rig);
    rig_say(rig, GET);
    wr_socket_reset(rig->peer);
    rig->peer = -1;
    rig_settle(rig);
    cr_assert_str_eq(rig->events.p, "begun complete exchange done:client_reset ");
    cr_assert_eq(how_it_ended(rig), WR_ERR_CLIENT_RESET);
    rig_free(rig);
}

/* ---- client ---- */

struct client_row {
    const char *name;
    int64_t length; /* of the request: 0, 4 or unknown; "ab" of it is put */
    void (*act)(struct rig *rig);
    const char *wire; /* how what the upstream heard ends */
    const char *events;
    enum wr_err response; /* WR_OK: whole; else aborted with; WR_ERR__COUNT: not over */
    bool request_stopped;
};

static void put_request(struct rig *rig, const char *text)
{
    wr_message_put(&rig->exchange->request, text, strlen(text));
}

static void request_end(struct rig *rig)
{
    put_request(rig, "cd");
    wr_message_end(&rig->exchange->request, NULL);
}

static void request_end_short(struct rig *rig)
{
    wr_message_end(&rig->exchange->request, NULL);
}

static void request_abort(struct rig *rig)
{
    wr_message_abort(&rig->exchange->request, WR_ERR_CLIENT_CLOSED);
}

static void response_stop(struct rig *rig)
{
    wr_message_stop(&rig->exchange->response, WR_ERR_CLIENT_CLOSED);
}

static void response_drop_and_rewind(struct rig *rig)
{
    wr_message_drop_source(&rig->exchange->response, WR_ERR_CANCELLED);
    cr_assert(wr_message_can_rewind(&rig->exchange->request));
    wr_message_rewind(&rig->exchange->request);
}

static void response_whole(struct rig *rig)
{
    rig_say(rig, OK "Content-Length: 2\r\n\r\nok");
}

static void response_then_rest(struct rig *rig)
{
    response_whole(rig);
    request_end(rig);
}

static void response_then_abort(struct rig *rig)
{
    response_whole(rig);
    request_abort(rig);
}

static void response_then_silence(struct rig *rig)
{
    response_whole(rig);
    wr_loop_advance(rig->loop, 6 * WR_SEC);
}

static void response_then_bytes(struct rig *rig)
{
    response_whole(rig);
    rig_say(rig, "x");
}

static void response_then_fin(struct rig *rig)
{
    response_whole(rig);
    rig_peer_ends(rig);
}

static void response_to_whole_request(struct rig *rig)
{
    request_end(rig);
    rig_settle(rig);
    response_whole(rig);
}

static void refusal_begins(struct rig *rig)
{
    rig_say(rig, "HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\n\r\no");
}

static void refusal_that_closes_begins(struct rig *rig)
{
    rig_say(rig, "HTTP/1.1 413 Content Too Large\r\nConnection: close\r\n\r\no");
}

static void refusal_begins_before_request_ends(struct rig *rig)
{
    refusal_begins(rig);
    cr_assert_not(rig->feeder.stopped);
    request_end(rig);
    rig_settle(rig);
    rig_say(rig, "k");
}

static void success_begins_before_request_ends(struct rig *rig)
{
    rig_say(rig, OK "Content-Length: 2\r\n\r\no");
    cr_assert_not(rig->feeder.stopped);
    request_end(rig);
    rig_settle(rig);
    rig_say(rig, "k");
}

static void response_until_close(struct rig *rig)
{
    rig_say(rig, OK "\r\nok");
    rig_peer_ends(rig);
}

static void upstream_fin_in_interim(struct rig *rig)
{
    rig_say(rig, "HTTP/1.1 103 Early Hints\r\n\r\n");
    rig_peer_ends(rig);
}

static void upstream_fin_in_content(struct rig *rig)
{
    rig_say(rig, OK "Content-Length: 3\r\n\r\nok");
    rig_peer_ends(rig);
}

static void bad_response(struct rig *rig)
{
    rig_say(rig, "nonsense\r\n\r\n");
}

static void closed_client(struct rig *rig)
{
    struct wr_client_codec *client = rig->client;
    rig->client = NULL;
    client->ops->close(client, WR_ERR_RESPONSE_TIMEOUT);
    wr_transport_close(rig->transport);
    rig->transport = NULL;
}

static const struct client_row client_rows[] = {
    {"C1", 4, request_end, "content-length: 4\r\n\r\nabcd", "", WR_ERR__COUNT, false},
    {"C2", WR_LENGTH_UNKNOWN, request_end, "2\r\nab\r\n2\r\ncd\r\n0\r\n\r\n", "", WR_ERR__COUNT,
     false},
    {"C3", 4, request_end_short, "\r\n\r\nab", "closed:spent ", WR_ERR_BAD_REQUEST, false},
    {"C4", 4, request_abort, "\r\n\r\nab", "closed:spent ", WR_ERR_CLIENT_CLOSED, false},
    {"C4", WR_LENGTH_UNKNOWN, request_abort, "2\r\nab\r\n", "closed:spent ", WR_ERR_CLIENT_CLOSED,
     false},
    {"C5", 4, response_stop, "\r\n\r\nab", "closed:spent ", WR_ERR__COUNT, true},
    {"C6", 4, response_drop_and_rewind, "\r\n\r\nab", "closed:spent ", WR_ERR__COUNT, false},
    {"C7", 0, response_whole, "\r\n\r\n", "closed:reusable ", WR_OK, false},
    {"C7", 4, response_to_whole_request, "abcd", "closed:reusable ", WR_OK, false},
    {"C8", 1000000, response_whole, "ab", "closed:spent ", WR_OK, true},
    {"C8", WR_LENGTH_UNKNOWN, response_whole, "ab\r\n", "closed:spent ", WR_OK, true},
    {"C23", 4, response_whole, "ab", "", WR_OK, false},
    {"C23", 4, response_then_rest, "abcd", "closed:reusable ", WR_OK, false},
    {"C24", 4, response_then_silence, "ab", "closed:spent ", WR_OK, true},
    {"C24", 4, response_then_abort, "ab", "closed:spent ", WR_OK, false},
    {"C24", 4, response_then_bytes, "ab", "closed:spent ", WR_OK, true},
    {"C24", 4, response_then_fin, "ab", "closed:spent ", WR_OK, true},
    {"C9", 0, response_until_close, "\r\n\r\n", "closed:spent ", WR_OK, false},
    {"C10", 4, peer_fin, "ab", "closed:spent ", WR_ERR_UPSTREAM_CLOSED, true},
    {"C11", 0, upstream_fin_in_interim, "\r\n\r\n", "closed:spent ", WR_ERR_RESPONSE_INCOMPLETE,
     false},
    {"C11", 0, upstream_fin_in_content, "\r\n\r\n", "closed:spent ", WR_ERR_RESPONSE_INCOMPLETE,
     false},
    {"C12", 4, bad_response, "ab", "closed:spent ", WR_ERR_BAD_RESPONSE, true},
    {"C16", 1000000, refusal_begins, "ab", "", WR_ERR__COUNT, true},
    {"C16", WR_LENGTH_UNKNOWN, refusal_begins, "ab\r\n", "", WR_ERR__COUNT, true},
    {"C16", 4, refusal_that_closes_begins, "ab", "", WR_ERR__COUNT, true},
    {"C17", 4, refusal_begins_before_request_ends, "abcd", "closed:reusable ", WR_OK, false},
    {"C17", 4, success_begins_before_request_ends, "abcd", "closed:reusable ", WR_OK, false},
    {"C13", 4, closed_client, "ab", "", WR_ERR_RESPONSE_TIMEOUT, true},
};

static void check_client(struct rig *rig, const struct client_row *row)
{
    size_t n = strlen(row->wire);
    cr_assert_geq(rig->heard.n, n, "%s", row->name);
    cr_assert_str_eq(rig->heard.p + rig->heard.n - n, row->wire, "%s", row->name);
    cr_assert_str_eq(rig->events.p, row->events, "%s", row->name);
    cr_assert_eq(rig->feeder.stopped, row->request_stopped, "%s", row->name);
    cr_assert_eq(rig->collector.ended, row->response == WR_OK, "%s", row->name);
    bool aborted = row->response != WR_OK && row->response != WR_ERR__COUNT;
    cr_assert_eq(rig->collector.aborted, aborted, "%s", row->name);
    if (aborted)
        cr_assert_eq(rig->collector.why, row->response, "%s: %s", row->name,
                     wr_err_info(rig->collector.why)->label);
}

Test(h1_endings, client)
{
    for (size_t i = 0; i < WR_COUNT_OF(client_rows); i++) {
        const struct client_row *row = &client_rows[i];
        struct rig *rig = rig_new(true);
        rig_start(rig);
        rig->arms_replay = true;
        rig_open(rig, "POST", row->length, "");
        if (row->length != 0)
            put_request(rig, "ab");
        rig_settle(rig);
        row->act(rig);
        rig_settle(rig);
        check_client(rig, row);
        rig_finish(rig, WR_OK);
        rig_free(rig);
    }
}

/* Rows C14 and C15: no exchange is open. */
Test(h1_endings, client_idle)
{
    struct rig *rig = rig_new(true);
    rig_start(rig);
    rig_peer_ends(rig);
    cr_assert_str_eq(rig->events.p, "broken:upstream_closed ");
    rig_free(rig);

    rig = rig_new(true);
    rig_start(rig);
    rig_say(rig, "x");
    cr_assert_str_eq(rig->events.p, "broken:bad_response ");
    rig_free(rig);
}
