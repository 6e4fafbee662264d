#include "server/requests_signs.h"

#include "base/time.h"

/* With fewer in a window nothing is said about how long they take. */
#define ENOUGH 10

/* ---- the configuration ---- */

bool wr_requests_is_adaptive(const struct wr_requests_view *view)
{
    return view->options->mode == WR_REQUESTS_ADAPTIVE;
}

bool wr_requests_is_fixed(const struct wr_requests_view *view)
{
    return !wr_requests_is_adaptive(view);
}

bool wr_requests_has_ceiling(const struct wr_requests_view *view)
{
    return wr_requests_is_adaptive(view) && view->options->max > 0;
}

bool wr_requests_keeps_shares(const struct wr_requests_view *view)
{
    return view->options->share[WR_PRIORITY_NORMAL] < 100;
}

/* ---- just now ---- */

bool wr_requests_is_full(const struct wr_requests_view *view)
{
    return view->now.full > 0;
}

bool wr_requests_is_at_ceiling(const struct wr_requests_view *view)
{
    return wr_requests_has_ceiling(view) &&
           view->now.limit >= (uint64_t)view->options->max * view->workers;
}

/* In flight in the mean are as many as come a second times how long they stay. Whether what is so just now is the mean is not
 * known; near the limit it is not far from it, for there cannot be more. */
uint64_t wr_requests_held(const struct wr_requests_view *view)
{
    bool busy = view->now.limit > 0 && view->now.in_flight * 2 >= view->now.limit;
    if (!busy || view->last.admitted < ENOUGH)
        return 0;
    return view->now.in_flight * view->last.usec / view->last.admitted;
}

uint64_t wr_requests_needed(const struct wr_requests_view *view)
{
    uint64_t refused = wr_requests_counts_refused(&view->last) - view->last.rate_limited;
    uint64_t wanted = view->last.admitted + refused;
    uint64_t held = wr_requests_held(view);
    return held > 0 ? wanted * held / view->last.usec / view->workers : 0;
}

bool wr_requests_needed_is_known(const struct wr_requests_view *view)
{
    return wr_requests_needed(view) > 0;
}

bool wr_requests_more_would_do(const struct wr_requests_view *view)
{
    return wr_requests_is_fixed(view) && wr_requests_needed(view) > view->options->max;
}

/* ---- rates of routes ---- */

struct wr_requests_rates wr_requests_rates(const struct wr_requests_view *view)
{
    struct wr_requests_rates rates = {.least = WR_NEVER};
    size_t count = view->routes != NULL ? view->routes->count : 0;
    for (size_t i = 0; i < count; i++) {
        const struct wr_route_rate *rate = &view->routes->routes[i].rate;
        uint64_t per_second = rate->rate.per_second;
        if (per_second == 0)
            continue;
        rates.routes++;
        rates.shared += rate->key == WR_RATE_ROUTE;
        rates.least = per_second < rates.least ? per_second : rates.least;
        rates.most = per_second > rates.most ? per_second : rates.most;
    }
    return rates;
}

bool wr_requests_rates_are_shared(const struct wr_requests_view *view)
{
    return wr_requests_rates(view).shared > 0;
}
