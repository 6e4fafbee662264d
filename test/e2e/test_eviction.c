/* `memory_limit` and `evict_idle_after`: over both versions idle connections are told and end, and none is lost from the count. */
#include <criterion/criterion.h>
#include <string.h>

#include "support/peer.h"
#include "support/weir.h"

#define COUNT 4
#define WAIT_MS (30000 * weir_slowness())
#define GOAWAY 7
#define FRAME_HEAD 9

static struct weir *start(const char *memory_limit)
{
    return weir_start("workers: 1\n"
                      "admin: 127.0.0.1:0\n"
                      "memory_limit: %s\n"
                      "listeners:\n"
                      "  - name: edge\n"
                      "    bind: 127.0.0.1:0\n"
                      "    tls: {certificates: [{chain: cert.pem, key: key.pem}]}\n"
                      "    limits: {evict_idle_after: 100ms}\n"
                      "    routes: [{respond: {body: hello}}]\n",
                      memory_limit);
}

static struct peer *come(const struct weir *weir, const char *alpn)
{
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";
    struct peer *peer = peer_connect_tls(weir_port(weir, "edge"), &(struct peer_tls){.alpn = alpn});
    cr_assert_not_null(peer);
    peer_set_wait(peer, WAIT_MS);
    if (alpn != NULL)
        cr_assert(peer_write(peer, preface, sizeof(preface) - 1));
    return peer;
}

/* All there is to read until the end, which is a clean one; returns how many bytes. */
static size_t read_all(struct peer *peer, char *bytes, size_t room)
{
    enum peer_end end = PEER_WAITED;
    size_t n = 0;
    size_t got;
    while ((got = peer_read(peer, bytes + n, room - n, &end)) > 0)
        n += got;
    cr_assert_eq(end, PEER_EOF, "ended with %d", end);
    return n;
}

static bool has_goaway(const char *bytes, size_t n)
{
    for (size_t at = 0; at + FRAME_HEAD <= n;) {
        const unsigned char *head = (const unsigned char *)bytes + at;
        if (head[3] == GOAWAY)
            return true;
        at += FRAME_HEAD + ((size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2]);
    }
    return false;
}

Test(eviction, idle_ones_go_when_memory_is_short)
{
    struct weir *weir = start("1MiB");
    struct peer *peers[2 * COUNT];
    char bytes[4096];

    for (int i = 0; i < 2 * COUNT; i++)
        peers[i] = come(weir, i % 2 == 0 ? NULL : "\x02h2");
    for (int i = 0; i < 2 * COUNT; i++) {
        size_t n = read_all(peers[i], bytes, sizeof(bytes));
        cr_expect(i % 2 == 0 ? n == 0 : has_goaway(bytes, n), "%d: %zu bytes", i, n);
        peer_free(peers[i]);
    }
    cr_expect(weir_metric_becomes(
        weir, "weir_connections_evicted_total{listener=\"edge\",reason=\"memory\"}", 2 * COUNT,
        WAIT_MS));
    cr_expect(weir_metric_becomes(
        weir, "weir_connections_ended_total{listener=\"edge\",reason=\"evicted\"}", 2 * COUNT,
        WAIT_MS));
    weir_stop(weir);
}

Test(eviction, they_stay_when_it_is_not)
{
    struct weir *weir = start("64GiB");
    struct peer *peer = come(weir, NULL);
    char byte;
    enum peer_end end;

    peer_set_wait(peer, 2500);
    cr_expect_eq(peer_read(peer, &byte, 1, &end), 0);
    cr_expect_eq(end, PEER_WAITED);
    cr_expect_eq(
        weir_metric(weir, "weir_connections_evicted_total{listener=\"edge\",reason=\"memory\"}"),
        0);
    peer_free(peer);
    weir_stop(weir);
}
