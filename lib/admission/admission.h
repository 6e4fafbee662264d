/* Admission control of TLS handshakes: which connection may spend cryptography now, which waits, which is refused.
 *
 * Pure policy, after the design page's rules: no I/O, no TLS, no clock of its own; the time is an argument. One controller a worker and
 * listener; limits count for one worker, since one worker is one core's worth of work. Not for threads.
 *
 *   silent --hello--> waiting --grant--> handshaking --finish--> (gone)
 *   pending handshakes (the backlog) = waiting + handshaking
 *
 * Every connection that came through wr_admission_arrive() with ADMIT holds a ticket until wr_admission_leave(), which is
 * called exactly once whatever became of it. */
#ifndef WR_ADMISSION_ADMISSION_H
#define WR_ADMISSION_ADMISSION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/refusal.h"
#include "base/time.h"

#define WR_ADMISSION_NO_LIMIT UINT32_MAX

enum wr_admission_mode { WR_ADMISSION_FIXED, WR_ADMISSION_ADAPTIVE };

struct wr_admission_options {
    uint32_t max_pending_handshakes; /* 0 refuses all, WR_ADMISSION_NO_LIMIT never by count */
    uint32_t max_silent;             /* silent connections at most; the oldest go first */
    /* Microseconds of handshake work a turn of the loop; WR_NEVER: no limit. */
    uint64_t turn_budget;
};

/* What a handshake will cost, by what its ClientHello claims. */
enum wr_handshake_class { WR_CLASS_FULL, WR_CLASS_RESUME, WR_CLASS_TRUSTED, WR_CLASS__COUNT };

enum wr_admission_verdict { WR_ADMIT, WR_WAIT, WR_REFUSE };

struct wr_admission_decision {
    enum wr_admission_verdict verdict;
    enum wr_refusal reason; /* of WR_REFUSE */
    enum wr_refusal_cause cause;
};

enum wr_ticket_state {
    WR_TICKET_NONE,
    WR_TICKET_SILENT,
    WR_TICKET_WAITING,
    WR_TICKET_HANDSHAKING,
};

/* Who asks: IPv4 /32 or IPv6 /64 of the peer, as 8 bytes; what fairness a source goes by. */
struct wr_admission_source {
    uint64_t key;
    bool trusted; /* in a configured CIDR */
};

/* One connection's place in the controller. Embedded in the connection; touched by the controller only. */
struct wr_ticket {
    struct wr_list link;
    enum wr_ticket_state state;
    enum wr_handshake_class class;
    struct wr_admission_source source;
    uint64_t arrived; /* accept */
    uint64_t queued;  /* ClientHello */
    uint32_t charged; /* microseconds charged to the turn's budget when it was let go */
    uint32_t waited;  /* microseconds in the queue, known when it was let go */
};

struct wr_admission_events {
    /* A waiter's turn has come: it is handshaking, start its cryptography. From within wr_admission_run() only. The owner
     * may let it or any other ticket leave instead. */
    void (*grant)(void *owner, struct wr_ticket *ticket);
    /* The oldest silent connection must go (CLIENT_HELLO_TIMEOUT is not the reason: TOO_MANY_CONNECTIONS). From within
     * wr_admission_arrive() only; the owner calls wr_admission_leave() for it before it returns. */
    void (*evict)(void *owner, struct wr_ticket *ticket);
};

struct wr_admission;

/* Owner: the caller. OPTIONS is copied. */
struct wr_admission *wr_admission_new(const struct wr_admission_options *options,
                                      const struct wr_admission_events *events, void *owner);
void wr_admission_free(struct wr_admission *admission); /* all tickets have left; NULL is fine */

void wr_ticket_init(struct wr_ticket *ticket);

/* Gate 0, a connection was accepted: ADMIT (now silent) or REFUSE. */
struct wr_admission_decision wr_admission_arrive(struct wr_admission *admission,
                                                 struct wr_ticket *ticket,
                                                 struct wr_admission_source source, uint64_t now);
/* Gate 1, its ClientHello is here: ADMIT (handshaking), WAIT (grant() follows) or REFUSE (still to leave). */
struct wr_admission_decision wr_admission_hello(struct wr_admission *admission,
                                                struct wr_ticket *ticket,
                                                enum wr_handshake_class claimed, uint64_t now);

enum wr_handshake_outcome { WR_HANDSHAKE_DONE, WR_HANDSHAKE_FAILED, WR_HANDSHAKE_GONE };

/* The ticket comes back: the handshake is done, or the connection ended in any state. COST: measured CPU microseconds
 * spent, 0 = none; RESUMED: what it really was, of WR_HANDSHAKE_DONE. What was charged on a claim is settled here. A ticket
 * that was refused by arrive(), or has left, is left alone. */
void wr_admission_leave(struct wr_admission *admission, struct wr_ticket *ticket,
                        enum wr_handshake_outcome outcome, bool resumed, uint64_t cost,
                        uint64_t now);

/* A new turn of the loop: the budget is fresh, waiters are granted as far as it goes, and one at least. True: some still
 * wait, so the loop should take another turn without sleeping. */
bool wr_admission_run(struct wr_admission *admission, uint64_t now);

struct wr_admission_gauges {
    uint32_t silent;
    uint32_t waiting;
    uint32_t handshaking;
    uint32_t pending_peak;
    uint64_t cost[WR_CLASS__COUNT]; /* microseconds, moving average */
    uint64_t oldest_wait;           /* microseconds the longest waiter has waited */
};
struct wr_admission_gauges wr_admission_gauges(const struct wr_admission *admission, uint64_t now);

#endif
