/* Versions of TLS, and sessions resumed by ticket. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/certificate.h"
#include "support/command.h"
#include "support/edge.h"
#include "support/hand.h"

#define FULL "weir_handshakes_full_total{listener=\"edge\"}"
#define RESUMED "weir_handshakes_resumed_total{listener=\"edge\"}"
#define TRIES 24

/* ---- versions ---- */

static void expect_version(int port, uint16_t min, uint16_t max, const char *version)
{
    struct hand_options options = {.sni = "localhost", .min_version = min, .max_version = max};
    struct hand *hand = hand_connect(port, &options);

    cr_expect(hand->done, "alert %d", hand->alert);
    if (hand->done) {
        cr_expect_str_eq(SSL_get_version(hand->ssl), version);
        cr_expect_eq(hand_get(hand), 200);
    }
    hand_free(hand);
}

/* protocol_version, RFC 8446 section 6.2. */
static void expect_no_version(int port, uint16_t min, uint16_t max)
{
    struct hand_options options = {.sni = "localhost", .min_version = min, .max_version = max};
    struct hand *hand = hand_connect(port, &options);

    cr_expect_not(hand->done);
    cr_expect_eq(hand->alert, 70, "alert %d", hand->alert);
    hand_free(hand);
}

Test(version, tls_1_2_and_1_3_by_default)
{
    struct weir *weir = edge_start(NULL);
    int port = weir_port(weir, "edge");

    expect_version(port, 0, 0, "TLSv1.3");
    expect_version(port, TLS1_3_VERSION, TLS1_3_VERSION, "TLSv1.3");
    expect_version(port, TLS1_2_VERSION, TLS1_2_VERSION, "TLSv1.2");
    expect_version(port, TLS1_VERSION, TLS1_2_VERSION, "TLSv1.2");
    expect_no_version(port, TLS1_VERSION, TLS1_1_VERSION);
    expect_no_version(port, TLS1_VERSION, TLS1_VERSION);
    edge_expect_refused(weir, "tls_error", 2);
    edge_expect_log_lines(weir, "\"tls\":\"TLSv1.2\"", 2);
    edge_expect_log_lines(weir, "\"tls\":\"TLSv1.3\"", 2);
    weir_stop(weir);
}

Test(version, only_1_3)
{
    struct edge_options options = {.tls = "versions: [tls1.3]"};
    struct weir *weir = edge_start(&options);
    int port = weir_port(weir, "edge");

    expect_version(port, 0, 0, "TLSv1.3");
    expect_no_version(port, 0, TLS1_2_VERSION);
    edge_expect_refused(weir, "tls_error", 1);
    weir_stop(weir);
}

Test(version, only_1_2)
{
    struct edge_options options = {.tls = "versions: [tls1.2]"};
    struct weir *weir = edge_start(&options);
    int port = weir_port(weir, "edge");

    expect_version(port, 0, 0, "TLSv1.2");
    expect_no_version(port, TLS1_3_VERSION, TLS1_3_VERSION);
    edge_expect_refused(weir, "tls_error", 1);
    weir_stop(weir);
}

/* Neither static RSA nor CBC, with an old client that would take them. */
Test(version, weak_suites_are_not_spoken)
{
    struct weir *weir = edge_start(NULL);
    static const char *const suites[] = {"AES128-SHA", "ECDHE-ECDSA-AES128-SHA",
                                         "AES128-GCM-SHA256", "ECDHE-ECDSA-AES256-SHA384"};
    char *output;

    for (size_t i = 0; i < sizeof(suites) / sizeof(*suites); i++) {
        int status = command_run(
            20, &output,
            "openssl s_client -connect 127.0.0.1:%d -tls1_2 -cipher %s:@SECLEVEL=0 -brief",
            weir_port(weir, "edge"), suites[i]);
        cr_expect_neq(status, 0, "%s was taken: %s", suites[i], output);
        cr_expect_not_null(strstr(output, "handshake failure"), "%s", output);
        free(output);
    }
    edge_expect_refused(weir, "tls_error", sizeof(suites) / sizeof(*suites));
    weir_stop(weir);
}

/* ---- sessions ---- */

/* A full handshake, a request, and the session that came of it; NULL: none. Owner: the caller. */
static SSL_SESSION *new_session(int port, const char *sni, uint16_t version)
{
    struct hand_options options = {.sni = sni, .max_version = version};
    struct hand *hand = hand_connect(port, &options);

    cr_assert(hand->done);
    cr_assert_eq(hand_get(hand), 200);
    cr_expect_not(SSL_session_reused(hand->ssl));
    SSL_SESSION *session = hand->session;
    if (session)
        SSL_SESSION_up_ref(session);
    hand_free(hand);
    return session;
}

/* How many of TRIES handshakes that offer SESSION resumed it; all must succeed. */
static unsigned resume(int port, const char *sni, SSL_SESSION *session, uint16_t version)
{
    struct hand_options options = {.sni = sni, .max_version = version, .session = session};
    unsigned resumed = 0;

    for (int i = 0; i < TRIES; i++) {
        struct hand *hand = hand_connect(port, &options);
        cr_expect(hand->done, "alert %d", hand->alert);
        cr_expect_eq(hand_get(hand), 200);
        resumed += SSL_session_reused(hand->ssl) == 1;
        hand_free(hand);
    }
    return resumed;
}

/* The kernel spreads connections by their ports, so that TRIES of them meet both workers. */
static void expect_resumed(uint16_t version)
{
    struct edge_options options = {.workers = 2};
    struct weir *weir = edge_start(&options);
    int port = weir_port(weir, "edge");
    SSL_SESSION *session = new_session(port, "localhost", version);

    cr_assert_not_null(session, "no ticket came");
    cr_expect_eq(resume(port, "localhost", session, version), TRIES);
    cr_expect_eq(weir_metric(weir, FULL), 1);
    cr_expect_eq(weir_metric(weir, RESUMED), TRIES);
    SSL_SESSION_free(session);
    weir_stop(weir);
}

Test(sessions, are_resumed_by_any_worker_1_3)
{
    expect_resumed(TLS1_3_VERSION);
}

Test(sessions, are_resumed_by_any_worker_1_2)
{
    expect_resumed(TLS1_2_VERSION);
}

Test(sessions, are_never_resumed_without_tickets)
{
    struct edge_options with = {.workers = 2};
    struct edge_options without = {.workers = 2, .tls = "tickets: false"};
    const uint16_t versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};
    struct weir *other = edge_start(&with);
    struct weir *weir = edge_start(&without);
    int port = weir_port(weir, "edge");

    for (int i = 0; i < 2; i++) {
        SSL_SESSION *none = new_session(port, "localhost", versions[i]);
        cr_expect(!none || !SSL_SESSION_has_ticket(none), "a ticket came");
        if (none)
            cr_expect_eq(resume(port, "localhost", none, versions[i]), 0);
        SSL_SESSION_free(none);
        SSL_SESSION *foreign = new_session(weir_port(other, "edge"), "localhost", versions[i]);
        cr_expect_eq(resume(port, "localhost", foreign, versions[i]), 0);
        SSL_SESSION_free(foreign);
    }
    cr_expect_eq(weir_metric(weir, RESUMED), 0);
    weir_stop(weir);
    weir_stop(other);
}

Test(sessions, of_another_server_end_in_a_full_handshake)
{
    struct weir *other = edge_start(NULL);
    struct weir *weir = edge_start(NULL);
    const uint16_t versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};

    for (int i = 0; i < 2; i++) {
        SSL_SESSION *foreign = new_session(weir_port(other, "edge"), "localhost", versions[i]);
        cr_assert_not_null(foreign);
        cr_expect_eq(resume(weir_port(weir, "edge"), "localhost", foreign, versions[i]), 0);
        SSL_SESSION_free(foreign);
    }
    cr_expect_eq(weir_metric(weir, FULL), 2 * TRIES);
    edge_expect_refused(weir, "tls_error", 0);
    weir_stop(weir);
    weir_stop(other);
}

/* What one name is allowed is not got by way of another's session. */
Test(sessions, of_one_certificate_are_not_resumed_under_another)
{
    char dir[] = "/tmp/weir-sessions-XXXXXX";
    char tls[512];
    char command[64];
    struct edge_options options = {.tls = tls, .own_certificates = true};
    const uint16_t versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};

    cr_assert_not_null(mkdtemp(dir));
    certificate_make(dir, "b", "DNS:b.test");
    (void)snprintf(tls, sizeof(tls),
                   "certificates: [{chain: cert.pem, key: key.pem},"
                   " {chain: %s/bcert.pem, key: %s/bkey.pem}]",
                   dir, dir);
    struct weir *weir = edge_start(&options);
    int port = weir_port(weir, "edge");
    for (int i = 0; i < 2; i++) {
        SSL_SESSION *session = new_session(port, "localhost", versions[i]);
        cr_assert_not_null(session);
        cr_expect_eq(resume(port, "b.test", session, versions[i]), 0);
        cr_expect_eq(resume(port, "localhost", session, versions[i]), TRIES);
        SSL_SESSION_free(session);
    }
    weir_stop(weir);
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", dir);
    (void)!system(command);
}
