#ifndef BENCH_PROBE_PROBE_H
#define BENCH_PROBE_PROBE_H

#include <stdint.h>

struct probe_options {
    uint16_t port;
    unsigned connections;
    double rate; /* requests a second */
    const char *path;
    uint64_t connect_every; /* microseconds; 0: no fresh connections */
    uint64_t patience;      /* microseconds */
    double seconds;         /* 0: until standard input ends */
};

void probe_run(const struct probe_options *options);

#endif
