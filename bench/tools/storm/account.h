/* What became of every connection. One account a process, in memory that the processes share; their sum is printed. */
#ifndef BENCH_STORM_ACCOUNT_H
#define BENCH_STORM_ACCOUNT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "support/histogram.h"

#define SLOT_USEC 100000
#define SLOTS 6000 /* what comes later is put into the last one */

/* How far a connection has come. */
enum phase {
    PHASE_CONNECT,  /* no SYN+ACK yet */
    PHASE_HELLO,    /* our ClientHello was sent, nothing has come */
    PHASE_ANSWERED, /* something of the server's handshake has come */
    PHASE_FINISHED, /* our Finished was sent; the server has not shown that it has it */
    PHASE__COUNT,
};

enum outcome {
    OUTCOME_FULL,    /* the handshake is finished, on both sides */
    OUTCOME_RESUMED, /* it too */
    OUTCOME_RESET,   /* refused by RST */
    OUTCOME_ALERT,   /* refused by a fatal alert */
    OUTCOME_CLOSED,  /* ended without either */
    OUTCOME_GAVE_UP, /* the client's patience was at its end */
    OUTCOME_STALLED, /* so was that of one that was told to stall: nobody ended it before */
    OUTCOME_OTHER,   /* an error, or TLS that this client cannot work with */
    OUTCOME__COUNT,
};

enum claim { CLAIM_FULL, CLAIM_RESUME, CLAIM__COUNT };

struct slot {
    uint64_t offered;
    uint64_t ended[OUTCOME__COUNT];
    uint64_t waited; /* microseconds, all that finished together */
};

struct account {
    uint64_t offered[CLAIM__COUNT];
    uint64_t ended[CLAIM__COUNT][OUTCOME__COUNT][PHASE__COUNT];
    uint64_t unbegun; /* due within the time, and never begun */
    uint64_t last;    /* when the last one began */
    uint64_t cpu;     /* microseconds this took of a core */
    struct histogram late;
    struct histogram finished[CLAIM__COUNT]; /* from connect() to the finished handshake */
    struct histogram refused;                /* to the refusal */
    struct slot slots[SLOTS];
};

void account_begin(struct account *account, uint64_t start, uint64_t now, enum claim claim,
                   uint64_t late);
void account_end(struct account *account, uint64_t start, uint64_t now, enum claim claim,
                 enum outcome outcome, enum phase phase, uint64_t took);
void account_add(struct account *account, const struct account *other);
void account_print(const struct account *account, uint64_t start, double rate,
                   FILE *to); /* one line of JSON */
void account_print_series(const struct account *account, uint64_t start, FILE *to);

#endif
