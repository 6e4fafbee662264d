/* The process: workers, signals, admin server, drain. */
#ifndef WR_SERVER_SERVER_H
#define WR_SERVER_SERVER_H

#include "base/compiler.h"
#include "base/err.h"
#include "config/snapshot.h"

/* Runs SNAPSHOT until SIGTERM or SIGINT has drained it, a second signal, or a failure to start. Blocks; the process's
 * signals are its own, and stay blocked afterwards.
 *
 * WR_OK: all connections ended within the drain timeout. CANCELLED: the timeout passed or a second signal came, what was
 * left was cut off. Anything else: it could not start, the log says why, and nothing was served. */
WR_MUST_USE enum wr_err wr_server_run(const struct wr_snapshot *snapshot);

#endif
