/* weir before an HTTP/2 upstream that a test plays (h2_origin.h), and an HTTP/2 client before weir: many requests at once, and what became of
 * each. */
#ifndef TEST_SUPPORT_H2_UPSTREAM_H
#define TEST_SUPPORT_H2_UPSTREAM_H

#include "support/h2_frames.h"
#include "support/h2_origin.h"
#include "support/stage.h"

struct upstream_world {
    struct h2_origin *origin;
    struct stage *stage;
    struct h2_peer *client;
    unsigned
        asked; /* requests of the client; number I has the stream id 2 I - 1 and the path "/I" */
};

/* CLUSTER: more of its configuration, or NULL. */
struct upstream_world upstream_start(const struct h2_origin_rules *rules, const char *cluster);
/* Expects that every request has been answered or reset with a reason that was counted, FAILED of them, that nothing is in flight or held any
 * more, and that nothing was sent twice that may have been processed. */
void upstream_stop(struct upstream_world *world, unsigned failed);

/* Asks COUNT times with METHOD, GET or one with content, and sends it. */
void upstream_ask(struct upstream_world *world, unsigned count, const char *method);
/* One request more to a new connection to the origin, or to one that is known to have room: it is answered. */
void upstream_warm(struct upstream_world *world);
/* The client has the answer to request NUMBER, whole, and with STATUS. */
void upstream_expect(struct upstream_world *world, unsigned number, int status);
void upstream_expect_all(struct upstream_world *world, unsigned from, unsigned to, int status);
/* The response to request NUMBER is cut short. */
void upstream_expect_cut(struct upstream_world *world, unsigned number);
/* Waits for the counter or gauge NAME ("requests_total") of the cluster. */
void upstream_expect_metric(const struct upstream_world *world, const char *name, double value);
void upstream_expect_failed(const struct upstream_world *world, const char *reason, double value);

#endif
