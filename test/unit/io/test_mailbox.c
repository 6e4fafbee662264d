/* Messages between threads. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/time.h"
#include "io/mailbox.h"

static struct wr_loop *loop;
static struct wr_mailbox *mailbox;

static void setup(void)
{
    cr_assert_eq(wr_loop_new(WR_CLOCK_MONOTONIC, &loop), WR_OK);
    cr_assert_eq(wr_mailbox_new(loop, &mailbox), WR_OK);
}

static void teardown(void)
{
    wr_mailbox_free(mailbox);
    wr_loop_free(loop);
}

TestSuite(mailbox, .init = setup, .fini = teardown, .timeout = 30);

struct letter {
    struct wr_mail mail;
    int sender;
    int number;
};

#define SENDERS 4
#define LETTERS 20000

static int last[SENDERS];
static int disorder;
static int received;

static void read_letter(struct wr_mail *mail)
{
    struct letter *letter = WR_CONTAINER_OF(mail, struct letter, mail);
    if (letter->number != last[letter->sender] + 1)
        disorder++;
    last[letter->sender] = letter->number;
    received++;
    free(letter);
}

static void post(int sender, int number, void (*run)(struct wr_mail *mail))
{
    struct letter *letter = malloc(sizeof *letter);
    letter->mail.run = run;
    letter->sender = sender;
    letter->number = number;
    wr_mailbox_post(mailbox, &letter->mail);
}

Test(mailbox, order_of_one_sender)
{
    for (int i = 1; i <= 10; i++)
        post(0, i, read_letter);
    cr_assert_eq(received, 0);
    wr_loop_turn(loop, WR_SEC);
    cr_assert_eq(received, 10);
    cr_assert_eq(disorder, 0);
    post(0, 11, read_letter);
    wr_loop_turn(loop, WR_SEC);
    cr_assert_eq(received, 11);
}

static void *send_many(void *arg)
{
    int sender = *(int *)arg;
    for (int i = 1; i <= LETTERS; i++)
        post(sender, i, read_letter);
    return NULL;
}

Test(mailbox, many_senders)
{
    pthread_t threads[SENDERS];
    int numbers[SENDERS];
    for (int i = 0; i < SENDERS; i++) {
        numbers[i] = i;
        pthread_create(&threads[i], NULL, send_many, &numbers[i]);
    }
    while (received < SENDERS * LETTERS)
        wr_loop_turn(loop, 10 * WR_SEC);
    for (int i = 0; i < SENDERS; i++)
        pthread_join(threads[i], NULL);
    cr_assert_eq(received, SENDERS * LETTERS);
    cr_assert_eq(disorder, 0);
}

static void post_another(struct wr_mail *mail)
{
    struct letter *letter = WR_CONTAINER_OF(mail, struct letter, mail);
    int number = letter->number;
    read_letter(mail);
    if (number < 5)
        post(0, number + 1, post_another);
}

Test(mailbox, a_message_may_post)
{
    post(0, 1, post_another);
    uint64_t before = wr_time_monotonic();
    while (received < 5)
        wr_loop_turn(loop, 10 * WR_SEC);
    cr_assert_lt(wr_time_monotonic() - before, 5 * WR_SEC);
    cr_assert_eq(disorder, 0);
}

Test(mailbox, freeing_runs_what_is_left)
{
    post(0, 1, post_another);
    wr_mailbox_free(mailbox);
    mailbox = NULL;
    cr_assert_eq(received, 5);
}

static void free_the_mailbox(struct wr_mail *mail)
{
    read_letter(mail);
    wr_mailbox_free(mailbox);
    mailbox = NULL;
}

Test(mailbox, a_message_may_free_it)
{
    post(0, 1, read_letter);
    post(0, 2, free_the_mailbox);
    post(0, 3, read_letter);
    wr_loop_turn(loop, WR_SEC);
    cr_assert_null(mailbox);
    cr_assert_eq(received, 3);
    cr_assert_eq(disorder, 0);
}
