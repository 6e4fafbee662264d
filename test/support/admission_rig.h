/* A controller, tickets by number, and what became of them. The time is rig.now. */
#ifndef WR_TEST_ADMISSION_RIG_H
#define WR_TEST_ADMISSION_RIG_H

#include "admission/admission.h"

#define RIG_TICKETS 256

struct admission_rig {
    struct wr_admission *admission;
    struct wr_ticket tickets[RIG_TICKETS];
    unsigned granted[RIG_TICKETS]; /* in order */
    unsigned grants;
    unsigned refused[RIG_TICKETS]; /* by the controller's own doing, in order */
    struct wr_admission_decision why[RIG_TICKETS];
    unsigned refusals;
    bool abandon_next; /* the next one granted has gone */
    uint64_t now;
};

/* No rule is on but the limits that are given; a turn has no end. */
struct wr_admission_options controller_options(uint32_t limit);
void controller_start(struct admission_rig *rig, const struct wr_admission_options *options);
/* All tickets leave. */
void controller_stop(struct admission_rig *rig);

struct wr_admission_decision controller_ask(struct admission_rig *rig, uint64_t source,
                                            enum wr_handshake_class claimed);
/* FIRST to END-1 become silent, each from a source of its own. */
void controller_come(struct admission_rig *rig, unsigned first, unsigned end);
struct wr_admission_decision controller_arrive(struct admission_rig *rig, unsigned i,
                                               struct wr_admission_source source);
struct wr_admission_decision controller_hello(struct admission_rig *rig, unsigned i,
                                              enum wr_handshake_class claimed);
/* FIRST to END-1 arrive and wait. */
void controller_queue(struct admission_rig *rig, unsigned first, unsigned end,
                      enum wr_handshake_class claimed);
bool controller_run(struct admission_rig *rig);
void controller_leave(struct admission_rig *rig, unsigned i, enum wr_handshake_outcome outcome,
                      bool resumed, uint64_t cost);
struct wr_admission_gauges controller_gauges(const struct admission_rig *rig);

#endif
