/* Real clients: curl, wrk and h2load. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/command.h"
#include "support/edge.h"
#include "support/origin.h"

#define CURL "curl -sS -m 20 --http1.1 --cacert %s/cert.pem "
#define CURL2 "curl -sS -m 20 --http2 --cacert %s/cert.pem "
#define OK_2XX "weir_requests_total{listener=\"edge\",class=\"2xx\"}"

struct stage {
    struct origin *origin;
    struct weir *weir;
    const char *dir;
    int port;
};

static void open_stage(struct stage *stage, void (*serve)(struct peer *, void *))
{
    char more[128];
    struct edge_options options = {
        .workers = 2, .routes = "{match: {path: /up}, cluster: origin}", .more = more};

    stage->origin = origin_start(serve, NULL);
    (void)snprintf(more, sizeof(more), "clusters: [{name: origin, endpoints: [127.0.0.1:%d]}]\n",
                   origin_port(stage->origin));
    stage->weir = edge_start(&options);
    stage->dir = weir_dir(stage->weir);
    stage->port = weir_port(stage->weir, "edge");
}

static void close_stage(struct stage *stage)
{
    weir_stop(stage->weir);
    origin_stop(stage->origin);
}

static void expect_text(const char *output, const char *text)
{
    cr_expect_not_null(strstr(output, text), "no \"%s\" in:\n%s", text, output);
}

/* ---- curl ---- */

Test(curl, get_with_either_version)
{
    static const char *const versions[] = {"--tls-max 1.2", "--tlsv1.3"};
    struct stage stage;
    char *output;

    open_stage(&stage, origin_echo_head);
    for (int i = 0; i < 2; i++) {
        int status = command_run(30, &output,
                                 CURL "%s -i -w '\\n%%{http_version} %%{ssl_verify_result}' "
                                      "https://127.0.0.1:%d/up/a%%20b?c=d",
                                 stage.dir, versions[i], stage.port);
        cr_expect_eq(status, 0, "%s", output);
        expect_text(output, "HTTP/1.1 200 OK\r\n");
        expect_text(output, "GET /up/a%20b?c=d HTTP/1.1\r\n");
        expect_text(output, "\n1.1 0");
        free(output);
    }
    close_stage(&stage);
}

Test(curl, head)
{
    struct stage stage;
    char *output;

    open_stage(&stage, origin_echo_head);
    int status =
        command_run(30, &output, CURL "-I https://127.0.0.1:%d/up -I https://127.0.0.1:%d/",
                    stage.dir, stage.port, stage.port);
    cr_expect_eq(status, 0, "%s", output);
    expect_text(output, "HTTP/1.1 200 OK\r\n");
    expect_text(output, "content-length: 5\r\n");
    cr_expect_null(strstr(output, "hello"), "%s", output);
    free(output);
    close_stage(&stage);
}

Test(curl, http2_get_and_head)
{
    static const char *const versions[] = {"--tls-max 1.2", "--tlsv1.3"};
    struct stage stage;
    char *output;

    open_stage(&stage, origin_echo_head);
    for (int i = 0; i < 2; i++) {
        int status = command_run(
            30, &output,
            CURL2 "%s -i -w '\\n%%{http_version} %%{num_connects}' "
                  "https://127.0.0.1:%d/up/a?c=d && " CURL2 "%s -I https://127.0.0.1:%d/",
            stage.dir, versions[i], stage.port, stage.dir, versions[i], stage.port);
        cr_expect_eq(status, 0, "%s", output);
        expect_text(output, "HTTP/2 200 \r\n");
        expect_text(output, "GET /up/a?c=d HTTP/1.1\r\n");
        expect_text(output, "\n2 1");
        expect_text(output, "content-length: 5\r\n");
        free(output);
    }
    close_stage(&stage);
}

/* A file of 1 MiB goes to the origin and comes back by CURL_ARGUMENTS, answered with STATUS_LINE. */
static void expect_echo_as(const char *arguments, const char *status_line)
{
    struct stage stage;
    char *output;

    open_stage(&stage, origin_echo_content);
    int status = command_run(30, &output,
                             "cd %s\n"
                             "head -c 1048576 /dev/urandom > sent\n" CURL
                             "-v %s https://127.0.0.1:%d/up -o came || exit\n"
                             "cmp sent came && echo same",
                             stage.dir, stage.dir, arguments, stage.port);
    cr_expect_eq(status, 0, "%s", output);
    expect_text(output, status_line);
    expect_text(output, "\nsame\n");
    if (strstr(arguments, "100-continue"))
        expect_text(output, " 100");
    free(output);
    close_stage(&stage);
}

static void expect_echo(const char *arguments)
{
    expect_echo_as(arguments, "< HTTP/1.1 200");
}

Test(curl, http2_content)
{
    expect_echo_as("--http2 --data-binary @sent", "< HTTP/2 200");
    expect_echo_as("--http2 -T - <sent", "< HTTP/2 200");
}

Test(curl, post_1_mib)
{
    expect_echo("--data-binary @sent -H Expect:");
}

Test(curl, post_1_mib_with_100_continue)
{
    expect_echo("--data-binary @sent -H 'Expect: 100-continue' --expect100-timeout 20");
}

Test(curl, put_chunked)
{
    expect_echo("-T - -H Expect: <sent");
}

Test(curl, put_by_length)
{
    expect_echo("-T sent");
}

Test(curl, connection_is_kept)
{
    struct stage stage;
    char *output;
    int p;

    open_stage(&stage, origin_echo_head);
    p = stage.port;
    int status = command_run(
        30, &output,
        CURL "-o /dev/null -w '%%{num_connects} %%{http_code};' https://127.0.0.1:%d/up/1 "
             "-o /dev/null https://127.0.0.1:%d/2 -o /dev/null https://127.0.0.1:%d/up/3 "
             "-o /dev/null https://127.0.0.1:%d/up/4",
        stage.dir, p, p, p, p);
    cr_expect_eq(status, 0);
    cr_expect_str_eq(output, "1 200;0 200;0 200;0 200;");
    free(output);
    edge_expect_balance(stage.weir, 1, 0);
    cr_expect_eq(weir_metric(stage.weir, OK_2XX), 4);
    cr_expect_eq(weir_metric(stage.weir, "weir_upstream_reused_total{cluster=\"origin\"}"), 2);
    cr_expect_eq(origin_connections(stage.origin), 1);
    close_stage(&stage);
}

Test(curl, http_1_0_and_connection_close)
{
    struct stage stage;
    char *output;

    open_stage(&stage, origin_echo_head);
    int status = command_run(30, &output,
                             CURL "-v --no-alpn --http1.0 https://127.0.0.1:%d/up "
                                  "https://127.0.0.1:%d/ --next --cacert %s/cert.pem "
                                  "-H 'Connection: close' https://127.0.0.1:%d/",
                             stage.dir, stage.port, stage.port, stage.dir, stage.port);
    cr_expect_eq(status, 0, "%s", output);
    edge_expect_balance(stage.weir, 3, 0);
    cr_expect_eq(weir_metric(stage.weir, OK_2XX), 3, "%s", output);
    free(output);
    close_stage(&stage);
}

Test(curl, many_at_once)
{
    struct stage stage;
    char *output;

    open_stage(&stage, origin_echo_head);
    int status = command_run(
        60, &output,
        CURL "--parallel --parallel-immediate --parallel-max 40 -o /dev/null -w "
             "'%%{http_code}\\n' 'https://127.0.0.1:%d/up/[1-200]' 2>/dev/null | sort | uniq -c",
        stage.dir, stage.port);
    cr_expect_eq(status, 0);
    expect_text(output, " 200 200\n");
    free(output);
    cr_expect_eq(weir_metric(stage.weir, OK_2XX), 200);
    close_stage(&stage);
}

/* ---- load ---- */

static void expect_no_failure(const struct weir *weir)
{
    char *text = weir_admin_get(weir, "/metrics");

    cr_expect_eq(edge_sum(text, "weir_connections_refused_total{listener=\"edge\""), 0);
    cr_expect_eq(edge_sum(text, "weir_requests_total{listener=\"edge\""), edge_sum(text, OK_2XX));
    cr_expect_eq(edge_sum(text, "weir_access_log_dropped_total"), 0);
    free(text);
}

static void run_wrk(const char *path)
{
    struct stage stage;
    char *output;
    unsigned long requests = 0;

    open_stage(&stage, origin_echo_head);
    int status =
        command_run(60, &output, "wrk -t2 -c40 -d2s https://127.0.0.1:%d%s", stage.port, path);
    cr_expect_eq(status, 0, "%s", output);
    cr_expect_null(strstr(output, "Socket errors"), "%s", output);
    cr_expect_null(strstr(output, "Non-2xx"), "%s", output);
    const char *count = strstr(output, " requests in ");
    cr_assert_not_null(count, "%s", output);
    while (count[-1] >= '0' && count[-1] <= '9')
        count--;
    requests = strtoul(count, NULL, 10);
    cr_expect_gt(requests, 100, "%s", output);
    /* wrk does not count what is in flight when its time is up. */
    double counted = weir_metric(stage.weir, OK_2XX);
    cr_expect(counted >= requests && counted <= requests + 40, "%g counted, %lu answered", counted,
              requests);
    free(output);
    close_stage(&stage);
}

Test(wrk, own_answers, .timeout = 60)
{
    run_wrk("/");
}

Test(wrk, upstream_answers, .timeout = 60)
{
    run_wrk("/up");
}

/* COUNT requests over CLIENTS connections: all are answered with 2xx, and counted to the last one. */
static void run_h2load(const char *arguments, const char *path, unsigned count, unsigned clients)
{
    struct stage stage;
    char *output;
    char expected[160];

    open_stage(&stage, origin_echo_content);
    int status = command_run(100, &output,
                             "cd %s && head -c 8192 /dev/urandom > body && "
                             "h2load --h1 -n %u -c %u -t 2 %s https://127.0.0.1:%d%s",
                             stage.dir, count, clients, arguments, stage.port, path);
    cr_expect_eq(status, 0, "%s", output);
    (void)snprintf(expected, sizeof(expected),
                   "requests: %u total, %u started, %u done, %u succeeded, 0 failed, 0 errored",
                   count, count, count, count);
    expect_text(output, expected);
    (void)snprintf(expected, sizeof(expected), "status codes: %u 2xx, 0 3xx, 0 4xx, 0 5xx", count);
    expect_text(output, expected);
    free(output);
    cr_expect_eq(weir_metric(stage.weir, OK_2XX), count);
    expect_no_failure(stage.weir);
    edge_expect_balance(stage.weir, clients, 0);
    edge_expect_log_lines(stage.weir, "\"ended\":\"ok\"", count);
    close_stage(&stage);
}

static unsigned load(void)
{
    return edge_is_slow() ? 4000 : 30000;
}

Test(h2load, own_answers, .timeout = 120)
{
    run_h2load("", "/", load(), 50);
}

Test(h2load, upstream_post_8_kib, .timeout = 120)
{
    run_h2load("-d body", "/up", load() / 3, 50);
}

Test(h2load, pipelined, .timeout = 120)
{
    run_h2load("-m 8", "/", load(), 20);
}
