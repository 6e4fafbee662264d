/* What rates of routes may take of memory. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "proxy/meter.h"

static uint32_t keys_of(size_t keyed, size_t others)
{
    struct wr_route *routes = calloc(keyed + 2 * others, sizeof(*routes));
    for (size_t i = 0; i < keyed; i++)
        routes[i].rate = (struct wr_route_rate){
            .rate = {.per_second = 5, .burst = 5},
            .key = i % 2 == 0 ? WR_RATE_CLIENT : WR_RATE_HEADER,
        };
    for (size_t i = 0; i < others; i++)
        routes[keyed + i].rate = (struct wr_route_rate){.rate = {5, 5}, .key = WR_RATE_ROUTE};
    for (size_t i = 0; i < others; i++) /* no rate, whatever the key */
        routes[keyed + others + i].rate.key = WR_RATE_CLIENT;
    struct wr_route_table table = {.routes = routes, .count = keyed + 2 * others};
    uint32_t keys = wr_meter_keys(&table);
    free(routes);
    return keys;
}

Test(meter, a_few_routes_have_room_for_all_keys)
{
    cr_expect_eq(keys_of(0, 3), WR_RATE_KEYS);
    cr_expect_eq(keys_of(1, 0), WR_RATE_KEYS);
    cr_expect_eq(keys_of(64, 1000), WR_RATE_KEYS);
}

Test(meter, many_routes_share_what_there_is)
{
    cr_expect_eq(keys_of(128, 0), WR_RATE_KEYS / 2);
    for (size_t routes = 65; routes <= 8192; routes += 7)
        cr_expect_leq(routes * keys_of(routes, 5), 64 * WR_RATE_KEYS);
    cr_expect_eq(keys_of(100000, 0), 128, "some are left to each");
}
