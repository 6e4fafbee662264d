/* Addresses and blocks of addresses: text to binary and back. Sockets are in socket.c. */
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#include "io/socket.h"

#define UNIX_PREFIX WR_STR("unix:")

static const struct sockaddr_in *as_in(const struct wr_address *address)
{
    return (const struct sockaddr_in *)(const void *)&address->storage;
}

static const struct sockaddr_in6 *as_in6(const struct wr_address *address)
{
    return (const struct sockaddr_in6 *)(const void *)&address->storage;
}

/* S terminated in OUT, for the resolver's functions; false when it does not fit or could be cut short by a NUL. */
static bool terminate(struct wr_str s, char *out, size_t size)
{
    if (s.n >= size || memchr(s.p, '\0', s.n) != NULL)
        return false;
    memcpy(out, s.p, s.n);
    out[s.n] = '\0';
    return true;
}

/* ---- one address ---- */

static enum wr_err parse_unix(struct wr_str path, struct wr_address *out)
{
    struct sockaddr_un *un = (struct sockaddr_un *)(void *)&out->storage;
    if (path.n == 0 || !terminate(path, un->sun_path, sizeof un->sun_path))
        return WR_ERR_INVALID;
    un->sun_family = AF_UNIX;
    out->length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + path.n + 1);
    return WR_OK;
}

static enum wr_err parse_ip(struct wr_str host, bool brackets, uint16_t port,
                            struct wr_address *out)
{
    char text[INET6_ADDRSTRLEN];
    if (!terminate(host, text, sizeof text))
        return WR_ERR_INVALID;
    if (brackets) {
        struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)(void *)&out->storage;
        in6->sin6_family = AF_INET6;
        in6->sin6_port = htons(port);
        out->length = sizeof *in6;
        return inet_pton(AF_INET6, text, &in6->sin6_addr) == 1 ? WR_OK : WR_ERR_INVALID;
    }
    struct sockaddr_in *in = (struct sockaddr_in *)(void *)&out->storage;
    in->sin_family = AF_INET;
    in->sin_port = htons(port);
    out->length = sizeof *in;
    return inet_pton(AF_INET, text, &in->sin_addr) == 1 ? WR_OK : WR_ERR_INVALID;
}

enum wr_err wr_address_parse(struct wr_str text, struct wr_address *out)
{
    memset(out, 0, sizeof *out);
    if (wr_str_starts(text, UNIX_PREFIX))
        return parse_unix(wr_str(text.p + UNIX_PREFIX.n, text.n - UNIX_PREFIX.n), out);
    const char *colon = text.n > 0 ? memrchr(text.p, ':', text.n) : NULL;
    if (colon == NULL)
        return WR_ERR_INVALID;
    struct wr_str host = wr_str(text.p, (size_t)(colon - text.p));
    struct wr_str digits = wr_str(colon + 1, text.n - host.n - 1);
    uint64_t port;
    if (digits.n > 5 || !wr_str_parse_u63(digits, &port) || port > UINT16_MAX)
        return WR_ERR_INVALID;
    bool brackets = host.n >= 2 && host.p[0] == '[' && host.p[host.n - 1] == ']';
    if (brackets)
        host = wr_str(host.p + 1, host.n - 2);
    return parse_ip(host, brackets, (uint16_t)port, out);
}

enum wr_err wr_address_parse_host(struct wr_str text, struct wr_address *out)
{
    struct wr_str bare = text;
    if (text.n >= 2 && text.p[0] == '[' && text.p[text.n - 1] == ']')
        bare = wr_str(text.p + 1, text.n - 2);
    memset(out, 0, sizeof *out);
    if (bare.n == text.n && parse_ip(text, false, 0, out) == WR_OK)
        return WR_OK;
    memset(out, 0, sizeof *out);
    if (parse_ip(bare, true, 0, out) == WR_OK)
        return WR_OK;
    return wr_str_starts(text, UNIX_PREFIX) ? WR_ERR_INVALID : wr_address_parse(text, out);
}

enum wr_err wr_address_resolve(const char *host, uint16_t port, struct wr_address *out, size_t max,
                               size_t *count)
{
    *count = 0;
    char service[8];
    snprintf(service, sizeof service, "%u", (unsigned)port);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    int failed = getaddrinfo(host, service, &hints, &found);
    if (failed)
        return failed == EAI_MEMORY ? WR_ERR_NO_MEMORY : WR_ERR_RESOLVE_FAILED;
    for (struct addrinfo *info = found; info != NULL && *count < max; info = info->ai_next) {
        if (info->ai_family != AF_INET && info->ai_family != AF_INET6)
            continue;
        memset(&out[*count], 0, sizeof out[*count]);
        memcpy(&out[*count].storage, info->ai_addr, info->ai_addrlen);
        out[*count].length = info->ai_addrlen;
        (*count)++;
    }
    freeaddrinfo(found);
    return *count > 0 ? WR_OK : WR_ERR_RESOLVE_FAILED;
}

/* The path of a bound unix socket; empty for an unnamed one (every client) and for an abstract name. */
static struct wr_str unix_path(const struct wr_address *address)
{
    const struct sockaddr_un *un = (const struct sockaddr_un *)(const void *)&address->storage;
    size_t before = offsetof(struct sockaddr_un, sun_path);
    if (address->length <= before)
        return WR_STR_EMPTY;
    return wr_str(un->sun_path, strnlen(un->sun_path, address->length - before));
}

struct wr_str wr_address_text(const struct wr_address *address, bool host_only,
                              char out[WR_ADDRESS_TEXT])
{
    char host[INET6_ADDRSTRLEN] = "";
    int n = 0;
    out[0] = '\0';
    switch (address->storage.ss_family) {
    case AF_INET:
        inet_ntop(AF_INET, &as_in(address)->sin_addr, host, sizeof host);
        n = host_only ? snprintf(out, WR_ADDRESS_TEXT, "%s", host)
                      : snprintf(out, WR_ADDRESS_TEXT, "%s:%u", host, wr_address_port(address));
        break;
    case AF_INET6:
        inet_ntop(AF_INET6, &as_in6(address)->sin6_addr, host, sizeof host);
        n = host_only ? snprintf(out, WR_ADDRESS_TEXT, "%s", host)
                      : snprintf(out, WR_ADDRESS_TEXT, "[%s]:%u", host, wr_address_port(address));
        break;
    case AF_UNIX: {
        struct wr_str path = host_only ? WR_STR_EMPTY : unix_path(address);
        n = snprintf(out, WR_ADDRESS_TEXT, "unix:%.*s", WR_STR_ARG(path));
        break;
    }
    default:
        break;
    }
    return wr_str(out, n > 0 ? (size_t)n : 0);
}

uint16_t wr_address_port(const struct wr_address *address)
{
    switch (address->storage.ss_family) {
    case AF_INET:
        return ntohs(as_in(address)->sin_port);
    case AF_INET6:
        return ntohs(as_in6(address)->sin6_port);
    default:
        return 0;
    }
}

/* The bytes of an IP address, an IPv4-mapped one as IPv4 (RFC 4291 section 2.5.5.2); AF_UNSPEC for others. */
static sa_family_t ip_bytes(const struct wr_address *address, const uint8_t **bytes)
{
    if (address->storage.ss_family == AF_INET) {
        *bytes = (const uint8_t *)&as_in(address)->sin_addr;
        return AF_INET;
    }
    if (address->storage.ss_family != AF_INET6) {
        *bytes = NULL;
        return AF_UNSPEC;
    }
    const struct in6_addr *in6 = &as_in6(address)->sin6_addr;
    bool mapped = IN6_IS_ADDR_V4MAPPED(in6);
    *bytes = mapped ? in6->s6_addr + 12 : in6->s6_addr;
    return mapped ? AF_INET : AF_INET6;
}

bool wr_address_is_loopback(const struct wr_address *address)
{
    const uint8_t *bytes;
    switch (ip_bytes(address, &bytes)) {
    case AF_INET:
        return bytes[0] == 127;
    case AF_INET6:
        return IN6_IS_ADDR_LOOPBACK(&as_in6(address)->sin6_addr);
    default:
        return address->storage.ss_family == AF_UNIX;
    }
}

/* The leading BITS of the N bytes at BYTES, at most 8. */
static uint64_t leading(const uint8_t *bytes, size_t n, unsigned bits)
{
    uint64_t word = 0;
    for (size_t i = 0; i < n; i++)
        word = word << 8 | bytes[i];
    return word >> (8 * n - bits);
}

/* An IPv4 network is a word of its own: what an IPv6 network might say by the same word is none of the Internet's. */
uint64_t wr_address_network(const struct wr_address *address, unsigned ipv4_bits,
                            unsigned ipv6_bits)
{
    const uint8_t *bytes;
    switch (ip_bytes(address, &bytes)) {
    case AF_INET:
        return UINT64_C(1) << 32 | leading(bytes, 4, ipv4_bits);
    case AF_INET6:
        return leading(bytes, 8, ipv6_bits) << (64 - ipv6_bits);
    default:
        return 0;
    }
}

/* ---- blocks ---- */

/* The first BITS bits of A and B. */
static bool same_bits(const uint8_t *a, const uint8_t *b, unsigned bits)
{
    size_t whole = bits / 8;
    unsigned rest = bits % 8;
    if (memcmp(a, b, whole) != 0)
        return false;
    return rest == 0 || (a[whole] ^ b[whole]) >> (8 - rest) == 0;
}

enum wr_err wr_cidr_parse(struct wr_str text, struct wr_cidr *out)
{
    memset(out, 0, sizeof *out);
    const char *slash = text.n > 0 ? memchr(text.p, '/', text.n) : NULL;
    struct wr_str host = slash != NULL ? wr_str(text.p, (size_t)(slash - text.p)) : text;
    char terminated[INET6_ADDRSTRLEN];
    if (!terminate(host, terminated, sizeof terminated))
        return WR_ERR_INVALID;
    uint64_t most;
    if (inet_pton(AF_INET, terminated, out->bytes) == 1) {
        out->family = AF_INET;
        most = 32;
    } else if (inet_pton(AF_INET6, terminated, out->bytes) == 1) {
        out->family = AF_INET6;
        most = 128;
    } else {
        return WR_ERR_INVALID;
    }
    uint64_t bits = most;
    if (slash != NULL) {
        struct wr_str digits = wr_str(slash + 1, text.n - host.n - 1);
        if (digits.n > 3 || !wr_str_parse_u63(digits, &bits) || bits > most)
            return WR_ERR_INVALID;
    }
    out->bits = (uint8_t)bits;
    /* A block of mapped addresses is one of IPv4, as its addresses are looked up as such. */
    const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    if (out->family == AF_INET6 && bits >= 96 && same_bits(out->bytes, mapped, 96)) {
        out->family = AF_INET;
        out->bits = (uint8_t)(bits - 96);
        memmove(out->bytes, out->bytes + 12, 4);
        memset(out->bytes + 4, 0, 12);
    }
    return WR_OK;
}

bool wr_cidr_contains(const struct wr_cidr *cidr, const struct wr_address *address)
{
    const uint8_t *bytes;
    sa_family_t family = ip_bytes(address, &bytes);
    return family != AF_UNSPEC && family == cidr->family &&
           same_bits(bytes, cidr->bytes, cidr->bits);
}

bool wr_cidr_list_contains(const struct wr_cidr *list, size_t count,
                           const struct wr_address *address)
{
    for (size_t i = 0; i < count; i++) {
        if (wr_cidr_contains(&list[i], address))
            return true;
    }
    return false;
}

/* ---- in little ---- */

struct wr_peer wr_address_pack(const struct wr_address *address)
{
    struct wr_peer peer = {.family = address->storage.ss_family};
    if (peer.family == AF_INET) {
        struct sockaddr_in in;
        memcpy(&in, &address->storage, sizeof(in));
        memcpy(peer.bytes, &in.sin_addr, sizeof(in.sin_addr));
        peer.port = in.sin_port;
    } else if (peer.family == AF_INET6) {
        struct sockaddr_in6 in6;
        memcpy(&in6, &address->storage, sizeof(in6));
        memcpy(peer.bytes, &in6.sin6_addr, sizeof(in6.sin6_addr));
        peer.port = in6.sin6_port;
        peer.scope = in6.sin6_scope_id;
    }
    return peer;
}

void wr_address_unpack(const struct wr_peer *peer, struct wr_address *out)
{
    *out = (struct wr_address){.length = sizeof(sa_family_t)};
    out->storage.ss_family = peer->family;
    if (peer->family == AF_INET) {
        struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = peer->port};
        memcpy(&in.sin_addr, peer->bytes, sizeof(in.sin_addr));
        memcpy(&out->storage, &in, sizeof(in));
        out->length = sizeof(in);
    } else if (peer->family == AF_INET6) {
        struct sockaddr_in6 in6 = {
            .sin6_family = AF_INET6, .sin6_port = peer->port, .sin6_scope_id = peer->scope};
        memcpy(&in6.sin6_addr, peer->bytes, sizeof(in6.sin6_addr));
        memcpy(&out->storage, &in6, sizeof(in6));
        out->length = sizeof(in6);
    }
}
