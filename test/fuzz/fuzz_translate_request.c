/* Requests of an HTTP/1.1 client, translated to HTTP/2 and back (support/relay.h): what comes out at the origin is what the client
 * said, message for message, or it was refused; and each answer reaches the request it is for.
 *
 * First byte of the input: how the origin answers, and the size of the pieces the rest is said in. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "proxy/path.h"
#include "support/relay.h"
#include "support/told.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MOST_INPUT 4096 /* so that a relay has connections enough */
#define MOST_NOMINATIONS 64

enum answers {
    ANSWER_WHOLE,      /* requests that have come whole */
    ANSWER_AND_CLOSE,  /* the same, each connection once */
    ANSWER_EARLY,      /* when the head has come, with a success */
    ANSWER_NO_AT_ONCE, /* when the head has come, with an error */
    ANSWERS
};

/* What became of a request. */
struct fate {
    enum wr_err refused; /* by the edge, before anything else */
    bool is_head;        /* HEAD, so that its response has no content */
    bool arrived;        /* its head, at the origin */
    bool arrived_whole;
    bool answered; /* by the origin */
};

struct test {
    struct relay *relay;
    enum answers answers;
    struct told_all told;
    struct fate *fates;
    size_t asked; /* exchanges the edge has opened */
};

/* ---- the edge ---- */

static void on_asked(void *owner, struct wr_exchange *exchange)
{
    struct test *test = owner;
    must(test->asked < test->told.count, "a request nobody has said");
    struct fate *fate = &test->fates[test->asked];
    const struct told *told = &test->told.v[test->asked++];
    fate->refused = exchange->refused;
    fate->is_head = exchange->request.head->method == WR_METHOD_HEAD;
    enum wr_err expected = told->has_head ? WR_OK : told->err;
    if (exchange->refused != expected)
        finding("the edge reads another request than the reader",
                wr_str_from(wr_err_info(expected)->label),
                wr_str_from(wr_err_info(exchange->refused)->label));
}

/* ---- the origin ---- */

static void normalise(const struct told *told, struct wr_arena *arena, struct wr_str *path)
{
    enum wr_err err = wr_path_normalise(told->head.path, WR_PATH_STRICT, arena, path);
    must(err == WR_OK, "a path that should have been refused");
}

static bool is_ours(struct wr_str name)
{
    return wr_str_starts(name, WR_STR("x-forwarded-")) || wr_str_eq(name, WR_STR("x-request-id"));
}

static bool is_ours_or_counted(struct wr_str name)
{
    return is_ours(name) || wr_str_eq(name, WR_STR("max-forwards"));
}

static void say(struct text *out, struct wr_str a, struct wr_str b, struct wr_str c)
{
    text_add(out, a.p, a.n);
    text_add(out, " ", 1);
    text_add(out, b.p, b.n);
    text_add(out, " ", 1);
    text_add(out, c.p, c.n);
}

static void compare_length(const struct told *told, const struct strict_message *got)
{
    bool tunnel = told->head.tunnel != WR_TUNNEL_NONE;
    int64_t length = tunnel ? 0 : told->head.content_length;
    if (length > 0)
        must(got->length == length, "another Content-Length");
    else if (length == WR_LENGTH_UNKNOWN)
        must(got->length == STRICT_CHUNKED, "content of unknown length, not in chunks");
    else if (told->head.length_given)
        must(got->length == 0, "Content-Length of 0 was lost");
    else
        must(got->length == 0 || got->length == STRICT_NO_LENGTH, "content out of nothing");
}

static void compare_head(struct test *test, const struct told *told,
                         const struct strict_message *got)
{
    struct text expected = {0};
    struct text seen = {0};
    struct wr_str path;
    normalise(told, &test->told.arena, &path);
    say(&expected, told->head.method_text, told->head.authority, path);
    say(&seen, got->method, got->host, got->target);
    must_be_equal("another method, authority or path", &expected, &seen);

    bool counted = told->head.method == WR_METHOD_OPTIONS;
    told_expect_fields(told, true, &expected);
    strict_say_fields(&got->fields, counted ? is_ours_or_counted : is_ours, &seen);
    must_be_equal("other fields of a request", &expected, &seen);
    must(got->expects == told->head.expect_continue, "another expectation");
    compare_length(told, got);
}

static void compare_content(const struct told *told, const struct strict_message *got)
{
    struct wr_str expected = wr_str(told->content.p, told->content.n);
    struct wr_str seen = wr_str(got->content.p, got->content.n);
    bool whole = got->whole;
    if (seen.n > expected.n || !wr_str_eq(wr_str(expected.p, seen.n), seen) ||
        (whole && seen.n < expected.n))
        finding("other content of a request", expected, seen);
    if (!whole)
        return;
    must(told->whole, "a request that was cut short came whole");
    struct text wanted = {0};
    struct text trailers = {0};
    told_say_trailers(told, &wanted);
    strict_say_fields(&got->trailers, NULL, &trailers);
    must_be_equal("other trailers of a request", &wanted, &trailers);
}

static void answer(struct test *test, struct relay_end *origin, size_t number, bool is_head)
{
    struct text out = {0};
    struct fate *fate = &test->fates[number];
    if (fate->answered)
        return;
    fate->answered = true;
    text_say(&out, "HTTP/1.1 %s\r\nx-answers: %zu\r\ncontent-length: 2\r\n%s\r\n%s",
             test->answers == ANSWER_NO_AT_ONCE ? "403 No" : "200 OK", number,
             test->answers == ANSWER_AND_CLOSE ? "connection: close\r\n" : "", is_head ? "" : "ok");
    (void)!send(origin->fd, out.p, out.n, MSG_NOSIGNAL);
    text_free(&out);
    if (test->answers == ANSWER_AND_CLOSE)
        (void)shutdown(origin->fd, SHUT_WR);
}

/* Which request it is that the connection has begun: the one the edge has read last, since it reads the next when that is answered. */
static void begin(struct test *test, struct relay_end *origin)
{
    must(test->asked > 0, "a request before one was asked for");
    origin->message = test->asked;
    struct fate *fate = &test->fates[test->asked - 1];
    must(!fate->arrived, "more requests than were said");
    must(test->told.v[test->asked - 1].has_head && fate->refused == WR_OK,
         "a request that was refused came through");
}

/* GOT is of that request, all that has come of it so far. */
static void hear(struct test *test, struct relay_end *origin, const struct strict_message *got)
{
    size_t number = origin->message - 1;
    const struct told *told = &test->told.v[number];
    struct fate *fate = &test->fates[number];
    if (!fate->arrived) {
        compare_head(test, told, got);
        if (got->expects)
            (void)!send(origin->fd, "HTTP/1.1 100 Continue\r\n\r\n", 25, MSG_NOSIGNAL);
    }
    fate->arrived = true;
    fate->arrived_whole = got->whole;
    compare_content(told, got);
    if (got->whole || test->answers >= ANSWER_EARLY)
        answer(test, origin, number, fate->is_head);
}

static void on_heard(void *owner, struct relay_end *origin)
{
    size_t used;
    do {
        struct strict_message got;
        used = strict_read(relay_rest(origin), STRICT_REQUEST, &got);
        if (got.has_head) {
            if (origin->message == 0)
                begin(owner, origin);
            hear(owner, origin, &got);
        }
        strict_clear(&got);
        origin->at += used;
        if (used > 0)
            origin->message = 0;
    } while (used > 0);
}

static const struct relay_events events = {.asked = on_asked, .origin_heard = on_heard};

/* ---- the client ---- */

static bool nominates_too_many(const struct wr_fields *fields)
{
    unsigned count = 0;
    for (uint32_t i = 0; i < fields->count; i++) {
        struct wr_str rest = fields->v[i].value;
        struct wr_str name;
        while (fields->v[i].id == WR_FIELD_CONNECTION && wr_str_next_element(&rest, &name))
            count++;
    }
    return count > MOST_NOMINATIONS;
}

/* Why a request that was read without complaint need not come through. */
static bool may_be_refused(struct test *test, const struct told *told)
{
    const struct wr_head *head = &told->head;
    struct wr_str path;
    if (!told->whole || head->method == WR_METHOD_CONNECT || nominates_too_many(&head->fields))
        return true;
    if (head->authority.n == 0) /* of HTTP/1.0: HTTP/2 has no such thing */
        return true;
    if (head->method == WR_METHOD_OPTIONS &&
        wr_fields_find(&head->fields, WR_FIELD_MAX_FORWARDS) != NULL)
        return true;
    return wr_path_normalise(head->path, WR_PATH_STRICT, &test->told.arena, &path) != WR_OK;
}

static void judge_answer(struct test *test, size_t number, const struct strict_message *got)
{
    const struct told *told = &test->told.v[number];
    const struct fate *fate = &test->fates[number];
    const struct strict_field *field = strict_find(&got->fields, "x-answers");
    char expected[24];
    if (field == NULL) {
        must(got->status >= 200 && (got->status >= 400 || told->head.method == WR_METHOD_OPTIONS),
             "a success nobody has given");
        must(fate->refused != WR_OK || may_be_refused(test, told), "a good request was refused");
        return;
    }
    int n = snprintf(expected, sizeof(expected), "%zu", number);
    if (!wr_str_eq(field->value, wr_str(expected, (size_t)n)))
        finding("the answer to another request", wr_str(expected, (size_t)n), field->value);
    must(fate->answered, "an answer before it was given");
    must(got->status == (test->answers == ANSWER_NO_AT_ONCE ? 403 : 200), "another status");
    must(!got->whole || got->content.n == (fate->is_head ? 0 : 2), "other content of an answer");
}

/* Returns how many requests were answered. *CLOSES: and the edge has said that this is all. */
static size_t judge_answers(struct test *test, bool *closes)
{
    struct relay_end *client = relay_client(test->relay);
    size_t number = 0;
    *closes = false;
    while (client->at < client->heard.n) {
        struct strict_message got;
        must(number < test->asked && !*closes, "an answer to nothing");
        enum strict_kind kind =
            test->fates[number].is_head ? STRICT_RESPONSE_TO_HEAD : STRICT_RESPONSE;
        size_t used = strict_read(relay_rest(client), kind, &got);
        must(used > 0, "an answer that was cut short");
        if (got.status >= 200) {
            judge_answer(test, number++, &got);
            *closes = got.closes;
        } else {
            must(got.status == 100 && test->told.v[number].head.expect_continue,
                 "an interim response nobody has given");
        }
        client->at += used;
        strict_clear(&got);
    }
    return number;
}

/* Nothing may lie there that is no request, or not yet: heads come in one piece. */
static void judge_leftovers(const struct test *test)
{
    size_t count;
    const struct relay_end *origins = relay_origins(test->relay, &count);
    for (size_t i = 0; i < count; i++) {
        const struct relay_end *origin = &origins[i];
        if (origin->message == 0 && origin->at < origin->heard.n)
            finding("bytes behind a request", WR_STR_EMPTY, relay_rest(origin));
    }
}

static void judge(struct test *test)
{
    bool closes;
    size_t answered = judge_answers(test, &closes);
    judge_leftovers(test);
    for (size_t i = 0; i < test->asked; i++) {
        const struct told *told = &test->told.v[i];
        if (told->err == WR_OK && !told->whole)
            continue; /* the client has gone in the middle of it */
        must(i < answered, "a request without an answer");
        if (test->answers < ANSWER_EARLY && !may_be_refused(test, told))
            must(test->fates[i].arrived_whole, "a good request did not arrive");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2 || size > MOST_INPUT)
        return 0;
    struct test test = {.answers = data[0] % ANSWERS};
    size_t piece = data[0] / ANSWERS;
    struct wr_str bytes = wr_str((const char *)data + 1, size - 1);
    told_requests(&test.told, bytes);
    test.fates = calloc(test.told.count + 1, sizeof(*test.fates));
    must(test.fates != NULL, "no memory");
    test.relay = relay_new(&events, &test);
    relay_say(test.relay, relay_client(test.relay), bytes, piece > 0 ? piece : bytes.n);
    must(test.asked == test.told.count || relay_client(test.relay)->ended,
         "a request was not read");
    relay_finish(test.relay, relay_client(test.relay));
    judge(&test);
    relay_free(test.relay);
    free(test.fates);
    told_clear(&test.told);
    return 0;
}
