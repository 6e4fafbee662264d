/* What passes through a message and how it fails, one scenario a test. Any interleaving: test_message_random.c. */
#include "message_sides.h"

TestSuite(message, .init = set_up, .fini = tear_down);

Test(message, head_content_and_end_pass_as_they_come)
{
    struct wr_fields trailers;
    wr_fields_init(&trailers);
    attach();
    HEARD("");
    wr_message_head(&message, &head, 0);
    HEARD("head 200. ");
    put(5);
    HEARD("content 5. room 5. ");
    wr_message_end(&message, &trailers);
    HEARD("end trailers. ");
    cr_assert(wr_message_is_over(&message));
    cr_assert_eq(message.put_bytes, 5);
    cr_assert_eq(message.taken_bytes, 5);
    cr_assert_geq(progress_count, 4);
    stop_it();
    abort_it();
    wr_message_cancel(&message, WR_ERR_INTERNAL);
    HEARD("");
}

Test(message, a_late_sink_gets_all_in_order)
{
    wr_message_head(&message, &head, 0);
    put(3);
    put(4);
    end_it();
    cr_assert_not(wr_message_is_over(&message));
    attach();
    HEARD("head 200. content 7. end. ");
}

Test(message, a_last_head_is_the_end)
{
    attach();
    wr_message_head(&message, &head, WR_HEAD_LAST);
    HEARD("head 200 last. ");
    cr_assert_eq(message.state, WR_MESSAGE_DONE);
}

Test(message, the_end_waits_until_all_is_taken_and_passed_on)
{
    eager = false;
    attach();
    wr_message_head(&message, &head, 0);
    put(10);
    end_it();
    HEARD("head 200. content 10. ");
    cr_assert_eq(wr_message_take(&message, &taken, 4), 4);
    wr_message_taken(&message, 4);
    cr_assert_eq(wr_message_take(&message, &taken, 100), 6);
    wr_message_taken(&message, 5);
    HEARD("");
    wr_message_taken(&message, 1);
    HEARD("end. ");
}

Test(message, content_is_told_once_for_the_same_bytes)
{
    eager = false;
    attach();
    wr_message_head(&message, &head, 0);
    put(10);
    take(3);
    HEARD("head 200. content 10. room 3. ");
    put(1);
    HEARD("content 8. ");
    take(SIZE_MAX);
    HEARD("room 8. ");
}

Test(message, room_is_the_limit_less_what_was_not_passed_on)
{
    eager = false;
    attach();
    cr_assert_eq(wr_message_room(&message), LIMIT);
    wr_message_head(&message, &head, 0);
    put(60);
    cr_assert_eq(wr_message_room(&message), 40);
    cr_assert_eq(wr_message_take(&message, &taken, 30), 30);
    cr_assert_eq(wr_message_room(&message), 40);
    wr_message_taken(&message, 30);
    cr_assert_eq(wr_message_room(&message), 70);
    put(200); /* a source that could not stop */
    cr_assert_eq(wr_message_room(&message), 0);
    cr_assert_eq(message.content.length, 230);
    take(130);
    cr_assert_eq(wr_message_room(&message), 0);
    take(1);
    cr_assert_eq(wr_message_room(&message), 1);
}

static void put_once_more(void)
{
    on_room = NULL;
    put(2);
}

Test(message, deliveries_are_not_nested)
{
    attach();
    on_room = put_once_more; /* from within content() */
    wr_message_head(&message, &head, 0);
    put(1);
    HEARD("head 200. content 1. room 1. content 2. room 2. ");
}

static void end_once(void)
{
    on_room = NULL;
    end_it();
}

Test(message, an_end_from_within_room_follows_content)
{
    attach();
    on_room = end_once;
    wr_message_head(&message, &head, 0);
    put(1);
    HEARD("head 200. content 1. room 1. end. ");
}

Test(message, stop_from_within_callbacks)
{
    attach();
    on_head = stop_it;
    wr_message_head(&message, &head, 0);
    HEARD("head 200. stop cancelled. ");
    put(5); /* the source looked too late: thrown away */
    end_it();
    HEARD("");
    cr_assert_eq(wr_message_room(&message), 0);
    cr_assert_eq(message.state, WR_MESSAGE_FAILED);
    cr_assert_eq(message.put_bytes, 0);
}

Test(message, stop_from_within_content)
{
    attach();
    on_content = stop_it;
    wr_message_head(&message, &head, 0);
    put(5);
    HEARD("head 200. content 5. stop cancelled. ");
    cr_assert_eq(message.content.length, 0);
}

Test(message, a_source_that_aborts_when_stopped_is_not_heard)
{
    attach();
    on_stop = abort_it;
    stop_it();
    HEARD("stop cancelled. ");
    cr_assert_eq(message.why, WR_ERR_CANCELLED);
}

Test(message, stop_after_the_source_ended_tells_nobody)
{
    eager = false;
    attach();
    wr_message_head(&message, &head, 0);
    put(5);
    end_it();
    stop_it();
    HEARD("head 200. content 5. ");
    cr_assert_eq(message.state, WR_MESSAGE_FAILED);
}

Test(message, abort_throws_content_away)
{
    eager = false;
    attach();
    wr_message_head(&message, &head, 0);
    put(5);
    abort_it();
    HEARD("head 200. content 5. abort upstream_reset. ");
    cr_assert_eq(wr_message_take(&message, &taken, 5), 0);
    stop_it();
    abort_it();
    HEARD("");
}

static void abort_within(void)
{
    abort_it();
    cr_assert_null(strstr(heard, "abort"), "deliveries must not be nested");
}

Test(message, abort_from_within_content_comes_after_it)
{
    attach();
    on_content = abort_within;
    wr_message_head(&message, &head, 0);
    put(5);
    HEARD("head 200. content 5. abort upstream_reset. ");
}

Test(message, who_comes_after_a_failure_is_told_at_once)
{
    wr_message_head(&message, &head, 0);
    abort_it();
    attach();
    HEARD("abort upstream_reset. ");
    wr_message_init(&message, &pool, LIMIT, NULL);
    attach();
    stop_it();
    wr_message_set_source(&message, &source_ops, first);
    HEARD("stop cancelled. ");
}

Test(message, cancel_tells_both)
{
    attach();
    wr_message_head(&message, &head, 0);
    wr_message_cancel(&message, WR_ERR_REQUEST_TIMEOUT);
    HEARD("head 200. stop request_timeout. abort request_timeout. ");
}

Test(message, interim_heads_come_first_and_the_last_one_waits)
{
    struct wr_head early = head;
    struct wr_head hints = head;
    early.status = 100;
    hints.status = 103;
    wr_message_head(&message, &early, WR_HEAD_INTERIM);
    wr_message_head(&message, &hints, WR_HEAD_INTERIM);
    attach();
    HEARD("head 103 interim. ");
    wr_message_head(&message, &early, WR_HEAD_INTERIM);
    cr_assert_eq(message.state, WR_MESSAGE_WAITING);
    wr_message_head(&message, &head, WR_HEAD_LAST);
    HEARD("head 100 interim. head 200 last. ");
}

Test(message, moved_content_counts_too)
{
    struct wr_bytes more;
    wr_bytes_init(&more, &pool);
    attach();
    wr_message_head(&message, &head, 0);
    wr_message_put_bytes(&message, &more);
    wr_bytes_append(&more, "abc", 3);
    wr_message_put_bytes(&message, &more);
    HEARD("head 200. content 3. room 3. ");
    cr_assert_eq(more.length, 0);
    stop_it();
    wr_bytes_append(&more, "abc", 3);
    wr_message_put_bytes(&message, &more);
    cr_assert_eq(more.length, 0, "nobody wants it: thrown away");
    cr_assert_eq(message.put_bytes, 3);
}
