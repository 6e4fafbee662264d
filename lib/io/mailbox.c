#include "io/mailbox.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/mem.h"

/* Senders push onto a stack; the loop takes all of it at once and turns it round. Whoever pushes onto the empty stack
 * rings, so a burst costs one system call. */
struct wr_mailbox {
    _Atomic(struct wr_mail *) newest;
    struct wr_mail *taken; /* oldest first, being run */
    struct wr_loop *loop;
    struct wr_io io; /* of the eventfd */
    struct wr_garbage garbage;
};

static void take(struct wr_mailbox *mailbox)
{
    struct wr_mail *mail = atomic_exchange_explicit(&mailbox->newest, NULL, memory_order_acquire);
    while (mail != NULL) {
        struct wr_mail *older = mail->next;
        mail->next = mailbox->taken;
        mailbox->taken = mail;
        mail = older;
    }
}

static void run_taken(struct wr_mailbox *mailbox)
{
    while (mailbox->taken != NULL) {
        struct wr_mail *mail = mailbox->taken;
        mailbox->taken = mail->next;
        mail->run(mail);
    }
}

static void on_bell(struct wr_io *io, unsigned what)
{
    struct wr_mailbox *mailbox = WR_CONTAINER_OF(io, struct wr_mailbox, io);
    if (!(what & WR_IO_READ))
        return;
    /* Before taking: what is posted in between rings for nothing and not too late. */
    eventfd_t count;
    (void)eventfd_read(io->fd, &count);
    take(mailbox);
    run_taken(mailbox);
}

enum wr_err wr_mailbox_new(struct wr_loop *loop, struct wr_mailbox **out)
{
    *out = NULL;
    int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (fd < 0)
        return errno == EMFILE || errno == ENFILE ? WR_ERR_NO_DESCRIPTORS : WR_ERR_SYSTEM;
    struct wr_mailbox *mailbox = WR_NEW(struct wr_mailbox);
    atomic_init(&mailbox->newest, NULL);
    mailbox->loop = loop;
    enum wr_err err = wr_io_open(loop, &mailbox->io, fd, on_bell);
    if (err != WR_OK) {
        close(fd);
        free(mailbox);
        return err;
    }
    *out = mailbox;
    return WR_OK;
}

static void release(struct wr_garbage *garbage)
{
    free(WR_CONTAINER_OF(garbage, struct wr_mailbox, garbage));
}

void wr_mailbox_free(struct wr_mailbox *mailbox)
{
    if (mailbox == NULL)
        return;
    wr_io_close(&mailbox->io);
    run_taken(mailbox); /* a message may be the caller */
    while (atomic_load_explicit(&mailbox->newest, memory_order_relaxed) != NULL) {
        take(mailbox);
        run_taken(mailbox);
    }
    close(mailbox->io.fd);
    wr_loop_release(mailbox->loop, &mailbox->garbage, release);
}

void wr_mailbox_post(struct wr_mailbox *mailbox, struct wr_mail *mail)
{
    struct wr_mail *newest = atomic_load_explicit(&mailbox->newest, memory_order_relaxed);
    do {
        mail->next = newest;
    } while (!atomic_compare_exchange_weak_explicit(&mailbox->newest, &newest, mail,
                                                    memory_order_release, memory_order_relaxed));
    if (newest == NULL)
        (void)eventfd_write(mailbox->io.fd, 1);
}
