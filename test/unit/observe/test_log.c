#include <criterion/criterion.h>

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/time.h"
#include "observe/log.h"

static int reading_end;

/* Standard error becomes a pipe that holds all a test writes. */
static void catch_stderr(void)
{
    int ends[2];
    cr_assert_eq(pipe2(ends, O_NONBLOCK), 0);
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
    reading_end = ends[0];
}

static const char *caught(void)
{
    static char text[65536];
    ssize_t n = read(reading_end, text, sizeof(text) - 1);
    text[n > 0 ? n : 0] = '\0';
    return text;
}

static unsigned lines(const char *text)
{
    unsigned count = 0;
    for (; *text != '\0'; text++)
        count += *text == '\n';
    return count;
}

/* So that what follows happens within one second of the limit. */
static void wait_for_a_new_second(void)
{
    uint64_t second = wr_time_monotonic() / WR_SEC;
    while (wr_time_monotonic() / WR_SEC == second)
        usleep(1000);
}

TestSuite(log, .init = catch_stderr);

Test(log, a_line_has_time_level_module_and_text)
{
    wr_log(WR_LOG_WARN, "listener", "port %d: %s", 8443, "in use");
    const char *text = caught();
    unsigned year, month, day, hour, minute, second, usec;
    int end = 0;
    cr_assert_eq(sscanf(text, "%4u-%2u-%2uT%2u:%2u:%2u.%6uZ %n", &year, &month, &day, &hour,
                        &minute, &second, &usec, &end),
                 7, "'%s'", text);
    cr_assert_eq(end, 28);
    cr_assert_str_eq(text + end, "warn listener: port 8443: in use\n");
}

Test(log, lines_above_the_level_are_not_made)
{
    wr_log(WR_LOG_DEBUG, "test", "not by default");
    cr_assert_str_empty(caught());
    wr_log_set_level(WR_LOG_DEBUG);
    wr_log(WR_LOG_DEBUG, "test", "now");
    cr_assert_eq(lines(caught()), 1);
    wr_log_set_level(WR_LOG_ERROR);
    wr_log(WR_LOG_WARN, "test", "no");
    cr_assert_str_empty(caught());
    wr_log(WR_LOG_ERROR, "test", "yes");
    cr_assert_eq(lines(caught()), 1);
}

Test(log, hostile_bytes_cannot_break_a_line)
{
    char bytes[256];
    for (int i = 0; i < 255; i++)
        bytes[i] = (char)(i + 1);
    bytes[255] = '\0';
    wr_log(WR_LOG_WARN, "test", "%s", bytes);
    const char *text = caught();
    cr_assert_eq(lines(text), 1);
    for (const char *p = text; *p != '\n'; p++)
        cr_assert(*p >= 0x20 && *p < 0x7f);
    cr_assert_not_null(strstr(text, "\\x1b\\x1c"));
    cr_assert_not_null(strstr(text, "\\x7f\\x80"));
}

Test(log, a_long_line_is_cut)
{
    static char bytes[100000];
    memset(bytes, '\n', sizeof(bytes) - 1);
    wr_log(WR_LOG_WARN, "test", "%s", bytes);
    const char *text = caught();
    cr_assert_eq(lines(text), 1);
    cr_assert_lt(strlen(text), 4400);
    cr_assert_str_eq(text + strlen(text) - 5, " ...\n");
}

static void log_here(int i)
{
    wr_log(WR_LOG_WARN, "test", "line %d", i);
}

Test(log, repeats_of_one_place_are_counted_and_told_later)
{
    wait_for_a_new_second();
    for (int i = 0; i < 100; i++)
        log_here(i);
    wr_log(WR_LOG_WARN, "test", "another place");
    const char *text = caught();
    cr_assert_eq(lines(text), 2, "%s", text);
    cr_assert_not_null(strstr(text, "line 0\n"));
    cr_assert_not_null(strstr(text, "another place\n"));

    wait_for_a_new_second();
    log_here(100);
    text = caught();
    cr_assert_not_null(strstr(text, "line 100 (99 more left out before)\n"), "%s", text);
    wait_for_a_new_second();
    log_here(101);
    cr_assert_not_null(strstr(caught(), "line 101\n"));
}

static void *log_many(void *argument)
{
    (void)argument;
    for (int i = 0; i < 1000; i++)
        log_here(i);
    return NULL;
}

static unsigned long left_out(const char *text)
{
    unsigned long count = 0;
    const char *at = strstr(text, "(");
    return at != NULL && sscanf(at, "(%lu more", &count) == 1 ? count : 0;
}

Test(log, what_the_operator_did_is_never_left_out)
{
    for (int i = 0; i < 5; i++)
        wr_log(WR_LOG_INFO, "test", "listener %d", i);
    cr_assert_eq(lines(caught()), 5);
}

Test(log, threads_lose_no_count)
{
    pthread_t threads[3];
    wait_for_a_new_second();
    for (int i = 0; i < 3; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, log_many, NULL), 0);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(pthread_join(threads[i], NULL), 0);
    wait_for_a_new_second();
    log_here(1);
    unsigned long told = 0;
    unsigned count = 0;
    for (const char *line = caught(); *line != '\0'; line = strchr(line, '\n') + 1) {
        char one[512];
        (void)snprintf(one, sizeof(one), "%.*s", (int)strcspn(line, "\n"), line);
        told += left_out(one);
        count++;
    }
    cr_assert_eq(told + count, 3001);
}
