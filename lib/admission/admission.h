/* Admission control of TLS handshakes: which connection may spend cryptography now, which waits, which is refused.
 *
 * Pure policy, rule by rule as in README.md: no I/O, no TLS, no clock of its own; the time is an argument. One controller a worker and
 * listener; limits count for one worker, since one worker is one core's worth of work. Not for threads.
 *
 *   ask --> silent --hello--> waiting --grant--> handshaking --leave--> (gone)
 *   pending handshakes (the backlog) = waiting + handshaking
 *
 * A connection that came through wr_admission_arrive() holds a ticket until wr_admission_leave(), which is called exactly once
 * whatever became of it. */
#ifndef WR_ADMISSION_ADMISSION_H
#define WR_ADMISSION_ADMISSION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/refusal.h"
#include "base/time.h"

#define WR_ADMISSION_NO_LIMIT UINT32_MAX

/* ADAPTIVE: the limit follows the measured wait, max_pending_handshakes is its ceiling. */
enum wr_admission_mode { WR_ADMISSION_FIXED, WR_ADMISSION_ADAPTIVE };

/* Each rule can be switched off: by NO_LIMIT, WR_NEVER, 100 per cent, 0 or false, as fits. */
struct wr_admission_options {
    enum wr_admission_mode mode;
    uint32_t max_pending_handshakes; /* 0 refuses all, WR_ADMISSION_NO_LIMIT never by count */
    uint32_t max_silent;             /* silent connections at most; the oldest go first */
    uint64_t max_delay;              /* microseconds a waiter should wait at most; WR_NEVER */
    bool newest_first;               /* once that is exceeded */
    bool resumption_first;
    uint32_t
        max_source_share; /* per cent of the backlog that one source may hold when it is half full */
    uint32_t trusted_reserve; /* slots that only trusted sources get; half of the limit at most */
    uint64_t turn_budget;     /* microseconds of handshake work a turn of the loop; WR_NEVER */
    uint32_t
        min_share; /* per cent of the time that handshakes get when there is other work without end */
    uint64_t seed; /* unknown outside */
};

/* What a handshake will cost, by what its ClientHello claims. UNKNOWN: it has not been seen yet. */
enum wr_handshake_class {
    WR_CLASS_UNKNOWN,
    WR_CLASS_FULL,
    WR_CLASS_RESUME,
    WR_CLASS_TRUSTED,
    WR_CLASS__COUNT
};

struct wr_admission_decision {
    bool refused;
    enum wr_refusal reason;      /* when refused */
    enum wr_refusal_cause cause; /* likewise: the rule */
};

enum wr_ticket_state {
    WR_TICKET_NONE,
    WR_TICKET_SILENT,
    WR_TICKET_WAITING,
    WR_TICKET_HANDSHAKING,
};

/* Who asks. */
struct wr_admission_source {
    uint64_t key; /* the network of the peer's address that counts as one */
    bool trusted; /* in a configured CIDR */
};

/* One connection's place in the controller. Embedded in the connection; touched by the controller only. */
struct wr_ticket {
    struct wr_list link;
    enum wr_ticket_state state;
    enum wr_handshake_class class;
    struct wr_admission_source source;
    uint64_t queued;  /* when its ClientHello came */
    uint32_t charged; /* microseconds charged to the turn's budget when it was let go */
    uint32_t waited;  /* microseconds in the queue, known when it was let go */
    bool counted;     /* holds a slot in the account of its source */
};

struct wr_admission_events {
    /* A waiter's turn has come: it is handshaking, start its cryptography. From within wr_admission_run() only. The owner
     * may let it or any other ticket leave instead. */
    void (*grant)(void *owner, struct wr_ticket *ticket);
    /* A silent or waiting one must go, for this reason. The owner calls wr_admission_leave() for it before it returns. From within
     * wr_admission_arrive(), _hello() (never the one it is called for) and _run(). */
    void (*refuse)(void *owner, struct wr_ticket *ticket, struct wr_admission_decision why);
};

struct wr_admission;

/* Owner: the caller. OPTIONS is copied. */
struct wr_admission *wr_admission_new(const struct wr_admission_options *options,
                                      const struct wr_admission_events *events, void *owner);
void wr_admission_free(struct wr_admission *admission); /* all tickets have left; NULL is fine */

void wr_ticket_init(struct wr_ticket *ticket);

/* True when a full handshake would be refused by count just now: then it pays to look at the ClientHello before wr_admission_ask(). */
bool wr_admission_is_full(const struct wr_admission *admission);
/* True when it might be soon: then it pays to hear at once what a new connection has to say. */
bool wr_admission_is_pressed(const struct wr_admission *admission);
/* Whether anybody waits for its turn: processor time is what is short. */
bool wr_admission_has_waiters(const struct wr_admission *admission);
/* Gate 0, a connection was accepted: is there any use in keeping it? Changes nothing but what is counted. CLAIMED may be UNKNOWN. */
struct wr_admission_decision wr_admission_ask(struct wr_admission *admission,
                                              const struct wr_admission_source *source,
                                              enum wr_handshake_class claimed, uint64_t now);
/* It is kept, and silent. Refused only when not one silent connection is allowed. */
struct wr_admission_decision wr_admission_arrive(struct wr_admission *admission,
                                                 struct wr_ticket *ticket,
                                                 const struct wr_admission_source *source);
/* Gate 1, its ClientHello is here: it waits, grant() follows from wr_admission_run(); or it is refused (and still to leave). */
struct wr_admission_decision wr_admission_hello(struct wr_admission *admission,
                                                struct wr_ticket *ticket,
                                                enum wr_handshake_class claimed, uint64_t now);

enum wr_handshake_outcome { WR_HANDSHAKE_DONE, WR_HANDSHAKE_FAILED, WR_HANDSHAKE_GONE };

/* The ticket comes back: the handshake is done, or the connection ended in any state. COST: measured CPU microseconds
 * spent, 0 = none; RESUMED: what it really was, of WR_HANDSHAKE_DONE. What was charged on a claim is settled here. A ticket
 * that never arrived, or has left, is left alone. */
void wr_admission_leave(struct wr_admission *admission, struct wr_ticket *ticket,
                        enum wr_handshake_outcome outcome, bool resumed, uint64_t cost,
                        uint64_t now);

/* A turn of the loop in which OTHER microseconds went to everything but handshakes: who waits too long is refused, and
 * waiters are granted as far as the turn's budget goes, one at least. True: some still wait, so the loop should take another turn
 * without sleeping. */
bool wr_admission_run(struct wr_admission *admission, uint64_t other, uint64_t now);

struct wr_admission_gauges {
    uint32_t silent;
    uint32_t waiting;
    uint32_t handshaking;
    uint32_t pending_peak;
    uint32_t limit;                 /* of the backlog, as of now */
    uint64_t cost[WR_CLASS__COUNT]; /* microseconds, moving average */
    bool measured[WR_CLASS__COUNT]; /* the cost; else it is a guess, or not much better */
    uint64_t oldest_wait;           /* microseconds the longest waiter has waited */
    uint64_t busy;                  /* microseconds since the backlog was empty */
    bool delayed;                   /* max_delay is exceeded */
};
struct wr_admission_gauges wr_admission_gauges(struct wr_admission *admission, uint64_t now);

#endif
