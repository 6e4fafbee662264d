#include "support/h2_upstream.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/edge.h"
#include "support/origin.h"

#define WAIT_MS 5000
#define CONTENT "content"

struct upstream_world upstream_start(const struct h2_origin_rules *rules, const char *cluster)
{
    struct upstream_world world = {.origin = h2_origin_new(rules)};
    char options[512];

    (void)snprintf(options, sizeof(options), "protocol: http2, retry: {budget: 100%%}%s%s",
                   cluster ? ", " : "", cluster ? cluster : "");
    world.stage = stage_start(
        &(struct stage_options){.cluster = options, .serve = h2_origin_serve, .arg = world.origin});
    world.client = h2_peer_open(world.stage->plain, false, NULL);
    return world;
}

static void expect_none(const struct weir *weir, const char *sample)
{
    cr_expect(weir_metric_becomes(weir, sample, 0, edge_ms(WAIT_MS)), "%s is %g", sample,
              weir_metric(weir, sample));
}

/* The sum of all samples that begin with PREFIX, as soon as it is VALUE. */
static double sum_becomes(const struct weir *weir, const char *prefix, double value)
{
    long end = edge_now_ms() + edge_ms(WAIT_MS);
    double sum;

    do {
        char *text = weir_admin_get(weir, "/metrics");
        sum = edge_sum(text, prefix);
        free(text);
        if (sum != value)
            edge_nap(20);
    } while (sum != value && edge_now_ms() < end);
    return sum;
}

void upstream_stop(struct upstream_world *world, unsigned failed)
{
    const struct weir *weir = world->stage->weir;

    cr_expect(h2_peer_settles(world->client), "%s", h2_peer_log(world->client));
    expect_none(weir, "weir_requests_active");
    expect_none(weir, "weir_upstream_connections_active{cluster=\"origin\"}");
    expect_none(weir, "weir_upstream_requests_pending{cluster=\"origin\"}");
    expect_none(weir, "weir_buffer_bytes");
    cr_expect_eq(sum_becomes(weir, "weir_requests_total{listener=\"plain\"", world->asked),
                 (double)world->asked);
    cr_expect_eq(sum_becomes(weir, "weir_requests_failed_total{listener=\"plain\"", failed),
                 (double)failed, "%g failed, not %u",
                 sum_becomes(weir, "weir_requests_failed_total{listener=\"plain\"", failed),
                 failed);
    h2_origin_expect_once(world->origin);
    h2_peer_free(world->client);
    stage_stop(world->stage);
    h2_origin_free(world->origin);
}

void upstream_ask(struct upstream_world *world, unsigned count, const char *method)
{
    struct h2_peer *client = world->client;
    bool get = strcmp(method, "GET") == 0;
    char path[32];

    for (unsigned i = 0; i < count; i++) {
        uint32_t id = 2 * ++world->asked - 1;
        (void)snprintf(path, sizeof(path), "/%u", world->asked);
        h2_peer_ask(client, id, get ? H2_END_STREAM : 0, method, path, "");
        if (!get)
            h2_put_data(&client->out, id, H2_END_STREAM, CONTENT);
    }
    h2_peer_send(client);
}

void upstream_warm(struct upstream_world *world)
{
    upstream_ask(world, 1, "GET");
    upstream_expect(world, world->asked, 200);
}

void upstream_expect(struct upstream_world *world, unsigned number, int status)
{
    char head[48];
    char end[48];

    (void)snprintf(head, sizeof(head), "HEADERS/%u[:status=%d;", 2 * number - 1, status);
    (void)snprintf(end, sizeof(end), "DATA/%u+ES[", 2 * number - 1);
    cr_expect(h2_peer_hears(world->client, end), "%u: no end in %s", number,
              h2_peer_log(world->client));
    cr_expect(strstr(h2_peer_log(world->client), head), "%u: no %d in %s", number, status,
              h2_peer_log(world->client));
}

void upstream_expect_all(struct upstream_world *world, unsigned from, unsigned to, int status)
{
    for (unsigned i = from; i <= to; i++)
        upstream_expect(world, i, status);
}

void upstream_expect_cut(struct upstream_world *world, unsigned number)
{
    char reset[48];
    char end[48];

    (void)snprintf(reset, sizeof(reset), "RST/%u[2] ", 2 * number - 1);
    (void)snprintf(end, sizeof(end), "/%u+ES[", 2 * number - 1);
    cr_expect(h2_peer_hears(world->client, reset), "%u: %s", number, h2_peer_log(world->client));
    cr_expect_null(strstr(h2_peer_log(world->client), end), "%u: %s", number,
                   h2_peer_log(world->client));
}

void upstream_expect_metric(const struct upstream_world *world, const char *name, double value)
{
    const struct weir *weir = world->stage->weir;
    char sample[128];

    (void)snprintf(sample, sizeof(sample), "weir_upstream_%s{cluster=\"origin\"}", name);
    cr_expect(weir_metric_becomes(weir, sample, value, edge_ms(WAIT_MS)), "%s is %g, not %g",
              sample, weir_metric(weir, sample), value);
}

void upstream_expect_failed(const struct upstream_world *world, const char *reason, double value)
{
    const struct weir *weir = world->stage->weir;
    char sample[128];

    (void)snprintf(sample, sizeof(sample),
                   "weir_upstream_failed_total{cluster=\"origin\",reason=\"%s\"}", reason);
    cr_expect(weir_metric_becomes(weir, sample, value, edge_ms(WAIT_MS)), "%s is %g, not %g",
              sample, weir_metric(weir, sample), value);
}
