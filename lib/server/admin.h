/* The admin server: /metrics, /admission, /healthz, /readyz over plain HTTP on loopback or a unix socket. On a thread and loop of its
 * own, so nothing a client of it does can slow a worker; connections, sizes and times are bounded, since descriptors and
 * memory are shared with the workers all the same. */
#ifndef WR_SERVER_ADMIN_H
#define WR_SERVER_ADMIN_H

#include "base/compiler.h"
#include "base/err.h"
#include "config/snapshot.h"
#include "observe/metrics.h"

/* What /readyz says: 503, 200, 503. */
enum wr_admin_state { WR_ADMIN_STARTING, WR_ADMIN_READY, WR_ADMIN_DRAINING };

struct wr_admin;

/* Takes over FD, a listening socket, whatever the result. REGISTRY and SNAPSHOT outlive the server. Owner: the caller. */
WR_MUST_USE enum wr_err wr_admin_start(struct wr_metrics_registry *registry,
                                       const struct wr_snapshot *snapshot, int fd,
                                       struct wr_admin **out);
/* Any thread; NULL is fine. */
void wr_admin_set_state(struct wr_admin *admin, enum wr_admin_state state);
/* Ends the thread, cuts off its clients and frees. NULL is fine. */
void wr_admin_stop(struct wr_admin *admin);

#endif
