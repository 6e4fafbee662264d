/* What the machine and the control group (v2 or v1) of this process leave to it. */
#ifndef WR_CONFIG_CORES_H
#define WR_CONFIG_CORES_H

#include <stdint.h>

/* Cores, by affinity and quota; at least 1. */
unsigned wr_cores_available(void);
/* Bytes that the control group of this process may have; UINT64_MAX when nothing is said. */
uint64_t wr_memory_available(void);

#endif
