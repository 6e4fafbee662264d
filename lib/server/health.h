/* Asks a running weir how it is, as probes do: blocks, so only for a command. */
#ifndef WR_SERVER_HEALTH_H
#define WR_SERVER_HEALTH_H

#include <stdbool.h>

#include "io/socket.h"

#define WR_HEALTH_WORDS 128

/* GET PATH from the admin server at ADMIN: true when it answers 200 within 2 seconds. SAID: its answer, or why there is none. */
bool wr_health_ask(const struct wr_address *admin, const char *path, char said[WR_HEALTH_WORDS]);

#endif
