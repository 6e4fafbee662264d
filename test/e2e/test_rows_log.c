/* Row 61 of the table of hostile input: whatever comes in, the access log is one line of valid JSON a request. Python reads it
 * back. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/flood.h"
#include "support/stage.h"

#define COUNT(cases) (sizeof(cases) / sizeof((cases)[0]))
#define HOST "Host: localhost\r\n"

struct text {
    const char *bytes;
    size_t n;
};
#define TEXT(bytes)              \
    {                            \
        bytes, sizeof(bytes) - 1 \
    }

/* Names of hosts, agents and paths as nobody has them. */
static const struct text hostile[] = {
    TEXT("plain"),
    TEXT("\"quoted\""),
    TEXT("back\\slash\\\\"),
    TEXT("\\u0000\\n\\\""),
    TEXT("\",\"status\":200,\"x\":\""),
    TEXT("\"}\n{\"type\":\"request\"}"),
    TEXT("tab\tinside"),
    TEXT("ESC\x1b[31m"),
    TEXT("DEL\x7f"),
    TEXT("\x01\x02\x1f"),
    TEXT("latin\xe4\xf6"),
    TEXT("\xff\xfe\xfd"),
    TEXT("cut\xc3"),
    TEXT("cut\xe2\x82"),
    TEXT("alone\x80\xbf"),
    TEXT("overlong\xc0\xaf\xe0\x80\xaf"),
    TEXT("surrogate\xed\xa0\x80"),
    TEXT("beyond\xf4\x90\x80\x80"),
    TEXT("NEL\xc2\x85 LS\xe2\x80\xa8 PS\xe2\x80\xa9"),
    TEXT("good \xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80"),
    TEXT("</script><script>"),
    TEXT("${jndi:ldap://x}%n%s"),
};

struct expected {
    FILE *raw;
    char path[64];
};

static struct expected expect_begin(void)
{
    struct expected expected = {.path = "/tmp/weir-log-XXXXXX"};
    int fd = mkstemp(expected.path);

    cr_assert(fd >= 0);
    expected.raw = fdopen(fd, "we");
    return expected;
}

static void expect_text(struct expected *expected, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        (void)fprintf(expected->raw, "%02x", (unsigned char)bytes[i]);
    (void)fputc('\n', expected->raw);
}

/* Ends weir, so that all is written, and looks. */
static void expect_log(struct weir *weir, struct expected *expected, const char *type,
                       const char *name)
{
    char command[512];

    (void)fclose(expected->raw);
    cr_expect_eq(weir_wait(weir, SIGTERM, 10000), 0);
    (void)snprintf(command, sizeof(command),
                   "python3 test/e2e/read_log.py '%s/access.log' %s %s '%s'", weir_dir(weir), type,
                   name, expected->path);
    cr_expect_eq(system(command), 0);
    (void)remove(expected->path);
}

/* A request of three parts over a connection of its own; the status. */
static int ask(struct stage *stage, const char *before, struct text text, const char *behind)
{
    char request[4096];
    size_t n = strlen(before);

    cr_assert_lt(n + text.n + strlen(behind), sizeof(request));
    memcpy(request, before, n);
    memcpy(request + n, text.bytes, text.n);
    n += text.n;
    memcpy(request + n, behind, strlen(behind) + 1);
    struct peer *peer = stage_connect(stage, false);
    struct reply reply = stage_ask(peer, request, n + strlen(behind));
    reply_free(&reply);
    peer_free(peer);
    return reply.status;
}

/* A head that was refused is logged as far as it was understood. */
static void expect_logged(struct expected *expected, int status, struct text text)
{
    if (status == 200)
        expect_text(expected, text.bytes, text.n);
    else
        (void)fputs("?\n", expected->raw);
}

Test(row_61, user_agents)
{
    struct stage *stage = stage_start(NULL);
    struct expected expected = expect_begin();
    unsigned passed = 0;

    for (size_t i = 0; i < COUNT(hostile); i++) {
        int status = ask(stage, "GET / HTTP/1.1\r\n" HOST "User-Agent: ", hostile[i], "\r\n\r\n");
        cr_expect(status == 200 || status == 400, "%zu: %d", i, status);
        passed += status == 200;
        expect_logged(&expected, status, hostile[i]);
    }
    cr_expect_geq(passed, 15, "only %u got past", passed);
    expect_log(stage->weir, &expected, "request", "user_agent");
    stage_stop(stage);
}

Test(row_61, paths)
{
    struct stage *stage = stage_start(&(struct stage_options){.listener = "path: raw"});
    struct expected expected = expect_begin();

    for (size_t i = 0; i < COUNT(hostile); i++) {
        char path[256] = "/";
        struct text text = {path, hostile[i].n + 1};
        memcpy(path + 1, hostile[i].bytes, hostile[i].n);
        int status = ask(stage, "GET ", text, " HTTP/1.1\r\n" HOST "\r\n");
        cr_expect(status == 200 || status == 400, "%zu: %d", i, status);
        expect_logged(&expected, status, text);
    }
    expect_log(stage->weir, &expected, "request", "path");
    stage_stop(stage);
}

/* Fields that are logged when they come from one who is trusted, methods nobody knows, hosts. */
Test(row_61, other_members)
{
    static const char *const before[] = {
        "GET / HTTP/1.1\r\n" HOST "Referer: ",
        "GET / HTTP/1.1\r\n" HOST "X-Request-Id: ",
        "GET / HTTP/1.1\r\n" HOST "X-Forwarded-For: ",
        "GET / HTTP/1.1\r\nHost: ",
        "",
    };
    static const char *const behind[] = {"\r\n\r\n", "\r\n\r\n", "\r\n\r\n", "\r\n\r\n",
                                         " / HTTP/1.1\r\n" HOST "\r\n"};
    struct stage *stage =
        stage_start(&(struct stage_options){.listener = "forwarded: {trust: [127.0.0.0/8]}"});
    struct expected expected = expect_begin();

    for (size_t i = 0; i < COUNT(before); i++)
        for (size_t j = 0; j < COUNT(hostile); j++) {
            int status = ask(stage, before[i], hostile[j], behind[i]);
            cr_expect(status >= 200 && status <= 501, "%zu of %zu: %d", j, i, status);
            expect_text(&expected, "plain", 5);
        }
    expect_log(stage->weir, &expected, "request", "listener");
    stage_stop(stage);
}

/* Bytes of all kinds, in target and fields, but no line ends: one line each. */
Test(row_61, random_bytes)
{
    enum { REQUESTS = 400 };
    struct stage *stage = stage_start(&(struct stage_options){.listener = "path: raw"});
    struct expected expected = expect_begin();
    unsigned state = 61;
    char bytes[64];

    for (int i = 0; i < REQUESTS; i++) {
        bool in_agent = i % 2 == 0;
        for (size_t j = 0; j < sizeof(bytes); j++) {
            state = state * 1103515245u + 12345u;
            bytes[j] = (char)(state >> 16);
            if (bytes[j] == '\r' || bytes[j] == '\n' || (i % 4 < 2 && (bytes[j] & 0xe0) == 0))
                bytes[j] = '.';
        }
        struct text text = {bytes, sizeof(bytes)};
        int status = in_agent
                         ? ask(stage, "GET / HTTP/1.1\r\n" HOST "User-Agent: .", text, ".\r\n\r\n")
                         : ask(stage, "GET /", text, " HTTP/1.1\r\n" HOST "\r\n");
        cr_expect(status == 200 || status == 400, "%d: %d", i, status);
        expect_text(&expected, "plain", 5);
    }
    expect_log(stage->weir, &expected, "request", "listener");
    stage_stop(stage);
}

/* Whoever is here before the one place is taken is refused when its name is known. */
Test(row_61, names_in_client_hellos)
{
    struct stage *stage =
        stage_start(&(struct stage_options){.listener = "admission: {max_pending_handshakes: 1}"});
    struct expected expected = expect_begin();
    struct peer *peers[COUNT(hostile)];
    uint8_t hello[FLOOD_HELLO_MAX];
    struct peer *first = peer_connect(stage->tls);

    for (size_t i = 0; i < COUNT(hostile); i++)
        peers[i] = peer_connect(stage->tls);
    cr_assert(weir_metric_becomes(stage->weir, "weir_connections_silent{listener=\"tls\"}",
                                  COUNT(hostile) + 1, 5000));
    cr_assert(peer_write(first, hello, flood_hello(hello, NULL)));
    cr_assert(
        weir_metric_becomes(stage->weir, "weir_handshakes_running{listener=\"tls\"}", 1, 5000));
    for (size_t i = 0; i < COUNT(hostile); i++) {
        struct peer_tls options = {.sni = hostile[i].bytes};
        cr_expect(!peer_start_tls(peers[i], &options), "not refused");
        peer_free(peers[i]);
        expect_text(&expected, hostile[i].bytes, hostile[i].n);
    }
    peer_free(first);
    expect_text(&expected, "", 0);
    cr_assert(
        weir_metric_becomes(stage->weir, "weir_handshakes_running{listener=\"tls\"}", 0, 5000));
    expect_log(stage->weir, &expected, "refused", "sni");
    stage_stop(stage);
}

Test(row_61, bytes_for_a_client_hello)
{
    struct stage *stage = stage_start(NULL);
    struct expected expected = expect_begin();

    for (size_t i = 0; i < COUNT(hostile); i++) {
        struct peer *peer = peer_connect(stage->tls);
        cr_assert(peer_write(peer, hostile[i].bytes, hostile[i].n));
        (void)peer_wait_end(peer);
        peer_free(peer);
        expect_text(&expected, "not_tls", 7);
    }
    expect_log(stage->weir, &expected, "refused", "reason");
    stage_stop(stage);
}
