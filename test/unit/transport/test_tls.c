/* TLS settings: what is said about files that are wrong, choice of certificate by name, reference counts. */
#include <criterion/criterion.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transport/signer.h"
#include "transport/tls_internal.h"

static char dir[64];
static char error[WR_TLS_ERROR_TEXT];
static struct wr_tls_server *server;

static const char *path(const char *name)
{
    static char paths[8][128];
    static unsigned next;
    char *out = paths[next++ % 8];
    (void)snprintf(out, sizeof paths[0], "%s/%s", dir, name);
    return out;
}

static void make(const char *name, const char *names)
{
    char command[1024];
    (void)snprintf(command, sizeof command,
                   "cd %s && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes "
                   "-days 30 -subj /CN=common.test %s%s -keyout %s.key -out %s.pem >log 2>&1",
                   dir, *names != '\0' ? "-addext subjectAltName=" : "", names, name, name);
    cr_assert_eq(system(command), 0);
}

static void set_up(void)
{
    (void)snprintf(dir, sizeof dir, "/tmp/weir-tls-XXXXXX");
    cr_assert_not_null(mkdtemp(dir));
    make("a", "DNS:a.test,DNS:*.wild.test");
    make("b", "DNS:B.Test,DNS:exact.wild.test,IP:127.0.0.1");
    make("none", "");
    server = NULL;
    memset(error, '?', sizeof error);
}

static void tear_down(void)
{
    char command[128];
    wr_tls_server_release(server);
    (void)snprintf(command, sizeof command, "rm -rf '%s'", dir);
    cr_assert_eq(system(command), 0);
    cr_assert_eq(ERR_peek_error(), 0, "an error was left in the queue");
}

TestSuite(tls, .init = set_up, .fini = tear_down);

static enum wr_err make_server(const char *chain, const char *key)
{
    struct wr_tls_certificate_options certificate = {.chain_path = chain, .key_path = key};
    struct wr_tls_server_options options = {
        .certificates = &certificate,
        .certificate_count = 1,
        .min_version = WR_TLS_1_2,
        .max_version = WR_TLS_1_3,
    };
    return wr_tls_server_new(&options, error, &server);
}

Test(tls, a_good_certificate)
{
    cr_assert_eq(make_server(path("a.pem"), path("a.key")), WR_OK);
    cr_assert_str_eq(error, "");
    wr_tls_server_release(wr_tls_server_retain(server));
}

Test(tls, it_is_known_whether_all_keys_are_rsa)
{
    char command[512];
    struct wr_tls_certificate_options certificates[] = {
        {.chain_path = path("r.pem"), .key_path = path("r.key")},
        {.chain_path = path("a.pem"), .key_path = path("a.key")},
    };
    struct wr_tls_server_options options = {
        .certificates = certificates,
        .certificate_count = 1,
        .min_version = WR_TLS_1_2,
        .max_version = WR_TLS_1_3,
    };

    (void)snprintf(command, sizeof command,
                   "cd %s && openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=r.test "
                   "-keyout r.key -out r.pem >log 2>&1",
                   dir);
    cr_assert_eq(system(command), 0);
    cr_assert_eq(wr_tls_server_new(&options, error, &server), WR_OK, "%s", error);
    cr_expect(wr_tls_server_is_rsa(server));
    wr_tls_server_release(server);
    options.certificate_count = 2;
    cr_assert_eq(wr_tls_server_new(&options, error, &server), WR_OK, "%s", error);
    cr_expect_not(wr_tls_server_is_rsa(server));
}

Test(tls, a_missing_chain_is_named)
{
    cr_assert_eq(make_server(path("nowhere.pem"), path("a.key")), WR_ERR_INVALID);
    cr_assert_null(server);
    cr_assert_not_null(strstr(error, "nowhere.pem: No such file"), "%s", error);
}

Test(tls, a_missing_key_is_named)
{
    cr_assert_eq(make_server(path("a.pem"), path("nowhere.key")), WR_ERR_INVALID);
    cr_assert_not_null(strstr(error, "nowhere.key: No such file"), "%s", error);
}

Test(tls, a_file_that_is_no_certificate_is_named)
{
    cr_assert_eq(make_server(path("a.key"), path("a.key")), WR_ERR_INVALID);
    cr_assert_not_null(strstr(error, "a.key: "), "%s", error);
}

Test(tls, a_key_of_another_certificate_names_both)
{
    cr_assert_eq(make_server(path("a.pem"), path("b.key")), WR_ERR_INVALID);
    cr_assert_not_null(strstr(error, "b.key: not the key of the certificate in "), "%s", error);
    cr_assert_not_null(strstr(error, "a.pem"), "%s", error);
}

Test(tls, no_certificate)
{
    struct wr_tls_server_options options = {.min_version = WR_TLS_1_2, .max_version = WR_TLS_1_3};
    cr_assert_eq(wr_tls_server_new(&options, error, &server), WR_ERR_INVALID);
    cr_assert_str_eq(error, "no certificate");
}

Test(tls, a_long_path_fits_the_error_text)
{
    char longer[1000];
    memset(longer, 'x', sizeof longer);
    longer[sizeof longer - 1] = '\0';
    cr_assert_eq(make_server(longer, longer), WR_ERR_INVALID);
    cr_assert_lt(strnlen(error, sizeof error), sizeof error);
}

Test(tls, alpn_on_the_wire)
{
    static const char *const names[] = {"h2", "http/1.1"};
    static const char *const empty[] = {""};
    char too_long[257];
    const char *const too_longs[] = {too_long};
    uint8_t *wire;
    size_t n;
    cr_assert_eq(wr_tls_alpn_encode(names, 2, error, &wire, &n), WR_OK);
    cr_assert_eq(n, 12);
    cr_assert_arr_eq(wire, "\x02h2\x08http/1.1", 12);
    free(wire);
    cr_assert_eq(wr_tls_alpn_encode(NULL, 0, error, &wire, &n), WR_OK);
    cr_assert_null(wire);
    cr_assert_eq(wr_tls_alpn_encode(empty, 1, error, &wire, &n), WR_ERR_INVALID);
    memset(too_long, 'a', 256);
    too_long[256] = '\0';
    cr_assert_eq(wr_tls_alpn_encode(too_longs, 1, error, &wire, &n), WR_ERR_INVALID);
}

/* ---- choice by name, seen by a client in memory ---- */

enum ssl_select_cert_result_t wr_tls_on_client_hello(const SSL_CLIENT_HELLO *hello)
{
    return wr_tls_server_choose(server, hello->ssl) ? ssl_select_cert_success
                                                    : ssl_select_cert_error;
}

static enum ssl_private_key_result_t sign(SSL *ssl, uint8_t *out, size_t *length, size_t room,
                                          uint16_t algorithm, const uint8_t *input,
                                          size_t input_length)
{
    const struct wr_signature_order order = {wr_tls_server_key(ssl), algorithm, input,
                                             input_length};
    return wr_sign(&order, out, room, length) ? ssl_private_key_success : ssl_private_key_failure;
}

const SSL_PRIVATE_KEY_METHOD wr_tls_key_method = {.sign = sign};

/* The number of names in the certificate that NAME gets: 2 is "a", 3 is "b", 0 is "none". */
static size_t names_of_chosen(const char *name)
{
    BIO *ours;
    BIO *theirs;
    SSL_CTX *context = SSL_CTX_new(TLS_method());
    SSL *client = SSL_new(context);
    SSL *accepted = wr_tls_server_ssl(server);
    cr_assert(BIO_new_bio_pair(&ours, 0, &theirs, 0));
    SSL_set_bio(client, ours, ours);
    SSL_set_bio(accepted, theirs, theirs);
    SSL_set_connect_state(client);
    if (name != NULL)
        cr_assert(SSL_set_tlsext_host_name(client, name));
    for (int i = 0; i < 10; i++) {
        (void)SSL_do_handshake(client);
        (void)SSL_do_handshake(accepted);
    }
    cr_assert_not(SSL_in_init(client));
    X509 *leaf = SSL_get_peer_certificate(client);
    GENERAL_NAMES *names = X509_get_ext_d2i(leaf, NID_subject_alt_name, NULL, NULL);
    size_t count = names != NULL ? sk_GENERAL_NAME_num(names) : 0;
    GENERAL_NAMES_free(names);
    X509_free(leaf);
    SSL_free(client);
    SSL_free(accepted);
    SSL_CTX_free(context);
    ERR_clear_error();
    return count;
}

Test(tls, the_certificate_is_chosen_by_name)
{
    struct wr_tls_certificate_options certificates[] = {
        {.chain_path = path("none.pem"), .key_path = path("none.key")},
        {.chain_path = path("a.pem"), .key_path = path("a.key")},
        {.chain_path = path("b.pem"), .key_path = path("b.key")},
    };
    struct wr_tls_server_options options = {
        .certificates = certificates,
        .certificate_count = 3,
        .min_version = WR_TLS_1_2,
        .max_version = WR_TLS_1_3,
        .tickets = true,
    };
    cr_assert_eq(wr_tls_server_new(&options, error, &server), WR_OK, "%s", error);
    cr_expect_eq(names_of_chosen("a.test"), 2);
    cr_expect_eq(names_of_chosen("A.TEST"), 2);
    cr_expect_eq(names_of_chosen("a.test."), 2);
    cr_expect_eq(names_of_chosen("b.test"), 3);
    cr_expect_eq(names_of_chosen("x.wild.test"), 2);
    cr_expect_eq(names_of_chosen("exact.wild.test"), 3, "an exact name before a wildcard");
    cr_expect_eq(names_of_chosen("x.y.wild.test"), 0, "one label only");
    cr_expect_eq(names_of_chosen("wild.test"), 0);
    cr_expect_eq(names_of_chosen(".wild.test"), 0, "not an empty one");
    cr_expect_eq(names_of_chosen("*.wild.test"), 2);
    cr_expect_eq(names_of_chosen("common.test"), 0, "the default, and by no name of its own");
    cr_expect_eq(names_of_chosen("127.0.0.1"), 0);
    cr_expect_eq(names_of_chosen("."), 0);
    cr_expect_eq(names_of_chosen("xa.test"), 0);
    cr_expect_eq(names_of_chosen(NULL), 0);
}

/* ---- client ---- */

static enum wr_err make_client(const struct wr_tls_client_options *options)
{
    struct wr_tls_client *client;
    enum wr_err err = wr_tls_client_new(options, error, &client);
    wr_tls_client_release(client);
    return err;
}

Test(tls, client_settings)
{
    struct wr_tls_client_options good = {
        .verify = true,
        .ca_path = path("a.pem"),
        .sni = "a.test",
        .chain_path = path("a.pem"),
        .key_path = path("a.key"),
    };
    struct wr_tls_client_options options = good;
    cr_assert_eq(make_client(&options), WR_OK, "%s", error);
    options.ca_path = path("nowhere.pem");
    cr_assert_eq(make_client(&options), WR_ERR_INVALID);
    cr_assert_not_null(strstr(error, "nowhere.pem: "), "%s", error);
    options.verify = false;
    cr_assert_eq(make_client(&options), WR_OK);
    options.key_path = path("b.key");
    cr_assert_eq(make_client(&options), WR_ERR_INVALID);
    cr_assert_not_null(strstr(error, "b.key: not the key"), "%s", error);
    options =
        (struct wr_tls_client_options){.verify = true, .ca_path = path("a.pem"), .sni = "::1"};
    cr_assert_eq(make_client(&options), WR_OK, "%s", error);
}

Test(tls, literals)
{
    cr_assert(wr_tls_is_ip_literal("127.0.0.1"));
    cr_assert(wr_tls_is_ip_literal("::1"));
    cr_assert_not(wr_tls_is_ip_literal("127.0.0.1.test"));
    cr_assert_not(wr_tls_is_ip_literal(""));
}

Test(tls, the_library_names_itself)
{
    cr_assert_eq(strncmp(wr_tls_library_version(), "BoringSSL", 9), 0);
}
