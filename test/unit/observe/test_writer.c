#include <criterion/criterion.h>

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/time.h"
#include "observe/writer.h"

#define LONG_TIME (20 * WR_SEC)

static char folder[] = "/tmp/weir-test-writer-XXXXXX";
static char path[64];

static void make_folder(void)
{
    cr_assert_not_null(mkdtemp(folder));
    (void)snprintf(path, sizeof(path), "%s/log", folder);
}

static void remove_folder(void)
{
    char other[80];
    (void)snprintf(other, sizeof(other), "%s.1", path);
    unlink(path);
    unlink(other);
    rmdir(folder);
}

TestSuite(writer, .init = make_folder, .fini = remove_folder);

static char *content(const char *name)
{
    static char text[1 << 20];
    FILE *file = fopen(name, "r");
    cr_assert_not_null(file, "no %s", name);
    size_t n = fread(text, 1, sizeof(text) - 1, file);
    (void)fclose(file);
    text[n] = '\0';
    return text;
}

static struct wr_writer *open_writer(const char *target, size_t max_queued)
{
    struct wr_writer *writer;
    cr_assert_eq(wr_writer_open(target, max_queued, &writer), WR_OK);
    return writer;
}

static bool put(struct wr_writer *writer, const char *text)
{
    return wr_writer_put(writer, text, strlen(text));
}

/* A FIFO at `path`; returns its reading end. */
static int make_fifo(void)
{
    cr_assert_eq(mkfifo(path, 0600), 0);
    int fd = open(path, O_RDONLY | O_NONBLOCK);
    cr_assert_geq(fd, 0);
    cr_assert_geq(fcntl(fd, F_SETPIPE_SZ, 4096), 4096);
    return fd;
}

/* Reads from FD until N bytes have come, and checks that they go on as the lines of fill(). */
static void read_all(int fd, size_t n)
{
    char bytes[5000];
    size_t seen = 0;
    fcntl(fd, F_SETFL, 0);
    while (seen < n) {
        ssize_t got = read(fd, bytes, sizeof(bytes));
        cr_assert_gt(got, 0);
        for (ssize_t i = 0; i < got; i++, seen++)
            if (bytes[i] != "012345678\n"[seen % 10])
                cr_assert_fail("byte %zu", seen);
    }
    cr_assert_eq(seen, n);
}

/* Puts lines until the queue is full; returns the bytes taken. */
static size_t fill(struct wr_writer *writer)
{
    size_t taken = 0;
    while (put(writer, "012345678\n"))
        taken += 10;
    return taken;
}

Test(writer, lines_come_in_order_and_the_file_is_appended_to)
{
    struct wr_writer *writer = open_writer(path, 1 << 16);
    cr_assert(put(writer, "one\n"));
    cr_assert(wr_writer_put(writer, "", 0));
    cr_assert(put(writer, "two\n"));
    wr_writer_close(writer, LONG_TIME);
    writer = open_writer(path, 1 << 16);
    cr_assert(put(writer, "three\n"));
    wr_writer_close(writer, LONG_TIME);
    cr_assert_str_eq(content(path), "one\ntwo\nthree\n");
    struct stat facts;
    cr_assert_eq(stat(path, &facts), 0);
    cr_assert_eq(facts.st_mode & 07, 0, "others may read it");
}

Test(writer, what_cannot_be_opened_is_an_error)
{
    struct wr_writer *writer;
    cr_assert_eq(wr_writer_open("/nowhere/at/all", 1, &writer), WR_ERR_SYSTEM);
    cr_assert_null(writer);
    cr_assert_eq(wr_writer_open(path, 0, &writer), WR_ERR_INVALID);
    cr_assert_eq(mkfifo(path, 0600), 0);
    cr_assert_eq(wr_writer_open(path, 1, &writer), WR_ERR_SYSTEM, "a FIFO nobody reads");
    wr_writer_close(NULL, 0);
}

Test(writer, no_descriptor_left_is_told_as_such)
{
    struct wr_writer *writer;
    struct rlimit limit;
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    rlim_t before = limit.rlim_cur;
    limit.rlim_cur = 0;
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    enum wr_err err = wr_writer_open(path, 1, &writer);
    limit.rlim_cur = before;
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    cr_assert_eq(err, WR_ERR_NO_DESCRIPTORS);
}

Test(writer, a_slow_reader_fills_the_queue_and_no_more_is_taken)
{
    int fd = make_fifo();
    struct wr_writer *writer = open_writer(path, 10000);
    size_t taken = fill(writer);
    cr_assert_geq(taken, 10000);
    /* The thread may still have been filling the pipe. */
    for (size_t more; (more = fill(writer)) > 0;)
        taken += more;
    cr_assert_leq(taken, 10000 + 4096);
    cr_assert_not(put(writer, "012345678\n"));

    read_all(fd, taken);
    while (!put(writer, "012345678\n"))
        usleep(1000);
    read_all(fd, 10);
    wr_writer_close(writer, LONG_TIME);
    close(fd);
}

Test(writer, close_waits_for_a_slow_reader_and_not_for_one_that_stalls)
{
    int fd = make_fifo();
    struct wr_writer *writer = open_writer(path, 50000);
    (void)fill(writer);
    uint64_t before = wr_time_monotonic();
    wr_writer_close(writer, 50 * WR_MSEC);
    uint64_t took = wr_time_monotonic() - before;
    cr_assert_geq(took, 50 * WR_MSEC);
    cr_assert_lt(took, 10 * WR_SEC);
    close(fd);
}

static void *read_later(void *argument)
{
    size_t *expected = ((void **)argument)[1];
    usleep(50000);
    read_all(*(int *)((void **)argument)[0], *expected);
    return NULL;
}

Test(writer, close_writes_all_that_was_taken)
{
    int fd = make_fifo();
    struct wr_writer *writer = open_writer(path, 100000);
    size_t taken = fill(writer);
    pthread_t reader;
    void *arguments[] = {&fd, &taken};
    cr_assert_eq(pthread_create(&reader, NULL, read_later, arguments), 0);
    wr_writer_close(writer, LONG_TIME);
    cr_assert_eq(pthread_join(reader, NULL), 0);
    close(fd);
}

/* Standard output that blocks and is not ours to change: the thread hangs in write(2) and is ended there. */
Test(writer, a_blocking_standard_output_does_not_keep_close_waiting)
{
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    int before = dup(STDOUT_FILENO);
    dup2(ends[1], STDOUT_FILENO);
    struct wr_writer *writer = open_writer("stdout", 1 << 20);
    (void)fill(writer);
    wr_writer_close(writer, 20 * WR_MSEC);
    cr_assert_eq(fcntl(STDOUT_FILENO, F_GETFL) & O_NONBLOCK, 0, "the flags of stdout were changed");
    dup2(before, STDOUT_FILENO);
    close(ends[0]);
    close(ends[1]);
}

Test(writer, a_reader_that_has_gone_does_no_harm)
{
    signal(SIGPIPE, SIG_DFL);
    int fd = make_fifo();
    struct wr_writer *writer = open_writer(path, 10000);
    close(fd);
    for (int i = 0; i < 50; i++) {
        while (!put(writer, "012345678\n"))
            usleep(1000);
    }
    wr_writer_close(writer, LONG_TIME);
}

/* Half a line went out before the disk was full: what comes later starts on a line of its own. */
Test(writer, a_torn_line_is_ended)
{
    char told[512] = "";
    int ends[2];
    int before = dup(STDERR_FILENO);
    cr_assert_eq(pipe(ends), 0);
    dup2(ends[1], STDERR_FILENO);
    struct rlimit limit = {.rlim_cur = 15, .rlim_max = RLIM_INFINITY};
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    struct wr_writer *writer = open_writer(path, 1000);
    cr_assert(put(writer, "012345678\n012345678\n"));
    cr_assert_gt(read(ends[0], told, sizeof(told) - 1), 0);
    cr_assert_not_null(strstr(told, "error writer: cannot write to /tmp/"), "%s", told);

    limit.rlim_cur = RLIM_INFINITY;
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    cr_assert(put(writer, "next\n"));
    wr_writer_close(writer, LONG_TIME);
    dup2(before, STDERR_FILENO);
    cr_assert_str_eq(content(path), "012345678\n01234\nnext\n");
}

Test(writer, reopening_after_a_rename_starts_a_new_file)
{
    char old[80];
    (void)snprintf(old, sizeof(old), "%s.1", path);
    struct wr_writer *writer = open_writer(path, 10000);
    cr_assert(put(writer, "before\n"));
    cr_assert_eq(rename(path, old), 0);
    wr_writer_reopen(writer);
    while (access(path, F_OK) != 0)
        usleep(1000);
    cr_assert(put(writer, "after\n"));
    wr_writer_close(writer, LONG_TIME);
    cr_assert_str_eq(content(old), "before\n");
    cr_assert_str_eq(content(path), "after\n");
}

#define THREADS 4
#define LINES 2000

static void *put_many(void *argument)
{
    void **arguments = argument;
    char line[64];
    for (int i = 0; i < LINES; i++) {
        (void)snprintf(line, sizeof(line), "%d %d\n", *(int *)arguments[1], i);
        while (!put(arguments[0], line))
            usleep(100);
    }
    return NULL;
}

Test(writer, lines_of_many_threads_stay_whole_and_in_each_ones_order)
{
    struct wr_writer *writer = open_writer(path, 4096);
    pthread_t threads[THREADS];
    int numbers[THREADS];
    void *arguments[THREADS][2];
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        arguments[i][0] = writer;
        arguments[i][1] = &numbers[i];
        cr_assert_eq(pthread_create(&threads[i], NULL, put_many, arguments[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_join(threads[i], NULL), 0);
    wr_writer_close(writer, LONG_TIME);

    int next[THREADS] = {0};
    for (const char *line = content(path); *line != '\0'; line = strchr(line, '\n') + 1) {
        int thread = -1;
        int n = -1;
        if (sscanf(line, "%d %d\n", &thread, &n) != 2 || thread < 0 || thread >= THREADS ||
            n != next[thread]++)
            cr_assert_fail("'%.20s'", line);
    }
    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(next[i], LINES);
}
