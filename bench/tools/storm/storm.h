/* The storm of one process: connections begin when their time has come, whatever became of the others. */
#ifndef BENCH_STORM_STORM_H
#define BENCH_STORM_STORM_H

#include "storm/account.h"
#include "storm/tls.h"

struct storm_options {
    uint16_t port;
    double rate;         /* connections a second, all processes together; 0: as fast as it goes */
    double seconds;      /* how long connections begin; 0: until all COUNT have */
    uint64_t count;      /* how many; 0: as many as the time holds */
    double resume_share; /* of connections that offer the ticket */
    uint64_t patience;   /* microseconds from connect() to the finished handshake; 0: for ever */
    unsigned sources;    /* loopback addresses to come from */
    unsigned processes;  /* this one begins each PROCESSES-th connection */
    unsigned most_open;  /* descriptors of a process */
    bool silent;         /* connects and says nothing */
    bool stall;          /* sends its ClientHello, and then nothing more */
    bool leave_with_fin; /* who gives up closes; otherwise resets */
};

/* NUMBER: of this process, from 0. Returns when every connection has ended. */
void storm_run(const struct storm_options *options, const struct offer offers[CLAIM__COUNT],
               unsigned number, uint64_t start, struct account *account);

#endif
