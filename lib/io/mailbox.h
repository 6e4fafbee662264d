/* Messages into a worker's loop from any thread: the one way threads talk. */
#ifndef WR_IO_MAILBOX_H
#define WR_IO_MAILBOX_H

#include "io/loop.h"

struct wr_mailbox;

/* A message; RUN is called once on the loop's thread and owns the memory from then on. */
struct wr_mail {
    struct wr_mail *next;
    void (*run)(struct wr_mail *mail);
};

WR_MUST_USE enum wr_err wr_mailbox_new(struct wr_loop *loop, struct wr_mailbox **out);
/* Runs what is still in it; nobody may post any more. Can be called by a message. NULL is fine. */
void wr_mailbox_free(struct wr_mailbox *mailbox);
/* Any thread. Order is kept for one sender. */
void wr_mailbox_post(struct wr_mailbox *mailbox, struct wr_mail *mail);

#endif
