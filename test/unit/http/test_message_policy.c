/* Replays, and what the policy can do, one scenario a test. */
#include "message_sides.h"

static char second[] = "2 ";
static char third[] = "3 ";

TestSuite(message_policy, .init = set_up, .fini = tear_down);

/* ---- rewind ---- */

Test(message_policy, a_rewound_message_gives_all_again_and_no_credit_twice)
{
    wr_message_arm_replay(&message);
    attach();
    wr_message_head(&message, &head, 0);
    put(30);
    put(20);
    HEARD("head 200. content 30. room 30. content 20. room 20. ");
    cr_assert(wr_message_can_rewind(&message));
    wr_message_rewind(&message);
    cr_assert_not(wr_message_has_sink(&message, first));
    cr_assert_eq(wr_message_room(&message), LIMIT, "the source's window is as it was");
    cr_assert_eq(message.taken_bytes, 0);
    cr_assert_eq(message.put_bytes, 50);
    put(10);
    wr_message_attach(&message, &sink_ops, second);
    HEARD("2 head 200. 2 content 60. room 10. ");
    end_it();
    HEARD("2 end. ");
    cr_assert(wr_message_can_rewind(&message));
    wr_message_rewind(&message);
    wr_message_attach(&message, &sink_ops, third);
    HEARD("3 head 200. 3 content 60. 3 end. ");
}

Test(message_policy, what_is_not_kept_cannot_be_rewound)
{
    attach();
    wr_message_head(&message, &head, 0);
    cr_assert(wr_message_can_rewind(&message), "nothing was taken");
    put(5);
    cr_assert_not(wr_message_can_rewind(&message));
    wr_message_arm_replay(&message); /* too late */
    cr_assert_not(wr_message_can_rewind(&message));
}

Test(message_policy, replay_is_bounded_by_the_limit)
{
    wr_message_arm_replay(&message);
    attach();
    wr_message_head(&message, &head, 0);
    put(LIMIT);
    cr_assert(wr_message_can_rewind(&message));
    cr_assert_eq(message.replay.length, LIMIT);
    put(1);
    cr_assert_not(wr_message_can_rewind(&message));
    cr_assert_eq(message.replay.length, 0);
    wr_message_disarm_replay(&message);
}

Test(message_policy, a_last_head_can_be_sent_again)
{
    attach();
    wr_message_head(&message, &head, WR_HEAD_LAST);
    cr_assert(wr_message_can_rewind(&message));
    wr_message_rewind(&message);
    attach();
    HEARD("head 200 last. head 200 last. ");
}

static void lose_it(void)
{
    size_t n = wr_message_take(&message, &taken, 5);
    on_content = NULL;
    wr_message_rewind(&message);
    wr_message_attach(&message, &sink_ops, second);
    wr_message_taken(&message, n); /* the old one does not know yet */
}

Test(message_policy, a_sink_may_lose_the_message_within_its_content)
{
    wr_message_arm_replay(&message);
    attach();
    on_content = lose_it;
    wr_message_head(&message, &head, 0);
    put(8);
    HEARD("head 200. content 8. 2 head 200. 2 content 8. room 8. ");
    cr_assert(wr_message_has_sink(&message, second));
}

/* ---- policy ---- */

static bool cares;
static bool passes = true;
static bool drops;
static void (*on_failed)(void);

static bool policy_head(void *owner, struct wr_head *told, unsigned flags)
{
    (void)owner;
    (void)flags;
    hear("policy %u. ", told->status);
    if (drops)
        wr_message_drop_source(&message, WR_ERR_UNASKED_UPGRADE);
    return passes;
}

static bool policy_failed(void *owner, enum wr_err why)
{
    (void)owner;
    hear("failed %s. ", wr_err_info(why)->label);
    if (on_failed != NULL)
        on_failed();
    return cares;
}

static bool cancels;

static void policy_too_large(void *owner)
{
    (void)owner;
    hear("too large. ");
    if (cancels)
        wr_message_cancel(&message, WR_ERR_CONTENT_TOO_LARGE);
}

static const struct wr_message_policy policy = {
    .head = policy_head, .failed = policy_failed, .too_large = policy_too_large};

static void answer_at_once(void)
{
    wr_message_set_source(&message, &source_ops, second);
    wr_message_head(&message, &head, 0);
    put(5);
    wr_message_end(&message, NULL);
}

Test(message_policy, the_policy_may_take_care_of_a_failure_with_another_source)
{
    wr_message_set_policy(&message, &policy, NULL);
    attach();
    cares = true;
    abort_it();
    HEARD("failed upstream_reset. ");
    cr_assert_eq(message.state, WR_MESSAGE_WAITING);
    cr_assert_null(message.source_ops);
    wr_message_set_source(&message, &source_ops, second);
    on_failed = answer_at_once;
    abort_it();
    HEARD("failed upstream_reset. policy 200. head 200. content 5. 2 room 5. end. ");
}

Test(message_policy, a_failure_the_policy_leaves_reaches_the_sink)
{
    wr_message_set_policy(&message, &policy, NULL);
    attach();
    abort_it();
    HEARD("failed upstream_reset. abort upstream_reset. ");
}

Test(message_policy, after_the_final_head_the_policy_is_not_asked)
{
    wr_message_set_policy(&message, &policy, NULL);
    cares = true;
    attach();
    wr_message_head(&message, &head, 0);
    abort_it();
    HEARD("policy 200. head 200. abort upstream_reset. ");
}

Test(message_policy, the_policy_may_hold_back_an_interim_head)
{
    struct wr_head early = head;
    early.status = 100;
    wr_message_set_policy(&message, &policy, NULL);
    attach();
    passes = false;
    wr_message_head(&message, &early, WR_HEAD_INTERIM);
    HEARD("policy 100. ");
    cr_assert_eq(message.state, WR_MESSAGE_WAITING);
}

Test(message_policy, the_policy_may_drop_the_source_for_its_head)
{
    wr_message_set_policy(&message, &policy, NULL);
    attach();
    drops = true;
    passes = false;
    wr_message_head(&message, &head, 0);
    HEARD("policy 200. stop unasked_upgrade. ");
    cr_assert_eq(message.state, WR_MESSAGE_WAITING);
    drops = false;
    passes = true;
    answer_at_once();
    HEARD("policy 200. head 200. content 5. 2 room 5. end. ");
}

Test(message_policy, a_source_is_dropped_once)
{
    attach();
    wr_message_drop_source(&message, WR_ERR_RESPONSE_TIMEOUT);
    wr_message_drop_source(&message, WR_ERR_RESPONSE_TIMEOUT);
    HEARD("stop response_timeout. ");
    stop_it();
    wr_message_drop_source(&message, WR_ERR_RESPONSE_TIMEOUT);
    HEARD("");
}

Test(message_policy, content_beyond_the_cap_is_judged_before_it_is_taken)
{
    wr_message_set_policy(&message, &policy, NULL);
    attach();
    message.content_cap = 10;
    cancels = true;
    wr_message_head(&message, &head, 0);
    put(10);
    HEARD("policy 200. head 200. content 10. room 10. ");
    put(1);
    HEARD("too large. stop content_too_large. abort content_too_large. ");
    cr_assert_eq(message.put_bytes, 10);
}

Test(message_policy, content_beyond_the_cap_passes_when_the_policy_lets_it_and_is_told_once)
{
    wr_message_set_policy(&message, &policy, NULL);
    attach();
    message.content_cap = 10;
    wr_message_head(&message, &head, 0);
    put(11);
    put(12);
    HEARD("policy 200. head 200. too large. content 11. room 11. content 12. room 12. ");
}

/* ---- tunnels that are not to be ---- */

Test(message_policy, a_request_is_made_to_be_without_content)
{
    wr_message_head(&message, &head, 0);
    wr_message_make_last(&message, WR_ERR_CANCELLED);
    HEARD("stop cancelled. ");
    attach();
    HEARD("head 200 last. ");
    cr_assert_eq(message.state, WR_MESSAGE_DONE);
    wr_message_make_last(&message, WR_ERR_CANCELLED);
    HEARD("");
}

Test(message_policy, one_that_has_failed_stays_so)
{
    wr_message_head(&message, &head, 0);
    abort_it();
    wr_message_make_last(&message, WR_ERR_CANCELLED);
    attach();
    HEARD("abort upstream_reset. ");
}
