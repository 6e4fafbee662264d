#include "support/admission_rig.h"

#include <criterion/criterion.h>

static void on_grant(void *owner, struct wr_ticket *ticket)
{
    struct admission_rig *rig = owner;
    cr_assert_eq(ticket->state, WR_TICKET_HANDSHAKING);
    if (rig->abandon_next) {
        rig->abandon_next = false;
        wr_admission_leave(rig->admission, ticket, WR_HANDSHAKE_GONE, false, 0, rig->now);
        return;
    }
    rig->granted[rig->grants++ % RIG_TICKETS] = (unsigned)(ticket - rig->tickets);
}

static void on_refuse(void *owner, struct wr_ticket *ticket, struct wr_admission_decision why)
{
    struct admission_rig *rig = owner;
    cr_assert(why.refused);
    cr_assert(ticket->state == WR_TICKET_SILENT || ticket->state == WR_TICKET_WAITING);
    rig->why[rig->refusals % RIG_TICKETS] = why;
    rig->refused[rig->refusals++ % RIG_TICKETS] = (unsigned)(ticket - rig->tickets);
    wr_admission_leave(rig->admission, ticket, WR_HANDSHAKE_FAILED, false, 0, rig->now);
}

static const struct wr_admission_events events = {.grant = on_grant, .refuse = on_refuse};

struct wr_admission_options controller_options(uint32_t limit)
{
    return (struct wr_admission_options){
        .max_pending_handshakes = limit,
        .max_silent = WR_ADMISSION_NO_LIMIT,
        .max_delay = WR_NEVER,
        .max_source_share = 100,
        .turn_budget = WR_NEVER,
        .seed = 42,
    };
}

void controller_start(struct admission_rig *rig, const struct wr_admission_options *options)
{
    *rig = (struct admission_rig){.now = WR_SEC};
    rig->admission = wr_admission_new(options, &events, rig);
    for (unsigned i = 0; i < RIG_TICKETS; i++)
        wr_ticket_init(&rig->tickets[i]);
}

void controller_stop(struct admission_rig *rig)
{
    for (unsigned i = 0; i < RIG_TICKETS; i++)
        controller_leave(rig, i, WR_HANDSHAKE_GONE, false, 0);
    struct wr_admission_gauges gauges = controller_gauges(rig);
    cr_assert_eq(gauges.silent + gauges.waiting + gauges.handshaking, 0);
    wr_admission_free(rig->admission);
}

struct wr_admission_decision controller_ask(struct admission_rig *rig, uint64_t source,
                                            enum wr_handshake_class claimed)
{
    struct wr_admission_source from = {.key = source};
    return wr_admission_ask(rig->admission, &from, claimed, rig->now);
}

struct wr_admission_decision controller_arrive(struct admission_rig *rig, unsigned i,
                                               struct wr_admission_source source)
{
    return wr_admission_arrive(rig->admission, &rig->tickets[i], &source);
}

void controller_come(struct admission_rig *rig, unsigned first, unsigned end)
{
    for (unsigned i = first; i < end; i++)
        cr_assert_not(
            controller_arrive(rig, i, (struct wr_admission_source){.key = 1000 + i}).refused);
}

struct wr_admission_decision controller_hello(struct admission_rig *rig, unsigned i,
                                              enum wr_handshake_class claimed)
{
    return wr_admission_hello(rig->admission, &rig->tickets[i], claimed, rig->now);
}

void controller_queue(struct admission_rig *rig, unsigned first, unsigned end,
                      enum wr_handshake_class claimed)
{
    controller_come(rig, first, end);
    for (unsigned i = first; i < end; i++)
        cr_assert_not(controller_hello(rig, i, claimed).refused, "%u", i);
}

bool controller_run(struct admission_rig *rig)
{
    return wr_admission_run(rig->admission, 0, rig->now);
}

void controller_leave(struct admission_rig *rig, unsigned i, enum wr_handshake_outcome outcome,
                      bool resumed, uint64_t cost)
{
    wr_admission_leave(rig->admission, &rig->tickets[i], outcome, resumed, cost, rig->now);
}

struct wr_admission_gauges controller_gauges(const struct admission_rig *rig)
{
    return wr_admission_gauges(rig->admission, rig->now);
}
