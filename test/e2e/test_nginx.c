/* A real upstream: nginx, plain and TLS. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/certificate.h"
#include "support/command.h"
#include "support/edge.h"
#include "support/nginx.h"

#define CURL "curl -sS -m 20 --http1.1 --cacert %s/cert.pem "
#define OK_2XX "weir_requests_total{listener=\"edge\",class=\"2xx\"}"
#define UPSTREAM(name) "weir_upstream_" name "_total{cluster=\"nginx\"}"

struct stage {
    struct nginx *nginx;
    struct weir *weir;
    const char *dir; /* weir's */
    int port;
};

/* CLUSTER is what its cluster has besides name and endpoint. */
static void open_weir(struct stage *stage, int upstream, const char *cluster)
{
    char more[512];
    struct edge_options options = {.routes = "{match: {path: /nginx}, cluster: nginx}",
                                   .more = more};

    (void)snprintf(more, sizeof(more), "clusters: [{name: nginx, endpoints: [127.0.0.1:%d]%s%s}]\n",
                   upstream, cluster ? ", " : "", cluster ? cluster : "");
    stage->weir = edge_start(&options);
    stage->dir = weir_dir(stage->weir);
    stage->port = weir_port(stage->weir, "edge");
}

/* www/nginx/ has index.html ("hello"), large (2 MiB) and text (compressible). */
static void open_nginx(struct stage *stage, const char *http, const char *server)
{
    char *output;

    stage->nginx = nginx_start(http, server);
    int status = command_run(20, &output,
                             "mkdir -p %s/www/nginx && cd %s/www/nginx && "
                             "printf hello > index.html && head -c 2097152 /dev/urandom > large && "
                             "yes 'all the same' | head -c 300000 > text",
                             nginx_dir(stage->nginx), nginx_dir(stage->nginx));
    cr_assert_eq(status, 0, "%s", output);
    free(output);
}

static void close_stage(struct stage *stage)
{
    weir_stop(stage->weir);
    nginx_stop(stage->nginx);
}

static void expect_text(const char *output, const char *text)
{
    cr_expect_not_null(strstr(output, text), "no \"%s\" in:\n%s", text, output);
}

Test(nginx, is_passed_on_whole)
{
    struct stage stage;
    char *output;

    open_nginx(&stage, "gzip on; gzip_types *; gzip_proxied any;", NULL);
    open_weir(&stage, nginx_port(stage.nginx), NULL);
    const char *www = nginx_dir(stage.nginx);
    int status = command_run(
        60, &output,
        "cd %s\n"
        "url=https://127.0.0.1:%d/nginx\n"
        "get() { curl -sS -m 20 --http1.1 --cacert cert.pem \"$@\"; }\n"
        "get $url/large -o a && cmp a %s/www/nginx/large && echo whole\n"
        "get -r 1000-1999 -o b -w '%%{http_code}\\n' $url/large\n"
        "dd if=%s/www/nginx/large bs=1000 skip=1 count=1 status=none | cmp - b && echo range\n"
        "get --compressed -D head $url/text -o c && cmp c %s/www/nginx/text && "
        "grep -i 'transfer-encoding: chunked' head && echo chunks\n"
        "etag=$(get -I $url/text | sed -n 's/^etag: //Ip' | tr -d '\\r')\n"
        "get -H \"If-None-Match: $etag\" -o d -w '%%{http_code}\\n' $url/text\n"
        "get -o e -w '%%{http_code}\\n' $url/missing\n"
        "get -o f -w '%%{http_code} %%{redirect_url}\\n' $url\n",
        stage.dir, stage.port, www, www, www);
    cr_expect_eq(status, 0, "%s", output);
    expect_text(output, "whole\n206\nrange\n");
    expect_text(output, "chunks\n304\n404\n301 ");
    free(output);
    cr_expect_eq(weir_metric(stage.weir, UPSTREAM("requests")), 7);
    close_stage(&stage);
}

Test(nginx, sees_what_is_forwarded)
{
    struct stage stage;
    char *output;

    open_nginx(&stage, NULL,
               "location /nginx/fields { return 200 \"host=$host for=$http_x_forwarded_for "
               "proto=$http_x_forwarded_proto xhost=$http_x_forwarded_host via=$http_via "
               "id=$http_x_request_id connection=$http_connection te=$http_te "
               "protocol=$server_protocol\"; }");
    open_weir(&stage, nginx_port(stage.nginx), NULL);
    int status =
        command_run(20, &output,
                    CURL "-H 'Connection: keep-alive, X-Secret' -H 'X-Forwarded-For: 6.6.6.6' "
                         "-H 'Host: site.test' https://127.0.0.1:%d/nginx/fields",
                    stage.dir, stage.port);
    cr_expect_eq(status, 0, "%s", output);
    expect_text(output,
                "host=site.test for=127.0.0.1 proto=https xhost=site.test via=1.1 weir id=");
    cr_expect_null(strstr(output, "id= "), "%s", output);
    expect_text(output, "connection= te= protocol=HTTP/1.1");
    free(output);
    close_stage(&stage);
}

/* COUNT requests by CLIENTS: none fails. Returns how many connections nginx saw. */
static unsigned load(struct stage *stage, unsigned count, unsigned clients, const char *path)
{
    char *output;
    char expected[96];
    int status = command_run(100, &output, "h2load --h1 -n %u -c %u https://127.0.0.1:%d%s", count,
                             clients, stage->port, path);

    cr_expect_eq(status, 0);
    (void)snprintf(expected, sizeof(expected), "status codes: %u 2xx, 0 3xx, 0 4xx, 0 5xx", count);
    expect_text(output, expected);
    expect_text(output, " 0 failed, 0 errored, 0 timeout");
    free(output);
    cr_expect_eq(weir_metric(stage->weir, OK_2XX), count);
    status = command_run(20, &output, "cut -d' ' -f1 %s/access.log | sort -u | wc -l",
                         nginx_dir(stage->nginx));
    unsigned connections = (unsigned)strtoul(output, NULL, 10);
    free(output);
    return connections;
}

static unsigned requests(void)
{
    return edge_is_slow() ? 2000 : 10000;
}

Test(nginx, connections_are_kept_and_used_again, .timeout = 120)
{
    struct stage stage;

    open_nginx(&stage, "keepalive_requests 1000000;", NULL);
    open_weir(&stage, nginx_port(stage.nginx), NULL);
    unsigned connections = load(&stage, requests(), 32, "/nginx/");
    double connects = weir_metric(stage.weir, UPSTREAM("connects"));
    cr_expect_eq(connects, connections);
    cr_expect_leq(connections, 32, "%u connections for 32 clients", connections);
    double reused = weir_metric(stage.weir, UPSTREAM("reused"));
    /* One that was connected for a request which another connection took waits in the pool as well. */
    cr_expect(reused >= requests() - connects && reused < requests(), "%g reused, %g connects",
              reused, connects);
    cr_expect_eq(weir_metric(stage.weir, UPSTREAM("retries")), 0);
    cr_expect(weir_metric_becomes(stage.weir, "weir_upstream_connections_idle{cluster=\"nginx\"}",
                                  connections, 1000));
    close_stage(&stage);
}

/* nginx ends a connection after ten requests, and says so. */
Test(nginx, ends_its_connections_often, .timeout = 120)
{
    struct stage stage;

    open_nginx(&stage, "keepalive_requests 10;", NULL);
    open_weir(&stage, nginx_port(stage.nginx), NULL);
    unsigned connections = load(&stage, requests(), 32, "/nginx/");
    cr_expect_geq(connections, requests() / 10);
    cr_expect_leq(connections, requests() / 10 + 32);
    close_stage(&stage);
}

/* nginx ends idle connections without a word, at any moment: what was sent into the void is sent once more. */
Test(nginx, reloads_while_it_serves, .timeout = 120)
{
    struct stage stage;
    char *output;

    open_nginx(&stage, "keepalive_timeout 1s;", NULL);
    open_weir(&stage, nginx_port(stage.nginx), NULL);
    int status = command_run(
        100, &output,
        "(for i in 1 2 3 4 5 6 7 8 9 10; do kill -HUP $(cat %s/nginx.pid); sleep 0.15; done) &\n"
        "h2load --h1 -D 2 -c 20 https://127.0.0.1:%d/nginx/\n"
        "status=$?; wait; exit $status",
        nginx_dir(stage.nginx), stage.port);
    cr_expect_eq(status, 0);
    expect_text(output, " 0 3xx, 0 4xx, 0 5xx");
    expect_text(output, " 0 failed, 0 errored, 0 timeout");
    free(output);
    char *text = weir_admin_get(stage.weir, "/metrics");
    cr_expect_eq(edge_sum(text, "weir_requests_total{listener=\"edge\""), edge_sum(text, OK_2XX));
    cr_expect_gt(edge_sum(text, OK_2XX), 100);
    free(text);
    close_stage(&stage);
}

/* ---- TLS ---- */

static void expect_status(const struct stage *stage, int status, const char *proxy_status)
{
    char *output;
    char expected[32];

    (void)command_run(20, &output, CURL "-i https://127.0.0.1:%d/nginx/", stage->dir, stage->port);
    (void)snprintf(expected, sizeof(expected), "HTTP/1.1 %d ", status);
    expect_text(output, expected);
    if (proxy_status)
        expect_text(output, proxy_status);
    else
        expect_text(output, "\r\n\r\nhello");
    free(output);
}

Test(nginx_tls, verified_and_kept, .timeout = 120)
{
    struct stage stage;
    char cluster[256];

    open_nginx(&stage, "keepalive_requests 1000000;", NULL);
    (void)snprintf(cluster, sizeof(cluster), "tls: {verify: true, ca: %s/cert.pem, sni: localhost}",
                   nginx_dir(stage.nginx));
    open_weir(&stage, nginx_tls_port(stage.nginx), cluster);
    unsigned connections = load(&stage, requests() / 2, 16, "/nginx/");
    cr_expect_leq(connections, 16);
    cr_expect_geq(weir_metric(stage.weir, UPSTREAM("reused")), requests() / 2 - connections);
    close_stage(&stage);
}

#define CERTIFICATE_ERROR "proxy-status: weir; error=tls_certificate_error"

struct tls_case {
    const char *tls;
    enum { CA_SYSTEM, CA_NGINX, CA_STRANGER } ca;
    bool plain_port;
    int status;
    const char *proxy_status;
};

static void run_tls_case(const struct tls_case *c)
{
    struct stage stage;
    char ca[128] = "";
    char cluster[512];
    char other[] = "/tmp/weir-other-XXXXXX";
    char *output;

    open_nginx(&stage, NULL, NULL);
    cr_assert_not_null(mkdtemp(other));
    certificate_make(other, "", "DNS:localhost");
    if (c->ca != CA_SYSTEM)
        (void)snprintf(ca, sizeof(ca), ", ca: %s/cert.pem",
                       c->ca == CA_STRANGER ? other : nginx_dir(stage.nginx));
    (void)snprintf(cluster, sizeof(cluster), "tls: {%s%s}", c->tls, ca);
    open_weir(&stage, c->plain_port ? nginx_port(stage.nginx) : nginx_tls_port(stage.nginx),
              cluster);
    for (int i = 0; i < 3; i++)
        expect_status(&stage, c->status, c->proxy_status);
    (void)command_run(10, &output, "rm -r %s", other);
    free(output);
    output = weir_admin_get(stage.weir, "/metrics");
    cr_expect_eq(edge_sum(output, "weir_upstream_connect_failed_total{cluster=\"nginx\""),
                 c->status == 200 ? 0 : 3);
    free(output);
    close_stage(&stage);
}

Test(nginx_tls, by_the_address_of_the_endpoint)
{
    run_tls_case(&(struct tls_case){"verify: true", CA_NGINX, false, 200, NULL});
}

Test(nginx_tls, wrong_name)
{
    run_tls_case(&(struct tls_case){"sni: wrong.test", CA_NGINX, false, 502, CERTIFICATE_ERROR});
}

Test(nginx_tls, unknown_authority)
{
    run_tls_case(&(struct tls_case){"sni: localhost", CA_STRANGER, false, 502, CERTIFICATE_ERROR});
}

Test(nginx_tls, unknown_to_the_system)
{
    run_tls_case(&(struct tls_case){"sni: localhost", CA_SYSTEM, false, 502, CERTIFICATE_ERROR});
}

Test(nginx_tls, not_verified)
{
    run_tls_case(&(struct tls_case){"verify: false, sni: wrong.test", CA_SYSTEM, false, 200, NULL});
}

Test(nginx_tls, speaks_no_tls)
{
    run_tls_case(&(struct tls_case){"sni: localhost", CA_NGINX, true, 502,
                                    "proxy-status: weir; error=tls_protocol_error"});
}
