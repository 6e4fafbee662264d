#include "downstream/access.h"

#include <arpa/inet.h>
#include <endian.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

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
    return (struct meter){.rate = all, .sources = wr_rate_table_new(by_source, seed)};
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

/* An IPv4 network as a word of its own: what an IPv6 network might say by the same word is none of the Internet's. */
static uint64_t ipv4_key(const void *address, unsigned bits)
{
    uint32_t word;
    memcpy(&word, address, sizeof(word));
    return UINT64_C(1) << 32 | (ntohl(word) >> (32 - bits));
}

static uint64_t ipv6_key(const void *address, unsigned bits)
{
    uint64_t word;
    memcpy(&word, address, sizeof(word));
    return be64toh(word) >> (64 - bits) << (64 - bits);
}

static uint64_t key_of(const struct wr_access_options *options, const struct wr_address *peer)
{
    if (peer->storage.ss_family == AF_INET) {
        const struct sockaddr_in *v4 = (const void *)&peer->storage;
        return ipv4_key(&v4->sin_addr, options->source_bits_ipv4);
    }
    if (peer->storage.ss_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const void *)&peer->storage;
        return IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)
                   ? ipv4_key(&v6->sin6_addr.s6_addr[12], options->source_bits_ipv4)
                   : ipv6_key(&v6->sin6_addr, options->source_bits_ipv6);
    }
    return 0;
}

struct wr_admission_source wr_access_source(const struct wr_access *access,
                                            const struct wr_address *peer)
{
    const struct wr_access_options *options = access->options;
    return (struct wr_admission_source){
        .key = key_of(options, peer),
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
