/* Content of 1 GiB both ways, whole and right, in memory that the configured buffers bound. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/bulk.h"
#include "support/edge.h"
#include "support/origin.h"

#define MIB (UINT64_C(1) << 20)
#define RSS_GROWTH (4 * MIB)
#define BUFFER_BYTES "weir_buffer_bytes"

static uint64_t bulk_size(void)
{
    return edge_is_slow() ? 64 * MIB : 1024 * MIB;
}

struct stage {
    struct bulk_origin bulk;
    struct origin *origin;
    struct weir *weir;
    struct peer *client;
    size_t rss;
};

static struct peer *connect_client(const struct weir *weir, const char *listener)
{
    struct peer *client = peer_connect_tls(weir_port(weir, listener), NULL);

    cr_assert_not_null(client);
    peer_set_wait(client, 60000);
    return client;
}

static void open_stage(struct stage *stage)
{
    stage->origin = origin_start(bulk_serve, &stage->bulk);
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
    stage->client = connect_client(stage->weir, "edge");
    stage->rss = edge_rss_peak(stage->weir);
}

static void close_stage(struct stage *stage)
{
    cr_expect_eq(weir_metric(stage->weir, "weir_access_log_dropped_total"), 0);
    peer_free(stage->client);
    weir_stop(stage->weir);
    origin_stop(stage->origin);
}

/* It has taken no more memory than its buffers need, and holds nothing when all is done. */
static void expect_small(const struct weir *weir, size_t before)
{
    size_t now = edge_rss_peak(weir);

    if (!edge_is_slow())
        cr_expect_leq(now, before + RSS_GROWTH, "grew from %zu to %zu KiB", before / 1024,
                      now / 1024);
    cr_expect(weir_metric_becomes(weir, BUFFER_BYTES, 0, edge_ms(3000)), "%g bytes are held",
              weir_metric(weir, BUFFER_BYTES));
}

static void download(struct peer *client, struct bulk_flow *flow, uint64_t size, bool chunked)
{
    char head[16384];
    bool is_chunked;

    cr_assert(peer_say(client, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    cr_assert(peer_read_head(client, head, sizeof(head)));
    cr_assert(strncmp(head, "HTTP/1.1 200 ", 13) == 0, "%s", head);
    uint64_t length = bulk_length(head, &is_chunked);
    cr_assert_eq(is_chunked, chunked);
    cr_assert(chunked || length == size);
    bool whole = bulk_receive(client, flow, length, chunked);
    cr_expect(whole, "cut short after %llu bytes", (unsigned long long)flow->bytes);
    cr_expect_eq(flow->bytes, size);
    cr_expect_not(flow->wrong);
}

static void upload(struct peer *client, struct bulk_flow *flow, uint64_t size, bool chunked)
{
    char head[256];

    if (chunked)
        (void)snprintf(head, sizeof(head),
                       "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
    else
        (void)snprintf(head, sizeof(head),
                       "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: %llu\r\n\r\n",
                       (unsigned long long)size);
    cr_assert(peer_say(client, head));
    cr_expect(bulk_send(client, flow, size, 0, chunked));
    struct reply reply = peer_reply(client, false);
    cr_expect_eq(reply.status, 200);
    reply_free(&reply);
}

/* ---- at full speed ---- */

static void downloads(bool chunked)
{
    struct stage stage = {.bulk = {.size = bulk_size(), .chunked = chunked}};
    struct bulk_flow flow = {0};

    open_stage(&stage);
    download(stage.client, &flow, bulk_size(), chunked);
    expect_small(stage.weir, stage.rss);
    cr_expect_eq(weir_metric(stage.weir, "weir_response_content_bytes_total{listener=\"edge\"}"),
                 (double)bulk_size());
    close_stage(&stage);
}

Test(bulk, download_by_length, .timeout = 120)
{
    downloads(false);
}

Test(bulk, download_chunked, .timeout = 120)
{
    downloads(true);
}

static void uploads(bool chunked)
{
    struct stage stage = {0};
    struct bulk_flow flow = {0};

    open_stage(&stage);
    upload(stage.client, &flow, bulk_size(), chunked);
    cr_expect_eq(stage.bulk.in.bytes, bulk_size());
    cr_expect_not(stage.bulk.in.wrong);
    cr_expect_eq(stage.bulk.whole, 1);
    expect_small(stage.weir, stage.rss);
    cr_expect_eq(weir_metric(stage.weir, "weir_request_content_bytes_total{listener=\"edge\"}"),
                 (double)bulk_size());
    close_stage(&stage);
}

Test(bulk, upload_by_length, .timeout = 120)
{
    uploads(false);
}

Test(bulk, upload_chunked, .timeout = 120)
{
    uploads(true);
}

/* Its own answers, by way of another listener of its own. */
Test(bulk, download_of_an_own_answer, .timeout = 120)
{
    struct bulk_flow flow = {.unchecked = true};
    struct weir *front = NULL;
    struct weir *back = weir_start("workers: 1\n"
                                   "admin: 127.0.0.1:0\n"
                                   "listeners:\n"
                                   "  - name: origin\n"
                                   "    bind: 127.0.0.1:0\n"
                                   "    routes: [{respond: {status: 200, body_size: %lluMiB}}]\n",
                                   (unsigned long long)(bulk_size() / MIB));

    front = weir_start("workers: 1\n"
                       "admin: 127.0.0.1:0\n"
                       "listeners:\n"
                       "  - name: edge\n"
                       "    bind: 127.0.0.1:0\n"
                       "    tls: {certificates: [{chain: cert.pem, key: key.pem}]}\n"
                       "    routes: [{cluster: origin}]\n"
                       "clusters:\n"
                       "  - {name: origin, endpoints: [127.0.0.1:%d]}\n",
                       weir_port(back, "origin"));
    struct peer *client = connect_client(front, "edge");
    size_t back_rss = edge_rss_peak(back);
    size_t front_rss = edge_rss_peak(front);
    download(client, &flow, bulk_size(), false);
    expect_small(front, front_rss);
    expect_small(back, back_rss);
    peer_free(client);
    weir_stop(front);
    weir_stop(back);
}
