/* How many cores this process may use: affinity and the CPU quota of its control group (v2 or v1), at least 1. */
#ifndef WR_CONFIG_CORES_H
#define WR_CONFIG_CORES_H

unsigned wr_cores_available(void);

#endif
