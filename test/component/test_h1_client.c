/* HTTP/1.1 towards upstreams: requests written, responses read, reuse, retries made safe, early answers. */
#include <criterion/criterion.h>
#include <string.h>

#include "codec/h1_client_internal.h"
#include "support/h1_rig.h"

#define OK "HTTP/1.1 200 OK\r\n"

static struct rig *start(void)
{
    struct rig *rig = rig_new(true);
    rig_start(rig);
    return rig;
}

static void put(struct rig *rig, const char *content)
{
    wr_message_put(&rig->exchange->request, content, strlen(content));
}

static void get(struct rig *rig)
{
    rig_open(rig, "GET", 0, "");
    rig_settle(rig);
}

/* ---- requests ---- */

Test(h1_client, writes_a_request_in_one_piece)
{
    struct rig *rig = start();
    rig_open(rig, "GET", 0, "accept: x\nx-empty:\n");
    wr_loop_turn(rig->loop, 0);
    char buffer[1024];
    ssize_t n = recv(rig->peer, buffer, sizeof(buffer) - 1, 0);
    cr_assert_gt(n, 0);
    buffer[n] = '\0';
    cr_assert_str_eq(buffer,
                     "GET /path?q HTTP/1.1\r\nhost: origin.test\r\naccept: x\r\nx-empty: \r\n\r\n");
    rig_free(rig);
}

Test(h1_client, frames_requests_by_what_the_head_says)
{
    struct rig *rig = start();
    rig_open(rig, "POST", 5, "");
    put(rig, "hello");
    wr_message_end(&rig->exchange->request, NULL);
    rig_settle(rig);
    cr_assert_str_eq(
        rig->heard.p,
        "POST /path?q HTTP/1.1\r\nhost: origin.test\r\ncontent-length: 5\r\n\r\nhello");
    rig_free(rig);

    rig = start();
    rig_open(rig, "GET", WR_LENGTH_UNKNOWN, "");
    put(rig, "hello");
    rig_settle(rig);
    put(rig, "there");
    struct wr_fields trailers;
    wr_fields_init(&trailers);
    wr_fields_add(&trailers, &rig->exchange->arena, WR_STR("sum"), WR_STR("1"));
    wr_message_end(&rig->exchange->request, &trailers);
    rig_settle(rig);
    cr_assert_str_eq(
        rig->heard.p,
        "GET /path?q HTTP/1.1\r\nhost: origin.test\r\ntransfer-encoding: chunked\r\n\r\n"
        "5\r\nhello\r\n5\r\nthere\r\n0\r\nsum: 1\r\n\r\n");
    rig_free(rig);

    rig = start();
    rig_open(rig, "POST", 0, "");
    rig_settle(rig);
    cr_assert_str_eq(rig->heard.p,
                     "POST /path?q HTTP/1.1\r\nhost: origin.test\r\ncontent-length: 0\r\n\r\n");
    rig_free(rig);
}

Test(h1_client, no_field_can_frame_or_route_by_itself)
{
    struct rig *rig = start();
    rig_open(rig, "GET", 0,
             "content-length: 9\ntransfer-encoding: chunked\nconnection: x\nhost: evil\nexpect: x\n"
             "te: trailers\nupgrade: h2c\nx: y\n");
    rig_settle(rig);
    cr_assert_str_eq(rig->heard.p, "GET /path?q HTTP/1.1\r\nhost: origin.test\r\nx: y\r\n\r\n");
    rig_free(rig);
}

Test(h1_client, content_is_taken_no_faster_than_the_upstream_reads)
{
    static char piece[60000];
    struct rig *rig = start();
    rig_open(rig, "POST", 6000000, "");
    struct wr_message *request = &rig->exchange->request;
    size_t put_bytes = 0;
    for (int i = 0; i < 500; i++) {
        if (wr_message_room(request) >= sizeof(piece)) {
            wr_message_put(request, piece, sizeof(piece));
            put_bytes += sizeof(piece);
        }
        wr_loop_turn(rig->loop, 0);
    }
    cr_assert_lt(put_bytes, 2000000);
    while (put_bytes < 6000000) {
        rig_settle(rig);
        cr_assert_geq(wr_message_room(request), sizeof(piece));
        wr_message_put(request, piece, sizeof(piece));
        put_bytes += sizeof(piece);
    }
    wr_message_end(request, NULL);
    rig_settle(rig);
    cr_assert_gt(rig->heard.n, 6000000);
    rig_free(rig);
}

/* ---- reuse ---- */

struct reuse_row {
    const char *method;
    const char *response;
    const char *content;
    const char *events;
};

static const struct reuse_row reuse_rows[] = {
    {"GET", OK "Content-Length: 2\r\n\r\nok", "ok", "closed:reusable "},
    {"GET", OK "Content-Length: 0\r\n\r\n", "", "closed:reusable "},
    {"GET", OK "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", "ok", "closed:reusable "},
    {"GET", OK "Content-Length: 2\r\nConnection: close\r\n\r\nok", "ok", "closed:spent "},
    {"GET", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", "ok", "closed:spent "},
    {"GET", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok", "ok",
     "closed:reusable "},
    {"HEAD", OK "Content-Length: 200\r\n\r\n", "", "closed:reusable "},
    {"HEAD", OK "Transfer-Encoding: chunked\r\n\r\n", "", "closed:reusable "},
    {"HEAD", OK "\r\n", "", "closed:reusable "},
    {"GET", "HTTP/1.1 204 No Content\r\n\r\n", "", "closed:reusable "},
    {"GET", "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", "", "closed:reusable "},
    {"GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", "", "closed:reusable "},
    /* surplus bytes (behaviour rows 18, 23) */
    {"GET", OK "Content-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n\r\n", "ok", "closed:spent "},
    {"HEAD", OK "Content-Length: 2\r\n\r\nok", "", "closed:spent "},
    {"GET", "HTTP/1.1 204 No Content\r\n\r\nx", "", "closed:spent "},
    {"GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 1\r\n\r\nx", "", "closed:spent "},
};

Test(h1_client, reuse_follows_the_table)
{
    for (size_t i = 0; i < WR_COUNT_OF(reuse_rows); i++) {
        const struct reuse_row *row = &reuse_rows[i];
        struct rig *rig = start();
        rig_open(rig, row->method, 0, "");
        rig_settle(rig);
        rig_say(rig, row->response);
        cr_assert(rig->collector.ended, "row %zu", i);
        cr_assert_str_eq(rig->collector.content.p, row->content);
        cr_assert_str_eq(rig->events.p, row->events, "row %zu", i);
        rig_finish(rig, WR_OK);
        if (rig->client != NULL) {
            cr_assert_eq(rig->client->ops->capacity(rig->client), 1);
            get(rig);
            rig_say(rig, OK "Content-Length: 3\r\n\r\ntwo");
            cr_assert_str_eq(rig->collector.content.p, "two");
        }
        rig_free(rig);
    }
}

Test(h1_client, content_until_close_ends_with_the_connection)
{
    struct rig *rig = start();
    get(rig);
    rig_say(rig, OK "\r\nall of ");
    rig_say(rig, "it");
    cr_assert_eq(rig->collector.head->content_length, WR_LENGTH_UNKNOWN);
    cr_assert_not(rig->collector.ended);
    rig_peer_ends(rig);
    cr_assert(rig->collector.ended);
    cr_assert_str_eq(rig->collector.content.p, "all of it");
    cr_assert_str_eq(rig->events.p, "closed:spent ");
    rig_free(rig);
}

/* Behaviour row 51: on TLS the end may be someone else's doing. */
Test(h1_client, content_until_close_without_close_notify_is_incomplete)
{
    struct rig *rig = start();
    get(rig);
    rig_say(rig, OK "\r\nall of ");
    wr_h1_client_transport_events.read_end(rig->client, false);
    cr_assert_eq(rig->collector.why, WR_ERR_RESPONSE_INCOMPLETE);
    cr_assert_str_eq(rig->events.p, "closed:spent ");
    rig_free(rig);
}

Test(h1_client, trailers_are_handed_up)
{
    struct rig *rig = start();
    get(rig);
    rig_say(rig,
            OK "Transfer-Encoding: chunked\r\n\r\n0\r\nGrpc-Status: 0\r\nSet-Cookie: x\r\n\r\n");
    cr_assert_str_eq(rig->collector.trailers.p, "grpc-status=0;");
    rig_free(rig);
}

Test(h1_client, idle_connections_break)
{
    struct rig *rig = start();
    rig_say(rig, OK "Content-Length: 0\r\n\r\n");
    cr_assert_str_eq(rig->events.p, "broken:bad_response ", "an answer before any question");
    rig_free(rig);

    rig = start();
    get(rig);
    rig_say(rig, OK "Content-Length: 0\r\n\r\n");
    rig_finish(rig, WR_OK);
    rig_say(rig, "x");
    cr_assert_str_eq(rig->events.p, "closed:reusable broken:bad_response ");
    rig_free(rig);

    rig = start();
    rig_peer_ends(rig);
    cr_assert_str_eq(rig->events.p, "broken:upstream_closed ");
    rig_free(rig);
}

Test(h1_client, an_answer_before_the_request_is_on_the_wire_is_not_delivered)
{
    struct rig *rig = start();
    static const char answer[] = OK "Content-Length: 1\r\n\r\nx";
    rig_open(rig, "POST", 0, "");
    struct wr_exchange *exchange = rig->exchange;
    /* What the transport would do, had the bytes come before it could send. */
    (void)wr_h1_client_transport_events.readable(rig->client, (const uint8_t *)answer,
                                                 sizeof(answer) - 1);
    cr_assert_str_eq(rig->events.p, "closed:spent ");
    cr_assert(rig->collector.aborted);
    cr_assert_eq(rig->collector.why, WR_ERR_UPSTREAM_CLOSED);
    cr_assert(exchange->request_unsent);
    rig_free(rig);
}

/* ---- interim heads (behaviour row 19) ---- */

Test(h1_client, interim_heads_are_handed_up)
{
    struct rig *rig = start();
    rig_open(rig, "POST", 2, "");
    rig_say(rig, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 "
                 "103 Early Hints\r\n\r\n");
    cr_assert_str_eq(rig->collector.interim.p, "100 103 103 ");
    put(rig, "ok");
    wr_message_end(&rig->exchange->request, NULL);
    rig_settle(rig);
    rig_say(rig, "HTTP/1.1 102 Processing\r\n\r\n" OK "Content-Length: 1\r\n\r\n!");
    cr_assert_str_eq(rig->collector.interim.p, "100 103 103 102 ");
    cr_assert_str_eq(rig->collector.content.p, "!");
    cr_assert_str_eq(rig->events.p, "closed:reusable ");
    rig_free(rig);
}

Test(h1_client, interim_heads_without_end_are_refused)
{
    struct rig *rig = start();
    get(rig);
    for (int i = 0; i < 40; i++)
        rig_say(rig, "HTTP/1.1 103 Early Hints\r\n\r\n");
    cr_assert(rig->collector.aborted);
    cr_assert_eq(rig->collector.why, WR_ERR_BAD_RESPONSE);
    rig_free(rig);
}

Test(h1_client, an_upgrade_nobody_asked_for_is_refused)
{
    struct rig *rig = start();
    get(rig);
    rig_say(rig,
            "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nraw");
    cr_assert_eq(rig->collector.why, WR_ERR_UNASKED_UPGRADE);
    cr_assert_str_eq(rig->events.p, "closed:spent ");
    rig_free(rig);
}

Test(h1_client, expect_goes_out)
{
    struct rig *rig = start();
    struct wr_exchange *exchange = wr_exchange_open(&rig->host, &rig->client_info);
    struct wr_head *head = wr_arena_alloc(&exchange->arena, sizeof(*head));
    wr_head_init(head);
    head->method = WR_METHOD_PUT;
    head->method_text = WR_STR("PUT");
    head->authority = WR_STR("a");
    head->path = WR_STR("/");
    head->content_length = 2;
    head->expect_continue = true;
    wr_message_head(&exchange->request, head, 0);
    collector_attach(&rig->collector, &exchange->response, rig->host.chunks);
    rig->client->ops->open(rig->client, exchange);
    rig_settle(rig);
    cr_assert_str_eq(
        rig->heard.p,
        "PUT / HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\nexpect: 100-continue\r\n\r\n");
    wr_exchange_finish(exchange, WR_ERR_CANCELLED);
    rig_free(rig);
}

/* ---- early answers (behaviour row 22) ---- */

Test(h1_client, an_early_answer_passes_at_once_and_stops_the_request)
{
    struct rig *rig = start();
    rig_open(rig, "POST", 1000000, "");
    put(rig, "some");
    rig_settle(rig);
    rig_say(rig, "HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\n\r\n");
    cr_assert_eq(rig->collector.head->status, 413);
    cr_assert(rig->feeder.stopped);
    rig_say(rig, "no");
    cr_assert(rig->collector.ended);
    cr_assert_str_eq(rig->events.p, "closed:spent ");
    rig_free(rig);
}

Test(h1_client, an_early_answer_is_read_though_the_upstream_has_closed)
{
    static char piece[60000];
    struct rig *rig = rig_new(true);
    rig->tcp = true;
    rig_start(rig);
    rig_open(rig, "POST", 100000000, "");
    rig_settle(rig);
    static const char answer[] = "HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\n\r\nno";
    cr_assert_eq(send(rig->peer, answer, sizeof(answer) - 1, MSG_NOSIGNAL),
                 (ssize_t)sizeof(answer) - 1);
    shutdown(rig->peer, SHUT_WR);
    for (int i = 0; i < 100 && !rig->feeder.stopped; i++) {
        if (wr_message_room(&rig->exchange->request) >= sizeof(piece))
            wr_message_put(&rig->exchange->request, piece, sizeof(piece));
        wr_loop_turn(rig->loop, 2000);
    }
    cr_assert_eq(rig->collector.head->status, 413);
    cr_assert_str_eq(rig->collector.content.p, "no");
    rig_free(rig);
}

/* ---- back-pressure ---- */

Test(h1_client, responses_are_read_no_faster_than_they_are_taken)
{
    static char content[1000000];
    struct rig *rig = start();
    rig->collector.holds = true;
    memset(content, 'c', sizeof(content));
    get(rig);
    rig->collector.holds = true;
    rig_say(rig, OK "Content-Length: 1000000\r\n\r\n");
    size_t sent = 0;
    for (int i = 0; i < 100; i++) {
        ssize_t k = send(rig->peer, content + sent, sizeof(content) - sent, MSG_NOSIGNAL);
        sent += k > 0 ? (size_t)k : 0;
        wr_loop_turn(rig->loop, 0);
    }
    cr_assert_eq(rig->exchange->response.put_bytes, rig->host.content_limit);
    rig->collector.holds = false;
    collector_take(&rig->collector, SIZE_MAX);
    rig_say_n(rig, content + sent, sizeof(content) - sent);
    cr_assert_eq(rig->collector.content.n, sizeof(content));
    cr_assert_str_eq(rig->events.p, "closed:reusable ");
    rig_free(rig);
}
