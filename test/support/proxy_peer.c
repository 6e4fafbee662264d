#include "support/proxy_rig.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

/* ---- clients ---- */

static void client_exchange(void *owner, struct wr_exchange *exchange)
{
    const struct px_peer *client = owner;
    wr_proxy_start(client->rig->proxy, exchange);
    if (client->rig->started != NULL)
        client->rig->started(client->rig);
}

static void client_nothing(void *owner)
{
    (void)owner;
}

static const struct wr_transport_events no_events = {0};

/* What lingers is closed with the rig. */
static void client_done(void *owner, enum wr_err why)
{
    struct px_peer *client = owner;
    client->codec->ops->close(client->codec, why);
    client->codec = NULL;
    if (why == WR_OK) {
        wr_transport_set_events(client->server_transport, &no_events, client);
        return;
    }
    wr_transport_reset(client->server_transport);
    client->server_transport = NULL;
}

static const struct wr_server_codec_events client_events = {
    .exchange = client_exchange,
    .head_begun = client_nothing,
    .head_complete = client_nothing,
    .idle = client_nothing,
    .done = client_done,
};

void px_set_no_delay(int fd)
{
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

/* Two connected sockets: TCP, since a client may reset. */
static void make_pair(int fds[2])
{
    struct wr_address address;
    struct wr_listen_options options = {.backlog = 1};
    int listening;
    cr_assert_eq(wr_address_parse(WR_STR("127.0.0.9:0"), &address), WR_OK);
    cr_assert_eq(wr_socket_listen(&address, &options, &listening), WR_OK);
    address.length = sizeof(address.storage);
    cr_assert_eq(getsockname(listening, (struct sockaddr *)&address.storage, &address.length), 0);
    cr_assert_eq(wr_socket_connect(&address, &fds[0]), WR_OK);
    struct pollfd ready = {.fd = listening, .events = POLLIN};
    cr_assert_eq(poll(&ready, 1, 10000), 1);
    fds[1] = accept4(listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    cr_assert_geq(fds[1], 0);
    close(listening);
}

struct px_peer *px_client(struct proxy_rig *rig, const char *text)
{
    int fds[2];
    make_pair(fds);
    px_set_no_delay(fds[0]);
    cr_assert_lt(rig->client_count, PX_CONNECTIONS);
    struct px_peer *client = WR_NEW(struct px_peer);
    rig->clients[rig->client_count++] = client;
    client->rig = rig;
    client->fd = fds[0];
    struct wr_client_info *info = &client->info;
    info->listener = WR_STR("edge");
    cr_assert_eq(wr_address_parse(WR_STR("192.0.2.7:4711"), &info->address), WR_OK);
    snprintf(info->address_text, sizeof(info->address_text), "192.0.2.7:4711");
    info->address_slice = wr_str_from(info->address_text);
    info->host_slice = wr_str(info->address_text, 9);
    info->tls_version = "";
    cr_assert_eq(wr_transport_accept(rig->transports, fds[1], NULL,
                                     (struct wr_transport_counters){0}, &no_events, client,
                                     &client->server_transport),
                 WR_OK);
    client->codec = wr_h1_server_new(client->server_transport, &rig->codec_options, &rig->host,
                                     info, &client_events, client);
    px_say(client, text);
    return client;
}

/* ---- either side ---- */

struct px_peer *px_accepted(struct px_upstream *upstream, size_t index)
{
    PX_UNTIL(upstream->rig, upstream->count > index);
    return upstream->peers[index];
}

void px_say_bytes(struct px_peer *peer, const void *p, size_t n)
{
    if (peer->transport != NULL) {
        wr_transport_write(peer->transport, p, n);
        return;
    }
    size_t sent = 0;
    while (sent < n) {
        ssize_t m = send(peer->fd, (const char *)p + sent, n - sent, MSG_NOSIGNAL);
        if (m > 0) {
            sent += (size_t)m;
        } else if (errno == EAGAIN) {
            px_turn(peer->rig);
        } else {
            peer->reset = true;
            return;
        }
    }
}

void px_say(struct px_peer *peer, const char *text)
{
    px_say_bytes(peer, text, strlen(text));
}

bool px_heard(const struct px_peer *peer, const char *text)
{
    return strcasestr(peer->text, text) != NULL;
}

unsigned px_times_heard(const struct px_peer *peer, const char *text)
{
    unsigned times = 0;
    for (const char *at = peer->text; (at = strcasestr(at, text)) != NULL; at++)
        times++;
    return times;
}

void px_hear(struct px_peer *peer, const char *text)
{
    uint64_t end = wr_time_monotonic() + 10 * WR_SEC;
    while (!px_heard(peer, text) && wr_time_monotonic() < end)
        px_turn(peer->rig);
    cr_assert(px_heard(peer, text), "%s has not come, but:\n%s", text, peer->text);
}

void px_forget(struct px_peer *peer)
{
    memset(peer->text, 0, sizeof(peer->text));
    peer->n = 0;
}

void px_close(struct px_peer *peer)
{
    wr_transport_close(peer->transport);
    peer->transport = NULL;
    if (peer->fd >= 0)
        close(peer->fd);
    peer->fd = -1;
}

void px_reset(struct px_peer *peer)
{
    if (peer->transport != NULL)
        wr_transport_reset(peer->transport);
    else
        wr_socket_reset(peer->fd);
    peer->transport = NULL;
    peer->fd = -1;
}

void px_finish(struct px_peer *peer)
{
    if (peer->transport != NULL)
        wr_transport_end(peer->transport);
    else
        shutdown(peer->fd, SHUT_WR);
}

void px_exchange(struct px_peer *client, struct px_upstream *upstream, size_t connection)
{
    px_forget(client);
    px_say(client, PX_GET);
    struct px_peer *peer = px_accepted(upstream, connection);
    px_hear(peer, "\r\n\r\n");
    px_forget(peer);
    px_say(peer, PX_OK);
    px_hear(client, "\r\n\r\nok");
    px_settle(client->rig);
    px_forget(client);
}
