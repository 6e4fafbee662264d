/* HTTP/1.1 towards clients: keep-alive, pipelining, framing of responses, 100-continue, early answers, half close, limits. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "support/h1_rig.h"

#define GET "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
#define GET10 "GET / HTTP/1.0\r\n\r\n"

static struct rig *start(void)
{
    struct rig *rig = rig_new(false);
    rig_start(rig);
    return rig;
}

/* The line of `date`, whose value depends on the clock, is taken out. */
static void check_heard(struct rig *rig, const char *expected)
{
    struct text text = {0};
    const char *at = rig->heard.p;
    for (const char *date; (date = strstr(at, "date: ")) != NULL;) {
        text_add(&text, at, (size_t)(date - at));
        at = strstr(date, "\r\n") + 2;
    }
    text_add(&text, at, strlen(at));
    cr_assert_str_eq(text.p, expected);
    text_free(&text);
}

Test(h1_server, answers_a_request)
{
    struct rig *rig = start();
    rig_say(rig, "GET /x?y HTTP/1.1\r\nHost: Example.COM:80\r\nX-One:  two words \r\n\r\n");
    cr_assert_str_eq(rig->requests.p, "GET example.com:80 /x?y [] x-one=two words;\n");
    check_heard(rig, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    cr_assert_str_eq(rig->events.p, "begun complete exchange idle ");
    rig_free(rig);
}

Test(h1_server, adds_a_date_but_never_a_second)
{
    struct rig *rig = start();
    rig->on_exchange = rig_wait_with;
    rig_say(rig, GET);
    rig_answer_head(rig, 200, 0, "date: mine\n", WR_HEAD_LAST);
    rig_settle(rig);
    cr_assert_str_eq(rig->heard.p, "HTTP/1.1 200 OK\r\ndate: mine\r\ncontent-length: 0\r\n\r\n");
    rig_forget(rig);
    rig_say(rig, GET);
    rig_answer(rig, 200, "");
    rig_settle(rig);
    cr_assert_not_null(strstr(rig->heard.p, "\r\ndate: "));
    cr_assert_not_null(strstr(rig->heard.p, " GMT\r\n"));
    rig_free(rig);
}

Test(h1_server, echoes_content_of_known_length)
{
    struct rig *rig = start();
    rig_say(rig, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello");
    check_heard(rig, "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello");
    rig_free(rig);
}

Test(h1_server, reads_chunks_and_trailers)
{
    struct rig *rig = start();
    rig_say(
        rig,
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
        "5;ext=\"1\"\r\nhello\r\n01\r\n!\r\n0\r\nX-Sum: 7\r\nContent-Length: 3\r\nHost: b\r\n\r\n");
    cr_assert_str_eq(rig->requests.p, "POST a / [hello!]  +x-sum=7;\n");
    rig_free(rig);
}

Test(h1_server, serves_pipelined_requests_one_after_another)
{
    struct rig *rig = start();
    rig->on_exchange = rig_wait_with;
    rig_say(rig, "GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n");
    cr_assert_str_eq(rig->requests.p, "GET a /1 [] \n");
    rig_answer(rig, 200, "one");
    rig_settle(rig);
    cr_assert_str_eq(rig->requests.p, "GET a /1 [] \nGET a /2 [] \n");
    rig_answer(rig, 200, "two");
    rig_settle(rig);
    check_heard(rig, "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\none"
                     "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\ntwo");
    cr_assert_str_eq(rig->events.p, "begun complete exchange idle begun complete exchange idle ");
    rig_free(rig);
}

Test(h1_server, serves_many_pipelined_requests_answered_at_once)
{
    struct rig *rig = start();
    struct text all = {0};
    for (int i = 0; i < 500; i++)
        text_say(&all, GET);
    rig_say_n(rig, all.p, all.n);
    cr_assert_eq(rig->finished, 500);
    text_free(&all);
    rig_free(rig);
}

Test(h1_server, a_client_that_does_not_read_gets_no_more_made)
{
    struct rig *rig = start();
    struct text all = {0};
    for (int i = 0; i < 40000; i++)
        text_say(&all, GET);
    size_t sent = 0;
    for (int i = 0; i < 2000; i++) {
        ssize_t k = send(rig->peer, all.p + sent, all.n - sent, MSG_NOSIGNAL);
        sent += k > 0 ? (size_t)k : 0;
        wr_loop_turn(rig->loop, 0);
    }
    cr_assert_lt(rig->finished, 40000);
    cr_assert_lt(wr_transport_output(rig->transport), 256u * 1024);
    rig_say_n(rig, all.p + sent, all.n - sent);
    cr_assert_eq(rig->finished, 40000);
    text_free(&all);
    rig_free(rig);
}

/* ---- keep-alive ---- */

struct keep_row {
    const char *request;
    const char *response; /* to an empty 200 */
    bool kept;
};

static const struct keep_row keep_rows[] = {
    {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", true},
    {"GET / HTTP/1.1\r\nHost: a\r\nConnection: x, CLOSE\r\n\r\n",
     "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n", false},
    {"GET / HTTP/1.5\r\nHost: a\r\n\r\n", "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", true},
    {GET10, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", false},
    {"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n",
     "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: keep-alive\r\n\r\n", true},
    {"GET / HTTP/1.0\r\nConnection: keep-alive\r\nConnection: close\r\n\r\n",
     "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", false},
    {"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
     "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", true},
};

Test(h1_server, keep_alive_follows_the_table)
{
    for (size_t i = 0; i < WR_COUNT_OF(keep_rows); i++) {
        struct rig *rig = start();
        rig_say(rig, keep_rows[i].request);
        check_heard(rig, keep_rows[i].response);
        cr_assert_eq(rig->heard_end, !keep_rows[i].kept, "row %zu", i);
        cr_assert_str_eq(rig->events.p, keep_rows[i].kept ? "begun complete exchange idle "
                                                          : "begun complete exchange done:ok ");
        if (keep_rows[i].kept) {
            rig_say(rig, GET);
            cr_assert_eq(rig->finished, 2);
        }
        rig_free(rig);
    }
}

Test(h1_server, the_last_of_max_requests_says_close)
{
    struct rig *rig = rig_new(false);
    rig->server_options.max_requests = 2;
    rig_start(rig);
    rig_say(rig, GET GET GET);
    check_heard(rig, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
                     "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    cr_assert(rig->heard_end);
    rig_free(rig);
}

Test(h1_server, the_handler_may_end_the_connection)
{
    struct rig *rig = start();
    rig->on_exchange = rig_wait_with;
    rig_say(rig, GET);
    rig->exchange->client_keeps = false;
    rig_answer(rig, 200, "x");
    rig_settle(rig);
    check_heard(rig, "HTTP/1.1 200 OK\r\ncontent-length: 1\r\nconnection: close\r\n\r\nx");
    cr_assert(rig->heard_end);
    rig_free(rig);
}

Test(h1_server, drain_ends_an_idle_connection_at_once)
{
    struct rig *rig = start();
    rig_say(rig, GET);
    rig_forget(rig);
    rig->server->ops->drain(rig->server);
    rig_settle(rig);
    cr_assert_str_eq(rig->events.p, "done:ok ");
    cr_assert(rig->heard_end);
    rig_free(rig);
}

Test(h1_server, drain_lets_a_request_be_answered)
{
    struct rig *rig = start();
    rig->on_exchange = rig_wait_with;
    rig_say(rig, "GET / HTTP/1.1\r\nHo");
    rig->server->ops->drain(rig->server);
    rig_say(rig, "st: a\r\n\r\n");
    rig_answer(rig, 200, "x");
    rig_settle(rig);
    check_heard(rig, "HTTP/1.1 200 OK\r\ncontent-length: 1\r\nconnection: close\r\n\r\nx");
    cr_assert_str_eq(rig->events.p, "begun complete exchange done:ok ");
    rig_free(rig);
}

/* ---- responses ---- */

struct response_row {
    const char *request;
    unsigned status;
    int64_t length;
    const char *body;
    const char *expected;
    bool kept;
};

static const struct response_row response_rows[] = {
    {GET, 200, WR_LENGTH_UNKNOWN, "hello",
     "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", true},
    {GET10, 200, WR_LENGTH_UNKNOWN, "hello", "HTTP/1.1 200 OK\r\n\r\nhello", false},
    {"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n", 200, 5, "",
     "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n", true},
    {"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n", 200, 5, "hello",
     "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n", true},
    {"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n", 200, WR_LENGTH_UNKNOWN, "", "HTTP/1.1 200 OK\r\n\r\n",
     true},
    {GET, 204, 5, "", "HTTP/1.1 204 No Content\r\n\r\n", true},
    {GET, 204, WR_LENGTH_UNKNOWN, "", "HTTP/1.1 204 No Content\r\n\r\n", true},
    {GET, 304, 5, "", "HTTP/1.1 304 Not Modified\r\ncontent-length: 5\r\n\r\n", true},
    {GET, 599, 2, "no", "HTTP/1.1 599 \r\ncontent-length: 2\r\n\r\nno", true},
    {GET, 200, 3, "hello", "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nhel", true},
};

Test(h1_server, responses_are_framed_as_the_table_says)
{
    for (size_t i = 0; i < WR_COUNT_OF(response_rows); i++) {
        const struct response_row *row = &response_rows[i];
        struct rig *rig = start();
        rig->on_exchange = rig_wait_with;
        rig_say(rig, row->request);
        rig_answer_head(rig, row->status, row->length, "", 0);
        struct wr_message *response = &rig->exchange->response;
        wr_message_put(response, row->body, strlen(row->body));
        if (rig->exchange != NULL)
            wr_message_end(response, NULL);
        rig_settle(rig);
        check_heard(rig, row->expected);
        cr_assert_eq(rig->heard_end, !row->kept, "row %zu", i);
        rig_free(rig);
    }
}

Test(h1_server, no_field_can_frame_or_route_by_itself)
{
    struct rig *rig = start();
    rig->on_exchange = rig_wait_with;
    rig_say(rig, GET);
    rig_answer_head(rig, 200, 1,
                    "content-length: 9\ntransfer-encoding: chunked\nconnection: x\nkeep-alive: 1\n"
                    "upgrade: h2c\nhost: b\nx: y\n",
                    0);
    wr_message_put(&rig->exchange->response, "1", 1);
    wr_message_end(&rig->exchange->response, NULL);
    rig_settle(rig);
    check_heard(rig, "HTTP/1.1 200 OK\r\nx: y\r\ncontent-length: 1\r\n\r\n1");
    rig_free(rig);
}

/* The forwarding fields of a head are replaced; what follows the content must not bring them in again (behaviour row 59). */
Test(h1_server, trailers_do_not_say_who_the_client_is)
{
    struct rig *rig = start();
    rig_say(rig, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"
                 "X-Forwarded-For: 1.1.1.1\r\nX-Forwarded-Port: 1\r\nX-Request-Id: mine\r\n"
                 "X-Sum: 1\r\n\r\n");
    cr_assert_str_eq(rig->requests.p, "POST a / []  +x-sum=1;\n");
    rig_free(rig);
}

Test(h1_server, trailers_go_out_with_chunks_only)
{
    static const char *const requests[] = {GET, GET10};
    static const char *const expected[] = {
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nsum: 1\r\n\r\n",
        "HTTP/1.1 200 OK\r\n\r\nx"};
    for (size_t i = 0; i < 2; i++) {
        struct rig *rig = start();
        rig->on_exchange = rig_wait_with;
        rig_say(rig, requests[i]);
        rig_answer_head(rig, 200, WR_LENGTH_UNKNOWN, "", 0);
        struct wr_exchange *exchange = rig->exchange;
        struct wr_fields trailers;
        wr_fields_init(&trailers);
        wr_fields_add(&trailers, &exchange->arena, WR_STR("sum"), WR_STR("1"));
        wr_fields_add(&trailers, &exchange->arena, WR_STR("content-length"), WR_STR("7"));
        wr_message_put(&exchange->response, "x", 1);
        wr_message_end(&exchange->response, &trailers);
        rig_settle(rig);
        check_heard(rig, expected[i]);
        rig_free(rig);
    }
}

Test(h1_server, interim_heads_go_to_modern_clients_only)
{
    static const char *const requests[] = {GET, GET10};
    static const char *const expected[] = {
        "HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n"
        "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"};
    for (size_t i = 0; i < 2; i++) {
        struct rig *rig = start();
        rig->on_exchange = rig_wait_with;
        rig_say(rig, requests[i]);
        rig_answer_head(rig, 103, 0, "link: x\n", WR_HEAD_INTERIM);
        rig_answer_head(rig, 102, 0, "", WR_HEAD_INTERIM);
        rig_answer_head(rig, 101, 0, "upgrade: x\n", WR_HEAD_INTERIM);
        rig_answer(rig, 200, "");
        rig_settle(rig);
        check_heard(rig, expected[i]);
        rig_free(rig);
    }
}

Test(h1_server, a_small_response_costs_one_write)
{
    struct rig *rig = start();
    rig->on_exchange = rig_wait_with;
    rig_say(rig, GET);
    rig_answer(rig, 200, "hello");
    wr_loop_turn(rig->loop, 0);
    char buffer[1024];
    ssize_t n = recv(rig->peer, buffer, sizeof(buffer) - 1, 0);
    cr_assert_gt(n, 0);
    buffer[n] = '\0';
    cr_assert_not_null(strstr(buffer, "\r\n\r\nhello"));
    rig_free(rig);
}

Test(h1_server, a_head_larger_than_a_chunk_arrives_whole)
{
    struct rig *rig = start();
    rig->on_exchange = rig_wait_with;
    rig_say(rig, GET);
    struct text fields = {0};
    text_add(&fields, "x: ", 3);
    for (int i = 0; i < 40000; i++)
        text_add(&fields, "v", 1);
    text_add(&fields, "\n", 1);
    rig_answer_head(rig, 200, 0, fields.p, WR_HEAD_LAST);
    rig_settle(rig);
    cr_assert_gt(rig->heard.n, 40000);
    cr_assert_str_eq(rig->heard.p + rig->heard.n - 24, "v\r\ncontent-length: 0\r\n\r\n");
    text_free(&fields);
    rig_free(rig);
}
