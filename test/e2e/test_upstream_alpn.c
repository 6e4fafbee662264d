/* What is spoken to an upstream over TLS: what ALPN chooses from what the cluster allows, and nothing to one whose certificate is not good. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/edge.h"
#include "support/peer.h"
#include "support/weir.h"

#define INNER                                                                              \
    "workers: 1\nadmin: 127.0.0.1:0\n"                                                     \
    "listeners:\n"                                                                         \
    "  - {name: both, bind: 127.0.0.1:0, routes: [{respond: {body: hello}}],\n"            \
    "     tls: {certificates: [{chain: cert.pem, key: key.pem}]}}\n"                       \
    "  - {name: old, bind: 127.0.0.1:0, routes: [{respond: {body: hello}}], http2: off,\n" \
    "     tls: {certificates: [{chain: cert.pem, key: key.pem}]}}\n"
#define OUTER                                                                                 \
    "workers: 1\nadmin: 127.0.0.1:0\n"                                                        \
    "listeners: [{name: edge, bind: 127.0.0.1:0, routes: [{cluster: inner}]}]\n"              \
    "clusters:\n"                                                                             \
    "  - {name: inner, endpoints: [127.0.0.1:%d], protocol: %s, tls: {ca: %s/cert.pem, sni: " \
    "localhost}}\n"

struct alpn_case {
    const char *protocol; /* of the cluster */
    const char *listener;
    int status;
    const char *via;     /* which says the version of the response; NULL: it is weir's own */
    const char *failure; /* NULL: none */
};

static const struct alpn_case cases[] = {
    {"auto", "both", 200, "2.0 weir", NULL},  {"auto", "old", 200, "1.1 weir", NULL},
    {"http1", "both", 200, "1.1 weir", NULL}, {"http1", "old", 200, "1.1 weir", NULL},
    {"http2", "both", 200, "2.0 weir", NULL}, {"http2", "old", 502, NULL, "upstream_tls_failed"},
};

static struct reply ask(const struct weir *outer)
{
    struct peer *peer = peer_connect(weir_port(outer, "edge"));

    cr_assert_not_null(peer);
    cr_expect(peer_say(peer, "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"));
    struct reply reply = peer_reply(peer, false);
    peer_free(peer);
    return reply;
}

static void expect_failures(const struct weir *outer, const char *reason, double count)
{
    char sample[128];

    (void)snprintf(sample, sizeof(sample),
                   "weir_upstream_failed_total{cluster=\"inner\",reason=\"%s\"}", reason);
    cr_expect(weir_metric_becomes(outer, sample, count, edge_ms(5000)), "%s is %g", sample,
              weir_metric(outer, sample));
}

Test(upstream_alpn, the_version_that_both_can, .timeout = 120)
{
    struct weir *inner = weir_start(INNER);

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        const struct alpn_case *c = &cases[i];
        struct weir *outer =
            weir_start(OUTER, weir_port(inner, c->listener), c->protocol, weir_dir(inner));
        struct reply reply = ask(outer);
        cr_expect_eq(reply.status, c->status, "%s, %s: %d", c->protocol, c->listener, reply.status);
        if (c->via != NULL)
            cr_expect_str_eq(reply_field(&reply, "via"), c->via, "%s, %s: %s", c->protocol,
                             c->listener, reply_field(&reply, "via"));
        if (c->failure != NULL)
            expect_failures(outer, c->failure, 1);
        reply_free(&reply);
        weir_stop(outer);
    }
    weir_stop(inner);
}

/* The certificate is good for its name, but of an authority that is not asked: no request reaches it. */
Test(upstream_alpn, a_certificate_of_nobody_known, .timeout = 120)
{
    struct weir *inner = weir_start(INNER);
    struct weir *other = weir_start(INNER);

    for (int i = 0; i < 2; i++) {
        struct weir *outer =
            weir_start(OUTER, weir_port(inner, "both"), i == 0 ? "auto" : "http2", weir_dir(other));
        struct reply reply = ask(outer);
        cr_expect_eq(reply.status, 502, "%d", reply.status);
        reply_free(&reply);
        expect_failures(outer, "upstream_certificate", 1);
        weir_stop(outer);
    }
    char *metrics = weir_admin_get(inner, "/metrics");
    cr_expect_eq(edge_sum(metrics, "weir_requests_total{listener=\"both\""), 0.0);
    free(metrics);
    weir_stop(other);
    weir_stop(inner);
}
