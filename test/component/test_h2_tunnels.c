/* Tunnels over HTTP/2: CONNECT and extended CONNECT (RFC 8441), towards clients and upstreams. */
#include <criterion/criterion.h>
#include <string.h>

#include "support/h2_rig.h"

#define CONNECT ":method: CONNECT\n:authority: a.test:443\n"
#define WEBSOCKET                                                            \
    ":method: CONNECT\n:protocol: WebSocket\n:scheme: https\n:path: /chat\n" \
    ":authority: a.test\nsec-websocket-version: 13\n"

/* ---- towards clients ---- */

static struct h2_rig *server(void)
{
    struct h2_rig *rig = h2_rig_new(false);
    rig->on_exchange = h2_rig_wait;
    h2_rig_start(rig);
    h2_rig_forget(rig);
    return rig;
}

static void ask(struct h2_rig *rig, unsigned flags, const char *fields)
{
    h2_put_headers(&rig->out, 1, flags, fields);
    h2_rig_send(rig);
}

Test(h2_tunnels, connect_becomes_a_head)
{
    struct h2_rig *rig = server();
    ask(rig, 0, CONNECT);
    const struct wr_head *head = rig->calls[0].exchange->request.head;
    cr_expect_eq(head->tunnel, WR_TUNNEL_CONNECT);
    cr_expect_eq(head->method, WR_METHOD_CONNECT);
    cr_expect(wr_str_eq(head->authority, WR_STR("a.test:443")));
    cr_expect_eq(head->path.n, 0);
    cr_expect_eq(head->content_length, WR_LENGTH_UNKNOWN);
    h2_rig_free(rig);
}

Test(h2_tunnels, extended_connect_becomes_a_get_that_upgrades)
{
    struct h2_rig *rig = server();
    ask(rig, 0, WEBSOCKET "sec-websocket-key: abc\n");
    const struct wr_head *head = rig->calls[0].exchange->request.head;
    cr_expect_eq(head->tunnel, WR_TUNNEL_UPGRADE);
    cr_expect_eq(head->method, WR_METHOD_GET);
    cr_expect(wr_str_eq(head->method_text, WR_STR("GET")));
    cr_expect(wr_str_eq(head->protocol, WR_STR("websocket")));
    cr_expect(wr_str_eq(head->path, WR_STR("/chat")));
    cr_expect_null(wr_fields_find(&head->fields, WR_FIELD_SEC_WEBSOCKET_KEY));
    cr_expect_not_null(wr_fields_find_name(&head->fields, WR_STR("sec-websocket-version")));
    h2_rig_free(rig);
}

Test(h2_tunnels, accepted_content_goes_both_ways_and_each_ends_by_itself)
{
    struct h2_rig *rig = server();
    ask(rig, 0, WEBSOCKET);
    struct h2_call *call = &rig->calls[0];
    h2_rig_answer_head(call, 200, WR_LENGTH_UNKNOWN, "sec-websocket-accept: x\na: b\n", 0);
    h2_rig_settle(rig);
    cr_expect(h2_rig_heard(rig, "HEADERS/1[:status=200;date="), "%s", rig->frames.p);
    cr_expect(h2_rig_heard(rig, ";a=b;] "), "%s", rig->frames.p);
    cr_expect_not(h2_rig_heard(rig, "sec-websocket-accept"));
    cr_expect_not(h2_rig_heard(rig, "content-length"));
    h2_put_data(&rig->out, 1, 0, "up");
    h2_rig_send(rig);
    wr_message_put(&call->exchange->response, "down", 4);
    h2_rig_settle(rig);
    cr_expect_str_eq(call->collector.content.p, "up");
    cr_expect(h2_rig_heard(rig, "DATA/1[down] "));

    wr_message_end(&call->exchange->response, NULL);
    h2_rig_settle(rig);
    cr_expect(h2_rig_heard(rig, "DATA/1+ES[] "), "%s", rig->frames.p);
    cr_expect_not(h2_rig_heard(rig, "RST"), "half-closed: %s", rig->frames.p);
    cr_expect_eq(rig->finished, 0);
    h2_put_data(&rig->out, 1, H2_END_STREAM, "!");
    h2_rig_send(rig);
    cr_expect_str_eq(call->collector.content.p, "up!");
    cr_expect(call->collector.ended);
    cr_expect_eq(call->ended, WR_OK);
    h2_rig_free(rig);
}

Test(h2_tunnels, the_client_may_end_first)
{
    struct h2_rig *rig = server();
    ask(rig, 0, CONNECT);
    struct h2_call *call = &rig->calls[0];
    h2_rig_answer_head(call, 200, WR_LENGTH_UNKNOWN, "", 0);
    h2_put_data(&rig->out, 1, H2_END_STREAM, "bye");
    h2_rig_send(rig);
    cr_expect(call->collector.ended);
    wr_message_put(&call->exchange->response, "rest", 4);
    wr_message_end(&call->exchange->response, NULL);
    h2_rig_settle(rig);
    cr_expect(h2_rig_heard(rig, "DATA/1+ES[rest] "), "%s", rig->frames.p);
    cr_expect_eq(call->ended, WR_OK);
    h2_rig_free(rig);
}

/* Both directions have ended, and nghttp2 knows the stream no more; what came on it is still passed on. */
static struct h2_rig *server_with_last_bytes(void)
{
    struct h2_rig *rig = server();
    rig->holds = true;
    ask(rig, 0, WEBSOCKET);
    struct h2_call *call = &rig->calls[0];
    h2_rig_answer_head(call, 200, WR_LENGTH_UNKNOWN, "", 0);
    wr_message_end(&call->exchange->response, NULL);
    h2_put_data(&rig->out, 1, H2_END_STREAM, "the last");
    h2_rig_send(rig);
    cr_expect(h2_rig_heard(rig, "DATA/1+ES[] "), "%s", rig->frames.p);
    cr_assert_eq(rig->finished, 0);
    return rig;
}

Test(h2_tunnels, the_last_bytes_are_passed_on_before_it_is_over)
{
    struct h2_rig *rig = server_with_last_bytes();
    h2_rig_get(rig, 3, "");
    h2_rig_peer_ends(rig); /* a client that has all it wanted */
    h2_rig_answer(&rig->calls[1], 200, "ok");
    h2_rig_settle(rig);
    cr_expect_not(h2_rig_told(rig, "done:"), "%s", rig->events.p);
    collector_take(&rig->calls[0].collector, 100);
    h2_rig_settle(rig);
    cr_expect_str_eq(rig->calls[0].collector.content.p, "the last");
    cr_expect(rig->calls[0].collector.ended);
    cr_expect_not(rig->calls[0].collector.aborted);
    cr_expect_eq(rig->calls[0].ended, WR_OK);
    cr_expect(h2_rig_told(rig, "done:ok "), "%s", rig->events.p);
    h2_rig_free(rig);
}

Test(h2_tunnels, the_last_bytes_hold_up_a_drain)
{
    struct h2_rig *rig = server_with_last_bytes();
    rig->server->ops->drain(rig->server);
    h2_rig_settle(rig);
    h2_put_ping(&rig->out, H2_ACK, "weirlast");
    h2_rig_send(rig);
    cr_expect_not(h2_rig_told(rig, "done:"), "%s", rig->events.p);
    collector_take(&rig->calls[0].collector, 100);
    h2_rig_settle(rig);
    cr_expect_eq(rig->calls[0].ended, WR_OK);
    cr_expect(h2_rig_told(rig, "done:ok "), "%s", rig->events.p);
    h2_rig_free(rig);
}

Test(h2_tunnels, the_last_bytes_that_nobody_takes)
{
    struct h2_rig *rig = server_with_last_bytes();
    wr_message_stop(&rig->calls[0].exchange->request, WR_ERR_UPSTREAM_RESET);
    rig->calls[0].collector.message = NULL;
    h2_rig_settle(rig);
    cr_expect_eq(rig->finished, 1);
    cr_expect(h2_rig_told(rig, "idle "));
    h2_rig_free(rig);

    rig = server_with_last_bytes();
    rig->server->ops->close(rig->server, WR_ERR_DRAINING);
    rig->server = NULL;
    cr_expect_eq(rig->calls[0].ended, WR_ERR_DRAINING);
    h2_rig_free(rig);
}

Test(h2_tunnels, the_last_bytes_have_the_time_of_a_tunnel)
{
    struct h2_rig *rig = h2_rig_new(false);
    rig->on_exchange = h2_rig_wait;
    rig->holds = true;
    rig->host.tunnel_timeout = 10 * WR_SEC;
    h2_rig_start(rig);
    ask(rig, 0, WEBSOCKET);
    h2_rig_answer_head(&rig->calls[0], 200, WR_LENGTH_UNKNOWN, "", 0);
    wr_message_end(&rig->calls[0].exchange->response, NULL);
    h2_put_data(&rig->out, 1, H2_END_STREAM, "the last");
    h2_rig_send(rig);
    cr_expect_eq(rig->finished, 0);
    wr_loop_advance(rig->loop, 11 * WR_SEC);
    h2_rig_settle(rig);
    cr_expect_eq(rig->calls[0].ended, WR_ERR_TUNNEL_TIMEOUT);
    cr_expect(rig->calls[0].collector.aborted);
    cr_expect_not(h2_rig_heard(rig, "RST"), "%s", rig->frames.p);
    h2_rig_free(rig);
}

/* Behaviour row 26. */
Test(h2_tunnels, content_before_the_answer_waits_for_it)
{
    struct h2_rig *rig = server();
    ask(rig, 0, WEBSOCKET);
    h2_put_data(&rig->out, 1, 0, "too ");
    h2_put_data(&rig->out, 1, H2_END_STREAM, "early");
    h2_rig_send(rig);
    struct h2_call *call = &rig->calls[0];
    cr_expect_eq(call->exchange->request.put_bytes, 0);
    h2_rig_answer_head(call, 200, WR_LENGTH_UNKNOWN, "", 0);
    h2_rig_settle(rig);
    cr_expect_str_eq(call->collector.content.p, "too early");
    cr_expect(call->collector.ended);
    h2_rig_free(rig);
}

Test(h2_tunnels, declined_there_is_no_content)
{
    struct h2_rig *rig = server();
    ask(rig, 0, WEBSOCKET);
    h2_put_data(&rig->out, 1, 0, "smuggled");
    h2_rig_send(rig);
    struct h2_call *call = &rig->calls[0];
    h2_rig_answer(call, 403, "no");
    cr_expect_str_eq(call->collector.content.p, "");
    cr_expect(call->collector.ended);
    h2_rig_settle(rig);
    cr_expect(h2_rig_heard(rig, "HEADERS/1[:status=403;"), "%s", rig->frames.p);
    cr_expect(h2_rig_heard(rig, "DATA/1+ES[no] "), "%s", rig->frames.p);
    h2_put_data(&rig->out, 1, H2_END_STREAM, "more");
    h2_rig_send(rig);
    cr_expect_str_eq(call->collector.content.p, "");
    cr_expect_eq(call->ended, WR_OK);
    h2_rig_free(rig);
}

Test(h2_tunnels, policy_that_knows_no_tunnels)
{
    struct h2_rig *rig = h2_rig_new(false);
    h2_rig_start(rig);
    rig->on_exchange = NULL;
    h2_put_headers(&rig->out, 1, 0, WEBSOCKET);
    h2_rig_send(rig);
    struct h2_call *call = &rig->calls[0];
    wr_message_stop(&call->exchange->request, WR_ERR_CANCELLED);
    h2_rig_answer(call, 405, "");
    h2_rig_settle(rig);
    cr_expect(h2_rig_heard(rig, "HEADERS/1+ES[:status=405;"), "%s", rig->frames.p);
    h2_put_reset(&rig->out, 1, 8);
    h2_rig_send(rig);
    cr_expect_eq(call->ended, WR_OK);
    h2_rig_free(rig);
}

Test(h2_tunnels, reset_by_the_client_ends_both)
{
    struct h2_rig *rig = server();
    ask(rig, 0, WEBSOCKET);
    struct h2_call *call = &rig->calls[0];
    h2_put_data(&rig->out, 1, 0, "early");
    h2_put_reset(&rig->out, 1, 8);
    h2_rig_send(rig);
    cr_expect_eq(call->ended, WR_ERR_CLIENT_RESET);
    h2_rig_free(rig);
}

/* ---- towards upstreams ---- */

static struct h2_rig *client(const uint32_t *settings)
{
    struct h2_rig *rig = h2_rig_new(true);
    h2_rig_start_silent(rig);
    if (settings != NULL)
        h2_put_settings(&rig->out, settings);
    h2_rig_send(rig);
    h2_rig_forget(rig);
    return rig;
}

static const uint32_t knows[] = {8, 1, 0};
static const uint32_t knows_not[] = {8, 0, 0};

Test(h2_tunnels, an_upgrade_becomes_extended_connect)
{
    struct h2_rig *rig = client(knows);
    struct h2_call *call = h2_rig_open_tunnel(rig, WR_TUNNEL_UPGRADE);
    h2_rig_settle(rig);
    cr_expect(h2_rig_heard(rig, "HEADERS/1[:method=CONNECT;:protocol=websocket;:scheme=http;"
                                ":path=/path?q;:authority=origin.test;] "),
              "%s", rig->frames.p);
    h2_put_headers(&rig->out, 1, 0, ":status: 201\ncontent-length: 9\n");
    h2_put_data(&rig->out, 1, 0, "hi");
    h2_rig_send(rig);
    cr_assert_not_null(call->collector.head);
    cr_expect_eq(call->collector.head->status, 200);
    cr_expect_eq(call->collector.head->tunnel, WR_TUNNEL_UPGRADE);
    cr_expect_eq(call->collector.head->content_length, WR_LENGTH_UNKNOWN);
    cr_expect_str_eq(call->collector.content.p, "hi");
    wr_message_put(&call->exchange->request, "ho", 2);
    h2_rig_settle(rig);
    cr_expect(h2_rig_heard(rig, "DATA/1[ho] "), "%s", rig->frames.p);

    h2_put_data(&rig->out, 1, H2_END_STREAM, "");
    h2_rig_send(rig);
    cr_expect(call->collector.ended);
    cr_expect_not(call->feeder.stopped, "half-closed");
    wr_message_put(&call->exchange->request, "more", 4);
    wr_message_end(&call->exchange->request, NULL);
    h2_rig_settle(rig);
    cr_expect(h2_rig_heard(rig, "DATA/1+ES[more] "), "%s", rig->frames.p);
    cr_expect_not(h2_rig_heard(rig, "RST"));
    cr_expect_str_eq(rig->events.p, "closed:reusable ");
    h2_rig_free(rig);
}

/* The exchange is over before END_STREAM can be written. */
Test(h2_tunnels, the_last_end_waits_for_the_upstreams_window)
{
    static const uint32_t ten[] = {8, 1, 4, 10, 0};
    for (unsigned first = 0; first < 2; first++) {
        struct h2_rig *rig = client(ten);
        struct h2_call *call = h2_rig_open_tunnel(rig, WR_TUNNEL_UPGRADE);
        h2_rig_settle(rig);
        h2_put_headers(&rig->out, 1, first == 0 ? H2_END_STREAM : 0, ":status: 200\n");
        h2_rig_send(rig);
        wr_message_put(&call->exchange->request, "0123456789", 10);
        h2_rig_settle(rig);
        wr_message_end(&call->exchange->request, NULL);
        h2_rig_settle(rig);
        if (first == 1) {
            cr_expect_str_eq(rig->events.p, "");
            h2_put_data(&rig->out, 1, H2_END_STREAM, "");
            h2_rig_send(rig);
        }
        cr_expect(call->collector.ended);
        cr_expect_str_eq(rig->events.p, "closed:reusable ");
        h2_rig_finish(call, WR_OK);
        h2_rig_settle(rig);
        cr_expect(h2_rig_heard(rig, "DATA/1[0123456789] "), "%s", rig->frames.p);
        h2_put_window(&rig->out, 1, 1);
        h2_rig_send(rig);
        cr_expect(h2_rig_heard(rig, "DATA/1+ES[] "), "%s", rig->frames.p);
        cr_expect_not(h2_rig_heard(rig, "RST"), "%s", rig->frames.p);
        h2_rig_free(rig);
    }
}

Test(h2_tunnels, it_waits_for_the_settings)
{
    struct h2_rig *rig = client(NULL);
    h2_rig_open_tunnel(rig, WR_TUNNEL_UPGRADE);
    h2_rig_settle(rig);
    cr_expect_not(h2_rig_heard(rig, "HEADERS"), "%s", rig->frames.p);
    h2_put_settings(&rig->out, knows);
    h2_rig_send(rig);
    cr_expect(h2_rig_heard(rig, "HEADERS/1[:method=CONNECT;"), "%s", rig->frames.p);
    h2_rig_free(rig);
}

Test(h2_tunnels, an_upstream_that_does_not_know_it)
{
    struct h2_rig *rig = client(NULL);
    struct h2_call *a = h2_rig_open_tunnel(rig, WR_TUNNEL_UPGRADE);
    struct h2_call *b = h2_rig_open_tunnel(rig, WR_TUNNEL_UPGRADE);
    h2_put_settings(&rig->out, knows_not);
    h2_rig_send(rig);
    cr_expect_eq(a->collector.why, WR_ERR_NOT_IMPLEMENTED);
    cr_expect(a->unsent);
    cr_expect_eq(b->collector.why, WR_ERR_NOT_IMPLEMENTED);
    struct h2_call *c = h2_rig_open_tunnel(rig, WR_TUNNEL_UPGRADE);
    cr_expect_eq(c->collector.why, WR_ERR_NOT_IMPLEMENTED);
    cr_expect_not(h2_rig_heard(rig, "HEADERS"));
    h2_rig_free(rig);
}

Test(h2_tunnels, connect_goes_as_it_is)
{
    struct h2_rig *rig = client(NULL);
    struct h2_call *call = h2_rig_open_tunnel(rig, WR_TUNNEL_CONNECT);
    h2_rig_settle(rig);
    cr_expect(h2_rig_heard(rig, "HEADERS/1[:method=CONNECT;:authority=origin.test;] "), "%s",
              rig->frames.p);
    static const uint32_t nothing[] = {0};
    h2_put_settings(&rig->out, nothing);
    h2_put_headers(&rig->out, 1, H2_END_STREAM, ":status: 200\n");
    h2_rig_send(rig);
    cr_expect_eq(call->collector.flags, 0, "a tunnel that ends at once is one");
    cr_expect(call->collector.ended);
    cr_expect_not(call->feeder.stopped);
    h2_rig_free(rig);
}

Test(h2_tunnels, declined_by_the_upstream)
{
    struct h2_rig *rig = client(knows);
    struct h2_call *call = h2_rig_open_tunnel(rig, WR_TUNNEL_UPGRADE);
    h2_rig_settle(rig);
    h2_put_headers(&rig->out, 1, 0, ":status: 403\n");
    h2_put_data(&rig->out, 1, H2_END_STREAM, "no");
    h2_rig_send(rig);
    cr_expect_eq(call->collector.head->status, 403);
    cr_expect_eq(call->collector.head->tunnel, WR_TUNNEL_NONE);
    cr_expect_str_eq(call->collector.content.p, "no");
    cr_expect(call->feeder.stopped);
    cr_expect(h2_rig_heard(rig, "RST/1[8] "), "%s", rig->frames.p);
    h2_rig_free(rig);
}

Test(h2_tunnels, waiting_ones_can_be_taken_away)
{
    struct h2_rig *rig = client(NULL);
    struct h2_call *call = h2_rig_open_tunnel(rig, WR_TUNNEL_UPGRADE);
    h2_rig_finish(call, WR_ERR_CLIENT_RESET);
    h2_put_settings(&rig->out, knows);
    h2_rig_send(rig);
    cr_expect_not(h2_rig_heard(rig, "HEADERS"));
    h2_rig_free(rig);
}
