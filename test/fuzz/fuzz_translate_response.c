/* Responses of an HTTP/1.1 origin, translated to HTTP/2 and back (support/relay.h): what reaches the client is what the origin said, or
 * 502, or a part that cannot be taken for the whole; and nothing of it is taken for the answer to the next request.
 *
 * First byte of the input: the size of the pieces in which the rest is said. Second: what is asked, and when the origin says it. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "support/relay.h"
#include "support/told.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MOST_INPUT 16384
#define MOST_INTERIM_HEADS 32 /* more are an error: see h1_client */

#define ENDS_AT_ONCE 8u /* the origin's last byte and its FIN come together */
#define EARLY 4u        /* before the content of the request */

static const struct question {
    const char *head;
    const char *content;
    enum wr_method method;
} questions[] = {
    {"GET / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\n\r\n", "", WR_METHOD_GET},
    {"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n", "", WR_METHOD_HEAD},
    {"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n", "hello",
     WR_METHOD_POST},
    {"PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", "5\r\nhello\r\n0\r\n\r\n",
     WR_METHOD_PUT},
};

static const char next_question[] = "GET /next HTTP/1.1\r\nHost: a\r\n\r\n";
static const char next_answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnext";

struct test {
    struct relay *relay;
    const struct question *question;
    struct relay_end *asked; /* the origin's end where the first question came, or NULL */
    bool next_came;
    struct told_all told;
};

static void say(struct relay *relay, struct relay_end *end, const char *text)
{
    relay_say(relay, end, wr_str_from(text), SIZE_MAX);
}

/* ---- the origin ---- */

static void on_heard(void *owner, struct relay_end *origin)
{
    struct test *test = owner;
    struct strict_message got;
    struct wr_str rest = relay_rest(origin);
    size_t used = strict_read(rest, STRICT_REQUEST, &got);
    bool next = got.has_head && wr_str_eq(got.target, WR_STR("/next"));
    if (got.has_head && !next) {
        must(test->asked == NULL || test->asked == origin, "a request was sent twice");
        test->asked = origin;
    }
    if (next && used > 0) {
        test->next_came = true;
        (void)!send(origin->fd, next_answer, sizeof(next_answer) - 1, MSG_NOSIGNAL);
    }
    origin->at += used;
    strict_clear(&got);
}

static const struct relay_events events = {.origin_heard = on_heard};

/* ---- the response ---- */

static bool is_date(struct wr_str name)
{
    return wr_str_eq(name, WR_STR("date"));
}

static bool is_interim(const struct told *told)
{
    return told->has_head && told->head.status < 200;
}

static void say_both(const struct told *told, const struct strict_message *got,
                     struct text *expected, struct text *seen)
{
    bool dated = is_interim(told) || wr_fields_find(&told->head.fields, WR_FIELD_DATE) != NULL;
    text_say(expected, "%u\n", (unsigned)told->head.status);
    told_expect_fields(told, false, expected);
    text_say(seen, "%u\n", got->status);
    strict_say_fields(&got->fields, dated ? NULL : is_date, seen);
}

static bool has_no_content(const struct test *test, const struct told *told)
{
    return wr_response_has_no_content(test->question->method, told->head.status);
}

static void compare_length(const struct test *test, const struct told *told,
                           const struct strict_message *got)
{
    if (has_no_content(test, told)) {
        bool tells = told->head.length_given && told->head.status != 204;
        must(got->length == (tells ? told->head.content_length : STRICT_NO_LENGTH),
             "another Content-Length where no content is");
    } else if (told->head.content_length == WR_LENGTH_UNKNOWN) {
        must(got->length == STRICT_CHUNKED, "content of unknown length, not in chunks");
    } else {
        must(got->length == told->head.content_length, "another Content-Length");
    }
}

static void compare_content(const struct told *told, const struct strict_message *got)
{
    struct wr_str expected = wr_str(told->content.p, told->content.n);
    struct wr_str seen = wr_str(got->content.p, got->content.n);
    if (seen.n > expected.n || !wr_str_eq(wr_str(expected.p, seen.n), seen) ||
        (got->whole && seen.n < expected.n))
        finding("other content of a response", expected, seen);
    must(told->whole || !got->whole, "a response that was cut short came whole");
    if (!got->whole)
        return;
    struct text wanted = {0};
    struct text trailers = {0};
    told_say_trailers(told, &wanted);
    strict_say_fields(&got->trailers, NULL, &trailers);
    must_be_equal("other trailers of a response", &wanted, &trailers);
}

static void compare(const struct test *test, const struct told *told,
                    const struct strict_message *got)
{
    struct text expected = {0};
    struct text seen = {0};
    say_both(told, got, &expected, &seen);
    must_be_equal("another status, or other fields", &expected, &seen);
    compare_length(test, told, got);
    compare_content(told, got);
}

static bool is_same_head(const struct told *told, const struct strict_message *got)
{
    struct text expected = {0};
    struct text seen = {0};
    say_both(told, got, &expected, &seen);
    bool same = wr_str_eq(wr_str(expected.p, expected.n), wr_str(seen.p, seen.n));
    text_free(&expected);
    text_free(&seen);
    return same;
}

/* Returns the place behind the next interim response of the origin that is GOT. Those before it were passed over, which may
 * happen when the client is slow. */
static size_t find_interim(const struct test *test, size_t from, const struct strict_message *got)
{
    for (size_t i = from; i < test->told.count && is_interim(&test->told.v[i]); i++) {
        if (is_same_head(&test->told.v[i], got))
            return i + 1;
    }
    struct text seen = {0};
    strict_say_fields(&got->fields, NULL, &seen);
    finding("an interim response of nobody", WR_STR_EMPTY, wr_str(seen.p, seen.n));
}

static const struct told *final_of(const struct test *test)
{
    size_t count = test->told.count;
    const struct told *last = count > 0 ? &test->told.v[count - 1] : NULL;
    return last != NULL && last->has_head && !is_interim(last) && count <= MOST_INTERIM_HEADS + 1
               ? last
               : NULL;
}

static void judge_failure(const struct test *test, const struct strict_message *got)
{
    const struct told *final = final_of(test);
    must(got->status == 502 && got->whole, "a bad response, and no 502");
    must(final == NULL || !final->whole, "a good response was refused");
}

/* An answer of weir's own. */
static bool is_local(const struct test *test, const struct strict_message *got)
{
    const struct told *final = final_of(test);
    return strict_find(&got->fields, "proxy-status") != NULL &&
           (final == NULL || final->head.status != got->status ||
            wr_fields_find(&final->head.fields, WR_FIELD_PROXY_STATUS) == NULL);
}

/* True: the connection goes on. */
static bool judge(struct test *test)
{
    struct relay_end *client = relay_client(test->relay);
    const struct told *final = final_of(test);
    enum strict_kind kind =
        test->question->method == WR_METHOD_HEAD ? STRICT_RESPONSE_TO_HEAD : STRICT_RESPONSE;
    size_t interim = 0;
    struct strict_message got;
    for (;;) {
        size_t used = strict_read(relay_rest(client), kind, &got);
        client->at += used;
        if (!got.has_head || got.status >= 200)
            break;
        interim = find_interim(test, interim, &got);
        strict_clear(&got);
    }
    bool whole = got.whole;
    bool closes = got.closes;
    if (!got.has_head) {
        must(final == NULL || !final->whole, "a good response was lost");
    } else if (is_local(test, &got) || final == NULL) {
        judge_failure(test, &got);
    } else {
        compare(test, final, &got);
        must(got.whole == final->whole, "a response that was whole did not come whole");
    }
    strict_clear(&got);
    must(!whole || client->at == client->heard.n, "more than one response");
    return whole && !closes && !client->ended;
}

/* Leftovers of the origin's are for nobody. */
static void judge_next(struct test *test)
{
    struct relay_end *client = relay_client(test->relay);
    struct strict_message got;
    say(test->relay, client, next_question);
    size_t used = strict_read(relay_rest(client), STRICT_RESPONSE, &got);
    must(used > 0 && test->next_came, "the next request was not answered");
    struct wr_str content = wr_str(got.content.p, got.content.n);
    if (got.status != 200 || !wr_str_eq(content, WR_STR("next")))
        finding("another answer to the next request", WR_STR("next"), content);
    client->at += used;
    must(client->at == client->heard.n, "more than one response to the next request");
    strict_clear(&got);
}

static void speak(struct test *test, struct wr_str bytes, size_t piece, bool ends_at_once)
{
    if (ends_at_once) {
        (void)!send(test->asked->fd, bytes.p, bytes.n, MSG_NOSIGNAL);
        relay_finish(test->relay, test->asked);
        return;
    }
    relay_say(test->relay, test->asked, bytes, piece > 0 ? piece : bytes.n);
    const struct told *final = final_of(test);
    if (final == NULL || !final->whole || final->head.content_length == WR_LENGTH_UNKNOWN)
        relay_finish(test->relay, test->asked);
}

static void play(struct test *test, struct wr_str bytes, size_t piece, unsigned how)
{
    struct relay *relay = test->relay;
    struct relay_end *client = relay_client(relay);
    bool early = (how & EARLY) != 0;
    say(relay, client, test->question->head);
    if (!early)
        say(relay, client, test->question->content);
    must(test->asked != NULL, "the question did not arrive");
    speak(test, bytes, piece, (how & ENDS_AT_ONCE) != 0);
    if (early)
        say(relay, client, test->question->content);
    if (judge(test))
        judge_next(test);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 3 || size > MOST_INPUT)
        return 0;
    struct test test = {.question = &questions[data[1] % WR_COUNT_OF(questions)]};
    struct wr_str bytes = wr_str((const char *)data + 2, size - 2);
    struct wr_head request;
    wr_head_init(&request);
    request.method = test.question->method;
    told_response(&test.told, bytes, &request, true);
    test.relay = relay_new(&events, &test);
    play(&test, bytes, data[0], data[1]);
    relay_free(test.relay);
    told_clear(&test.told);
    return 0;
}
