/* HTTP/2 with real programs on both sides: curl, nghttp, h2load; nghttpd, nginx, weir itself. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/command.h"
#include "support/edge.h"
#include "support/nghttpd.h"
#include "support/nginx.h"
#include "support/weir.h"

#define ACTIVE "weir_upstream_connections_active{cluster=\"up\"}"

/* Two listeners, plain and TLS, before a cluster of one endpoint. CLUSTER is what it has besides name and endpoint. */
static struct weir *start_weir(int upstream, const char *cluster)
{
    return weir_start("workers: 1\nadmin: 127.0.0.1:0\naccess_log: access.log\n"
                      "listeners:\n"
                      "  - {name: plain, bind: 127.0.0.1:0, routes: [{cluster: up}]}\n"
                      "  - {name: tls, bind: 127.0.0.1:0, routes: [{cluster: up}],\n"
                      "     tls: {certificates: [{chain: cert.pem, key: key.pem}]},\n"
                      "     admission: {max_handshake_delay: infinity}}\n"
                      "clusters: [{name: up, endpoints: [127.0.0.1:%d], %s}]\n",
                      upstream, cluster);
}

/* As above, but answers itself. */
static struct weir *start_origin(const char *size)
{
    return weir_start("workers: 1\nadmin: 127.0.0.1:0\n"
                      "listeners:\n"
                      "  - {name: plain, bind: 127.0.0.1:0, routes: [{respond: {body_size: %s}}]}\n"
                      "  - {name: tls, bind: 127.0.0.1:0, routes: [{respond: {body_size: %s}}],\n"
                      "     tls: {certificates: [{chain: cert.pem, key: key.pem}]},\n"
                      "     admission: {max_handshake_delay: infinity}}\n",
                      size, size);
}

static void expect_text(const char *output, const char *text)
{
    cr_expect_not_null(strstr(output, text), "no \"%s\" in:\n%.4000s", text, output);
}

static int port_of(const struct weir *weir, bool tls)
{
    return weir_port(weir, tls ? "tls" : "plain");
}

static const char *scheme(bool tls)
{
    return tls ? "https" : "http";
}

/* ---- real upstreams ---- */

/* A file by GET and HEAD, one that is not there, content that comes back; over every kind of connection to the client. */
static void expect_served(struct weir *weir, const char *dir, bool echo)
{
    static const struct {
        const char *how;
        const char *version;
        bool tls;
    } ways[] = {{"--http2", "2", true},
                {"--http2-prior-knowledge", "2", false},
                {"--http1.1", "1.1", true},
                {"--http1.1", "1.1", false}};
    char *output;
    char expected[32];

    for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
        int status = command_run(
            100, &output,
            "cd %s && rm -f got back\n"
            "url=%s://127.0.0.1:%d\n"
            "get() { curl -sS -m 60 --cacert cert.pem %s \"$@\"; }\n"
            "get -w '%%{http_version} %%{http_code}\\n' $url/file -o got && cmp got %s/file && "
            "echo whole\n"
            "get -I $url/file | grep -i '^content-length: 2097152' && echo head\n"
            "get -o /dev/null -w 'missing %%{http_code}\\n' $url/missing\n"
            "%s || { get --data-binary @%s/file $url/file -o back && cmp back %s/file && "
            "echo same; }\n",
            weir_dir(weir), scheme(ways[i].tls), port_of(weir, ways[i].tls), ways[i].how, dir,
            echo ? "false" : "true", dir, dir);
        cr_expect_eq(status, 0, "%s %d: %s", ways[i].how, ways[i].tls, output);
        (void)snprintf(expected, sizeof(expected), "%s 200\nwhole\n", ways[i].version);
        expect_text(output, expected);
        expect_text(output, "\nhead\n");
        expect_text(output, "\nmissing 404\n");
        if (echo)
            expect_text(output, "\nsame\n");
        free(output);
    }
}

static void make_file(const char *dir)
{
    char *output;
    int status = command_run(20, &output, "head -c 2097152 /dev/urandom > %s/file", dir);

    cr_assert_eq(status, 0, "%s", output);
    free(output);
}

static void expect_nghttpd_served(bool tls, const char *cluster)
{
    struct nghttpd *nghttpd = nghttpd_start(tls);
    struct weir *weir = start_weir(nghttpd_port(nghttpd), cluster);

    make_file(nghttpd_dir(nghttpd));
    expect_served(weir, nghttpd_dir(nghttpd), true);
    cr_expect_leq(weir_metric(weir, "weir_upstream_connects_total{cluster=\"up\"}"), 1);
    weir_stop(weir);
    nghttpd_stop(nghttpd);
}

Test(h2_clients, nghttpd_by_prior_knowledge, .timeout = 120)
{
    expect_nghttpd_served(false, "protocol: http2");
}

Test(h2_clients, nghttpd_by_alpn, .timeout = 120)
{
    expect_nghttpd_served(true, "protocol: auto, tls: {verify: false}");
}

Test(h2_clients, nghttpd_over_tls, .timeout = 120)
{
    expect_nghttpd_served(true, "protocol: http2, tls: {verify: false}");
}

Test(h2_clients, nginx_over_http1, .timeout = 120)
{
    char dir[128];
    struct nginx *nginx = nginx_start(NULL, NULL);
    struct weir *weir = start_weir(nginx_port(nginx), "protocol: http1");

    (void)snprintf(dir, sizeof(dir), "%s/www", nginx_dir(nginx));
    make_file(dir);
    expect_served(weir, dir, false);
    weir_stop(weir);
    nginx_stop(nginx);
}

/* ---- large content through all pairings of versions ---- */

/* From nginx through an inner weir over HTTP/1.1, and from that one as CLUSTER says. */
static void expect_large(const char *cluster, bool tls, const char *how)
{
    char *output;
    struct nginx *nginx = nginx_start(NULL, NULL);
    struct weir *inner = start_weir(nginx_port(nginx), "protocol: http1");
    struct weir *weir = start_weir(port_of(inner, strstr(cluster, "tls:") != NULL), cluster);

    int status = command_run(100, &output,
                             "head -c 67108864 /dev/urandom > %s/www/file\n"
                             "curl -sS -m 90 -k %s -w '%%{size_download}\\n' -o %s/got "
                             "%s://127.0.0.1:%d/file && cmp %s/got %s/www/file && echo same",
                             nginx_dir(nginx), how, weir_dir(weir), scheme(tls), port_of(weir, tls),
                             weir_dir(weir), nginx_dir(nginx));
    cr_expect_eq(status, 0, "%s, %s: %s", how, cluster, output);
    cr_expect_str_eq(output, "67108864\nsame\n", "%s, %s: %s", how, cluster, output);
    free(output);
    cr_expect(weir_metric_becomes(weir, ACTIVE, 0, 5000));
    weir_stop(weir);
    weir_stop(inner);
    nginx_stop(nginx);
}

Test(h2_clients, large_h2_to_h2, .timeout = 120)
{
    expect_large("protocol: http2", false, "--http2-prior-knowledge");
    expect_large("protocol: http2, tls: {verify: false}", false, "--http2-prior-knowledge");
}

Test(h2_clients, large_h2_to_h1, .timeout = 120)
{
    expect_large("protocol: http1", false, "--http2-prior-knowledge");
}

Test(h2_clients, large_h1_to_h2, .timeout = 120)
{
    expect_large("protocol: http2", false, "--http1.1");
    expect_large("protocol: http2, tls: {verify: false}", false, "--http1.1");
}

Test(h2_clients, large_over_tls, .timeout = 120)
{
    expect_large("protocol: http2", true, "");
    expect_large("protocol: http1", true, "");
}

/* ---- nghttp ---- */

Test(h2_clients, nghttp_sees_frames_as_they_should_be)
{
    char *output;
    struct weir *origin = start_origin("100KiB");
    struct weir *weir = start_weir(port_of(origin, false), "protocol: http2");

    for (int tls = 0; tls < 2; tls++) {
        int status = command_run(30, &output, "nghttp -nv --no-dep -m 3 %s://127.0.0.1:%d/",
                                 scheme(tls), port_of(weir, tls));
        cr_expect_eq(status, 0, "%s", output);
        expect_text(output, "[SETTINGS_MAX_CONCURRENT_STREAMS(0x03):128]");
        expect_text(output, "[SETTINGS_MAX_HEADER_LIST_SIZE(0x06):65536]");
        expect_text(output, "content-length: 102400\n");
        expect_text(output, " recv (stream_id=5) :status: 200\n");
        expect_text(output, "via: ");
        cr_expect_null(strstr(output, "recv RST_STREAM"), "%s", output);
        cr_expect_null(strstr(output, "recv GOAWAY"), "%s", output);
        free(output);
    }
    weir_stop(weir);
    weir_stop(origin);
}

/* Uploads come back with as many bytes, with and without a length, with trailers and padding. */
Test(h2_clients, nghttp_uploads)
{
    static const char *const ways[] = {"", "--no-content-length", "--trailer 'x-sum: 1'", "-b 255",
                                       "-w 16 -W 20"};
    char *output;
    struct nghttpd *nghttpd = nghttpd_start(false);
    struct weir *weir = start_weir(nghttpd_port(nghttpd), "protocol: http2");

    make_file(nghttpd_dir(nghttpd));
    for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
        int status = command_run(30, &output,
                                 "nghttp -d %s/file %s https://127.0.0.1:%d/file > %s/back && "
                                 "cmp %s/file %s/back && echo same",
                                 nghttpd_dir(nghttpd), ways[i], port_of(weir, true), weir_dir(weir),
                                 nghttpd_dir(nghttpd), weir_dir(weir));
        cr_expect_eq(status, 0, "%s: %s", ways[i], output);
        expect_text(output, "same\n");
        free(output);
    }
    weir_stop(weir);
    nghttpd_stop(nghttpd);
}

/* ---- h2load ---- */

/* All of REQUESTS are answered with 2xx and counted to the last one, over CONNECTIONS with STREAMS each at once. */
static void expect_load(struct weir *weir, const char *dir, bool tls, unsigned requests,
                        unsigned connections, unsigned streams, const char *more)
{
    char sample[96];
    char expected[160];
    char *output;

    (void)snprintf(sample, sizeof(sample), "weir_requests_total{listener=\"%s\",class=\"2xx\"}",
                   tls ? "tls" : "plain");
    double before = weir_metric(weir, sample);
    int status =
        command_run(100, &output, "cd %s && h2load -n %u -c %u -m %u %s %s://127.0.0.1:%d/file",
                    dir, requests, connections, streams, more, scheme(tls), port_of(weir, tls));
    cr_expect_eq(status, 0, "%s", output);
    (void)snprintf(expected, sizeof(expected),
                   "requests: %u total, %u started, %u done, %u succeeded, 0 failed, 0 errored",
                   requests, requests, requests, requests);
    expect_text(output, expected);
    (void)snprintf(expected, sizeof(expected), "status codes: %u 2xx, 0 3xx, 0 4xx, 0 5xx",
                   requests);
    expect_text(output, expected);
    expect_text(output, "Application protocol: h2");
    free(output);
    cr_expect_eq(weir_metric(weir, sample), before + requests);
    cr_expect(weir_metric_becomes(weir, ACTIVE, 0, 5000));
}

static unsigned load(void)
{
    return edge_is_slow() ? 2560 : 25600;
}

Test(h2_load, gets_64_connections_of_10_streams, .timeout = 120)
{
    static const char *const clusters[] = {"protocol: http2", "protocol: http1"};

    for (size_t i = 0; i < 2; i++) {
        struct weir *origin = start_origin("1KiB");
        struct weir *weir = start_weir(port_of(origin, false), clusters[i]);
        expect_load(weir, weir_dir(weir), true, load(), 64, 10, "");
        expect_load(weir, weir_dir(weir), false, load(), 64, 10, "");
        weir_stop(weir);
        weir_stop(origin);
    }
}

Test(h2_load, uploads, .timeout = 120)
{
    char *output;
    struct nghttpd *nghttpd = nghttpd_start(false);
    struct weir *weir = start_weir(nghttpd_port(nghttpd), "protocol: http2");
    const char *dir = nghttpd_dir(nghttpd);

    int status = command_run(20, &output, "head -c 131072 /dev/urandom > %s/body", dir);
    cr_assert_eq(status, 0, "%s", output);
    free(output);
    expect_load(weir, dir, true, load() / 20, 16, 10, "-d body");
    expect_load(weir, dir, false, load() / 20, 16, 10, "-d body");
    weir_stop(weir);
    nghttpd_stop(nghttpd);
}

Test(h2_load, large_answers_of_nghttpd, .timeout = 120)
{
    struct nghttpd *nghttpd = nghttpd_start(true);
    struct weir *weir = start_weir(nghttpd_port(nghttpd), "protocol: http2, tls: {verify: false}");

    make_file(nghttpd_dir(nghttpd));
    expect_load(weir, nghttpd_dir(nghttpd), true, 64, 8, 4, "");
    expect_load(weir, nghttpd_dir(nghttpd), true, 64, 8, 4, "-w 16 -W 16");
    weir_stop(weir);
    nghttpd_stop(nghttpd);
}
