#include "support/storm.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/edge.h"

static bool ask(struct peer *peer, const char *request)
{
    struct reply reply = {0};
    bool fine = peer_say(peer, request);

    if (fine) {
        reply = peer_reply(peer, false);
        fine = reply.status == 200 && reply.whole && strcmp(reply.body, "hello") == 0;
        reply_free(&reply);
    }
    return fine;
}

static void be_good(struct storm *storm, enum storm_kind kind)
{
    struct peer_tls tls = {.session = storm->session};
    struct peer *peer = peer_connect_tls(storm->port, &tls);
    bool fine = peer != NULL;

    if (fine && kind == GOOD_CLOSE)
        fine = ask(peer, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n") &&
               peer_wait_end(peer) == PEER_EOF;
    else if (fine)
        fine = ask(peer, "GET / HTTP/1.1\r\nHost: x\r\n\r\n") &&
               ask(peer, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    if (fine)
        atomic_fetch_add(&storm->served, 1);
    peer_free(peer);
}

static void abort_later(struct storm *storm)
{
    struct peer *peer = peer_connect_tls(storm->port, NULL);

    if (!peer)
        return;
    (void)peer_say(peer, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    peer_reset(peer);
    peer_free(peer);
}

static void be_bad(struct storm *storm, enum storm_kind kind, unsigned index)
{
    int fd = flood_connect(storm->port, index);

    if (fd < 0)
        return;
    if (kind == HALF)
        (void)flood_send(fd, storm->hello, 1 + index % (storm->hello_n - 1));
    if (kind == ABORT_HELLO)
        (void)flood_send(fd, storm->hello, storm->hello_n);
    if (kind == JUNK)
        (void)flood_send(fd, "junk", 4);
    if (kind == JUNK || index % 3)
        edge_nap((int)(index % 7));
    if (kind == ABORT_HELLO || (kind == SILENT && index % 2))
        flood_reset(fd);
    else
        (void)close(fd);
}

static void *run(void *arg)
{
    struct storm *storm = arg;
    unsigned index;

    while ((index = atomic_fetch_add(&storm->next, 1)) < storm->total) {
        /* All kinds in an order that is not the same for neighbours. */
        enum storm_kind kind = (enum storm_kind)((index * 2654435761u >> 16) % storm->kinds);
        atomic_fetch_add(&storm->came[kind], 1);
        if (kind == GOOD_CLOSE || kind == GOOD_KEEP)
            be_good(storm, kind);
        else if (kind == ABORT_LATER)
            abort_later(storm);
        else
            be_bad(storm, kind, index);
    }
    return NULL;
}

struct storm *storm_begin(const struct weir *weir, unsigned total, unsigned kinds,
                          struct ssl_session_st *session)
{
    struct storm *storm = calloc(1, sizeof(*storm));

    storm->port = weir_port(weir, "edge");
    storm->total = total;
    storm->kinds = kinds;
    storm->session = session;
    storm->hello_n = flood_hello(storm->hello, NULL);
    for (int i = 0; i < STORM_THREADS; i++)
        cr_assert_eq(pthread_create(&storm->threads[i], NULL, run, storm), 0);
    return storm;
}

void storm_wait_for(struct storm *storm, unsigned count)
{
    while (atomic_load(&storm->next) < count)
        edge_nap(1);
}

void storm_cut(struct storm *storm)
{
    atomic_store(&storm->next, storm->total);
}

void storm_end(struct storm *storm)
{
    for (int i = 0; i < STORM_THREADS; i++)
        (void)pthread_join(storm->threads[i], NULL);
}

void storm_free(struct storm *storm)
{
    free(storm);
}

unsigned storm_came(const struct storm *storm, enum storm_kind kind)
{
    return atomic_load(&storm->came[kind]);
}

unsigned storm_good(const struct storm *storm)
{
    return storm_came(storm, GOOD_CLOSE) + storm_came(storm, GOOD_KEEP);
}
