/* HTTP/1.1 towards clients: what happens over time. 100-continue, early answers, back-pressure, half close, deadlines. */
#include <criterion/criterion.h>
#include <string.h>
#include <sys/socket.h>

#include "support/h1_rig.h"

#define POST(fields) "POST / HTTP/1.1\r\nHost: a\r\n" fields "\r\n"
#define GET "GET / HTTP/1.1\r\nHost: a\r\n\r\n"

static struct rig *start(void)
{
    struct rig *rig = rig_new(false);
    rig->on_exchange = rig_wait_with;
    rig_start(rig);
    return rig;
}

static bool heard(const struct rig *rig, const char *part)
{
    return strstr(rig->heard.p, part) != NULL;
}

/* Answers, and settles. */
static void answer(struct rig *rig, unsigned status, const char *body)
{
    rig_answer(rig, status, body);
    rig_settle(rig);
}

/* ---- 100-continue ---- */

Test(h1_server_flow, expect_is_handed_up_and_continue_handed_down)
{
    struct rig *rig = start();
    rig_say(rig, POST("Expect: 100-Continue\r\nContent-Length: 2\r\n"));
    cr_assert(rig->exchange->request.head->expect_continue);
    cr_assert_null(wr_fields_find(&rig->exchange->request.head->fields, WR_FIELD_EXPECT));
    cr_assert_str_eq(rig->heard.p, "", "the codec does not answer by itself");
    rig_answer_head(rig, 100, 0, "", WR_HEAD_INTERIM);
    rig_settle(rig);
    cr_assert_str_eq(rig->heard.p, "HTTP/1.1 100 Continue\r\n\r\n");
    rig_say(rig, "ok");
    cr_assert_str_eq(rig->requests.p, "POST a / [ok] \n");
    answer(rig, 200, "");
    cr_assert_not(heard(rig, "close"));
    rig_free(rig);
}

Test(h1_server_flow, a_final_answer_instead_of_continue_closes)
{
    struct rig *rig = start();
    rig_say(rig, POST("Expect: 100-continue\r\nContent-Length: 2\r\n"));
    answer(rig, 403, "");
    cr_assert(heard(rig, "403 Forbidden"));
    cr_assert(heard(rig, "connection: close"));
    cr_assert(rig->heard_end);
    cr_assert_str_eq(rig->events.p, "begun complete exchange done:ok ");
    rig_free(rig);
}

Test(h1_server_flow, a_client_that_does_not_wait_for_continue_keeps_its_connection)
{
    struct rig *rig = start();
    rig_say(rig, POST("Expect: 100-continue\r\nContent-Length: 3\r\n") "n");
    wr_message_stop(&rig->exchange->request, WR_ERR_CANCELLED);
    answer(rig, 403, "");
    cr_assert_not(heard(rig, "close"));
    rig_say(rig, "o!" GET);
    cr_assert_str_eq(rig->requests.p, "GET a / [] \n");
    rig_free(rig);
}

Test(h1_server_flow, expect_has_no_meaning_without_content)
{
    struct rig *rig = start();
    rig_say(rig, "GET / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n");
    cr_assert_not(rig->exchange->request.head->expect_continue);
    rig_free(rig);
}

/* ---- early answers (behaviour rows 14, 22) ---- */

Test(h1_server_flow, the_small_rest_of_an_answered_request_is_thrown_away)
{
    struct rig *rig = start();
    rig_say(rig, POST("Content-Length: 1000\r\n") "some");
    wr_message_stop(&rig->exchange->request, WR_ERR_CANCELLED);
    answer(rig, 413, "no");
    cr_assert(heard(rig, "413"));
    cr_assert_not(heard(rig, "close"));
    cr_assert_str_eq(rig->events.p, "begun complete exchange ",
                     "a new codec must not see the rest");
    rig_forget(rig);
    char rest[996];
    memset(rest, 'G', sizeof(rest));
    rig_say_n(rig, rest, sizeof(rest));
    rig_say(rig, GET);
    cr_assert_str_eq(rig->events.p, "idle begun complete exchange ");
    cr_assert_str_eq(rig->requests.p, "GET a / [] \n");
    rig_free(rig);
}

/* Who takes the request decides: an upstream is reused only when it got all of it. */
Test(h1_server_flow, the_small_rest_of_an_answered_request_goes_to_who_wants_it)
{
    struct rig *rig = start();
    rig_say(rig, POST("Content-Length: 8\r\n") "some");
    answer(rig, 200, "early");
    cr_assert(heard(rig, "early"));
    cr_assert_not(heard(rig, "close"));
    cr_assert_not(rig->collector.aborted);
    rig_say(rig, "rest" GET);
    cr_assert_str_eq(rig->requests.p, "POST a / [somerest] \nGET a / [] \n");
    cr_assert_str_eq(rig->events.p, "begun complete exchange idle begun complete exchange ");
    cr_assert_eq(rig->finished, 1);
    rig_free(rig);
}

Test(h1_server_flow, the_rest_that_is_no_longer_wanted_is_thrown_away)
{
    struct rig *rig = start();
    rig_say(rig, POST("Content-Length: 8\r\n") "some");
    answer(rig, 200, "early");
    rig_say(rig, "re");
    wr_message_stop(&rig->exchange->request, WR_ERR_CANCELLED);
    rig_say(rig, "st" GET);
    cr_assert_str_eq(rig->requests.p, "GET a / [] \n");
    rig_free(rig);
}

static void rest_expires(struct rig *rig)
{
    wr_loop_advance(rig->loop, 11 * WR_SEC);
}

static void rest_is_drained(struct rig *rig)
{
    rig->server->ops->drain(rig->server);
}

Test(h1_server_flow, the_rest_that_does_not_come_ends_the_connection)
{
    static void (*const ends[])(struct rig * rig) = {rest_expires, rest_is_drained, rig_peer_ends};
    for (size_t i = 0; i < WR_COUNT_OF(ends); i++) {
        struct rig *rig = start();
        rig->host.inactivity_timeout = 10 * WR_SEC;
        rig_say(rig, POST("Content-Length: 1000\r\n") "some");
        answer(rig, 413, "no");
        wr_loop_advance(rig->loop, 9 * WR_SEC);
        rig_say(rig, "more");
        wr_loop_advance(rig->loop, 9 * WR_SEC);
        cr_assert_str_eq(rig->events.p, "begun complete exchange ");
        ends[i](rig);
        rig_settle(rig);
        cr_assert_str_eq(rig->events.p, "begun complete exchange done:ok ", "%zu", i);
        cr_assert(rig->heard_end);
        cr_assert_eq(rig->finished, 1);
        rig_free(rig);
    }
}

static const char *const large_rests[] = {
    POST("Content-Length: 100000\r\n") "GET /evil HTTP/1.1\r\nHost: a\r\n\r\n",
    POST("Transfer-Encoding: chunked\r\n") "2\r\nab\r\n",
};

Test(h1_server_flow, a_large_or_unknown_rest_closes_and_is_never_parsed)
{
    for (size_t i = 0; i < WR_COUNT_OF(large_rests); i++) {
        struct rig *rig = start();
        rig_say(rig, large_rests[i]);
        answer(rig, 413, "no");
        cr_assert(heard(rig, "connection: close\r\n\r\nno"), "row %zu", i);
        cr_assert(rig->heard_end);
        rig_say(rig, "0\r\n\r\nGET /evil HTTP/1.1\r\nHost: a\r\n\r\n");
        cr_assert_str_eq(rig->events.p, "begun complete exchange done:ok ");
        rig_free(rig);
    }
}

Test(h1_server_flow, content_nobody_wants_is_read_while_the_answer_is_being_made)
{
    struct rig *rig = start();
    rig->collector.holds = true;
    rig_say(rig, POST("Content-Length: 300000\r\n"));
    static char content[300000];
    memset(content, 'x', sizeof(content));
    rig_say_n(rig, content, sizeof(content));
    cr_assert_lt(wr_transport_bytes_received(rig->transport), 300000);
    rig->collector.holds = false;
    wr_message_stop(&rig->exchange->request, WR_ERR_CANCELLED);
    rig_settle(rig);
    answer(rig, 200, "fine");
    cr_assert(heard(rig, "\r\n\r\nfine"));
    rig_free(rig);
}

Test(h1_server_flow, an_answer_may_come_with_the_request_still_wanted)
{
    struct rig *rig = start();
    rig_say(rig, POST("Content-Length: 6\r\n") "abc");
    rig_answer_head(rig, 200, WR_LENGTH_UNKNOWN, "", 0);
    wr_message_put(&rig->exchange->response, "one", 3);
    rig_say(rig, "def");
    cr_assert_str_eq(rig->requests.p, "POST a / [abcdef] \n");
    wr_message_put(&rig->exchange->response, "two", 3);
    wr_message_end(&rig->exchange->response, NULL);
    rig_settle(rig);
    cr_assert(heard(rig, "\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"));
    cr_assert_str_eq(rig->events.p, "begun complete exchange idle ");
    rig_free(rig);
}

/* ---- back-pressure ---- */

Test(h1_server_flow, content_is_read_no_faster_than_it_is_taken)
{
    struct rig *rig = start();
    rig->collector.holds = true;
    rig_say(rig, POST("Content-Length: 1000000\r\n"));
    static char content[1000000];
    for (size_t i = 0; i < sizeof(content); i++)
        content[i] = (char)('a' + i % 23);
    size_t sent = 0;
    for (int i = 0; i < 100; i++) {
        ssize_t k = send(rig->peer, content + sent, sizeof(content) - sent, MSG_NOSIGNAL);
        sent += k > 0 ? (size_t)k : 0;
        wr_loop_turn(rig->loop, 0);
    }
    cr_assert_eq(rig->exchange->request.put_bytes, rig->host.content_limit);
    collector_take(&rig->collector, 1000);
    rig_settle(rig);
    cr_assert_eq(wr_message_room(&rig->exchange->request), 1000, "resumes below half");
    rig->collector.holds = false;
    collector_take(&rig->collector, SIZE_MAX);
    rig_say_n(rig, content + sent, sizeof(content) - sent);
    cr_assert(rig->collector.ended);
    cr_assert_eq(rig->collector.content.n, sizeof(content));
    cr_assert_eq(memcmp(rig->collector.content.p, content, sizeof(content)), 0);
    rig_free(rig);
}

Test(h1_server_flow, content_is_taken_no_faster_than_the_client_reads)
{
    static char piece[16384];
    struct rig *rig = start();
    size_t put = 0;
    memset(piece, 'p', sizeof(piece));
    rig_say(rig, GET);
    rig_answer_head(rig, 200, 8000000, "", 0);
    struct wr_message *response = &rig->exchange->response;
    for (int i = 0; i < 2000 && put < 8000000; i++) {
        size_t n = wr_message_room(response);
        n = n < sizeof(piece) ? n : sizeof(piece);
        n = n < 8000000 - put ? n : 8000000 - put;
        wr_message_put(response, piece, n);
        put += n;
        wr_loop_turn(rig->loop, 0);
    }
    cr_assert_lt(put, 2000000);
    cr_assert_lt(wr_transport_output(rig->transport), 160u * 1024);
    while (put < 8000000) {
        size_t n = wr_message_room(response);
        n = n < sizeof(piece) ? n : sizeof(piece);
        n = n < 8000000 - put ? n : 8000000 - put;
        wr_message_put(response, piece, n);
        put += n;
        rig_settle(rig);
    }
    wr_message_end(response, NULL);
    rig_settle(rig);
    cr_assert_gt(rig->heard.n, 8000000);
    cr_assert_str_eq(rig->events.p, "begun complete exchange idle ");
    rig_free(rig);
}

/* ---- the client goes (behaviour row 25) ---- */

Test(h1_server_flow, a_client_that_has_said_all_is_still_answered)
{
    struct rig *rig = start();
    rig_say(rig, GET);
    rig_peer_ends(rig);
    answer(rig, 200, "late");
    cr_assert(heard(rig, "connection: close\r\n\r\nlate"));
    cr_assert(rig->heard_end);
    cr_assert_str_eq(rig->events.p, "begun complete exchange done:ok ");
    rig_free(rig);
}

Test(h1_server_flow, a_client_that_goes_within_its_request_takes_the_exchange_along)
{
    struct rig *rig = start();
    rig_say(rig, POST("Content-Length: 10\r\n") "abc");
    wr_message_set_source(&rig->exchange->response, &feeder_ops, &rig->feeder);
    rig_peer_ends(rig);
    cr_assert(rig->collector.aborted);
    cr_assert_eq(rig->collector.why, WR_ERR_CLIENT_CLOSED);
    cr_assert(rig->feeder.stopped, "the upstream is cancelled");
    cr_assert_str_eq(rig->events.p, "begun complete exchange done:client_closed ");
    rig_free(rig);
}

Test(h1_server_flow, a_client_that_goes_between_requests_or_in_a_head_ends_in_silence)
{
    static const char *const said[] = {"", "GET / HT", GET "GE"};
    for (size_t i = 0; i < WR_COUNT_OF(said); i++) {
        struct rig *rig = rig_new(false);
        rig_start(rig);
        rig_say(rig, said[i]);
        rig_forget(rig);
        rig_peer_ends(rig);
        cr_assert_str_eq(rig->heard.p, "");
        cr_assert(rig->heard_end);
        cr_assert_str_eq(rig->events.p, "done:ok ");
        rig_free(rig);
    }
}

Test(h1_server_flow, a_reset_while_waiting_cancels)
{
    struct rig *rig = rig_new(false);
    rig->on_exchange = rig_wait_with;
    rig->tcp = true;
    rig_start(rig);
    rig_say(rig, GET);
    wr_message_set_source(&rig->exchange->response, &feeder_ops, &rig->feeder);
    wr_socket_reset(rig->peer);
    rig->peer = -1;
    rig_settle(rig);
    cr_assert(rig->feeder.stopped);
    cr_assert_str_eq(rig->events.p, "begun complete exchange done:client_reset ");
    rig_free(rig);
}

Test(h1_server_flow, the_rest_of_an_answered_request_may_never_come)
{
    struct rig *rig = start();
    rig_say(rig, POST("Content-Length: 100\r\n") "abc");
    wr_message_stop(&rig->exchange->request, WR_ERR_CANCELLED);
    rig_peer_ends(rig);
    answer(rig, 200, "early");
    cr_assert(heard(rig, "connection: close\r\n\r\nearly"));
    rig_free(rig);
}

/* ---- deadlines of the owner (behaviour row 52) ---- */

Test(h1_server_flow, a_slow_head_is_408)
{
    struct rig *rig = start();
    rig_say(rig, "GET /slow HTTP/1.1\r\nHost: ");
    rig->server->ops->timed_out(rig->server, WR_ERR_REQUEST_HEADER_TIMEOUT);
    rig_settle(rig);
    cr_assert(heard(rig, "HTTP/1.1 408 Request Timeout\r\n"));
    cr_assert(heard(rig, "connection: close\r\n"));
    cr_assert_str_eq(rig->events.p, "begun complete refused:request_header_timeout done:ok ");
    rig_free(rig);
}

Test(h1_server_flow, idleness_ends_in_silence)
{
    static const char *const said[] = {"", "\r\n", GET};
    for (size_t i = 0; i < WR_COUNT_OF(said); i++) {
        struct rig *rig = rig_new(false);
        rig_start(rig);
        rig_say(rig, said[i]);
        rig_forget(rig);
        rig->server->ops->timed_out(rig->server, WR_ERR_KEEP_ALIVE_TIMEOUT);
        rig_settle(rig);
        cr_assert_str_eq(rig->heard.p, "");
        cr_assert(rig->heard_end);
        cr_assert_str_eq(rig->events.p, "done:ok ");
        rig_free(rig);
    }
}

Test(h1_server_flow, stalled_content_is_the_exchanges_deadline)
{
    struct rig *rig = start();
    rig->host.inactivity_timeout = 10 * WR_SEC;
    rig_say(rig, POST("Content-Length: 5\r\n") "a");
    wr_loop_advance(rig->loop, 9 * WR_SEC);
    rig_say(rig, "b");
    wr_loop_advance(rig->loop, 9 * WR_SEC);
    cr_assert_null(strstr(rig->events.p, "expired"));
    wr_loop_advance(rig->loop, 2 * WR_SEC);
    rig_settle(rig);
    cr_assert(heard(rig, "connection: close\r\n"));
    cr_assert_str_eq(rig->events.p,
                     "begun complete exchange expired:request_content_timeout done:ok ");
    rig_free(rig);
}

/* ---- content that turns out to be malformed ---- */

Test(h1_server_flow, a_bad_chunk_aborts_the_request_and_closes)
{
    struct rig *rig = start();
    rig_say(rig, POST("Transfer-Encoding: chunked\r\n") "3\r\nabc\r\nx\r\n" GET);
    cr_assert(rig->collector.aborted);
    cr_assert_eq(rig->collector.why, WR_ERR_BAD_REQUEST);
    cr_assert(heard(rig, "HTTP/1.1 400 Bad Request\r\n"));
    cr_assert(heard(rig, "connection: close\r\n"));
    cr_assert_str_eq(rig->events.p, "begun complete exchange done:ok ");
    rig_free(rig);
}

Test(h1_server_flow, a_bad_chunk_nobody_wants_closes_after_the_answer)
{
    struct rig *rig = start();
    rig_say(rig, POST("Transfer-Encoding: chunked\r\n") "3\r\nabc\r\n");
    wr_message_stop(&rig->exchange->request, WR_ERR_CANCELLED);
    rig_say(rig, "x\r\n" GET);
    answer(rig, 200, "done");
    cr_assert(heard(rig, "connection: close\r\n\r\ndone"));
    cr_assert_str_eq(rig->events.p, "begun complete exchange done:ok ");
    rig_free(rig);
}

/* ---- closing from above ---- */

Test(h1_server_flow, close_gives_up_what_is_in_flight_and_may_come_twice)
{
    struct rig *rig = start();
    rig_say(rig, POST("Content-Length: 5\r\n") "a");
    wr_message_set_source(&rig->exchange->response, &feeder_ops, &rig->feeder);
    struct wr_server_codec *server = rig->server;
    rig->server = NULL;
    server->ops->close(server, WR_ERR_DRAINING);
    server->ops->close(server, WR_ERR_DRAINING);
    cr_assert(rig->feeder.stopped);
    cr_assert_eq(rig->collector.why, WR_ERR_DRAINING);
    cr_assert_eq(rig->finished, 1);
    wr_transport_close(rig->transport);
    rig->transport = NULL;
    rig_free(rig);
}

/* ---- fairness ---- */

static void answer_at_once(struct rig *rig)
{
    rig_answer_head(rig, 204, 0, "", WR_HEAD_LAST);
}

Test(h1_server_flow, many_requests_in_one_read_leave_others_their_turn)
{
    enum { REQUESTS = 1000, A_TURN = 64 };
    struct rig *rig = rig_new(false);
    rig->on_exchange = answer_at_once;
    rig_start(rig);
    struct text all = {0};
    for (unsigned i = 0; i < REQUESTS; i++)
        text_add(&all, GET, sizeof(GET) - 1);
    cr_assert_eq(send(rig->peer, all.p, all.n, 0), (ssize_t)all.n);
    text_free(&all);
    unsigned before = 0;
    for (unsigned turn = 0; rig->finished < REQUESTS && turn < REQUESTS; turn++) {
        wr_loop_turn(rig->loop, 0);
        cr_assert_leq(rig->finished - before, A_TURN, "of one client's, in one turn");
        before = rig->finished;
    }
    cr_assert_eq(rig->finished, REQUESTS, "none is forgotten");
    rig_free(rig);
}
