/* What systemd has to do with a service, and any other supervisor that speaks its protocols (sd_notify(3), sd_listen_fds(3)). Without one,
 * nothing happens. */
#ifndef WR_SERVER_SYSTEMD_H
#define WR_SERVER_SYSTEMD_H

#include "base/compiler.h"
#include "base/err.h"
#include "io/socket.h"

/* All listeners accept / nothing new is accepted any more. */
void wr_systemd_ready(void);
void wr_systemd_stopping(void);

/* A listening socket for ADDRESS that was open when the process started (socket activation), as a descriptor of its own: *FD is the
 * caller's, and non-blocking. -1: there is none. Port 0 is found by nobody. */
WR_MUST_USE enum wr_err wr_systemd_listener(const struct wr_address *address, int *fd);

#endif
