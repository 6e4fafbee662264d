/* Owners that hand a transport over: nothing is lost and nothing comes out of order. */
#include <criterion/criterion.h>
#include <string.h>

#include "base/time.h"
#include "support/transport_lab.h"

static struct lab lab;
static struct lab_end server;
static struct lab_end client;

/* The first owner of the server's end: takes until there are as many bytes as it wants to see, then hands over. */
static char seen[16];
static size_t seen_n;
static size_t wanted;

static size_t look(void *owner, const uint8_t *p, size_t n)
{
    (void)owner;
    if (seen_n + n < wanted) {
        memcpy(seen + seen_n, p, n);
        seen_n += n;
        return n;
    }
    if (seen_n > 0)
        wr_transport_put_back(server.transport, seen, seen_n);
    wr_transport_set_events(server.transport, &lab_events, &server);
    return 0;
}

static const struct wr_transport_events looking = {.readable = look};

static void set_up(void)
{
    lab_open(&lab);
    server = (struct lab_end){0};
    client = (struct lab_end){0};
    seen_n = 0;
    lab_establish(&lab, &server, &client, NULL, NULL);
    wr_transport_set_events(server.transport, &looking, NULL);
}

static void tear_down(void)
{
    lab_end_free(&server);
    lab_end_free(&client);
    lab_close(&lab);
}

TestSuite(transport_handover, .init = set_up, .fini = tear_down, .timeout = 60);

static void say(const char *text)
{
    LAB_CALL(&lab, wr_transport_write(client.transport, text, strlen(text)));
    lab_settle(&lab);
}

Test(transport_handover, what_is_not_taken_is_offered_at_once)
{
    wanted = 1;
    say("hello");
    cr_assert_eq(server.got_length, 5);
    cr_assert_arr_eq(server.got, "hello", 5);
    cr_assert_eq(server.readable_calls, 1);
}

Test(transport_handover, what_was_taken_before_is_put_back_in_front)
{
    wanted = 4;
    say("a");
    say("bc");
    cr_assert_eq(server.got_length, 0);
    say("def");
    cr_assert_eq(server.got_length, 6);
    cr_assert_arr_eq(server.got, "abcdef", 6);
}

Test(transport_handover, the_new_owner_takes_as_much_as_it_likes)
{
    wanted = 1;
    server.take = 2;
    say("abcdefg");
    cr_assert_eq(server.got_length, 2);
    while (server.got_length < 7) {
        wr_transport_resume(server.transport, WR_PAUSE_OWNER);
        wr_transport_resume(server.transport, WR_PAUSE_FULL);
        wr_transport_resume(server.transport, WR_PAUSE_BUSY);
        lab_settle(&lab);
    }
    cr_assert_arr_eq(server.got, "abcdefg", 7);
}

Test(transport_handover, the_end_is_told_to_the_new_owner)
{
    wanted = 2;
    say("a");
    LAB_CALL(&lab, wr_transport_write(client.transport, "b", 1));
    LAB_CALL(&lab, wr_transport_end(client.transport));
    LAB_WAIT(&lab, server.read_ends == 1);
    cr_assert_eq(server.got_length, 2);
    cr_assert(server.clean);
}

Test(transport_handover, who_comes_after_the_fin_is_told_that_it_is_out)
{
    wr_transport_end(server.transport);
    LAB_WAIT(&lab, client.read_ends == 1);
    lab_settle(&lab);
    cr_assert_eq(server.flushes, 0);
    LAB_CALL(&lab, wr_transport_set_events(server.transport, &lab_events, &server));
    LAB_WAIT(&lab, server.flushes == 1);
    lab_settle(&lab);
    cr_assert_eq(server.flushes, 1);
}
