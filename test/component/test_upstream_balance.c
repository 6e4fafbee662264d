/* Endpoints of a cluster: turns, and limits. */
#include "support/pool_asks.h"

/* ---- balance ---- */

Test(upstream_balance, endpoints_take_turns)
{
    rig = px_new();
    struct px_upstream *other = px_upstream(rig);
    start();
    struct px_peer *client = px_client(rig, "");
    for (unsigned i = 0; i < 3; i++) {
        px_exchange(client, other, 0);
        px_exchange(client, upstream, 0);
    }
    cr_assert_eq(other->count, 1);
    cr_assert_eq(upstream->count, 1);
    px_end(rig);
}

Test(upstream_balance, at_the_limit_an_idle_connection_to_any_endpoint_serves)
{
    rig = px_new();
    rig->cluster_options.max_connections = 1;
    struct px_upstream *other = px_upstream(rig);
    start();
    struct px_peer *client = px_client(rig, "");
    px_exchange(client, other, 0);
    px_exchange(client, other, 0);
    px_exchange(client, other, 0);
    cr_assert_eq(upstream->count, 0);
    px_end(rig);
}

Test(upstream_balance, no_more_than_so_many_to_one_endpoint)
{
    rig = px_new();
    rig->cluster_options.max_connections_per_endpoint = 1;
    struct px_upstream *other = px_upstream(rig);
    start();
    for (size_t i = 0; i < 4; i++) {
        ask(i);
        px_settle(rig);
    }
    expect_asked(px_accepted(other, 0), 0);
    expect_asked(px_accepted(upstream, 0), 1);
    cr_assert_eq(pending(), 2);
    answer(upstream->peers[0], 1);
    expect_asked(upstream->peers[0], 2);
    answer(other->peers[0], 0);
    expect_asked(other->peers[0], 3);
    answer(upstream->peers[0], 2);
    answer(other->peers[0], 3);
    px_settle(rig);
    cr_assert_eq(other->count, 1);
    cr_assert_eq(upstream->count, 1);
    cr_assert_eq(idle(), 2);
    px_end(rig);
}

/* One whose connections are all in use is passed over while another has room. */
Test(upstream_balance, an_endpoint_at_its_limit_is_passed_over)
{
    rig = px_new();
    rig->cluster_options.max_connections_per_endpoint = 2;
    struct px_upstream *other = px_upstream(rig);
    start();
    for (size_t i = 0; i < 3; i++) {
        ask(i);
        px_settle(rig);
    }
    /* Two at the first, one at the second, whose turn it is; it ends. */
    expect_asked(px_accepted(other, 0), 0);
    expect_asked(px_accepted(upstream, 0), 1);
    expect_asked(px_accepted(other, 1), 2);
    ask(3);
    expect_asked(px_accepted(upstream, 1), 3);
    answer(upstream->peers[0], 1);
    ask(1); /* the turn of the first, which has none to spare */
    expect_asked(upstream->peers[0], 1);
    cr_assert_eq(pending(), 0);
    answer(upstream->peers[0], 1);
    answer(upstream->peers[1], 3);
    answer(other->peers[0], 0);
    answer(other->peers[1], 2);
    px_end(rig);
}
