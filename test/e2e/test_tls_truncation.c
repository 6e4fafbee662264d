/* Row 51 of the table of hostile input: a stream that ends without close_notify, or too early, is never taken for whole. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "support/bulk.h"
#include "support/edge.h"
#include "support/origin.h"

#define POST "POST / HTTP/1.1\r\nHost: localhost\r\n"
#define ENDED_TRUNCATED "weir_requests_failed_total{listener=\"edge\",reason=\"tls_truncated\"}"

struct stage {
    struct bulk_origin bulk;
    struct origin *origin;
    struct weir *weir;
};

static void open_stage(struct stage *stage, void (*serve)(struct peer *, void *))
{
    stage->origin = origin_start(serve, &stage->bulk);
    stage->weir = weir_start("workers: 1\n"
                             "admin: 127.0.0.1:0\n"
                             "access_log: access.log\n"
                             "listeners:\n"
                             "  - name: edge\n"
                             "    bind: 127.0.0.1:0\n"
                             "    tls: {certificates: [{chain: cert.pem, key: key.pem}]}\n"
                             "    routes: [{cluster: origin}]\n"
                             "clusters:\n"
                             "  - {name: origin, endpoints: [127.0.0.1:%d]}\n",
                             origin_port(stage->origin));
}

static void close_stage(struct stage *stage)
{
    weir_stop(stage->weir);
    origin_stop(stage->origin);
}

static bool comes_to(atomic_uint *count, unsigned wanted)
{
    long end = edge_now_ms() + edge_ms(5000);

    while (atomic_load(count) < wanted && edge_now_ms() < end)
        edge_nap(2);
    return atomic_load(count) == wanted;
}

enum way { FIN_ALONE, CLOSE_NOTIFY, RST };

static const char *const ways[] = {"FIN", "close_notify", "RST"};

static void end(struct peer *client, enum way way)
{
    if (way == FIN_ALONE)
        (void)shutdown(peer_fd(client), SHUT_WR);
    else if (way == CLOSE_NOTIFY)
        peer_half_close(client);
    else
        peer_reset(client);
}

/* A request of which HEAD and PART have come when the client ends: the origin never sees it whole. */
static void expect_aborted(struct stage *stage, const char *head, const char *part, enum way way,
                           unsigned round)
{
    struct peer *client = peer_connect_tls(weir_port(stage->weir, "edge"), NULL);
    unsigned whole = atomic_load(&stage->bulk.whole);

    cr_assert_not_null(client);
    stage->bulk.in.unchecked = true;
    cr_assert(peer_say(client, head) && peer_say(client, part));
    cr_assert(comes_to(&stage->bulk.heads, round), "%s: nothing came to the origin", part);
    end(client, way);
    cr_expect(comes_to(&stage->bulk.cut, round), "%s by %s: the origin's connection is not closed",
              part, ways[way]);
    cr_expect_eq(atomic_load(&stage->bulk.whole), whole, "%s by %s: taken for whole", part,
                 ways[way]);
    peer_free(client);
}

Test(truncation, a_request_cut_short_is_aborted_upstream, .timeout = 60)
{
    static const struct {
        const char *head;
        const char *part;
    } cases[] = {
        {POST "Content-Length: 100\r\n\r\n", "only this"},
        {POST "Content-Length: 100\r\n\r\n", ""},
        {POST "Transfer-Encoding: chunked\r\n\r\n", "5\r\nhello\r\n"},
        {POST "Transfer-Encoding: chunked\r\n\r\n", "5\r\nhel"},
        {POST "Transfer-Encoding: chunked\r\n\r\n", "5\r\nhello\r\n0\r\n"},
        {POST "Transfer-Encoding: chunked\r\n\r\n", ""},
    };
    struct stage stage = {0};
    unsigned round = 0;

    open_stage(&stage, bulk_serve);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        for (int way = FIN_ALONE; way <= RST; way++)
            expect_aborted(&stage, cases[i].head, cases[i].part, (enum way)way, ++round);
    edge_expect_balance(stage.weir, round, 0);
    edge_expect_log_lines(stage.weir, "\"type\":\"request\"", round);
    cr_expect_eq(edge_log_lines(stage.weir, "\"ended\":\"ok\""), 0);
    cr_expect_eq(edge_log_lines(stage.weir, "\"ended\":\"tls_truncated\""), round / 3);
    cr_expect_eq(weir_metric(stage.weir, ENDED_TRUNCATED), round / 3);
    close_stage(&stage);
}

/* Its length says that it is whole, so a missing close_notify does no harm (RFC 9112 section 9.8). */
Test(truncation, a_whole_request_is_answered_whoever_ends, .timeout = 60)
{
    struct stage stage = {.bulk = {.size = 100000, .in = {.unchecked = true}}};

    open_stage(&stage, bulk_serve);
    for (int way = FIN_ALONE; way <= CLOSE_NOTIFY; way++) {
        struct peer *client = peer_connect_tls(weir_port(stage.weir, "edge"), NULL);
        cr_assert_not_null(client);
        cr_assert(peer_say(client, POST "Content-Length: 5\r\n\r\nhello"));
        end(client, (enum way)way);
        struct reply reply = peer_reply(client, false);
        cr_expect_eq(reply.status, 200, "%s: %d", ways[way], reply.status);
        cr_expect(reply.whole);
        reply_free(&reply);
        cr_expect_eq(peer_wait_end(client), PEER_EOF);
        peer_free(client);
    }
    edge_expect_balance(stage.weir, 2, 0);
    close_stage(&stage);
}

/* Half a head is no request, and no reason to answer. */
Test(truncation, half_a_head, .timeout = 60)
{
    struct stage stage = {0};

    open_stage(&stage, bulk_serve);
    for (int way = FIN_ALONE; way <= RST; way++) {
        struct peer *client = peer_connect_tls(weir_port(stage.weir, "edge"), NULL);
        cr_assert_not_null(client);
        cr_assert(peer_say(client, "GET / HTTP/1.1\r\nHost: local"));
        end(client, (enum way)way);
        peer_free(client);
    }
    edge_expect_balance(stage.weir, 3, 0);
    cr_expect_eq(stage.bulk.heads, 0);
    close_stage(&stage);
}

static void serve_cut_response(struct peer *client, void *arg)
{
    static const char *const answers[] = {
        "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
    };
    struct bulk_origin *bulk = arg;
    char head[4096];

    if (peer_read_head(client, head, sizeof(head)))
        (void)peer_say(client, answers[atomic_fetch_add(&bulk->heads, 1) % 3]);
}

/* What the origin cut short must not end with a close_notify, which would say that it is whole. */
Test(truncation, a_response_cut_short_has_no_clean_end, .timeout = 60)
{
    struct stage stage = {0};

    open_stage(&stage, serve_cut_response);
    for (int i = 0; i < 3; i++) {
        struct peer *client = peer_connect_tls(weir_port(stage.weir, "edge"), NULL);
        char got[4096];
        enum peer_end how = PEER_OPEN;
        cr_assert_not_null(client);
        cr_assert(peer_say(client, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        while (peer_read(client, got, sizeof(got), &how) > 0)
            continue;
        cr_expect(how == PEER_RESET || how == PEER_BROKEN, "ended with %d", how);
        peer_free(client);
    }
    edge_expect_log_lines(stage.weir, "\"ended\":\"response_incomplete\"", 3);
    close_stage(&stage);
}
