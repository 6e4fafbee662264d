/* A real upstream of HTTP/2: nginx, with prior knowledge and by ALPN. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/command.h"
#include "support/edge.h"
#include "support/nginx.h"

#define OK_2XX "weir_requests_total{listener=\"edge\",class=\"2xx\"}"
#define UPSTREAM(name) "weir_upstream_" name "_total{cluster=\"nginx\"}"

struct world {
    struct nginx *nginx;
    struct weir *weir;
};

/* www/nginx/ has index.html ("hello") and large (2 MiB). */
static struct world start(const char *http, bool tls, const char *cluster)
{
    struct world world = {.nginx = nginx_start(http, "dav_methods PUT;")};
    const char *dir = nginx_dir(world.nginx);
    char more[512];
    char how[256];
    struct edge_options options = {.routes = "{match: {path: /nginx}, cluster: nginx}",
                                   .more = more};
    char *output;

    int status = command_run(20, &output,
                             "mkdir -p %s/www/nginx && cd %s/www/nginx && "
                             "printf hello > index.html && head -c 2097152 /dev/urandom > large",
                             dir, dir);
    cr_assert_eq(status, 0, "%s", output);
    free(output);
    (void)snprintf(how, sizeof(how),
                   tls ? "tls: {ca: %s/cert.pem, sni: localhost}" : "protocol: http2", dir);
    (void)snprintf(more, sizeof(more),
                   "clusters: [{name: nginx, endpoints: [127.0.0.1:%d], %s%s}]\n",
                   tls ? nginx_h2_tls_port(world.nginx) : nginx_h2_port(world.nginx), how, cluster);
    world.weir = edge_start(&options);
    return world;
}

static void stop(struct world *world)
{
    cr_expect(weir_metric_becomes(world->weir, "weir_requests_active", 0, edge_ms(5000)));
    cr_expect(weir_metric_becomes(world->weir, "weir_buffer_bytes", 0, edge_ms(5000)));
    weir_stop(world->weir);
    nginx_stop(world->nginx);
}

static void expect_text(const char *output, const char *text)
{
    cr_expect_not_null(strstr(output, text), "no \"%s\" in:\n%s", text, output);
}

/* COUNT requests by CLIENTS with PIPES each at once, over HTTP/2 or as HOW says: none fails. */
static void load(const struct world *world, unsigned count, unsigned clients, unsigned pipes,
                 const char *how)
{
    double before = weir_metric(world->weir, OK_2XX);
    char expected[96];
    char *output;
    int status =
        command_run(100, &output, "h2load -n %u -c %u -m %u %s https://127.0.0.1:%d/nginx/", count,
                    clients, pipes, how, weir_port(world->weir, "edge"));

    cr_expect_eq(status, 0, "%s", output);
    (void)snprintf(expected, sizeof(expected), "status codes: %u 2xx, 0 3xx, 0 4xx, 0 5xx", count);
    expect_text(output, expected);
    expect_text(output, " 0 failed, 0 errored, 0 timeout");
    free(output);
    cr_expect(weir_metric_becomes(world->weir, OK_2XX, before + count, edge_ms(5000)));
}

/* Lines of nginx's access log: a line a request. */
static unsigned seen(const struct world *world)
{
    char *output;
    (void)command_run(20, &output, "grep -c 'GET .* HTTP/2.0' %s/access.log",
                      nginx_dir(world->nginx));
    unsigned lines = (unsigned)strtoul(output, NULL, 10);
    free(output);
    return lines;
}

static void is_passed_on(bool tls)
{
    struct world world = start(NULL, tls, "");
    const char *dir = nginx_dir(world.nginx);
    char *output;

    int status = command_run(60, &output,
                             "cd %s\n"
                             "url=https://127.0.0.1:%d/nginx\n"
                             "get() { curl -sS -m 20 --cacert cert.pem \"$@\"; }\n"
                             "for how in --http1.1 --http2; do\n"
                             "get $how $url/large -o a && cmp a %s/www/nginx/large && echo whole\n"
                             "get $how -r 1000-1999 -o b -w '%%{http_code}\\n' $url/large\n"
                             "get $how -I -w '%%{http_code}\\n' -o c $url/large\n"
                             "get $how -T a -w '%%{http_code}\\n' -o d $url/x$how && cmp a "
                             "%s/www/nginx/x$how && echo put\n"
                             "get $how -o d -w '%%{http_code}\\n' $url/missing\n"
                             "done\n",
                             weir_dir(world.weir), weir_port(world.weir, "edge"), dir, dir);
    cr_expect_eq(status, 0, "%s", output);
    cr_expect_str_eq(output, "whole\n206\n200\n201\nput\n404\nwhole\n206\n200\n201\nput\n404\n");
    free(output);
    cr_expect_eq(weir_metric(world.weir, UPSTREAM("requests")), 10);
    cr_expect_leq(weir_metric(world.weir, UPSTREAM("connects")), 3);
    stop(&world);
}

Test(nginx_h2, is_passed_on_whole, .timeout = 120)
{
    is_passed_on(false);
}

Test(nginx_h2, is_passed_on_whole_by_alpn, .timeout = 120)
{
    is_passed_on(true);
}

Test(nginx_h2, few_connections_carry_all, .timeout = 120)
{
    struct world world = start("keepalive_requests 1000000;", false, "");

    load(&world, 2000, 10, 10, "");
    load(&world, 2000, 20, 1, "--h1");
    cr_expect_leq(weir_metric(world.weir, UPSTREAM("connects")), 2);
    cr_expect_eq(weir_metric(world.weir, UPSTREAM("retries")), 0);
    cr_expect_eq(seen(&world), 4000);
    stop(&world);
}

/* nginx says GOAWAY after fifty requests, amid the load; what it has not looked at goes elsewhere, and nothing is lost or done twice. */
static void ends_its_connections_often(bool tls, const char *how, unsigned clients, unsigned pipes)
{
    struct world world = start("keepalive_requests 50;", tls, "");

    load(&world, 2000, clients, pipes, how);
    cr_expect_geq(weir_metric(world.weir, UPSTREAM("connects")), 2000 / 50);
    cr_expect_eq(seen(&world), 2000, "%u", seen(&world));
    stop(&world);
}

Test(nginx_h2, ends_its_connections_often, .timeout = 120)
{
    ends_its_connections_often(false, "", 10, 10);
    ends_its_connections_often(false, "--h1", 20, 1);
    ends_its_connections_often(true, "", 10, 10);
}

/* Workers that are told to end say GOAWAY on all connections at once, at any moment. */
Test(nginx_h2, reloads_while_it_serves, .timeout = 120)
{
    struct world world = start("keepalive_timeout 1s;", false, "");
    char *output;

    int status = command_run(
        100, &output,
        "(for i in 1 2 3 4 5 6 7 8 9 10; do kill -HUP $(cat %s/nginx.pid); sleep 0.15; done) &\n"
        "h2load -D 2 -c 10 -m 10 https://127.0.0.1:%d/nginx/\n"
        "status=$?; wait; exit $status",
        nginx_dir(world.nginx), weir_port(world.weir, "edge"));
    cr_expect_eq(status, 0, "%s", output);
    expect_text(output, " 0 3xx, 0 4xx, 0 5xx");
    expect_text(output, " 0 failed, 0 errored, 0 timeout");
    free(output);
    cr_expect_gt(weir_metric(world.weir, OK_2XX), 100);
    stop(&world);
}
