/* One upstream, or several, and clients that ask for "/0", "/1", ...: what tests of pools share. */
#ifndef TEST_SUPPORT_POOL_ASKS_H
#define TEST_SUPPORT_POOL_ASKS_H

#include <stdio.h>
#include <string.h>

#include "support/proxy_rig.h"

static struct proxy_rig *rig;
static struct px_upstream *upstream;
static struct px_peer *clients[8];

static inline uint64_t idle(void)
{
    return wr_metric_get(&rig->cluster_metrics->upstream_idle);
}

static inline uint64_t active(void)
{
    return wr_metric_get(&rig->cluster_metrics->upstream_active);
}

static inline uint64_t pending(void)
{
    return wr_metric_get(&rig->cluster_metrics->upstream_pending);
}

/* Client I asks for "/I". */
static inline void ask(size_t i)
{
    char text[64];
    snprintf(text, sizeof(text), "GET /%zu HTTP/1.1\r\nHost: a\r\n\r\n", i);
    if (clients[i] == NULL)
        clients[i] = px_client(rig, "");
    px_forget(clients[i]);
    px_say(clients[i], text);
}

static inline void expect_asked(struct px_peer *peer, size_t i)
{
    char text[64];
    snprintf(text, sizeof(text), "GET /%zu ", i);
    px_hear(peer, text);
    px_hear(peer, "\r\n\r\n");
    px_forget(peer);
}

static inline void answer(struct px_peer *peer, size_t i)
{
    px_say(peer, PX_OK);
    px_hear(clients[i], "200 OK");
}

static inline void start(void)
{
    upstream = px_upstream(rig);
    px_start(rig);
}

/* COUNT connections at once, then all idle, client I on connection I. */
static inline void fill_pool(size_t count)
{
    for (size_t i = 0; i < count; i++) {
        ask(i);
        expect_asked(px_accepted(upstream, i), i);
    }
    for (size_t i = 0; i < count; i++)
        answer(upstream->peers[i], i);
    px_settle(rig);
}

static inline unsigned ended_peers(void)
{
    unsigned ended = 0;
    for (size_t i = 0; i < upstream->count; i++)
        ended += upstream->peers[i]->ended ? 1u : 0u;
    return ended;
}

#endif
