#include "proxy/meter.h"

#include <stdlib.h>

#include "base/mem.h"
#include "base/siphash.h"

/* Keys that routes of one listener have room for in a worker, all together: 16 MiB. When they are so many that each gets less than it
 * would alone, it gets an equal part, but never less than some. */
#define KEYS_IN_ALL (64u * WR_RATE_KEYS)
#define KEYS_LEAST 128u

/* One route's. */
struct account {
    struct wr_bucket all;         /* of WR_RATE_ROUTE */
    struct wr_rate_table *by_key; /* of the others */
};

struct wr_meter {
    const struct wr_proxy_options *options;
    const struct wr_forward *forward;
    struct account accounts[]; /* by index of route */
};

static bool is_keyed(const struct wr_route_rate *rate)
{
    return rate->rate.per_second > 0 && rate->key != WR_RATE_ROUTE;
}

uint32_t wr_meter_keys(const struct wr_route_table *routes)
{
    size_t keyed = 0;
    for (size_t i = 0; i < routes->count; i++)
        keyed += is_keyed(&routes->routes[i].rate);
    size_t part = keyed > 0 ? KEYS_IN_ALL / keyed : KEYS_IN_ALL;
    if (part > WR_RATE_KEYS)
        return WR_RATE_KEYS;
    return part > KEYS_LEAST ? (uint32_t)part : KEYS_LEAST;
}

struct wr_meter *wr_meter_new(const struct wr_proxy_options *options,
                              const struct wr_forward *forward)
{
    size_t count = options->routes.count;
    struct wr_meter *meter = wr_new_zero(1, sizeof(*meter) + count * sizeof(meter->accounts[0]));
    uint32_t keys = wr_meter_keys(&options->routes);
    meter->options = options;
    meter->forward = forward;
    for (size_t i = 0; i < count; i++) {
        const struct wr_route_rate *rate = &options->routes.routes[i].rate;
        if (is_keyed(rate))
            meter->accounts[i].by_key = wr_rate_table_new(&rate->rate, keys, options->seed);
    }
    return meter;
}

void wr_meter_free(struct wr_meter *meter)
{
    if (meter == NULL)
        return;
    for (size_t i = 0; i < meter->options->routes.count; i++)
        wr_rate_table_free(meter->accounts[i].by_key);
    free(meter);
}

static uint64_t client_key(const struct wr_meter *meter, const struct wr_exchange *exchange)
{
    struct wr_address client;
    wr_forward_client(meter->forward, exchange, &client);
    return wr_address_network(&client, meter->options->source_bits_ipv4,
                              meter->options->source_bits_ipv6);
}

/* Of several fields the first counts: who could choose among them could choose its value as well. */
static uint64_t header_key(const struct wr_meter *meter, const struct wr_exchange *exchange,
                           struct wr_str name)
{
    const struct wr_field *field = wr_fields_find_name(&exchange->request.head->fields, name);
    struct wr_siphash_key key = {meter->options->seed, ~meter->options->seed};
    return field != NULL ? wr_siphash(field->value, key) : 0;
}

/* Whole seconds, after which there is a token. */
static uint32_t seconds_of(uint64_t wait)
{
    uint64_t seconds = wait / WR_SEC + (wait % WR_SEC != 0);
    return seconds == 0 ? 1 : seconds > UINT32_MAX ? UINT32_MAX : (uint32_t)seconds;
}

bool wr_meter_take(struct wr_meter *meter, const struct wr_route *route,
                   const struct wr_exchange *exchange, uint64_t now, uint32_t *retry_after)
{
    const struct wr_route_rate *rate = &route->rate;
    struct account *account = &meter->accounts[route - meter->options->routes.routes];
    if (rate->rate.per_second == 0)
        return true;
    if (rate->key == WR_RATE_ROUTE) {
        *retry_after = seconds_of(wr_bucket_wait(&account->all, &rate->rate, now));
        return wr_bucket_take(&account->all, &rate->rate, now);
    }
    uint64_t key = rate->key == WR_RATE_CLIENT ? client_key(meter, exchange)
                                               : header_key(meter, exchange, rate->header);
    *retry_after = seconds_of(wr_rate_table_wait(account->by_key, key, now));
    return wr_rate_table_take(account->by_key, key, now);
}
