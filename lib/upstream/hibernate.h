/* Connections that have been in the pool for a while hold what only work needs no longer; the next exchange, or byte, brings it back. */
#ifndef WR_UPSTREAM_HIBERNATE_H
#define WR_UPSTREAM_HIBERNATE_H

#include "upstream/connection.h"

/* IDLE: gives back what it can, or is asked again later. */
void wr_upstream_hibernate(struct wr_upstream_connection *connection);
/* As if it had been idle all the time, but for a codec that was dropped: who needs one makes it. If it is not dormant: nothing. */
void wr_upstream_wake(struct wr_upstream_connection *connection);

#endif
