/* A session ticket, gathered by a real client before the storm. */
#ifndef BENCH_STORM_TICKET_H
#define BENCH_STORM_TICKET_H

#include "storm/tls.h"

/* One connection with one GET of PATH, since some servers hand out tickets only with what they have to say. Ends the program when there
 * is none to be had. */
void ticket_fetch(uint16_t port, const char *path, struct resumption *out);

#endif
