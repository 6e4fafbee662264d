#include "support/edge.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "support/peer.h"

#define WAIT_MS 5000

/* ---- time ---- */

bool edge_is_slow(void)
{
    static int known = -1;
    char command[512];
    char line[256] = "";

    if (known >= 0)
        return known;
    (void)snprintf(command, sizeof(command), "'%s' version", getenv("WEIR_BIN"));
    FILE *said = popen(command, "r");
    if (said) {
        (void)!fgets(line, sizeof(line), said);
        (void)pclose(said);
    }
    known = getenv("WEIR_TEST_SLOW") != NULL || strstr(line, "(release") == NULL;
    return known;
}

int edge_ms(int ms)
{
    return edge_is_slow() ? ms * 4 : ms;
}

long edge_now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void edge_nap(int ms)
{
    struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};
    (void)nanosleep(&t, NULL);
}

/* ---- starting ---- */

static char limited_binary[512];

void edge_limit_descriptors(const char *dir, unsigned descriptors)
{
    char path[256];

    (void)snprintf(path, sizeof(path), "%s/limited", dir);
    (void)snprintf(limited_binary, sizeof(limited_binary), "%s", getenv("WEIR_BIN"));
    FILE *script = fopen(path, "we");
    cr_assert_not_null(script);
    (void)fprintf(script, "#!/bin/sh\nulimit -n %u\nexec '%s' \"$@\"\n", descriptors,
                  limited_binary);
    (void)fclose(script);
    (void)chmod(path, 0700);
    (void)setenv("WEIR_BIN", path, 1);
}

void edge_unlimit_descriptors(void)
{
    (void)setenv("WEIR_BIN", limited_binary, 1);
}

static const char *or_nothing(const char *text)
{
    return text ? text : "";
}

#define CERTIFICATE "certificates: [{chain: cert.pem, key: key.pem}]"

static struct weir *start(const struct edge_options *o)
{
    return weir_start("workers: %u\n"
                      "admin: 127.0.0.1:0\n"
                      "access_log: access.log\n"
                      "listeners:\n"
                      "  - name: edge\n"
                      "    bind: 127.0.0.1:0\n"
                      "    tls: {%s%s%s}\n"
                      "    admission: {%s}\n"
                      "    requests: {%s}\n"
                      "    timeouts: {%s}\n"
                      "    limits: {%s}\n"
                      "    routes: [%s%s{respond: {body: hello}}]\n"
                      "%s",
                      o->workers ? o->workers : 1, o->own_certificates ? "" : CERTIFICATE,
                      o->tls && !o->own_certificates ? ", " : "", or_nothing(o->tls),
                      o->admission ? o->admission : "max_handshake_delay: infinity",
                      or_nothing(o->requests), or_nothing(o->timeouts), or_nothing(o->limits),
                      or_nothing(o->routes), o->routes ? ", " : "", or_nothing(o->more));
}

struct weir *edge_start(const struct edge_options *options)
{
    static const struct edge_options none;
    const struct edge_options *o = options ? options : &none;
    char dir[] = "/tmp/weir-limit-XXXXXX";
    char command[64];

    (void)edge_is_slow();
    if (o->descriptors == 0)
        return start(o);
    cr_assert_not_null(mkdtemp(dir));
    edge_limit_descriptors(dir, o->descriptors);
    struct weir *weir = start(o);
    edge_unlimit_descriptors();
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", dir);
    (void)!system(command);
    return weir;
}

bool edge_serves(const struct weir *weir)
{
    struct peer *peer = peer_connect_tls(weir_port(weir, "edge"), NULL);
    bool served = false;

    if (!peer)
        return false;
    if (peer_say(peer, "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")) {
        struct reply reply = peer_reply(peer, false);
        served = reply.status == 200 && reply.whole && strcmp(reply.body, "hello") == 0;
        reply_free(&reply);
    }
    peer_free(peer);
    return served;
}

/* ---- counting ---- */

double edge_sum(const char *text, const char *prefix)
{
    size_t n = strlen(prefix);
    double sum = 0;

    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        size_t length = strcspn(line, "\n");
        if (length <= n || strncmp(line, prefix, n) != 0)
            continue;
        const char *value = line + length;
        while (value[-1] != ' ')
            value--;
        sum += strtod(value, NULL);
    }
    return sum;
}

#define REFUSED "weir_connections_refused_total{listener=\"edge\""

double edge_refused(const struct weir *weir, const char *reason)
{
    char sample[160];

    (void)snprintf(sample, sizeof(sample), REFUSED ",reason=\"%s\"}", reason);
    return weir_metric(weir, sample);
}

void edge_expect_refused(const struct weir *weir, const char *reason, unsigned n)
{
    char sample[160];

    (void)snprintf(sample, sizeof(sample), REFUSED ",reason=\"%s\"}", reason);
    bool came = weir_metric_becomes(weir, sample, n, edge_ms(WAIT_MS));
    char *text = weir_admin_get(weir, "/metrics");
    cr_expect(came, "%s is %g, not %u", reason, edge_sum(text, sample), n);
    cr_expect_eq(edge_sum(text, REFUSED), (double)n, "%g refused in all, %u for %s",
                 edge_sum(text, REFUSED), n, reason);
    free(text);
}

static double open_connections(const char *text)
{
    static const char *const gauges[] = {
        "weir_connections_silent{listener=\"edge\"}", "weir_handshakes_waiting{listener=\"edge\"}",
        "weir_handshakes_running{listener=\"edge\"}", "weir_connections_active{listener=\"edge\"}",
        "weir_connections_idle{listener=\"edge\"}",   "weir_connections_closing{listener=\"edge\"}",
    };
    double sum = 0;

    for (size_t i = 0; i < sizeof(gauges) / sizeof(*gauges); i++)
        sum += edge_sum(text, gauges[i]);
    return sum;
}

void edge_expect_balance(const struct weir *weir, unsigned accepted, unsigned open)
{
    long end = edge_now_ms() + edge_ms(WAIT_MS);
    char *text = NULL;
    double in = 0;
    double left = 0;
    double refused = 0;
    double closed = 0;

    /* A scrape reads one counter after another while the worker goes on: a later one must agree. */
    do {
        free(text);
        edge_nap(text ? 20 : 0);
        text = weir_admin_get(weir, "/metrics");
        cr_assert_not_null(text);
        in = edge_sum(text, "weir_connections_accepted_total{listener=\"edge\"}");
        left = open_connections(text);
        refused = edge_sum(text, REFUSED);
        closed = edge_sum(text, "weir_connections_closed_total{listener=\"edge\"}");
    } while ((in != accepted || left != open || in != refused + closed + left) &&
             edge_now_ms() < end);
    cr_expect_eq(in, accepted, "%g accepted, %u came", in, accepted);
    cr_expect_eq(left, open, "%g open, not %u", left, open);
    cr_expect_eq(in, refused + closed + left, "%g accepted, but %g refused + %g closed + %g open",
                 in, refused, closed, left);
    free(text);
}

unsigned edge_log_lines(const struct weir *weir, const char *text)
{
    char *log = weir_file(weir, "access.log");
    unsigned lines = 0;

    for (char *line = log; line && *line;) {
        char *next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        lines += strstr(line, text) != NULL;
        line = next;
    }
    free(log);
    return lines;
}

void edge_expect_log_lines(const struct weir *weir, const char *text, unsigned n)
{
    long end = edge_now_ms() + edge_ms(WAIT_MS);

    while (edge_log_lines(weir, text) < n && edge_now_ms() < end)
        edge_nap(20);
    cr_expect_eq(edge_log_lines(weir, text), n, "%u lines have %s, not %u",
                 edge_log_lines(weir, text), text, n);
}

size_t edge_rss_peak(const struct weir *weir)
{
    char path[64];
    char line[256];
    size_t kib = 0;

    (void)snprintf(path, sizeof(path), "/proc/%d/status", (int)weir_pid(weir));
    FILE *file = fopen(path, "re");
    cr_assert_not_null(file);
    while (fgets(line, sizeof(line), file))
        if (sscanf(line, "VmHWM: %zu kB", &kib) == 1)
            break;
    (void)fclose(file);
    cr_assert_gt(kib, 0);
    return kib * 1024;
}
