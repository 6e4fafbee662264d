/* Rows 27 and 51 of the table of hostile input: TLS towards origins, and what a client can do after its handshake. */
#include <criterion/criterion.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/certificate.h"
#include "support/stage.h"

#define HOST "Host: localhost\r\n"
#define GET "GET / HTTP/1.1\r\n" HOST "\r\n"
#define OK "HTTP/1.1 200 OK\r\n"
#define POISON OK "Content-Length: 6\r\n\r\npoison"

static const char over_tls[] = "tls: {verify: false}";
static char dir[] = "/tmp/weir-origin-XXXXXX";

/* Certificates of the origin are in DIR. */
static struct stage *start(void (*serve)(struct peer *, void *))
{
    cr_assert(mkdtemp(dir) != NULL);
    certificate_make(dir, "", "DNS:localhost,IP:127.0.0.1");
    return stage_start(&(struct stage_options){.serve = serve, .cluster = over_tls});
}

static void stop(struct stage *stage)
{
    char command[128];

    stage_stop(stage);
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", dir);
    (void)!system(command);
}

static void expect_502(struct stage *stage)
{
    struct peer *peer = stage_connect(stage, false);
    struct reply reply = stage_ask(peer, GET, 0);

    cr_expect_eq(reply.status, 502, "%d", reply.status);
    cr_expect(!strstr(reply.head, "poison") && !strstr(reply.body, "poison"));
    reply_free(&reply);
    peer_free(peer);
}

/* ---- row 27 ---- */

static void serve_tls(struct peer *client, void *arg)
{
    char head[4096];

    (void)arg;
    if (!peer_accept_tls(client, dir))
        return;
    while (peer_read_head(client, head, sizeof(head)))
        if (!peer_say(client, OK "Content-Length: 2\r\n\r\nok"))
            return;
}

Test(row_27, origins_are_reached_over_tls)
{
    struct stage *stage = start(serve_tls);

    cr_expect_eq(stage_status(stage, GET), 200);
    cr_expect_eq(stage_status(stage, GET), 200);
    cr_expect_eq(origin_connections(stage->origin), 1);
    stop(stage);
}

static void serve_plain(struct peer *client, void *arg)
{
    (void)arg;
    (void)peer_say(client, POISON);
    (void)peer_wait_end(client);
}

Test(row_27, plaintext_for_a_handshake)
{
    struct stage *stage = start(serve_plain);

    expect_502(stage);
    stop(stage);
}

static void serve_plain_then_tls(struct peer *client, void *arg)
{
    (void)arg;
    (void)peer_say(client, POISON);
    if (peer_accept_tls(client, dir))
        (void)peer_say(client, POISON);
}

Test(row_27, plaintext_before_a_handshake)
{
    struct stage *stage = start(serve_plain_then_tls);

    expect_502(stage);
    stop(stage);
}

static void serve_tls_then_plain(struct peer *client, void *arg)
{
    char head[4096];

    (void)arg;
    if (peer_accept_tls(client, dir) && peer_read_head(client, head, sizeof(head)))
        (void)!send(peer_fd(client), POISON, sizeof(POISON) - 1, MSG_NOSIGNAL);
    (void)peer_wait_end(client);
}

Test(row_27, plaintext_after_the_handshake)
{
    struct stage *stage = start(serve_tls_then_plain);

    expect_502(stage);
    stop(stage);
}

static void serve_nothing(struct peer *client, void *arg)
{
    (void)client;
    (void)arg;
}

Test(row_27, no_handshake_at_all)
{
    struct stage *stage = start(serve_nothing);

    expect_502(stage);
    stop(stage);
}

/* ---- row 51: truncation ---- */

static atomic_bool notifies;

static void serve_until_close(struct peer *client, void *arg)
{
    char head[4096];

    (void)arg;
    if (!peer_accept_tls(client, dir) || !peer_read_head(client, head, sizeof(head)))
        return;
    (void)peer_say(client, OK "\r\nhello");
    if (atomic_load(&notifies))
        peer_half_close(client);
}

static void expect_until_close(struct stage *stage, bool whole)
{
    struct peer *peer = stage_connect(stage, false);
    struct reply reply = stage_ask(peer, GET, 0);

    cr_expect_eq(reply.status, 200);
    cr_expect_str_eq(reply.body, "hello");
    cr_expect_eq(reply.whole, whole, "%s", reply.whole ? "taken for whole" : "cut short");
    reply_free(&reply);
    peer_free(peer);
}

Test(row_51, response_without_length_and_without_close_notify)
{
    struct stage *stage = start(serve_until_close);

    atomic_store(&notifies, true);
    expect_until_close(stage, true);
    atomic_store(&notifies, false);
    expect_until_close(stage, false);
    stop(stage);
}

Test(row_51, request_cut_without_close_notify)
{
    struct stage *stage = stage_start(NULL);
    struct peer *peer = stage_connect(stage, true);

    cr_assert(peer_say(peer, "POST / HTTP/1.1\r\n" HOST "Content-Length: 10\r\n\r\nhello"));
    cr_assert(script_wait_requests(stage->script, 1));
    (void)shutdown(peer_fd(peer), SHUT_WR);
    cr_assert(script_wait_ended(stage->script, 1));
    cr_expect(!script_request(stage->script, 0)->whole);
    peer_free(peer);
    stage_stop(stage);
}

/* ---- row 51: endings ---- */

static bool closing_ends(const struct stage *stage)
{
    return weir_metric_becomes(stage->weir, "weir_connections_closing{listener=\"tls\"}", 0,
                               2000) &&
           weir_metric_becomes(stage->weir, "weir_connections_idle{listener=\"tls\"}", 0, 2000);
}

/* With 5 s to linger: a client that has said it ends is not waited for. */
Test(row_51, close_notify_ends_a_connection)
{
    struct stage *stage =
        stage_start(&(struct stage_options){.listener = "timeouts: {linger: 1h}"});

    for (int i = 0; i < 2; i++) {
        struct peer *peer = stage_connect(stage, true);
        struct reply reply = stage_ask(peer, GET, 0);
        cr_expect_eq(reply.status, 200);
        reply_free(&reply);
        peer_notify_close(peer);
        if (i == 0)
            cr_expect(stage_is_over(peer));
        cr_expect(closing_ends(stage), "round %d", i);
        peer_free(peer);
    }
    stage_stop(stage);
}

/* ---- row 51: floods ---- */

static bool is_served(const struct stage *stage)
{
    struct peer *peer = stage_connect(stage, true);
    struct reply reply = stage_ask(peer, GET, 0);
    bool served = reply.status == 200;

    reply_free(&reply);
    peer_free(peer);
    return served;
}

Test(row_51, key_update_flood)
{
    struct stage *stage = stage_start(NULL);
    struct peer *peer = stage_connect(stage, true);
    unsigned updates = 0;
    char byte;
    enum peer_end end;

    peer_set_wait(peer, 5000);
    while (updates < 200 && peer_update_keys(peer))
        updates++;
    cr_expect_eq(peer_read(peer, &byte, 1, &end), 0);
    cr_expect(end != PEER_WAITED, "still open after %u updates", updates);
    peer_free(peer);
    cr_expect(is_served(stage));
    stage_stop(stage);
}

Test(row_51, warning_alerts_for_a_client_hello)
{
    static const char alert[] = {0x15, 0x03, 0x03, 0x00, 0x02, 0x01, 0x5a}; /* user_canceled */
    struct stage *stage = stage_start(NULL);
    struct peer *peer = peer_connect(stage->tls);
    unsigned sent = 0;

    cr_assert(peer != NULL);
    while (sent < 1000 && peer_write(peer, alert, sizeof(alert)))
        sent++;
    enum peer_end end = peer_wait_end(peer);
    cr_expect(end == PEER_EOF || end == PEER_RESET, "still open after %u alerts", sent);
    peer_free(peer);
    cr_expect(is_served(stage));
    stage_stop(stage);
}

/* OpenSSL still knows how to ask for a renegotiation. */
Test(row_51, renegotiation)
{
    char command[512];
    struct stage *stage = stage_start(NULL);

    int pause = 2 * weir_slowness(); /* tenths of a second; s_client wants its R alone */
    (void)snprintf(command, sizeof(command),
                   "(printf 'GET /first HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n'; sleep 0.%d; "
                   "printf 'R\\n'; sleep 0.%d; "
                   "printf 'GET /second HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n'; sleep 0.%d) "
                   "2>/dev/null | timeout 10 openssl s_client -tls1_2 -connect 127.0.0.1:%d "
                   ">'%s/s_client.log' 2>&1",
                   pause, pause, pause, stage->tls, weir_dir(stage->weir));
    (void)!system(command);
    char *log = weir_file(stage->weir, "s_client.log");
    cr_expect(strstr(log, "200 OK"), "%s", log);
    cr_expect(strstr(log, "RENEGOTIATING"), "%s", log);
    cr_expect(strstr(log, "no renegotiation") || strstr(log, "alert"), "%s", log);
    cr_expect_eq(script_requests(stage->script), 1, "went on after the attempt");
    free(log);
    cr_expect(is_served(stage));
    stage_stop(stage);
}
