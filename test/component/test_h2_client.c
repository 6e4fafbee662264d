/* HTTP/2 towards upstreams: requests and responses side by side, heads, lengths, trailers, early answers. */
#include <criterion/criterion.h>
#include <string.h>

#include "support/h2_rig.h"

static struct h2_rig *started(void)
{
    struct h2_rig *rig = h2_rig_new(true);
    h2_rig_start(rig);
    h2_rig_forget(rig);
    return rig;
}

static void answer(struct h2_rig *rig, uint32_t id, unsigned flags, const char *fields)
{
    h2_put_headers(&rig->out, id, flags, fields);
    h2_rig_send(rig);
}

/* ---- requests ---- */

/* Before anything else that may be said on a connection which nobody needs yet (RFC 9113 section 3.4). */
Test(h2_client, preface_and_settings_go_at_once)
{
    struct h2_rig *rig = h2_rig_new(true);
    h2_rig_start_silent(rig);
    h2_rig_settle(rig);
    cr_expect_str_eq(rig->frames.p, "SETTINGS[1=4096,4=65536,6=8192,2=0] WINDOW/0[983041] ");
    h2_rig_forget(rig);
    h2_rig_open(rig, "GET", 0, "a: b\n");
    h2_rig_settle(rig);
    cr_expect_str_eq(rig->frames.p, "HEADERS/1+ES[:method=GET;:scheme=http;:path=/path?q;"
                                    ":authority=origin.test;a=b;] ");
    h2_rig_free(rig);
}

Test(h2_client, a_get)
{
    struct h2_rig *rig = started();
    struct h2_call *call = h2_rig_open(rig, "GET", 0, "");
    h2_rig_settle(rig);
    answer(rig, 1, 0, ":status: 200\ncontent-length: 5\nserver: x\n");
    h2_put_data(&rig->out, 1, H2_END_STREAM, "hello");
    h2_rig_send(rig);
    cr_expect_eq(call->collector.head->status, 200);
    cr_expect_eq(call->collector.head->content_length, 5);
    cr_expect_str_eq(call->collector.content.p, "hello");
    cr_expect(call->collector.ended);
    cr_expect_str_eq(rig->events.p, "closed:reusable ");
    h2_rig_free(rig);
}

Test(h2_client, exchanges_side_by_side)
{
    struct h2_rig *rig = started();
    struct h2_call *a = h2_rig_open(rig, "GET", 0, "");
    struct h2_call *b = h2_rig_open(rig, "GET", 0, "");
    struct h2_call *c = h2_rig_open(rig, "GET", 0, "");
    h2_rig_settle(rig);
    cr_expect_eq(rig->client->ops->capacity(rig->client), 97);
    answer(rig, 5, H2_END_STREAM, ":status: 203\n");
    answer(rig, 1, H2_END_STREAM, ":status: 201\n");
    answer(rig, 3, H2_END_STREAM, ":status: 202\n");
    cr_expect_eq(a->collector.head->status, 201);
    cr_expect_eq(b->collector.head->status, 202);
    cr_expect_eq(c->collector.head->status, 203);
    cr_expect_eq(c->collector.flags, WR_HEAD_LAST);
    cr_expect_eq(rig->client->ops->capacity(rig->client), 100);
    h2_rig_free(rig);
}

Test(h2_client, content_and_trailers_go_out)
{
    struct h2_rig *rig = started();
    struct h2_call *call = h2_rig_open(rig, "POST", WR_LENGTH_UNKNOWN, "");
    call->exchange->request.head->accepts_trailers = true;
    h2_rig_settle(rig);
    wr_message_put(&call->exchange->request, "abc", 3);
    h2_rig_settle(rig);
    cr_expect(h2_rig_heard(rig, "DATA/1[abc] "), "%s", rig->frames.p);
    struct wr_fields *trailers = wr_arena_alloc_zero(&call->exchange->arena, sizeof(*trailers));
    wr_fields_add(trailers, &call->exchange->arena, WR_STR("sum"), WR_STR("1"));
    wr_fields_add(trailers, &call->exchange->arena, WR_STR("host"), WR_STR("no"));
    wr_message_end(&call->exchange->request, trailers);
    h2_rig_settle(rig);
    cr_expect(h2_rig_heard(rig, "HEADERS/1+ES[sum=1;] "), "%s", rig->frames.p);
    answer(rig, 1, H2_END_STREAM, ":status: 200\n");
    cr_expect(h2_rig_told(rig, "closed:reusable "));
    h2_rig_free(rig);
}

Test(h2_client, what_only_http1_has_is_not_sent)
{
    struct h2_rig *rig = started();
    h2_rig_open(rig, "GET", 0,
                "connection: x\nkeep-alive: 1\nte: gzip\nhost: evil.test\n"
                "transfer-encoding: chunked\nupgrade: h2c\nsec-websocket-key: k\nok: 1\n");
    h2_rig_settle(rig);
    cr_expect(h2_rig_heard(rig, ":authority=origin.test;ok=1;] "), "%s", rig->frames.p);
    h2_rig_free(rig);
}

Test(h2_client, lengths_are_announced)
{
    struct h2_rig *rig = started();
    h2_rig_open(rig, "POST", 0, "");
    struct h2_call *call = h2_rig_open(rig, "PUT", 3, "");
    wr_message_put(&call->exchange->request, "abc", 3);
    wr_message_end(&call->exchange->request, NULL);
    h2_rig_settle(rig);
    cr_expect(h2_rig_heard(rig, "content-length=0;] "), "%s", rig->frames.p);
    cr_expect(h2_rig_heard(rig, "content-length=3;] DATA/3+ES[abc] "), "%s", rig->frames.p);
    h2_rig_free(rig);
}

Test(h2_client, sensitive_fields_stay_so)
{
    struct h2_rig *rig = started();
    rig->sensitive = "secret";
    h2_rig_open(rig, "GET", 0, "plain: 1\nsecret: x\n");
    h2_rig_settle(rig);
    cr_expect(h2_rig_heard(rig, ";plain=1;secret!=x;] "), "%s", rig->frames.p);
    h2_rig_free(rig);
}

/* In a table it would be of no use to anyone, and push out what is. */
Test(h2_client, request_ids_are_kept_out_of_tables)
{
    struct h2_rig *rig = started();
    h2_rig_open(rig, "GET", 0, "plain: 1\nx-request-id: 0123\n");
    h2_rig_settle(rig);
    cr_expect(h2_rig_heard(rig, ";plain=1;x-request-id!=0123;] "), "%s", rig->frames.p);
    h2_rig_free(rig);
}

Test(h2_client, cookies_are_split)
{
    struct h2_rig *rig = started();
    h2_rig_open(rig, "GET", 0, "cookie: a=1; b=2;c; d\n");
    h2_rig_settle(rig);
    cr_expect(h2_rig_heard(rig, "cookie!=a=1;cookie!=b=2;c; d;] "), "%s", rig->frames.p);
    h2_rig_free(rig);
}

/* No value may begin or end with space: a server would refuse the request for that of a crumb. */
Test(h2_client, cookies_are_not_split_beside_space)
{
    struct h2_rig *rig = started();
    h2_rig_open(rig, "GET", 0, "cookie: a=1 ; b=2; c\n");
    h2_rig_settle(rig);
    cr_expect(h2_rig_heard(rig, "cookie!=a=1 ; b=2; c;] "), "%s", rig->frames.p);
    h2_rig_open(rig, "GET", 0, "cookie: a=1;  b=2\n");
    h2_rig_settle(rig);
    cr_expect(h2_rig_heard(rig, "cookie!=a=1;  b=2;] "), "%s", rig->frames.p);
    h2_rig_free(rig);
}

/* ---- responses: behaviour rows 18, 19, 21, 30 ---- */

Test(h2_client, interim_heads_then_the_final_one)
{
    struct h2_rig *rig = started();
    struct h2_call *call = h2_rig_open(rig, "GET", 0, "");
    h2_rig_settle(rig);
    answer(rig, 1, 0, ":status: 100\n");
    answer(rig, 1, 0, ":status: 103\nlink: </a>\n");
    answer(rig, 1, H2_END_STREAM, ":status: 204\n");
    cr_expect_str_eq(call->collector.interim.p, "100 103 ");
    cr_expect_eq(call->collector.head->status, 204);
    h2_rig_free(rig);
}

Test(h2_client, trailers_come)
{
    struct h2_rig *rig = started();
    struct h2_call *call = h2_rig_open(rig, "GET", 0, "");
    h2_rig_settle(rig);
    answer(rig, 1, 0, ":status: 200\n");
    h2_put_data(&rig->out, 1, 0, "x");
    answer(rig, 1, H2_END_STREAM, "grpc-status: 0\nset-cookie: no\n");
    cr_expect_str_eq(call->collector.trailers.p, "grpc-status=0;");
    cr_expect_eq(call->collector.head->content_length, WR_LENGTH_UNKNOWN);
    h2_rig_free(rig);
}

Test(h2_client, head_has_a_length_and_no_content)
{
    struct h2_rig *rig = started();
    struct h2_call *call = h2_rig_open(rig, "HEAD", 0, "");
    h2_rig_settle(rig);
    answer(rig, 1, H2_END_STREAM, ":status: 200\ncontent-length: 77\n");
    cr_expect(call->collector.ended);
    cr_expect_eq(call->collector.head->content_length, 77);
    cr_expect(call->collector.head->length_given);
    h2_rig_free(rig);
}

static void expect_bad(const char *method, unsigned flags, const char *fields, const char *content)
{
    struct h2_rig *rig = started();
    struct h2_call *call = h2_rig_open(rig, method, 0, "");
    h2_rig_settle(rig);
    h2_put_headers(&rig->out, 1, flags, fields);
    if (content != NULL)
        h2_put_data(&rig->out, 1, H2_END_STREAM, content);
    h2_rig_send(rig);
    cr_expect(call->collector.aborted, "%s", fields);
    bool head = call->collector.head != NULL;
    cr_expect_eq(call->collector.why, head ? WR_ERR_RESPONSE_INCOMPLETE : WR_ERR_BAD_RESPONSE, "%s",
                 fields);
    cr_expect_not(call->unsent, "%s", fields);
    cr_expect(h2_rig_heard(rig, "RST/1[1] "), "%s: %s", fields, rig->frames.p);
    cr_expect(h2_rig_told(rig, "closed:reusable "), "%s", rig->events.p);
    h2_rig_free(rig);
}

Test(h2_client, responses_that_break_the_rules)
{
    expect_bad("GET", H2_END_STREAM, ":status: 103\n", NULL);
    expect_bad("GET", 0, ":status: 101\n", NULL);
    expect_bad("GET", H2_END_STREAM, ":status: 99\n", NULL);
    expect_bad("GET", H2_END_STREAM, ":status: 600\n", NULL);
    expect_bad("GET", H2_END_STREAM, ":status: 20x\n", NULL);
    expect_bad("GET", H2_END_STREAM, "server: x\n", NULL);
    expect_bad("GET", H2_END_STREAM, ":status: 200\n:status: 200\n", NULL);
    expect_bad("GET", H2_END_STREAM, ":status: 200\n:path: /\n", NULL);
    expect_bad("GET", H2_END_STREAM, ":status: 200\nServer: x\n", NULL);
    expect_bad("GET", H2_END_STREAM, ":status: 200\nconnection: close\n", NULL);
    expect_bad("GET", H2_END_STREAM, ":status: 200\ntransfer-encoding: chunked\n", NULL);
    expect_bad("GET", 0, ":status: 200\ncontent-length: 3\ncontent-length: 3\n", "abc");
    expect_bad("GET", 0, ":status: 200\ncontent-length: 3\n", "ab");
    expect_bad("GET", 0, ":status: 200\ncontent-length: 3\n", "abcd");
    expect_bad("HEAD", 0, ":status: 200\ncontent-length: 3\n", "abc");
    expect_bad("GET", 0, ":status: 304\n", "abc");
}

Test(h2_client, heads_over_a_limit)
{
    struct h2_rig *rig = started();
    struct h2_call *call = h2_rig_open(rig, "GET", 0, "");
    h2_rig_settle(rig);
    struct text fields = {0};
    text_say(&fields, ":status: 200\n");
    for (unsigned i = 0; i < 33; i++)
        text_say(&fields, "n%u: v\n", i);
    answer(rig, 1, H2_END_STREAM, fields.p);
    text_free(&fields);
    cr_expect_eq(call->collector.why, WR_ERR_RESPONSE_HEAD_TOO_LARGE);
    cr_expect(h2_rig_heard(rig, "RST/1["));
    h2_rig_free(rig);
}

Test(h2_client, endless_interim_heads)
{
    struct h2_rig *rig = started();
    struct h2_call *call = h2_rig_open(rig, "GET", 0, "");
    h2_rig_settle(rig);
    for (unsigned i = 0; i < 40; i++)
        h2_put_headers(&rig->out, 1, 0, ":status: 103\n");
    h2_rig_send(rig);
    cr_expect_eq(call->collector.why, WR_ERR_BAD_RESPONSE);
    h2_rig_free(rig);
}

/* ---- behaviour row 22: early responses; streams in both directions ---- */

Test(h2_client, an_early_response_cancels_the_rest_of_the_request)
{
    struct h2_rig *rig = started();
    struct h2_call *call = h2_rig_open(rig, "POST", 1000, "");
    wr_message_put(&call->exchange->request, "abc", 3);
    h2_rig_settle(rig);
    answer(rig, 1, H2_END_STREAM, ":status: 413\n");
    cr_expect_eq(call->collector.head->status, 413);
    cr_expect(call->feeder.stopped);
    cr_expect(h2_rig_heard(rig, "RST/1[8] "), "%s", rig->frames.p);
    cr_expect_str_eq(rig->events.p, "closed:reusable ");
    h2_rig_free(rig);
}

Test(h2_client, an_early_response_with_no_error)
{
    struct h2_rig *rig = started();
    struct h2_call *call = h2_rig_open(rig, "POST", 1000, "");
    h2_rig_settle(rig);
    h2_put_headers(&rig->out, 1, 0, ":status: 413\n");
    h2_put_data(&rig->out, 1, H2_END_STREAM, "no");
    h2_put_reset(&rig->out, 1, 0);
    h2_rig_send(rig);
    cr_expect_str_eq(call->collector.content.p, "no");
    cr_expect(call->collector.ended);
    cr_expect(call->feeder.stopped);
    h2_rig_free(rig);
}

Test(h2_client, both_directions_at_once)
{
    struct h2_rig *rig = started();
    struct h2_call *call = h2_rig_open(rig, "POST", WR_LENGTH_UNKNOWN, "");
    h2_rig_settle(rig);
    answer(rig, 1, 0, ":status: 200\n");
    for (unsigned i = 0; i < 3; i++) {
        wr_message_put(&call->exchange->request, "ping", 4);
        h2_rig_settle(rig);
        h2_put_data(&rig->out, 1, 0, "pong");
        h2_rig_send(rig);
    }
    cr_expect_str_eq(call->collector.content.p, "pongpongpong");
    wr_message_end(&call->exchange->request, NULL);
    h2_rig_settle(rig);
    cr_expect(h2_rig_heard(rig, "DATA/1+ES[] "), "%s", rig->frames.p);
    h2_put_data(&rig->out, 1, H2_END_STREAM, "");
    h2_rig_send(rig);
    cr_expect(call->collector.ended);
    cr_expect_str_eq(rig->events.p, "closed:reusable ");
    h2_rig_free(rig);
}
