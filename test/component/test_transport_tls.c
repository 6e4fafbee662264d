/* TLS transports, both ends ours: versions, facts, resumption, records, endings. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/time.h"
#include "support/certificate.h"
#include "support/transport_lab.h"
#include "transport/transport_internal.h"

#define BULK ((size_t)8 * 1024 * 1024)

static struct lab lab;
static struct lab_end server;
static struct lab_end client;
static struct wr_tls_server *server_tls;
static struct wr_tls_client *client_tls;
static const char *const both[] = {"h2", "http/1.1"};
static const char *const old[] = {"http/1.1"};
static const char *const other[] = {"smtp"};

static void set_up(void)
{
    lab_open(&lab);
    server = (struct lab_end){0};
    client = (struct lab_end){0};
    server_tls = NULL;
    client_tls = NULL;
}

static void tear_down(void)
{
    lab_end_free(&server);
    lab_end_free(&client);
    wr_tls_server_release(server_tls);
    wr_tls_client_release(client_tls);
    lab_close(&lab);
}

static void establish(void)
{
    if (server_tls == NULL)
        server_tls = lab_server(&lab, true, both, 2);
    if (client_tls == NULL)
        client_tls = lab_client(&lab, NULL, both, 2);
    lab_establish(&lab, &server, &client, server_tls, client_tls);
}

/* A handshake that must not succeed. */
static void fail_to_establish(void)
{
    int a;
    int b;
    lab_tcp_pair(&a, &b);
    lab_accept(&lab, &server, a, server_tls);
    lab_adopt(&lab, &client, b, client_tls);
    LAB_WAIT(&lab, client.closes == 1);
    cr_assert_eq(client.established, 0);
}

TestSuite(transport_tls, .init = set_up, .fini = tear_down, .timeout = 60);

Test(transport_tls, facts_of_a_handshake)
{
    struct wr_tls_info info;
    establish();
    cr_assert(wr_transport_tls_info(server.transport, &info));
    cr_assert_str_eq(info.version, "TLSv1.3");
    cr_assert_str_eq(info.cipher, "TLS_AES_128_GCM_SHA256");
    cr_assert(wr_str_eq(info.alpn, WR_STR("h2")));
    cr_assert(wr_str_eq(info.sni, WR_STR("localhost")));
    cr_assert_not(info.resumed);
    cr_assert_gt(info.cpu_usec, 0);
    cr_assert(wr_transport_tls_info(client.transport, &info));
    cr_assert(wr_str_eq(info.alpn, WR_STR("h2")));
    cr_assert(wr_str_eq(info.sni, WR_STR("localhost")));
    cr_assert_eq(server.hellos, 1);
    cr_assert_eq(server.first_bytes, 1);
    cr_assert_str_eq(server.sni, "localhost");
    cr_assert_eq(server.alpn_length, 12);
    cr_assert_arr_eq(server.alpn, "\x02h2\x08http/1.1", 12);
    cr_assert_not(server.claims_resumption);
}

Test(transport_tls, the_server_prefers_among_what_the_client_offers)
{
    struct wr_tls_info info;
    server_tls = lab_server(&lab, true, both, 2);
    client_tls = lab_client(&lab, NULL, old, 1);
    establish();
    cr_assert(wr_transport_tls_info(server.transport, &info));
    cr_assert(wr_str_eq(info.alpn, WR_STR("http/1.1")));
}

Test(transport_tls, no_common_alpn_is_alert_120)
{
    server_tls = lab_server(&lab, true, both, 2);
    client_tls = lab_client(&lab, NULL, other, 1);
    fail_to_establish();
    cr_assert_eq(client.why, WR_ERR_UPSTREAM_TLS_FAILED);
    cr_assert_str_eq(client.detail, "no application protocol");
    LAB_WAIT(&lab, server.closes == 1);
    cr_assert_eq(server.why, WR_ERR_TLS_FAILED);
    cr_assert_str_eq(server.detail, "NO_APPLICATION_PROTOCOL");
}

Test(transport_tls, a_small_exchange_leaves_no_buffers_behind)
{
    server.echo = true;
    establish();
    for (size_t i = 0; i < 3; i++) {
        unsigned before = server.readable_calls;
        wr_transport_write(client.transport, "GET / ", 6);
        wr_transport_write(client.transport, "HTTP/1.1\r\n\r\n", 12);
        LAB_WAIT(&lab, client.got_length == 18 * (i + 1));
        cr_assert_eq(server.readable_calls, before + 1, "gathered into one record");
        cr_assert_null(client.transport->pipeline);
        cr_assert_null(server.transport->pipeline);
    }
    cr_assert(wr_transport_is_quiet(client.transport));
}

Test(transport_tls, several_records_are_one_call)
{
    uint8_t *pattern = lab_pattern(60000);
    establish();
    wr_transport_write(client.transport, pattern, 60000);
    LAB_WAIT(&lab, server.got_length == 60000);
    cr_assert_leq(server.readable_calls, 2); /* the kernel may split */
    cr_assert(memcmp(server.got, pattern, 60000) == 0);
    free(pattern);
}

Test(transport_tls, bulk_is_bounded_and_whole)
{
    uint8_t *pattern = lab_pattern(BULK);
    size_t written = 0;
    size_t most = 0;
    establish();
    while (written < BULK) {
        size_t room = wr_transport_output_room(client.transport);
        size_t n = room < BULK - written ? room : BULK - written;
        unsigned before = client.writables;
        wr_transport_write(client.transport, pattern + written, n);
        written += n;
        if (wr_transport_output(client.transport) > most)
            most = wr_transport_output(client.transport);
        if (written < BULK && wr_transport_output_room(client.transport) == 0)
            LAB_WAIT(&lab, client.writables > before);
    }
    LAB_WAIT(&lab, server.got_length == BULK);
    cr_assert(memcmp(server.got, pattern, BULK) == 0);
    cr_assert_leq(most, 140 * 1024, "%zu bytes", most);
    cr_assert_null(client.transport->pipeline);
    free(pattern);
}

Test(transport_tls, a_slow_reader_bounds_what_is_held)
{
    uint8_t *pattern = lab_pattern(BULK);
    server.take = 1000;
    establish();
    wr_transport_pause(server.transport, WR_PAUSE_OWNER);
    wr_transport_write(client.transport, pattern, BULK);
    lab_settle(&lab);
    cr_assert_gt(wr_transport_output(client.transport), 0);
    cr_assert_null(server.transport->pipeline, "reads nothing while paused");
    cr_assert_leq(client.transport->pipeline->sealed.length, 2 * WR_SEALED_SIZE);
    wr_transport_resume(server.transport, WR_PAUSE_OWNER);
    for (size_t i = 0; i < 300; i++) {
        size_t before = server.got_length;
        LAB_WAIT(&lab, server.got_length > before);
        cr_assert_leq(server.got_length, before + 1000);
        wr_transport_resume(server.transport, WR_PAUSE_FULL);
    }
    server.take = 0;
    wr_transport_end(client.transport);
    LAB_WAIT(&lab, server.read_ends == 1);
    cr_assert_eq(server.got_length, BULK);
    cr_assert(memcmp(server.got, pattern, BULK) == 0);
    cr_assert(server.clean);
    free(pattern);
}

Test(transport_tls, each_direction_ends_alone)
{
    establish();
    wr_transport_write(client.transport, "request", 7);
    LAB_CALL(&lab, wr_transport_end(client.transport));
    LAB_WAIT(&lab, server.read_ends == 1 && client.flushes == 1);
    cr_assert(server.clean);
    cr_assert_eq(server.got_length, 7);
    wr_transport_write(server.transport, "response", 8);
    wr_transport_end(server.transport);
    LAB_WAIT(&lab, client.read_ends == 1 && server.flushes == 1);
    cr_assert(client.clean);
    cr_assert_eq(client.got_length, 8);
    lab_settle(&lab);
    cr_assert_eq(client.closes + server.closes, 0);
}

Test(transport_tls, the_end_waits_for_a_pause)
{
    server.take = 3;
    establish();
    wr_transport_write(client.transport, "request", 7);
    wr_transport_end(client.transport);
    LAB_WAIT(&lab, server.got_length == 3);
    lab_settle(&lab);
    cr_assert_eq(server.read_ends, 0);
    server.take = 0;
    wr_transport_resume(server.transport, WR_PAUSE_FULL);
    LAB_WAIT(&lab, server.read_ends == 1);
    cr_assert_eq(server.got_length, 7);
    cr_assert(server.clean);
}

Test(transport_tls, an_end_without_close_notify_is_not_clean)
{
    establish();
    wr_transport_write(client.transport, "cut", 3);
    LAB_WAIT(&lab, server.got_length == 3);
    wr_transport_close(client.transport);
    client.transport = NULL;
    LAB_WAIT(&lab, server.read_ends + server.closes == 1);
    cr_assert_not(server.clean);
}

Test(transport_tls, resumption_is_claimed_and_granted)
{
    struct wr_tls_info info;
    server.echo = true;
    establish();
    wr_transport_write(client.transport, "x", 1); /* the answer brings the tickets */
    LAB_WAIT(&lab, client.got_length == 1);
    lab_end_free(&server);
    lab_end_free(&client);
    server = (struct lab_end){0};
    client = (struct lab_end){0};
    establish();
    cr_assert(server.claims_resumption);
    cr_assert(wr_transport_tls_info(server.transport, &info));
    cr_assert(info.resumed);
    cr_assert(wr_transport_tls_info(client.transport, &info));
    cr_assert(info.resumed);
}

Test(transport_tls, without_tickets_there_is_no_resumption)
{
    struct wr_tls_info info;
    server_tls = lab_server(&lab, false, NULL, 0);
    for (int i = 0; i < 2; i++) {
        server = (struct lab_end){.echo = true};
        client = (struct lab_end){0};
        establish();
        wr_transport_write(client.transport, "x", 1);
        LAB_WAIT(&lab, client.got_length == 1);
        cr_assert(wr_transport_tls_info(server.transport, &info));
        cr_assert_not(info.resumed);
        cr_assert_eq(info.alpn.n, 0);
        cr_assert_not(server.claims_resumption);
        if (i == 0) {
            lab_end_free(&server);
            lab_end_free(&client);
        }
    }
}

Test(transport_tls, a_wrong_name_is_a_certificate_failure)
{
    server_tls = lab_server(&lab, true, NULL, 0);
    client_tls = lab_client(&lab, "elsewhere.test", NULL, 0);
    fail_to_establish();
    cr_assert_eq(client.why, WR_ERR_UPSTREAM_CERTIFICATE);
    cr_assert(strstr(client.detail, "ostname mismatch") != NULL, "%s", client.detail);
    LAB_WAIT(&lab, server.closes == 1);
}

Test(transport_tls, an_unknown_authority_is_a_certificate_failure)
{
    server_tls = lab_server(&lab, true, NULL, 0);
    certificate_make(lab.dir, "",
                     "DNS:localhost"); /* another key in the place of the trusted one */
    client_tls = lab_client(&lab, NULL, NULL, 0);
    fail_to_establish();
    cr_assert_eq(client.why, WR_ERR_UPSTREAM_CERTIFICATE, "%s", client.detail);
}

static void verify_address(int a, int b)
{
    char bundle[128];
    char error[WR_TLS_ERROR_TEXT];
    (void)snprintf(bundle, sizeof bundle, "%s/cert.pem", lab.dir);
    struct wr_tls_client_options options = {.verify = true, .ca_path = bundle};
    server_tls = lab_server(&lab, true, NULL, 0);
    cr_assert_eq(wr_tls_client_new(&options, error, &client_tls), WR_OK);
    lab_accept(&lab, &server, a, server_tls);
    lab_adopt(&lab, &client, b, client_tls);
    LAB_WAIT(&lab, client.established + client.closes == 1);
}

Test(transport_tls, without_a_name_the_address_is_verified)
{
    int a;
    int b;
    struct wr_tls_info info;
    lab_tcp_pair(&b, &a); /* B's peer is 127.0.0.1 */
    verify_address(a, b);
    cr_assert_eq(client.established, 1, "%s", client.detail);
    cr_assert(wr_transport_tls_info(client.transport, &info));
    cr_assert_eq(info.sni.n, 0);
}

Test(transport_tls, without_a_name_and_an_address_nothing_is_verified_as_good)
{
    int a;
    int b;
    lab_unix_pair(&a, &b);
    verify_address(a, b);
    cr_assert_eq(client.why, WR_ERR_UPSTREAM_CERTIFICATE);
}

/* Behaviour row 27. */
Test(transport_tls, plaintext_before_tls_is_never_handed_up)
{
    int a;
    int b;
    client_tls = lab_client(&lab, NULL, NULL, 0);
    lab_tcp_pair(&a, &b);
    static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno";
    cr_assert_eq(send(a, answer, sizeof answer - 1, 0), (ssize_t)sizeof answer - 1);
    lab_adopt(&lab, &client, b, client_tls);
    LAB_WAIT(&lab, client.closes == 1);
    cr_assert_eq(client.why, WR_ERR_UPSTREAM_TLS_FAILED);
    cr_assert_eq(client.readable_calls, 0);
    cr_assert_eq(client.established, 0);
    close(a);
}

Test(transport_tls, an_upstream_that_closes_during_the_handshake)
{
    int a;
    int b;
    client_tls = lab_client(&lab, NULL, NULL, 0);
    lab_tcp_pair(&a, &b);
    lab_adopt(&lab, &client, b, client_tls);
    wr_transport_write(client.transport, "early", 5);
    lab_settle(&lab);
    cr_assert_eq(wr_transport_state(client.transport), WR_TRANSPORT_HANDSHAKE);
    shutdown(a, SHUT_WR);
    LAB_WAIT(&lab, client.closes == 1);
    cr_assert_eq(client.why, WR_ERR_UPSTREAM_TLS_FAILED);
    close(a);
}

Test(transport_tls, output_before_the_handshake_is_kept)
{
    int a;
    int b;
    server_tls = lab_server(&lab, true, NULL, 0);
    client_tls = lab_client(&lab, NULL, NULL, 0);
    lab_tcp_pair(&a, &b);
    lab_accept(&lab, &server, a, server_tls);
    lab_adopt(&lab, &client, b, client_tls);
    wr_transport_write(client.transport, "early", 5);
    wr_transport_end(client.transport);
    LAB_WAIT(&lab, server.read_ends == 1);
    cr_assert_eq(server.got_length, 5);
    cr_assert(server.clean);
}

Test(transport_tls, closing_in_each_callback)
{
    static const enum lab_close_in places[] = {
        LAB_CLOSE_FIRST_BYTE, LAB_CLOSE_HELLO,    LAB_CLOSE_ESTABLISHED,
        LAB_CLOSE_READABLE,   LAB_CLOSE_READ_END, LAB_CLOSE_FLUSHED,
    };
    server_tls = lab_server(&lab, true, NULL, 0);
    client_tls = lab_client(&lab, NULL, NULL, 0);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        int a;
        int b;
        server = (struct lab_end){.close_in = places[i]};
        client = (struct lab_end){0};
        lab_tcp_pair(&a, &b);
        lab_accept(&lab, &server, a, server_tls);
        lab_adopt(&lab, &client, b, client_tls);
        wr_transport_write(client.transport, "hello", 5);
        wr_transport_end(places[i] == LAB_CLOSE_FLUSHED ? server.transport : client.transport);
        LAB_WAIT(&lab, server.transport == NULL);
        LAB_WAIT(&lab, client.closes + client.read_ends > 0);
        lab_end_free(&server);
        lab_end_free(&client);
    }
}

Test(transport_tls, closing_the_client_in_established_and_closed)
{
    server_tls = lab_server(&lab, true, NULL, 0);
    client_tls = lab_client(&lab, "elsewhere.test", NULL, 0);
    client.close_in = LAB_CLOSE_CLOSED;
    fail_to_establish();
    cr_assert_null(client.transport);
    lab_end_free(&server);
    wr_tls_client_release(client_tls);
    client_tls = lab_client(&lab, NULL, NULL, 0);
    int a;
    int b;
    server = (struct lab_end){0};
    client = (struct lab_end){.close_in = LAB_CLOSE_ESTABLISHED};
    lab_tcp_pair(&a, &b);
    lab_accept(&lab, &server, a, server_tls);
    lab_adopt(&lab, &client, b, client_tls);
    LAB_WAIT(&lab, server.closes + server.read_ends == 1);
    cr_assert_null(client.transport);
}
