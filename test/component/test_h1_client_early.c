/* HTTP/1.1 towards upstreams that answer before they have all of the request: when its rest still goes out, so that the connection
 * can be used again, and when the connection is not worth that. */
#include <criterion/criterion.h>
#include <string.h>

#include "codec/h1_client_internal.h"
#include "support/h1_rig.h"

#define OK "HTTP/1.1 200 OK\r\n"
#define ANSWER OK "Content-Length: 2\r\n\r\nok"

static void put(struct rig *rig, const char *content)
{
    wr_message_put(&rig->exchange->request, content, strlen(content));
}

static void end(struct rig *rig)
{
    wr_message_end(&rig->exchange->request, NULL);
    rig_settle(rig);
}

/* "ab" of the LENGTH bytes of a request are with the upstream. */
static struct rig *begin(int64_t length, bool tcp)
{
    struct rig *rig = rig_new(true);
    rig->tcp = tcp;
    rig_start(rig);
    rig_open(rig, "POST", length, "");
    put(rig, "ab");
    rig_settle(rig);
    return rig;
}

static struct rig *begin_and_answer(bool tcp)
{
    struct rig *rig = begin(4, tcp);
    rig_say(rig, ANSWER);
    cr_assert(rig->collector.ended, "the client need not wait for it");
    cr_assert_str_eq(rig->events.p, "");
    return rig;
}

static void expect_given_up(struct rig *rig)
{
    cr_expect_str_eq(rig->events.p, "closed:spent ");
    cr_expect(rig->feeder.stopped);
    cr_expect_not(rig->collector.aborted, "the response was whole");
    rig_free(rig);
}

/* ---- the rest goes out ---- */

Test(h1_client_early, requests_follow_each_other_on_one_connection)
{
    struct rig *rig = rig_new(true);
    rig_start(rig);
    for (int i = 0; i < 20; i++) {
        rig_forget(rig);
        rig_open(rig, "POST", 6, "");
        rig_say(rig, ANSWER);
        put(rig, "abc");
        rig_settle(rig);
        put(rig, "def");
        cr_assert_str_eq(rig->events.p, "");
        end(rig);
        cr_assert_str_eq(rig->events.p, "closed:reusable ", "%d", i);
        cr_assert_str_eq(
            rig->heard.p,
            "POST /path?q HTTP/1.1\r\nhost: origin.test\r\ncontent-length: 6\r\n\r\nabcdef");
        rig_finish(rig, WR_OK);
        wr_loop_advance(rig->loop, WR_H1_REST_TIME); /* the deadline is gone */
    }
    rig_free(rig);
}

Test(h1_client_early, the_next_request_waits_for_the_rest)
{
    struct rig *rig = begin_and_answer(false);
    cr_expect_eq(rig->client->ops->capacity(rig->client), 0);
    put(rig, "cd");
    cr_expect_eq(rig->client->ops->capacity(rig->client), 0);
    end(rig);
    cr_expect_eq(rig->client->ops->capacity(rig->client), 1);
    rig_free(rig);
}

Test(h1_client_early, only_the_end_may_be_missing)
{
    struct rig *rig = begin(4, false);
    put(rig, "cd");
    rig_settle(rig);
    rig_say(rig, ANSWER);
    cr_expect_str_eq(rig->events.p, "");
    end(rig);
    cr_expect_str_eq(rig->events.p, "closed:reusable ");
    rig_free(rig);
}

/* Written and answered in one turn of the loop: the upstream answers to the head. */
Test(h1_client_early, what_was_written_in_this_turn_is_sent_first)
{
    static const char answer[] = ANSWER;
    struct rig *rig = begin(4, false);
    put(rig, "cd");
    wr_message_end(&rig->exchange->request, NULL);
    cr_assert_gt(wr_transport_output(rig->transport), 0);
    (void)wr_h1_client_transport_events.readable(rig->client, (const uint8_t *)answer,
                                                 sizeof(answer) - 1);
    cr_expect_str_eq(rig->events.p, "closed:reusable ");
    rig_settle(rig);
    cr_expect_str_eq(rig->heard.p + rig->heard.n - 4, "abcd");
    rig_free(rig);
}

Test(h1_client_early, a_refusal_that_keeps_the_connection_gets_the_rest)
{
    struct rig *rig = begin(4, false);
    rig_say(rig, "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n");
    cr_expect(rig->collector.ended);
    put(rig, "cd");
    end(rig);
    cr_expect_str_eq(rig->events.p, "closed:reusable ");
    rig_free(rig);
}

/* ---- the connection is not worth it ---- */

static const struct {
    const char *name;
    int64_t length;
    const char *answer;
} not_worth_it[] = {
    {"long", 1000000, ANSWER},
    {"unknown", WR_LENGTH_UNKNOWN, ANSWER},
    {"close", 4, OK "Connection: close\r\nContent-Length: 2\r\n\r\nok"},
    {"HTTP/1.0", 4, "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok"},
    {"413 and close", 4,
     "HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"},
    {"413, long", 1000000, "HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\n\r\nok"},
    {"two answers", 4, ANSWER ANSWER},
};

Test(h1_client_early, long_or_unknown_rests_and_last_words_are_not_waited_for)
{
    for (size_t i = 0; i < WR_COUNT_OF(not_worth_it); i++) {
        struct rig *rig = begin(not_worth_it[i].length, false);
        rig_say(rig, not_worth_it[i].answer);
        cr_expect(rig->collector.ended, "%s", not_worth_it[i].name);
        cr_expect_str_eq(rig->events.p, "closed:spent ", "%s", not_worth_it[i].name);
        cr_expect(rig->feeder.stopped, "%s", not_worth_it[i].name);
        rig_free(rig);
    }
}

/* It may never send what nobody asked it for with 100. */
Test(h1_client_early, a_client_that_waits_for_continue_is_not_waited_for)
{
    struct rig *rig = rig_new(true);
    rig_start(rig);
    struct wr_exchange *exchange = wr_exchange_open(&rig->host, &rig->client_info);
    struct wr_head *head = wr_arena_alloc(&exchange->arena, sizeof(*head));
    wr_head_init(head);
    head->method = WR_METHOD_PUT;
    head->method_text = WR_STR("PUT");
    head->authority = WR_STR("a");
    head->path = WR_STR("/");
    head->content_length = 2;
    head->expect_continue = true;
    wr_message_set_source(&exchange->request, &feeder_ops, &rig->feeder);
    wr_message_head(&exchange->request, head, 0);
    collector_attach(&rig->collector, &exchange->response, rig->host.chunks);
    rig->client->ops->open(rig->client, exchange);
    rig_settle(rig);
    rig_say(rig, ANSWER);
    cr_expect_str_eq(rig->events.p, "closed:spent ");
    cr_expect(rig->feeder.stopped);
    wr_exchange_finish(exchange, WR_OK);
    rig_free(rig);
}

/* ---- the rest does not come, or nobody is there for it ---- */

Test(h1_client_early, a_rest_that_does_not_come_is_not_waited_for_long)
{
    struct rig *rig = begin_and_answer(false);
    wr_loop_advance(rig->loop, WR_H1_REST_TIME - 10 * WR_MSEC);
    put(rig, "c"); /* a client that drips has no more time than one that says nothing */
    cr_expect_str_eq(rig->events.p, "");
    wr_loop_advance(rig->loop, 20 * WR_MSEC);
    expect_given_up(rig);
}

Test(h1_client_early, the_client_goes)
{
    struct rig *rig = begin_and_answer(false);
    wr_message_abort(&rig->exchange->request, WR_ERR_CLIENT_CLOSED);
    rig_settle(rig);
    cr_expect_str_eq(rig->events.p, "closed:spent ");
    cr_expect_str_eq(rig->heard.p + rig->heard.n - 4, "\r\nab");
    cr_expect(rig->heard_end);
    rig_free(rig);

    rig = begin_and_answer(false);
    rig_finish(rig, WR_OK);
    cr_expect_str_eq(rig->events.p, "closed:spent ");
    rig_free(rig);
}

Test(h1_client_early, less_than_was_announced)
{
    struct rig *rig = begin_and_answer(false);
    end(rig);
    cr_expect_str_eq(rig->events.p, "closed:spent ");
    rig_free(rig);
}

Test(h1_client_early, more_than_was_announced)
{
    struct rig *rig = begin_and_answer(false);
    put(rig, "cde");
    rig_settle(rig);
    cr_expect_str_eq(rig->heard.p + rig->heard.n - 4, "\r\nab", "nothing that could be a request");
    expect_given_up(rig);
}

Test(h1_client_early, the_upstream_ends)
{
    struct rig *rig = begin_and_answer(false);
    rig_peer_ends(rig);
    expect_given_up(rig);
}

Test(h1_client_early, the_upstream_resets)
{
    struct rig *rig = begin_and_answer(true);
    wr_socket_reset(rig->peer);
    rig->peer = -1;
    rig_settle(rig);
    expect_given_up(rig);
}

/* Not an answer to anything, and certainly none to the request that comes next. */
Test(h1_client_early, the_upstream_says_more)
{
    struct rig *rig = begin_and_answer(false);
    rig_say(rig, ANSWER);
    cr_expect_str_eq(rig->collector.content.p, "ok");
    expect_given_up(rig);
}

Test(h1_client_early, the_owner_closes)
{
    struct rig *rig = begin_and_answer(false);
    struct wr_client_codec *client = rig->client;
    rig->client = NULL;
    client->ops->close(client, WR_ERR_DRAINING);
    wr_transport_close(rig->transport);
    rig->transport = NULL;
    cr_expect(rig->feeder.stopped);
    cr_expect_str_eq(rig->events.p, "");
    wr_loop_turn(rig->loop, 0);
    wr_loop_advance(rig->loop, 2 * WR_H1_REST_TIME); /* freed, its deadline too */
    rig_free(rig);
}
