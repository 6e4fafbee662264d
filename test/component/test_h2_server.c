/* HTTP/2 towards clients: requests and responses, heads, lengths, trailers, interim responses. */
#include <criterion/criterion.h>
#include <string.h>

#include "support/h2_rig.h"

#define GET ":method: GET\n:scheme: http\n:path: /\n:authority: a.test\n"
#define POST ":method: POST\n:scheme: http\n:path: /up\n:authority: a.test\n"

static struct h2_rig *started(void)
{
    struct h2_rig *rig = h2_rig_new(false);
    h2_rig_start(rig);
    h2_rig_forget(rig);
    return rig;
}

Test(h2_server, greets_with_settings_and_a_connection_window)
{
    struct h2_rig *rig = h2_rig_new(false);
    rig->server_options.h2.max_concurrent_streams = 77;
    h2_rig_start(rig);
    cr_expect(h2_rig_heard(rig, "SETTINGS[1=4096,4=65536,6=8192,3=77,8=1,9=1] "), "%s",
              rig->frames.p);
    cr_expect(h2_rig_heard(rig, "WINDOW/0[983041] "), "%s", rig->frames.p);
    cr_expect(h2_rig_heard(rig, "SETTINGS+ACK[] "));
    cr_expect_str_eq(rig->events.p, "", "the preface came whole: %s", rig->events.p);
    h2_rig_free(rig);
}

Test(h2_server, a_get_is_answered_in_one_flush)
{
    struct h2_rig *rig = started();
    h2_rig_get(rig, 1, "accept: x\n");
    cr_expect_str_eq(rig->requests.p, "GET a.test / [] accept=x;\n");
    cr_expect(h2_rig_heard(rig, "HEADERS/1+ES[:status=200;date="), "%s", rig->frames.p);
    cr_expect_str_eq(rig->events.p, "complete exchange idle ");
    cr_expect_eq(rig->calls[0].ended, WR_OK);
    h2_rig_free(rig);
}

Test(h2_server, content_is_echoed_with_end_stream_on_its_last_frame)
{
    struct h2_rig *rig = started();
    h2_put_headers(&rig->out, 1, 0, POST);
    h2_put_data(&rig->out, 1, 0, "hel");
    h2_put_data(&rig->out, 1, H2_END_STREAM, "lo");
    h2_rig_send(rig);
    cr_expect_str_eq(rig->requests.p, "POST a.test /up [hello] \n");
    cr_expect(h2_rig_heard(rig, "content-length=5;] DATA/1+ES[hello] "), "%s", rig->frames.p);
    cr_expect_eq(rig->calls[0].ended, WR_OK);
    h2_rig_free(rig);
}

Test(h2_server, trailers_go_both_ways)
{
    struct h2_rig *rig = started();
    rig->on_exchange = h2_rig_wait;
    h2_put_headers(&rig->out, 1, 0, POST "te: trailers\n");
    h2_put_data(&rig->out, 1, 0, "x");
    h2_put_headers(&rig->out, 1, H2_END_STREAM,
                   "grpc-status: 0\nauthorization: no\nx-forwarded-port: 1\n");
    h2_rig_send(rig);
    cr_expect_str_eq(rig->requests.p, "POST a.test /up [x]  +grpc-status=0;\n");
    struct h2_call *call = &rig->calls[0];
    cr_expect(call->exchange->request.head->accepts_trailers);

    h2_rig_answer_head(call, 200, WR_LENGTH_UNKNOWN, "content-type: t\n", 0);
    wr_message_put(&call->exchange->response, "body", 4);
    struct wr_fields *trailers = wr_arena_alloc_zero(&call->exchange->arena, sizeof(*trailers));
    wr_fields_add(trailers, &call->exchange->arena, WR_STR("grpc-message"), WR_STR("ok"));
    wr_message_end(&call->exchange->response, trailers);
    h2_rig_settle(rig);
    cr_expect(h2_rig_heard(rig, "DATA/1[body] HEADERS/1+ES[grpc-message=ok;] "), "%s",
              rig->frames.p);
    cr_expect_eq(call->ended, WR_OK);
    h2_rig_free(rig);
}

Test(h2_server, an_end_after_the_last_content_is_an_empty_frame_or_trailers)
{
    struct h2_rig *rig = started();
    rig->on_exchange = h2_rig_wait;
    h2_rig_get(rig, 1, "");
    h2_rig_get(rig, 3, "");
    for (unsigned i = 0; i < 2; i++) {
        h2_rig_answer_head(&rig->calls[i], 200, WR_LENGTH_UNKNOWN, "", 0);
        wr_message_put(&rig->calls[i].exchange->response, "body", 4);
    }
    h2_rig_settle(rig);
    cr_expect(h2_rig_heard(rig, "DATA/1[body] "));
    wr_message_end(&rig->calls[0].exchange->response, NULL);
    struct wr_arena *arena = &rig->calls[1].exchange->arena;
    struct wr_fields *trailers = wr_arena_alloc_zero(arena, sizeof(*trailers));
    wr_fields_add(trailers, arena, WR_STR("sum"), WR_STR("1"));
    wr_message_end(&rig->calls[1].exchange->response, trailers);
    h2_rig_settle(rig);
    cr_expect(h2_rig_heard(rig, "DATA/1+ES[] "), "%s", rig->frames.p);
    cr_expect(h2_rig_heard(rig, "HEADERS/3+ES[sum=1;] "), "%s", rig->frames.p);
    cr_expect_eq(rig->finished, 2);
    h2_rig_free(rig);
}

Test(h2_server, interim_responses_are_passed_but_101)
{
    struct h2_rig *rig = started();
    rig->on_exchange = h2_rig_wait;
    h2_rig_get(rig, 1, "");
    h2_rig_answer_head(&rig->calls[0], 103, 0, "link: </a>\n", WR_HEAD_INTERIM);
    h2_rig_answer_head(&rig->calls[0], 101, 0, "", WR_HEAD_INTERIM);
    h2_rig_answer_head(&rig->calls[0], 204, 0, "", WR_HEAD_LAST);
    h2_rig_settle(rig);
    cr_expect(h2_rig_heard(rig, "HEADERS/1[:status=103;link=</a>;] HEADERS/1+ES[:status=204;date="),
              "%s", rig->frames.p);
    cr_expect_not(h2_rig_heard(rig, "content-length"), "RFC 9110 section 8.6");
    h2_rig_free(rig);
}

Test(h2_server, head_and_304_keep_their_length_and_have_no_content)
{
    struct h2_rig *rig = started();
    rig->on_exchange = h2_rig_wait;
    h2_put_headers(&rig->out, 1, H2_END_STREAM,
                   ":method: HEAD\n:scheme: http\n:path: /\n:authority: a.test\n");
    h2_rig_send(rig);
    h2_rig_answer_head(&rig->calls[0], 200, 1234, "", WR_HEAD_LAST);
    h2_rig_settle(rig);
    cr_expect(h2_rig_heard(rig, "HEADERS/1+ES[:status=200;date="));
    cr_expect(h2_rig_heard(rig, "content-length=1234;] "), "%s", rig->frames.p);
    h2_rig_get(rig, 3, "");
    h2_rig_answer_head(&rig->calls[1], 304, 99, "", 0);
    wr_message_put(&rig->calls[1].exchange->response, "never", 5);
    h2_rig_settle(rig);
    cr_expect(h2_rig_heard(rig, "HEADERS/3+ES[:status=304;date="));
    cr_expect_eq(h2_reader_data(rig->reader), 0);
    cr_expect_eq(rig->finished, 2);
    h2_rig_free(rig);
}

Test(h2_server, cookie_crumbs_become_one)
{
    struct h2_rig *rig = started();
    h2_rig_get(rig, 1, "cookie: a=1\nx: y\ncookie: b=2\ncookie: c=3\n");
    cr_expect_str_eq(rig->requests.p, "GET a.test / [] cookie=a=1; b=2; c=3;x=y;\n");
    h2_rig_free(rig);
}

/* A value that ended in a space would be another one behind HTTP/1.1. */
Test(h2_server, empty_crumbs_leave_nothing)
{
    struct h2_rig *rig = started();
    h2_rig_get(rig, 1, "cookie: \ncookie: a=1\ncookie: \ncookie: b=2\ncookie: \n");
    cr_expect_str_eq(rig->requests.p, "GET a.test / [] cookie=a=1; b=2;\n");
    h2_rig_get(rig, 3, "cookie: \ncookie: \n");
    cr_expect(strstr(rig->requests.p, "\nGET a.test / [] cookie=;\n") != NULL, "%s",
              rig->requests.p);
    h2_rig_free(rig);
}

/* The rig's limit is 32 fields. */
Test(h2_server, crumbs_count_as_one_field)
{
    struct h2_rig *rig = started();
    struct text fields = {0};
    for (unsigned i = 0; i < 100; i++)
        text_say(&fields, "cookie: a=%u\n", i);
    for (unsigned i = 0; i < 31; i++)
        text_say(&fields, "x: %u\n", i);
    rig->on_exchange = h2_rig_wait;
    h2_rig_get(rig, 1, fields.p);
    cr_expect_eq(rig->calls[0].exchange->request.head->fields.count, 100 + 31);
    cr_expect_not_null(strstr(rig->requests.p, "; a=99;"), "%s", rig->requests.p);
    text_say(&fields, "x: 31\n");
    h2_rig_get(rig, 3, fields.p);
    cr_expect(h2_rig_heard(rig, "HEADERS/3+ES[:status=431;"), "%s", rig->frames.p);
    text_free(&fields);
    h2_rig_free(rig);
}

Test(h2_server, crumbs_without_end_are_no_way_round_the_limit)
{
    struct h2_rig *rig = h2_rig_new(false);
    struct text fields = {0};
    rig->server_options.head_limit = 65536;
    h2_rig_start(rig);
    for (unsigned i = 0; i < 256 + 31; i++)
        text_say(&fields, "cookie: \n");
    h2_rig_get(rig, 1, fields.p);
    cr_expect(h2_rig_heard(rig, "HEADERS/1+ES[:status=200;"), "%s", rig->frames.p);
    text_say(&fields, "cookie: \n");
    h2_rig_get(rig, 3, fields.p);
    cr_expect(h2_rig_heard(rig, "HEADERS/3+ES[:status=431;"), "%s", rig->frames.p);
    text_free(&fields);
    h2_rig_free(rig);
}

Test(h2_server, sensitive_fields_stay_so)
{
    struct h2_rig *rig = started();
    rig->on_exchange = h2_rig_wait;
    struct text block = {0};
    h2_put_block(&block, GET "plain: 1\n");
    text_add(&block, "\x10\6secret\1x", 10); /* never indexed */
    h2_put_frame(&rig->out, H2_HEADERS, H2_END_HEADERS | H2_END_STREAM, 1, block.p, block.n);
    text_free(&block);
    h2_rig_send(rig);
    const struct wr_fields *fields = &rig->calls[0].exchange->request.head->fields;
    cr_expect_not(wr_fields_find_name(fields, WR_STR("plain"))->sensitive);
    cr_expect(wr_fields_find_name(fields, WR_STR("secret"))->sensitive);
    h2_rig_free(rig);
}

Test(h2_server, host_alone_is_the_authority_and_agreement_is_no_matter_of_case)
{
    struct h2_rig *rig = started();
    h2_put_headers(&rig->out, 1, H2_END_STREAM,
                   ":method: GET\n:scheme: http\n:path: /\nhost: B.test:80\n");
    h2_rig_send(rig);
    h2_rig_get(rig, 3, "host: A.Test\n");
    cr_expect_str_eq(rig->requests.p, "GET b.test:80 / [] \nGET a.test / [] \n");
    h2_rig_free(rig);
}

Test(h2_server, names_with_underscore_are_dropped_unless_allowed)
{
    struct h2_rig *rig = started();
    h2_rig_get(rig, 1, "x_forwarded_for: 1.2.3.4\n");
    cr_expect_str_eq(rig->requests.p, "GET a.test / [] \n");
    h2_rig_free(rig);
    rig = h2_rig_new(false);
    rig->server_options.underscores = true;
    h2_rig_start(rig);
    h2_rig_get(rig, 1, "x_forwarded_for: 1.2.3.4\n");
    cr_expect_str_eq(rig->requests.p, "GET a.test / [] x_forwarded_for=1.2.3.4;\n");
    h2_rig_free(rig);
}

Test(h2_server, heads_may_come_byte_by_byte)
{
    struct h2_rig *rig = started();
    struct text all = {0};
    h2_put_headers(&all, 1, H2_END_STREAM, GET "a: b\n");
    for (size_t i = 0; i < all.n; i++) {
        text_add(&rig->out, all.p + i, 1);
        h2_rig_send(rig);
    }
    text_free(&all);
    cr_expect_str_eq(rig->requests.p, "GET a.test / [] a=b;\n");
    cr_expect_str_eq(rig->events.p, "begun complete exchange idle ");
    h2_rig_free(rig);
}

Test(h2_server, expectations)
{
    struct h2_rig *rig = started();
    rig->on_exchange = h2_rig_wait;
    h2_put_headers(&rig->out, 1, 0, POST "expect: 100-continue\n");
    h2_rig_send(rig);
    cr_expect(rig->calls[0].exchange->request.head->expect_continue);
    h2_put_headers(&rig->out, 3, 0, POST "expect: miracles\n");
    h2_rig_send(rig);
    cr_expect_eq(rig->calls[1].refused, WR_ERR_EXPECTATION_FAILED);
    cr_expect(h2_rig_heard(rig, "HEADERS/3+ES[:status=417;"));
    h2_rig_free(rig);
}

/* Several sessions share one buffer for the frame that is being sent. */
Test(h2_server, large_heads_on_two_connections_by_turns)
{
    struct h2_rig *rigs[2] = {started(), started()};
    static char value[40001];
    struct text fields = {0};
    for (unsigned i = 0; i < 2; i++) {
        rigs[i]->on_exchange = h2_rig_wait;
        h2_rig_get(rigs[i], 1, "");
        memset(value, i == 0 ? '\\' : '<', sizeof(value) - 1); /* long as Huffman codes */
        text_add(&fields, "big: ", 5);
        text_add(&fields, value, sizeof(value) - 1);
        text_add(&fields, "\n", 1);
        h2_rig_answer_head(&rigs[i]->calls[0], 200, 0, fields.p, WR_HEAD_LAST);
        text_free(&fields);
    }
    for (unsigned i = 0; i < 2; i++) {
        h2_rig_settle(rigs[i]);
        cr_expect(h2_rig_heard(rigs[i], "CONTINUATION/1["));
        cr_expect(h2_rig_heard(rigs[i], "big="));
        cr_expect_eq(strspn(strstr(rigs[i]->frames.p, "big=") + 4, i == 0 ? "\\" : "<"),
                     sizeof(value) - 1);
        h2_rig_free(rigs[i]);
    }
}

/* ---- limits ---- */

Test(h2_server, heads_over_a_limit_are_answered)
{
    struct h2_rig *rig = started();
    struct text fields = {0};
    text_say(&fields, "big: ");
    for (unsigned i = 0; i < 9000; i++)
        text_say(&fields, "x");
    text_say(&fields, "\n");
    h2_rig_get(rig, 1, fields.p);
    cr_expect_eq(rig->calls[0].refused, WR_ERR_FIELDS_TOO_LARGE);
    cr_expect(h2_rig_heard(rig, "HEADERS/1+ES[:status=431;"), "%s", rig->frames.p);

    text_free(&fields);
    for (unsigned i = 0; i < 33; i++)
        text_say(&fields, "n%u: v\n", i);
    h2_rig_get(rig, 3, fields.p);
    cr_expect_eq(rig->calls[1].refused, WR_ERR_FIELDS_TOO_LARGE);

    text_free(&fields);
    text_say(&fields, ":method: GET\n:scheme: http\n:authority: a.test\n:path: /");
    for (unsigned i = 0; i < 1024; i++)
        text_say(&fields, "p");
    text_say(&fields, "\n");
    h2_put_headers(&rig->out, 5, H2_END_STREAM, fields.p);
    h2_rig_send(rig);
    cr_expect_eq(rig->calls[2].refused, WR_ERR_URI_TOO_LONG);
    cr_expect(h2_rig_heard(rig, "HEADERS/5+ES[:status=414;"));
    text_free(&fields);

    h2_rig_get(rig, 7, "");
    cr_expect_str_eq(rig->requests.p, "GET a.test / [] \n", "the connection goes on");
    h2_rig_free(rig);
}
