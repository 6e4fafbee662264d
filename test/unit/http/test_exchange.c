/* How an exchange ends, and the account of it. */
#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "exchange_sides.h"

TestSuite(exchange, .init = set_up, .fini = tear_down);

Test(exchange, a_good_end_is_counted)
{
    send_request(0);
    wr_message_put(&exchange->request, "abc", 3);
    wr_message_end(&exchange->request, NULL);
    wr_loop_advance(loop, WR_SEC);
    answer(0);
    wr_message_put(&exchange->response, "abcde", 5);
    wr_message_end(&exchange->response, NULL);
    cr_assert_eq(wr_metric_get(&host.worker_metrics->exchanges_active), 1);
    finish(WR_OK);
    cr_assert_eq(finished_count, 1);
    cr_assert_eq(request_stopped + request_aborted + response_stopped + response_aborted, WR_OK);
    cr_assert_eq(wr_metric_get(&host.metrics->requests[2]), 1);
    cr_assert_eq(wr_metric_get(&host.metrics->requests_failed[WR_OK]), 0);
    cr_assert_eq(wr_metric_get(&host.metrics->content_received), 3);
    cr_assert_eq(wr_metric_get(&host.metrics->content_sent), 5);
    cr_assert_eq(wr_metric_get(&host.metrics->request_duration.sum_usec), WR_SEC);
    wr_loop_advance(loop, 10 * INACTIVITY);
    cr_assert_eq(expired_count, 0);
}

Test(exchange, what_is_not_over_is_let_go_and_the_owner_hears_nothing)
{
    send_request(0);
    answer(0);
    finish(WR_ERR_CLIENT_RESET);
    cr_assert_eq(request_aborted, WR_ERR_CLIENT_RESET);
    cr_assert_eq(response_stopped, WR_ERR_CLIENT_RESET);
    cr_assert_eq(request_stopped, WR_OK);
    cr_assert_eq(response_aborted, WR_OK);
    cr_assert_eq(wr_metric_get(&host.metrics->requests_failed[WR_ERR_CLIENT_RESET]), 1);
}

Test(exchange, the_first_blame_stands)
{
    wr_exchange_blame(exchange, WR_OK);
    wr_exchange_blame(exchange, WR_ERR_UPSTREAM_CLOSED);
    wr_exchange_blame(exchange, WR_ERR_INTERNAL);
    finish(WR_ERR_CLIENT_RESET);
    cr_assert_eq(wr_metric_get(&host.metrics->requests_failed[WR_ERR_UPSTREAM_CLOSED]), 1);
    cr_assert_eq(wr_metric_get(&host.metrics->requests[0]), 1, "no response was given");
}

Test(exchange, ended_ones_are_used_again_as_new)
{
    struct wr_exchange *before = exchange;
    send_request(0);
    for (int i = 0; i < 100; i++)
        memset(wr_arena_alloc(&exchange->arena, 100), 'x', 100); /* more than its own first part */
    finish(WR_ERR_CLIENT_RESET);
    cr_assert_eq(host.spare_count, 1);
    open_exchange();
    cr_assert_eq(exchange, before);
    cr_assert_eq(host.spare_count, 0);
    cr_assert_eq(exchange->request.state, WR_MESSAGE_WAITING);
    cr_assert_eq(exchange->arena.held, 0);
    cr_assert_eq(exchange->ended, WR_OK);
    wr_exchange_finish(exchange, WR_OK);
    wr_exchange_host_clear(&host); /* before the turn has ended */
    wr_loop_turn(loop, 0);
    exchange = NULL;
    cr_assert_eq(host.spare_count, 0);
}

/* ---- the access log ---- */

static char logged[4096];

static void log_to(const char *path, void (*life)(void))
{
    struct wr_writer *writer;
    cr_assert_eq(wr_writer_open(path, 1 << 16, &writer), WR_OK);
    host.access_log = wr_access_log_new(writer, host.worker_metrics);
    life();
    wr_access_log_flush(host.access_log);
    wr_access_log_free(host.access_log);
    host.access_log = NULL;
    wr_writer_close(writer, 5 * WR_SEC);
    FILE *file = fopen(path, "r");
    cr_assert_not_null(file);
    logged[fread(logged, 1, sizeof(logged) - 1, file)] = '\0';
    fclose(file);
    unlink(path);
}

static void with_a_temporary_file(void (*life)(void))
{
    char path[] = "/tmp/weir-exchange-XXXXXX";
    int fd = mkstemp(path);
    cr_assert_geq(fd, 0);
    close(fd);
    log_to(path, life);
}

static void fail_in_the_middle(void)
{
    wr_fields_add_known(&request_head.fields, &exchange->arena, WR_FIELD_USER_AGENT, WR_STR("me"));
    exchange->request_id = WR_STR("id-1");
    exchange->cluster = WR_STR("app");
    send_request(WR_HEAD_LAST);
    answer(0);
    finish(WR_ERR_CLIENT_CLOSED);
}

static void be_refused_without_a_head(void)
{
    exchange->refused = WR_ERR_BAD_REQUEST;
    wr_exchange_blame(exchange, WR_ERR_BAD_REQUEST);
    finish(WR_OK);
}

static void expect_logged(const char *text)
{
    cr_expect_not_null(strstr(logged, text), "%s is not in %s", text, logged);
}

Test(exchange, one_line_of_the_access_log_an_exchange)
{
    with_a_temporary_file(fail_in_the_middle);
    cr_assert_eq(strchr(logged, '\n'), logged + strlen(logged) - 1);
    expect_logged("\"client_closed\"");
    expect_logged("\"192.0.2.1:5\"");
    expect_logged("\"POST\"");
    expect_logged("\"/\\\"x\"");
    expect_logged("\"me\"");
    expect_logged("\"id-1\"");
    expect_logged("\"app\"");
    expect_logged("204");
}

Test(exchange, a_request_without_a_head_is_logged_too)
{
    with_a_temporary_file(be_refused_without_a_head);
    expect_logged("\"bad_request\"");
}
