#include "exchange_fixture.h"

#include "proxy/forward.h"

#define ID "0123456789abcdef0123456789abcdef"

static struct wr_cidr trusted[2];
static struct wr_forward_options options = {.trusted = trusted, .via = {"weir", 4}};
static struct wr_forward forward;

static void stop_forwarding(void)
{
    wr_forward_clear(&forward);
    close_exchange();
}

static void trust(const char *block)
{
    cr_assert_eq(wr_cidr_parse(wr_str_from(block), &trusted[options.trusted_count++]), WR_OK);
}

/* Random identifiers are replaced with ID, so that whole heads can be compared. */
static const char *forwarded(void)
{
    wr_forward_init(&forward, &options);
    enum wr_err err = wr_forward_request(&forward, exchange);
    if (err != WR_OK)
        return wr_err_info(err)->label;
    struct wr_field *id = wr_fields_find(&exchange->request.head->fields, WR_FIELD_X_REQUEST_ID);
    cr_assert(wr_str_eq(id->value, exchange->request_id));
    if (id->value.n == sizeof(ID) - 1)
        id->value = WR_STR(ID);
    return fields_text(&exchange->request.head->fields);
}

#define ADDED(for_)                                                        \
    "via: 1.1 weir\nx-forwarded-for: " for_ "\nx-forwarded-proto: https\n" \
    "x-forwarded-host: www.example.com\nx-request-id: " ID "\n"

static void expect(const char *peer, const char *in, const char *out)
{
    open_exchange(peer, WR_METHOD_GET, in);
    cr_expect_str_eq(forwarded(), out);
    stop_forwarding();
}

Test(forward, a_plain_request_gets_what_the_upstream_must_know)
{
    expect("192.0.2.7:4711", "accept: */*\nuser-agent: x\n",
           "accept: */*\nuser-agent: x\n" ADDED("192.0.2.7"));
    expect("[2001:db8::1]:4711", "", ADDED("2001:db8::1"));
}

Test(forward, connection_specific_fields_are_removed)
{
    expect("192.0.2.7:1",
           "connection: keep-alive\nkeep-alive: timeout=5\nproxy-connection: close\n"
           "te: trailers\ntransfer-encoding: chunked\nupgrade: websocket\nhttp2-settings: AA\n"
           "x-end: 1\n",
           "x-end: 1\n" ADDED("192.0.2.7"));
}

Test(forward, nominated_fields_are_removed_wherever_they_stand)
{
    expect("192.0.2.7:1",
           "x-hop: 1\nconnection: close, X-Hop ,, x-other\nx-other: 2\nx-hop: 3\nx-hopper: 4\n"
           "connection: x-third\nx-third: 5\n",
           "x-hopper: 4\n" ADDED("192.0.2.7"));
}

Test(forward, what_is_meant_for_the_whole_way_cannot_be_nominated)
{
    expect("192.0.2.7:1",
           "connection: authorization, cookie, host, content-type, x-forwarded-for, via, "
           "x-request-id, content-length, cache-control, x-forwarded-proto\n"
           "authorization: Basic eA==\ncookie: a=b\ncontent-type: text/plain\n"
           "cache-control: no-store\n",
           "authorization: Basic eA==\ncookie: a=b\ncontent-type: text/plain\n"
           "cache-control: no-store\n" ADDED("192.0.2.7"));
}

Test(forward, an_untrusted_peer_says_nothing_about_where_it_comes_from)
{
    trust("10.0.0.0/8");
    expect("192.0.2.7:1",
           "x-forwarded-for: 1.2.3.4\nx-forwarded-proto: http\nx-forwarded-host: evil\n"
           "x-forwarded-port: 1\nx-forwarded-client-cert: x\nforwarded: for=1.2.3.4\n"
           "x-real-ip: 1.2.3.4\nx-client-cert: x\nearly-data: 1\nx-request-id: forged\n"
           "x-forwarded-for: 5.6.7.8\n",
           ADDED("192.0.2.7"));
}

Test(forward, a_trusted_peer_is_believed_and_appended)
{
    trust("10.0.0.0/8");
    expect("10.1.2.3:1",
           "x-forwarded-for: 1.2.3.4\nx-forwarded-proto: http\nx-forwarded-host: front.example\n"
           "x-forwarded-port: 80\nforwarded: for=1.2.3.4\nx-real-ip: 1.2.3.4\n"
           "x-forwarded-for: 5.6.7.8, 9.9.9.9\nx-request-id: front-1\n",
           "x-forwarded-proto: http\nx-forwarded-host: front.example\nx-forwarded-port: 80\n"
           "forwarded: for=1.2.3.4\nx-real-ip: 1.2.3.4\nvia: 1.1 weir\n"
           "x-forwarded-for: 1.2.3.4, 5.6.7.8, 9.9.9.9, 10.1.2.3\nx-request-id: front-1\n");
}

Test(forward, a_trusted_peer_may_leave_out_what_it_does_not_know)
{
    trust("10.0.0.0/8");
    expect("10.1.2.3:1", "x-forwarded-for: \n", ADDED("10.1.2.3"));
}

Test(forward, a_request_identifier_that_is_no_token_is_replaced)
{
    trust("10.0.0.0/8");
    expect("10.1.2.3:1", "x-request-id: a b\n", ADDED("10.1.2.3"));
    expect("10.1.2.3:1", "x-request-id: \"x\"\n", ADDED("10.1.2.3"));
    expect("10.1.2.3:1", "x-request-id: \n", ADDED("10.1.2.3"));
}

Test(forward, a_peer_on_a_unix_socket_has_no_address_to_tell)
{
    expect("unix:/run/x", "x-forwarded-for: 1.2.3.4\n",
           "via: 1.1 weir\nx-forwarded-proto: https\nx-forwarded-host: www.example.com\n"
           "x-request-id: " ID "\n");
}

Test(forward, via_names_the_version_received)
{
    open_exchange("192.0.2.7:1", WR_METHOD_GET, "via: 1.1 front\n");
    exchange->request.head->version_minor = 0;
    exchange->request.head->authority = WR_STR_EMPTY;
    cr_assert_str_eq(forwarded(), "via: 1.1 front\nvia: 1.0 weir\nx-forwarded-for: 192.0.2.7\n"
                                  "x-forwarded-proto: https\nx-request-id: " ID "\n");
    stop_forwarding();
}

Test(forward, via_of_http2)
{
    open_exchange("192.0.2.7:1", WR_METHOD_GET, "");
    exchange->request.head->http2 = true;
    cr_assert_not_null(strstr(forwarded(), "via: 2.0 weir\n"));
    stop_forwarding();
}

Test(forward, the_exchange_learns_what_was_sent)
{
    open_exchange("192.0.2.7:1", WR_METHOD_GET, "");
    forwarded();
    cr_assert(wr_str_eq(exchange->forwarded_for, WR_STR("192.0.2.7")));
    cr_assert_eq(exchange->request_id.n, 32);
    stop_forwarding();
}

/* RFC 8441 section 5: the key is of one hop. One that is no tunnel is none of our business. */
Test(forward, a_tunnel_has_no_key_of_the_other_hop)
{
    open_exchange("192.0.2.7:1", WR_METHOD_GET,
                  "sec-websocket-key: a\nsec-websocket-version: 13\n");
    cr_assert_not_null(strstr(forwarded(), "sec-websocket-key: a\n"));
    stop_forwarding();
    open_exchange("192.0.2.7:1", WR_METHOD_GET,
                  "sec-websocket-key: a\nsec-websocket-version: 13\n");
    exchange->request.head->tunnel = WR_TUNNEL_UPGRADE;
    const char *sent = forwarded();
    cr_assert_null(strstr(sent, "sec-websocket-key"));
    cr_assert_not_null(strstr(sent, "sec-websocket-version: 13\n"));
    stop_forwarding();
}

Test(forward, more_nominations_than_anyone_needs_are_refused)
{
    open_exchange("192.0.2.7:1", WR_METHOD_GET, "connection: a\n");
    char many[256];
    memset(many, ',', sizeof(many));
    for (size_t i = 0; i < 130; i += 2)
        many[i] = 'x';
    exchange->request.head->fields.v[0].value = wr_str(many, sizeof(many));
    cr_assert_str_eq(forwarded(), "bad_request");
    stop_forwarding();
}

static const char *response(const char *in, uint8_t version_minor)
{
    open_exchange("192.0.2.7:1", WR_METHOD_GET, "");
    struct wr_head head;
    wr_head_init(&head);
    head.status = 200;
    head.version_minor = version_minor;
    add_fields(&head.fields, in);
    wr_forward_init(&forward, &options);
    enum wr_err err = wr_forward_response(&forward, exchange, &head);
    const char *text = err != WR_OK ? wr_err_info(err)->label : fields_text(&head.fields);
    stop_forwarding();
    return text;
}

Test(forward, a_response_loses_what_is_for_one_hop)
{
    cr_assert_str_eq(response("server: x\nconnection: close, x-hop\nkeep-alive: 1\nx-hop: 1\n"
                              "upgrade: h2c\nset-cookie: a=b\nset-cookie: c=d\n",
                              1),
                     "server: x\nset-cookie: a=b\nset-cookie: c=d\nvia: 1.1 weir\n");
}

Test(forward, a_response_keeps_what_is_for_the_client)
{
    cr_assert_str_eq(response("connection: set-cookie, location\nset-cookie: a=b\n"
                              "location: /x\nproxy-status: inner; error=x\n",
                              0),
                     "set-cookie: a=b\nlocation: /x\nproxy-status: inner; error=x\n"
                     "via: 1.0 weir\n");
}
