/* A downstream on a simulated clock, its listener on 127.0.0.x, any port, and clients that share its loop: real sockets, real TLS. */
#ifndef TEST_SUPPORT_DOWNSTREAM_WORLD_H
#define TEST_SUPPORT_DOWNSTREAM_WORLD_H

#include "downstream/downstream.h"

#define WORLD_CLIENTS 320

/* A client; CONNECTED by TLS or plain over a transport, or a bare socket that says what the test wants. */
struct client {
    struct wr_transport *transport; /* NULL: a bare socket */
    int fd;
    bool established;
    bool ended;  /* the server's end has come ... */
    bool clean;  /* ... with close_notify or by FIN */
    bool broken; /* or it was reset, or told an alert: */
    enum wr_err why;
    char detail[64];
    char text[4096]; /* what the server said */
    size_t length;
};

struct world {
    struct wr_loop *loop;
    struct wr_transport_host *transports;
    struct wr_metrics_registry *registry;
    struct wr_writer *writer;
    struct wr_downstream_env env;
    struct wr_downstream_options options;
    struct wr_downstream *downstream; /* NULL: ended */
    struct wr_tls_server *tls;
    struct wr_tls_client *tls_client;
    struct wr_address address;
    char directory[64];
    struct client clients[WORLD_CLIENTS];
    size_t client_count;
};

/* Makes all but the downstream, with options that refuse nothing; the test may then change them. TLS false: plain. */
struct world *world_new(bool tls);
void world_start(struct world *world);
/* Checks the account, ends everything. */
void world_end(struct world *world);

/* Turns until nothing happens any more. */
void world_settle(struct world *world);
/* Turns until *FLAG, or fails after ten seconds. */
void world_until(struct world *world, const bool *flag);
/* The clock moves on by USEC in small steps, with turns between. */
void world_pass(struct world *world, uint64_t usec);

struct client *world_connect(
    struct world *world); /* TLS or plain as the listener; not established yet */
struct client *world_connect_bare(struct world *world); /* TCP and no more */
void client_say(struct client *client, const char *text);
void client_close(struct client *client);
/* Of a bare one: reads what is there, sets ENDED or BROKEN. */
void client_look(struct client *client);

/* What has to be true at any time: accepted = refused + closed + open. */
void world_check_account(struct world *world);
uint64_t world_refused(const struct world *world, enum wr_refusal reason);
uint64_t world_refused_in_all(const struct world *world);
uint64_t world_ended(const struct world *world, enum wr_err why);
/* Whether TEXT is in the access log; waits ten seconds for it. */
bool world_logged(struct world *world, const char *text);

#endif
