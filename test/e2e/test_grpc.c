/* gRPC through weir, by a client and a server that know nothing of it: grpc-js. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "support/node.h"
#include "support/weir.h"

#define CONFIG                                                                  \
    "workers: 1\nadmin: 127.0.0.1:0\naccess_log: {to: access.log}\n"            \
    "listeners:\n"                                                              \
    "  - {name: plain, bind: 127.0.0.1:0, routes: [{cluster: plain}]}\n"        \
    "  - {name: tls, bind: 127.0.0.1:0, routes: [{cluster: tls}],\n"            \
    "     tls: {certificates: [{chain: cert.pem, key: key.pem}]}}\n"            \
    "clusters:\n"                                                               \
    "  - {name: plain, endpoints: [\"unix:upstream.sock\"], protocol: http2}\n" \
    "  - {name: tls, endpoints: [\"unix:upstream.sock\"], protocol: http2,\n"   \
    "     tls: {ca: cert.pem, sni: localhost}}\n"

/* CASE over plain connections by prior knowledge, then over TLS; CALLS of either make it to the server on one connection. */
static void run(const char *name, unsigned calls)
{
    static const char *const securities[] = {"plain", "tls"};

    for (size_t i = 0; i < 2; i++) {
        const char *security = securities[i];
        char sample[96];
        struct weir *weir = weir_start(CONFIG);
        node_run(weir, 60, "grpc.js", weir_port(weir, security), security, name);
        (void)snprintf(sample, sizeof(sample), "weir_upstream_requests_total{cluster=\"%s\"}",
                       security);
        cr_expect_eq(weir_metric(weir, sample), calls, "%s: %g calls", security,
                     weir_metric(weir, sample));
        (void)snprintf(sample, sizeof(sample), "weir_upstream_connections_active{cluster=\"%s\"}",
                       security);
        cr_expect(weir_metric_becomes(weir, sample, 0, 5000), "%s: requests are left", security);
        weir_stop(weir);
    }
}

Test(grpc, unary, .timeout = 150)
{
    run("unary", 2);
}

Test(grpc, client_streaming, .timeout = 150)
{
    run("client_streaming", 1);
}

Test(grpc, server_streaming, .timeout = 150)
{
    run("server_streaming", 1);
}

Test(grpc, bidirectional, .timeout = 150)
{
    run("bidirectional", 1);
}

Test(grpc, error, .timeout = 150)
{
    run("error", 2);
}

Test(grpc, unimplemented, .timeout = 150)
{
    run("unimplemented", 1);
}

Test(grpc, deadline, .timeout = 150)
{
    run("deadline", 2);
}

Test(grpc, cancel, .timeout = 150)
{
    run("cancel", 21);
}

Test(grpc, leave, .timeout = 150)
{
    run("leave", 12);
}

Test(grpc, cancel_stream, .timeout = 150)
{
    run("cancel_stream", 2);
}

Test(grpc, large, .timeout = 150)
{
    run("large", 7);
}

Test(grpc, concurrent, .timeout = 150)
{
    run("concurrent", 4000);
}
