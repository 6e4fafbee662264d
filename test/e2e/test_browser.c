/* Chromium as the client. */
#include <criterion/criterion.h>
#include <unistd.h>

#include "support/edge.h"
#include "support/node.h"
#include "support/weir.h"

#define CONFIG                                                       \
    "workers: 1\nadmin: 127.0.0.1:0\naccess_log: {to: access.log}\n" \
    "listeners:\n"                                                   \
    "  - {name: tls, bind: 127.0.0.1:0, routes: [{cluster: h1}],\n"  \
    "     tls: {certificates: [{chain: cert.pem, key: key.pem}]}}\n" \
    "clusters: [{name: h1, endpoints: [\"unix:h1.sock\"]}]\n"
#define BROWSER "/usr/bin/chromium"

static struct weir *browse(const char *name)
{
    if (access(BROWSER, X_OK) != 0)
        cr_skip_test(BROWSER " is not installed");
    struct weir *weir = weir_start(CONFIG);
    node_run(weir, 80, "browser.js", weir_port(weir, "tls"), "tls", name);
    return weir;
}

Test(browser, page_of_100_pieces, .timeout = 150)
{
    struct weir *weir = browse("page");
    cr_expect_eq(edge_log_lines(weir, "\"protocol\":\"HTTP/2\""), 101);
    cr_expect_eq(edge_log_lines(weir, "\"status\":200"), 101);
    weir_stop(weir);
}

Test(browser, content_both_ways, .timeout = 150)
{
    weir_stop(browse("content"));
}

/* On the connection that brought the page. */
Test(browser, websocket_over_http2, .timeout = 150)
{
    struct weir *weir = browse("websocket");
    edge_expect_log_lines(weir, "\"status\":200,\"tunnel\":\"websocket\"", 2);
    weir_stop(weir);
}
