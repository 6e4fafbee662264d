#include "exchange_fixture.h"

#include <stdlib.h>

#include "proxy/local.h"

/* ---- a sink that keeps what it gets, at most `appetite` bytes at a time ---- */

static char status_line[16];
static char content[65536];
static size_t content_bytes;
static size_t most_held;
static size_t appetite = SIZE_MAX;
static bool ended;
static unsigned head_flags;
static struct wr_head *head_seen;
static enum wr_err aborted;

static void sink_head(void *sink, struct wr_head *head, unsigned flags)
{
    (void)sink;
    head_seen = head;
    head_flags = flags;
    snprintf(status_line, sizeof(status_line), "%u", head->status);
}

static void eat(void)
{
    struct wr_message *message = &exchange->response;
    if (message->content.length > most_held)
        most_held = message->content.length;
    struct wr_bytes taken;
    wr_bytes_init(&taken, &pool);
    size_t n = wr_message_take(message, &taken, appetite);
    while (taken.length > 0) {
        struct wr_str front = wr_bytes_front(&taken);
        size_t at = content_bytes % (sizeof(content) - 1);
        size_t fits = sizeof(content) - 1 - at;
        memcpy(content + at, front.p, front.n < fits ? front.n : fits);
        content_bytes += front.n;
        wr_bytes_consume(&taken, front.n);
    }
    wr_message_taken(message, n);
}

static void sink_content(void *sink)
{
    (void)sink;
    eat();
}

static void sink_end(void *sink, const struct wr_fields *trailers)
{
    (void)sink;
    cr_assert_null(trailers);
    ended = true;
}

static void sink_abort(void *sink, enum wr_err why)
{
    (void)sink;
    aborted = why;
}

static const struct wr_sink_ops sink_ops = {
    .head = sink_head, .content = sink_content, .end = sink_end, .abort = sink_abort};

static void begin(enum wr_method method, const char *lines)
{
    open_exchange("192.0.2.7:1", method, lines);
    wr_message_attach(&exchange->response, &sink_ops, NULL);
}

/* ---- errors ---- */

Test(local, an_error_in_plain_text)
{
    begin(WR_METHOD_GET, "accept: text/html, */*\n");
    wr_local_error(exchange, WR_ERR_CONNECT_REFUSED, "weir");
    cr_assert_str_eq(status_line, "502");
    cr_assert_str_eq(fields_text(&head_seen->fields),
                     "proxy-status: weir; error=connection_refused; "
                     "details=\"upstream refused the connection\"\n"
                     "content-type: text/plain; charset=utf-8\n");
    cr_assert_str_eq(content, "502 Bad Gateway\nupstream refused the connection\n");
    cr_assert_eq(head_seen->content_length, (int64_t)content_bytes);
    cr_assert(ended);
    cr_assert_eq(exchange->ended, WR_ERR_CONNECT_REFUSED);
    close_exchange();
}

Test(local, an_error_in_json)
{
    begin(WR_METHOD_GET, "accept: text/html;q=0.5, Application/JSON;q=0.9\n");
    wr_local_error(exchange, WR_ERR_NO_ROUTE, "weir");
    cr_assert_str_eq(content,
                     "{\"status\":404,\"error\":\"no_route\",\"detail\":\"no route matches\"}\n");
    close_exchange();
}

Test(local, an_error_for_grpc_is_trailers_only)
{
    static const struct {
        enum wr_err err;
        const char *status;
    } rows[] = {{WR_ERR_RESPONSE_TIMEOUT, "14"},
                {WR_ERR_POOL_FULL, "14"},
                {WR_ERR_BAD_REQUEST, "13"},
                {WR_ERR_NO_ROUTE, "12"},
                {WR_ERR_INTERNAL, "2"}};
    for (size_t i = 0; i < WR_COUNT_OF(rows); i++) {
        begin(WR_METHOD_POST, "content-type: application/grpc+proto\n");
        wr_local_error(exchange, rows[i].err, "weir");
        cr_assert_str_eq(status_line, "200");
        cr_assert_eq(head_flags, WR_HEAD_LAST);
        const struct wr_field *status =
            wr_fields_find_name(&head_seen->fields, WR_STR("grpc-status"));
        cr_expect(wr_str_eq(status->value, wr_str_from(rows[i].status)), "%s",
                  wr_err_text(rows[i].err));
        cr_assert_not_null(wr_fields_find_name(&head_seen->fields, WR_STR("grpc-message")));
        cr_assert_not_null(wr_fields_find(&head_seen->fields, WR_FIELD_PROXY_STATUS));
        close_exchange();
    }
}

Test(local, what_an_overload_and_a_wrong_method_add)
{
    begin(WR_METHOD_GET, "");
    wr_local_error(exchange, WR_ERR_POOL_FULL, "weir");
    cr_assert_not_null(wr_fields_find(&head_seen->fields, WR_FIELD_RETRY_AFTER));
    close_exchange();
    begin(WR_METHOD_TRACE, "");
    wr_local_error(exchange, WR_ERR_METHOD_NOT_ALLOWED, "weir");
    cr_assert_not_null(wr_fields_find(&head_seen->fields, WR_FIELD_ALLOW));
    close_exchange();
}

Test(local, an_error_for_head_has_a_length_and_no_content)
{
    begin(WR_METHOD_HEAD, "");
    wr_local_error(exchange, WR_ERR_NO_ROUTE, "weir");
    cr_assert_eq(head_flags, WR_HEAD_LAST);
    cr_assert_gt(head_seen->content_length, 0);
    cr_assert(head_seen->length_given);
    cr_assert_eq(content_bytes, 0);
    close_exchange();
}

Test(local, an_error_that_cannot_be_told_cuts_off)
{
    begin(WR_METHOD_GET, "");
    wr_local_error(exchange, WR_ERR_CLIENT_RESET, "weir");
    cr_assert_eq(aborted, WR_ERR_CLIENT_RESET);
    close_exchange();
}

Test(local, every_error_that_has_a_status_says_so_in_a_valid_proxy_status)
{
    for (unsigned err = 0; err < WR_ERR__COUNT; err++) {
        const struct wr_err_info *info = wr_err_info((enum wr_err)err);
        if (info->http_status == 0)
            continue;
        cr_expect(wr_is_token(wr_str_from(info->proxy_status)), "%s", info->label);
        for (const char *p = info->text; *p != '\0'; p++)
            cr_expect(*p >= 0x20 && *p <= 0x7e && *p != '"' && *p != '\\' && *p != '%', "%s",
                      info->label);
    }
}

Test(local, a_pseudonym_that_is_no_token_is_quoted)
{
    static const struct {
        const char *in;
        const char *out;
    } rows[] = {{"weir", "weir"},   {"edge.example", "edge.example"}, {"10.0.0.1", "\"10.0.0.1\""},
                {"a b", "\"a b\""}, {"a\"\\b", "\"a\\\"\\\\b\""},     {"a\nb", "\"a?b\""},
                {"", "\"\""}};
    for (size_t i = 0; i < WR_COUNT_OF(rows); i++) {
        char *name = wr_local_name(wr_str_from(rows[i].in));
        cr_expect_str_eq(name, rows[i].out);
        free(name);
    }
}

/* ---- respond routes ---- */

Test(local, a_fixed_answer)
{
    struct wr_respond_options options = {
        .status = 200, .content_type = {"", 0}, .body = {"hello", 5}};
    begin(WR_METHOD_GET, "");
    wr_local_respond(exchange, &options);
    cr_assert_str_eq(content, "hello");
    cr_assert_eq(head_seen->content_length, 5);
    cr_assert_str_eq(fields_text(&head_seen->fields), "content-type: text/plain; charset=utf-8\n");
    cr_assert_eq(exchange->ended, WR_OK);
    close_exchange();
}

Test(local, an_answer_without_content)
{
    struct wr_respond_options options = {
        .status = 204, .content_type = {"", 0}, .body = {"lost", 4}};
    begin(WR_METHOD_GET, "");
    wr_local_respond(exchange, &options);
    cr_assert_eq(head_flags, WR_HEAD_LAST);
    cr_assert_eq(head_seen->content_length, 0);
    cr_assert_not(head_seen->length_given);
    close_exchange();
}

Test(local, filler_of_every_size_around_its_pieces_is_whole)
{
    static const uint64_t sizes[] = {1, 63, 64, 65, 4095, 4096, 4097, 65536, 65537, 1000003};
    for (size_t i = 0; i < WR_COUNT_OF(sizes); i++) {
        struct wr_respond_options options = {
            .status = 200, .content_type = {"text/x", 6}, .body_size = sizes[i]};
        content_bytes = 0;
        ended = false;
        begin(WR_METHOD_GET, "");
        wr_local_respond(exchange, &options);
        cr_assert_eq(content_bytes, sizes[i]);
        cr_assert_eq(head_seen->content_length, (int64_t)sizes[i]);
        cr_assert(ended);
        close_exchange();
    }
}

Test(local, filler_for_head_is_a_length)
{
    struct wr_respond_options options = {
        .status = 200, .content_type = {"", 0}, .body_size = UINT64_C(1) << 40};
    begin(WR_METHOD_HEAD, "");
    wr_local_respond(exchange, &options);
    cr_assert_eq(head_flags, WR_HEAD_LAST);
    cr_assert_eq(head_seen->content_length, INT64_C(1) << 40);
    close_exchange();
}

Test(local, a_gibibyte_of_filler_for_a_slow_reader_holds_no_more_than_the_limit)
{
    struct wr_respond_options options = {
        .status = 200, .content_type = {"", 0}, .body_size = UINT64_C(1) << 30};
    begin(WR_METHOD_GET, "");
    appetite = 0;
    wr_local_respond(exchange, &options);
    cr_assert_eq(exchange->response.content.length, host.content_limit);
    appetite = 10000;
    for (unsigned i = 0; i < 1000; i++) {
        eat();
        cr_assert_leq(exchange->response.content.length, host.content_limit);
    }
    appetite = SIZE_MAX;
    while (!ended)
        eat();
    cr_assert_eq(content_bytes, UINT64_C(1) << 30);
    cr_assert_leq(most_held, host.content_limit);
    cr_assert_leq(exchange->arena.held, 16384);
    close_exchange();
}

Test(local, filler_stops_when_nobody_reads_any_more)
{
    struct wr_respond_options options = {
        .status = 200, .content_type = {"", 0}, .body_size = UINT64_C(1) << 30};
    begin(WR_METHOD_GET, "");
    appetite = 0;
    wr_local_respond(exchange, &options);
    wr_message_stop(&exchange->response, WR_ERR_CLIENT_RESET);
    cr_assert_eq(exchange->response.state, WR_MESSAGE_FAILED);
    cr_assert_eq(pool.used_count, 0);
    close_exchange();
}
