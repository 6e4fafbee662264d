/* WebSocket through weir, by ends that know nothing of it: ws, over HTTP/1.1 and over HTTP/2 (RFC 8441) on either side. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "support/node.h"
#include "support/weir.h"

#define ROUTES "routes: [{match: {path: /h1}, cluster: h1}, {match: {path: /h2}, cluster: h2}]"
#define CONFIG                                                       \
    "workers: 1\nadmin: 127.0.0.1:0\naccess_log: {to: access.log}\n" \
    "listeners:\n"                                                   \
    "  - {name: plain, bind: 127.0.0.1:0, " ROUTES "}\n"             \
    "  - {name: tls, bind: 127.0.0.1:0, " ROUTES ",\n"               \
    "     admission: {max_handshake_delay: infinity},\n"             \
    "     tls: {certificates: [{chain: cert.pem, key: key.pem}]}}\n" \
    "clusters:\n"                                                    \
    "  - {name: h1, endpoints: [\"unix:h1.sock\"]}\n"                \
    "  - {name: h2, endpoints: [\"unix:h2.sock\"], protocol: http2}\n"

/* WHAT in all pairings of the client's and the server's versions, by listener SECURITY. Nothing is left afterwards. */
static void run(const char *security, const char *what)
{
    static const char *const clusters[] = {"h1", "h2"};

    for (unsigned pairing = 0; pairing < 4; pairing++) {
        const char *server = clusters[pairing & 1];
        char name[32];
        char sample[96];
        (void)snprintf(name, sizeof(name), "%s_%s_%s", what, clusters[pairing >> 1], server);
        struct weir *weir = weir_start(CONFIG);
        node_run(weir, 60, "websocket.js", weir_port(weir, security), security, name);
        (void)snprintf(sample, sizeof(sample), "weir_upstream_connections_active{cluster=\"%s\"}",
                       server);
        cr_expect(weir_metric_becomes(weir, sample, 0, 5000), "%s: tunnels are left", name);
        weir_stop(weir);
    }
}

Test(websocket, echo_of_10000_messages, .timeout = 150)
{
    run("plain", "echo");
}

Test(websocket, echo_of_10000_messages_over_tls, .timeout = 150)
{
    run("tls", "echo");
}

Test(websocket, fifty_at_once, .timeout = 150)
{
    run("tls", "many");
}

Test(websocket, extension_and_subprotocol_are_the_ends_affair, .timeout = 150)
{
    struct weir *weir = weir_start(CONFIG);

    node_run(weir, 60, "websocket.js", weir_port(weir, "tls"), "tls", "extension_h1_h1");
    weir_stop(weir);
}
