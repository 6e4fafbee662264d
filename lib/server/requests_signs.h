/* What can be concluded from the facts of request admission, each a question with a yes or no, or a number. Pure. What the numbers do not
 * support is a no, and 0. */
#ifndef WR_SERVER_REQUESTS_SIGNS_H
#define WR_SERVER_REQUESTS_SIGNS_H

#include "server/requests_watch.h"

/* ---- the configuration ---- */

bool wr_requests_is_fixed(const struct wr_requests_view *view);
bool wr_requests_is_adaptive(const struct wr_requests_view *view);
bool wr_requests_has_ceiling(const struct wr_requests_view *view); /* adaptive, and a max */
bool wr_requests_keeps_shares(
    const struct wr_requests_view *view); /* for critical and normal requests */

/* ---- just now ---- */

bool wr_requests_is_full(const struct wr_requests_view *view); /* in one worker at least */
/* The limit that follows the latency is at its ceiling. */
bool wr_requests_is_at_ceiling(const struct wr_requests_view *view);
/* How long one holds its place, by Little's law; 0: too few hold one, or have come. */
uint64_t wr_requests_held(const struct wr_requests_view *view);
/* By the same law: so many places a worker would be in use if all were let in that are asked for; 0: not known. */
uint64_t wr_requests_needed(const struct wr_requests_view *view);
bool wr_requests_needed_is_known(const struct wr_requests_view *view);
/* Known, and a fixed limit is below it. */
bool wr_requests_more_would_do(const struct wr_requests_view *view);

/* ---- rates of routes ---- */

struct wr_requests_rates {
    size_t routes; /* that have one */
    size_t shared; /* of these: one for all clients together */
    uint64_t least;
    uint64_t most; /* a second and worker */
};
struct wr_requests_rates wr_requests_rates(const struct wr_requests_view *view);
bool wr_requests_rates_are_shared(const struct wr_requests_view *view); /* one at least */

#endif
