/* A proxy between raw clients and scripted upstreams, all on one loop with a simulated clock: real codecs, real sockets, real
 * TLS. The test takes turns (PX_UNTIL) and says what each side does when. */
#ifndef TEST_SUPPORT_PROXY_RIG_H
#define TEST_SUPPORT_PROXY_RIG_H

#include <criterion/criterion.h>

#include "codec/h1_server.h"
#include "proxy/proxy.h"
#include "transport/transport.h"
#include "upstream/cluster.h"

#define PX_UPSTREAMS 4
#define PX_CONNECTIONS 256
#define PX_TEXT 65536

struct proxy_rig;

/* A connection as its far end sees it. */
struct px_peer {
    struct proxy_rig *rig;
    int fd;                         /* a raw socket, or -1 */
    struct wr_transport *transport; /* TLS, or NULL */
    char text[PX_TEXT];             /* the first of what came; terminated */
    size_t n;                       /* bytes that came, in all */
    bool stalled;                   /* does not read */
    bool ended;                     /* FIN came */
    bool reset;                     /* RST came */

    /* of a client: the proxy's end */
    struct wr_transport *server_transport;
    struct wr_server_codec *codec;
    struct wr_client_info info;
};

/* A listening socket; what is accepted is in `peers`, in order. */
struct px_upstream {
    struct proxy_rig *rig;
    int fd;
    bool tls; /* speaks TLS; false: raw bytes */
    char text[WR_ADDRESS_TEXT];
    struct px_peer *peers[PX_CONNECTIONS];
    size_t count;
};

struct proxy_rig {
    struct wr_loop *loop;
    uint64_t wait; /* most a turn waits for something to happen, microseconds */
    struct wr_transport_host *transports;
    struct wr_metrics_registry *registry;
    struct wr_cluster_metrics *cluster_metrics;
    struct wr_exchange_host host;
    char dir[64]; /* of the certificate; "" = none yet */
    struct wr_tls_server *tls_server;
    struct wr_tls_client *tls_client;

    struct px_upstream upstreams[PX_UPSTREAMS];
    struct wr_endpoint_options endpoints[PX_UPSTREAMS];
    struct wr_cluster_options cluster_options;
    struct wr_cluster *cluster;
    struct wr_cluster *clusters[1];
    struct wr_route routes[8];
    struct wr_proxy_options proxy_options;
    struct wr_server_codec_options codec_options;
    struct wr_proxy *proxy;
    void (*started)(
        struct proxy_rig
            *rig); /* called when a request was handed to the proxy, in the same turn; or NULL */
    struct px_peer *clients[PX_CONNECTIONS];
    size_t client_count;
};

/* One cluster "web" without endpoints, one route to it, generous limits: the test changes what it likes. */
struct proxy_rig *px_new(void);
/* An endpoint on 127.0.0.1+n with a scripted upstream. */
struct px_upstream *px_upstream(struct proxy_rig *rig);
/* An endpoint where nobody listens. */
void px_nobody(struct proxy_rig *rig);
/* The cluster speaks TLS to upstreams, which verify nothing. */
void px_use_tls(struct proxy_rig *rig, bool verify);
void px_start(struct proxy_rig *rig);
void px_end(struct proxy_rig *rig);

/* One turn, after which everything that came has been read. */
void px_turn(struct proxy_rig *rig);
/* Turns until nothing has happened for a few. */
void px_settle(struct proxy_rig *rig);
/* The clock goes on by USEC. */
void px_pass(struct proxy_rig *rig, uint64_t usec);

#define PX_UNTIL(rig, condition)                                         \
    do {                                                                 \
        uint64_t px_end_of_patience = wr_time_monotonic() + 10 * WR_SEC; \
        while (!(condition) && wr_time_monotonic() < px_end_of_patience) \
            px_turn(rig);                                                \
        cr_assert(condition, "waited in vain");                          \
    } while (0)

/* A client on a new connection, which says TEXT. */
struct px_peer *px_client(struct proxy_rig *rig, const char *text);
/* What a test says goes out at once. */
void px_set_no_delay(int fd);
/* Waits for connection number INDEX of the upstream. */
struct px_peer *px_accepted(struct px_upstream *upstream, size_t index);
void px_say(struct px_peer *peer, const char *text);
void px_say_bytes(struct px_peer *peer, const void *p, size_t n);
/* Waits until TEXT (any case) has come. */
void px_hear(struct px_peer *peer, const char *text);
bool px_heard(const struct px_peer *peer, const char *text);
unsigned px_times_heard(const struct px_peer *peer, const char *text);
/* Forgets what came. */
void px_forget(struct px_peer *peer);
void px_close(struct px_peer *peer);
void px_reset(struct px_peer *peer);
/* Sends FIN. */
void px_finish(struct px_peer *peer);

/* A whole exchange of CLIENT by connection CONNECTION: "GET /" and 200 with two bytes, kept alive. */
void px_exchange(struct px_peer *client, struct px_upstream *upstream, size_t connection);

#define PX_GET "GET / HTTP/1.1\r\nHost: www.example.com\r\n\r\n"
#define PX_OK "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

#endif
