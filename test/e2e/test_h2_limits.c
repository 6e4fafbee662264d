/* Limits of HTTP/2 connections, with raw frames: more streams than are allowed, and the last ids there are. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "support/edge.h"
#include "support/h2_frames.h"
#include "support/stage.h"

#define LAST_ID 0x7fffffffu

/* RFC 9113 section 5.1.2: refused is what is too much, whatever the client has seen of our SETTINGS, and nothing of it goes upstream. */
Test(h2_limits, a_stream_too_many_is_refused_and_no_other)
{
    static const struct stage_options options = {.listener = "http2: {max_concurrent_streams: 3}"};
    struct stage *stage = stage_start(&options);

    for (int tls = 0; tls < 2; tls++) {
        unsigned before = script_requests(stage->script);
        struct h2_peer *h2 = h2_peer_open(tls ? stage->tls : stage->plain, tls, NULL);
        cr_expect(strstr(h2_peer_log(h2), ",3=3,"), "%s", h2_peer_log(h2));
        for (uint32_t id = 1; id <= 5; id += 2)
            h2_peer_ask(h2, id, 0, "POST", "/wanted", "");
        h2_peer_get(h2, 7, "/poison");
        h2_peer_ask(h2, 9, 0, "POST", "/poison", "");
        h2_put_data(&h2->out, 9, H2_END_STREAM, "for nobody");
        cr_expect(h2_peer_hears(h2, "RST/9[7] "), "%s", h2_peer_log(h2));
        cr_expect(strstr(h2_peer_log(h2), "RST/7[7] "), "%s", h2_peer_log(h2));
        cr_assert(script_wait_requests(stage->script, before + 3));
        for (uint32_t id = 1; id <= 5; id += 2) {
            char frame[32];
            (void)snprintf(frame, sizeof(frame), "DATA/%u+ES[ok] ", id);
            h2_put_data(&h2->out, id, H2_END_STREAM, "content");
            cr_expect(h2_peer_hears(h2, frame), "%s", h2_peer_log(h2));
        }
        h2_peer_get(h2, 11, "/after");
        cr_expect(h2_peer_hears(h2, "DATA/11+ES[ok] "), "%s", h2_peer_log(h2));
        cr_expect_null(strstr(h2_peer_log(h2), "GOAWAY"), "%s", h2_peer_log(h2));
        cr_expect_eq(script_requests(stage->script), before + 4);
        h2_peer_free(h2);
    }
    stage_fence(stage);
    stage_stop(stage);
}

Test(h2_limits, streams_too_many_cost_their_budget)
{
    static const struct stage_options options = {
        .listener = "http2: {max_concurrent_streams: 3, budgets: {reset: {burst: 50}}}"};
    struct stage *stage = stage_start(&options);
    struct h2_peer *h2 = h2_peer_open(stage->tls, true, NULL);

    for (uint32_t id = 1; id <= 5; id += 2)
        h2_peer_ask(h2, id, 0, "POST", "/", "");
    h2_peer_send(h2);
    cr_assert(script_wait_requests(stage->script, 3));
    for (uint32_t id = 7; id < 7 + 2 * 2000; id += 2)
        h2_peer_get(h2, id, "/poison");
    cr_expect(h2_peer_is_over(h2, 11), "%.300s", h2_peer_log(h2));
    cr_expect(weir_metric_becomes(
        stage->weir, "weir_h2_floods_total{listener=\"tls\",kind=\"reset\"}", 1, edge_ms(5000)));
    cr_expect_eq(script_requests(stage->script), 3);
    h2_peer_free(h2);
    stage_fence(stage);
    stage_stop(stage);
}

/* RFC 9113 section 5.1.1: the client is told in time, and what is in flight goes on. */
Test(h2_limits, the_last_ids)
{
    struct stage *stage = stage_start(NULL);

    for (int tls = 0; tls < 2; tls++) {
        unsigned before = script_requests(stage->script);
        struct h2_peer *h2 = h2_peer_open(tls ? stage->tls : stage->plain, tls, NULL);
        h2_peer_ask(h2, LAST_ID - 4, 0, "POST", "/", "");
        cr_expect(h2_peer_hears(h2, "GOAWAY[2147483647,0] "), "%s", h2_peer_log(h2));
        h2_peer_get(h2, LAST_ID - 2, "/");
        h2_peer_ask(h2, LAST_ID, 0, "POST", "/", "");
        h2_put_ping(&h2->out, H2_ACK, "weirlast");
        cr_expect(h2_peer_settles(h2), "%s", h2_peer_log(h2));
        h2_put_data(&h2->out, LAST_ID - 4, H2_END_STREAM, "one");
        cr_expect(h2_peer_hears(h2, "DATA/2147483643+ES[ok] "), "%s", h2_peer_log(h2));
        h2_put_data(&h2->out, LAST_ID, H2_END_STREAM, "two");
        cr_expect_not(h2_peer_hears(h2, "anything else"));
        cr_expect_eq(h2->end, PEER_EOF, "it does not end in good order");
        cr_expect(strstr(h2_peer_log(h2), "DATA/2147483645+ES[ok] "), "%s", h2_peer_log(h2));
        cr_expect(strstr(h2_peer_log(h2), "DATA/2147483647+ES[ok] "), "%s", h2_peer_log(h2));
        cr_expect_null(strstr(h2_peer_log(h2), "RST/"), "%s", h2_peer_log(h2));
        cr_expect_eq(script_requests(stage->script), before + 3);
        h2_peer_free(h2);
    }
    stage_stop(stage);
}
