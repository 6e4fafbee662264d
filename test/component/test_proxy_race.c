/* The keep-alive race (behaviour rows 24 and 63): a pooled connection fails at every possible moment. */
#include "support/proxy_rig.h"

#include <stdio.h>
#include <string.h>

#define POST_HEAD "POST / HTTP/1.1\r\nHost: www.example.com\r\nContent-Length: 5\r\n\r\n"
#define PUT_HEAD "PUT / HTTP/1.1\r\nHost: www.example.com\r\nContent-Length: 5\r\n\r\n"

static struct proxy_rig *rig;
static struct px_upstream *upstream;
static struct px_peer *client;
static struct px_peer *stale; /* the pooled connection's far end */

/* A connection is in the pool. */
static void set_up(bool tls)
{
    rig = px_new();
    upstream = px_upstream(rig);
    if (tls)
        px_use_tls(rig, false);
    px_start(rig);
    client = px_client(rig, "");
    px_exchange(client, upstream, 0);
    stale = upstream->peers[0];
    cr_assert_eq(wr_metric_get(&rig->cluster_metrics->upstream_idle), 1);
}

static void expect_served_again(const char *request_end)
{
    struct px_peer *fresh = px_accepted(upstream, 1);
    px_hear(fresh, request_end);
    px_say(fresh, PX_OK);
    px_hear(client, "200 OK");
    px_hear(client, "\r\n\r\nok");
    cr_assert_eq(upstream->count, 2);
    cr_assert_eq(wr_metric_get(&rig->cluster_metrics->upstream_retries), 1);
}

static void expect_bad_gateway(const char *status, const char *proxy_status)
{
    px_hear(client, status);
    px_hear(client, proxy_status);
    px_settle(rig);
    cr_assert_eq(upstream->count, 1, "sent once more");
    cr_assert_eq(wr_metric_get(&rig->cluster_metrics->upstream_retries), 0);
}

/* ---- closed before the request ---- */

static void closed_before(bool tls)
{
    set_up(tls);
    px_close(stale);
    /* No turn in between: the end is in the socket, but no event has told it. */
    px_say(client, PX_GET);
    struct px_peer *fresh = px_accepted(upstream, 1);
    px_hear(fresh, "\r\n\r\n");
    px_say(fresh, PX_OK);
    px_hear(client, "200 OK");
    cr_assert_eq(wr_metric_get(&rig->cluster_metrics->upstream_reused), 0);
    px_end(rig);
}

Test(proxy_race, a_connection_at_its_end_is_not_handed_out)
{
    closed_before(false);
}

Test(proxy_race, nor_is_a_tls_connection)
{
    closed_before(true);
}

Test(proxy_race, a_post_goes_on_a_new_connection_when_the_pooled_one_is_at_its_end)
{
    set_up(false);
    px_close(stale);
    px_say(client, POST_HEAD "hello");
    struct px_peer *fresh = px_accepted(upstream, 1);
    px_hear(fresh, "\r\n\r\nhello");
    px_say(fresh, PX_OK);
    px_hear(client, "200 OK");
    px_end(rig);
}

Test(proxy_race, an_idle_connection_that_ends_leaves_the_pool)
{
    set_up(false);
    px_close(stale);
    PX_UNTIL(rig, wr_metric_get(&rig->cluster_metrics->upstream_idle) == 0);
    cr_assert_eq(wr_metric_get(&rig->cluster_metrics->upstream_stray_bytes), 0);
    px_end(rig);
}

/* ---- closed after the request was sent, before a byte of a response ---- */

static void closed_after(bool tls, const char *request, void (*end)(struct px_peer *), bool again,
                         const char *request_end)
{
    set_up(tls);
    px_say(client, request);
    px_hear(stale, request_end);
    end(stale);
    if (again)
        expect_served_again(request_end);
    else
        expect_bad_gateway("502 Bad Gateway", "proxy-status: weir; error=connection_terminated");
    px_end(rig);
}

Test(proxy_race, a_get_is_sent_once_more)
{
    closed_after(false, PX_GET, px_close, true, "\r\n\r\n");
}

Test(proxy_race, a_get_is_sent_once_more_after_a_reset)
{
    closed_after(false, PX_GET, px_reset, true, "\r\n\r\n");
}

Test(proxy_race, a_get_is_sent_once_more_over_tls)
{
    closed_after(true, PX_GET, px_finish, true, "\r\n\r\n");
}

Test(proxy_race, a_get_is_sent_once_more_when_tls_breaks_off)
{
    closed_after(true, PX_GET, px_reset, true, "\r\n\r\n");
}

Test(proxy_race, a_put_is_sent_once_more_with_its_content)
{
    closed_after(false, PUT_HEAD "hello", px_close, true, "\r\n\r\nhello");
}

Test(proxy_race, a_post_is_never_sent_twice)
{
    closed_after(false, POST_HEAD "hello", px_close, false, "\r\n\r\nhello");
}

Test(proxy_race, a_post_is_never_sent_twice_after_a_reset)
{
    closed_after(false, POST_HEAD "hello", px_reset, false, "\r\n\r\nhello");
}

Test(proxy_race, a_put_whose_content_is_larger_than_what_is_kept_is_not_sent_twice)
{
    rig = px_new();
    rig->host.content_limit = 1024;
    upstream = px_upstream(rig);
    px_start(rig);
    client = px_client(rig, "");
    px_exchange(client, upstream, 0);
    stale = upstream->peers[0];
    char content[4096];
    memset(content, 'x', sizeof(content));
    px_say(client, "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 8192\r\n\r\n");
    px_say_bytes(client, content, sizeof(content));
    PX_UNTIL(rig, stale->n > sizeof(content));
    px_close(stale);
    expect_bad_gateway("502 Bad Gateway", "connection_terminated");
    px_end(rig);
}

Test(proxy_race, a_put_still_on_its_way_is_sent_once_more_whole)
{
    set_up(false);
    px_say(client, PUT_HEAD "hel");
    px_hear(stale, "\r\n\r\nhel");
    px_close(stale);
    struct px_peer *fresh = px_accepted(upstream, 1);
    px_hear(fresh, "\r\n\r\nhel");
    px_say(client, "lo");
    px_hear(fresh, "\r\n\r\nhello");
    px_say(fresh, PX_OK);
    px_hear(client, "200 OK");
    px_end(rig);
}

Test(proxy_race, each_try_starts_from_the_original_request)
{
    set_up(false);
    px_say(client, "GET /a/../b HTTP/1.1\r\nHost: www.example.com\r\nX-Forwarded-Host: evil\r\n"
                   "Connection: x-hop\r\nX-Hop: 1\r\nX-Forwarded-For: 1.2.3.4\r\n\r\n");
    px_hear(stale, "\r\n\r\n");
    px_close(stale);
    struct px_peer *fresh = px_accepted(upstream, 1);
    px_hear(fresh, "\r\n\r\n");
    cr_assert_str_eq(fresh->text, stale->text);
    cr_assert_eq(px_times_heard(fresh, "via:"), 1);
    cr_assert_eq(px_times_heard(fresh, "x-forwarded-host: www.example.com\r\n"), 1);
    cr_assert_eq(px_times_heard(fresh, "x-forwarded-"), 3);
    cr_assert_eq(px_times_heard(fresh, "192.0.2.7"), 1);
    cr_assert(px_heard(fresh, "GET /b HTTP/1.1\r\n"));
    cr_assert_not(px_heard(fresh, "x-hop"));
    px_end(rig);
}

Test(proxy_race, once_more_and_not_twice)
{
    set_up(false);
    px_say(client, PX_GET);
    px_hear(stale, "\r\n\r\n");
    px_close(stale);
    struct px_peer *fresh = px_accepted(upstream, 1);
    px_hear(fresh, "\r\n\r\n");
    px_close(fresh);
    px_hear(client, "502 Bad Gateway");
    px_settle(rig);
    cr_assert_eq(upstream->count, 2);
    px_end(rig);
}

Test(proxy_race, a_connection_that_was_not_reused_gives_no_second_try)
{
    rig = px_new();
    upstream = px_upstream(rig);
    px_start(rig);
    client = px_client(rig, PX_GET);
    struct px_peer *fresh = px_accepted(upstream, 0);
    px_hear(fresh, "\r\n\r\n");
    px_close(fresh);
    expect_bad_gateway("502 Bad Gateway", "connection_terminated");
    px_end(rig);
}

Test(proxy_race, the_second_try_never_takes_another_pooled_connection)
{
    set_up(false);
    /* Two more in the pool. */
    struct px_peer *others[2] = {px_client(rig, PX_GET), px_client(rig, PX_GET)};
    px_hear(px_accepted(upstream, 0), "\r\n\r\n");
    px_hear(px_accepted(upstream, 1), "\r\n\r\n");
    px_say(upstream->peers[0], PX_OK);
    px_say(upstream->peers[1], PX_OK);
    px_hear(others[0], "200 OK");
    px_hear(others[1], "200 OK");
    PX_UNTIL(rig, wr_metric_get(&rig->cluster_metrics->upstream_idle) == 2);
    px_forget(upstream->peers[0]);
    px_forget(upstream->peers[1]);
    px_say(client, PX_GET);
    PX_UNTIL(rig, upstream->peers[0]->n > 0 || upstream->peers[1]->n > 0);
    px_close(upstream->peers[upstream->peers[0]->n > 0 ? 0 : 1]);
    px_hear(px_accepted(upstream, 2), "GET /");
    px_end(rig);
}

Test(proxy_race, no_second_try_when_it_is_turned_off)
{
    rig = px_new();
    rig->cluster_options.retry_reused = false;
    upstream = px_upstream(rig);
    px_start(rig);
    client = px_client(rig, "");
    px_exchange(client, upstream, 0);
    px_say(client, PX_GET);
    px_hear(upstream->peers[0], "\r\n\r\n");
    px_close(upstream->peers[0]);
    expect_bad_gateway("502 Bad Gateway", "connection_terminated");
    px_end(rig);
}

/* ---- closed before a byte of the request was written ---- */

static void reset_in_the_same_turn(struct proxy_rig *of)
{
    of->started = NULL;
    px_reset(stale);
}

/* The pool has looked, the request is gathered, and the connection breaks before the end of the turn. */
Test(proxy_race, a_post_of_which_no_byte_was_written_is_sent_once_more)
{
    set_up(false);
    rig->started = reset_in_the_same_turn;
    px_say(client, POST_HEAD "hello");
    expect_served_again("\r\n\r\nhello");
    cr_assert_eq(wr_metric_get(&rig->cluster_metrics->upstream_reused), 1);
    px_end(rig);
}

/* ---- closed after a byte of a response ---- */

static void closed_within(const char *response, const char *proxy_status)
{
    set_up(false);
    px_say(client, PX_GET);
    px_hear(stale, "\r\n\r\n");
    px_say(stale, response);
    px_settle(rig);
    px_close(stale);
    expect_bad_gateway("502 Bad Gateway", proxy_status);
    px_end(rig);
}

Test(proxy_race, no_second_try_after_a_byte_of_a_response)
{
    closed_within("H", "proxy-status: weir; error=");
}

Test(proxy_race, no_second_try_within_the_head_of_a_response)
{
    closed_within("HTTP/1.1 200 OK\r\nContent-Le", "proxy-status: weir; error=");
}

Test(proxy_race, no_second_try_after_an_interim_response)
{
    closed_within("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", "proxy-status: weir; error=");
}

Test(proxy_race, no_second_try_after_a_malformed_response)
{
    set_up(false);
    px_say(client, PX_GET);
    px_hear(stale, "\r\n\r\n");
    px_say(stale, "SSH-2.0-OpenSSH\r\n\r\n");
    expect_bad_gateway("502 Bad Gateway", "proxy-status: weir; error=http_protocol_error");
    px_end(rig);
}

Test(proxy_race, content_cut_short_is_cut_short_for_the_client)
{
    set_up(false);
    px_say(client, PX_GET);
    px_hear(stale, "\r\n\r\n");
    px_say(stale, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nsome");
    px_hear(client, "\r\n\r\nsome");
    px_close(stale);
    PX_UNTIL(rig, client->ended || client->reset);
    cr_assert_eq(px_times_heard(client, "HTTP/1.1"), 1);
    cr_assert_eq(upstream->count, 1);
    px_end(rig);
}

/* ---- the budget ---- */

Test(proxy_race, the_budget_ends_retries)
{
    rig = px_new();
    rig->cluster_options.retry_budget_percent = 1;
    upstream = px_upstream(rig);
    px_start(rig);
    client = px_client(rig, "");
    unsigned served = 0;
    size_t next = 0;
    for (unsigned round = 0; round < 5; round++) {
        px_exchange(client, upstream, next);
        px_say(client, PX_GET);
        px_hear(upstream->peers[next], "\r\n\r\n");
        px_close(upstream->peers[next]);
        next++;
        PX_UNTIL(rig, upstream->count > next || px_heard(client, "502"));
        if (px_heard(client, "502")) {
            px_settle(rig);
            px_forget(client);
            continue;
        }
        px_hear(upstream->peers[next], "\r\n\r\n");
        px_forget(upstream->peers[next]);
        px_say(upstream->peers[next], PX_OK);
        px_hear(client, "\r\n\r\nok");
        px_settle(rig);
        served++;
    }
    cr_assert_eq(served, 3);
    px_end(rig);
}
