#include "downstream/access.h"

#include <stdlib.h>

#include "base/mem.h"

/* One kind of event: as a whole, and by source. */
struct meter {
    const struct wr_rate *rate;
    struct wr_bucket all;
    struct wr_rate_table *sources;
};

struct wr_access {
    const struct wr_access_options *options;
    struct meter connections;
    struct meter handshakes;
};

static struct meter meter_of(const struct wr_rate *all, const struct wr_rate *by_source,
                             uint64_t seed)
{
    return (struct meter){.rate = all, .sources = wr_rate_table_new(by_source, WR_RATE_KEYS, seed)};
}

struct wr_access *wr_access_new(const struct wr_access_options *options)
{
    struct wr_access *access = WR_NEW(struct wr_access);
    access->options = options;
    access->connections =
        meter_of(&options->connections, &options->connections_per_source, options->seed);
    access->handshakes =
        meter_of(&options->handshakes, &options->handshakes_per_source, options->seed);
    return access;
}

void wr_access_free(struct wr_access *access)
{
    if (access == NULL)
        return;
    wr_rate_table_free(access->connections.sources);
    wr_rate_table_free(access->handshakes.sources);
    free(access);
}

/* ---- sources ---- */

struct wr_admission_source wr_access_source(const struct wr_access *access,
                                            const struct wr_address *peer)
{
    const struct wr_access_options *options = access->options;
    return (struct wr_admission_source){
        .key = wr_address_network(peer, options->source_bits_ipv4, options->source_bits_ipv6),
        .trusted = wr_cidr_list_contains(options->trusted, options->trusted_count, peer),
    };
}

/* ---- who, and how often ---- */

/* The source first: what it may not have it does not take from all. */
static bool pass(struct meter *meter, const struct wr_admission_source *source, uint64_t now)
{
    return source->trusted || (wr_rate_table_take(meter->sources, source->key, now) &&
                               wr_bucket_take(&meter->all, meter->rate, now));
}

static bool is_denied(const struct wr_access_options *options, const struct wr_address *peer)
{
    return wr_cidr_list_contains(options->deny, options->deny_count, peer) ||
           (options->allow_count > 0 &&
            !wr_cidr_list_contains(options->allow, options->allow_count, peer));
}

bool wr_access_connection(struct wr_access *access, const struct wr_address *peer,
                          const struct wr_admission_source *source, uint64_t now,
                          enum wr_refusal *reason)
{
    *reason = WR_REFUSAL_DENIED;
    if (is_denied(access->options, peer))
        return false;
    *reason = WR_REFUSAL_RATE_LIMITED;
    return pass(&access->connections, source, now);
}

bool wr_access_handshake(struct wr_access *access, const struct wr_admission_source *source,
                         uint64_t now)
{
    return pass(&access->handshakes, source, now);
}
