/* The listening sockets of a snapshot, all bound before anything else starts: an address that cannot be had is found out
 * while nothing runs. One socket a worker and listener (SO_REUSEPORT: the kernel spreads connections, workers share
 * nothing); a unix socket has one queue, which its workers share, and so has one that was open when the process started (systemd.h). */
#ifndef WR_SERVER_SOCKETS_H
#define WR_SERVER_SOCKETS_H

#include <stddef.h>

#include "base/compiler.h"
#include "base/err.h"
#include "config/snapshot.h"
#include "io/socket.h"

struct wr_sockets {
    const struct wr_snapshot *snapshot;
    int *fds;                 /* of worker W and listener L at W * listener_count + L; -1: taken */
    struct wr_address *bound; /* a listener; with the port the system chose for port 0 */
    int admin_fd;             /* -1: taken, or no admin server */
    struct wr_address admin_bound;
};

/* Fails with a line in the log that names the address. SNAPSHOT outlives the object, which is the caller's to close. */
WR_MUST_USE enum wr_err wr_sockets_open(struct wr_sockets *sockets,
                                        const struct wr_snapshot *snapshot);
/* The descriptor is the caller's from now on. */
int wr_sockets_take(struct wr_sockets *sockets, unsigned worker, size_t listener);
int wr_sockets_take_admin(struct wr_sockets *sockets);
/* Closes what was not taken. Can be called twice, and on a zeroed object. */
void wr_sockets_close(struct wr_sockets *sockets);

#endif
