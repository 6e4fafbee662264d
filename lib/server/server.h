/* The process: workers, signals, admin server, drain. */
#ifndef WR_SERVER_SERVER_H
#define WR_SERVER_SERVER_H

#include "base/compiler.h"
#include "base/err.h"
#include "config/snapshot.h"

/* Runs SNAPSHOT until SIGTERM or SIGINT has drained it, a second signal, or a failure to start. Blocks; the process's
 * signals are its own. WR_OK: all ended within the drain timeout. */
WR_MUST_USE enum wr_err wr_server_run(const struct wr_snapshot *snapshot);

#endif
